//! SHA-256 digests as the log writes them: 64 lower-case hexadecimal digits.

use crate::sorted_json::{canonical_json, sorted_json};
use crate::wording::ParseTextError;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// The number of digits of a digest.
pub const DIGITS: usize = 64;
/// The initial buffer size, in bytes: enough for most JSON that is digested.
const JSON_BYTES: usize = 1024;

/// A SHA-256 digest, as 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(pattern = "^[0-9a-f]{64}$")]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut stream = Sha256Stream::default();
        stream.push(bytes);
        stream.finish()
    }

    /// The HMAC-SHA-256 of `bytes` under `key`. Without the key, a guess of the bytes cannot be checked.
    ///
    /// # Panics
    /// Never: HMAC accepts keys of any length.
    #[must_use]
    pub fn compute_hmac(key: &[u8], bytes: &[u8]) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
        mac.update(bytes);
        Self::from_bytes(&mac.finalize().into_bytes().into())
    }

    /// Whether this is the HMAC-SHA-256 of `bytes` under `key`, in a time that does not depend on the position of a
    /// difference.
    #[must_use]
    pub fn is_hmac_of(&self, key: &[u8], bytes: &[u8]) -> bool {
        let expected = Self::compute_hmac(key, bytes);
        Self::compute_hmac(key, self.0.as_bytes()) == Self::compute_hmac(key, expected.0.as_bytes())
    }

    /// Converts a digest from its 32 bytes.
    #[must_use]
    pub fn from_bytes(digest: &[u8; 32]) -> Self {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        let mut digits = [[0; 2]; 32];
        for (pair, byte) in digits.iter_mut().zip(digest.iter()) {
            *pair = [digit(byte >> 4), digit(byte & 0xf)];
        }
        Self(str::from_utf8(digits.as_flattened()).expect("digits are ASCII").to_owned())
    }

    /// The digest of the JSON that serde writes for `value`. It equals the digest of the canonical JSON (RFC
    /// 8785) if the members are in canonical order and no number has a fraction.
    pub fn of_json(value: &impl Serialize) -> Self {
        let mut json = Vec::with_capacity(JSON_BYTES);
        serde_json::to_writer(&mut json, value).expect("plain data with string keys serializes");
        Self::of(&json)
    }

    /// The digest of `value`'s canonical JSON (RFC 8785).
    ///
    /// # Panics
    /// If `value` cannot be written as JSON, for instance a map whose keys are not text.
    #[must_use]
    pub fn of_canonical_json(value: &impl Serialize) -> Self {
        if let Some(json) = canonical_json(value) {
            return Self::of(&json);
        }
        let value = serde_json::to_value(value).expect("plain data with string keys serializes");
        Self::of(&serde_json_canonicalizer::to_vec(&value).expect("plain data with string keys serializes"))
    }

    /// The 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        let digit = |digit: u8| if digit < b'a' { digit & 0xf } else { digit - b'a' + 10 };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(self.0.as_bytes().as_chunks::<2>().0) {
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        bytes
    }

    /// The 64 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The SHA-256 of a document's JSON with sorted members, so that the written order has no effect.
pub fn digest_of_json(document: &impl Serialize) -> Sha256Hex {
    Sha256Hex::of(&sorted_json(document))
}

impl FromStr for Sha256Hex {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        let is_digest = text.len() == DIGITS && text.bytes().all(is_digit);
        if is_digest {
            return Ok(Self(text.to_owned()));
        }
        let allowed = format!("{DIGITS} lower-case hexadecimal digits");
        Err(ParseTextError::new("a SHA-256 digest", text, allowed))
    }
}

/// Whether `byte` is a lower-case hexadecimal digit.
#[must_use]
pub const fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Computes the SHA-256 of bytes that arrive in pieces.
#[derive(Debug, Clone, Default)]
pub struct Sha256Stream(Sha256);

impl Sha256Stream {
    /// Adds the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all added bytes, as 32 bytes.
    #[must_use]
    pub fn finish_bytes(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The digest of all added bytes.
    #[must_use]
    pub fn finish(self) -> Sha256Hex {
        Sha256Hex::from_bytes(&self.finish_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    #[test]
    fn stream_digest_equals_the_digest_of_the_whole() {
        let mut stream = Sha256Stream::default();
        for piece in ["", "a", "bc"] {
            stream.push(piece.as_bytes());
        }
        assert_eq!(stream.finish(), Sha256Hex::of(b"abc"));
    }

    #[test]
    fn canonical_digest_equals_that_of_the_canonicalizer() {
        for json in [
            "{\"b\":[1,-9007199254740992,true,null,\"\\u0001\\n\u{20ac}\"],\"a\":{\"B\":\"\",\"A\":[]}}",
            "[9007199254740993,18446744073709551615]",
            "{\"b\":1.0,\"a\":[1e30,-0.0,0.5]}",
            "{\"\u{10000}\":1,\"\u{ffff}\":2,\"z\":3}",
        ] {
            let value: Value = serde_json::from_str(json).expect("JSON");
            let canonical = serde_json_canonicalizer::to_vec(&value).expect("JSON");
            assert_eq!(Sha256Hex::of_canonical_json(&value), Sha256Hex::of(&canonical), "{json}");
        }
    }

    #[test]
    fn canonical_digest_of_a_type_equals_that_of_its_value() {
        #[derive(Serialize)]
        struct Members {
            long: BTreeMap<i64, u8>,
            fraction: f64,
            #[serde(flatten)]
            others: BTreeMap<String, u8>,
        }
        let others = [("fraction".to_owned(), 2)].into();
        let members = Members { long: [(i64::MAX, 1)].into(), fraction: 0.5, others };
        let value = serde_json::to_value(&members).expect("JSON");
        assert_eq!(Sha256Hex::of_canonical_json(&members), Sha256Hex::of_canonical_json(&value));
    }

    #[test]
    fn digest_parses_only_64_lower_case_hex_digits() {
        let digest = Sha256Hex::of(b"abc");
        assert_eq!(digest.as_str().parse(), Ok(digest.clone()));
        let text = digest.as_str();
        for other in ["", &text[1..], &format!("{text}0"), &text.to_uppercase(), &text.replace('b', "g")] {
            assert!(other.parse::<Sha256Hex>().is_err(), "{other}");
        }
    }

    #[test]
    fn digest_of_abc_matches_fips_180() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Hex::of(b"abc").as_str(), digest);
    }

    #[test]
    fn keyed_digest_matches_rfc_4231() {
        let digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let text = b"what do ya want for nothing?";
        assert_eq!(Sha256Hex::compute_hmac(b"Jefe", text).as_str(), digest);
        let digest: Sha256Hex = digest.parse().expect("a digest");
        assert!(
            digest.is_hmac_of(b"Jefe", text)
                && !digest.is_hmac_of(b"Jefe", b"")
                && !digest.is_hmac_of(b"", text)
        );
    }
}
