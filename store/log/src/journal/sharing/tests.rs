//! Three hosts with one shared log, under arbitrary interleavings, lost answers, late appends and crashes.

use crate::audit::log::LogQuery;
use crate::base::engine::TableReader;
use crate::base::row_batch::RowBatch;
use crate::base::row_write::{RowExpectation, RowWrite};
use crate::journal::testing::visit_groups;
use crate::journal::tests::links::{delivered_after, links_of, links_to, stopped};
use crate::journal::tests::{
    assert_mirror_is_whole, at as at_second, copy_dir, delivered, fill, id, open, whole_log,
};
use crate::journal::{FollowedChanges, Journal, JournalRecord, RecordRejectedError};
use crate::shared_log::{
    GroupsEnd, SharedAppend, SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail,
};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::SessionRecord;
use fastrand::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use store_base::error::StoreError;
use tempfile::TempDir;

const HOSTS: usize = 3;
/// The sessions that the hosts deliver.
const SESSIONS: std::ops::Range<usize> = 100..112;
const STEPS: usize = 60;
/// The number of sessions that all hosts have from the start.
const EARLIER: usize = 5;

/// The groups of a shared log, and the appends that no host waits for, but that may still happen.
#[derive(Debug)]
struct FakeEngine {
    /// The end before the first group.
    first: GroupsEnd,
    groups: Vec<SharedGroup>,
    /// The last entry that was appended in this epoch.
    mark: u64,
    /// Appends, with the number of losses that hosts had found when each was sent.
    late: Vec<(usize, GroupsEnd, SharedGroup)>,
    random: Rng,
    /// One call in this many has no answer; 0 if all have.
    lost_in: usize,
    /// Whether the next append happens without an answer.
    loses_next: bool,
    /// How often the engine was replaced by an older copy of itself.
    epoch: usize,
    /// The number of times that hosts have found lost groups within an epoch.
    losses: usize,
    /// The hosts of whose groups it has all since then.
    settled: BTreeSet<usize>,
    /// Whether a host waits for the others then.
    settles: bool,
    /// Groups that another host appends again, one before each look at the ends.
    back: VecDeque<SharedGroup>,
    /// The groups that replace the present ones before they are read.
    others: Option<Vec<SharedGroup>>,
}

impl FakeEngine {
    fn tail(&self) -> u64 {
        self.groups.last().map_or(self.first.entries, |last| last.after)
    }

    fn end(&self) -> GroupsEnd {
        self.groups.last().map_or(self.first, |last| GroupsEnd { entries: last.after, root: last.root })
    }

    /// Appends a group, over a connection that was made after this number of losses.
    fn append(&mut self, losses: usize, own: GroupsEnd, group: &SharedGroup) -> SharedAppend {
        if self.end() != own || self.is_lossy(losses) {
            return SharedAppend::Behind;
        }
        self.groups.push(group.clone());
        self.mark = group.after;
        SharedAppend::Appended
    }

    /// Whether groups may have been lost since a connection was made, which was after this number of losses.
    fn is_lossy(&self, losses: usize) -> bool {
        self.losses != losses || self.tail() < self.mark
    }

    /// Lets an append happen that no host waits for.
    fn append_late(&mut self) {
        if !self.late.is_empty() {
            let at = self.random.usize(..self.late.len());
            let (losses, own, group) = self.late.swap_remove(at);
            self.append(losses, own, &group);
        }
    }

    /// The last groups are removed, and no connection ends.
    fn remove_groups(&mut self) {
        let lost = self.random.usize(..3).min(self.groups.len());
        self.groups.truncate(self.groups.len() - lost);
    }

    /// The engine is replaced by an older copy of itself. All connections end.
    fn lose_groups(&mut self) {
        self.remove_groups();
        self.late.clear();
        self.begin_epoch();
    }

    fn begin_epoch(&mut self) {
        self.settled.clear();
        (self.epoch, self.mark) = (self.epoch + 1, self.tail());
    }

    /// A host has found that groups were lost within this epoch.
    fn raise_epoch(&mut self) {
        self.settled.clear();
        (self.losses, self.mark) = (self.losses + 1, self.tail());
    }

    fn is_lost(&mut self) -> bool {
        self.lost_in > 0 && self.random.usize(..self.lost_in) == 0
    }
}

fn lost<T>() -> Result<T, SharedLogError> {
    Err(SharedLogError::Unanswered("no answer".to_owned()))
}

/// A connection of one host.
#[derive(Debug)]
struct FakeConnection {
    engine: Arc<Mutex<FakeEngine>>,
    host: usize,
    is_connected: bool,
    epoch: usize,
    losses: usize,
}

impl FakeConnection {
    /// Calls the engine, unless the connection is gone. Afterwards it may be.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut FakeEngine) -> Result<T, SharedLogError>,
    ) -> Result<T, SharedLogError> {
        assert!(self.is_connected, "only a connection on which the ends were compared is used");
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = if engine.epoch == self.epoch { call(&mut engine) } else { lost() };
        self.is_connected = answer.is_ok();
        answer
    }
}

impl SharedLog for FakeConnection {
    fn connect(&mut self, own: GroupsEnd) -> Result<SharedTail, SharedLogError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.append_late();
        if engine.is_lost() {
            return lost();
        }
        (self.is_connected, self.epoch) = (true, engine.epoch);
        let end = |group: &SharedGroup| GroupsEnd { entries: group.after, root: group.root };
        let ends = [engine.first].into_iter().chain(engine.groups.iter().map(end));
        let same = ends.filter(|end| end.entries == own.entries).collect::<Vec<_>>();
        let tail = match same.as_slice() {
            [end] if *end == own => SharedTail::Follows(engine.tail()),
            _ if engine.tail() < own.entries => SharedTail::Lacks(engine.tail()),
            _ => SharedTail::Forked,
        };
        let lacks = matches!(tail, SharedTail::Lacks(_)) && engine.settled.contains(&self.host);
        if lacks || engine.is_lossy(engine.losses) {
            engine.raise_epoch();
        }
        self.losses = engine.losses;
        Ok(tail)
    }

    fn settle(&mut self) -> Result<(), SharedLogError> {
        let (host, losses) = (self.host, self.losses);
        self.call(|engine| {
            if engine.losses != losses {
                return lost();
            }
            engine.settled.insert(host);
            // the groups that another host appends again while this one waits
            let back = mem::take(&mut engine.back);
            engine.groups.extend(back);
            engine.mark = engine.mark.max(engine.tail());
            if !engine.settles || engine.epoch + engine.losses == 0 || engine.settled.len() == HOSTS {
                Ok(())
            } else {
                lost()
            }
        })
    }

    fn ends(&mut self, up_to: u64) -> Result<Vec<SharedEnd>, SharedLogError> {
        self.call(|engine| {
            if engine.is_lost() {
                return lost();
            }
            let end = |group: &SharedGroup| GroupsEnd { entries: group.after, root: group.root };
            let ends = [engine.first].into_iter().chain(engine.groups.iter().map(end));
            let ends = ends
                .filter(|end| end.entries <= up_to)
                .map(|end| SharedEnd { end, host: "another".to_owned() });
            let mut ends: Vec<_> = ends.collect();
            ends.reverse();
            // a page of some
            ends.truncate(2);
            Ok(ends)
        })
    }

    fn append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError> {
        let losses = self.losses;
        self.call(|engine| {
            if mem::take(&mut engine.loses_next) {
                engine.append(losses, own, group);
                return lost();
            }
            if !engine.is_lost() {
                return Ok(engine.append(losses, own, group));
            }
            match engine.random.u8(..3) {
                // the answer is lost
                0 => drop(engine.append(losses, own, group)),
                // it happens later, or never
                1 => engine.late.push((losses, own, group.clone())),
                _ => {}
            }
            lost()
        })
    }

    fn set_waiting(&mut self, _: bool) -> Result<(), SharedLogError> {
        self.call(|engine| if engine.is_lost() { lost() } else { Ok(()) })
    }

    fn read(&mut self, after: u64, max_bytes: usize) -> Result<Vec<SharedGroup>, SharedLogError> {
        self.call(|engine| {
            if engine.is_lost() {
                return lost();
            }
            if let Some(others) = engine.others.take() {
                engine.groups = others;
            }
            let mut bytes = 0;
            let fits = |group: &&SharedGroup| {
                let is_first = bytes == 0;
                bytes += group.rows.len();
                is_first || bytes <= max_bytes
            };
            Ok(engine.groups.iter().filter(|group| group.before >= after).take_while(fits).cloned().collect())
        })
    }

    fn tail(&mut self) -> Result<Option<GroupsEnd>, SharedLogError> {
        let losses = self.losses;
        self.call(|engine| {
            if engine.is_lost() {
                return lost();
            }
            Ok((!engine.is_lossy(losses)).then(|| engine.end()))
        })
    }
}

/// A host; its journal is `None` only while it restarts.
struct Host {
    number: usize,
    dir: TempDir,
    open: Option<(Journal, TableReader)>,
    /// The sessions that it knows to be delivered: it did that, or the row was reported to it.
    known: BTreeSet<String>,
    /// The changes that its present journal reports.
    followed: Receiver<Vec<RowWrite>>,
}

impl Host {
    fn journal(&mut self) -> &mut Journal {
        &mut self.open.as_mut().expect("the host runs").0
    }

    fn store(&self) -> &TableReader {
        &self.open.as_ref().expect("the host runs").1
    }

    fn start(&mut self, engine: &Arc<Mutex<FakeEngine>>) {
        let (mut journal, store) = open(self.dir.path());
        let (engine_of_all, host) = (Arc::clone(engine), self.number);
        let connection =
            FakeConnection { engine: engine_of_all, host, is_connected: false, epoch: 0, losses: 0 };
        // some hosts give up at once, and some try again
        let attempts = engine.lock().expect("no test panicked").random.u32(1..4);
        journal.share(Box::new(connection), format!("host-{host}"), attempts);
        let (report, followed) = channel();
        journal.report_followed(FollowedChanges(Box::new(move |writes| {
            report.send(writes).expect("it is read");
        })));
        self.followed = followed;
        self.open = Some((journal, store));
        // entries that were applied before are not reported again
        let entries = self.store().log_head().0;
        self.known.extend(delivered_in(&whole_log(self.store())).into_keys());
        assert_eq!(entries, self.journal().counts().entries);
    }

    /// Tries to accept writes again, if the last one failed.
    fn recover(&mut self) -> bool {
        match self.journal().recover() {
            Ok(()) => true,
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
                false
            }
        }
    }

    fn follow(&mut self) -> Result<(), StoreError> {
        let followed = if self.recover() { self.journal().follow() } else { Ok(()) };
        let followed_writes = self.followed.try_iter().flatten();
        let of_verdicts = followed_writes.filter_map(|write| write.row.key::<VerdictDelivery>());
        self.known.extend(of_verdicts.map(|id| id.to_string()));
        followed
    }
}

/// How often each session was delivered, by the log.
fn delivered_in(log: &[crate::audit::log::LogLine]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in log {
        let entry: serde_json::Value = serde_json::from_str(&line.json).expect("JSON");
        if entry["event"] == "verdict_cached" {
            *found.entry(entry["session_id"].as_str().expect("a session").to_owned()).or_default() += 1;
        }
    }
    found
}

/// The rows of each group.
fn groups_of(dir: &Path) -> Vec<RowBatch> {
    let mut groups = Vec::new();
    visit_groups(dir, |rows| groups.push(rows.clone())).expect("the segments are whole");
    groups
}

struct Cluster {
    engine: Arc<Mutex<FakeEngine>>,
    hosts: Vec<Host>,
    /// The sessions that were acknowledged, with the last entry of each.
    acknowledged: BTreeMap<u64, usize>,
    random: Rng,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let first = tempfile::tempdir().expect("a directory");
        let (mut journal, store) = open(first.path());
        fill(&mut journal, 0..EARLIER);
        let (entries, root) = store.log_head();
        drop((journal, store));
        let mut random = Rng::with_seed(seed);
        let (groups, late) = (Vec::new(), Vec::new());
        let first_end = GroupsEnd { entries, root };
        let engine = FakeEngine {
            first: first_end,
            mark: entries,
            groups,
            late,
            random: random.fork(),
            lost_in: 6,
            loses_next: false,
            epoch: 0,
            losses: 0,
            settled: BTreeSet::new(),
            settles: true,
            back: VecDeque::new(),
            others: None,
        };
        let mut cluster = Self {
            engine: Arc::new(Mutex::new(engine)),
            hosts: Vec::new(),
            acknowledged: BTreeMap::new(),
            random,
        };
        for number in 0..HOSTS {
            let dir = tempfile::tempdir().expect("a directory");
            copy_dir(first.path(), dir.path());
            let mut host = Host { number, dir, open: None, known: BTreeSet::new(), followed: channel().1 };
            host.start(&cluster.engine);
            cluster.hosts.push(host);
        }
        cluster
    }

    /// A host delivers some sessions in one group, which other hosts may have delivered.
    fn commit(&mut self, expects: bool) {
        let sessions: BTreeSet<_> =
            (0..=self.random.usize(..3)).map(|_| self.random.usize(SESSIONS)).collect();
        let at = self.random.usize(..HOSTS);
        let record = |session: &usize| {
            let mut record = delivered(*session, 40);
            record.expect.retain(|_| expects);
            record
        };
        let group: Vec<JournalRecord> = sessions.iter().map(record).collect();
        if !self.hosts[at].recover() {
            return;
        }
        match self.hosts[at].journal().commit(&group) {
            Ok(outcomes) => {
                for (session, outcome) in sessions.into_iter().zip(outcomes) {
                    match outcome {
                        Ok(receipt) => {
                            self.acknowledged.insert(receipt.last_seq, session);
                            self.hosts[at].known.insert(id(session).to_string());
                        }
                        Err(error) => assert!(matches!(error, RecordRejectedError::Stale(_)), "{error}"),
                    }
                }
            }
            Err(error) => assert!(matches!(error, StoreError::Unavailable { .. }), "{error}"),
        }
    }

    /// A host removes the verdict of a session that all hosts had from the start.
    fn remove(&mut self) {
        let (session, at) = (self.random.usize(..EARLIER), self.random.usize(..HOSTS));
        let removal = JournalRecord {
            writes: vec![RowWrite::remove::<VerdictDelivery>(&id(session))],
            ..JournalRecord::from(AuditEvent::new(at_second(0), id(session), ServiceStopped {}))
        };
        if self.hosts[at].recover()
            && let Err(error) = self.hosts[at].journal().commit(&[removal])
        {
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
    }

    fn run(&mut self, expects: bool) {
        for _ in 0..STEPS {
            match self.random.u8(..25) {
                0 => self.engine.lock().expect("no test panicked").lose_groups(),
                1 | 2 => {
                    let at = self.random.usize(..HOSTS);
                    self.hosts[at].open = None;
                    self.hosts[at].start(&self.engine);
                }
                3..7 => {
                    let at = self.random.usize(..HOSTS);
                    if let Err(error) = self.hosts[at].follow() {
                        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
                    }
                }
                7 | 8 => self.engine.lock().expect("no test panicked").append_late(),
                9 | 10 => self.remove(),
                11 => self.engine.lock().expect("no test panicked").remove_groups(),
                _ => self.commit(expects),
            }
        }
        self.engine.lock().expect("no test panicked").lost_in = 0;
        for host in &mut self.hosts {
            // the first ones may wait until the others have compared
            drop(host.follow());
        }
        for host in &mut self.hosts {
            drop(host.follow());
        }
        for host in &mut self.hosts {
            host.follow().expect("the shared log answers");
        }
    }

    /// How often each session was delivered. All hosts have the same store, and nothing acknowledged is lost.
    fn check(&mut self) -> BTreeMap<String, usize> {
        let heads: Vec<_> = self.hosts.iter().map(|host| host.store().log_head()).collect();
        let groups = groups_of(self.hosts[0].dir.path());
        let delivered = delivered_in(&whole_log(self.hosts[0].store()));
        for host in &self.hosts {
            assert_eq!(host.store().log_head(), heads[0]);
            assert!(groups_of(host.dir.path()) == groups, "other groups");
            host.store().audit_all().expect("the rows are as the groups of all hosts have left them");
            assert_mirror_is_whole(host.dir.path(), host.store());
            for session in SESSIONS {
                let name = id(session).to_string();
                let verdict = host.store().get::<VerdictDelivery>(&id(session)).expect("readable");
                assert_eq!(verdict.is_some(), delivered.contains_key(&name), "{name}");
                assert_eq!(
                    host.known.contains(&name),
                    delivered.contains_key(&name),
                    "{name} is not reported"
                );
            }
        }
        for (seq, session) in &self.acknowledged {
            let query = LogQuery { after: seq - 1, limit: 1, ..LogQuery::default() };
            let line = self.hosts[0].store().log(&query).expect("readable").pop().expect("it is there");
            assert!(line.json.contains(&format!("\"{}\"", id(*session))), "{seq}: {}", line.json);
        }
        for host in &mut self.hosts {
            host.open = None;
            let (_journal, store) = open(host.dir.path());
            store.audit_all().expect("the store is whole");
            assert_eq!(store.log_head(), heads[0]);
        }
        delivered
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("ORACLED_HISTORIES").map_or(8, |cases| cases.parse().expect("a number"))
    ))]

    #[test]
    fn hosts_have_one_log_and_deliver_each_session_once(seed: u64) {
        let mut cluster = Cluster::new(seed);
        cluster.run(true);
        let repeated: Vec<_> = cluster.check().into_iter().filter(|(_, count)| *count > 1).collect();
        prop_assert_eq!(repeated, []);
    }
}

#[test]
fn group_is_committed_once_although_its_answer_is_lost() {
    let mut cluster = with_one_group();
    for attempts in [1, 2] {
        cluster.hosts[1].open = None;
        let engine = Arc::clone(&cluster.engine);
        cluster.hosts[1].start(&engine);
        let journal = cluster.hosts[1].journal();
        journal.shared.as_mut().expect("it is shared").attempts = attempts;
        journal.follow().expect("the shared log answers");
        engine.lock().expect("no test panicked").loses_next = true;
        let session = 100 + attempts as usize;
        let record = JournalRecord { expect: Vec::new(), ..delivered(session, 40) };
        let committed = journal.commit(&[record]);
        if attempts == 1 {
            assert!(matches!(committed, Err(StoreError::Unavailable { .. })), "{committed:?}");
            assert!(journal.failure().is_some(), "what was appended is not applied yet");
            journal.recover().expect("the shared log answers");
        } else {
            assert!(committed.expect("the second attempt finds the group")[0].is_ok());
        }
        let delivered = delivered_in(&whole_log(cluster.hosts[1].store()));
        assert_eq!(delivered[&id(session).to_string()], 1);
    }
}

#[test]
fn host_with_other_groups_than_the_shared_log_stops() {
    for is_connected in [false, true] {
        for writes in [false, true] {
            let mut cluster = with_one_group();
            let engine = Arc::clone(&cluster.engine);
            let first = engine.lock().expect("no test panicked").first.entries;
            engine.lock().expect("no test panicked").groups[0].root[0] ^= 1;
            if !is_connected {
                cluster.hosts[0].open = None;
                cluster.hosts[0].start(&engine);
            }
            let journal = cluster.hosts[0].journal();
            // the first attempt finds that its connection cannot be used any longer
            journal.shared.as_mut().expect("it is shared").attempts = 2;
            let stopped =
                if writes { journal.commit(&[delivered(101, 40)]).map(drop) } else { journal.follow() };
            let Err(StoreError::Diverged { detail, .. }) = stopped else { panic!("{stopped:?}") };
            for part in [format!("up to entry {first};"), "(host-0)".to_owned(), "host another".to_owned()] {
                assert!(detail.contains(&part), "{part}: {detail}");
            }
            assert_eq!(engine.lock().expect("no test panicked").groups.len(), 1);
        }
    }
}

#[test]
fn removed_groups_are_missed_by_each_host_until_they_are_appended_again() {
    let mut cluster = with_one_group();
    // the third host has read the group, and the second has not
    cluster.hosts[2].follow().expect("the shared log answers");
    let groups = mem::take(&mut cluster.engine.lock().expect("no test panicked").groups);
    for at in [1, 2] {
        let unread = cluster.hosts[at].follow();
        assert!(matches!(unread, Err(StoreError::Unavailable { .. })), "{at}: {unread:?}");
    }
    let committed = cluster.hosts[1].journal().commit(&[delivered(101, 40)]);
    assert!(matches!(committed, Err(StoreError::Unavailable { .. })), "{committed:?}");
    cluster.hosts[0].follow().expect("all hosts have compared");
    assert_eq!(cluster.engine.lock().expect("no test panicked").groups, groups);
    for at in [1, 2] {
        cluster.hosts[at].follow().expect("all hosts have compared");
        assert_eq!(cluster.hosts[at].store().log_head(), cluster.hosts[0].store().log_head());
    }
    let outcomes = cluster.hosts[1].journal().commit(&[delivered(101, 40)]).expect("it answers");
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
}

#[test]
fn sessions_are_delivered_twice_without_expectations() {
    let mut cluster = Cluster::new(19);
    cluster.run(false);
    assert!(cluster.check().into_values().any(|count| count > 1), "the check finds nothing");
}

/// Two hosts, of which the first has committed one more group, which the second has not read.
fn with_one_group() -> Cluster {
    let mut cluster = Cluster::new(1);
    cluster.engine.lock().expect("no test panicked").lost_in = 0;
    let outcomes = cluster.hosts[0].journal().commit(&[delivered(100, 40)]).expect("the shared log answers");
    assert!(outcomes[0].is_ok());
    cluster
}

#[test]
fn changed_group_of_the_shared_log_is_refused() {
    for change in [
        |group: &mut SharedGroup| group.root[0] ^= 1,
        |group: &mut SharedGroup| group.after += 1,
        |group: &mut SharedGroup| group.after = group.before,
        |group: &mut SharedGroup| group.rows.truncate(group.rows.len() - 1),
    ] {
        let mut cluster = with_one_group();
        change(&mut cluster.engine.lock().expect("no test panicked").groups[0]);
        let journal = cluster.hosts[1].journal();
        let error = journal.follow().expect_err("the group is another one");
        assert!(matches!(error, StoreError::Diverged { .. }), "{error}");
        // it stops for good
        assert!(journal.commit(&[delivered(101, 40)]).is_err());
        let error = journal.recover().expect_err("the group is still another one");
        assert!(matches!(error, StoreError::Diverged { .. }), "{error}");
        assert_eq!(cluster.hosts[1].store().get::<SessionRecord>(&id(100)).expect("readable"), None);
    }
}

#[test]
fn groups_that_the_shared_log_has_lost_are_appended_again() {
    append_again(false);
    append_again(true);
}

/// Groups are lost, and a host appends them again, perhaps while another one does the same.
fn append_again(at_once: bool) {
    let mut cluster = with_one_group();
    for session in 101..105 {
        let outcomes = cluster.hosts[0].journal().commit(&[delivered(session, 40)]).expect("it answers");
        assert!(outcomes[0].is_ok());
    }
    let engine = Arc::clone(&cluster.engine);
    let groups = {
        let mut engine = engine.lock().expect("no test panicked");
        engine.settles = false;
        let groups = mem::take(&mut engine.groups);
        engine.begin_epoch();
        engine.back = groups.iter().filter(|_| at_once).cloned().collect();
        groups
    };
    // the present connection ends with the first call
    drop(cluster.hosts[0].follow());
    let committed = cluster.hosts[0].journal().commit(&[delivered(105, 40)]).expect("it answers");
    assert!(committed[0].is_ok());
    assert_eq!(engine.lock().expect("no test panicked").groups[..5], groups);
    cluster.hosts[1].follow().or_else(|_| cluster.hosts[1].follow()).expect("it answers");
    assert_eq!(cluster.hosts[1].store().log_head(), cluster.hosts[0].store().log_head());
}

/// Groups are lost, and a host writes before the one that has them compares.
fn fork(settles: bool) -> (Cluster, Result<(), StoreError>) {
    let mut cluster = with_one_group();
    {
        let mut engine = cluster.engine.lock().expect("no test panicked");
        engine.settles = settles;
        engine.groups.clear();
        engine.begin_epoch();
    }
    drop(cluster.hosts[1].follow());
    drop(cluster.hosts[1].recover().then(|| cluster.hosts[1].journal().commit(&[delivered(101, 40)])));
    // each host compares again
    for at in [2, 0, 1, 2] {
        drop(cluster.hosts[at].follow());
    }
    let compared = cluster.hosts[0].follow();
    (cluster, compared)
}

#[test]
fn hosts_that_do_not_settle_fork_and_the_error_names_the_first_difference() {
    let (_, compared) = fork(true);
    assert!(compared.is_ok(), "{compared:?}");
    let (cluster, compared) = fork(false);
    let Err(StoreError::Diverged { detail, .. }) = compared else { panic!("{compared:?}") };
    let first = cluster.engine.lock().expect("no test panicked").first.entries;
    assert!(detail.contains(&format!("up to entry {first};")), "{detail}");
}

#[test]
fn host_follows_what_another_has_appended_again_while_it_waited() {
    let mut cluster = with_one_group();
    {
        let mut engine = cluster.engine.lock().expect("no test panicked");
        engine.settles = false;
        engine.back = mem::take(&mut engine.groups).into();
        engine.begin_epoch();
    }
    // the first call ends with the connection of before
    drop(cluster.hosts[1].follow());
    cluster.hosts[1].follow().expect("the shared log answers");
    let read = cluster.hosts[1].store().get::<VerdictDelivery>(&id(100));
    assert!(read.expect("readable").is_some(), "another host had acknowledged it");
}

#[test]
fn host_that_has_the_groups_of_a_log_that_changed_while_it_was_read_is_no_fork() {
    let mut cluster = with_one_group();
    let engine = Arc::clone(&cluster.engine);
    let first = {
        let mut engine = engine.lock().expect("no test panicked");
        engine.settles = false;
        engine.begin_epoch();
        mem::take(&mut engine.groups)
    };
    for at in [1, 2] {
        // the first call ends with the connection of before
        drop(cluster.hosts[at].follow());
        cluster.hosts[at].follow().expect("the shared log answers");
    }
    for session in [101, 102] {
        let outcomes = cluster.hosts[1].journal().commit(&[delivered(session, 40)]).expect("it answers");
        assert!(outcomes[0].is_ok());
    }
    // the third host looks at the end of the first groups, and reads the others
    {
        let mut engine = engine.lock().expect("no test panicked");
        engine.others = Some(mem::replace(&mut engine.groups, first));
        engine.mark = engine.tail();
    }
    let changed = cluster.hosts[2].follow();
    assert!(matches!(changed, Err(StoreError::Unavailable { .. })), "{changed:?}");
    cluster.hosts[2].follow().expect("it has the groups of the shared log");
    assert_eq!(cluster.hosts[2].store().log_head(), cluster.hosts[1].store().log_head());
}

#[test]
fn commit_is_staged_again_after_the_groups_of_other_hosts() {
    let mut cluster = with_one_group();
    let removal = JournalRecord {
        expect: vec![RowExpectation::new::<VerdictDelivery>(&id(100), None)],
        writes: vec![RowWrite::remove::<VerdictDelivery>(&id(100))],
        ..delivered(100, 40)
    };
    let outcomes = cluster.hosts[1].journal().commit(&[removal, delivered(101, 40)]).expect("it answers");
    assert!(matches!(outcomes[0], Err(RecordRejectedError::Stale(_))), "{outcomes:?}");
    let receipt = outcomes[1].as_ref().expect("no other host has this session");
    assert_eq!(receipt.last_seq, cluster.engine.lock().expect("no test panicked").tail());
}

#[test]
fn links_of_a_record_that_is_staged_again_have_its_new_numbers() {
    let mut cluster = with_one_group();
    cluster.hosts[1].follow().expect("it answers");
    let attempt = cluster.hosts[1].journal().commit(&[stopped(101)]).expect("it answers").remove(0);
    let attempt = attempt.expect("it is accepted").evidence;
    let staged_at = cluster.hosts[1].journal().counts().entries + 1;
    // another host appends first
    cluster.hosts[0].follow().expect("it answers");
    let other = cluster.hosts[0].journal().commit(&[delivered(102, 40)]).expect("it answers").remove(0);
    assert_eq!(other.expect("it is accepted").first_seq, staged_at);
    let record = delivered_after(101, attempt.clone());
    let receipt = cluster.hosts[1].journal().commit(&[record]).expect("it answers").remove(0);
    let receipt = receipt.expect("it is accepted");
    let crosscheck = receipt.first_seq;
    assert!(crosscheck > staged_at, "it was staged again");
    cluster.hosts[2].follow().expect("it answers");
    let log = whole_log(cluster.hosts[2].store());
    let line = |seq| log.iter().find(|line| line.seq == seq).expect("each host has it");
    assert_eq!(links_of(line(crosscheck + 1)), links_to(&log, &[attempt[0].seq(), crosscheck]));
    assert_eq!(links_of(line(crosscheck + 2)), links_to(&log, &[crosscheck + 1]));
    assert_eq!(
        receipt.evidence,
        [cluster.hosts[2].store().evidence(line(crosscheck)).expect("an entry")]
            .map(|entry| entry.expect("evidence"))
    );
}
