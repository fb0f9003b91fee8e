//! Hosts with one log in PostgreSQL. Without PostgreSQL, these tests do nothing.

use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionRecord;
use fastrand::Rng;
use jiff::Timestamp;
use oracled_store::{Journal, JournalRecord, LogQuery, RowExpectation, RowWrite, Store, StoreError};
use oracled_tests::ground::open_store;
use oracled_tests::postgres::PostgresServer;
use oracled_tests::{PATIENCE, copy_dir};
use postgres::{Client, NoTls};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store_log::{GroupsEnd, SharedAppend, SharedGroup, SharedLog, SharedLogError, SharedTail};
use store_postgres::{
    ClusterIdentity, ClusterKeys, ClusterMembership, PostgresLog, PostgresSettings, SharedLogDurability,
};
use tempfile::TempDir;

const HOSTS: usize = 3;
const SESSIONS: usize = 300;
/// For how long the hosts write.
const SPAN: Duration = Duration::from_secs(3);
const KEY: &str = "2026-11 AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n";

pub(crate) fn settings(server: &PostgresServer, host: usize) -> PostgresSettings {
    PostgresSettings {
        schema: 29,
        url: server.url(),
        host: format!("host-{host}"),
        instance: [u8::try_from(host).expect("a small number"); 16],
        store_id: 7,
        identity: ClusterIdentity { log_key: "log".to_owned(), held_key: "held".to_owned() },
        keys: ClusterKeys::parse(KEY).expect("a key"),
        durability: SharedLogDurability::Asynchronous,
        answer_within: Duration::from_secs(5),
    }
}

/// The log of a host, which enters the cluster.
fn log_of(server: &PostgresServer, host: usize) -> PostgresLog {
    ClusterMembership::new(settings(server, host)).enter(false).expect("it enters");
    PostgresLog::new(settings(server, host))
}

/// A server with a cluster of host 0 that continues after `own`; `None` without PostgreSQL.
pub(crate) fn cluster(own: GroupsEnd) -> Option<(TempDir, PostgresServer)> {
    let dir = tempfile::tempdir().expect("a folder");
    let server = PostgresServer::start(dir.path()).expect("the server starts")?;
    PostgresLog::new(settings(&server, 0)).create(own, false, None).expect("the tables are created");
    Some((dir, server))
}

fn head(store: &Store) -> GroupsEnd {
    let (entries, root) = store.log_head();
    GroupsEnd { entries, root }
}

fn registered(session: usize) -> JournalRecord {
    let id: SessionId = format!("cs_{session}").parse().expect("a valid id");
    let query = CustomerQuery::new(format!("Question {session}?"));
    let row = SessionRecord::new(id.clone(), ProductTier::Quick, query);
    JournalRecord {
        expect: vec![RowExpectation::new::<SessionRecord>(&id, None)],
        writes: vec![RowWrite::put::<SessionRecord>(&row)],
        ..JournalRecord::from(AuditEvent::new(Timestamp::now(), id, ServiceStopped {}))
    }
}

/// Registers random sessions until the end, and counts the answers. Returns the last entry of each that was acknowledged, by its number.
fn write(journal: &mut Journal, seed: u64, until: Instant, answers: &AtomicUsize) -> Vec<(u64, usize)> {
    let (mut random, mut acknowledged) = (Rng::with_seed(seed), Vec::new());
    while Instant::now() < until {
        let session = random.usize(..SESSIONS);
        if journal.recover().is_err() {
            continue;
        }
        match journal.commit(&[registered(session)]) {
            Ok(outcomes) => {
                answers.fetch_add(1, Ordering::Relaxed);
                acknowledged.extend(outcomes[0].as_ref().ok().map(|receipt| (receipt.last_seq, session)));
            }
            Err(error) => assert!(matches!(error, StoreError::Unavailable { .. }), "{error}"),
        }
    }
    acknowledged
}

/// Ends the sessions of all hosts again and again, each time after a further answer: a busy machine takes longer to connect than to end.
fn end_sessions(server: &PostgresServer, is_over: &AtomicBool, answers: &AtomicUsize) -> usize {
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let (mut ended, mut known) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let now = answers.load(Ordering::Relaxed);
        if now == known {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        known = now;
        let others =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'oracled'";
        ended += client.query(others, &[]).expect("the server runs").len();
        thread::sleep(Duration::from_millis(fastrand::u64(..60)));
    }
    ended
}

fn open_host(server: &PostgresServer, state: &Path, host: usize) -> (Journal, Store) {
    let (mut journal, store) = open_store(state);
    journal.share(Box::new(log_of(server, host)), format!("host-{host}"), 100);
    (journal, store)
}

#[test]
fn hosts_have_one_log_although_their_connections_end() {
    let dirs: Vec<_> = (0..HOSTS).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let (journal, store) = open_store(dirs[0].path());
    let own = head(&store);
    drop((journal, store));
    let Some((_dir, server)) = cluster(own) else { return };
    for dir in &dirs[1..] {
        copy_dir(dirs[0].path(), dir.path());
    }
    let mut hosts: Vec<_> =
        dirs.iter().enumerate().map(|(host, dir)| open_host(&server, dir.path(), host)).collect();
    let (is_over, answers, until) = (AtomicBool::new(false), AtomicUsize::new(0), Instant::now() + SPAN);
    let (acknowledged, ended) = thread::scope(|scope| {
        let answers = &answers;
        let ender = scope.spawn(|| end_sessions(&server, &is_over, answers));
        let writers: Vec<_> = (0..)
            .zip(&mut hosts)
            .map(|(seed, (journal, _))| scope.spawn(move || write(journal, seed, until, answers)))
            .collect();
        let acknowledged: Vec<_> =
            writers.into_iter().flat_map(|writer| writer.join().expect("it does not panic")).collect();
        is_over.store(true, Ordering::Relaxed);
        (acknowledged, ender.join().expect("it does not panic"))
    });
    assert!(ended > 0 && acknowledged.len() > HOSTS, "{ended} ended, {} acknowledged", acknowledged.len());
    for (journal, _) in &mut hosts {
        // the first call can use a connection that has ended
        journal
            .recover()
            .and_then(|()| journal.follow())
            .or_else(|_| journal.follow())
            .expect("the server runs");
    }
    let heads: Vec<_> = hosts.iter().map(|(_, store)| head(store)).collect();
    assert!(heads.iter().all(|other| *other == heads[0]), "{heads:?}");
    let log = hosts[0].1.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("it is readable");
    let mut registrations = BTreeMap::<String, Vec<u64>>::new();
    for line in &log {
        let entry: serde_json::Value = serde_json::from_str(&line.json).expect("JSON");
        registrations
            .entry(entry["session_id"].as_str().expect("an id").to_owned())
            .or_default()
            .push(line.seq);
    }
    assert!(registrations.values().all(|entries| entries.len() == 1), "{registrations:?}");
    for (seq, session) in acknowledged {
        assert_eq!(registrations[&format!("cs_{session}")], [seq]);
    }
    assert_no_text_is_in(&server, "Question ");
}

/// It is an error whose text has these words.
pub(crate) fn assert_refused<T: Debug>(outcome: Result<T, SharedLogError>, words: &str) {
    let error = outcome.expect_err(words);
    assert!(error.to_string().contains(words), "{error}");
}

/// No group has this text.
fn assert_no_text_is_in(server: &PostgresServer, text: &str) {
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let found = "SELECT count(*) FROM oracled_group WHERE position($1::bytea in bytes) > 0";
    let found: i64 = client.query_one(found, &[&text.as_bytes()]).expect("the table exists").get(0);
    assert_eq!(found, 0);
}

pub(crate) const OWN: GroupsEnd = GroupsEnd { entries: 5, root: [5; 32] };

/// The end of [`group`], or of the host at the start.
pub(crate) fn end(entries: u64) -> GroupsEnd {
    GroupsEnd { entries, root: [u8::try_from(entries).expect("a small number"); 32] }
}

pub(crate) fn group(before: u64, after: u64) -> SharedGroup {
    let root = [u8::try_from(after).expect("a small number"); 32];
    SharedGroup { before, after, root, rows: vec![b'r'; 1000] }
}

#[test]
fn group_is_appended_only_to_the_end() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (log_of(&server, 1), log_of(&server, 2));
    assert!(one.append(end(5), &group(5, 7)).is_err(), "it is not connected");
    for log in [&mut one, &mut other] {
        assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(5)));
    }
    assert_eq!(one.append(end(4), &group(4, 7)), Ok(SharedAppend::Behind));
    let other_root = GroupsEnd { root: [6; 32], ..OWN };
    assert_eq!(one.append(other_root, &group(5, 7)), Ok(SharedAppend::Behind), "it follows another group");
    assert_eq!(one.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended));
    assert_eq!(other.append(end(5), &group(5, 8)), Ok(SharedAppend::Behind));
    assert_eq!(other.append(end(7), &group(7, 9)), Ok(SharedAppend::Appended));
    assert_eq!((one.tail(), other.tail()), (Ok(Some(end(9))), Ok(Some(end(9)))));
    let groups = [group(5, 7), group(7, 9)];
    assert_eq!(one.read(5, usize::MAX), Ok(groups.to_vec()));
    assert_eq!(one.read(5, 0), Ok(groups[..1].to_vec()));
    assert_eq!(one.read(7, usize::MAX), Ok(groups[1..].to_vec()));
    assert_eq!(one.read(9, usize::MAX), Ok(Vec::new()));
}

#[test]
fn ends_are_compared_with_each_connection() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let mut log = log_of(&server, 1);
    log.connect(OWN).expect("it answers");
    log.append(end(5), &group(5, 7)).expect("it answers");
    let other = |entries, root: u8| GroupsEnd { entries, root: [root; 32] };
    for (own, expected) in [
        (OWN, SharedTail::Follows(7)),
        (end(7), SharedTail::Follows(7)),
        (other(7, 6), SharedTail::Forked),
        (other(5, 6), SharedTail::Forked),
        (end(6), SharedTail::Forked),
        (end(8), SharedTail::Lacks(7)),
    ] {
        assert_eq!(log.connect(own), Ok(expected), "{own:?}");
    }
    assert!(log.connect(end(4)).is_err(), "the log begins later");
    assert!(log.append(end(7), &group(7, 9)).is_err(), "it is not connected any longer");
}

/// Runs statements on the server.
fn run(server: &PostgresServer, statements: &str) {
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    client.batch_execute(statements).expect("the tables exist");
}

/// Lets a host begin to settle before the other one.
fn begin_to_settle(log: &mut PostgresLog, own: GroupsEnd) {
    assert_refused(log.settle(), "has not compared its log");
    log.connect(own).expect("it answers");
}

#[test]
fn lost_groups_are_found_by_all_hosts_and_raise_the_epoch() {
    for durability in [SharedLogDurability::Asynchronous, SharedLogDurability::Storage] {
        let Some((_dir, server)) = cluster(OWN) else { return };
        run(&server, "UPDATE oracled_host SET state = 'left'");
        let answer_within = Duration::from_millis(800);
        let [mut one, mut other] = [1, 2].map(|host| {
            drop(log_of(&server, host));
            PostgresLog::new(PostgresSettings { durability, answer_within, ..settings(&server, host) })
        });
        assert_eq!(
            (one.connect(OWN), other.connect(OWN)),
            (Ok(SharedTail::Follows(5)), Ok(SharedTail::Follows(5)))
        );
        drop(one.settle());
        other.settle().expect("both have compared");
        one.connect(OWN).and_then(|_| one.settle()).expect("both have compared");
        assert_eq!(one.append(OWN, &group(5, 7)), Ok(SharedAppend::Appended));
        assert_eq!(other.tail(), Ok(Some(end(7))));
        run(
            &server,
            "CREATE TABLE cluster_before AS TABLE oracled_cluster; DELETE FROM oracled_group WHERE after = 7",
        );
        assert_eq!((one.tail(), other.tail()), (Ok(None), Ok(None)), "the other one never had it");
        assert_eq!(other.append(OWN, &group(5, 8)), Ok(SharedAppend::Behind));
        assert_eq!(other.connect(OWN), Ok(SharedTail::Follows(5)));
        begin_to_settle(&mut other, OWN);
        assert_eq!(one.append(end(7), &group(7, 8)), Ok(SharedAppend::Behind));
        assert_eq!(one.connect(end(7)), Ok(SharedTail::Lacks(5)));
        assert_eq!(one.append(OWN, &group(5, 7)), Ok(SharedAppend::Appended));
        one.settle().expect("the other one has compared");
        assert_eq!((one.tail(), other.tail()), (Ok(Some(end(7))), Ok(Some(end(7)))));
        // an older copy of all tables, in which both have settled, and no connection ends
        run(
            &server,
            "DELETE FROM oracled_group WHERE after = 7;
            UPDATE oracled_cluster SET epoch = before.epoch, mark = 5 FROM cluster_before AS before;
            UPDATE oracled_host SET settled = epoch FROM oracled_cluster",
        );
        assert_eq!((one.tail(), other.tail()), (Ok(None), Ok(None)));
        assert_eq!(other.connect(OWN), Ok(SharedTail::Follows(5)));
        assert_eq!(one.connect(end(7)), Ok(SharedTail::Lacks(5)));
        assert_eq!(other.tail(), Ok(None), "it does not write before the other one");
        assert_eq!(other.append(OWN, &group(5, 8)), Ok(SharedAppend::Behind));
        run(&server, "DELETE FROM oracled_group");
        assert_refused(one.tail(), "cluster init --reset");
        assert_refused(one.connect(end(7)), "cluster init --reset");
    }
}

#[test]
fn group_of_another_history_stops_each_host() {
    let dirs: Vec<_> = (0..4).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let (journal, store) = open_store(dirs[0].path());
    let own = head(&store);
    drop((journal, store));
    for dir in &dirs[1..] {
        copy_dir(dirs[0].path(), dir.path());
    }
    let (Some((_dir, server)), Some((_other_dir, other))) = (cluster(own), cluster(own)) else { return };
    let [mut writer, mut reader] = [1, 2].map(|host| open_host(&server, dirs[host].path(), host));
    for server in [&server, &other] {
        run(server, "UPDATE oracled_host SET state = 'left' WHERE host = 'host-0'");
    }
    // each one waits until the other has compared
    drop(writer.0.follow());
    reader.0.follow().or_else(|_| reader.0.follow()).expect("both have compared");
    writer.0.follow().or_else(|_| writer.0.follow()).expect("both have compared");
    assert!(writer.0.commit(&[registered(1)]).expect("it answers")[0].is_ok());
    reader.0.follow().expect("it answers");
    let mut stranger = open_host(&other, dirs[3].path(), 3);
    assert!(stranger.0.commit(&[registered(2)]).expect("it answers")[0].is_ok());
    let group = Client::connect(&other.url(), NoTls).and_then(|mut client| {
        client.query_one("SELECT root, bytes FROM oracled_group ORDER BY after DESC LIMIT 1", &[])
    });
    let group = group.expect("it has a group");
    let replaced =
        "UPDATE oracled_group SET root = $1, bytes = $2 WHERE after = (SELECT max(after) FROM oracled_group)";
    let (root, bytes): (Vec<u8>, Vec<u8>) = (group.get(0), group.get(1));
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    assert_eq!(client.execute(replaced, &[&root, &bytes]).expect("the table exists"), 1);
    for (journal, name) in [(&mut writer.0, "host-1"), (&mut reader.0, "host-2")] {
        let stopped = journal.follow();
        let Err(StoreError::Diverged { detail, .. }) = stopped else { panic!("{stopped:?}") };
        let parts =
            [format!("up to entry {};", own.entries), format!("({name})"), "by host host-1".to_owned()];
        assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
        assert!(matches!(journal.recover(), Err(StoreError::Diverged { .. })), "it stops for good");
    }
}

#[test]
fn statements_without_an_answer_use_few_connections() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    drop(log_of(&server, 1));
    let answer_within = Duration::from_millis(100);
    let mut log = PostgresLog::new(PostgresSettings { answer_within, ..settings(&server, 1) });
    // an uncommitted group at the same place holds each append back
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let mut observer = Client::connect(&server.url(), NoTls).expect("the server runs");
    let mut transaction = client.transaction().expect("the server runs");
    let row = "INSERT INTO oracled_group VALUES (5, 6, '', '', '', '', 29)";
    transaction.execute(row, &[]).expect("the table exists");
    for _ in 0..12 {
        if log.connect(OWN).is_ok() {
            assert!(log.append(OWN, &group(5, 7)).is_err(), "it waits");
        }
    }
    let used = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oracled'";
    let used: i64 = observer.query_one(used, &[]).expect("the server runs").get(0);
    assert!((1..=4).contains(&used), "{used} connections");
    transaction.rollback().expect("the server runs");
    let began = Instant::now();
    while log.connect(OWN) != Ok(SharedTail::Follows(7)) {
        assert!(began.elapsed() < PATIENCE, "an append that waited is made");
    }
}

#[test]
fn log_of_another_cluster_or_without_its_key_is_refused() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let mut log = log_of(&server, 1);
    log.connect(OWN).expect("it answers");
    log.append(end(5), &group(5, 7)).expect("it answers");
    drop(log_of(&server, 2));
    let mut other = PostgresLog::new(PostgresSettings { store_id: 8, ..settings(&server, 2) });
    assert_refused(other.connect(OWN), "another cluster");
    let keys = ClusterKeys::parse(&KEY.replace("2026-11", "2026-12")).expect("a key");
    let mut other = PostgresLog::new(PostgresSettings { keys, ..settings(&server, 2) });
    assert_eq!(other.connect(OWN), Ok(SharedTail::Follows(7)));
    assert!(other.read(5, usize::MAX).is_err());
    let standby = SharedLogDurability::SynchronousStandby;
    let mut other = PostgresLog::new(PostgresSettings { durability: standby, ..settings(&server, 2) });
    assert_refused(other.connect(OWN), "no synchronous standby");
    // a cluster that is created again, since the answer was lost, stays as it is
    assert_eq!(PostgresLog::new(settings(&server, 0)).create(OWN, false, None), Ok(()));
    for store_id in [7, 8] {
        let mut other = PostgresLog::new(PostgresSettings { store_id, ..settings(&server, 3) });
        assert_refused(
            other.create(GroupsEnd { entries: 9, root: [9; 32] }, false, None),
            "a cluster already",
        );
    }
    assert_eq!(log_of(&server, 2).connect(OWN), Ok(SharedTail::Follows(7)));
}

#[test]
fn group_under_another_key_of_the_same_id_is_not_appended() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut log, mut other) = (log_of(&server, 1), log_of(&server, 2));
    let own = settings(&server, 2).keys;
    for log in [&mut log, &mut other] {
        assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(5)));
    }
    assert_eq!(log.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended));
    let text = KEY.replace("AQEB", "AgEB");
    let changed = PostgresSettings { keys: own.clone(), ..settings(&server, 2) };
    let mut other = PostgresLog::new(changed);
    other.connect(end(7)).expect("it answers");
    assert_eq!(other.append(end(7), &group(7, 8)), Ok(SharedAppend::Appended));
    // by a reload, on the present connection
    own.exchange_with(&ClusterKeys::parse(&text).expect("a key"));
    assert_refused(other.append(end(8), &group(8, 9)), "not that of the host host-1");
    assert_eq!(log.tail(), Ok(Some(end(8))));
    own.exchange_with(&ClusterKeys::parse(KEY).expect("a key"));
    other.connect(end(8)).expect("it answers");
    assert_eq!(other.append(end(8), &group(8, 9)), Ok(SharedAppend::Appended));
}

#[test]
fn copy_of_a_removed_group_is_not_opened_after_its_key_is_destroyed() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let keys = ClusterKeys::parse(KEY).expect("a key");
    drop(log_of(&server, 1));
    let mut log = PostgresLog::new(PostgresSettings { keys: keys.clone(), ..settings(&server, 1) });
    log.connect(OWN).expect("it answers");
    assert_eq!(log.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended));
    let new = KEY.replace("2026-11 AQEB", "2026-12 AgEB");
    keys.exchange_with(&ClusterKeys::parse(&(new.clone() + KEY)).expect("keys"));
    assert_eq!(log.append(end(7), &group(7, 9)), Ok(SharedAppend::Appended));
    assert_eq!(log.read(5, usize::MAX), Ok(vec![group(5, 7), group(7, 9)]));
    keys.exchange_with(&ClusterKeys::parse(&new).expect("a key"));
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    // as a replica or an archive keeps it
    client.batch_execute("CREATE TABLE kept AS SELECT * FROM oracled_group").expect("the table exists");
    let old = "DELETE FROM oracled_group WHERE key_id = '2026-11'";
    assert_eq!(client.execute(old, &[]).expect("the table exists"), 1);
    assert_eq!(log.read(7, usize::MAX), Ok(vec![group(7, 9)]));
    let kept = "INSERT INTO oracled_group SELECT * FROM kept WHERE key_id = '2026-11'";
    assert_eq!(client.execute(kept, &[]).expect("the table exists"), 1);
    assert_refused(log.read(5, usize::MAX), "lacks the key 2026-11");
}

#[test]
fn server_that_is_gone_is_an_error_at_once() {
    let Some((dir, server)) = cluster(OWN) else { return };
    let mut log = log_of(&server, 1);
    log.connect(OWN).expect("it answers");
    drop(server);
    assert!(log.append(end(5), &group(5, 7)).is_err());
    assert!(log.connect(OWN).is_err());
    drop(dir);
}
