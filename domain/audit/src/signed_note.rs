//! Signed notes, and the keys that verify them (C2SP `signed-note`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest, Sha256};
use std::fmt;

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
    pub(super) fn own_signature<'s>(&self, signature: &'s NoteSignature<'_>) -> Option<&'s [u8]> {
        signature.bytes.strip_prefix(&self.id()).filter(|_| signature.name == self.name)
    }

    /// Whether `signature` is that of this key over `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
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
pub(super) fn signature_line<const TYPE: u8>(key: &VerifierKey<TYPE>, signature: &[u8]) -> String {
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
