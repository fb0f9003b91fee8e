//! Metadata of the database: its schema, its ids and its row counts.

use crate::base::engine::StoreEngine;
use crate::base::error::StoreError;
use crate::base::random::random_bytes;
use crate::base::rows::{SCHEMA, TableId, key};
use crate::base::watermark::{COUNTS_BYTES, StoreCounts};
use oracled_domain::audit::log_tree::LogTree;
use oracled_domain::ground::id::SourceId;

fn schema_key() -> Vec<u8> {
    key(TableId::Meta, &[b"schema"])
}

fn counts_key() -> Vec<u8> {
    key(TableId::Meta, &[b"counts"])
}

fn store_id_key() -> Vec<u8> {
    key(TableId::Meta, &[b"store_id"])
}

fn audited_key() -> Vec<u8> {
    key(TableId::Meta, &[b"audited"])
}

fn walked_key() -> Vec<u8> {
    key(TableId::Meta, &[b"walked"])
}

fn digest_key_key() -> Vec<u8> {
    key(TableId::Meta, &[b"digest_key"])
}

/// The key of the store's keyed digests. It is generated when the store is created.
pub(crate) fn digest_key(engine: &StoreEngine) -> Result<Vec<u8>, StoreError> {
    get(engine, digest_key_key())?.map(|key| key.to_vec()).ok_or_else(|| StoreError::Corrupt {
        dir: engine.dir().to_owned(),
        detail: "the key of its digests is missing".into(),
    })
}

/// The random number that identifies this store. It is chosen when the store is created.
pub(crate) fn store_id(engine: &StoreEngine) -> Result<u64, StoreError> {
    let bytes = get(engine, store_id_key())?;
    let store_id = bytes.and_then(|bytes| bytes.as_ref().try_into().ok()).map(u64::from_be_bytes);
    let missing = || StoreError::Corrupt { dir: engine.dir().to_owned(), detail: "its id is missing".into() };
    store_id.ok_or_else(missing)
}

/// The last entry up to which an earlier opening found the log complete; 0 if that is not known.
pub(crate) fn walked(engine: &StoreEngine) -> Result<u64, StoreError> {
    seq_at(engine, walked_key())
}

/// Stores that the log was found complete up to entry `seq`.
pub(crate) fn put_walked(engine: &StoreEngine, seq: u64) -> Result<(), StoreError> {
    put(engine, walked_key(), &seq.to_be_bytes())
}

/// The tree of the entries that the check in the background has read; empty before the first check.
pub(crate) fn audited(engine: &StoreEngine) -> Result<LogTree, StoreError> {
    let bytes = get(engine, audited_key())?;
    Ok(bytes.and_then(|bytes| LogTree::from_bytes(&bytes)).unwrap_or_default())
}

/// Stores the tree of the entries that the check in the background has read.
pub(crate) fn put_audited(engine: &StoreEngine, tree: &LogTree) -> Result<(), StoreError> {
    put(engine, audited_key(), &tree.to_bytes())
}

fn source_check_key(oracle_id: &SourceId) -> Vec<u8> {
    key(TableId::Meta, &[b"source_check/", oracle_id.as_str().as_bytes()])
}

/// The stored result of the last check of a source, as JSON.
pub(crate) fn source_check(
    engine: &StoreEngine,
    oracle_id: &SourceId,
) -> Result<Option<sled::IVec>, StoreError> {
    get(engine, source_check_key(oracle_id))
}

/// Stores the result of a check of a source, as JSON.
pub(crate) fn put_source_check(
    engine: &StoreEngine,
    oracle_id: &SourceId,
    check: &[u8],
) -> Result<(), StoreError> {
    put(engine, source_check_key(oracle_id), check)
}

fn get(engine: &StoreEngine, key: Vec<u8>) -> Result<Option<sled::IVec>, StoreError> {
    engine.with(|db| db.get(key).map_err(|error| StoreError::damaged(engine.dir(), &error)))
}

/// The entry number at `key`; 0 if there is none.
fn seq_at(engine: &StoreEngine, key: Vec<u8>) -> Result<u64, StoreError> {
    let bytes = get(engine, key)?;
    Ok(bytes.and_then(|bytes| bytes.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes))
}

/// Stores `value` durably at `key`.
fn put(engine: &StoreEngine, key: Vec<u8>, value: &[u8]) -> Result<(), StoreError> {
    let mut batch = sled::Batch::default();
    batch.insert(key, value);
    engine.reserve_write_space(0)?;
    engine.apply(batch)
}

/// Adds the counts and the tree of the log after `batch` to `batch`.
pub(crate) fn put_counts(batch: &mut sled::Batch, counts: StoreCounts, tree: &LogTree) {
    batch.insert(counts_key(), [&counts.to_bytes()[..], &tree.to_bytes()].concat());
}

/// Checks the schema version of the database, or stores it in a new one. Returns the stored counts, and the tree of the log.
pub(crate) fn open(engine: &StoreEngine) -> Result<(StoreCounts, LogTree), StoreError> {
    let read = |key| get(engine, key);
    let corrupt = |detail: &str| StoreError::Corrupt { dir: engine.dir().to_owned(), detail: detail.into() };
    match read(schema_key())? {
        None => {
            if engine.with(|db| Ok(!db.is_empty()))? {
                return Err(corrupt("it has rows but no schema version"));
            }
            let mut batch = sled::Batch::default();
            batch.insert(schema_key(), &SCHEMA.to_be_bytes());
            batch.insert(digest_key_key(), &random_bytes::<32>()?);
            batch.insert(store_id_key(), &random_bytes::<8>()?);
            put_counts(&mut batch, StoreCounts::default(), &LogTree::default());
            engine.apply(batch)?;
            Ok((StoreCounts::default(), LogTree::default()))
        }
        Some(bytes) => {
            let found = bytes.as_ref().try_into().map(u32::from_be_bytes);
            let found = found.map_err(|_| corrupt("its schema version is not a number"))?;
            if found > SCHEMA {
                return Err(StoreError::Newer { dir: engine.dir().to_owned(), found, known: SCHEMA });
            }
            if found < SCHEMA {
                return Err(StoreError::Older { dir: engine.dir().to_owned(), found, known: SCHEMA });
            }
            let stored = read(counts_key())?;
            let parts = stored.as_deref().and_then(|stored| stored.split_at_checked(COUNTS_BYTES));
            let parsed = parts.and_then(|(counts, tree)| {
                Some((StoreCounts::from_bytes(counts)?, LogTree::from_bytes(tree)?))
            });
            let (counts, tree) =
                parsed.ok_or_else(|| corrupt("its counts, or the Merkle tree of its log, are missing"))?;
            if tree.size() != counts.entries {
                return Err(corrupt("the Merkle tree of its log has another number of entries"));
            }
            Ok((counts, tree))
        }
    }
}
