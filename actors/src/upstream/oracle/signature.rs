//! Signatures of answers (RFC 8032, RFC 7515, RFC 8037). What an answer says of its key and its algorithm is held against the
//! keys of its source, each of which is for one algorithm, and chooses nothing beside.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oracled_domain::base::raw::Raw;
use oracled_domain::verification::adapter::{Algorithm, KeyMaterial, PublicKey, SignaturePolicy};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a signature that holds covers, and whose it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed<'b> {
    /// What was signed.
    pub(super) document: Cow<'b, [u8]>,
    /// By which key.
    pub(super) kid: String,
    /// By which algorithm.
    pub(super) algorithm: Algorithm,
}

/// What of `body`, which came with these `headers`, is signed as `policy` has it by one of `keys`.
///
/// # Errors
/// Why the signature does not hold, in words that quote nothing.
pub(super) fn verify<'b>(
    policy: &SignaturePolicy,
    keys: &[PublicKey],
    headers: &BTreeMap<String, String>,
    body: &'b [u8],
) -> Result<Signed<'b>, &'static str> {
    let header = |name: &str, missing| headers.get(&name.to_ascii_lowercase()).ok_or(missing);
    match policy {
        SignaturePolicy::Ed25519 { header: name, key_id_header, .. } => {
            let signature = header(name, "there is no signature, or more than one")?;
            let signature =
                STANDARD.decode(signature).map_err(|_| "the signature is not written in base64")?;
            let kid = match key_id_header {
                Some(name) => Some(header(name, "nothing names the key, or more than one does")?.as_str()),
                None => None,
            };
            let key = signer(keys, kid, Algorithm::EdDSA, body, &signature)?;
            Ok(Signed { document: body.into(), kid: key.kid.clone(), algorithm: Algorithm::EdDSA })
        }
        SignaturePolicy::Jws { header: Some(name), .. } => {
            let token = header(name, "there is no signature, or more than one")?;
            let [protected, "", signature] = parts(token)? else {
                return Err("the signature in the header is not detached: what is signed stands in it");
            };
            let (kid, algorithm) = jws(keys, protected, &URL_SAFE_NO_PAD.encode(body), signature)?;
            Ok(Signed { document: body.into(), kid, algorithm })
        }
        SignaturePolicy::Jws { header: None, .. } => {
            let token = str::from_utf8(body).map_err(|_| "the body is no signature in compact form")?;
            let [protected, payload, signature] = parts(token.trim_ascii())?;
            let document =
                URL_SAFE_NO_PAD.decode(payload).map_err(|_| "what is signed is not written in base64url")?;
            let (kid, algorithm) = jws(keys, protected, payload, signature)?;
            Ok(Signed { document: document.into(), kid, algorithm })
        }
    }
}

/// The parts of a signature in compact form (RFC 7515, 7.1).
fn parts(token: &str) -> Result<[&str; 3], &'static str> {
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(protected), Some(payload), Some(signature), None) => Ok([protected, payload, signature]),
        _ => Err("it is no signature in compact form: that has three parts"),
    }
}

/// By which key, and by which algorithm, these parts of a JSON Web Signature are signed.
fn jws(
    keys: &[PublicKey],
    protected: &str,
    payload: &str,
    signature: &str,
) -> Result<(String, Algorithm), &'static str> {
    let signature_bytes =
        URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the signature is not written in base64url")?;
    let header = URL_SAFE_NO_PAD
        .decode(protected)
        .map_err(|_| "the signature's header is not written in base64url")?;
    let header = Raw::parse_object(&header).map_err(|_| "the signature's header is no JSON object")?;
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err("the signature has extensions (`crit`, `b64`); none is taken");
    }
    let algorithm = match header.get("alg") {
        Some(Raw::Text(alg)) if alg == "EdDSA" => Algorithm::EdDSA,
        Some(Raw::Text(alg)) if alg == "ES256" => Algorithm::ES256,
        Some(Raw::Text(alg)) if alg == "RS256" => Algorithm::RS256,
        _ => return Err("the signature's algorithm is not taken; allowed: EdDSA, ES256, RS256"),
    };
    let kid = match header.get("kid") {
        None => None,
        Some(Raw::Text(kid)) => Some(kid.as_str()),
        Some(_) => return Err("the signature's `kid` is no text"),
    };
    let signed = format!("{protected}.{payload}");
    let key = signer(keys, kid, algorithm, signed.as_bytes(), &signature_bytes)?;
    Ok((key.kid.clone(), algorithm))
}

/// The key by which `message` is signed: the one called `kid`, or any of the algorithm where none is named.
fn signer<'k>(
    keys: &'k [PublicKey],
    kid: Option<&str>,
    algorithm: Algorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<&'k PublicKey, &'static str> {
    let named: Vec<_> = keys.iter().filter(|key| kid.is_none_or(|kid| key.kid == kid)).collect();
    if named.is_empty() {
        return Err("it is signed by a key that is none of the source's");
    }
    let mut fit = named.into_iter().filter(|key| key.algorithm() == algorithm).peekable();
    if fit.peek().is_none() {
        return Err("it is signed by another algorithm than its key is for");
    }
    fit.find(|key| holds(key, message, signature)).ok_or("the signature does not hold")
}

fn holds(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
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
