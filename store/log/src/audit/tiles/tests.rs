use crate::audit::log::{LOG, row as log_row};
use crate::base::log_hashes::{TILES, name_of};
use crate::base::row_batch::RowBatch;
use crate::base::rows;
use crate::journal::testing::open_with;
use crate::{Journal, JournalRecord, LogQuery, StoreOptions, TableReader};
use domain_audit::event::ServiceStopped;
use domain_audit::leaf::leaf_of;
use domain_audit::log_proof::{is_continued, is_included};
use domain_audit::log_tiles::{TILE_HASHES, TilePlace};
use domain_audit::log_tree::{TreeHash, leaf_hash};
use domain_base::event::AuditEvent;
use jiff::Timestamp;
use std::path::Path;
use store_base::error::StoreError;

/// Several full tiles, and a part of one.
const ENTRIES: u64 = 900;
const RECORD_ENTRIES: u64 = 100;

fn open(dir: &Path) -> (Journal, TableReader) {
    let options = StoreOptions {
        dir: dir.to_owned(),
        cache_bytes: 8 * 1024 * 1024,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    open_with(options).expect("the store opens")
}

/// A store with several tiles. Returns the size and the root after each record, too.
fn filled(dir: &Path) -> (Journal, TableReader, Vec<(u64, TreeHash)>) {
    let (mut journal, store) = open(dir);
    let event = || AuditEvent::new(Timestamp::UNIX_EPOCH, None, ServiceStopped {});
    let mut heads = Vec::new();
    while store.log_head().0 < ENTRIES {
        let events = (0..RECORD_ENTRIES).map(|_| event()).collect();
        let record = JournalRecord { events, ..JournalRecord::default() };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
        heads.push(store.log_head());
    }
    (journal, store, heads)
}

/// Replaces one hash of a stored tile.
fn damage(store: &TableReader, place: TilePlace, at: usize) {
    let mut hashes = store.tile(place).expect("the tile is stored");
    hashes[at] = [7; 32];
    let mut batch = RowBatch::default();
    let revision = (place.index + 1) * TILE_HASHES as u64;
    rows::put(&mut batch, TILES, &name_of(place), revision, hashes.as_flattened(), 0);
    store.engine().apply(batch).expect("the write succeeds");
}

fn leaf_at(store: &TableReader, seq: u64) -> TreeHash {
    let query = LogQuery { after: seq - 1, limit: 1, ..LogQuery::default() };
    let lines = store.log(&query).expect("the log is read");
    leaf_hash(leaf_of(&lines[0].json).expect("an entry").as_bytes())
}

fn is_damage<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Corrupt { .. }))
}

#[test]
fn check_of_tiles_finds_each_changed_tile() {
    for index in 0..3 {
        let dir = tempfile::tempdir().expect("a directory");
        let (_journal, store, _) = filled(dir.path());
        let mut read = 0;
        let checked = store.check_tiles(|| {
            read += 1;
            true
        });
        assert!(matches!((checked, read), (Ok(true), 3)), "{read} tiles");
        assert!(matches!(store.check_tiles(|| false), Ok(false)), "it is stopped");
        damage(&store, TilePlace { level: 0, index }, 5);
        let checked = store.check_tiles(|| true);
        assert!(is_damage(&checked), "tile {index}: {checked:?}");
    }
}

#[test]
fn changed_tile_that_the_opening_finds_is_repaired_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (journal, store, heads) = filled(dir.path());
    damage(&store, TilePlace { level: 0, index: 1 }, 5);
    drop((journal, store));
    let (mut journal, store) = open(dir.path());
    assert!(journal.take_rebuilt().is_some());
    assert_eq!(store.log_head(), heads[heads.len() - 1]);
    assert_eq!(store.engine().take_damage(), None, "no further rebuild is due");
}

#[test]
fn changed_tile_that_a_read_finds_is_repaired_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, heads) = filled(dir.path());
    assert!(!journal.repair_now().expect("nothing is damaged"));
    damage(&store, TilePlace { level: 0, index: 0 }, 5);
    let (size, root) = heads[0];
    let found = store.log_root(size);
    assert!(is_damage(&found), "{found:?}");
    assert!(journal.repair_now().expect("the segments are whole"));
    assert_eq!(store.log_root(size).expect("the tile is repaired"), Some(root));
}

#[test]
fn check_of_the_log_accepts_it_again_after_a_changed_entry_was_repaired() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, _) = filled(dir.path());
    drop((journal, store));
    // a check is about the entries of the opening
    (journal, _) = open(dir.path());
    drop(journal);
    let (mut journal, store) = open(dir.path());
    let name = 1u64.to_be_bytes();
    let row = store.read(|db, _| rows::get(db, store.dir(), LOG, &name));
    let row = row.expect("the row is readable").expect("the row exists");
    let lines = log_row::decode(&row.value).expect("the row is whole");
    let lines = lines.replacen("service_stopped", "service_stopper", 1);
    let mut batch = RowBatch::default();
    let value = log_row::with_lines(&row.value, lines.as_bytes());
    rows::put(&mut batch, LOG, &name, row.revision, &value, 0);
    store.engine().apply(batch).expect("the write succeeds");
    // the check is stopped after the changed entry
    assert!(matches!(store.audit(|_| false), Ok(false)));
    let damage = store.audit(|_| true);
    assert!(is_damage(&damage), "{damage:?}");
    journal.rebuild("an entry was changed".to_owned());
    journal.recover().expect("the segments are whole");
    assert!(matches!(store.audit(|_| true), Ok(true)));
}

#[test]
fn proof_of_an_earlier_size_is_refused_if_its_tile_was_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_journal, store, heads) = filled(dir.path());
    damage(&store, TilePlace { level: 0, index: 1 }, 5);
    let last = heads.last().expect("the log has entries").0;
    let mut refused = 0;
    for (size, root) in &heads {
        for seq in [1, 100, 262, 300, 512, *size] {
            let proof = store.prove_entry(seq, *size);
            if let Ok(Some(proof)) = &proof {
                let leaf = leaf_at(&store, seq);
                assert!(is_included(leaf, seq - 1, *size, proof, root), "{seq} {size}");
            } else {
                assert!(seq > *size || is_damage(&proof), "{seq} {size}: {proof:?}");
            }
            refused += usize::from(is_damage(&proof));
        }
        let proof = store.prove_continuation(*size, last);
        match &proof {
            Ok(Some(proof)) => {
                let head = heads.last().expect("the log has entries");
                assert!(is_continued((*size, root), (head.0, &head.1), proof), "{size}");
            }
            _ => assert!(is_damage(&proof), "{size}: {proof:?}"),
        }
        assert!(
            matches!(store.log_root(*size), Ok(Some(found)) if found == *root)
                || is_damage(&store.log_root(*size))
        );
    }
    assert!(refused > 0, "a proof needs the tile");
}
