//! Metadata of the database: its schema, its ids and its row counts.

use crate::base::database::{Database, ReadValue};
use crate::base::engine::{StoreEngine, TableReader};
use crate::base::random::random_bytes;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{META, counts_key, key};
use crate::base::schema::{self, schema};
use crate::base::watermark::StoreCounts;
use domain_audit::event::StoreUpgraded;
use domain_audit::log_tree::LogTree;
use domain_base::digest::Sha256Hex;
use std::path::Path;
use store_base::error::StoreError;

fn schema_key() -> Vec<u8> {
    key(META, &[b"schema"])
}

fn upgrades_key() -> Vec<u8> {
    key(META, &[b"upgrades"])
}

fn store_id_key() -> Vec<u8> {
    key(META, &[b"store_id"])
}

fn digest_key_key() -> Vec<u8> {
    key(META, &[b"digest_key"])
}

fn first_seq_key() -> Vec<u8> {
    key(META, &[b"first_seq"])
}

/// Adds the present schema version to `batch`.
pub(crate) fn put_schema(batch: &mut RowBatch) {
    batch.insert(schema_key(), schema().to_be_bytes());
}

/// The upgrades of the store, in their order.
pub(crate) fn upgrades(engine: &StoreEngine) -> Result<Vec<StoreUpgraded>, StoreError> {
    let stored = get(engine, upgrades_key())?;
    let read = stored.map(|stored| serde_json::from_slice(&stored)).transpose();
    read.map(Option::unwrap_or_default).map_err(|error| StoreError::Corrupt {
        dir: engine.dir().to_owned(),
        detail: format!("its upgrades are malformed: {error}"),
    })
}

/// Adds the upgrades of the store to `batch`.
pub(crate) fn put_upgrades(batch: &mut RowBatch, upgrades: &[StoreUpgraded]) {
    batch.insert(upgrades_key(), serde_json::to_vec(upgrades).expect("plain data with string keys"));
}

/// The number of the first entry that was not dropped from the log.
pub(crate) fn first_seq(db: Database<'_>, dir: &Path) -> Result<u64, StoreError> {
    let Some(stored) = db.get(first_seq_key())? else { return Ok(1) };
    let first = (*stored).try_into().map(u64::from_be_bytes);
    first.map_err(|_| StoreError::Corrupt {
        dir: dir.to_owned(),
        detail: "the number of the first entry of its log is malformed".to_owned(),
    })
}

/// Adds the number of the first entry that was not dropped from the log to `batch`.
pub(crate) fn put_first_seq(batch: &mut RowBatch, first: u64) {
    batch.insert(first_seq_key(), first.to_be_bytes());
}

/// The number of the first entry that was not dropped, if `batch` is the first group of a snapshot.
pub(crate) fn first_seq_in(batch: &RowBatch) -> Option<u64> {
    value_in(batch, first_seq_key())?.try_into().ok().map(u64::from_be_bytes)
}

impl TableReader {
    /// The digest of `text` with the store's own key, for the audit log. Equal texts have equal digests, and
    /// a guessed text cannot be tested without the store. The key is generated when the store is created.
    ///
    /// # Errors
    /// The database cannot be read, or the key is missing.
    pub fn keyed_digest(&self, text: &str) -> Result<Sha256Hex, StoreError> {
        let key = get(self.engine(), digest_key_key())?.ok_or_else(|| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: "the key of its digests is missing".into(),
        })?;
        Ok(Sha256Hex::compute_hmac(&key, text.as_bytes()))
    }
}

/// The random number that identifies this store. It is chosen when the store is created.
pub(crate) fn store_id(engine: &StoreEngine) -> Result<u64, StoreError> {
    let bytes = get(engine, store_id_key())?;
    let store_id = bytes.and_then(|bytes| (*bytes).try_into().ok()).map(u64::from_be_bytes);
    let missing = || StoreError::Corrupt { dir: engine.dir().to_owned(), detail: "its id is missing".into() };
    store_id.ok_or_else(missing)
}

fn get(engine: &StoreEngine, key: Vec<u8>) -> Result<Option<ReadValue>, StoreError> {
    engine.with(|db| db.get(key))
}

/// Adds the counts and the tree of the log after `batch` to `batch`.
pub(crate) fn put_counts(batch: &mut RowBatch, counts: &StoreCounts, tree: &LogTree) {
    batch.insert(counts_key(), [&counts.to_bytes()[..], &tree.to_bytes()].concat());
}

/// The tree of the log after `batch`; `None` if the batch has none.
pub(crate) fn tree_in(batch: &RowBatch) -> Option<LogTree> {
    LogTree::from_bytes(StoreCounts::from_bytes(value_in(batch, counts_key())?)?.1)
}

/// The counts after `batch`; `None` if the batch has none.
pub(crate) fn counts_in(batch: &RowBatch) -> Option<StoreCounts> {
    Some(StoreCounts::from_bytes(value_in(batch, counts_key())?)?.0)
}

/// The id of the store, if `batch` is that of its creation.
pub(crate) fn store_id_in(batch: &RowBatch) -> Option<u64> {
    value_in(batch, store_id_key())?.try_into().ok().map(u64::from_be_bytes)
}

fn value_in(batch: &RowBatch, key: Vec<u8>) -> Option<&[u8]> {
    let after = [&key[..], &[0]].concat();
    batch.range(key..after).next()?.1
}

/// The rows of an empty store with a new id, and that id.
pub(crate) fn first_rows() -> Result<(RowBatch, u64), StoreError> {
    let id = random_bytes::<8>()?;
    let mut batch = RowBatch::default();
    put_schema(&mut batch);
    batch.insert(digest_key_key(), random_bytes::<32>()?);
    batch.insert(store_id_key(), id);
    put_counts(&mut batch, &StoreCounts::default(), &LogTree::default());
    Ok((batch, u64::from_be_bytes(id)))
}

/// Checks the schema version of the database, and returns the stored counts and the tree of the log; `None` if it is empty.
pub(crate) fn read(engine: &StoreEngine) -> Result<Option<(StoreCounts, LogTree)>, StoreError> {
    let corrupt = |detail: &str| StoreError::Corrupt { dir: engine.dir().to_owned(), detail: detail.into() };
    let Some(found) = get(engine, schema_key())? else {
        let is_empty = engine.with(|db| Ok(db.range(Vec::new()..).next().is_none()))?;
        return if is_empty {
            Ok(None)
        } else {
            Err(corrupt("it has rows but no schema version: its rebuild was interrupted, or it is damaged"))
        };
    };
    let found = (*found).try_into().map(u32::from_be_bytes);
    let found = found.map_err(|_| corrupt("its schema version is not a number"))?;
    schema::check(engine.dir(), found)?;
    if found < schema() {
        return Err(corrupt("its rows have the form of an earlier schema version"));
    }
    let stored = get(engine, counts_key())?;
    let parts = stored.as_deref().and_then(StoreCounts::from_bytes);
    let parsed = parts.and_then(|(counts, tree)| Some((counts, LogTree::from_bytes(tree)?)));
    let (counts, tree) =
        parsed.ok_or_else(|| corrupt("its counts, or the Merkle tree of its log, are missing: its rebuild was interrupted, or it is damaged"))?;
    if tree.size() != counts.entries {
        return Err(corrupt("the Merkle tree of its log has another number of entries"));
    }
    Ok(Some((counts, tree)))
}
