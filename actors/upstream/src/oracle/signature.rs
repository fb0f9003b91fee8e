//! Signatures of answers (RFC 8032, RFC 7515, RFC 8037). The key id and the algorithm in an answer are
//! checked against the keys registered for the source, each of which is for one algorithm. An answer cannot
//! choose any other key or algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain_base::raw::SourceValue;
use domain_verification::adapter::{KeyMaterial, PublicKey, SignatureAlgorithm, SignaturePolicy};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The content that a valid signature covers, and its signer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignedContent<'b> {
    /// The signed bytes.
    pub(super) document: Cow<'b, [u8]>,
    /// Id of the key that signed.
    pub(super) kid: String,
    pub(super) algorithm: SignatureAlgorithm,
}

/// Verifies the signature of `body` under `policy` against `keys`, and returns the signed content.
///
/// # Errors
/// Why the signature is invalid, without any quote from the answer.
pub(super) fn verify<'b>(
    policy: &SignaturePolicy,
    keys: &[PublicKey],
    headers: &BTreeMap<String, String>,
    body: &'b [u8],
) -> Result<SignedContent<'b>, &'static str> {
    let header = |name: &str, missing| headers.get(&name.to_ascii_lowercase()).ok_or(missing);
    match policy {
        SignaturePolicy::Ed25519 { header: name, key_id_header, .. } => {
            let signature = header(name, "the answer has no signature, or more than one")?;
            let signature = STANDARD.decode(signature).map_err(|_| "the signature is not in base64")?;
            let kid = match key_id_header {
                Some(name) => Some(header(name, "the answer has no key id, or more than one")?.as_str()),
                None => None,
            };
            let key = signer(keys, kid, SignatureAlgorithm::EdDSA, body, &signature)?;
            Ok(SignedContent {
                document: body.into(),
                kid: key.kid.clone(),
                algorithm: SignatureAlgorithm::EdDSA,
            })
        }
        SignaturePolicy::Jws { header: Some(name), .. } => {
            let token = header(name, "the answer has no signature, or more than one")?;
            let [protected, "", signature] = parts(token)? else {
                return Err("the signature in the header is not detached: it contains a payload");
            };
            let (kid, algorithm) = jws(keys, protected, &URL_SAFE_NO_PAD.encode(body), signature)?;
            Ok(SignedContent { document: body.into(), kid, algorithm })
        }
        SignaturePolicy::Jws { header: None, .. } => {
            let token = str::from_utf8(body).map_err(|_| "the body is not a signature in compact form")?;
            let [protected, payload, signature] = parts(token.trim_ascii())?;
            let document =
                URL_SAFE_NO_PAD.decode(payload).map_err(|_| "the signed payload is not in base64url")?;
            let (kid, algorithm) = jws(keys, protected, payload, signature)?;
            Ok(SignedContent { document: document.into(), kid, algorithm })
        }
    }
}

/// The parts of a signature in compact form (RFC 7515, 7.1).
fn parts(token: &str) -> Result<[&str; 3], &'static str> {
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(protected), Some(payload), Some(signature), None) => Ok([protected, payload, signature]),
        _ => Err("the signature is not in compact form (three parts, separated by dots)"),
    }
}

/// Verifies a JSON Web Signature, and returns the key id and the algorithm.
fn jws(
    keys: &[PublicKey],
    protected: &str,
    payload: &str,
    signature: &str,
) -> Result<(String, SignatureAlgorithm), &'static str> {
    let signature_bytes =
        URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the signature is not in base64url")?;
    let header =
        URL_SAFE_NO_PAD.decode(protected).map_err(|_| "the signature's header is not in base64url")?;
    let header =
        SourceValue::parse_object(&header).map_err(|_| "the signature's header is not a JSON object")?;
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err("the signature has extensions (`crit` or `b64`), which are not supported");
    }
    let algorithm = match header.get("alg") {
        Some(SourceValue::Text(alg)) if alg == "EdDSA" => SignatureAlgorithm::EdDSA,
        Some(SourceValue::Text(alg)) if alg == "ES256" => SignatureAlgorithm::ES256,
        Some(SourceValue::Text(alg)) if alg == "RS256" => SignatureAlgorithm::RS256,
        _ => return Err("the signature's algorithm is not supported; allowed: EdDSA, ES256, RS256"),
    };
    let kid = match header.get("kid") {
        None => None,
        Some(SourceValue::Text(kid)) => Some(kid.as_str()),
        Some(_) => return Err("the signature's `kid` is not a string"),
    };
    let signed = format!("{protected}.{payload}");
    let key = signer(keys, kid, algorithm, signed.as_bytes(), &signature_bytes)?;
    Ok((key.kid.clone(), algorithm))
}

/// Finds the key that signed `message`: the key `kid`, or any key of the algorithm if `kid` is `None`.
fn signer<'k>(
    keys: &'k [PublicKey],
    kid: Option<&str>,
    algorithm: SignatureAlgorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<&'k PublicKey, &'static str> {
    let named: Vec<_> = keys.iter().filter(|key| kid.is_none_or(|kid| key.kid == kid)).collect();
    if named.is_empty() {
        return Err("the signing key is not registered for the source");
    }
    let mut fit = named.into_iter().filter(|key| key.algorithm() == algorithm).peekable();
    if fit.peek().is_none() {
        return Err("the signature's algorithm differs from the algorithm of its key");
    }
    fit.find(|key| is_valid_signature(key, message, signature)).ok_or("the signature is invalid")
}

fn is_valid_signature(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let verified = match &key.material {
        KeyMaterial::Ed25519(bytes) => UnparsedPublicKey::new(&ED25519, bytes).verify(message, signature),
        KeyMaterial::P256(bytes) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes).verify(message, signature)
        }
        KeyMaterial::Rsa { modulus: n, exponent: e } => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
        }
    };
    verified.is_ok()
}
