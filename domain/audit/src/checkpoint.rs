//! Checkpoints of the log: its size and its root, as a signed note (C2SP `tlog-checkpoint` and `signed-note`, Ed25519).

use crate::log_tree::TreeHash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_base::wording::ParseTextError;
use jiff::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};
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
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        let allowed = "NAME+ID+KEY, as `oraclectl log key` prints it";
        Self::read(text).ok_or_else(|| ParseTextError::new("the key of a log", text, allowed))
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

/// The type of a key that cosigns checkpoints.
const COSIGNATURE_TYPE: u8 = 4;

/// The public key of a witness.
pub type WitnessKey = VerifierKey<COSIGNATURE_TYPE>;

/// Why a text is not the public key of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text is not the key of a witness; allowed: NAME+ID+KEY with an Ed25519 key for cosignatures (type 4), as the operator \
     of the witness publishes it"
)]
pub struct WitnessKeyError;

/// Why a checkpoint has no valid cosignature of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CosignatureError {
    #[error("the text is not a signed checkpoint, or has other lines than signatures after it")]
    Malformed,
    #[error("the checkpoint has no cosignature of this key")]
    Missing,
    #[error("the cosignature is not valid: the checkpoint or the cosignature was changed")]
    Forged,
    #[error("the time of the cosignature is not valid")]
    Time,
}

/// A cosignature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosignature {
    /// When the witness cosigned the checkpoint, by its clock.
    pub at: Timestamp,
    /// Its line in the note, with the line end.
    pub line: String,
}

impl WitnessKey {
    /// Checks that the witness has cosigned the checkpoint in `note`. Signatures of other keys are ignored.
    ///
    /// # Errors
    /// If `note` is no signed note, or has no valid cosignature of this key. One that is not valid is an error, even if there is
    /// another one.
    pub fn verify(&self, note: &str) -> Result<Cosignature, CosignatureError> {
        let SignedNote { text, signatures } = SignedNote::read(note).ok_or(CosignatureError::Malformed)?;
        let own = signatures.iter().filter_map(|signature| self.own_signature(signature));
        let mut verified = own.map(|signature| self.verify_signature(text, signature));
        let first = verified.next().ok_or(CosignatureError::Missing)??;
        verified.try_for_each(|other| other.map(drop))?;
        Ok(first)
    }

    fn verify_signature(&self, text: &str, bytes: &[u8]) -> Result<Cosignature, CosignatureError> {
        let (time, signature) = bytes.split_first_chunk().ok_or(CosignatureError::Forged)?;
        let seconds = u64::from_be_bytes(*time);
        if !self.has_signed(format!("cosignature/v1\ntime {seconds}\n{text}").as_bytes(), signature) {
            return Err(CosignatureError::Forged);
        }
        // a cosignature without a time has the time 0
        let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        Ok(Cosignature { at: at.ok_or(CosignatureError::Time)?, line: signature_line(self, bytes) })
    }
}

impl FromStr for WitnessKey {
    type Err = WitnessKeyError;

    fn from_str(text: &str) -> Result<Self, WitnessKeyError> {
        Self::read(text).ok_or(WitnessKeyError)
    }
}

/// The start of a line with a signature.
const SIGNATURE_START: &str = "\u{2014} ";
/// The length of the id of a key, which precedes its signature, in bytes.
const KEY_ID_BYTES: usize = 4;

/// A public Ed25519 key with its name. `TYPE` is the type of its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey<const TYPE: u8> {
    pub name: String,
    public: [u8; 32],
}

impl<const TYPE: u8> VerifierKey<TYPE> {
    pub(super) fn new(name: &str, public: [u8; 32]) -> Self {
        Self { name: name.to_owned(), public }
    }

    /// Reads a key in the form `NAME+ID+KEY`; `None` if the text is not a key of this type.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '+');
        let (name, _, key) = (parts.next()?, parts.next()?, parts.next()?);
        let key = BASE64_STANDARD.decode(key).ok()?;
        let key = Self::new(name, key.strip_prefix(&[TYPE])?.try_into().ok()?);
        // the id is a check digit
        (is_name(name) && key.to_string() == text).then_some(key)
    }

    /// The id by which a signature names its key.
    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let hash = Sha256::new_with_prefix(self.name.as_bytes())
            .chain_update([b'\n', TYPE])
            .chain_update(self.public)
            .finalize();
        let mut id = [0; KEY_ID_BYTES];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        id
    }

    /// The bytes of a signature; `None` if it names another key.
    fn own_signature<'s>(&self, signature: &'s NoteSignature<'_>) -> Option<&'s [u8]> {
        signature.bytes.strip_prefix(&self.id()).filter(|_| signature.name == self.name)
    }

    /// Whether `signature` is that of this key over `message`.
    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.public).verify(message, signature).is_ok()
    }
}

impl<const TYPE: u8> fmt::Display for VerifierKey<TYPE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u32::from_be_bytes(self.id());
        let key = BASE64_STANDARD.encode([&[TYPE][..], &self.public].concat());
        write!(f, "{}+{id:08x}+{key}", self.name)
    }
}

/// The line of a signature, with its line end.
fn signature_line<const TYPE: u8>(key: &VerifierKey<TYPE>, signature: &[u8]) -> String {
    let signature = BASE64_STANDARD.encode([&key.id(), signature].concat());
    format!("{SIGNATURE_START}{} {signature}\n", key.name)
}

/// The parts of a signed note.
pub(super) struct SignedNote<'n> {
    /// The signed text, with its last line end.
    pub(super) text: &'n str,
    pub(super) signatures: Vec<NoteSignature<'n>>,
}

/// A signature of a note.
pub(super) struct NoteSignature<'n> {
    /// The name of the key.
    name: &'n str,
    /// The id of the key, then the signature.
    bytes: Vec<u8>,
}

impl<'n> SignedNote<'n> {
    /// Reads a note; `None` if it has other lines than signatures after its text.
    pub(super) fn read(note: &'n str) -> Option<Self> {
        let (text, signatures) = note.split_at(note.rfind("\n\n")? + 1);
        let signatures = signatures.strip_prefix('\n')?.strip_suffix('\n')?.split('\n');
        let signature = |line: &'n str| {
            let (name, bytes) = line.strip_prefix(SIGNATURE_START)?.split_once(' ')?;
            let bytes = BASE64_STANDARD.decode(bytes).ok()?;
            (is_name(name) && bytes.len() > KEY_ID_BYTES).then_some(NoteSignature { name, bytes })
        };
        Some(Self { text, signatures: signatures.map(signature).collect::<Option<_>>()? })
    }
}

/// Whether a text can be the name of a key.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c == '+')
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
            assert!(damaged.parse::<LogKey>().is_err(), "{damaged}");
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

    mod cosignature {
        use crate::checkpoint::{LogKey, LogSigner, SECRET_BYTES, *};
        use crate::log_tree::leaf_hash;
        use ring::signature::{Ed25519KeyPair, KeyPair};

        /// A witness whose key is made from this secret.
        fn witness(name: &str, secret: u8) -> (WitnessKey, Ed25519KeyPair) {
            let pair = Ed25519KeyPair::from_seed_unchecked(&[secret; 32]).expect("a secret");
            let public = pair.public_key().as_ref().try_into().expect("32 bytes");
            (WitnessKey::new(name, public), pair)
        }

        fn note() -> String {
            LogSigner::new("oracled/1", &[7; SECRET_BYTES]).sign(42, leaf_hash(b"x"))
        }

        /// The line of a cosignature over `note` at `time`.
        fn cosign((key, pair): &(WitnessKey, Ed25519KeyPair), note: &str, time: u64) -> String {
            let text = note.split_once("\n\n").expect("a note").0;
            let signature = pair.sign(format!("cosignature/v1\ntime {time}\n{text}\n").as_bytes());
            signature_line(key, &[&time.to_be_bytes(), signature.as_ref()].concat())
        }

        #[test]
        fn witness_key_is_read_only_with_its_type_and_id() {
            let (key, _) = witness("witness.example/w1", 3);
            let text = key.to_string();
            assert_eq!(text.parse::<WitnessKey>(), Ok(key));
            assert!(text.parse::<LogKey>().is_err());
            for bad in [
                "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
                &text.replacen("w1", "w2", 1),
                &text[..text.len() - 4],
                "witness",
                "",
            ] {
                assert_eq!(bad.parse::<WitnessKey>(), Err(WitnessKeyError), "{bad}");
            }
        }

        #[test]
        fn cosignature_is_accepted_only_unchanged_and_under_its_key() {
            let (own, other) = (witness("w1", 3), witness("w2", 4));
            let line = cosign(&own, &note(), 1_700_000_000);
            let cosigned = format!("{}{}{line}", note(), cosign(&other, &note(), 1));
            let at = Timestamp::from_second(1_700_000_000).expect("a time");
            assert_eq!(own.0.verify(&cosigned), Ok(Cosignature { at, line: line.clone() }));
            let log_key: LogKey = LogSigner::new("oracled/1", &[7; SECRET_BYTES]).key().clone();
            assert_eq!(log_key.verify(&cosigned).expect("signed").size, 42);
            // a key with another name, and one with another secret
            for stranger in [witness("w3", 3), witness("w1", 4)] {
                assert_eq!(stranger.0.verify(&cosigned), Err(CosignatureError::Missing));
            }
            assert_eq!(own.0.verify(&cosigned.replacen("42", "43", 1)), Err(CosignatureError::Forged));
            let of_other_text = cosign(&own, &note().replacen("42", "43", 1), 1_700_000_000);
            for bad in [of_other_text.as_str(), &signature_line(&own.0, b"short")] {
                // also after a valid one
                for before in ["", &line] {
                    let changed = format!("{}{before}{bad}", note());
                    assert_eq!(own.0.verify(&changed), Err(CosignatureError::Forged), "{changed}");
                }
            }
            assert_eq!(own.0.verify(&format!("{cosigned}junk\n")), Err(CosignatureError::Malformed));
        }

        #[test]
        fn cosignature_without_a_time_is_refused() {
            let own = witness("w1", 3);
            for time in [0, 1 << 63, u64::MAX] {
                let cosigned = note() + &cosign(&own, &note(), time);
                assert_eq!(own.0.verify(&cosigned), Err(CosignatureError::Time), "{time}");
            }
        }

        /// A checkpoint of a public log of certificates, with the cosignatures of four public witnesses.
        #[test]
        fn cosignatures_of_public_witnesses_are_verified() {
            let note = "arche2025h1.staging.ct.transparency.dev\n1432088532\nU7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=\n\n\
                \u{2014} arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=\n\
                \u{2014} transparency.dev/DEV:witness-little-garden 2AQqhwAAAABqEiEgzgFIqqhbUoDwjMWE6UP8nd8/KYTzwZ2rhIgcqoXHAwVkjZr4AscylP3v7sEodkRAErumC2q44vdgJY096st5BQ==\n\
                \u{2014} witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==\n\
                \u{2014} remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==\n\
                \u{2014} witness.stagemole.eu Z/euoAAAAABqEiEgw0i+7g2ENfDAWHmtRzCfKTHSDwYDJA2NmKeGi9Y8FtEyOUvVr+AJmIY/2TUFucgKi7lI7cUiOvKFYe/TmN9DAg==\n";
            for key in [
                "transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM",
                "witness1.smartit.nu/witness1+a48c820f+BPSFWg9G6KPiO7QPryYO5Xq4oYJJ+kAvLKLSimDhoxMO",
                "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
                "witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv",
            ] {
                let key: WitnessKey = key.parse().expect("a key");
                let cosignature = key.verify(note).expect("a cosignature");
                assert_eq!(cosignature.at.as_second(), 0x6a12_2120);
                assert!(note.contains(&cosignature.line), "{}", cosignature.line);
                assert_eq!(
                    key.verify(&note.replacen("1432088532", "1432088533", 1)),
                    Err(CosignatureError::Forged)
                );
            }
            let log = "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f";
            assert_eq!(
                log.parse::<LogKey>().expect("a key").verify(note).expect("signed").size,
                1_432_088_532
            );
        }
    }
}
