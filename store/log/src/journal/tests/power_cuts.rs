//! Power cuts: whatever a disk has kept of the changes that were not synced, a store opens with everything that was acknowledged.

use crate::audit::log::LogQuery;
use crate::audit::removal::RemovalPlan;
use crate::base::engine::TableReader;
use crate::base::random::seeded::{MARKER, with_seed};
use crate::base::row_write::RowWrite;
use crate::journal::erasure::ErasureStep;
use crate::journal::testing::{open_with, visit_groups};
use crate::journal::tests::{at, delivered, id, open, options};
use crate::journal::{Journal, JournalRecord};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::SessionRecord;
use memchr::memmem;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use store_base::files::recording::Recording;
use tempfile::TempDir;

/// A store whose changes were recorded.
struct RecordedStore {
    dir: TempDir,
    recording: Recording,
    /// After the numbers of changes, the numbers of entries that were acknowledged.
    acknowledged: BTreeMap<usize, u64>,
    /// The sessions that have a verdict or lost it, by the entry that did that.
    verdicts: BTreeMap<u64, (usize, bool)>,
    /// The sessions that were erased, by the number of changes until then.
    erased: BTreeMap<usize, usize>,
}

impl RecordedStore {
    fn state(&self) -> std::path::PathBuf {
        self.dir.path().join("state")
    }

    fn commit(&mut self, journal: &mut Journal, records: &[(usize, JournalRecord)], stores: bool) {
        let group: Vec<_> = records.iter().map(|(_, record)| record.clone()).collect();
        let outcomes = journal.commit(&group).expect("the disk is writable");
        for ((session, _), outcome) in records.iter().zip(outcomes) {
            let receipt = outcome.expect("the record is not stale");
            self.verdicts.insert(receipt.last_seq, (*session, stores));
        }
        self.acknowledged.insert(self.recording.count(), journal.counts().entries);
    }

    /// Opens what a power cut after `count` changes has left. Returns what is wrong with it.
    fn fault_after(&self, count: usize, syncs: bool, random: &mut fastrand::Rng) -> Result<(), String> {
        let remains = tempfile::tempdir().expect("a directory");
        let written =
            self.recording.write_remains(count, remains.path(), syncs, &mut |below| random.usize(..below));
        written.expect("the disk is writable");
        let (_journal, store) = open_with(options(remains.path())).map_err(|error| error.to_string())?;
        let acknowledged = self.acknowledged.range(..=count).next_back().map_or(0, |(_, entries)| *entries);
        let (entries, root) = store.log_head();
        if entries < acknowledged {
            return Err(format!("{entries} of {acknowledged} acknowledged entries"));
        }
        store.audit_all().map_err(|error| error.to_string())?;
        let (_journal, whole) = open(&self.state());
        if whole.log_root(entries).expect("the tiles are whole") != Some(root) {
            return Err("another log".to_owned());
        }
        self.compare_verdicts(entries, &store)?;
        drop(store);
        self.find_erased(count, remains.path())
    }

    /// Searches the segments in `dir` and their copies for data that were erased before change `count`.
    fn find_erased(&self, count: usize, dir: &Path) -> Result<(), String> {
        let copies = tempfile::tempdir().expect("a directory");
        symlink(dir.join("segments.copy"), copies.path().join("segments")).expect("the link is created");
        for session in self.erased.range(..=count).map(|(_, session)| session) {
            let question = format!("Question {session}?");
            let mut is_found = false;
            for dir in [dir, copies.path()] {
                let read = visit_groups(dir, |batch| {
                    let mut values = batch.range(Vec::new()..vec![u8::MAX]).filter_map(|(_, value)| value);
                    is_found |= values.any(|value| memmem::find(value, question.as_bytes()).is_some());
                });
                read.map_err(|error| error.to_string())?;
            }
            if is_found {
                return Err(format!("the data of session {session}, which was erased"));
            }
        }
        Ok(())
    }

    fn compare_verdicts(&self, entries: u64, store: &TableReader) -> Result<(), String> {
        let mut expected = BTreeMap::new();
        for (session, stores) in self.verdicts.range(..=entries).map(|(_, verdict)| verdict) {
            expected.insert(session, *stores);
        }
        for (session, is_there) in expected {
            let read = store.get::<VerdictDelivery>(&id(*session)).map_err(|error| error.to_string())?;
            if read.is_some() != is_there {
                return Err(format!("session {session}: {}", read.is_some()));
            }
        }
        let last = store.log(&LogQuery { newest: true, limit: 1, ..LogQuery::default() });
        let last = last.map_err(|error| error.to_string())?.first().map_or(0, |line| line.seq);
        if last == entries { Ok(()) } else { Err(format!("the log ends at {last}, its tree at {entries}")) }
    }
}

/// Erases a session whose rows are removed.
fn erase(journal: &mut Journal, session: usize) {
    let sessions = [(id(session), journal.counts().entries)].into();
    let plan = RemovalPlan { sessions, ..RemovalPlan::default() };
    let mut erasure = journal.begin_erasure(plan).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the segments are whole");
    while journal.finish_erasure(&mut erasure).expect("the disk is writable") != ErasureStep::Finished {
        erasure.prepare(&|| true).expect("the disk is writable");
    }
    erasure.finish().expect("the disk is writable");
}

fn removal(session: usize) -> JournalRecord {
    JournalRecord {
        writes: vec![
            RowWrite::remove::<VerdictDelivery>(&id(session)),
            RowWrite::remove::<SessionRecord>(&id(session)),
        ],
        ..JournalRecord::from(AuditEvent::new(at(0), id(session), ServiceStopped {}))
    }
}

/// Runs a random history of commits, pauses, repairs, erasures and restarts.
fn recorded(random: &mut fastrand::Rng) -> RecordedStore {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let recording = Recording::begin(&state);
    let mut store = RecordedStore {
        dir,
        recording,
        acknowledged: BTreeMap::new(),
        verdicts: BTreeMap::new(),
        erased: BTreeMap::new(),
    };
    let (mut journal, _) = open(&state);
    store.acknowledged.insert(store.recording.count(), 0);
    let mut next = 0;
    for _ in 0..40 {
        match random.u8(..10) {
            0 => {
                drop(journal);
                journal = open(&state).0;
            }
            1 => journal.sync_pending_work(),
            2 => {
                let mut healing = journal.begin_healing().expect("the journal accepts writes");
                healing.write(&|| true).expect("the segments are whole");
                journal.finish_healing(healing);
            }
            3 if next > 0 => {
                let session = random.usize(..next);
                store.commit(&mut journal, &[(session, removal(session))], false);
            }
            4 if next > 0 => {
                let session = random.usize(..next);
                store.commit(&mut journal, &[(session, removal(session))], false);
                erase(&mut journal, session);
                store.erased.insert(store.recording.count(), session);
            }
            _ => {
                let group: Vec<_> = (next..next + random.usize(1..6))
                    .map(|n| (n, delivered(n, random.usize(1..3000))))
                    .collect();
                next += group.len();
                store.commit(&mut journal, &group, true);
            }
        }
    }
    drop(journal);
    store.recording.end();
    store
}

fn check_power_cuts(histories: usize) {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for history in 0..histories {
        let store = recorded(&mut random);
        for _ in 0..30 {
            let count = random.usize(..=store.recording.count());
            let fault = store.fault_after(count, true, &mut random);
            assert_eq!(fault, Ok(()), "seed {seed}, history {history}, after {count} changes");
        }
    }
}

#[test]
fn power_cut_at_any_moment_loses_nothing_that_was_acknowledged() {
    check_power_cuts(2);
}

#[test]
#[ignore = "takes minutes"]
fn power_cut_at_any_moment_loses_nothing_in_100_histories() {
    check_power_cuts(100);
}

#[test]
fn power_cut_of_a_disk_that_forgets_syncs_is_noticed() {
    let mut random = fastrand::Rng::with_seed(7);
    let store = recorded(&mut random);
    let count = store.recording.count();
    let faults = (0..10).filter(|_| store.fault_after(count, false, &mut random).is_err()).count();
    assert!(faults > 0, "the checks of the other test can fail");
}

#[test]
fn store_of_the_same_seed_has_the_same_root() {
    let root_of = |seed| {
        with_seed(seed, || {
            let dir = tempfile::tempdir().expect("a directory");
            let (mut journal, store) = open(dir.path());
            for n in 0..20 {
                let outcome = journal.commit(&[delivered(n, 100)]).expect("the disk is writable").remove(0);
                outcome.expect("the record is not stale");
            }
            (store.log_head(), store.log_name().expect("the store is readable"))
        })
    };
    assert_eq!(root_of(3), root_of(3));
    assert_ne!(root_of(3), root_of(4));
    let program = std::fs::read(std::env::current_exe().expect("a program")).expect("it is readable");
    assert!(memmem::find(&program, MARKER.as_bytes()).is_some(), "the daemon's test searches for this text");
}
