use super::*;
use crate::audit::logged_rows::RowComparison;
use crate::audit::removal::RemovalPlan;
use crate::audit::segment_log::SegmentLog;
use crate::base::engine::TableReader;
use crate::base::row_write::RowWrite;
use crate::journal::JournalRecord;
use crate::journal::testing::open_with;
use crate::journal::tests::{at, delivered, fill, id, open, options, rows_of, whole_log};
use crate::segments::{KEPT_DIR, visit_rows};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::SessionRecord;
use memchr::memmem;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use store_base::error::StoreError;
use tempfile::TempDir;

mod pairs;

/// The files below `dir` that are not folders, with paths relative to it.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(dir).expect("the folder is readable").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> =
        entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

fn copy_of(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    for file in files_in(dir) {
        let to = copy.path().join(file.strip_prefix(dir).expect("it is below the folder"));
        fs::create_dir_all(to.parent().expect("it has a folder")).expect("the folder is created");
        // the store of a running process replaces files meanwhile
        if let Err(error) = fs::copy(&file, to) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
    copy
}

fn heal(journal: &mut Journal) {
    let mut healing = journal.begin_healing().expect("the next segment begins");
    healing.write(&|| true).expect("a segment or its copy is whole");
    journal.finish_healing(healing);
}

/// Rebuilds the database from the segments, and compares all its rows with `rows`.
fn assert_rebuilt(dir: &Path, rows: &[(Vec<u8>, Vec<u8>)], what: &str) {
    fs::remove_dir_all(dir.join("store")).expect("the removal succeeds");
    drop(open_with(options(dir)).unwrap_or_else(|error| panic!("{what}: {error}")));
    assert_eq!(rows_of(dir), rows, "{what}");
}

/// Damages one file of a store: a flip, a cut, a removal, or an older copy.
fn damage(random: &mut fastrand::Rng, dir: &Path, older: &Path) -> String {
    let mut files = files_in(dir);
    files.retain(|file| !file.ends_with("spare") && !file.ends_with("lock"));
    let path = random.choice(&files).expect("there are files").clone();
    let mut bytes = fs::read(&path).expect("the file is readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
    let at = random.usize(..=used);
    let what = match random.u8(..8) {
        0 => {
            fs::remove_file(&path).expect("the removal succeeds");
            "removed".to_owned()
        }
        1 => {
            fs::write(&path, &bytes[..at]).expect("the write succeeds");
            format!("cut at byte {at}")
        }
        2 => {
            let before = older.join(path.strip_prefix(dir).expect("it is below the folder"));
            if before.exists() {
                fs::copy(before, &path).expect("the copy succeeds");
            }
            "an older copy".to_owned()
        }
        3 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
            fs::write(&path, &bytes).expect("the write succeeds");
            format!("zeros from byte {at}")
        }
        bit => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            fs::write(&path, &bytes).expect("the write succeeds");
            format!("a flip in byte {at}")
        }
    };
    format!("{}: {what}", path.strip_prefix(dir).expect("it is below the folder").display())
}

/// A store with some segments, and a copy of it from before its last entries.
fn filled() -> (TempDir, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut older = None;
    for n in 0..40 {
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, n * 10..n * 10 + 10);
        drop(journal);
        if n == 30 {
            older = Some(copy_of(dir.path()));
        }
    }
    (dir, older.expect("the loop is longer"))
}

/// Damages one file in each of `cases` copies of a store that was stopped. Each one opens with all rows, and is repaired.
fn check_damage(cases: usize) {
    let (dir, older) = filled();
    let rows = rows_of(dir.path());
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut healed = 0;
    for n in 0..cases {
        let damaged = copy_of(dir.path());
        let what = format!("seed {seed}, case {n}, {}", damage(&mut random, damaged.path(), older.path()));
        let (mut journal, store) =
            open_with(options(damaged.path())).unwrap_or_else(|error| panic!("{what}: {error}"));
        if let Err(error) = store.audit_all() {
            // the daily check finds damage of the database that a start does not read, and the database is rebuilt
            journal.rebuild(error.to_string());
            journal.recover().unwrap_or_else(|error| panic!("{what}: {error}"));
            store.audit_all().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        if store.segment_damage().is_none() && store.check_segments(|| true).is_ok() {
            drop((journal, store));
            assert_rebuilt(damaged.path(), &rows, &what);
            continue;
        }
        assert!(store.segment_damage().is_some(), "{what}");
        // a commit during the repair
        fill(&mut journal, 1000..1001);
        heal(&mut journal);
        healed += 1;
        assert_eq!(store.segment_damage(), None, "{what}");
        assert!(store.check_segments(|| true).expect(&what), "{what}");
        drop((journal, store));
        let with_one_more = rows_of(damaged.path());
        assert!(with_one_more.len() > rows.len(), "{what}");
        assert_rebuilt(damaged.path(), &with_one_more, &what);
    }
    assert!(healed > cases / 12, "{healed}");
}

#[test]
fn any_one_damaged_file_is_repaired_without_a_loss() {
    check_damage(24);
}

#[test]
#[ignore = "takes minutes"]
fn any_one_damaged_file_is_repaired_in_500_stores() {
    check_damage(500);
}

/// Damages two files in each of `cases` copies of a store: each one opens with the whole log, and with all rows but those that it
/// reports as lost, or not at all.
fn check_two_damages(cases: usize) {
    let (dir, older) = filled();
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 400..410);
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut opened, mut lossy) = (0, 0);
    for n in 0..cases {
        let damaged = copy_of(dir.path());
        let first = damage(&mut random, damaged.path(), older.path());
        let second = damage(&mut random, damaged.path(), older.path());
        let what = format!("seed {seed}, case {n}, {first}; {second}");
        let (mut journal, store) = match open_with(options(damaged.path())) {
            Err(StoreError::Corrupt { .. } | StoreError::Short { .. }) => continue,
            opened => opened.unwrap_or_else(|error| panic!("{what}: {error}")),
        };
        if let Err(error) = store.audit_all() {
            journal.rebuild(error.to_string());
            match journal.recover() {
                Err(StoreError::Corrupt { .. } | StoreError::Short { .. }) => continue,
                recovered => recovered.unwrap_or_else(|error| panic!("{what}: {error}")),
            }
        }
        opened += 1;
        assert!(whole_log(&store) == log && store.log_head() == head, "{what}");
        let lost: Vec<_> = journal.lost_rows().into_iter().map(|lost| lost.row).collect();
        lossy += usize::from(!lost.is_empty());
        for session in 0..410 {
            let name = format!("sessions/{}", id(session));
            match store.get::<SessionRecord>(&id(session)) {
                Ok(found) => assert!(found.is_some() && !lost.contains(&name), "{what}: {name}"),
                Err(StoreError::RowLost { .. }) => assert!(lost.contains(&name), "{what}: {name}"),
                Err(error) => panic!("{what}: {name}: {error}"),
            }
        }
    }
    println!("{opened} of {cases} opened, {lossy} with losses");
    assert!(opened > cases / 2, "{opened} of {cases}");
}

#[test]
fn any_two_damaged_files_are_repaired_or_reported() {
    check_two_damages(20);
}

#[test]
#[ignore = "takes minutes"]
fn any_two_damaged_files_are_repaired_or_reported_in_500_stores() {
    check_two_damages(500);
}

#[test]
fn damaged_table_of_frames_is_never_copied() {
    let (dir, _older) = filled();
    let (mut journal, store) = open(dir.path());
    let segment = dir.path().join("segments/0000000003.zst");
    let whole = fs::read(&segment).expect("it is compressed");
    let mut damaged = whole.clone();
    let last = damaged.len() - 12;
    damaged[last] ^= 1;
    fs::write(&segment, &damaged).expect("the write succeeds");
    let plan = RemovalPlan { sessions: [(id(1000), 1)].into(), ..RemovalPlan::default() };
    let mut erasure = journal.begin_erasure(plan).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the copy is whole");
    drop(erasure);
    assert_eq!(fs::read(dir.path().join("segments.copy/0000000003.zst")).expect("a copy"), whole);
    assert_eq!(fs::read(&segment).expect("it is written again"), whole);
    assert!(store.segment_damage().is_some(), "the other segments are checked, too");
    heal(&mut journal);
    assert_eq!((store.segment_damage(), journal.lost_rows()), (None, Vec::new()));
}

/// Damages one file of the segments or of their copies in each of `cases` open stores: all readers succeed, and the damage is repaired.
fn check_readers(cases: usize) {
    let (dir, older) = filled();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut noted = 0;
    for n in 0..cases {
        let damaged = copy_of(dir.path());
        let (mut journal, store) = open(damaged.path());
        let (log, head) = (whole_log(&store), store.log_head());
        let groups = |store: &TableReader| {
            let mut groups = Vec::new();
            let read = visit_rows(store, |rows| {
                groups.push(rows.clone());
                Ok(())
            });
            read.map(|()| groups)
        };
        let whole = groups(&store).expect("the segments are whole");
        let folder = if n % 2 == 0 { "segments" } else { "segments.copy" };
        let of = |dir: &Path| dir.join(folder);
        let file = damage(&mut random, &of(damaged.path()), &of(older.path()));
        let what = format!("seed {seed}, case {n}, {folder}/{file}");
        let found = groups(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(found == whole, "{what}: other groups");
        let mut compared = RowComparison::default();
        let verified = SegmentLog::open(damaged.path())
            .and_then(|log| log.read_state(Some(&mut compared), |_| true, |_| {}))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((verified.tree.size(), verified.tree.root()), head, "{what}");
        assert_eq!(compared.finish(1).differences, [], "{what}");
        let is_noted = store.segment_damage().is_some();
        assert_eq!(verified.damage.is_some(), is_noted, "{what}");
        assert!(!is_noted || folder == "segments", "{what}: a whole segment was read");
        let plan = RemovalPlan { values_up_to: Some(head.0), ..RemovalPlan::default() };
        let mut erasure = journal.begin_erasure(plan).unwrap_or_else(|error| panic!("{what}: {error}"));
        erasure.rewrite_segments(&|| true).unwrap_or_else(|error| panic!("{what}: {error}"));
        erasure.prepare(&|| true).unwrap_or_else(|error| panic!("{what}: {error}"));
        journal.rebuild("a test".to_owned());
        journal.recover().unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(erasure);
        assert!(whole_log(&store) == log && store.log_head() == head, "{what}");
        assert_eq!(journal.lost_rows(), [], "{what}");
        if let Err(damage) = store.check_segments(|| true) {
            assert!(damage.damage().is_some(), "{what}: {damage}");
        }
        noted += usize::from(store.segment_damage().is_some());
        heal(&mut journal);
        assert_eq!(store.segment_damage(), None, "{what}");
        assert!(store.check_segments(|| true).expect(&what), "{what}");
        journal.begin_backup().expect(&what).verify().expect(&what);
    }
    assert!(noted > cases / 4, "{noted} of {cases}");
}

#[test]
fn every_reader_uses_the_copy_of_a_damaged_segment() {
    check_readers(16);
}

#[test]
#[ignore = "takes minutes"]
fn every_reader_uses_the_copy_of_a_damaged_segment_in_500_stores() {
    check_readers(500);
}

#[test]
fn changed_version_of_a_row_that_was_replaced_later_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = open(dir.path());
    // each in a group of its own
    for summary_bytes in [40, 50, 60] {
        let record = JournalRecord { expect: Vec::new(), ..delivered(1, summary_bytes) };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("it is not stale");
    }
    let removed = JournalRecord {
        writes: vec![RowWrite::remove::<VerdictDelivery>(&id(1))],
        ..JournalRecord::from(AuditEvent::new(at(1), None, ServiceStopped {}))
    };
    journal.commit(&[removed]).expect("the commit succeeds").remove(0).expect("it is not stale");
    journal.segments.seal().expect("the next segment begins");
    let differences = || {
        let mut compared = RowComparison::default();
        let log = SegmentLog::open(dir.path()).expect("no segment is missing");
        log.read_state(Some(&mut compared), |_| true, |_| {}).expect("the checksums are right");
        let found = compared.finish(1).differences.into_iter();
        found.map(|row| (row.row, row.named, row.stored)).collect::<Vec<_>>()
    };
    assert_eq!(differences(), []);
    // (the group, the rows that differ)
    let [session, verdict] = ["sessions/cs_1", "verdicts/cs_1"].map(str::to_owned);
    for entries in [2, 4, 6] {
        let segments = journal.segments.up_to_now();
        let change = |from: &'static [u8], to: &'static [u8]| {
            let changed = segments.change_rows(
                |_, _| true,
                |last, group| {
                    let mut changed = RowBatch::default();
                    for (key, value) in group.into_rows() {
                        match value {
                            Some(value) if last == entries && !rows::is_of(&key, LOG) => {
                                let mut value = value.to_vec();
                                while let Some(at) = memmem::find(&value, from) {
                                    value[at..at + to.len()].copy_from_slice(to);
                                }
                                changed.insert(key, value);
                            }
                            value => changed.set(key, value),
                        }
                    }
                    Ok(Some(changed))
                },
                || true,
            );
            segments.put_erased(&changed.expect("the segments are whole")).expect("the files are replaced");
        };
        change(b"Question 1?", b"Question 7?");
        let found = differences();
        let expected = [&session, &verdict].map(|row| (row.clone(), Some(entries), Some(entries)));
        assert_eq!(found, expected, "the group up to entry {entries}");
        change(b"Question 7?", b"Question 1?");
        assert_eq!(differences(), []);
    }
}

#[test]
fn segment_that_is_missing_in_an_open_store_is_reported_and_repaired() {
    let (dir, _older) = filled();
    let (mut journal, store) = open(dir.path());
    let segment = dir.path().join("segments/0000000003.zst");
    let whole = fs::read(&segment).expect("it is compressed");
    fs::remove_file(&segment).expect("the removal succeeds");
    let missing = journal.begin_backup().expect_err("a segment is missing");
    assert!(matches!(missing, StoreError::Short { .. }), "{missing}");
    assert!(store.segment_damage().is_some());
    heal(&mut journal);
    assert_eq!(store.segment_damage(), None);
    assert_eq!(fs::read(&segment).expect("it is written again"), whole);
    journal.begin_backup().expect("the backup begins").verify().expect("no file is damaged");
}

#[test]
fn killed_store_with_a_damaged_segment_opens_with_all_rows_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = fastrand::Rng::with_seed(fastrand::u64(..));
    let (mut journal, store) = open(dir.path());
    let mut opened = 0;
    for n in 0..20 {
        fill(&mut journal, n * 20..n * 20 + 10);
        if n % 2 == 0 {
            journal.sync_pending_work();
            journal.sync_pending_work();
        }
        // the database of the copy lacks groups that sled has not written yet
        fill(&mut journal, n * 20 + 10..n * 20 + 20);
        let damaged = copy_of(dir.path());
        let segments = files_in(&damaged.path().join("segments"));
        let last = segments.iter().rfind(|path| path.extension().is_none() && !path.ends_with("spare"));
        let mut bytes = fs::read(last.expect("a segment is there")).expect("the file is readable");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("it has groups");
        bytes[random.usize(..=used)] ^= 1 << random.u8(..8);
        fs::write(last.expect("a segment is there"), bytes).expect("the write succeeds");
        match open_with(options(damaged.path())) {
            Ok((mut copied, reader)) => {
                opened += 1;
                assert_eq!(copied.counts(), journal.counts());
                assert_eq!(whole_log(&reader), whole_log(&store));
                heal(&mut copied);
                drop((copied, reader));
                let rows = rows_of(damaged.path());
                assert_rebuilt(damaged.path(), &rows, "after the repair");
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
            }
        }
    }
    assert!(opened > 0);
}

#[test]
fn copies_that_cannot_be_written_are_reported_until_they_are_written() {
    let (dir, _older) = filled();
    let (copies, moved) = (dir.path().join("segments.copy"), dir.path().join("moved"));
    let link = || symlink("missing", &copies).expect("the link is created");
    fs::remove_dir_all(&copies).expect("the removal succeeds");
    link();
    let (mut journal, store) = open(dir.path());
    let is_missing = |store: &TableReader| store.missing_copies().is_some();
    assert!(is_missing(&store), "the last segment has no copy");
    let wait = |journal: &mut Journal, expected: bool| {
        for _ in 0..2000 {
            journal.sync_pending_work();
            if journal.missing_copies().is_some() == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{:?}", journal.missing_copies());
    };
    wait(&mut journal, true);
    fill(&mut journal, 400..410);
    fs::remove_file(&copies).expect("the link is removed");
    wait(&mut journal, false);
    assert!(store.check_segments(|| true).expect("all segments have their copies"));

    // while it is open, the next segment has none
    fs::rename(&copies, &moved).expect("the rename succeeds");
    link();
    let mut next = 500;
    while !is_missing(&store) {
        fill(&mut journal, next..next + 10);
        next += 10;
    }
    fs::remove_file(&copies).expect("the link is removed");
    fs::rename(&moved, &copies).expect("the rename succeeds");
    wait(&mut journal, false);
    drop((journal, store));
    let rows = rows_of(dir.path());
    // the copies alone have everything
    fs::remove_dir_all(dir.path().join("segments")).expect("the removal succeeds");
    assert_rebuilt(dir.path(), &rows, "from the copies");
}

/// Changes a bit in the middle of segment `number` and of its copy.
fn damage_both(dir: &Path, number: u64) {
    for folder in ["segments", "segments.copy"] {
        let path = dir.join(format!("{folder}/{number:010}.zst"));
        let mut bytes = fs::read(&path).expect("it is compressed");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).expect("the write succeeds");
    }
}

#[test]
fn segment_that_is_damaged_like_its_copy_costs_its_rows_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    for n in 0..20 {
        // the segments are compressed in the background
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    let (mut journal, store) = open(dir.path());
    let (log, counts) = (whole_log(&store), journal.counts());
    damage_both(dir.path(), 2);
    let read = |file: &str| fs::read(dir.path().join(file)).expect("the file is readable");
    let damaged = ["segments/0000000002.zst", "segments.copy/0000000002.zst"].map(read);
    assert!(store.check_segments(|| true).is_err());
    let mut healing = journal.begin_healing().expect("the next segment begins");
    let written = healing.write(&|| true);
    let Err(damage @ (StoreError::Corrupt { .. } | StoreError::Short { .. })) = written else {
        panic!("{written:?}")
    };
    // as the daemon does then
    journal.rebuild(damage.to_string());
    journal.recover().expect("the other segments and the mirror have all entries");
    assert_eq!(whole_log(&store), log);
    assert_eq!(journal.counts(), counts);
    let lost: Vec<_> = journal.lost_rows().into_iter().map(|lost| lost.row).collect();
    for n in 0..200 {
        let name = format!("sessions/{}", id(n));
        match store.get::<SessionRecord>(&id(n)) {
            Ok(session) => assert!(session.is_some() && !lost.contains(&name), "{name}"),
            Err(StoreError::RowLost { .. }) => assert!(lost.contains(&name), "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(store.segment_damage().is_some_and(|damage| damage.contains(KEPT_DIR)));
    let kept = ["segments-0000000002.zst", "segments.copy-0000000002.zst"];
    assert_eq!(kept.map(|name| read(&format!("{KEPT_DIR}/{name}"))), damaged);
    assert_eq!(files_in(&dir.path().join(KEPT_DIR)), kept.map(|name| dir.path().join(KEPT_DIR).join(name)));
    heal(&mut journal);
    assert!(store.check_segments(|| true).expect("a snapshot is in place of the segments"));
    let plan = RemovalPlan { sessions: [(id(1000), 1)].into(), ..RemovalPlan::default() };
    pairs::erase(&mut journal, plan);
    assert!(!dir.path().join(KEPT_DIR).exists());
    store.audit_all().expect("nothing else is missing");
    fill(&mut journal, 1000..1010);
    drop((journal, store));
    let rows = rows_of(dir.path());
    assert_rebuilt(dir.path(), &rows, "after the loss");
}
