//! SHA-256 digests as they stand in the log: 64 lower-case hexadecimal digits.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The SHA-256 of some bytes, written as 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut digits = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            for nibble in [byte >> 4, byte & 0xf] {
                digits.push(char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }));
            }
        }
        Self(digits)
    }

    /// The digest of `value`'s JSON as serde writes it. It is that of the canonical JSON (RFC 8785) for whatever has its
    /// members in that order and no fractions.
    pub(crate) fn of_json(value: &impl Serialize) -> Self {
        Self::of(&serde_json::to_vec(value).expect("plain data with text for keys has a JSON"))
    }

    /// The 64 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_the_one_of_fips_180() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Hex::of(b"abc").as_str(), digest);
    }
}
