//! The keys of a cluster, under which the rows of its groups are encrypted (AES-256-GCM).

use crate::failed;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{Digest, SHA256, digest};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use store_log::{SharedGroup, SharedLogError};

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// The longest id of a key, in bytes.
const ID_MAX_BYTES: usize = 64;
/// The longest rows of a group, in bytes. The length is in the compressed bytes, so without a limit a few bytes could take all memory.
const ROWS_MAX_BYTES: usize = 128 * 1024 * 1024;
/// The level of zstd.
const LEVEL: i32 = 1;

/// The keys of a cluster. The first one encrypts, and each decrypts what it has encrypted. All clones have the same keys.
#[derive(Clone)]
pub struct ClusterKeys(Arc<RwLock<KeyList>>);

struct KeyList {
    keys: Vec<(String, LessSafeKey)>,
    /// The id and the digest of the first key, which the hosts compare.
    first: KeyCheck,
    /// The digest of their text.
    digest: Digest,
}

/// A key by its id and the digest of its random bytes, which does not allow guessing them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyCheck {
    pub(crate) id: String,
    pub(crate) digest: Vec<u8>,
}

/// Why a text has no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterKeysError {
    #[error("it has no key; each line is an id, a space and 32 bytes in Base64, and the first one encrypts")]
    Empty,
    #[error(
        "line {0} is not an id of 1 to {ID_MAX_BYTES} letters, digits and `-`, a space and 32 bytes in Base64 (`head -c 32 /dev/urandom | base64`)"
    )]
    Line(usize),
    #[error("the id {0} is repeated")]
    Repeated(String),
}

/// The rows of a group as the table has them.
#[derive(Debug)]
pub(crate) struct SealedRows {
    pub(crate) key_id: String,
    /// The nonce, and the encrypted rows.
    pub(crate) bytes: Vec<u8>,
}

impl fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.read().keys.iter().map(|(id, _)| id)).finish()
    }
}

impl ClusterKeys {
    /// The keys in a text with a line for each: its id, a space, and 32 bytes in Base64.
    ///
    /// # Errors
    /// The line that is no key.
    pub fn parse(text: &str) -> Result<Self, ClusterKeysError> {
        let (mut keys, mut first) = (Vec::<(String, LessSafeKey)>::new(), None);
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (key, check) = parse_line(line).ok_or(ClusterKeysError::Line(index + 1))?;
            first.get_or_insert(check);
            if keys.iter().any(|(id, _)| *id == key.0) {
                return Err(ClusterKeysError::Repeated(key.0));
            }
            keys.push(key);
        }
        let first = first.ok_or(ClusterKeysError::Empty)?;
        let digest = digest(&SHA256, text.as_bytes());
        Ok(Self(Arc::new(RwLock::new(KeyList { keys, first, digest }))))
    }

    fn read(&self) -> RwLockReadGuard<'_, KeyList> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the keys, the one that encrypts first.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.read().keys.iter().map(|(id, _)| id.clone()).collect()
    }

    /// Whether these are other keys than `other`.
    #[must_use]
    pub fn differ_from(&self, other: &Self) -> bool {
        self.read().digest.as_ref() != other.read().digest.as_ref()
    }

    /// Exchanges the keys, in all clones, with those of `other`, which is of another text.
    pub fn exchange_with(&self, other: &Self) {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut other = other.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *own, &mut *other);
    }

    /// Compresses and encrypts the rows of a group. Also returns what the hosts compare of the key.
    pub(crate) fn seal(
        &self,
        store_id: u64,
        group: &SharedGroup,
    ) -> Result<(SealedRows, KeyCheck), SharedLogError> {
        let list = self.read();
        let (key_id, key) = list.keys.first().ok_or_else(|| failed("there is no key"))?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(failed)?;
        let mut rows = zstd::bulk::compress(&group.rows, LEVEL).map_err(failed)?;
        let aad = Aad::from(place_of(store_id, group));
        let sealed = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut rows);
        sealed.map_err(|_| failed("the rows of a group are too long to be encrypted"))?;
        let sealed = SealedRows { key_id: key_id.clone(), bytes: [&nonce[..], &rows].concat() };
        Ok((sealed, list.first.clone()))
    }

    /// The rows of `group`, which has none yet.
    pub(crate) fn open(
        &self,
        store_id: u64,
        group: &SharedGroup,
        sealed: &SealedRows,
    ) -> Result<Vec<u8>, SharedLogError> {
        let SealedRows { key_id, bytes } = sealed;
        let list = self.read();
        let key = list.keys.iter().find(|(id, _)| id == key_id).map(|(_, key)| key);
        let key = key.ok_or_else(|| failed(format_args!("this host lacks the key {key_id} of a group")))?;
        let altered =
            || failed(format_args!("the group after entry {} is not as it was encrypted", group.before));
        let (nonce, rows) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(altered)?;
        let (mut rows, aad) = (rows.to_vec(), Aad::from(place_of(store_id, group)));
        let rows =
            key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut rows).map_err(|_| altered())?;
        zstd::bulk::decompress(rows, ROWS_MAX_BYTES.min(size_of_rows(rows))).map_err(failed)
    }
}

/// The length of the compressed rows, by their frame.
fn size_of_rows(rows: &[u8]) -> usize {
    let size = zstd::zstd_safe::get_frame_content_size(rows).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default()
}

/// The place of a group, which its encrypted rows cannot be moved from.
fn place_of(store_id: u64, group: &SharedGroup) -> [u8; 56] {
    let mut place = [0; 56];
    let numbers = [store_id, group.before, group.after].map(u64::to_be_bytes);
    let (head, root) = place.split_at_mut(24);
    head.copy_from_slice(numbers.as_flattened());
    root.copy_from_slice(&group.root);
    place
}

fn parse_line(line: &str) -> Option<((String, LessSafeKey), KeyCheck)> {
    let (id, key) = line.split_once(' ')?;
    let is_id = (1..=ID_MAX_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let key: [u8; KEY_BYTES] = BASE64_STANDARD.decode(key.trim()).ok()?.try_into().ok()?;
    let check = KeyCheck { id: id.to_owned(), digest: digest(&SHA256, &key).as_ref().to_vec() };
    let key = UnboundKey::new(&AES_256_GCM, &key).ok()?;
    is_id.then(|| ((id.to_owned(), LessSafeKey::new(key)), check))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, byte: u8) -> String {
        format!("{id} {}\n", BASE64_STANDARD.encode([byte; KEY_BYTES]))
    }

    fn group() -> SharedGroup {
        SharedGroup { before: 7, after: 9, root: [3; 32], rows: b"rows ".repeat(100) }
    }

    #[test]
    fn rows_are_opened_only_in_their_place_and_under_their_key() {
        let keys = ClusterKeys::parse(&line("2026-11", 1)).expect("a key");
        let (sealed, _) = keys.seal(5, &group()).expect("it is sealed");
        assert!(!sealed.bytes.windows(4).any(|bytes| bytes == b"rows"));
        let both = ClusterKeys::parse(&(line("2026-12", 2) + &line("2026-11", 1))).expect("keys");
        assert_eq!(both.open(5, &group(), &sealed).expect("the key is there"), group().rows);
        assert_eq!(both.seal(5, &group()).expect("it is sealed").0.key_id, "2026-12");
        for (store_id, other) in [
            (6, group()),
            (5, SharedGroup { before: 8, ..group() }),
            (5, SharedGroup { after: 10, ..group() }),
            (5, SharedGroup { root: [4; 32], ..group() }),
        ] {
            assert!(keys.open(store_id, &other, &sealed).is_err(), "{store_id} {other:?}");
        }
        for keys in [line("2026-12", 1), line("2026-11", 2)] {
            let keys = ClusterKeys::parse(&keys).expect("a key");
            assert!(keys.open(5, &group(), &sealed).is_err(), "{keys:?}");
        }
        for at in [0, NONCE_LEN, sealed.bytes.len() - 1] {
            let mut bytes = sealed.bytes.clone();
            bytes[at] ^= 1;
            let altered = SealedRows { key_id: sealed.key_id.clone(), bytes };
            assert!(keys.open(5, &group(), &altered).is_err(), "byte {at}");
        }
    }

    #[test]
    fn keys_of_a_text_are_complete_or_refused() {
        assert_eq!(ClusterKeys::parse(" \n").map(|_| ()), Err(ClusterKeysError::Empty));
        let repeated = ClusterKeys::parse(&(line("a", 1) + &line("a", 2))).map(|_| ());
        assert_eq!(repeated, Err(ClusterKeysError::Repeated("a".to_owned())));
        for bad in [
            "a",
            "a AAAA",
            "ä AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            " AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        ] {
            let parsed = ClusterKeys::parse(&(line("a", 1) + bad)).map(|_| ());
            assert_eq!(parsed, Err(ClusterKeysError::Line(2)), "{bad}");
        }
    }
}
