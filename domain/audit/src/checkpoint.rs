//! Checkpoints of the log: its size and its root, as a signed note (C2SP `tlog-checkpoint` and `signed-note`, Ed25519).

use crate::log_tree::TreeHash;
use crate::signed_note::{SignedNote, VerifierKey, is_name, signature_line};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::str::FromStr;

/// The type of a key that signs checkpoints.
const ED25519_TYPE: u8 = 1;
/// The length of the secret from which a key is made, in bytes.
pub const SECRET_BYTES: usize = 32;

/// The first line of the signed text of a backup's manifest. A checkpoint begins with the name of a log, so that neither signature is
/// valid for the other text.
const MANIFEST_START: &str = "oracled backup manifest\n";

/// Why a text is not a checkpoint, or is not signed by the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error(
        "the text is not a checkpoint; allowed: the lines of a signed note, with the origin, the size of the log and its root, \
         a blank line, and only signatures after it"
    )]
    Malformed,
    #[error("the checkpoint is of another log: its origin is not the name of the key")]
    Origin,
    #[error(
        "the checkpoint is not signed with this key; name the key that signed it (each `service_started` has the key)"
    )]
    Unsigned,
    #[error("the signature of the checkpoint is not valid: the checkpoint was changed")]
    Forged,
}

/// Why a text is not the public key of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the key of a log; allowed: NAME+ID+KEY, as `oraclectl log key` prints it")]
pub struct LogKeyError;

/// The size of the log and its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log.
    pub origin: String,
    /// The number of entries.
    pub size: u64,
    pub root: TreeHash,
}

/// The public key of a log. Its name is that of the log.
pub type LogKey = VerifierKey<ED25519_TYPE>;

/// The key with which a daemon signs checkpoints.
pub struct LogSigner {
    key: LogKey,
    pair: Ed25519KeyPair,
}

impl fmt::Debug for LogSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSigner").field("key", &self.key).finish_non_exhaustive()
    }
}

impl LogKey {
    /// Checks a checkpoint that was signed by this key.
    ///
    /// # Errors
    /// If `note` is no checkpoint, or not one of this log.
    pub fn verify(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let SignedNote { text, signatures } = SignedNote::read(note).ok_or(CheckpointError::Malformed)?;
        let checkpoint: Checkpoint = text.parse()?;
        if checkpoint.origin != self.name {
            return Err(CheckpointError::Origin);
        }
        let signature = signatures.iter().find_map(|signature| self.own_signature(signature));
        let signature = signature.ok_or(CheckpointError::Unsigned)?;
        if !self.has_signed(text.as_bytes(), signature) {
            return Err(CheckpointError::Forged);
        }
        Ok(checkpoint)
    }
}

impl LogKey {
    /// Whether `signature`, in Base64, is that of this key over the text of a backup's manifest.
    #[must_use]
    pub fn has_signed_manifest(&self, manifest: &str, signature: &str) -> bool {
        let signature = BASE64_STANDARD.decode(signature);
        signature.is_ok_and(|signature| self.has_signed(manifest_statement(manifest).as_bytes(), &signature))
    }
}

/// The text that is signed for a backup's manifest.
fn manifest_statement(manifest: &str) -> String {
    format!("{MANIFEST_START}{manifest}\n")
}

impl FromStr for LogKey {
    type Err = LogKeyError;

    fn from_str(text: &str) -> Result<Self, LogKeyError> {
        Self::read(text).ok_or(LogKeyError)
    }
}

impl LogSigner {
    /// The key of the log `name`, made from a random secret.
    ///
    /// # Panics
    /// If `name` is empty, or has white space or a plus sign.
    #[must_use]
    pub fn new(name: &str, secret: &[u8; SECRET_BYTES]) -> Self {
        assert!(is_name(name), "the name of a log has no white space and no plus sign: {name:?}");
        let pair = Ed25519KeyPair::from_seed_unchecked(secret).expect("the secret has the right length");
        let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        Self { key: LogKey::new(name, public), pair }
    }

    /// The public key.
    #[must_use]
    pub const fn key(&self) -> &LogKey {
        &self.key
    }

    /// The signed checkpoint of a log of this size with this root.
    #[must_use]
    pub fn sign(&self, size: u64, root: TreeHash) -> String {
        let origin = self.key.name.clone();
        let text = Checkpoint { origin, size, root }.to_string();
        let signature = self.pair.sign(text.as_bytes());
        format!("{text}\n{}", signature_line(&self.key, signature.as_ref()))
    }

    /// The signature of the text of a backup's manifest, in Base64.
    #[must_use]
    pub fn sign_manifest(&self, manifest: &str) -> String {
        BASE64_STANDARD.encode(self.pair.sign(manifest_statement(manifest).as_bytes()))
    }
}

impl Checkpoint {
    /// The checkpoint in a signed note. Its signatures are not verified.
    ///
    /// # Errors
    /// If `note` is no checkpoint.
    pub fn read_unverified(note: &str) -> Result<Self, CheckpointError> {
        SignedNote::read(note).ok_or(CheckpointError::Malformed)?.text.parse()
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, size, root } = self;
        write!(f, "{origin}\n{size}\n{}\n", BASE64_STANDARD.encode(root))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let parse = || {
            let mut lines = text.strip_suffix('\n')?.split('\n');
            let (origin, size, root) = (lines.next()?, lines.next()?.parse().ok()?, lines.next()?);
            let root = BASE64_STANDARD.decode(root).ok()?.try_into().ok()?;
            Some(Self { origin: origin.to_owned(), size, root })
        };
        // there is one form, without further lines
        parse().filter(|checkpoint| checkpoint.to_string() == text).ok_or(CheckpointError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_tree::leaf_hash;

    /// The key and the note in the description of Go's `golang.org/x/mod/sumdb/note`.
    #[test]
    fn key_of_another_implementation_is_read() {
        let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let key: LogKey = text.parse().expect("a key");
        assert_eq!((key.name.as_str(), key.to_string().as_str()), ("PeterNeumann", text));
        for damaged in
            ["PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "PeterNeumann", "a+b+c"]
        {
            assert_eq!(damaged.parse::<LogKey>(), Err(LogKeyError), "{damaged}");
        }
    }

    #[test]
    fn checkpoint_is_accepted_only_unchanged_and_under_its_key() {
        let signer = LogSigner::new("oracled/1", &[7; SECRET_BYTES]);
        let (note, root) = (signer.sign(42, leaf_hash(b"x")), leaf_hash(b"x"));
        let key: LogKey = signer.key().to_string().parse().expect("a key");
        let checkpoint = Checkpoint { origin: "oracled/1".into(), size: 42, root };
        assert_eq!(key.verify(&note), Ok(checkpoint));
        let other = LogSigner::new("oracled/1", &[8; SECRET_BYTES]);
        assert_eq!(other.key().verify(&note), Err(CheckpointError::Unsigned));
        let elsewhere = LogSigner::new("oracled/2", &[7; SECRET_BYTES]);
        assert_eq!(elsewhere.key().verify(&note), Err(CheckpointError::Origin));
        assert_eq!(key.verify(&note.replace("42", "43")), Err(CheckpointError::Forged));
        for at in 0..note.len() {
            let mut changed = note.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8_lossy(&changed).into_owned();
            assert!(key.verify(&changed).is_err(), "{at}: {changed}");
        }
        for text in ["", "\n\n", "a\n1\n", "a\n01\nAA==\n\n\u{2014} a AA==\n", &note[..note.len() / 2]] {
            assert!(key.verify(text).is_err(), "{text}");
        }
    }

    #[test]
    fn signature_of_a_manifest_is_valid_only_for_its_text_and_key() {
        let (signer, other) = (
            LogSigner::new("oracled/1", &[7; SECRET_BYTES]),
            LogSigner::new("oracled/1", &[8; SECRET_BYTES]),
        );
        let signature = signer.sign_manifest("{}");
        assert!(signer.key().has_signed_manifest("{}", &signature));
        assert!(!signer.key().has_signed_manifest("{} ", &signature));
        assert!(!other.key().has_signed_manifest("{}", &signature));
        for text in ["", "AAAA", "no Base64!", &signature[1..]] {
            assert!(!signer.key().has_signed_manifest("{}", text), "{text}");
        }
        // the signature of a checkpoint is not that of a manifest with the same text
        let note = signer.sign(1, leaf_hash(b"x"));
        let (text, line) = note.split_once("\n\n").expect("a note has a blank line");
        let signed = BASE64_STANDARD.decode(line.trim_end().rsplit(' ').next().unwrap_or_default());
        let signed = BASE64_STANDARD.encode(&signed.expect("Base64")[4..]);
        assert!(!signer.key().has_signed_manifest(text, &signed));
    }

    #[test]
    fn note_is_refused_with_junk_after_its_signatures() {
        let signer = LogSigner::new("oracled/1", &[7; SECRET_BYTES]);
        let (note, key) = (signer.sign(42, leaf_hash(b"x")), signer.key());
        // another key, such as that of a witness, may sign too
        assert!(key.verify(&format!("{note}\u{2014} witness AAAAAAAA\n")).is_ok());
        for junk in [
            "junk",
            "junk\n",
            "\n",
            "\u{2014} witness AAAAAAAA",
            "\u{2014} witness AAAA=\n",
            "\u{2014} witness AAAAAA==\n",
            "\u{2014} witness  AAAAAAAA\n",
            "\u{2014} witness\n",
            "\u{2014} a+b AAAAAAAA\n",
            "\u{2014} witness AAAAAAAA\r\n",
        ] {
            let refused = key.verify(&format!("{note}{junk}"));
            assert_eq!(refused, Err(CheckpointError::Malformed), "{junk:?}");
        }
        assert_eq!(key.verify(note.trim_end()), Err(CheckpointError::Malformed));
    }
}
