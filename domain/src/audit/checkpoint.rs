//! Checkpoints of the log: its size and its root, as a signed note (C2SP `tlog-checkpoint` and `signed-note`, Ed25519).

use crate::audit::log_tree::TreeHash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The type of an Ed25519 key in a signed note.
const ED25519_TYPE: u8 = 1;
/// The start of a line with a signature.
const SIGNATURE_START: &str = "\u{2014} ";
/// The length of the secret from which a key is made, in bytes.
pub const SECRET_BYTES: usize = 32;

/// Why a text is not a checkpoint, or is not signed by the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error(
        "the text is not a checkpoint; allowed: the lines of a signed note, with the origin, the size of the log and its root"
    )]
    Malformed,
    #[error("the checkpoint is of another log: its origin is not the name of the key")]
    Origin,
    #[error("the checkpoint has no signature of this key")]
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

/// The public key of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogKey {
    /// The name of the log, which is also that of the key.
    pub name: String,
    public: [u8; 32],
}

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
    /// The id by which a signature names its key.
    fn id(&self) -> [u8; 4] {
        let hash = Sha256::new_with_prefix(self.name.as_bytes())
            .chain_update([b'\n', ED25519_TYPE])
            .chain_update(self.public)
            .finalize();
        let mut id = [0; 4];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        id
    }

    /// Checks a checkpoint that was signed by this key.
    ///
    /// # Errors
    /// If `note` is no checkpoint, or not one of this log.
    pub fn verify(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let (text, signatures) = note.rsplit_once("\n\n").ok_or(CheckpointError::Malformed)?;
        let text = format!("{text}\n");
        let checkpoint: Checkpoint = text.parse()?;
        if checkpoint.origin != self.name {
            return Err(CheckpointError::Origin);
        }
        let signature = signatures.lines().find_map(|line| {
            let (name, signature) = line.strip_prefix(SIGNATURE_START)?.split_once(' ')?;
            let signature = BASE64_STANDARD.decode(signature).ok().filter(|_| name == self.name)?;
            signature.strip_prefix(&self.id()).map(<[u8]>::to_vec)
        });
        let signature = signature.ok_or(CheckpointError::Unsigned)?;
        let public = UnparsedPublicKey::new(&ED25519, self.public);
        public.verify(text.as_bytes(), &signature).map_err(|_| CheckpointError::Forged)?;
        Ok(checkpoint)
    }
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u32::from_be_bytes(self.id());
        let key = BASE64_STANDARD.encode([&[ED25519_TYPE][..], &self.public].concat());
        write!(f, "{}+{id:08x}+{key}", self.name)
    }
}

impl FromStr for LogKey {
    type Err = LogKeyError;

    fn from_str(text: &str) -> Result<Self, LogKeyError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(_), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(LogKeyError);
        };
        let key = BASE64_STANDARD.decode(key).map_err(|_| LogKeyError)?;
        let public = key.strip_prefix(&[ED25519_TYPE]).and_then(|public| public.try_into().ok());
        let key = Self { name: name.to_owned(), public: public.ok_or(LogKeyError)? };
        // the id is a check digit
        if is_name(name) && key.to_string() == text { Ok(key) } else { Err(LogKeyError) }
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
        Self { key: LogKey { name: name.to_owned(), public }, pair }
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
        let signature = BASE64_STANDARD.encode([&self.key.id(), signature.as_ref()].concat());
        format!("{text}\n{SIGNATURE_START}{} {signature}\n", self.key.name)
    }
}

impl Checkpoint {
    /// Reads the checkpoint in a signed note without its signature, for a note that comes from the daemon itself.
    ///
    /// # Errors
    /// If `note` is no checkpoint.
    pub fn of_unverified_note(note: &str) -> Result<Self, CheckpointError> {
        let (text, _) = note.split_once("\n\n").ok_or(CheckpointError::Malformed)?;
        format!("{text}\n").parse()
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

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c == '+')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::log_tree::leaf_hash;

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
}
