use crate::audit::logged_rows::RowComparison;
use crate::base::row_write::RowWrite;
use crate::journal::testing::open_with;
use crate::journal::tests::{copy_dir, delivered, fill, id, open, options, whole_log};
use crate::journal::{Journal, JournalRecord};
use crate::{SegmentLog, TableReader};
use domain_audit::event::{LostRow, ServiceStopped, StorageRecovered};
use domain_base::event::AuditEvent;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::SessionRecord;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use store_base::error::StoreError;

/// A store with some segments whose writer was killed: its database lacks the last groups.
fn killed() -> (tempfile::TempDir, Journal, TableReader) {
    let dir = tempfile::tempdir().expect("a directory");
    for n in 0..4 {
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    let (mut journal, store) = open(dir.path());
    for n in 4..12 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    (dir, journal, store)
}

/// The segments of a store after the first one, which has its id. Their copies have the same order.
fn later_segments(dir: &Path) -> Vec<PathBuf> {
    later_files(&dir.join("segments"))
}

fn later_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| !path.ends_with("spare")).collect();
    files.sort();
    files.split_off(1)
}

/// Changes a bit in the middle of a segment and of its copy, and removes the database.
fn damage(dir: &Path, number: usize) -> Vec<u8> {
    drop(fs::remove_dir_all(dir.join("store")));
    flip(dir, number)
}

/// Changes a bit in the middle of a segment and of its copy.
fn flip(dir: &Path, number: usize) -> Vec<u8> {
    let files =
        ["segments.copy", "segments"].map(|folder| later_files(&dir.join(folder)).swap_remove(number));
    let contents = files.map(|file| {
        let mut content = fs::read(&file).expect("the segment is readable");
        let used = content.iter().rposition(|byte| *byte != 0).expect("it has groups");
        content[used / 2] ^= 1;
        fs::write(&file, &content).expect("the write succeeds");
        content
    });
    let [_, segment] = contents;
    segment
}

/// The rows that cannot be read, of the sessions 0 to 119.
fn unreadable(store: &TableReader) -> BTreeSet<String> {
    let mut lost = BTreeSet::new();
    for n in 0..120 {
        for (table, error) in [
            ("sessions", store.get::<SessionRecord>(&id(n)).err()),
            ("verdicts", store.get::<VerdictDelivery>(&id(n)).err()),
        ] {
            match error {
                None => {}
                Some(StoreError::RowLost { row, .. }) => drop(lost.insert(row)),
                Some(error) => panic!("{table} {n}: {error}"),
            }
        }
    }
    lost
}

fn log_losses(journal: &mut Journal) -> Vec<LostRow> {
    let lost = journal.unreported_losses().expect("the log is readable").into_values().flatten();
    let lost: Vec<_> = lost.collect();
    let kind = StorageRecovered {
        cause: "damage".to_owned(),
        failed_at: jiff::Timestamp::UNIX_EPOCH,
        fallback_entries: 0,
        lost_rows: Some(lost.clone()),
    };
    let event = AuditEvent::new(jiff::Timestamp::UNIX_EPOCH, None, kind);
    journal.commit(&[JournalRecord::from(event)]).expect("the commit succeeds");
    assert!(journal.unreported_losses().expect("the log is readable").is_empty());
    lost
}

fn heal(journal: &mut Journal) {
    let mut healing = journal.begin_healing().expect("the next segment begins");
    healing.write(&|| true).expect("a segment or its copy is whole");
    journal.finish_healing(healing);
}

#[test]
fn damaged_group_that_the_database_lacks_costs_only_its_rows() {
    let (dir, journal, store) = killed();
    let (log, head) = (whole_log(&store), store.log_head());
    // the segments are compressed in the background
    drop((journal, store));
    let segments = later_segments(dir.path()).len();
    assert!(segments > 4, "{segments}");
    for number in 0..segments {
        let damaged = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), damaged.path());
        damage(damaged.path(), number);
        let (mut journal, store) =
            open_with(options(damaged.path())).unwrap_or_else(|error| panic!("segment {number}: {error}"));
        assert!(whole_log(&store) == log && store.log_head() == head, "segment {number}: another log");
        assert!(store.segment_damage().is_some(), "segment {number}");
        store.audit_all().expect("the counts are right");
        let lost = log_losses(&mut journal);
        let rows: BTreeSet<_> = lost.iter().map(|lost| lost.row.clone()).collect();
        assert!(!rows.is_empty() && rows == unreadable(&store), "segment {number}: {rows:?}");
        heal(&mut journal);
        let backup = journal.begin_backup().expect("the backup begins");
        backup.verify().expect("a known loss is no damage");
        drop((backup, journal, store));
        // the loss stays one after a rebuild, and is a known one for the offline check
        fs::remove_dir_all(damaged.path().join("store")).expect("the removal succeeds");
        let (mut journal, store) = open(damaged.path());
        assert_eq!(unreadable(&store), rows, "segment {number}");
        let mut compared = RowComparison::default();
        let state = SegmentLog::open(damaged.path())
            .and_then(|log| log.read_state(Some(&mut compared), |_| true, |_| {}))
            .expect("the segments are whole");
        let compared = compared.finish(state.first_seq);
        assert_eq!((compared.differences, compared.lost.into_iter().collect()), (Vec::new(), rows.clone()));
        // a row that is set again, and one that is removed, are no longer lost
        let [session, verdict] = ["sessions", "verdicts"].map(|table| {
            let row = rows.iter().find(|row| row.starts_with(table)).expect("a row");
            row.split_once('/').expect("a name").1.parse().expect("a session id")
        });
        let event = || AuditEvent::new(jiff::Timestamp::UNIX_EPOCH, None, ServiceStopped {});
        let put = (0..120).find(|n| id(*n) == session).expect("one of them");
        let removed = JournalRecord {
            writes: vec![
                RowWrite::remove::<VerdictDelivery>(&verdict),
                RowWrite::remove::<SessionRecord>(&session),
            ],
            ..JournalRecord::from(event())
        };
        let outcomes = journal.commit(&[removed, delivered(put, 10)]).expect("the commit succeeds");
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(journal.lost_rows().len(), rows.len() - 2, "segment {number}");
        store.audit_all().expect("the counts are right");
    }
}

#[test]
fn rows_that_the_damaged_database_still_has_are_not_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    for n in 0..6 {
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, n * 20..n * 20 + 20);
    }
    let log = {
        let (_, store) = open(dir.path());
        whole_log(&store)
    };
    let mut random = fastrand::Rng::with_seed(3);
    let mut salvaged = 0;
    for n in 0..12 {
        let damaged = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), damaged.path());
        // one row of the log in the database, and one byte of a segment
        let db = crate::journal::tests::raw(damaged.path());
        let (key, value) = db.scan_prefix(b"l").nth(n % 5).expect("a row").expect("it is readable");
        let mut value = value.to_vec();
        let at = value.len() / 2;
        value[at] ^= 1;
        db.insert(key, value).expect("the write succeeds");
        drop(db);
        let segments: Vec<_> = fs::read_dir(damaged.path().join("segments"))
            .expect("a folder")
            .map(|file| file.expect("a file").path())
            .filter(|path| !path.ends_with("spare"))
            .collect();
        let segment = random.choice(&segments).expect("a segment").clone();
        let mut content = fs::read(&segment).expect("the segment is readable");
        let used = content.iter().rposition(|byte| *byte != 0).expect("it has groups");
        content[random.usize(60..used)] ^= 1;
        fs::write(&segment, content).expect("the write succeeds");
        let opened = open_with(options(damaged.path()));
        let Ok((mut journal, store)) = opened else { continue };
        if store.audit_all().is_err() {
            // the damage of the database is found by its check only; then it is rebuilt, and the segments are needed
            continue;
        }
        salvaged += 1;
        assert!(whole_log(&store) == log, "another log");
        assert_eq!(log_losses(&mut journal), [], "the database has all rows");
    }
    println!("{salvaged} of 12");
}

#[test]
fn entry_that_no_copy_has_prevents_the_start_and_changes_nothing() {
    let (dir, journal, store) = killed();
    let log = whole_log(&store);
    drop((journal, store));
    let damaged = tempfile::tempdir().expect("a directory");
    copy_dir(dir.path(), damaged.path());
    let changed = damage(damaged.path(), 2);
    let mirror = damaged.path().join("oracle_log.jsonl");
    let kept = fs::read(&mirror).expect("the mirror is readable");
    fs::write(&mirror, "").expect("the write succeeds");
    for _ in 0..2 {
        let error = open_with(options(damaged.path())).expect_err("entries are in no copy");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
    }
    assert_eq!(fs::read(&later_segments(damaged.path())[2]).expect("readable"), changed);
    fs::write(&mirror, kept).expect("the write succeeds");
    let (_journal, copied) = open_with(options(damaged.path())).expect("the mirror has the entries");
    assert!(whole_log(&copied) == log, "another log");
}

#[test]
fn damage_in_the_last_segment_is_repaired_without_mark_and_mirror() {
    let (dir, journal, store) = killed();
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    for name in ["watermark", "oracle_log.jsonl"] {
        fs::remove_file(dir.path().join(name)).expect("the removal succeeds");
    }
    let last = later_segments(dir.path()).pop().expect("a segment");
    let content = fs::read(&last).expect("it is readable");
    flip(dir.path(), later_segments(dir.path()).len() - 1);
    let error = open_with(options(dir.path())).expect_err("no copy has the last entries");
    assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
    fs::write(dir.path().join("segments.copy").join(last.file_name().expect("a name")), content)
        .expect("the write succeeds");
    let (_journal, store) = open(dir.path());
    assert!(whole_log(&store) == log && store.log_head() == head, "another log");
    assert_eq!(unreadable(&store), BTreeSet::new());
}

#[test]
fn missing_segment_and_mark_are_replaced_by_the_other_copies() {
    let (dir, journal, store) = killed();
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    fs::remove_file(dir.path().join("watermark")).expect("the removal succeeds");
    fs::remove_file(later_segments(dir.path()).swap_remove(1)).expect("the removal succeeds");
    let (_journal, store) = open(dir.path());
    assert!(whole_log(&store) == log && store.log_head() == head, "another log");
    assert_eq!(unreadable(&store), BTreeSet::new());
}

#[test]
fn missing_last_segment_and_mark_are_replaced_by_the_other_copies() {
    let (dir, journal, store) = killed();
    drop((journal, store));
    let (mut journal, store) = open(dir.path());
    // later versions of rows
    for _ in 0..3 {
        let mut record = delivered(7, 5);
        record.expect.clear();
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    }
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    fs::remove_file(dir.path().join("watermark")).expect("the removal succeeds");
    fs::remove_file(later_segments(dir.path()).pop().expect("a segment")).expect("the removal succeeds");
    let (_journal, store) = open(dir.path());
    assert!(whole_log(&store) == log && store.log_head() == head, "another log");
    assert_eq!(unreadable(&store), BTreeSet::new());
}

#[test]
fn swapped_segments_lose_nothing() {
    let (dir, journal, store) = killed();
    let log = whole_log(&store);
    drop((journal, store));
    fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
    let files = later_segments(dir.path());
    let [first, second] = [&files[0], &files[1]].map(|file| fs::read(file).expect("the segment is readable"));
    assert_eq!(files[0].extension(), files[1].extension(), "the same form");
    fs::write(&files[0], second).expect("the write succeeds");
    fs::write(&files[1], first).expect("the write succeeds");
    let (_journal, store) = open(dir.path());
    assert_eq!((whole_log(&store) == log, unreadable(&store)), (true, BTreeSet::new()));
}

#[test]
fn segment_of_another_history_changes_nothing() {
    let (dir, journal, store) = killed();
    drop((journal, store));
    let other = tempfile::tempdir().expect("a directory");
    copy_dir(dir.path(), other.path());
    let mut logs = [dir.path(), other.path()].into_iter().zip([200, 300]).map(|(dir, first)| {
        let (mut journal, store) = open(dir);
        fill(&mut journal, first..first + 10);
        whole_log(&store)
    });
    let log = logs.next().expect("the log of the first store");
    assert!(logs.next().is_some_and(|other| other.len() == log.len() && other != log), "two histories");
    let last = later_segments(dir.path()).pop().expect("a segment");
    let foreign = fs::read(later_segments(other.path()).pop().expect("a segment")).expect("readable");
    for has_database in [true, false] {
        let copy = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), copy.path());
        if !has_database {
            fs::remove_dir_all(copy.path().join("store")).expect("the removal succeeds");
        }
        let (file, right) = (later_segments(copy.path()).pop().expect("a segment"), fs::read(&last));
        fs::write(&file, &foreign).expect("the write succeeds");
        if let Ok((_, store)) = open_with(options(copy.path())) {
            assert!(whole_log(&store) == log, "another log");
        }
        fs::write(&file, right.expect("readable")).expect("the write succeeds");
        let (_journal, store) = open(copy.path());
        assert_eq!((whole_log(&store) == log, unreadable(&store)), (true, BTreeSet::new()), "{has_database}");
    }
}

#[test]
fn changed_line_of_the_mirror_takes_the_place_of_no_entry() {
    let (dir, journal, store) = killed();
    drop((journal, store));
    fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
    for folder in ["segments", "segments.copy"] {
        let segment = later_files(&dir.path().join(folder)).pop().expect("a segment");
        let mut content = fs::read(&segment).expect("the segment is readable");
        let used = content.iter().rposition(|byte| *byte != 0).expect("it has groups");
        content[used - 10] ^= 1;
        fs::write(&segment, content).expect("the write succeeds");
    }
    let mirror = dir.path().join("oracle_log.jsonl");
    let lines = fs::read_to_string(&mirror).expect("readable");
    let (before, last) = lines.trim_end().rsplit_once('\n').expect("lines");
    fs::write(&mirror, format!("{before}\n{}\n", last.replacen("cs_119", "cs_999", 1)))
        .expect("the write succeeds");
    assert!(last.contains("cs_119"), "{last}");
    let error = open_with(options(dir.path())).expect_err("the last entry is damaged");
    assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
    fs::write(&mirror, &lines).expect("the write succeeds");
    let (_journal, store) = open(dir.path());
    assert!(whole_log(&store).last().is_some_and(|line| line.json == last));
}

/// The positions of the groups in the last segment in the folder `folder`.
fn groups_in(dir: &Path, folder: &str) -> Vec<usize> {
    let path = later_files(&dir.join(folder)).pop().expect("a segment");
    let content = fs::read(path).expect("the segment is readable");
    memchr::memmem::find_iter(&content, b"grp1").collect()
}

/// Commits small groups until the last segment has some.
fn fill_groups(dir: &Path, journal: &mut Journal) {
    for n in 200.. {
        fill(journal, n..n + 1);
        if (5..9).contains(&groups_in(dir, "segments").len()) {
            return;
        }
    }
}

/// Changes a byte in group `number` of the last segment in the folder `folder`, counted from 0.
fn damage_group(dir: &Path, folder: &str, number: usize) {
    let path = later_files(&dir.join(folder)).pop().expect("a segment");
    let mut content = fs::read(&path).expect("the segment is readable");
    content[groups_in(dir, folder)[number] + 50] ^= 1;
    fs::write(&path, &content).expect("the write succeeds");
}

#[test]
fn groups_that_only_one_of_segment_and_copy_has_are_all_kept() {
    let (dir, mut journal, store) = killed();
    fill_groups(dir.path(), &mut journal);
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    for removed in [None, Some("store")] {
        for (in_segment, in_copy) in [(1, 2), (2, 1), (2, 2), (0, 3)] {
            let damaged = tempfile::tempdir().expect("a directory");
            copy_dir(dir.path(), damaged.path());
            if let Some(removed) = removed {
                fs::remove_dir_all(damaged.path().join(removed)).expect("the removal succeeds");
            }
            damage_group(damaged.path(), "segments", in_segment);
            damage_group(damaged.path(), "segments.copy", in_copy);
            let (journal, store) = open(damaged.path());
            let what = format!("groups {in_segment} and {in_copy}, without {removed:?}");
            assert!(whole_log(&store) == log && store.log_head() == head, "{what}");
            if in_segment != in_copy {
                assert_eq!(journal.lost_rows(), [], "{what}");
            }
            store.audit_all().expect(&what);
        }
    }
}

#[test]
fn copy_that_ends_early_takes_the_place_of_no_later_group() {
    let (dir, mut journal, store) = killed();
    fill_groups(dir.path(), &mut journal);
    let (log, head) = (whole_log(&store), store.log_head());
    drop((journal, store));
    // as after a power cut
    let copy = later_files(&dir.path().join("segments.copy")).pop().expect("a copy");
    let mut content = fs::read(&copy).expect("the copy is readable");
    content.truncate(groups_in(dir.path(), "segments.copy")[3]);
    fs::write(&copy, content).expect("the write succeeds");
    damage_group(dir.path(), "segments", 1);
    let (journal, store) = open(dir.path());
    assert!(whole_log(&store) == log && store.log_head() == head, "another log");
    assert_eq!(journal.lost_rows(), [], "the group is in the copy");
}
