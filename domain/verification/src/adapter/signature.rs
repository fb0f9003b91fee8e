//! The signature method and the keys of a source (RFC-0002, "Oracle Integrity Requirements"). Keys are JSON
//! Web Keys (RFC 7517). Each key is for one algorithm; the algorithm that an answer names never selects one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The maximum number of keys of a source, current and upcoming ones.
const KEYS_MAX: usize = 8;
/// The maximum length of a `kid`, in bytes.
const KID_MAX_BYTES: usize = 256;
/// The minimum length of an RSA modulus: 2048 bits. The maximum is 8192 bits.
const MODULUS_MIN_BYTES: usize = 256;
const MODULUS_MAX_BYTES: usize = 1024;
/// The exponent of RSA keys, 65537, in base64url.
const EXPONENT: &str = "AQAB";

/// The method and the keys by which answers are signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum SignaturePolicy {
    /// An Ed25519 signature (RFC 8032) of the unchanged body, in base64, in a header.
    Ed25519 {
        /// The name of the header with the signature.
        header: String,
        /// The name of the header with the `kid` of the key; without it, every key is tried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_id_header: Option<String>,
        /// The keys.
        keys: Vec<JsonWebKey>,
    },
    /// A JSON Web Signature in its compact form (RFC 7515).
    Jws {
        /// The name of the header with the detached signature of the body (appendix F). Without it, the body is the signature
        /// and contains the signed content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        header: Option<String>,
        /// The keys.
        keys: Vec<JsonWebKey>,
    },
}

/// A public key in JSON Web Key form (RFC 7517, RFC 7518, RFC 8037).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonWebKey {
    /// The key id, unique within the source.
    pub kid: String,
    /// The key type.
    pub kty: KeyType,
    /// The curve, for `OKP` and `EC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<KeyCurve>,
    /// The public key, for `OKP`, or the first coordinate, for `EC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The second coordinate, for `EC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// The modulus, for `RSA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// The exponent, for `RSA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// The algorithm; only that of the key type is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<SignatureAlgorithm>,
    /// The use; only `sig` is allowed.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub key_use: Option<KeyUse>,
}

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum KeyType {
    /// Edwards curves.
    #[serde(rename = "OKP")]
    Okp,
    /// Elliptic curves.
    #[serde(rename = "EC")]
    Ec,
    /// RSA.
    #[serde(rename = "RSA")]
    Rsa,
}

/// The curve of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum KeyCurve {
    /// Ed25519.
    Ed25519,
    /// P-256.
    #[serde(rename = "P-256")]
    P256,
}

/// A signature algorithm, one for each key type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[strum(const_into_str)]
pub enum SignatureAlgorithm {
    /// Ed25519 (RFC 8037).
    EdDSA,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// RSA PKCS #1 v1.5 with SHA-256.
    RS256,
}

/// The use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyUse {
    /// Signatures.
    Sig,
}

/// A validated key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key id.
    pub kid: String,
    /// The key itself.
    pub material: KeyMaterial,
}

/// The bytes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The 32 bytes of RFC 8032.
    Ed25519(Vec<u8>),
    /// The uncompressed point: the byte 4, then both coordinates.
    P256(Vec<u8>),
    /// Both numbers in big-endian order, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
}

impl PublicKey {
    /// The only algorithm of the key.
    #[must_use]
    pub const fn algorithm(&self) -> SignatureAlgorithm {
        match self.material {
            KeyMaterial::Ed25519(_) => SignatureAlgorithm::EdDSA,
            KeyMaterial::P256(_) => SignatureAlgorithm::ES256,
            KeyMaterial::Rsa { .. } => SignatureAlgorithm::RS256,
        }
    }
}

impl SignaturePolicy {
    /// The keys as written in the document.
    #[must_use]
    pub fn keys(&self) -> &[JsonWebKey] {
        let (Self::Ed25519 { keys, .. } | Self::Jws { keys, .. }) = self;
        keys
    }

    /// The headers that are read, each with its field in the document.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (signature, key_id) = match self {
            Self::Ed25519 { header, key_id_header, .. } => (Some(header), key_id_header.as_ref()),
            Self::Jws { header, .. } => (header.as_ref(), None),
        };
        let signature = signature.map(|name| ("signature.header", name.as_str()));
        signature.into_iter().chain(key_id.map(|name| ("signature.key_id_header", name.as_str())))
    }

    /// The validated keys, or the first invalid key with its fault.
    pub(super) fn validate_keys(&self) -> Result<Vec<PublicKey>, String> {
        let keys = self.keys();
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(format!("there are {} keys; allowed: 1 to {KEYS_MAX}", keys.len()));
        }
        let mut kids = BTreeSet::new();
        let mut ready = Vec::new();
        for jwk in keys {
            if jwk.kid.is_empty() || jwk.kid.len() > KID_MAX_BYTES || jwk.kid.chars().any(char::is_control) {
                return Err(format!(
                    "a `kid` is invalid; allowed: 1 to {KID_MAX_BYTES} bytes, no control characters"
                ));
            }
            let fault = |fault: &str| format!("key `{}`: {fault}", jwk.kid);
            if !kids.insert(&jwk.kid) {
                return Err(fault("another key has the same `kid`"));
            }
            let key = PublicKey { kid: jwk.kid.clone(), material: jwk.material().map_err(fault)? };
            if jwk.alg.is_some_and(|alg| alg != key.algorithm()) {
                return Err(fault(&format!(
                    "its `alg` is not the one of its type, {}",
                    key.algorithm().into_str()
                )));
            }
            if matches!(self, Self::Ed25519 { .. }) && key.algorithm() != SignatureAlgorithm::EdDSA {
                return Err(fault("the method `ed25519` requires `kty` `OKP` and `crv` `Ed25519`"));
            }
            ready.push(key);
        }
        Ok(ready)
    }
}

impl JsonWebKey {
    fn material(&self) -> Result<KeyMaterial, &'static str> {
        match (self.kty, self.crv, &self.x, &self.y, &self.n, &self.e) {
            (KeyType::Okp, Some(KeyCurve::Ed25519), Some(x), None, None, None) => {
                let x = coordinate(x)?;
                check_ed25519(&x)?;
                Ok(KeyMaterial::Ed25519(x.to_vec()))
            }
            (KeyType::Ec, Some(KeyCurve::P256), Some(x), Some(y), None, None) => {
                let (x, y) = (coordinate(x)?, coordinate(y)?);
                let point = [&[4], x.as_slice(), &y].concat();
                check_p256(&point)?;
                Ok(KeyMaterial::P256(point))
            }
            (KeyType::Rsa, None, None, None, Some(n), Some(e)) => {
                let modulus = bytes(n)?;
                let fits = (MODULUS_MIN_BYTES..=MODULUS_MAX_BYTES).contains(&modulus.len());
                if !fits || modulus.first() == Some(&0) {
                    return Err("its `n` is invalid; allowed: 2048 to 8192 bits, no leading zeros");
                }
                if e != EXPONENT {
                    return Err("its `e` is not allowed; allowed: `AQAB`, which is 65537");
                }
                Ok(KeyMaterial::Rsa { modulus, exponent: bytes(e)? })
            }
            _ => Err(
                "allowed: `OKP` with `crv` `Ed25519` and `x`; `EC` with `crv` `P-256`, `x` and `y`; `RSA` with `n` \
                      and `e`",
            ),
        }
    }
}

/// Decodes base64url.
fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "a number in it is not base64url without `=`")
}

fn coordinate(text: &str) -> Result<[u8; CURVE_BYTES], &'static str> {
    bytes(text)?.try_into().map_err(|_| "its `x` or `y` does not have 32 bytes")
}

/// The length of an Ed25519 key, and of one coordinate of P-256, in bytes.
const CURVE_BYTES: usize = 32;

/// Checks that these bytes are the canonical form of a point of Ed25519 (RFC 8032, 5.1.2), and that the order
/// of the point is not small: a key of small order verifies forged signatures.
///
/// # Errors
/// The fault and what is allowed.
fn check_ed25519(x: &[u8; CURVE_BYTES]) -> Result<(), &'static str> {
    const NO_POINT: &str = "its `x` is not a point of Ed25519; allowed: a public key in the form of RFC 8032";
    let point = CompressedEdwardsY(*x).decompress().ok_or(NO_POINT)?;
    // `decompress` also accepts a `y` that is not reduced, which differs in its first byte; the sign of `x`
    // is in the last one
    if point.compress().0.first() != x.first() {
        return Err(NO_POINT);
    }
    if point.is_small_order() {
        return Err(
            "its `x` is a point of small order, which verifies forged signatures; allowed: the public key of a \
                    key pair",
        );
    }
    Ok(())
}

/// Checks that `point`, in the uncompressed form of SEC 1, is a point of P-256.
///
/// # Errors
/// The fault and what is allowed.
fn check_p256(point: &[u8]) -> Result<(), &'static str> {
    let fault = |_| "its `x` and `y` are not a point of P-256; allowed: the coordinates of a public key";
    p256::PublicKey::from_sec1_bytes(point).map(drop).map_err(fault)
}
