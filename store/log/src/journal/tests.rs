pub(crate) mod links;
mod power_cuts;

use super::*;
use crate::MirrorFault;
use crate::audit::log::{LOG, LogLine, LogQuery, PAGE_BYTES};
use crate::base::database::{Database, StoredForm};
use crate::base::engine::NEW_DIR;
use crate::base::log_hashes::TILES;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::row_write::{RowExpectation, RowName, RowWrite};
use crate::base::rows::{self, stored_in};
use crate::base::watermark::snapshot_in;
use crate::journal::REPAIR_PAUSE_CALLS;
use crate::journal::opening::{RESTORING_FILE, apply_groups, create_database};
use crate::journal::testing::open_with;
use domain_audit::event::ServiceStopped;
use domain_audit::leaf::leaf_of;
use domain_audit::log_proof::{is_continued, is_included};
use domain_audit::log_tree::{LogTree, leaf_hash};
use domain_base::event::{AuditEvent, EventSeverity};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::row::{Index, IndexEntry, Row};
use domain_base::session_id::SessionId;
use domain_verdict::crosscheck::judge;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{
    CrosscheckEntry, CrosscheckError, MessageQueued, TmmCrosscheck, VerdictCached, VerdictPurged,
};
use domain_verdict::label::ProductTier;
use domain_verdict::mail::{MailId, MailKind, OutboxMail};
use domain_verdict::outbox::{MessageId, OutboxMessage};
use domain_verdict::query::CustomerQuery;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::session::{OriginalVerdict, SessionRecord};
use jiff::Timestamp;
use oracled_domain::tables::tables;
use std::cell::Cell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        dir: dir.to_owned(),
        cache_bytes: 8 * 1024 * 1024,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    }
}

pub(crate) fn open(dir: &Path) -> (Journal, TableReader) {
    open_with(options(dir)).expect("the store opens")
}

fn refused(dir: &Path) -> StoreError {
    open_with(options(dir)).map(|_| ()).expect_err("the store must not open")
}

/// Opens the database itself, for a test that changes it.
pub(crate) fn raw(dir: &Path) -> sled::Db {
    // a thread of sled may still hold the database that was just closed
    let attempts =
        std::iter::repeat_with(|| sled::open(dir.join("store")).inspect_err(|_| thread::yield_now()));
    let db = attempts.flatten().next().expect("the store opens");
    // stores the snapshot as if the journal had opened the database; otherwise the next opening would read all of it
    if let Ok(Some(mut mark)) = Watermark::open(dir) {
        mark.now.snapshot = snapshot_in(dir);
        mark.write().and_then(|()| mark.write()).expect("the write succeeds");
    }
    db
}

pub(crate) fn id(n: usize) -> SessionId {
    format!("cs_{n}").parse().expect("a valid id")
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

/// The record of a delivery as the cache creates it, with a summary of `summary_bytes` bytes.
pub(crate) fn delivered(n: usize, summary_bytes: usize) -> JournalRecord {
    let verdict = format!(r#"{{"verdict":"GREEN","summary":"{}"}}"#, "s".repeat(summary_bytes));
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(&verdict));
    let query = CustomerQuery::new(format!("Question {n}?"));
    let crosscheck = TmmCrosscheck(CrosscheckEntry::of(&judgment, &query, GatePath::Submit));
    let crosscheck = AuditEvent::new(at(n as i64), id(n), crosscheck);
    let approved = judgment.outcome.expect("the verdict passes the crosscheck");
    let cached = AuditEvent::new(
        at(n as i64),
        id(n),
        VerdictCached {
            tier: ProductTier::Quick,
            verdict_label: approved.label(),
            verdict_sha256: approved.sha256().clone(),
            path: GatePath::Submit,
            evaluation_sha256: None,
        },
    );
    let session = SessionRecord {
        original: Some(OriginalVerdict::delivered(&approved, None, None, at(n as i64))),
        delivered_sha256: Some(approved.sha256().clone()),
        cached_sha256: Some(approved.sha256().clone()),
        ..SessionRecord::new(id(n), ProductTier::Quick, query.clone())
    };
    let delivery = VerdictDelivery {
        session_id: id(n),
        query,
        approved,
        cached_at: at(n as i64),
        regen: None,
        evaluation_sha256: None,
    };
    JournalRecord {
        expect: vec![RowExpectation::new::<VerdictDelivery>(&id(n), None)],
        events: vec![crosscheck, cached],
        writes: vec![RowWrite::put::<VerdictDelivery>(&delivery), RowWrite::put::<SessionRecord>(&session)],
        ..JournalRecord::default()
    }
}

pub(crate) fn fill(journal: &mut Journal, sessions: std::ops::Range<usize>) {
    let group: Vec<_> = sessions.map(|n| delivered(n, 40)).collect();
    for outcome in journal.commit(&group).expect("the commit succeeds") {
        outcome.expect("the record is not stale");
    }
}

/// A directory whose journal has the deliveries of `sessions`, and both open.
fn opened_with(sessions: std::ops::Range<usize>) -> (TempDir, Journal, TableReader) {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, sessions);
    (dir, journal, store)
}

/// The same, with the journal closed.
fn closed_with(sessions: std::ops::Range<usize>) -> TempDir {
    opened_with(sessions).0
}

pub(crate) fn whole_log(store: &TableReader) -> Vec<LogLine> {
    store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read")
}

fn mirror(dir: &Path) -> String {
    fs::read_to_string(dir.join("oracle_log.jsonl")).expect("the mirror is read")
}

/// Checks that the mirror has every entry once, in order.
pub(crate) fn assert_mirror_is_whole(dir: &Path, store: &TableReader) {
    let lines: Vec<_> = whole_log(store).into_iter().map(|line| line.json).collect();
    assert_eq!(mirror(dir).lines().map(String::from).collect::<Vec<_>>(), lines);
}

#[test]
fn reader_of_a_row_finds_its_entries_at_once() {
    const COMMITS: usize = 300;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut journal, store) = open(dir.path());
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for n in 0..COMMITS {
                while store.get::<SessionRecord>(&id(n)).expect("the session is readable").is_none() {}
                let entries = store.last_seq();
                assert!(entries >= 2 * (n as u64 + 1), "{entries} entries after {n}");
            }
        });
        for n in 0..COMMITS {
            journal.commit(&[delivered(n, 10)]).expect("the commit succeeds");
        }
        reader.join().expect("no reader fails");
    });
}

#[test]
fn committed_records_are_readable_after_reopening() {
    let (dir, mut journal, store) = opened_with(0..3);
    let outcomes = journal.commit(&[delivered(3, 40)]).expect("the commit succeeds");
    let receipt = outcomes[0].as_ref().expect("it commits");
    assert_eq!((receipt.first_seq, receipt.last_seq), (7, 8));
    let before = whole_log(&store);
    drop((journal, store));
    let (journal, store) = open(dir.path());
    assert_eq!(journal.counts(), StoreCounts { entries: 8, rows: [("sessions", 4), ("verdicts", 4)].into() });
    assert_eq!(whole_log(&store), before);
    assert_eq!(before.iter().map(|line| line.seq).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    let (delivery, revision) =
        store.get::<VerdictDelivery>(&id(3)).expect("the verdict is readable").expect("the verdict exists");
    assert_eq!((delivery.query.as_str(), revision), ("Question 3?", 8));
    assert_eq!(
        store
            .get::<SessionRecord>(&id(3))
            .expect("the session is readable")
            .map(|(session, _)| session.query),
        Some(delivery.query)
    );
    assert_mirror_is_whole(dir.path(), &store);
    store.audit_all().expect("nothing is missing");
}

#[test]
fn stale_record_changes_nothing_and_the_rest_of_its_group_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let unlogged = JournalRecord { events: vec![], ..delivered(9, 40) };
    let group = [delivered(1, 40), delivered(1, 50), unlogged, delivered(2, 40)];
    let outcomes = journal.commit(&group).expect("the commit succeeds");
    let stale = Err(RecordRejectedError::Stale(RowName::of::<VerdictDelivery>(&id(1))));
    let outcomes: Vec<_> =
        outcomes.into_iter().map(|outcome| outcome.map(|receipt| receipt.first_seq)).collect();
    assert_eq!(outcomes, [Ok(1), stale, Err(RecordRejectedError::Unlogged), Ok(3)]);
    assert_eq!(whole_log(&store).len(), 4);
    assert_eq!(store.get::<VerdictDelivery>(&id(9)).expect("the verdict is readable").map(|_| ()), None);
}

#[test]
fn removing_a_verdict_keeps_its_session() {
    let (dir, mut journal, store) = opened_with(0..2);
    let (delivery, revision) =
        store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").expect("the verdict exists");
    let purged = AuditEvent::new(
        at(9),
        id(0),
        VerdictPurged {
            verdict_sha256: Some(delivery.approved.sha256().clone()),
            peer: domain_base::caller::PeerCredentials { uid: 0, gid: 0, pid: None },
        },
    );
    let purge = JournalRecord {
        expect: vec![RowExpectation::new::<VerdictDelivery>(&id(0), Some(revision))],
        events: vec![purged],
        writes: vec![RowWrite::remove::<VerdictDelivery>(&id(0))],
        ..JournalRecord::default()
    };
    journal
        .commit(std::slice::from_ref(&purge))
        .expect("the commit succeeds")
        .remove(0)
        .expect("the expected value");
    assert!(store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").is_none());
    assert!(store.get::<SessionRecord>(&id(0)).expect("the session is readable").is_some());
    assert_eq!(journal.counts(), StoreCounts { entries: 5, rows: [("sessions", 2), ("verdicts", 1)].into() });
    assert!(
        journal.commit(&[purge]).expect("the commit succeeds").remove(0).is_err(),
        "it cannot be removed twice"
    );
    drop((journal, store));
    open(dir.path()).1.audit_all().expect("nothing is missing");
}

#[test]
fn row_of_a_megabyte_is_stored_only_in_the_synced_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..20 {
        journal
            .commit(&[delivered(n, 1_000_000 - n)])
            .expect("the commit succeeds")
            .remove(0)
            .expect("the record is new");
    }
    assert_eq!(fs::read_dir(dir.path().join("store/blobs")).expect("sled's folder").count(), 0);
    drop((journal, store));
    let (_, store) = open(dir.path());
    for n in 0..20 {
        let (delivery, _) = store
            .get::<VerdictDelivery>(&id(n))
            .expect("the verdict is readable")
            .expect("the verdict exists");
        assert!(delivery.approved.verdict().get().len() > 1_000_000 - n, "all of it");
    }
    store.audit_all().expect("nothing is missing");
}

#[test]
fn latest_time_of_the_log_stays_if_the_clock_is_set_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    assert_eq!(store.latest_entry_at().expect("the log is readable"), None);
    for second in [9, 2] {
        let events = vec![AuditEvent::new(at(second), None, ServiceStopped {})];
        let record = JournalRecord { events, ..JournalRecord::default() };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    }
    assert_eq!(store.latest_entry_at().expect("the log is readable"), Some(at(9)));
    assert_eq!(store.last_entry_at().expect("the log is readable"), Some(at(2)));
}

#[test]
fn log_query_matches_a_plain_filter() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    // a clock that jumps back and forth
    for (n, second) in [5, 9, 2, 2, 30, 11, 12, 40, 1, 41].into_iter().enumerate() {
        let mut record = delivered(n % 4, 40);
        record.expect.clear();
        for event in &mut record.events {
            event.timestamp = at(second);
        }
        if n % 3 == 0 {
            record.events.push(AuditEvent::new(at(second + 1), None, ServiceStopped {}));
        }
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    }
    let all = whole_log(&store);
    assert_eq!(all.len(), 24);
    let field = |line: &LogLine, name: &str| {
        let value: serde_json::Value = serde_json::from_str(&line.json).expect("valid JSON");
        value.get(name).and_then(|v| v.as_str()).map(String::from)
    };
    let sessions = [None, Some(id(1)), Some(id(77))];
    let events = [None, Some("service_stopped"), Some("tmm_crosscheck"), Some("no_such_event")];
    let mut count = 0;
    for session in &sessions {
        for event in events {
            for since in [None, Some(0), Some(10), Some(31), Some(99)] {
                for after in [0, 1, 7, 23, 24, u64::MAX] {
                    for (limit, newest) in [(3, false), (3, true), (100, false), (100, true)] {
                        let query = LogQuery {
                            session: session.clone(),
                            execution: None,
                            request_id: None,
                            events: event.map(String::from).into_iter().collect(),
                            since: since.map(at),
                            after,
                            limit,
                            newest,
                            skips_unreadable: false,
                        };
                        let mut plain: Vec<_> = all
                            .iter()
                            .filter(|line| {
                                let time: Timestamp = field(line, "timestamp")
                                    .expect("a valid time")
                                    .parse()
                                    .expect("a valid time");
                                line.seq > after
                                    && session.as_ref().is_none_or(|s| {
                                        field(line, "session_id").as_deref() == Some(s.as_str())
                                    })
                                    && event.is_none_or(|e| field(line, "event").as_deref() == Some(e))
                                    && since.is_none_or(|s| time >= at(s))
                            })
                            .cloned()
                            .collect();
                        if newest {
                            plain.drain(..plain.len().saturating_sub(limit));
                        }
                        plain.truncate(limit);
                        assert_eq!(store.log(&query).expect("the log is read"), plain, "{query:?}");
                        count += usize::from(!plain.is_empty());
                    }
                }
            }
        }
    }
    assert!(count > 100, "most questions have an answer");
}

#[test]
fn log_query_by_session_is_complete_after_row_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut store) = open(dir.path());
    let mut random = fastrand::Rng::with_seed(7);
    let mut record = |n: usize| {
        let mut record = delivered(random.usize(..6), random.usize(..3000));
        record.expect.clear();
        let id = id(random.usize(..6));
        let of_no_session = AuditEvent::new(at(1), None, ServiceStopped {});
        match random.u8(..4) {
            // entries of the session without writes, writes of another session's row, and a record of no session
            0 => record.writes.clear(),
            1 => {
                record.writes = vec![RowWrite::remove::<SessionRecord>(&id)];
                record.events.push(of_no_session);
            }
            2 => {
                record.writes.push(RowWrite::remove::<SessionRecord>(&id));
                record.events.push(of_no_session);
            }
            _ if n.is_multiple_of(5) => record.events = vec![of_no_session],
            _ => {}
        }
        record
    };
    let matches = |store: &TableReader| {
        let all = whole_log(store);
        for n in 0..6 {
            let session = format!(r#""session_id":"{}""#, id(n));
            let of_session: Vec<_> =
                all.iter().filter(|line| line.json.contains(&session)).cloned().collect();
            for (limit, newest) in [(usize::MAX, false), (7, false), (7, true)] {
                let found =
                    store.log(&LogQuery { session: Some(id(n)), limit, newest, ..LogQuery::default() });
                let skipped = if newest { of_session.len().saturating_sub(limit) } else { 0 };
                let expected: Vec<_> = of_session.iter().skip(skipped).take(limit).cloned().collect();
                assert_eq!(found.expect("the log is read"), expected, "{n} {limit} {newest}");
            }
        }
        all.len()
    };
    for n in 0..120 {
        let group: Vec<_> = (0..n % 4 + 1).map(&mut record).collect();
        for outcome in journal.commit(&group).expect("the commit succeeds") {
            outcome.expect("the record is not stale");
        }
        if n % 40 == 39 {
            assert!(matches(&store) > 100);
            assert!(journal.engine.renew().expect("the database reopens"));
        }
        if n == 60 {
            drop((journal, store));
            (journal, store) = open(dir.path());
        }
    }
    assert_eq!(matches(&store) as u64, journal.counts().entries);
}

#[test]
fn journal_accepts_writes_again_after_its_database_is_reopened() {
    let (dir, mut journal, store) = opened_with(0..3);
    journal.fail(StoreError::Unavailable { cause: "a broken disk".into() }, RecoveryCondition::Reopening);
    let error = journal.commit(&[delivered(3, 40)]).expect_err("it takes nothing");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(journal.failure(), Some("a broken disk"));
    journal.recover().expect("it is reopened");
    fill(&mut journal, 3..5);
    assert_eq!((journal.failure(), whole_log(&store).len()), (None, 10));
    assert_mirror_is_whole(dir.path(), &store);
    store.audit_all().expect("nothing is missing");
}

#[test]
fn interrupted_opening_does_not_prevent_the_next_one() {
    let (dir, journal, store) = opened_with(0..3);
    let torn = dir.path().join("store/snap.00000000000FFFFF.generating");
    fs::write(&torn, "half a snap").expect("the write succeeds");
    assert!(matches!(refused(dir.path()), StoreError::Locked { .. }));
    assert!(torn.exists(), "files of an open database are not removed");
    drop((journal, store));
    assert_eq!(open(dir.path()).0.counts().entries, 6);
}

#[test]
fn space_is_reserved_again_after_the_file_is_truncated() {
    let dir = tempfile::tempdir().expect("a directory");
    let (journal, _) = open(dir.path());
    let file = fs::OpenOptions::new().write(true).open(dir.path().join("store/db")).expect("the file opens");
    let used_bytes = || {
        let metadata = file.metadata().expect("the file has metadata");
        (metadata.len(), std::os::unix::fs::MetadataExt::blocks(&metadata) * 512)
    };
    let (before, _) = used_bytes();
    journal.engine.reserve_write_space(0).expect("there is room");
    let (len, used) = used_bytes();
    assert_eq!(len, before, "sled uses the length");
    if used < 4 << 20 {
        println!("skipped: this file system cannot reserve space");
        return;
    }
    file.set_len(len - 1).expect("the truncation succeeds");
    assert!(used_bytes().1 < 4 << 20, "the system takes it back");
    journal.engine.reserve_write_space(0).expect("there is room");
    assert!(used_bytes().1 >= 4 << 20);
}

#[test]
fn log_query_by_event_finds_entries_in_all_index_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut store) = open(dir.path());
    let mut stopped = Vec::new();
    for n in 0..8 {
        fill(&mut journal, n * 50..n * 50 + 50);
        if matches!(n, 1 | 2 | 6) {
            journal
                .commit(&[JournalRecord::from(AuditEvent::new(at(0), None, ServiceStopped {}))])
                .expect("the commit succeeds");
            stopped.push(journal.counts().entries);
        }
        if n == 4 {
            // a reopening clears the memory of indexed events, and queries still work
            drop((journal, store));
            (journal, store) = open(dir.path());
        }
    }
    let seqs = |events: &str, after: u64, limit: usize, newest: bool| {
        let events = events.split(',').map(String::from).collect();
        let query = LogQuery { events, after, limit, newest, ..LogQuery::default() };
        store.log(&query).expect("the log is read").into_iter().map(|line| line.seq).collect::<Vec<_>>()
    };
    assert_eq!(stopped, [201, 302, 703]);
    assert_eq!(seqs("service_stopped", 0, 9, false), stopped);
    assert_eq!(seqs("service_stopped", 201, 1, false), [302]);
    assert_eq!(seqs("service_stopped", 0, 2, true), [302, 703]);
    assert!(seqs("service_stopped", 703, 9, true).is_empty());
    assert_eq!(seqs("verdict_cached", 0, 1000, false).len(), 400);
    assert_eq!(seqs("verdict_cached", 700, 1000, true).len(), 51);
    assert_eq!(seqs("verdict_cached", 0, 3, true), [799, 801, 803]);
    assert_eq!(seqs("service_stopped,verdict_cached", 199, 3, false), [200, 201, 203]);
    assert_eq!(seqs("verdict_cached,service_stopped", 0, 1000, true).len(), 403);
    assert_eq!(seqs("service_stopped,no_such_event", 0, 9, true), stopped);
}

#[test]
fn open_rejects_a_store_that_is_already_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let _open = open(dir.path());
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
}

#[test]
fn open_reports_a_newer_or_older_schema() {
    use crate::base::schema::{OLDEST, SCHEMA};
    const OLDER: u32 = OLDEST - 1;
    const NEWER: u32 = SCHEMA + 1;
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path()));
    // a mark of the present version would show that the segment is damaged
    fs::remove_file(dir.path().join("watermark")).expect("the removal succeeds");
    let schema_is = |schema: u32| {
        let segment = File::options().write(true).open(dir.path().join("segments/0000000001"));
        let segment = segment.expect("the file opens");
        segment.write_all_at(&schema.to_be_bytes(), 8).expect("the write succeeds");
        refused(dir.path())
    };
    let error = schema_is(NEWER);
    assert!(matches!(error, StoreError::Newer { found: NEWER, known: SCHEMA, .. }), "{error}");
    let error = schema_is(OLDER);
    assert!(matches!(error, StoreError::Older { found: OLDER, oldest: OLDEST, .. }), "{error}");

    // the slot of another version has another length, and its checksum another offset
    let mark = |schema: u32| [b"oracledW", schema.to_be_bytes().as_slice(), &[1; 100]].concat();
    fs::write(dir.path().join("watermark"), mark(OLDER)).expect("the write succeeds");
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::Older { found: OLDER, oldest: OLDEST, .. }), "{error}");
    fs::write(dir.path().join("watermark"), mark(NEWER)).expect("the write succeeds");
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::Newer { found: NEWER, known: SCHEMA, .. }), "{error}");
}

#[test]
fn segment_of_another_schema_is_refused_although_the_mark_has_the_present_one() {
    use crate::base::schema::{OLDEST, SCHEMA};
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path()));
    let path = dir.path().join("segments/0000000001");
    let segment = fs::read(&path).expect("the file is readable");
    for other in [OLDEST - 1, SCHEMA + 1] {
        let mut segment = segment.clone();
        segment[8..12].copy_from_slice(&other.to_be_bytes());
        let checksum = crc32fast::hash(&segment[..40]).to_be_bytes();
        segment[40..44].copy_from_slice(&checksum);
        fs::write(&path, &segment).expect("the write succeeds");
        let error = refused(dir.path());
        match &error {
            StoreError::Newer { found, .. } if other > SCHEMA => assert_eq!(*found, other),
            StoreError::Older { found, .. } if other < SCHEMA => assert_eq!(*found, other),
            _ => panic!("schema {other}: {error}"),
        }
        assert_eq!(fs::read(&path).expect("the file is readable"), segment, "the segment is not changed");
    }
    fs::write(&path, &segment).expect("the write succeeds");
    drop(open(dir.path()));
}

/// A record that queues the mail of a delivery.
pub(crate) fn queued(n: usize) -> JournalRecord {
    let record = delivered(n, 40);
    let delivery = record.writes[0].read::<VerdictDelivery>().expect("it delivers");
    let to = "a@b".to_owned().try_into().expect("an address");
    let mail = OutboxMail::queued(MailKind::Verdict, delivery.into(), to);
    let mail = OutboxMessage::from(mail);
    let event = AuditEvent::new(at(n as i64), id(n), MessageQueued(mail.state().entry()));
    JournalRecord { events: vec![event], writes: vec![RowWrite::put(&mail)], ..JournalRecord::default() }
}

#[test]
fn outbox_is_visited_in_id_order_from_any_id_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let group: Vec<_> = (1000..2200).map(queued).collect();
    for outcome in journal.commit(&group).expect("the commit succeeds") {
        outcome.expect("the record is not stale");
    }
    assert_eq!(journal.counts().of("outbox"), 1200);
    let visited = |after: Option<&MessageId>, most: usize| {
        let mut ids = Vec::new();
        let visit = |names: Vec<String>| {
            ids.extend(names.into_iter().take(most));
            Ok(ids.len() < most)
        };
        let table = OutboxMessage::TABLE.name;
        store.visit_names(table, after.map(MessageId::to_string), visit).expect("the outbox is readable");
        ids
    };
    let all: Vec<_> = (1000..2200).map(|n| format!("verdict:cs_{n}")).collect();
    assert_eq!(visited(None, usize::MAX), all);
    let after = all[699].parse().expect("a valid id");
    assert_eq!(visited(Some(&after), 3), all[700..703]);

    let sent = |n: usize| JournalRecord {
        writes: vec![RowWrite::remove::<OutboxMessage>(&MailId::verdict(&id(n)).into())],
        ..JournalRecord::from(AuditEvent::new(at(0), None, ServiceStopped {}))
    };
    journal.commit(&[sent(1000), sent(1700)]).expect("the commit succeeds");
    assert_eq!((journal.counts().of("outbox"), visited(None, usize::MAX).len()), (1198, 1198));
    assert!(
        store
            .get::<OutboxMessage>(&MailId::verdict(&id(1700)).into())
            .expect("the mail is readable")
            .is_none()
    );
    drop(journal);
    drop(store);

    remove(&raw(dir.path()), b"outbox/verdict:cs_1001\0");
    let (_journal, store) = open(dir.path());
    let error = store.audit_all().expect_err("the mail is missing");
    let StoreError::Short { detail, .. } = error else { panic!("{error}") };
    insta::assert_snapshot!(detail);
}

#[test]
fn regen_attempt_is_stored_and_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let attempt = RegenAttempt { session_id: id(1), attempted_at: at(7), host: None, failure: None };
    for (write, there) in [
        (RowWrite::put::<RegenAttempt>(&attempt), Some(attempt)),
        (RowWrite::remove::<RegenAttempt>(&id(1)), None),
    ] {
        let record = JournalRecord {
            writes: vec![write],
            ..JournalRecord::from(AuditEvent::new(at(0), None, ServiceStopped {}))
        };
        journal.commit(&[record]).expect("the commit succeeds");
        assert_eq!(
            store
                .get::<RegenAttempt>(&id(1))
                .expect("the regeneration attempt is readable")
                .map(|(attempt, _)| attempt),
            there
        );
    }
}

/// Changes the counts of a database, with a tree of as many entries.
fn put_counts(db: &sled::Db, counts: StoreCounts) {
    let mut tree = LogTree::default();
    for _ in 0..counts.entries {
        tree.append(b"made up");
    }
    let mut batch = RowBatch::default();
    meta::put_counts(&mut batch, &counts, &tree);
    db.apply_batch(sled::Batch::from(batch)).expect("the write succeeds");
}

#[test]
fn database_with_missing_entries_is_brought_up_to_date_or_rebuilt() {
    // for each case: its name, the removal, and a part of the damage that is found
    type Take = fn(&sled::Db);
    let cases: [(&str, Take, Option<&str>); 7] = [
        ("a row in the middle", |db| take_log_row(db, 1), Some("no entries between")),
        ("the first row", |db| take_log_row(db, 0), Some("has 9 to 40")),
        ("the last row", |db| take_log_row(db, 4), Some("has 1 to 32")),
        ("the whole log", |db| remove(db, b"log/"), Some("has 0 to 0")),
        ("its schema version", |db| remove(db, b"meta/schema"), Some("no schema version")),
        (
            "the end, counts and all",
            |db| {
                take_log_row(db, 4);
                let counts = StoreCounts { entries: 32, rows: [("sessions", 16), ("verdicts", 16)].into() };
                put_counts(db, counts);
            },
            None,
        ),
        (
            "the counts' agreement",
            |db| {
                let counts = StoreCounts { entries: 40, rows: [("sessions", 20), ("verdicts", 19)].into() };
                put_counts(db, counts);
            },
            Some("verdicts: 19"),
        ),
    ];
    for (what, take, message) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        for n in 0..5 {
            let (mut journal, _) = open(dir.path());
            fill(&mut journal, n * 4..n * 4 + 4);
        }
        let whole = rows_of(dir.path());
        let db = raw(dir.path());
        take(&db);
        drop(db);
        let (mut journal, store) = open(dir.path());
        let rebuilt = journal.take_rebuilt();
        assert_eq!(rebuilt.is_some(), message.is_some(), "{what}: {rebuilt:?}");
        assert!(rebuilt.unwrap_or_default().contains(message.unwrap_or_default()), "{what}");
        store.audit_all().expect(what);
        drop((journal, store));
        assert_eq!(rows_of(dir.path()), whole, "{what}");
    }
}

/// All keys and values of the database in `dir`, which is closed.
pub(crate) fn rows_of(dir: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    with_raw(dir, |db| {
        let row = |entry: Result<(sled::IVec, StoredForm), StoreError>| {
            let (key, form) = entry.expect("sled reads");
            (key.to_vec(), db.read(form).expect("the segments have it").to_vec())
        };
        db.range(Vec::new()..).map(row).collect()
    })
}

/// Reads the database in `dir`, which is closed.
pub(crate) fn with_raw<T>(dir: &Path, read: impl FnOnce(Database<'_>) -> T) -> T {
    let (db, files) = (raw(dir), SegmentFiles::new(dir));
    files.check_names().expect("no segment is missing");
    read(Database::of(&db, &files, dir))
}

#[test]
fn open_rejects_a_directory_to_which_a_restore_was_interrupted() {
    for entries in [0, 8] {
        let dir = tempfile::tempdir().expect("a directory");
        if entries > 0 {
            fill(&mut open(dir.path()).0, 0..entries);
        }
        fs::write(dir.path().join(RESTORING_FILE), "").expect("the write succeeds");
        let error = refused(dir.path());
        assert!(matches!(error, StoreError::Short { .. }), "{error}");
        fs::remove_file(dir.path().join(RESTORING_FILE)).expect("the removal succeeds");
        drop(open(dir.path()));
    }
}

#[test]
fn old_missing_entry_is_found_by_the_check_and_a_new_one_at_the_start() {
    let dir = closed_with(0..1000);
    // the second opening walks the whole log, and the third one only new entries
    let (mut journal, store) = open(dir.path());
    assert!(store.audit_all().is_ok());
    fill(&mut journal, 1000..1010);
    drop((journal, store));
    let take_away = |number: usize| {
        let db = raw(dir.path());
        let rows = log_rows(&db);
        take_log_row(&db, number);
        (rows[number] - 1, rows.get(number + 1).copied())
    };
    let (before, after) = take_away(3);
    let (journal, store) = open(dir.path());
    let error = store.audit_all().expect_err("one is missing");
    let after = after.expect("more rows follow");
    assert!(error.to_string().contains(&format!("no entries between {before} and {after}")), "{error}");
    drop((journal, store));
    let last = log_rows(&raw(dir.path())).len() - 1;
    let (before, _) = take_away(last);
    let (mut journal, store) = open(dir.path());
    let damage = journal.take_rebuilt().expect("damage was found");
    assert!(damage.contains(&format!(" to {before}")), "{damage}");
    store.audit_all().expect("nothing is missing");
}

#[test]
fn snapshot_is_renewed_once_many_entries_are_new_and_sooner_when_idle() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let snapshot = || snapshot_in(dir.path());
    let at_opening = snapshot();
    let mut filled = 0;
    let mut fill_up_to = |journal: &mut Journal, entries: u64| {
        while journal.counts().entries < entries {
            fill(journal, filled..filled + 50);
            filled += 50;
        }
    };
    fill_up_to(&mut journal, RENEWED_AFTER_ENTRIES / RENEWED_IDLE_PART);
    // not idle: an entry was written after the last `settle`
    journal.sync_pending_work();
    assert_eq!(snapshot(), at_opening);
    journal.sync_pending_work();
    let when_idle = snapshot();
    assert_ne!(when_idle, at_opening);
    let entries = journal.counts().entries;
    fill_up_to(&mut journal, entries + RENEWED_AFTER_ENTRIES);
    assert_eq!(snapshot(), when_idle);
    let entries = journal.counts().entries;
    fill_up_to(&mut journal, entries + 1);
    let when_busy = snapshot();
    assert_ne!(when_busy, when_idle);
    let lines = whole_log(&store);
    assert_eq!(lines.len() as u64, journal.counts().entries);
    assert_eq!(journal.mark.now.snapshot, when_busy, "the next opening knows it");
    drop((journal, store));
    let (_journal, store) = open(dir.path());
    assert_eq!(whole_log(&store), lines);
}

#[test]
fn readers_and_writers_wait_for_a_renewal_and_none_fails() {
    let (_dir, mut journal, store) = opened_with(0..50);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !done.load(Ordering::Relaxed) {
                        assert!(whole_log(&store).len() >= 100);
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for n in 1..20 {
            while !journal.engine.renew().expect("the database reopens") {
                thread::yield_now();
            }
            journal.note_renewed().expect("nothing is missing");
            fill(&mut journal, n * 50..n * 50 + 50);
        }
        done.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().expect("the thread does not panic") > 0));
    });
}

#[test]
fn missing_database_is_rebuilt_from_segments_of_all_kinds() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(dir.path());
    for n in 0..100 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    // one group that is larger than a segment
    journal.commit(&[delivered(5000, 200_000)]).expect("the commit succeeds").remove(0).expect("not stale");
    fill(&mut journal, 1000..1010);
    drop(journal);
    let whole = rows_of(dir.path());
    let names = names_in(&dir.path().join("segments"));
    assert!(names.iter().any(|name| name.ends_with(".zst")), "{names:?}");
    assert!(names.iter().any(|name| !name.contains('.')), "{names:?}");
    fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
    let (mut journal, store) = open(dir.path());
    assert_eq!(journal.take_rebuilt().as_deref(), Some("the database is missing"));
    assert_eq!(journal.take_rebuilt(), None);
    store.audit_all().expect("nothing is missing");
    drop((journal, store));
    assert_eq!(rows_of(dir.path()), whole);
}

#[test]
fn database_of_a_killed_rebuild_is_built_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(dir.path());
    for n in 0..20 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    drop(journal);
    let whole = rows_of(dir.path());
    let files = SegmentFiles::new(dir.path());
    let segments = Segments::open(files.clone()).expect("they are whole").expect("they exist");
    let database = create_database(&options(dir.path()), &files, false).expect("enough room");
    let rows = || {
        let read = |db: Database<'_>| {
            let row = |entry: Result<(sled::IVec, StoredForm), StoreError>| {
                let (key, form) = entry?;
                Ok((key.to_vec(), db.read(form)?.to_vec()))
            };
            db.range(Vec::new()..).map(row).collect::<Result<Vec<_>, StoreError>>()
        };
        database.with(read).expect("sled reads")
    };
    let (mut allowed, mut partial) = (20, Vec::new());
    while partial.is_empty() {
        let calls = Cell::new(0);
        let proceed = || calls.replace(calls.get() + 1) < allowed;
        let applied = apply_groups(&database, &segments.up_to_now(), None, None, &proceed);
        applied.expect("the segments are read").expect("the rows are stored");
        assert!(calls.get() > allowed, "it is stopped");
        partial = rows();
        allowed += 1;
    }
    assert!(partial.len() < whole.len());
    // as after a kill
    database.close_database();
    let [killed, present] = [dir.path().join(NEW_DIR), dir.path().to_owned()].map(|dir| dir.join("store"));
    fs::remove_dir_all(&present).expect("the removal succeeds");
    fs::rename(killed, present).expect("the move succeeds");
    drop((database, segments));
    fs::remove_dir_all(dir.path().join(NEW_DIR)).expect("the removal succeeds");
    let (mut journal, _) = open(dir.path());
    assert!(journal.take_rebuilt().is_some());
    drop(journal);
    assert_eq!(rows_of(dir.path()), whole);
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the directory is readable");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn database_is_rebuilt_after_a_power_cut_unless_it_was_synced() {
    let (dir, mut journal, store) = opened_with(0..20);
    let cut = |is_other_boot: bool| {
        let copy = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), copy.path());
        let mut mark = Watermark::open(copy.path()).expect("the file opens").expect("it exists");
        mark.now.boot_id ^= u64::from(is_other_boot);
        mark.write_synced().expect("the write succeeds");
        let (mut journal, copied) = open(copy.path());
        assert_eq!(whole_log(&copied), whole_log(&store));
        copied.audit_all().expect("nothing is missing");
        journal.take_rebuilt().is_some()
    };
    assert!(!cut(false), "after a kill, only the missing groups are applied");
    assert!(cut(true));
    // the second call finds the journal idle
    journal.sync_pending_work();
    journal.sync_pending_work();
    assert!(!cut(true), "the database was synced");
    fill(&mut journal, 20..21);
    assert!(cut(true));
}

#[test]
fn damage_in_segments_is_never_silent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..100 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    let whole = whole_log(&store);
    drop((journal, store));
    let segments = dir.path().join("segments");
    let mut names = names_in(&segments);
    // the prepared file of the next segment has no data
    names.retain(|name| name != "spare");
    assert!(names.len() > 4, "{names:?}");
    for n in 0..30 {
        let damaged = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), damaged.path());
        let path = damaged.path().join("segments").join(&names[n % names.len()]);
        let mut bytes = fs::read(&path).expect("the file is readable");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("it holds something");
        let at = fastrand::usize(..used);
        match n % 4 {
            0 => fs::remove_file(&path).expect("the removal succeeds"),
            1 => {
                bytes.truncate(at);
                fs::write(&path, &bytes).expect("the write succeeds");
            }
            _ => {
                bytes[at] ^= 1 << (n % 8);
                fs::write(&path, &bytes).expect("the write succeeds");
            }
        }
        // the database does not hide the damage
        fs::remove_dir_all(damaged.path().join("store")).expect("the removal succeeds");
        match open_with(options(damaged.path())) {
            // a checksum of zstd's own frame may be without effect
            Ok((_, store)) => assert_eq!(whole_log(&store), whole, "{n}: byte {at} of {}", path.display()),
            Err(StoreError::Corrupt { .. } | StoreError::Short { .. }) => {}
            // a changed version in the head of a segment is that of another build
            Err(StoreError::Newer { .. } | StoreError::Older { .. }) => {}
            Err(error) => panic!("{n}: byte {at} of {}: {error}", path.display()),
        }
    }
}

#[test]
fn open_accepts_an_old_mark_and_rejects_a_longer_mirror() {
    let dir = closed_with(0..5);
    let old = fs::read(dir.path().join("watermark")).expect("the file is readable");
    let (mut journal, _) = open(dir.path());
    fill(&mut journal, 5..10);
    drop(journal);
    fs::write(dir.path().join("watermark"), old).expect("the write succeeds");
    assert_eq!(open(dir.path()).0.counts().entries, 20);
    let longer = mirror(dir.path()) + "{\"seq\":21}\n";
    fs::write(dir.path().join("oracle_log.jsonl"), longer).expect("the write succeeds");
    let refusal = refused(dir.path()).to_string();
    assert!(refusal.contains("oracle_log.jsonl") && refusal.contains("21"), "{refusal}");
}

#[test]
fn audit_reports_a_missing_verdict() {
    let dir = closed_with(0..10);
    // after this opening the store counts as checked, and older rows are checked only in the background
    drop(open(dir.path()));
    remove(&raw(dir.path()), b"sessions/cs_3\0");
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 20..30);
    let error = store.audit_all().expect_err("one is missing");
    let StoreError::Short { detail, .. } = error else { panic!("{error}") };
    insta::assert_snapshot!(detail);
}

#[test]
fn audit_reports_a_missing_row_of_every_table_and_index() {
    for table in tables() {
        let index_of = |index: &&Index| IndexEntry { index: index.name, name: "n-1".to_owned() };
        let stored = std::iter::once((stored_in(table), table.name));
        for (removed, counted) in stored.chain(table.indexes.iter().map(|index| (index.name, index.name))) {
            let dir = tempfile::tempdir().expect("a directory");
            let (mut journal, store) = open(dir.path());
            let write = RowWrite {
                row: RowName { table, name: "n-1".to_owned() },
                value: Some(b"{}".to_vec()),
                index: table.indexes.iter().map(index_of).collect(),
            };
            let event = AuditEvent::new(at(0), None, ServiceStopped {});
            let record = JournalRecord { writes: vec![write], ..event.into() };
            journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the row is new");
            store.audit_all().expect("nothing is missing");
            drop((journal, store));
            let db = raw(dir.path());
            remove(&db, format!("{removed}/n-1\0").as_bytes());
            drop(db);
            let (_journal, store) = open(dir.path());
            let error = store.audit_all().expect_err("a row is missing").to_string();
            assert!(error.contains(&format!(" rows in the table {counted},")), "{removed}: {error}");
        }
    }
}

/// The numbers of the first entries of the rows of the log.
fn log_rows(db: &sled::Db) -> Vec<u64> {
    let keys = db.scan_prefix(b"log/").keys().map(|key| key.expect("sled reads"));
    let mut rows: Vec<u64> = keys.filter_map(|key| log::first_seq_of(&key)).collect();
    rows.dedup();
    rows
}

/// Removes row number `number` of the log.
fn take_log_row(db: &sled::Db, number: usize) {
    let row = *log_rows(db).get(number).expect("the row exists");
    remove(db, &[b"log/", &row.to_be_bytes()[..]].concat());
}

fn remove(db: &sled::Db, prefix: &[u8]) {
    let keys: Vec<_> = db.scan_prefix(prefix).keys().collect::<Result<_, _>>().expect("sled reads");
    assert!(!keys.is_empty(), "there are keys to remove");
    for key in keys {
        db.remove(key).expect("the removal succeeds");
    }
}

#[test]
fn damaged_database_is_rebuilt_with_every_entry() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..40 {
        fill(&mut journal, n * 5..n * 5 + 5);
    }
    let whole = whole_log(&store);
    drop((journal, store));
    // sled writes the snapshot of its page table, so damage before it is no missing end
    drop(open(dir.path()));
    let file = dir.path().join("store/db");
    let bytes = fs::read(&file).expect("the file is readable");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it holds something");
    let mut rebuilt = 0;
    std::panic::set_hook(Box::new(|_| ()));
    for n in 0..24 {
        let damaged = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), damaged.path());
        let copy =
            fs::OpenOptions::new().write(true).open(damaged.path().join("store/db")).expect("the file opens");
        let index = end * n / 24 + n;
        if n % 6 == 5 {
            copy.set_len(index as u64).expect("the truncation succeeds");
        } else {
            copy.write_all_at(&[bytes[index] ^ (1 << (n % 8))], index as u64).expect("the write succeeds");
        }
        let (mut journal, store) = open(damaged.path());
        if journal.take_rebuilt().is_some() {
            rebuilt += 1;
        } else if let Err(damage) = store.audit_all() {
            rebuilt += 1;
            journal.rebuild(damage.to_string());
            assert!(
                store.get::<VerdictDelivery>(&id(0)).is_err()
                    && journal.commit(&[delivered(900, 4)]).is_err()
            );
            journal.recover().expect("the database is rebuilt");
        }
        assert_eq!(whole_log(&store), whole, "bit {n} at {index}");
        store.audit_all().expect("nothing is missing");
    }
    drop(std::panic::take_hook());
    assert!(rebuilt > 0, "some damage is found");
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the directory is readable") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("the directory is created");
            copy_dir(&entry.path(), &target);
        } else {
            match fs::copy(entry.path(), target) {
                // an open database can remove a file meanwhile
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => drop(copied.expect("the copy succeeds")),
            }
        }
    }
}

#[test]
fn open_names_an_unusable_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("the write succeeds");
    let error = refused(&file.join("state"));
    assert!(matches!(error, StoreError::Io { .. }) && error.to_string().contains("state"), "{error}");
}

#[test]
fn opening_completes_a_truncated_mirror() {
    let dir = closed_with(0..10);
    let whole = mirror(dir.path());
    for keep in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(dir.path().join("oracle_log.jsonl"), &whole[..keep]).expect("the write succeeds");
        // the mark shows no synced mirror, as after a power cut
        let mark = Watermark::open(dir.path()).expect("the file opens").map(|mut mark| {
            mark.now.mirrored = 0;
            mark.now.counts.entries -= 1;
            (mark.write(), mark.write())
        });
        mark.map(|(one, two)| one.and(two)).expect("a value is present").expect("the write succeeds");
        let (_, store) = open(dir.path());
        assert_eq!(mirror(dir.path()), whole, "kept {keep} bytes");
        assert_mirror_is_whole(dir.path(), &store);
    }
}

#[test]
fn rotated_mirror_continues_in_a_new_file() {
    let (dir, mut journal, _) = opened_with(0..2);
    let old = dir.path().join("oracle_log.jsonl.1");
    fs::rename(dir.path().join("oracle_log.jsonl"), &old).expect("the rename succeeds");
    fill(&mut journal, 2..3);
    journal.reopen_mirror().expect("it is reopened");
    assert_eq!(mirror(dir.path()), "");
    drop(journal);
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 3..4);
    let both = fs::read_to_string(old).expect("the file is readable") + &mirror(dir.path());
    let lines: Vec<_> = whole_log(&store).into_iter().map(|line| line.json + "\n").collect();
    assert_eq!(both, lines.concat(), "no entry is missing or duplicated");
    assert_eq!(mirror(dir.path()).lines().count(), 2);
}

#[test]
fn equal_records_give_equal_stores() {
    let exports: Vec<_> = [3, 7]
        .into_iter()
        .map(|group| {
            let dir = tempfile::tempdir().expect("a directory");
            let (mut journal, store) = open(dir.path());
            let records: Vec<JournalRecord> = (0..21).map(|n| delivered(n, 40)).collect();
            for group in records.chunks(group) {
                journal.commit(group).expect("the commit succeeds");
            }
            let lines = whole_log(&store).into_iter();
            // the salts are random, and the hashes of leaves depend on them
            let text = |line: LogLine| {
                let mut entry: serde_json::Value = serde_json::from_str(&line.json).expect("an entry");
                let members = entry.as_object_mut().expect("an object");
                members.retain(|name, _| !["salts", "links"].contains(&name.as_str()));
                entry
            };
            lines.map(text).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(exports.first(), exports.last());
}

#[test]
fn read_of_a_row_during_its_replacement_is_consistent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let put = |n: usize, filler: char| {
        let mut record = delivered(n, 1);
        let verdict = format!(
            r#"{{"verdict":"GREEN","summary":"{}"}}"#,
            filler.to_string().repeat(200_000 + filler as usize * 400)
        );
        let approved = judge(ProductTier::Quick, VerdictPayload::raw(&verdict))
            .outcome
            .expect("the verdict passes the crosscheck");
        let delivery = VerdictDelivery {
            session_id: id(n),
            query: CustomerQuery::new(String::new()),
            approved,
            cached_at: at(0),
            regen: None,
            evaluation_sha256: None,
        };
        record.expect.clear();
        record.writes = vec![RowWrite::put::<VerdictDelivery>(&delivery)];
        record
    };
    journal.commit(&[put(0, 'a')]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    let stop = AtomicBool::new(false);
    let reads = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !stop.load(Ordering::Relaxed) {
                let read = store.get::<VerdictDelivery>(&id(0));
                if matches!(read, Err(StoreError::Unavailable { .. })) {
                    continue;
                }
                if let Some((delivery, _)) = read.expect("it is not reported as damaged") {
                    let text =
                        delivery.approved.verdict().get().replace(r#"{"verdict":"GREEN","summary":""#, "");
                    let first = text.chars().next().expect("the verdict has a summary");
                    assert!(
                        text.trim_end_matches("\"}").chars().all(|c| c == first),
                        "one version, not a mixture"
                    );
                    reads += 1;
                }
            }
            reads
        });
        for n in 0..150 {
            let filler = char::from(b'a' + (n % 20) as u8);
            journal
                .commit(&[put(0, filler)])
                .expect("the commit succeeds")
                .remove(0)
                .expect("the record is not stale");
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader does not panic")
    });
    assert!(reads > 0, "something was read meanwhile");
}

#[test]
fn truncated_sled_settings_do_not_prevent_the_next_opening() {
    for cut in [1, 4, 20] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, 0..3);
        drop(journal);
        let settings = dir.path().join("store/conf");
        let content = fs::read(&settings).expect("sled has settings");
        fs::write(&settings, &content[..content.len() - cut]).expect("the truncation succeeds");
        assert_eq!(open(dir.path()).0.counts().entries, 6, "cut by {cut}");
    }
}

#[test]
fn opening_moves_a_mirror_with_foreign_lines_aside() {
    let dir = closed_with(0..3);
    let whole = mirror(dir.path());
    let foreign = "{\"event\":\"of another service\"}\n{\"event\":\"again\"}\n";
    for (n, content) in [foreign.to_owned(), whole.clone() + foreign].into_iter().enumerate() {
        fs::write(dir.path().join("oracle_log.jsonl"), &content).expect("the write succeeds");
        open(dir.path());
        let aside = dir.path().join(format!("oracle_log.jsonl.foreign-{}", n + 1));
        assert_eq!(fs::read_to_string(aside).expect("the file exists"), content);
        assert_eq!(mirror(dir.path()), whole);
    }
}

/// Where the line with byte `at` of `text` begins.
fn line_start(text: &str, at: usize) -> u64 {
    text[..at].rfind('\n').map_or(0, |end| end as u64 + 1)
}

/// Damaged forms of a mirror: changed bytes, and lines that are deleted, swapped, repeated, inserted or appended.
fn damaged_mirrors(whole: &str) -> Vec<String> {
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let digits = whole.char_indices().filter(|(_, byte)| byte.is_ascii_digit()).step_by(7);
    let edited = digits.map(|(at, digit)| {
        let other = if digit == '9' { "8" } else { "9" };
        [&whole[..at], other, &whole[at + 1..]].concat()
    });
    let mut damaged: Vec<_> = edited.collect();
    for n in 0..lines.len() {
        let (before, after) = (lines[..n].concat(), lines[n + 1..].concat());
        damaged.push([&before, after.as_str()].concat());
        damaged.push([&before, lines[n], lines[n], &after].concat());
        damaged.push([&before, "{}\n", lines[n], &after].concat());
        if let Some(next) = lines.get(n + 1) {
            damaged.push([&before, *next, lines[n], &lines[n + 2..].concat()].concat());
        }
    }
    damaged.extend(["", "{\"seq\":1}\n", &whole[..whole.len() / 2]].map(String::from));
    damaged.extend([whole.to_owned() + lines[0], whole.to_owned() + "x"]);
    damaged
}

#[test]
fn mirror_check_finds_each_damage_and_its_place() {
    let (dir, mut journal, store) = opened_with(0..5);
    let (whole, path) = (mirror(dir.path()), dir.path().join("oracle_log.jsonl"));
    let snapshot = journal.mirror_snapshot().expect("the file opens");
    assert_eq!(store.check_mirror(&snapshot, || true).expect("it is readable"), None);
    let aside = |n: u32| dir.path().join(format!("oracle_log.jsonl.foreign-{n}"));
    for damaged in damaged_mirrors(&whole) {
        fs::write(&path, &damaged).expect("the write succeeds");
        let snapshot = journal.mirror_snapshot().expect("the file opens");
        let fault = store.check_mirror(&snapshot, || true).expect("it is readable").expect("a fault");
        let same = whole.bytes().zip(damaged.bytes()).take_while(|(one, other)| one == other).count();
        assert_eq!(fault.offset, line_start(&whole, same), "{damaged}");
        let before = whole[..usize::try_from(fault.offset).expect("a short file")].lines().count();
        assert_eq!(fault.seq, before as u64 + 1, "{damaged}");
        assert!(journal.is_mirror(&snapshot));
        journal.rewrite_mirror().expect("the file is moved");
        assert!(!journal.is_mirror(&snapshot), "a fault of the previous file is not repaired again");
        assert_eq!(mirror(dir.path()), whole);
        assert_eq!(fs::read_to_string(aside(1)).expect("it is kept"), damaged);
        fs::remove_file(aside(1)).expect("the file exists");
    }
    for n in 1..=12 {
        fs::write(&path, n.to_string()).expect("the write succeeds");
        journal.rewrite_mirror().expect("the file is moved");
    }
    let kept = |n| fs::read_to_string(aside(n)).ok();
    assert_eq!((kept(1), kept(10), kept(11)), (Some("1".into()), Some("12".into()), None));
}

#[test]
fn rewritten_mirror_of_many_entries_is_complete_after_some_calls() {
    let (dir, mut journal, store) = opened_with(0..50);
    let whole = mirror(dir.path());
    journal.rewrite_mirror().expect("the file is moved");
    assert!(journal.mirror_lag().is_some() && mirror(dir.path()).len() < whole.len());
    let snapshot = journal.mirror_snapshot().expect("the file opens");
    assert_eq!(
        store.check_mirror(&snapshot, || true).expect("it is readable"),
        None,
        "the rest is not a fault"
    );
    fill(&mut journal, 50..51);
    for _ in 0..2 {
        assert!(journal.mirror_lag().is_some());
        journal.sync_pending_work();
    }
    assert_eq!(journal.mirror_lag(), None);
    assert_mirror_is_whole(dir.path(), &store);
}

#[test]
fn rewriting_continues_after_a_kill() {
    let (dir, mut journal, _) = opened_with(0..50);
    journal.rewrite_mirror().expect("the file is moved");
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(dir.path(), copy.path());
    // the new file did not reach the disk
    fs::remove_file(copy.path().join("oracle_log.jsonl")).expect("the file exists");
    let (mut journal, store) = open(copy.path());
    for _ in 0..4 {
        journal.sync_pending_work();
    }
    assert_mirror_is_whole(copy.path(), &store);
}

#[test]
fn deleted_first_line_is_found_after_a_rotation_and_a_restart() {
    let (dir, mut journal, _) = opened_with(0..2);
    let path = dir.path().join("oracle_log.jsonl");
    fs::rename(&path, dir.path().join("rotated")).expect("the rename succeeds");
    journal.reopen_mirror().expect("it is reopened");
    fill(&mut journal, 2..4);
    drop(journal);
    let whole = mirror(dir.path());
    assert!(whole.starts_with("{\"seq\":5,"), "{whole}");
    let rest = &whole[whole.find('\n').expect("a line") + 1..];
    fs::write(&path, rest).expect("the write succeeds");
    let (mut journal, store) = open(dir.path());
    let snapshot = journal.mirror_snapshot().expect("the file opens");
    let fault = store.check_mirror(&snapshot, || true).expect("it is readable");
    assert_eq!(fault, Some(MirrorFault { seq: 5, offset: 0 }));
    journal.rewrite_mirror().expect("the file is moved");
    assert_eq!(mirror(dir.path()), whole, "the rotated entries are not written again");
}

#[test]
fn mirror_without_its_last_lines_is_reported_at_the_opening() {
    let dir = closed_with(0..3);
    let (whole, path) = (mirror(dir.path()), dir.path().join("oracle_log.jsonl"));
    let kept: String = whole.split_inclusive('\n').take(4).collect();
    let edited = whole.replacen("\"seq\":6,", "\"seq\":6 ,", 1);
    for (damaged, seq) in [(kept.clone(), 5), (edited.clone(), 6)] {
        fs::write(&path, &damaged).expect("the write succeeds");
        let (mut journal, _) = open(dir.path());
        let same = whole.bytes().zip(damaged.bytes()).take_while(|(one, other)| one == other).count();
        let expected = MirrorFault { seq, offset: line_start(&whole, same) };
        assert_eq!((journal.take_mirror_fault(), journal.take_mirror_fault()), (Some(expected), None));
        assert_eq!(mirror(dir.path()), whole);
    }
    assert_eq!(open(dir.path()).0.take_mirror_fault(), None);
}

#[test]
fn mirror_that_was_emptied_while_stopped_is_reported_and_a_rotated_one_is_not() {
    let dir = closed_with(0..3);
    let (whole, path) = (mirror(dir.path()), dir.path().join("oracle_log.jsonl"));
    fs::write(&path, "").expect("the write succeeds");
    let (mut journal, _) = open(dir.path());
    assert_eq!(journal.take_mirror_fault(), Some(MirrorFault { seq: 1, offset: 0 }));
    drop(journal);
    assert_eq!(mirror(dir.path()), whole, "the entries are written again");
    fs::rename(&path, dir.path().join("rotated")).expect("the rename succeeds");
    fs::write(&path, "").expect("the write succeeds");
    let (mut journal, _) = open(dir.path());
    assert_eq!(journal.take_mirror_fault(), None);
    drop(journal);
    assert_eq!(mirror(dir.path()), "");
    // an empty file after a rotation had no entries
    let (mut journal, _) = open(dir.path());
    assert_eq!(journal.take_mirror_fault(), None);
    drop(journal);
    assert_eq!(mirror(dir.path()), "");
}

#[test]
fn mirror_lines_that_a_power_cut_has_torn_are_not_taken_for_those_of_another_program() {
    let dir = closed_with(0..6);
    let (whole, path) = (mirror(dir.path()), dir.path().join("oracle_log.jsonl"));
    let starts: Vec<usize> =
        std::iter::once(0).chain(whole.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let last = starts.len() - 2;
    // the mark knows the first 8 entries as synced; blocks after them did not reach the disk
    for (from, to) in [
        (starts[last] + 10, starts[last] + 20),
        (starts[9] + 10, starts[9] + 20),
        (starts[9] - 1, starts[9]),
        (starts[9], starts[10]),
        (starts[9] + 10, starts[10] + 10),
        (starts[last], whole.len()),
    ] {
        let mut torn = whole.clone().into_bytes();
        torn[from..to].fill(0);
        fs::write(&path, &torn).expect("the write succeeds");
        let mut mark = Watermark::open(dir.path()).expect("it is readable").expect("it exists");
        mark.now.mirrored = 8;
        mark.write_synced().expect("the write succeeds");
        let (mut journal, _) = open(dir.path());
        assert_eq!(journal.take_mirror_fault(), None, "zeros from {from} to {to}");
        drop(journal);
        assert_eq!(mirror(dir.path()), whole);
        assert!(!dir.path().join("oracle_log.jsonl.foreign-1").exists(), "zeros from {from} to {to}");
    }
}

#[test]
fn mirror_that_another_file_replaced_is_checked_from_its_first_entry() {
    let (dir, mut journal, store) = opened_with(0..3);
    let (whole, path) = (mirror(dir.path()), dir.path().join("oracle_log.jsonl"));
    let rest = &whole[whole.find('\n').expect("a line") + 1..];
    // as an editor does that writes another file
    fs::write(dir.path().join("edited"), rest).expect("the write succeeds");
    fs::rename(dir.path().join("edited"), &path).expect("the rename succeeds");
    let snapshot = journal.mirror_snapshot().expect("the file opens");
    let fault = store.check_mirror(&snapshot, || true).expect("it is readable");
    assert_eq!(fault, Some(MirrorFault { seq: 1, offset: 0 }));
    journal.rewrite_mirror().expect("the file is moved");
    fill(&mut journal, 3..4);
    assert_mirror_is_whole(dir.path(), &store);
}

#[test]
fn deleted_mirror_continues_in_a_new_file() {
    let (dir, mut journal, store) = opened_with(0..2);
    fs::remove_file(dir.path().join("oracle_log.jsonl")).expect("the file exists");
    fill(&mut journal, 2..3);
    let snapshot = journal.mirror_snapshot().expect("a new file is created");
    assert_eq!(store.check_mirror(&snapshot, || true).expect("it is readable"), None);
    fill(&mut journal, 3..4);
    assert!(mirror(dir.path()).starts_with("{\"seq\":7,"), "{}", mirror(dir.path()));
}

#[test]
fn reopen_mirror_rejects_a_file_with_later_entries() {
    let (dir, mut journal, store) = opened_with(0..3);
    let name = dir.path().join("oracle_log.jsonl");
    let rotated = dir.path().join("rotated");
    fs::rename(&name, &rotated).expect("the rename succeeds");
    fs::write(&name, "{\"seq\":99999}\n").expect("the write succeeds");
    assert!(journal.reopen_mirror().is_err());
    fill(&mut journal, 3..4);
    assert_eq!(
        fs::read_to_string(&rotated).expect("the file is readable").lines().count(),
        whole_log(&store).len()
    );
}

#[test]
fn verdict_that_lost_a_chunk_can_be_removed_and_its_session_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    journal
        .commit(&[delivered(0, 20_000)])
        .expect("the commit succeeds")
        .remove(0)
        .expect("the record is not stale");
    drop((journal, store));
    remove(&raw(dir.path()), b"sessions/cs_0\0\0\x02");
    let (mut journal, store) = open(dir.path());
    assert!(store.get::<SessionRecord>(&id(0)).expect("the session is readable").is_some());
    assert!(matches!(store.get::<VerdictDelivery>(&id(0)), Err(StoreError::Corrupt { .. })));
    let row = store.value(VerdictDelivery::TABLE, id(0).as_str()).expect("the row is readable");
    let revision = row.expect("the row exists").revision;
    let purge = JournalRecord {
        expect: vec![RowExpectation::new::<VerdictDelivery>(&id(0), Some(revision))],
        writes: vec![RowWrite::remove::<VerdictDelivery>(&id(0))],
        ..delivered(0, 1)
    };
    journal.commit(&[purge]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    assert!(store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").is_none());
    assert!(store.get::<SessionRecord>(&id(0)).expect("the session is readable").is_some());
    drop((journal, store));
    open(dir.path()).1.audit_all().expect("nothing is missing");
}

#[test]
fn database_that_was_found_damaged_is_rebuilt_at_the_next_opening() {
    let dir = closed_with(0..10);
    // after this opening the store counts as checked, and older rows are checked only in the background
    drop(open(dir.path()));
    remove(&raw(dir.path()), b"sessions/cs_3\0");
    let (mut journal, store) = open(dir.path());
    let damage = store.audit_all().expect_err("one is missing");
    journal.rebuild(damage.to_string());
    drop((journal, store));
    let (mut journal, store) = open(dir.path());
    assert!(journal.take_rebuilt().is_some());
    store.audit_all().expect("nothing is missing");
}

#[test]
fn damage_that_a_read_finds_is_repaired_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _) = open(dir.path());
    journal.commit(&[delivered(0, 20_000)]).expect("the commit succeeds").remove(0).expect("not stale");
    drop(journal);
    remove(&raw(dir.path()), b"sessions/cs_0\0\0\x02");
    let (mut journal, store) = open(dir.path());
    let damage_again = |journal: &Journal| {
        let mut batch = RowBatch::default();
        batch.remove([&b"sessions/cs_0\0"[..], &2u16.to_be_bytes()].concat());
        journal.engine.apply(batch).expect("the write succeeds");
    };
    let read = || store.read(|db, _| rows::get(db, dir.path(), "sessions", b"cs_0"));
    assert!(matches!(read(), Err(StoreError::Corrupt { .. })));
    journal.sync_pending_work();
    assert!(journal.failure().is_some(), "writes wait for the repair");
    journal.recover().expect("the database is rebuilt");
    assert!(store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").is_some());
    // the same damage again is not repaired again: a rebuild would stop the service each second
    damage_again(&journal);
    assert!(matches!(read(), Err(StoreError::Corrupt { .. })));
    journal.sync_pending_work();
    assert_eq!(journal.failure(), None);
    for _ in 1..REPAIR_PAUSE_CALLS {
        journal.sync_pending_work();
    }
    assert!(matches!(read(), Err(StoreError::Corrupt { .. })));
    journal.sync_pending_work();
    assert!(journal.failure().is_some(), "long after the first damage");
    journal.recover().expect("the database is rebuilt");
    assert!(store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").is_some());
}

#[test]
fn damage_that_a_read_finds_during_a_failure_is_repaired() {
    for condition in [RecoveryCondition::Reopening, RecoveryCondition::OrdinaryGroupSpace] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, store) = open(dir.path());
        journal.commit(&[delivered(0, 20_000)]).expect("the commit succeeds").remove(0).expect("not stale");
        let mut batch = RowBatch::default();
        batch.remove([&b"sessions/cs_0\0"[..], &2u16.to_be_bytes()].concat());
        journal.engine.apply(batch).expect("the write succeeds");
        journal.fail(StoreError::Unavailable { cause: "a full disk".into() }, condition);
        let read = store.read(|db, _| rows::get(db, dir.path(), "sessions", b"cs_0"));
        assert!(matches!(read, Err(StoreError::Corrupt { .. })));
        // the logger does this each second
        for _ in 0..2 {
            journal.sync_pending_work();
            journal.recover().expect("the failure is over");
        }
        assert!(
            store.get::<VerdictDelivery>(&id(0)).expect("the verdict is readable").is_some(),
            "{condition:?}"
        );
    }
}

#[test]
fn journal_stays_failed_until_its_segments_have_room() {
    let [dir, copy] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 0..3);
    // a folder with the name of the next segment
    let (last, _) = journal.segments.link_to(copy.path()).expect("the segments are linked");
    let last: u64 = last.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let blocked = dir.path().join(format!("segments/{:010}", last + 1));
    fs::create_dir(&blocked).expect("the directory is created");
    let cause = "a full disk".to_owned();
    journal.fail(StoreError::Unavailable { cause }, RecoveryCondition::OrdinaryGroupSpace);
    journal.recover().expect_err("an ordinary group needs the next segment");
    assert!(journal.failure().is_some());
    assert!(
        store.get::<VerdictDelivery>(&id(2)).expect("the verdict is readable").is_some(),
        "reads continue"
    );
    fs::remove_dir(&blocked).expect("the removal succeeds");
    journal.recover().expect("there is room");
    fill(&mut journal, 3..5);
    assert_eq!((journal.failure(), whole_log(&store).len()), (None, 10));
}

#[test]
fn damage_that_a_commit_finds_leads_to_a_rebuild() {
    let (dir, mut journal, store) = opened_with(0..3);
    let mut batch = RowBatch::default();
    batch.remove([&b"sessions/cs_1\0"[..], &1u16.to_be_bytes()].concat());
    journal.engine.apply(batch).expect("the write succeeds");
    let damage = StoreError::Corrupt { dir: dir.path().to_owned(), detail: "a row is damaged".to_owned() };
    journal.fail(damage, RecoveryCondition::Reopening);
    journal.recover().expect("the database is rebuilt");
    store.audit_all().expect("nothing is missing");
}

#[test]
fn reader_during_a_rebuild_never_misses_a_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..100 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut found, mut refused) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                match store.get::<VerdictDelivery>(&id(999)) {
                    Ok(verdict) => {
                        assert!(verdict.is_some());
                        found += 1;
                    }
                    Err(StoreError::Unavailable { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (found, refused)
        });
        for _ in 0..5 {
            journal.rebuild("damage".to_owned());
            journal.recover().expect("the database is rebuilt");
        }
        thread::sleep(Duration::from_millis(20));
        done.store(true, Ordering::Relaxed);
        let (found, refused) = reader.join().expect("the thread does not panic");
        assert!(found > 0 && refused > 0, "{found} {refused}");
    });
}

#[test]
fn database_is_rebuilt_although_a_segment_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..100 {
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    let whole = whole_log(&store);
    assert!(store.check_segments(|| true).expect("the segments are whole"));
    let first = dir.path().join("segments/0000000001.zst");
    let bytes = fs::read(&first).expect("it is compressed");
    fs::write(&first, &bytes[..bytes.len() / 2]).expect("the write succeeds");
    assert!(matches!(store.check_segments(|| true), Err(StoreError::Corrupt { .. })));
    journal.rebuild("damage".to_owned());
    journal.recover().expect("the database is rebuilt");
    assert_eq!(whole_log(&store), whole);
    assert!(store.segment_damage().is_some() && journal.lost_rows().is_empty());
}

#[test]
fn read_during_a_replacement_never_returns_an_older_revision() {
    let (_dir, mut journal, store) = opened_with(0..1);
    let (session, _) =
        store.get::<SessionRecord>(&id(0)).expect("the session is readable").expect("the session exists");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut reads, mut newest) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let (_, revision) = store
                    .get::<SessionRecord>(&id(0))
                    .expect("the session is readable")
                    .expect("the session exists");
                assert!(revision >= newest, "never an older one after a newer one");
                (reads, newest) = (reads + 1, revision);
            }
            assert!(reads > 300, "there was something to read: {reads}");
        });
        for _ in 0..300 {
            let writes =
                vec![RowWrite::put::<SessionRecord>(&session), RowWrite::put::<SessionRecord>(&session)];
            let record = JournalRecord {
                writes,
                ..JournalRecord::from(AuditEvent::new(at(0), None, ServiceStopped {}))
            };
            journal.commit(&[record]).expect("the commit succeeds");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The entry numbers of each page of `query`. Checks that each page is within the size limit, or has one entry.
fn pages(store: &TableReader, query: LogQuery) -> Vec<Vec<u64>> {
    let (mut pages, mut next) = (Vec::new(), Some(query));
    while let Some(query) = next {
        let page = store.log_page(&query).expect("the log is read");
        let bytes: usize = page.lines.iter().map(|line| line.json.len()).sum();
        assert!(
            bytes <= PAGE_BYTES || page.lines.len() == 1,
            "{} entries of {bytes} bytes",
            page.lines.len()
        );
        pages.push(page.lines.iter().map(|line| line.seq).collect());
        next = page.next;
    }
    pages
}

/// An entry of slightly more than `bytes` bytes.
fn long(bytes: usize) -> AuditEvent {
    AuditEvent::new(
        at(0),
        id(bytes),
        CrosscheckError { path: GatePath::Submit, level: EventSeverity::Error, cause: "x".repeat(bytes) },
    )
}

#[test]
fn group_of_many_megabytes_is_committed_in_parts() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let half = vec![JournalRecord::from(long(GROUP_BYTES / 2)); 5];
    let mut rest = &half[..];
    let mut taken = Vec::new();
    while !rest.is_empty() {
        let outcomes = journal.commit(rest).expect("the commit succeeds");
        assert_eq!(journal.counts().entries, store.last_seq());
        taken.push(outcomes.len());
        rest = &rest[outcomes.len()..];
    }
    assert_eq!(taken, [2, 2, 1]);
    assert_mirror_is_whole(dir.path(), &store);
    let longest = JournalRecord::from(long(2 * GROUP_BYTES));
    assert_eq!(journal.commit(&[longest.clone(), longest]).expect("the commit succeeds").len(), 1);
}

#[test]
fn log_pages_of_long_entries_are_complete_for_every_query() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let mib = 1024 * 1024;
    // three entries a page, in records of two, and one entry longer than a page
    for _ in 0..5 {
        let record = JournalRecord { events: vec![long(mib), long(mib)], ..JournalRecord::default() };
        journal.commit(&[record]).expect("the commit succeeds");
    }
    journal
        .commit(&[JournalRecord::from(long(PAGE_BYTES)), JournalRecord::from(long(mib))])
        .expect("the commit succeeds");
    let all = LogQuery { limit: usize::MAX, ..LogQuery::default() };
    let expected: &[&[u64]] = &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9], &[10], &[11], &[12]];
    assert_eq!(pages(&store, all.clone()), expected);
    assert_eq!(pages(&store, LogQuery { newest: true, ..all.clone() }), expected);
    let events = vec!["crosscheck_error".to_owned()];
    assert_eq!(pages(&store, LogQuery { events, ..all.clone() }), expected);
    for newest in [false, true] {
        let short = LogQuery { session: Some(id(mib)), newest, ..all.clone() };
        assert_eq!(pages(&store, short), [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9], vec![10, 12]]);
    }
    let some = |after, limit, newest| pages(&store, LogQuery { after, limit, newest, ..all.clone() });
    assert_eq!(some(0, 4, false), [vec![1, 2, 3], vec![4]]);
    assert_eq!(some(0, 3, false), [[1, 2, 3]]);
    assert_eq!(some(6, 3, false), [[7, 8, 9]]);
    assert_eq!(some(0, 5, true), [vec![8, 9, 10], vec![11], vec![12]]);
    assert_eq!(some(0, 1, true), [[12]]);
    assert_eq!(some(12, 9, true), [[0; 0]; 1]);
    assert_eq!(whole_log(&store).len(), 12);
}

/// The path of sled's snapshot in the store in `dir`.
fn snapshot(dir: &Path) -> PathBuf {
    let found = crate::base::watermark::snapshots(&dir.join("store")).expect("the read succeeds").pop();
    found.expect("a value is present")
}

#[test]
fn database_with_a_wrong_snapshot_is_rebuilt_although_it_is_locked_at_first() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&mut open(dir.path()).0, 0..50);
    drop(open(dir.path()));
    fs::write(snapshot(dir.path()), "").expect("the write succeeds");
    let database = File::open(dir.path().join("store/db")).expect("the file opens");
    database.lock().expect("the lock is released");
    let owner = thread::spawn(move || {
        // long enough that an opening begins to wait
        thread::sleep(Duration::from_millis(400));
        drop(database);
    });
    assert_eq!(open(dir.path()).0.counts().of("verdicts"), 50);
    owner.join().expect("the thread does not panic");
}

#[test]
fn state_directory_in_use_is_locked_although_its_database_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path()));
    // like another process that is reopening its database
    let state = File::open(dir.path()).expect("the file opens");
    state.lock().expect("the lock is released");
    assert!(matches!(refused(dir.path()), StoreError::Locked { .. }));
    drop(state);
    drop(open(dir.path()));
}

#[test]
fn database_with_a_damaged_or_foreign_snapshot_is_rebuilt() {
    let (ours, other) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    for (dir, sessions) in [(&ours, 0..400), (&other, 500..600)] {
        fill(&mut open(dir.path()).0, sessions);
        drop(open(dir.path()));
    }
    let foreign = fs::read(snapshot(other.path())).expect("the file is readable");
    type Tamper<'f> = &'f dyn Fn(Vec<u8>) -> Vec<u8>;
    let ways: [(&str, Tamper<'_>); 5] = [
        ("flipped", &|mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        }),
        ("cut", &|bytes| bytes[..bytes.len() / 2].to_vec()),
        ("grown", &|bytes| [bytes, vec![0; 9]].concat()),
        ("empty", &|_| Vec::new()),
        ("foreign", &|_| foreign.clone()),
    ];
    for (what, tamper) in ways {
        // sled writes no snapshot of a new database before its second opening
        drop(open(ours.path()));
        let content = fs::read(snapshot(ours.path())).expect("the file is readable");
        fs::write(snapshot(ours.path()), tamper(content)).expect("the write succeeds");
        let (mut journal, store) = open(ours.path());
        assert!(journal.take_rebuilt().is_some(), "{what}");
        assert_eq!(whole_log(&store).len() as u64, journal.counts().entries, "{what}");
        store.audit_all().expect(what);
        assert_eq!(journal.counts().of("verdicts"), 400, "{what}");
    }
    drop(open(ours.path()));
    fs::remove_file(snapshot(ours.path())).expect("the removal succeeds");
    open(ours.path()).1.audit_all().expect("no snapshot");
}

#[test]
fn missing_row_is_found_although_another_is_replaced_during_the_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..60 {
        fill(&mut journal, n * 50..n * 50 + 50);
    }
    drop((journal, store));
    drop(open(dir.path()));
    remove(&raw(dir.path()), b"sessions/cs_999\0");
    let (mut journal, store) = open(dir.path());
    let mut calls = 0;
    let audited = store.audit(|_| {
        calls += 1;
        // the log has 6000 entries; the verdicts are counted after it, and 1024 of them were counted before this call
        if calls == 7 {
            let replacement = JournalRecord { expect: Vec::new(), ..delivered(0, 40) };
            journal
                .commit(&[replacement])
                .expect("the commit succeeds")
                .remove(0)
                .expect("the record is not stale");
        }
        true
    });
    assert!(matches!(audited, Err(StoreError::Short { .. })), "{audited:?}");
}

/// Fills a store with `count` records, and changes its first entry with a session in the database.
fn fill_and_change(dir: &Path, count: usize) {
    let (mut journal, store) = open(dir);
    fill(&mut journal, 0..count);
    drop((journal, store));
    let (name, row) = with_raw(dir, |db| {
        let row = rows::heads(db, dir, rows::all(LOG)).next().expect("a row").expect("it is whole");
        let name = rows::name(&row.key).expect("a row").to_vec();
        let row = rows::get(db, dir, LOG, &name).expect("it is whole").expect("a row");
        (name, row)
    });
    let mut value = row.value.clone();
    let at = value.windows(4).position(|window| window == b"cs_1").expect("a session");
    value[at + 3] = b'2';
    let mut batch = RowBatch::default();
    rows::put(&mut batch, LOG, &name, row.revision, &value, row.chunks);
    raw(dir).apply_batch(sled::Batch::from(batch)).expect("the write succeeds");
}

#[test]
fn changed_entry_among_the_last_ones_is_found_at_the_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    fill_and_change(dir.path(), 30);
    let (mut journal, store) = open(dir.path());
    assert!(journal.take_rebuilt().is_some());
    assert!(whole_log(&store)[2].json.contains("cs_1"), "the entry has its value again");
}

#[test]
fn changed_entry_in_the_database_is_found_by_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    fill_and_change(dir.path(), 300);
    let (_journal, store) = open(dir.path());
    assert!(whole_log(&store)[2].json.contains("cs_2"), "the changed entry is read");
    let checked = store.audit(|_| true);
    assert!(matches!(checked, Err(StoreError::Corrupt { .. })), "{checked:?}");
    // an interrupted check finds it, too
    let mut calls = 0;
    while let Ok(false) = store.audit(|_| {
        calls += 1;
        false
    }) {}
    assert!(calls > 0 && matches!(store.audit_all(), Err(StoreError::Corrupt { .. })));
}

#[test]
fn tree_of_the_log_survives_reopening_and_equals_that_of_its_entries() {
    let dir = tempfile::tempdir().expect("a directory");
    let tree_of = |store: &TableReader| {
        let mut tree = LogTree::default();
        let leaf = |line: &LogLine| leaf_of(&line.json).expect("an entry").into_owned();
        for line in whole_log(store) {
            tree.append(leaf(&line).as_bytes());
        }
        tree
    };
    for n in 0..5 {
        let (mut journal, store) = open(dir.path());
        fill(&mut journal, n * 7..n * 7 + 3);
        fill(&mut journal, n * 7 + 3..n * 7 + 7);
        assert_eq!(store.log_head(), (journal.counts().entries, tree_of(&store).root()));
        assert!(store.audit(|_| true).expect("nothing is wrong"));
    }
}

#[test]
fn every_entry_of_the_log_is_proved_after_each_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut heads = vec![(0, LogTree::default().root())];
    for n in 0..4 {
        let (mut journal, store) = open(dir.path());
        assert_eq!(Some(&store.log_head()), heads.last(), "nothing was lost");
        fill(&mut journal, n * 100..n * 100 + 100);
        heads.push(store.log_head());
        let (size, root) = store.log_head();
        let lines = whole_log(&store);
        assert!(lines.len() as u64 == size && (n < 2 || size > 512), "{size}");
        for LogLine { seq, json } in &lines {
            let proof = store.prove_entry(*seq, size).expect("the store is readable").expect("it exists");
            let leaf = leaf_hash(leaf_of(json).expect("an entry").as_bytes());
            assert!(is_included(leaf, seq - 1, size, &proof, &root), "{seq} of {size}");
        }
        for (old_size, old_root) in &heads {
            let proof = store.prove_continuation(*old_size, size).expect("the store is readable");
            let proof = proof.expect("both exist");
            assert!(is_continued((*old_size, old_root), (size, &root), &proof), "{old_size} {size}");
        }
        assert_eq!(store.prove_entry(size + 1, size).expect("the store is readable"), None);
        assert_eq!(store.prove_entry(0, size).expect("the store is readable"), None);
        assert_eq!(store.prove_continuation(1, size + 1).expect("the store is readable"), None);
    }
}

#[test]
fn tile_that_differs_from_the_log_is_found_at_the_next_opening() {
    let (dir, journal, _) = opened_with(0..200);
    let mut batch = RowBatch::default();
    rows::put(&mut batch, TILES, &[0; 9], 256, &[7; 256 * 32], 0);
    journal.engine.apply(batch).expect("the write succeeds");
    drop(journal);
    assert!(open(dir.path()).0.take_rebuilt().is_some());
}

#[test]
fn audit_stops_on_request_and_continues_at_its_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    for n in 0..60 {
        fill(&mut journal, n * 50..n * 50 + 50);
    }
    let entries = journal.counts().entries;
    drop((journal, store));
    let (journal, store) = open(dir.path());
    let mut count = 0;
    let ended = store.audit(|_| {
        count += 1;
        false
    });
    assert!(!ended.expect("nothing is wrong"));
    assert_eq!(count, 1, "it stops at once");
    drop((journal, store));

    let (journal, store) = open(dir.path());
    let from_there = |store: &TableReader| {
        let mut read = 0;
        let ended = store.audit(|rows| {
            read = rows;
            true
        });
        assert!(ended.expect("nothing is wrong"));
        read
    };
    let continued = from_there(&store);
    let whole = from_there(&store);
    assert!(continued < whole && whole >= entries, "{continued} {whole} {entries}");
    drop((journal, store));
    let (journal, store) = open(dir.path());
    assert_eq!(from_there(&store), whole, "a completed check is followed by a whole one");
    drop((journal, store));
}
