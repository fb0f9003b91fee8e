use super::*;
use crate::audit::log::LogLine;
use crate::base::row_write::RowWrite;
use crate::base::watermark::SnapshotId;
use crate::journal::JournalRecord;
use crate::journal::tests::{at, copy_dir, delivered, fill, id, open, whole_log};
use crate::{RemovableEntries, TableReader};
use domain_audit::leaf::leaf_of;
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, EventKind};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::SessionRemoved;
use domain_verdict::session::SessionRecord;
use domain_verification::event::{CommentEntry, DismissalEntry, ReviewCommented, ReviewDismissed};
use std::io::{ErrorKind, Read};

mod dropping;

const ADDRESS: &str = "ada@example.org";

/// The files under `dir` that have `text`, compressed segments included.
pub(in crate::journal) fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let mut bytes = match fs::read(&path) {
            // the database replaces its own files meanwhile
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.expect("the file is readable"),
        };
        if path.extension().is_some_and(|extension| extension == "zst") {
            let compressed = std::mem::take(&mut bytes);
            zstd::Decoder::new(&compressed[..]).expect("zstd").read_to_end(&mut bytes).expect("it is whole");
        }
        if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
            found.push(path);
        }
    }
    found
}

/// The delivery of session `n`, which has an address.
fn addressed(n: usize, summary_bytes: usize) -> JournalRecord {
    let mut record = delivered(n, summary_bytes);
    for write in &mut record.writes {
        if let Some(session) = write.read::<SessionRecord>() {
            let customer_email = Some(ADDRESS.to_owned().try_into().expect("an address"));
            *write = RowWrite::put(&SessionRecord { customer_email, ..session });
        }
    }
    record
}

/// A store whose sessions 1 to 3 have an address, with a rotated mirror and several segments.
fn filled(dir: &Path) -> (Journal, TableReader) {
    let (mut journal, store) = open(dir);
    let commit = |journal: &mut Journal, record| {
        let outcome = journal.commit(&[record]).expect("the commit succeeds").remove(0);
        outcome.expect("the record is not stale");
    };
    commit(&mut journal, addressed(1, 20_000));
    commit(&mut journal, addressed(2, 20_000));
    fs::rename(dir.join("oracle_log.jsonl"), dir.join("oracle_log-1.jsonl")).expect("the rename succeeds");
    journal.reopen_mirror().expect("the mirror is writable");
    fill(&mut journal, 4..30);
    // the last row of the log has its entries
    commit(&mut journal, addressed(3, 40));
    (journal, store)
}

fn remove(journal: &mut Journal, n: usize) {
    let peer = PeerCredentials { uid: 0, gid: 0, pid: None };
    let removed = AuditEvent::new(at(99), id(n), SessionRemoved { verdict_sha256: None, peer });
    let record = JournalRecord {
        events: vec![removed],
        writes: vec![RowWrite::remove::<SessionRecord>(&id(n)), RowWrite::remove::<VerdictDelivery>(&id(n))],
        ..JournalRecord::default()
    };
    journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
}

/// Begins the erasure of sessions from all entries so far.
fn begin(journal: &mut Journal, sessions: &[usize]) -> Erasure {
    let up_to = journal.counts().entries;
    let sessions = sessions.iter().map(|n| (id(*n), up_to)).collect();
    journal
        .begin_erasure(RemovalPlan { sessions, ..RemovalPlan::default() })
        .expect("the journal accepts writes")
}

fn of_session(n: usize, up_to: u64) -> RemovalPlan {
    RemovalPlan { sessions: [(id(n), up_to)].into(), ..RemovalPlan::default() }
}

fn finish(journal: &mut Journal, mut erasure: Erasure) -> ErasureOutcome {
    while journal.finish_erasure(&mut erasure).expect("the journal accepts writes") != ErasureStep::Finished {
        erasure.prepare(&|| true).expect("the disk is writable");
    }
    erasure.finish().expect("the disk is writable")
}

fn leaves(lines: &[LogLine]) -> Vec<String> {
    lines.iter().map(|line| leaf_of(&line.json).expect("an entry").into_owned()).collect()
}

#[test]
fn erasure_leaves_no_value_of_the_session_in_any_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    // session 2 stays
    [1, 3].into_iter().for_each(|n| remove(&mut journal, n));
    let before = whole_log(&store);
    assert!(!files_with(dir.path(), "Question 1?").is_empty());
    let mut erasure = begin(&mut journal, &[1, 3]);
    fill(&mut journal, 30..33);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    // more entries than the journal applies at once, and a rotation
    erasure.prepare(&|| true).expect("the disk is writable");
    fill(&mut journal, 33..60);
    fs::rename(dir.path().join("oracle_log.jsonl"), dir.path().join("oracle_log-2.jsonl")).expect("a rename");
    let outcome = finish(&mut journal, erasure);
    let data =
        BTreeSet::from([ErasedData::new("session"), ErasedData::new("verdict"), ErasedData::LOG_VALUES]);
    assert_eq!(outcome.data, [(id(1), data.clone()), (id(3), data)].into());
    assert_eq!(outcome.unread_files, Vec::<PathBuf>::new());
    fill(&mut journal, 60..62);

    for text in ["Question 1?", "Question 3?"] {
        assert_eq!(files_with(dir.path(), text), Vec::<PathBuf>::new(), "{text}");
    }
    let with_address = files_with(dir.path(), ADDRESS);
    assert!(!with_address.is_empty(), "session 2 has the same address");
    let after = whole_log(&store);
    assert_eq!(leaves(&after)[..before.len()], leaves(&before));
    let erased = |line: &LogLine| !line.json.contains("query_preview") || line.json.contains(r#"{"sha256":"#);
    for line in after.iter().filter(|line| line.json.contains("cs_1\"") || line.json.contains("cs_3\"")) {
        assert!(erased(line), "{}", line.json);
    }
    assert!(after.iter().any(|line| line.json.contains("Question 2?")));
    store.audit_all().expect("nothing is missing");
    let rotated = ["oracle_log-1.jsonl", "oracle_log-2.jsonl", "oracle_log.jsonl"]
        .map(|name| fs::read_to_string(dir.path().join(name)).expect("the file is readable"));
    let lines: String = after.iter().map(|line| format!("{}\n", line.json)).collect();
    assert_eq!(rotated.concat(), lines);

    // the segments give the same again
    drop((journal, store));
    for removed in [None, Some("store")] {
        if let Some(removed) = removed {
            fs::remove_dir_all(dir.path().join(removed)).expect("the removal succeeds");
        }
        let (journal, store) = open(dir.path());
        assert_eq!(whole_log(&store), after);
        assert!(store.get::<SessionRecord>(&id(1)).expect("the store is readable").is_none());
        assert!(store.get::<VerdictDelivery>(&id(2)).expect("the store is readable").is_some());
        store.audit_all().expect("nothing is missing");
        drop((journal, store));
    }
}

#[test]
fn folder_from_before_an_erasure_brings_nothing_back() {
    for folder in ["segments", "segments.copy"] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, store) = filled(dir.path());
        [1, 3].into_iter().for_each(|n| remove(&mut journal, n));
        drop((journal, store));
        let (mut journal, store) = open(dir.path());
        let expected = leaves(&whole_log(&store));
        let older = tempfile::tempdir().expect("a directory");
        copy_dir(&dir.path().join(folder), older.path());
        let mut erasure = begin(&mut journal, &[1, 3]);
        erasure.rewrite_segments(&|| true).expect("the segments are whole");
        finish(&mut journal, erasure);
        drop((journal, store));
        for file in fs::read_dir(older.path()).expect("a folder").map(|file| file.expect("a file")) {
            let target = dir.path().join(folder).join(file.file_name());
            if target.extension().is_some() && target.exists() {
                fs::copy(file.path(), target).expect("the copy succeeds");
            }
        }
        assert!(!files_with(dir.path(), "Question 1?").is_empty(), "{folder}");
        let (mut journal, store) = open(dir.path());
        assert_eq!(leaves(&whole_log(&store)), expected, "{folder}");
        for text in ["Question 1?", "Question 3?"] {
            assert_eq!(files_with(dir.path(), text), Vec::<PathBuf>::new(), "{folder}: {text}");
        }
        assert_eq!(journal.lost_rows(), []);
        fill(&mut journal, 100..110);
    }
}

#[test]
fn interrupted_erasure_is_completed_by_another_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    [1, 3].into_iter().for_each(|n| remove(&mut journal, n));
    let expected = leaves(&whole_log(&store));
    drop((journal, store));
    for steps in 0..4 {
        let (mut journal, store) = open(dir.path());
        assert_eq!(leaves(&whole_log(&store)), expected, "{steps} steps");
        let mut erasure = begin(&mut journal, &[1, 3]);
        if steps > 0 {
            erasure.rewrite_segments(&|| true).expect("the segments are whole");
        }
        if steps > 1 {
            erasure.prepare(&|| true).expect("the disk is writable");
        }
        if steps > 2 {
            let step = journal.finish_erasure(&mut erasure).expect("the journal accepts writes");
            assert_eq!(step, ErasureStep::Finished);
        }
        // a kill
        std::mem::forget(erasure);
    }
    let (mut journal, store) = open(dir.path());
    let mut erasure = begin(&mut journal, &[1, 3]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    assert_eq!(leaves(&whole_log(&store)), expected);
    for text in ["Question 1?", "Question 3?", "store.new"] {
        assert_eq!(files_with(dir.path(), text), Vec::<PathBuf>::new(), "{text}");
    }
    assert!(!dir.path().join(NEW_DIR).exists());
}

#[test]
fn erasure_prepares_a_database_that_opens_with_a_snapshot() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    erasure.prepare(&|| true).expect("the disk is writable");
    let database = erasure.database.as_ref().expect("it is built");
    assert_ne!(database.snapshot(), SnapshotId::default());
    assert_eq!(erasure.snapshot_at, journal.counts().entries);
    // links that a backup could not remove keep the old segments
    let left = dir.path().join("work/backup-left");
    fs::create_dir(&left).expect("a directory");
    drop(erasure);
    drop(begin(&mut journal, &[1]));
    assert!(!left.exists());
}

#[test]
fn file_with_a_line_about_the_session_that_is_no_entry_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    let rotated = dir.path().join("oracle_log-1.jsonl");
    let first = fs::read_to_string(&rotated).expect("the file is readable");
    // a torn line, and a line of another session
    let foreign = dir.path().join("oracle_log.jsonl.foreign-1");
    let line = first.lines().find(|line| line.contains("cs_1\"")).expect("a line about the session");
    let torn = line.split_at(line.len() - 20).0;
    fs::write(&foreign, format!("{first}{torn}")).expect("the write succeeds");
    let other = dir.path().join("oracle_log-0.jsonl");
    fs::write(&other, "{\"text\":\"about nobody\"}\n\0\0\0\n").expect("the write succeeds");
    let linked = dir.path().join("elsewhere");
    fs::rename(&rotated, &linked).expect("the rename succeeds");
    std::os::unix::fs::symlink(&linked, &rotated).expect("a link");
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    assert_eq!(finish(&mut journal, erasure).unread_files, [foreign]);
    assert!(rotated.is_symlink() && !linked.is_symlink());
    assert!(!fs::read_to_string(&linked).expect("the file is readable").contains("Question 1?"));
}

#[test]
fn file_with_a_line_that_is_torn_before_its_session_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    let rotated = dir.path().join("oracle_log-1.jsonl");
    let first = fs::read_to_string(&rotated).expect("the file is readable");
    let line = first.lines().find(|line| line.contains("cs_1\"")).expect("a line about the session");
    let torn = line.split_at(line.find("\"session_id\"").expect("it names the session")).0;
    let foreign = dir.path().join("oracle_log.jsonl.foreign-1");
    fs::write(&foreign, torn).expect("the write succeeds");
    fs::write(&rotated, format!("{first}{torn}")).expect("the write succeeds");
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    assert_eq!(finish(&mut journal, erasure).unread_files, [rotated.clone(), foreign]);
    let rest = fs::read_to_string(&rotated).expect("the file is readable");
    assert_eq!(
        rest.matches("Question 1?").count(),
        torn.matches("Question 1?").count(),
        "only the torn line"
    );
}

#[test]
fn mirror_that_an_interrupted_erasure_has_not_replaced_is_not_foreign() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    remove(&mut journal, 3);
    let before = fs::read(dir.path().join("oracle_log.jsonl")).expect("the file is readable");
    let mut erasure = begin(&mut journal, &[3]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    drop((journal, store));
    // as after a kill between the two replacements
    fs::write(dir.path().join("oracle_log.jsonl"), before).expect("the write succeeds");
    let (mut journal, store) = open(dir.path());
    assert_eq!(journal.take_mirror_fault(), None);
    let snapshot = journal.mirror_snapshot().expect("the mirror is readable");
    assert_eq!(store.check_mirror(&snapshot, || true).expect("the log is readable"), None);
    assert!(!dir.path().join("oracle_log.jsonl.foreign-1").exists());
}

#[test]
fn compressed_rotated_file_is_named_and_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    let rotated = dir.path().join("oracle_log-1.jsonl");
    let compressed = zstd::encode_all(&fs::read(&rotated).expect("readable")[..], 1).expect("zstd");
    fs::write(&rotated, compressed).expect("the write succeeds");
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    assert_eq!(finish(&mut journal, erasure).unread_files, [rotated]);
    drop(store);
}

#[test]
fn segment_that_is_damaged_like_its_copy_stops_an_erasure_and_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    drop(journal);
    let flip = |folder: &str| {
        let path = dir.path().join(folder).join("0000000001.zst");
        let mut bytes = fs::read(&path).expect("the segment is compressed");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(path, &bytes).expect("the write succeeds");
        bytes
    };
    let damaged = ["segments", "segments.copy"].map(flip);
    let error = erasure.rewrite_segments(&|| true).expect_err("the segment is damaged");
    assert!(matches!(&error, StoreError::Corrupt { .. }), "{error}");
    let read = |folder: &str| fs::read(dir.path().join(folder).join("0000000001.zst")).expect("readable");
    assert_eq!(["segments", "segments.copy"].map(read), damaged);
    // it is repaired before the next attempt
    assert!(store.segment_damage().is_some());
}

#[test]
fn lost_names_of_pending_erasures_are_those_that_the_mirror_still_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    journal.cover_session_ids();
    fill(&mut journal, 1..4);
    [1, 2].into_iter().for_each(|n| remove(&mut journal, n));
    let removed: BTreeSet<u64> = whole_log(&store).iter().rev().take(2).map(|line| line.seq).collect();
    let before = fs::read(dir.path().join("oracle_log.jsonl")).expect("the file is readable");
    let mut erasure = begin(&mut journal, &[1, 2]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    let named = BTreeSet::from([id(1), id(2)]);
    let pending = || store.pending_erasures(&removed).expect("the files are readable");
    let put = |content: Option<&str>| {
        let file = dir.path().join("erasures.json");
        match content {
            Some(content) => fs::write(file, content).expect("the write succeeds"),
            None => drop(fs::remove_file(file)),
        }
    };
    for content in [None, Some(""), Some("[\"cs_1\"")] {
        put(content);
        assert_eq!(pending(), BTreeSet::new(), "{content:?}: the mirror was replaced");
    }
    // as after a kill between the two replacements
    fs::write(dir.path().join("oracle_log.jsonl"), &before).expect("the write succeeds");
    for content in [None, Some(""), Some("[\"cs_1\"")] {
        put(content);
        assert_eq!(pending(), named, "{content:?}");
    }
    store.put_pending_erasures(&[id(3)].into()).expect("the disk is writable");
    assert_eq!(pending(), BTreeSet::from([id(3)]), "the file is whole");
}

#[test]
fn erasure_keeps_what_was_written_after_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    remove(&mut journal, 1);
    let up_to = journal.counts().entries;
    // the customer registers again
    journal
        .commit(&[addressed(1, 50)])
        .expect("the commit succeeds")
        .remove(0)
        .expect("the record is not stale");
    let mut erasure = journal.begin_erasure(of_session(1, up_to)).expect("the old rows are removed");
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    assert!(store.get::<VerdictDelivery>(&id(1)).expect("the store is readable").is_some());
    let kept: Vec<_> =
        whole_log(&store).into_iter().filter(|line| line.json.contains("Question 1?")).collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].seq > up_to);
    drop((journal, store));
    fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
    let (_journal, store) = open(dir.path());
    assert!(store.get::<VerdictDelivery>(&id(1)).expect("the store is readable").is_some());
}

#[test]
fn erasure_does_not_begin_before_the_rows_are_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    let up_to = journal.counts().entries;
    let begun = journal.begin_erasure(of_session(1, up_to));
    assert!(matches!(begun, Err(StoreError::Unavailable { .. })), "{begun:?}");
    assert!(journal.begin_erasure(of_session(1, 1)).is_ok(), "its rows are newer");
}

#[test]
fn retention_of_verifications_erases_names_and_comments_of_reviewers() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    let peer = PeerCredentials { uid: 7, gid: 7, pid: None };
    let name = || Some("anna-4711".to_owned());
    for event in [
        EventKind::from(ReviewDismissed(DismissalEntry {
            review_id: "v-1".to_owned(),
            reason: "settled".to_owned(),
            verifier_name: name(),
            peer,
        })),
        EventKind::from(ReviewCommented(CommentEntry {
            review_id: "v-1".to_owned(),
            text: "as agreed with bob-4711".to_owned(),
            author_name: name(),
            peer,
        })),
    ] {
        let record = JournalRecord::from(AuditEvent::new(at(98), None, event));
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    }
    let before = whole_log(&store);
    assert!(!files_with(dir.path(), "-4711").is_empty());
    let plan = RemovalPlan { verifications_up_to: Some(journal.counts().entries), ..RemovalPlan::default() };
    let [verifications, _] = store.removable_entries(&plan, &|| true).expect("the log is read");
    assert_eq!(verifications.count, 2);
    fill(&mut journal, 60..63);
    let mut erasure = journal.begin_erasure(plan).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    assert_eq!(files_with(dir.path(), "-4711"), Vec::<PathBuf>::new());
    let after = whole_log(&store);
    assert_eq!(leaves(&after)[..before.len()], leaves(&before));
    assert!(after[before.len() - 1].json.contains("\"uid\":7"), "the user id stays");
}

#[test]
fn retention_of_values_erases_replaced_rows_and_keeps_present_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    // not by an erasure: its rows are still in the segments
    remove(&mut journal, 1);
    let up_to = journal.counts().entries;
    fill(&mut journal, 60..63);
    let before = whole_log(&store);
    assert!(!files_with(dir.path(), "Question 1?").is_empty());
    let plan = RemovalPlan { values_up_to: Some(up_to), ..RemovalPlan::default() };
    let [verifications, values] = store.removable_entries(&plan, &|| true).expect("the log is read");
    assert_eq!(verifications, RemovableEntries::default());
    assert!(values.count > 20 && values.oldest.is_some(), "{values:?}");

    let mut erasure = journal.begin_erasure(plan.clone()).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    assert_eq!(files_with(dir.path(), "Question 1?"), Vec::<PathBuf>::new());
    let after = whole_log(&store);
    assert_eq!(leaves(&after), leaves(&before));
    let has_preview = |line: &&LogLine| line.json.contains("Question ");
    let kept: Vec<_> = after.iter().filter(has_preview).filter(|line| line.seq <= up_to).collect();
    assert!(kept.is_empty(), "{up_to}: {kept:?}");
    assert!(after.iter().filter(has_preview).count() >= 3, "newer values stay");
    let none = store.removable_entries(&plan, &|| true).expect("the log is read");
    assert_eq!(none, [RemovableEntries::default(), RemovableEntries::default()]);

    // present rows stay, also in the segments
    drop((journal, store));
    fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
    let (mut journal, store) = open(dir.path());
    assert!(store.get::<SessionRecord>(&id(1)).expect("the store is readable").is_none());
    for n in [2, 3, 10, 62] {
        assert!(store.get::<SessionRecord>(&id(n)).expect("the store is readable").is_some(), "session {n}");
        assert!(
            store.get::<VerdictDelivery>(&id(n)).expect("the store is readable").is_some(),
            "session {n}"
        );
    }
    store.audit_all().expect("nothing is missing");
    let rewritten = |journal: &mut Journal| {
        let segments = || fs::read_dir(dir.path().join("segments")).expect("a folder");
        let content = || -> BTreeMap<_, _> {
            let files = segments().map(|entry| entry.expect("an entry").path());
            files
                .filter(|path| path.extension().is_some_and(|end| end == "zst"))
                .map(|path| (path.clone(), fs::read(path).expect("a file")))
                .collect()
        };
        let before = content();
        let mut erasure = journal.begin_erasure(plan.clone()).expect("the journal accepts writes");
        erasure.rewrite_segments(&|| true).expect("the segments are whole");
        finish(journal, erasure);
        let after = content();
        before.iter().any(|(path, bytes)| after.get(path) != Some(bytes))
    };
    assert!(!rewritten(&mut journal), "a second run changes nothing");
    assert_eq!(whole_log(&store), after);
}

#[test]
fn retention_removes_many_sessions_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = filled(dir.path());
    fill(&mut journal, 100..200);
    let old: Vec<_> = (100..200).collect();
    old.iter().for_each(|n| remove(&mut journal, *n));
    let mut erasure = begin(&mut journal, &old);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    finish(&mut journal, erasure);
    for text in ["Question 100?", "Question 199?"] {
        assert_eq!(files_with(dir.path(), text), Vec::<PathBuf>::new(), "{text}");
    }
    assert!(!files_with(dir.path(), "Question 2?").is_empty());
    store.audit_all().expect("nothing is missing");
}

#[test]
fn failed_erasure_leaves_no_copies() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    remove(&mut journal, 1);
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    erasure.prepare(&|| true).expect("the disk is writable");
    let copies = [dir.path().join(NEW_DIR), dir.path().join("oracle_log.jsonl.erasing")];
    assert!(copies.iter().all(|copy| copy.exists()));
    drop(erasure);
    assert!(copies.iter().all(|copy| !copy.exists()));
}

/// The lines of a file without their salts, as another program may write them.
fn without_salts(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("the file is readable");
    let strip = |line: &str| match line.split_once(",\"salts\":") {
        Some((head, _)) => format!("{head}}}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(strip).collect()
}

#[test]
fn files_with_lines_that_an_erasure_cannot_change_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = filled(dir.path());
    let (rotated, mirror) = (dir.path().join("oracle_log-1.jsonl"), dir.path().join("oracle_log.jsonl"));
    fs::write(&rotated, without_salts(&rotated)).expect("the write succeeds");
    remove(&mut journal, 1);
    let mut foreign = fs::OpenOptions::new().append(true).open(&mirror).expect("the file opens");
    std::io::Write::write_all(&mut foreign, b"a note about cs_1\n").expect("the write succeeds");
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    let unread = finish(&mut journal, erasure).unread_files;
    let mirror = fs::canonicalize(mirror).expect("the file exists");
    assert_eq!(unread, [rotated, mirror]);
}

#[test]
fn rotated_files_beside_a_linked_mirror_are_erased() {
    let (dir, elsewhere) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut journal, store) = filled(dir.path());
    let (link, target) = (dir.path().join("oracle_log.jsonl"), elsewhere.path().join("audit.jsonl"));
    fs::rename(dir.path().join("oracle_log-1.jsonl"), elsewhere.path().join("audit.jsonl.1"))
        .expect("a rename");
    fs::copy(&link, &target).expect("the copy succeeds");
    fs::remove_file(&link).expect("the removal succeeds");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    journal.reopen_mirror().expect("the mirror is writable");
    remove(&mut journal, 1);
    assert!(!files_with(elsewhere.path(), "Question 1?").is_empty());
    let mut erasure = begin(&mut journal, &[1]);
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    assert_eq!(finish(&mut journal, erasure).unread_files, Vec::<PathBuf>::new());
    for dir in [dir.path(), elsewhere.path()] {
        assert_eq!(files_with(dir, "Question 1?"), Vec::<PathBuf>::new());
    }
    assert!(link.is_symlink());
    drop(store);
}
