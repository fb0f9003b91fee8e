//! How a source signs, and by which keys (RFC-0002, "Oracle Integrity Requirements"). Keys are JSON Web Keys (RFC 7517), and
//! each is for one algorithm: what an answer says of its algorithm chooses none.

use super::point::{CURVE_BYTES, check_ed25519, check_p256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;

/// The most keys of a source: those of now, and those that come next.
const KEYS_MAX: usize = 8;
/// The longest name of a key, in bytes.
const KID_MAX_BYTES: usize = 256;
/// An RSA modulus has 2048 to 8192 bits.
const MODULUS_MIN_BYTES: usize = 256;
const MODULUS_MAX_BYTES: usize = 1024;
/// The exponent of RSA keys, 65537, in base64url.
const EXPONENT: &str = "AQAB";

/// How answers are signed, and by whose keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum SignaturePolicy {
    /// A header holds the Ed25519 signature (RFC 8032) of the body as it comes, in base64.
    Ed25519 {
        /// Which header.
        header: String,
        /// The header that names the key by its `kid`; where this is left out, any of them may be the one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_id_header: Option<String>,
        /// The keys.
        keys: Vec<Jwk>,
    },
    /// A JSON Web Signature in its compact form (RFC 7515).
    Jws {
        /// The header that holds it, detached (appendix F): then the body is what is signed. The body itself is the signature
        /// with what is signed in it where this is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        header: Option<String>,
        /// The keys.
        keys: Vec<Jwk>,
    },
}

/// A public key as RFC 7517, RFC 7518 and RFC 8037 write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwk {
    /// What it is called: different from the others of its source.
    pub kid: String,
    /// What it is of.
    pub kty: KeyType,
    /// On which curve, for `OKP` and `EC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<Curve>,
    /// The point, or its first coordinate.
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
    /// For which algorithm, where it says so: that of its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<Algorithm>,
    /// What for, where it says so.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub key_use: Option<KeyUse>,
}

/// What keys are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// The curves that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Curve {
    /// Ed25519.
    Ed25519,
    /// P-256.
    #[serde(rename = "P-256")]
    P256,
}

/// The algorithms that are taken, one for each type of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[strum(const_into_str)]
pub enum Algorithm {
    /// Ed25519 (RFC 8037).
    EdDSA,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// RSA PKCS #1 v1.5 with SHA-256.
    RS256,
}

/// What keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyUse {
    /// Signatures.
    Sig,
}

/// A key made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// What it is called.
    pub kid: String,
    /// It.
    pub material: KeyMaterial,
}

/// A key in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The 32 bytes of RFC 8032.
    Ed25519(Vec<u8>),
    /// The point, uncompressed: 4, then both coordinates.
    P256(Vec<u8>),
    /// Both numbers, the highest byte first, without zeros in front.
    Rsa {
        /// The modulus.
        modulus: Vec<u8>,
        /// The exponent.
        exponent: Vec<u8>,
    },
}

impl PublicKey {
    /// The one algorithm that it is for.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self.material {
            KeyMaterial::Ed25519(_) => Algorithm::EdDSA,
            KeyMaterial::P256(_) => Algorithm::ES256,
            KeyMaterial::Rsa { .. } => Algorithm::RS256,
        }
    }
}

impl SignaturePolicy {
    /// The keys as they stand in the document.
    #[must_use]
    pub fn keys(&self) -> &[Jwk] {
        let (Self::Ed25519 { keys, .. } | Self::Jws { keys, .. }) = self;
        keys
    }

    /// The headers that it reads, each with its place in the document.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (signature, key_id) = match self {
            Self::Ed25519 { header, key_id_header, .. } => (Some(header), key_id_header.as_ref()),
            Self::Jws { header, .. } => (header.as_ref(), None),
        };
        let signature = signature.map(|name| ("signature.header", name.as_str()));
        signature.into_iter().chain(key_id.map(|name| ("signature.key_id_header", name.as_str())))
    }

    /// The keys made ready; else what is wrong with which, in words.
    pub(super) fn made_ready(&self) -> Result<Vec<PublicKey>, String> {
        let keys = self.keys();
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(format!("there are {} keys; 1 to {KEYS_MAX} are taken", keys.len()));
        }
        let mut kids = BTreeSet::new();
        let mut ready = Vec::new();
        for jwk in keys {
            if jwk.kid.is_empty() || jwk.kid.len() > KID_MAX_BYTES || jwk.kid.chars().any(char::is_control) {
                return Err(format!("a `kid` has 1 to {KID_MAX_BYTES} bytes, none of control"));
            }
            let fault = |fault: &str| format!("key `{}`: {fault}", jwk.kid);
            if !kids.insert(&jwk.kid) {
                return Err(fault("there is another one of this `kid`"));
            }
            let key = PublicKey { kid: jwk.kid.clone(), material: jwk.material().map_err(fault)? };
            if jwk.alg.is_some_and(|alg| alg != key.algorithm()) {
                return Err(fault(&format!(
                    "its `alg` is not that of its type, {}",
                    key.algorithm().into_str()
                )));
            }
            if matches!(self, Self::Ed25519 { .. }) && key.algorithm() != Algorithm::EdDSA {
                return Err(fault("by `ed25519` a key is of `OKP` and on `Ed25519`"));
            }
            ready.push(key);
        }
        Ok(ready)
    }
}

impl Jwk {
    fn material(&self) -> Result<KeyMaterial, &'static str> {
        match (self.kty, self.crv, &self.x, &self.y, &self.n, &self.e) {
            (KeyType::Okp, Some(Curve::Ed25519), Some(x), None, None, None) => {
                let x = coordinate(x)?;
                check_ed25519(&x)?;
                Ok(KeyMaterial::Ed25519(x.to_vec()))
            }
            (KeyType::Ec, Some(Curve::P256), Some(x), Some(y), None, None) => {
                let (x, y) = (coordinate(x)?, coordinate(y)?);
                let point = [&[4], x.as_slice(), &y].concat();
                check_p256(&point)?;
                Ok(KeyMaterial::P256(point))
            }
            (KeyType::Rsa, None, None, None, Some(n), Some(e)) => {
                let modulus = bytes(n)?;
                let fits = (MODULUS_MIN_BYTES..=MODULUS_MAX_BYTES).contains(&modulus.len());
                if !fits || modulus.first() == Some(&0) {
                    return Err("its `n` has 2048 to 8192 bits, and no zeros in front");
                }
                if e != EXPONENT {
                    return Err("its `e` is `AQAB`, which is 65537");
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

/// The bytes that `text` writes in base64url.
fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "its numbers are written in base64url, without `=`")
}

fn coordinate(text: &str) -> Result<[u8; CURVE_BYTES], &'static str> {
    bytes(text)?.try_into().map_err(|_| "its `x` and `y` have 32 bytes each")
}
