//! Dropping entries of the log.

use super::*;
use crate::audit::logged_rows::RowComparison;
use crate::audit::segment_log::{EntryContent, SegmentLog};
use crate::journal::tests::rows_of;
use domain_audit::event::{DueData, DueKind, RetentionStartEntry, RetentionStarted};
use domain_audit::log_tree::TreeHash;

/// Commits the entry of a retention that drops the entries up to about `last`, and returns the last one that is dropped.
fn start(journal: &mut Journal, store: &TableReader, last: u64) -> u64 {
    let last_seq = store.droppable_up_to(last).expect("the store is readable");
    let log = Some(DueKind { days: 1, before: at(1), last_seq, count: 1, oldest: None });
    let due = DueData { log, ..DueData::default() };
    let started = RetentionStartEntry { due, peer: None, log_key: Some("key".to_owned()) };
    let started = AuditEvent::new(at(99), None, RetentionStarted(started));
    let record = JournalRecord::from(started);
    journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    last_seq
}

fn begin_drop(journal: &mut Journal, last_seq: u64) -> Erasure {
    let plan = RemovalPlan { log_from: Some(last_seq + 1), ..RemovalPlan::default() };
    journal.begin_erasure(plan).expect("the journal accepts writes")
}

/// Drops about the entries up to `last`, and returns the number of the first entry that is left.
fn drop_up_to(journal: &mut Journal, store: &TableReader, last: u64) -> u64 {
    let last_seq = start(journal, store, last);
    let mut erasure = begin_drop(journal, last_seq);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    let outcome = finish(journal, erasure);
    assert_eq!(outcome.unread_files, Vec::<PathBuf>::new());
    last_seq + 1
}

/// A store with enough entries for some tiles of its tree. Returns the roots by the number of entries.
fn with_tiles(dir: &Path) -> (Journal, TableReader, Vec<(u64, TreeHash)>) {
    let (mut journal, store) = open(dir);
    let mut heads = vec![store.log_head()];
    for n in 0..40 {
        fill(&mut journal, n * 10..n * 10 + 10);
        heads.push(store.log_head());
    }
    assert!(journal.counts().entries > 600);
    (journal, store, heads)
}

/// Checks that the log still has the entries of `before` from `first` on, and that all proofs are as before.
fn assert_kept(store: &TableReader, before: &[LogLine], first: u64, heads: &[(u64, TreeHash)]) {
    let kept = whole_log(store);
    assert_eq!(kept.first().map(|line| line.seq), Some(first));
    let expected = before.iter().filter(|line| line.seq >= first);
    assert!(kept.iter().zip(expected).all(|(kept, before)| kept == before));
    for (size, root) in heads {
        assert_eq!(store.log_root(*size).expect("the tiles are whole"), Some(*root), "{size}");
    }
    let size = store.last_seq();
    for seq in [1, (first - 1).max(1), first, first + 1, size] {
        assert!(store.prove_entry(seq, size).expect("the tiles are whole").is_some(), "{seq}");
    }
    store.audit_all().expect("nothing is missing");
}

/// Reads the segments without the database. Returns the number of dropped entries, and the tree's root.
fn read_offline(dir: &Path) -> Result<(u64, TreeHash), StoreError> {
    let mut dropped = 0;
    let mut compared = RowComparison::default();
    let state = SegmentLog::open(dir)?.read_state(
        Some(&mut compared),
        |entry| {
            dropped += u64::from(matches!(entry.content, EntryContent::Dropped(_)));
            true
        },
        |_| {},
    )?;
    assert_eq!(compared.finish(state.first_seq).differences, []);
    assert_eq!(state.first_seq, dropped + 1);
    Ok((dropped, state.tree.root()))
}

fn segment_files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir.join("segments"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

fn snapshot_files(dir: &Path) -> Vec<PathBuf> {
    let folder = segment_files(dir).into_iter().find(|path| path.is_dir()).expect("the snapshot");
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn dropped_entries_are_in_no_file_and_all_proofs_stay_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, heads) = with_tiles(dir.path());
    fs::rename(dir.path().join("oracle_log.jsonl"), dir.path().join("oracle_log-1.jsonl")).expect("a rename");
    journal.reopen_mirror().expect("the mirror is writable");
    fill(&mut journal, 1000..1003);
    let before = whole_log(&store);
    let segments = segment_files(dir.path()).len();
    let verdict = |n| store.get::<VerdictDelivery>(&id(n)).expect("readable").is_some();
    assert!(verdict(0) && !files_with(dir.path(), "\"seq\":7,").is_empty());

    let first = drop_up_to(&mut journal, &store, 500);
    assert!((400..=501).contains(&first), "{first}");
    assert_kept(&store, &before, first, &heads);
    assert_eq!(files_with(dir.path(), "\"seq\":7,"), Vec::<PathBuf>::new());
    assert!(verdict(0), "the state stays");
    assert!(segment_files(dir.path()).len() < segments / 2);
    let lines: String = whole_log(&store).iter().map(|line| format!("{}\n", line.json)).collect();
    let mirrors = ["oracle_log-1.jsonl", "oracle_log.jsonl"];
    let mirrors = mirrors.map(|name| fs::read_to_string(dir.path().join(name)).expect("readable"));
    assert_eq!(mirrors.concat(), lines);
    assert_eq!(read_offline(dir.path()).expect("the segments are whole").0, first - 1);

    // again, so that a snapshot is replaced, and the rotated file has no entry any longer
    fill(&mut journal, 1003..1300);
    let before = whole_log(&store);
    let first = drop_up_to(&mut journal, &store, store.last_seq());
    assert_kept(&store, &before, first, &heads);
    assert!(!dir.path().join("oracle_log-1.jsonl").exists());
    assert_eq!(read_offline(dir.path()).expect("the segments are whole"), (first - 1, store.log_head().1));
}

#[test]
fn database_is_rebuilt_from_a_snapshot_and_the_segments_after_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, heads) = with_tiles(dir.path());
    let before = whole_log(&store);
    let first = drop_up_to(&mut journal, &store, 400);
    fill(&mut journal, 2000..2010);
    drop((journal, store));
    let rows = rows_of(dir.path());
    fs::remove_dir_all(dir.path().join("store")).expect("the database is removed");
    let (journal, store) = open(dir.path());
    assert_kept(&store, &before, first, &heads);
    drop((journal, store));
    assert_eq!(rows_of(dir.path()), rows);
}

#[test]
fn older_database_than_the_snapshot_is_rebuilt() {
    let dir = tempfile::tempdir().expect("a directory");
    let older = tempfile::tempdir().expect("a directory");
    let (journal, store, heads) = with_tiles(dir.path());
    drop((journal, store));
    copy_dir(&dir.path().join("store"), older.path());
    let (mut journal, store) = open(dir.path());
    let before = whole_log(&store);
    let first = drop_up_to(&mut journal, &store, 400);
    drop((journal, store));
    let database = dir.path().join("store");
    fs::remove_dir_all(&database).expect("the database is removed");
    fs::create_dir(&database).expect("the folder is created");
    copy_dir(older.path(), &database);
    let (_journal, store) = open(dir.path());
    assert_kept(&store, &before, first, &heads);
}

#[test]
fn erasure_after_a_drop_also_changes_the_snapshot() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, heads) = with_tiles(dir.path());
    let outcome = journal.commit(&[addressed(5000, 9000)]).expect("the commit succeeds").remove(0);
    outcome.expect("the record is not stale");
    let first = drop_up_to(&mut journal, &store, 500);
    remove(&mut journal, 5000);
    let mut erasure = begin(&mut journal, &[5000]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    for text in ["Question 5000?", ADDRESS] {
        assert_eq!(files_with(dir.path(), text), Vec::<PathBuf>::new(), "{text}");
    }
    let before = whole_log(&store);
    assert_kept(&store, &before, first, &heads);
    let rows = {
        drop((journal, store));
        rows_of(dir.path())
    };
    fs::remove_dir_all(dir.path().join("store")).expect("the database is removed");
    drop(open(dir.path()));
    assert_eq!(rows_of(dir.path()), rows);
}

#[test]
fn interrupted_drop_leaves_a_whole_store_at_each_step() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, heads) = with_tiles(dir.path());
    let last_seq = start(&mut journal, &store, 500);
    let before = whole_log(&store);
    let whole = tempfile::tempdir().expect("a directory");
    // the snapshot is written and not used
    let mut erasure = begin_drop(&mut journal, last_seq);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    erasure.prepare(&|| true).expect("the disk is writable");
    copy_dir(dir.path(), whole.path());
    {
        assert!(segment_files(whole.path()).iter().any(|path| path.is_dir()));
        let (_journal, store) = open(whole.path());
        assert_kept(&store, &before, 1, &heads);
        assert!(segment_files(whole.path()).iter().all(|path| path.is_file()), "the snapshot is removed");
    }
    // the segments that the snapshot replaces are still there
    let segments = tempfile::tempdir().expect("a directory");
    copy_dir(&dir.path().join("segments"), segments.path());
    finish(&mut journal, erasure);
    drop((journal, store));
    for old in fs::read_dir(segments.path()).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = dir.path().join("segments").join(old.file_name());
        if old.path().is_file() && !path.exists() {
            fs::copy(old.path(), path).expect("the copy succeeds");
        }
    }
    for removed in [None, Some("store")] {
        if let Some(removed) = removed {
            fs::remove_dir_all(dir.path().join(removed)).expect("the database is removed");
        }
        let (_journal, store) = open(dir.path());
        assert_kept(&store, &before, last_seq + 1, &heads);
        assert_eq!(read_offline(dir.path()).expect("the segments are whole").0, last_seq);
    }
}

#[test]
fn damage_in_a_snapshot_is_never_silent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, _) = with_tiles(dir.path());
    let first = drop_up_to(&mut journal, &store, 500);
    let root = store.log_head().1;
    drop((journal, store));
    assert_eq!(read_offline(dir.path()).expect("the segments are whole"), (first - 1, root));
    // as a backup is
    fs::remove_dir_all(dir.path().join("segments.copy")).expect("the removal succeeds");
    let files = snapshot_files(dir.path());
    assert!(files.len() > 2, "{}", files.len());
    let mut rng = fastrand::Rng::with_seed(7);
    for file in &files {
        let whole = fs::read(file).expect("the file is readable");
        for _ in 0..16 {
            let mut damaged = whole.clone();
            let at = rng.usize(..damaged.len());
            match rng.u8(..3) {
                0 => damaged[at] ^= rng.u8(1..),
                1 => damaged.truncate(at),
                _ => drop(damaged.remove(at)),
            }
            fs::write(file, &damaged).expect("the write succeeds");
            match read_offline(dir.path()) {
                // zstd can encode the same content in several ways
                Ok(read) => assert_eq!(read, (first - 1, root), "{}", file.display()),
                Err(error) => {
                    // a changed version in a head looks like a store of another version
                    let is_other = matches!(error, StoreError::Newer { .. } | StoreError::Older { .. });
                    let is_damage = matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. });
                    assert!(is_damage || is_other, "{error}");
                }
            }
        }
        fs::remove_file(file).expect("the removal succeeds");
        read_offline(dir.path()).expect_err("a file is missing");
        fs::write(file, whole).expect("the write succeeds");
    }
    read_offline(dir.path()).expect("the segments are whole again");
}

#[test]
fn missing_entries_that_no_entry_names_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store, _) = with_tiles(dir.path());
    let last_seq = store.droppable_up_to(500).expect("the store is readable");
    let mut erasure = begin_drop(&mut journal, last_seq);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    drop((journal, store));
    assert!(matches!(read_offline(dir.path()), Err(StoreError::Short { .. })));
}

#[test]
fn log_after_any_drops_erasures_and_rebuilds_is_the_same_with_fewer_entries() {
    for seed in 0..6 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, mut store) = open(dir.path());
        let (mut heads, mut first, mut next) = (Vec::new(), 1, 0);
        for _ in 0..25 {
            match rng.u8(..10) {
                0..5 => {
                    let count = rng.usize(1..60);
                    fill(&mut journal, next..next + count);
                    next += count;
                }
                5 | 6 => {
                    let dropped = drop_up_to(&mut journal, &store, rng.u64(..=store.last_seq()));
                    assert!(dropped >= first);
                    first = dropped;
                }
                7 if next > 0 => {
                    let n = rng.usize(..next);
                    if store.get::<VerdictDelivery>(&id(n)).expect("readable").is_some() {
                        remove(&mut journal, n);
                        let mut erasure = begin(&mut journal, &[n]);
                        erasure.rewrite_segments(&|| true).expect("the segments are whole");
                        finish(&mut journal, erasure);
                    }
                }
                turn => {
                    drop((journal, store));
                    if turn == 9 && dir.path().join("store").exists() {
                        fs::remove_dir_all(dir.path().join("store")).expect("the database is removed");
                    }
                    (journal, store) = open(dir.path());
                }
            }
            heads.push(store.log_head());
            assert_eq!(store.first_seq().expect("readable"), first);
        }
        let before = whole_log(&store);
        if store.last_seq() > first {
            assert_kept(&store, &before, first, &heads);
            let (dropped, root) = read_offline(dir.path()).expect("the segments are whole");
            assert_eq!((dropped + 1, root), (first, store.log_head().1), "seed {seed}");
        }
    }
}
