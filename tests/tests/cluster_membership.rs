//! Hosts of a cluster in PostgreSQL: who is a member, and who has a lease. Without PostgreSQL, these tests do nothing.

use crate::shared_log::{OWN, assert_refused, cluster, end, group, settings};
use jiff::{Span, Timestamp};
use oracled_tests::postgres::PostgresServer;
use postgres::{Client, NoTls};
use std::sync::Barrier;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};
use store_log::{SharedAppend, SharedLog, SharedTail};
use store_postgres::{
    ClusterHost, ClusterIdentity, ClusterMembership, ClusterMeters, Heartbeat, HostState, MeterLimit,
    PostgresLog, PostgresSettings,
};

/// Another process of a host.
fn other_process(server: &PostgresServer, host: usize) -> PostgresSettings {
    PostgresSettings { instance: [100; 16], ..settings(server, host) }
}

/// The membership of a host that has entered.
fn member(server: &PostgresServer, host: usize) -> ClusterMembership {
    let mut membership = ClusterMembership::new(settings(server, host));
    membership.enter(false).expect("it enters");
    membership
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        version: "1.2.3".to_owned(),
        applied: 5,
        root: [5; 32],
        removed: 4,
        clock: Timestamp::now(),
        config: "{}".to_owned(),
    }
}

fn leases(membership: &mut ClusterMembership, wanted: &[&str]) -> Vec<String> {
    membership.renew(&heartbeat(), wanted).expect("it answers").leases
}

/// Lets the server forget for 11 s what it has seen of a host.
fn let_time_pass(server: &PostgresServer, host: usize) {
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let later = "UPDATE oracled_host SET seen = seen - interval '11 s' WHERE host = $1";
    assert_eq!(client.execute(later, &[&format!("host-{host}")]).expect("the table exists"), 1);
}

#[test]
fn lease_is_held_by_one_host_until_it_is_released_or_silent() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    assert_eq!(leases(&mut one, &["work", "source/a", "work"]), ["source/a", "work"]);
    assert_eq!(leases(&mut other, &["work", "source/b"]), ["source/b"]);
    assert_eq!(leases(&mut one, &["work"]), ["work"]);
    let began = Instant::now();
    one.release().expect("it answers");
    assert_eq!(leases(&mut other, &["work", "source/a"]), ["source/a", "work"]);
    let renewed = Instant::now();
    let passed = loop {
        let asked = Instant::now();
        if leases(&mut one, &["work"]) == ["work"] {
            break (asked - began, renewed.elapsed());
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert!(passed.1 >= Duration::from_secs(9) && passed.0 < Duration::from_secs(20), "{passed:?}");
    assert_eq!(leases(&mut other, &["work"]), [""; 0]);
}

#[test]
fn lease_that_would_not_end_is_taken_by_another_host() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    assert_eq!(leases(&mut one, &["work"]), ["work"]);
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    for (until, taken) in [("clock_timestamp() + interval '50 s'", false), ("'infinity'", true)] {
        client.execute(&format!("UPDATE oracled_lease SET until = {until}"), &[]).expect("the table exists");
        assert_eq!(leases(&mut other, &["work"]) == ["work"], taken, "{until}");
    }
}

#[test]
fn old_groups_that_all_members_have_are_removed_but_none_at_which_one_ends() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    let mut log = PostgresLog::new(settings(&server, 1));
    log.connect(OWN).expect("it answers");
    for entries in 5..9 {
        log.append(end(entries), &group(entries, entries + 1)).expect("it answers");
    }
    let trim = |one: &mut ClusterMembership, retained| one.trim(retained).expect("it answers");
    let applied = |membership: &mut ClusterMembership, applied| {
        membership.renew(&Heartbeat { applied, ..heartbeat() }, &[]).expect("it answers");
    };
    assert_eq!(trim(&mut one, Duration::ZERO), 0, "no host has reported");
    // host 0 has never started
    one.remove("host-0").expect("it answers");
    applied(&mut one, 9);
    applied(&mut other, 7);
    assert_eq!(trim(&mut one, Duration::from_secs(60)), 0, "they are new");
    assert_eq!(trim(&mut one, Duration::ZERO), 2);
    let mut slowest = PostgresLog::new(settings(&server, 2));
    assert_eq!(slowest.connect(end(7)), Ok(SharedTail::Follows(9)));
    assert_eq!(slowest.read(7, usize::MAX), Ok(vec![group(7, 8), group(8, 9)]));
    applied(&mut other, 9);
    assert_eq!(trim(&mut one, Duration::ZERO), 2);
    assert_eq!((trim(&mut other, Duration::ZERO), log.tail()), (0, Ok(Some(end(9)))));
    // the server has lost what all members have
    applied(&mut one, 99);
    applied(&mut other, 99);
    assert_eq!((trim(&mut one, Duration::ZERO), log.tail()), (0, Ok(Some(end(9)))));
    assert_eq!(log.append(end(9), &group(9, 10)), Ok(SharedAppend::Appended));
    assert_refused(slowest.connect(end(7)), "join the cluster again");
    assert_eq!(slowest.connect(end(9)), Ok(SharedTail::Follows(10)));
}

#[test]
fn lease_is_given_to_one_of_many_hosts_at_once() {
    const HOSTS: usize = 6;
    let Some((_dir, server)) = cluster(OWN) else { return };
    let barrier = Barrier::new(HOSTS);
    for round in 0..10 {
        let names = [format!("a{round}"), format!("b{round}")];
        let held: Vec<Vec<String>> = thread::scope(|scope| {
            let renew = |host| {
                let (server, names, barrier) = (&server, &names, &barrier);
                scope.spawn(move || {
                    let mut membership = member(server, host);
                    leases(&mut membership, &[]);
                    barrier.wait();
                    // each asks in another order
                    let [a, b] = names.each_ref().map(String::as_str);
                    leases(&mut membership, &if host % 2 == 0 { [a, b] } else { [b, a] })
                })
            };
            let hosts: Vec<_> = (1..=HOSTS).map(renew).collect();
            hosts.into_iter().map(|host| host.join().expect("it does not panic")).collect()
        });
        let mut held = held.concat();
        held.sort();
        assert_eq!(held, names, "round {round}");
    }
}

#[test]
fn renewal_has_all_hosts_and_the_own_clock() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    leases(&mut one, &["work"]);
    let clock = Timestamp::now() + Span::new().seconds(60);
    let Ok(renewal) = other.renew(&Heartbeat { clock, applied: 9, ..heartbeat() }, &["work", "source/b"])
    else {
        panic!("it answers")
    };
    assert!(renewal.is_live && (50_000..=60_000).contains(&renewal.clock_offset_ms), "{renewal:?}");
    let [zero, one_seen, other_seen] = &renewal.hosts[..] else { panic!("{renewal:?}") };
    assert_eq!(
        (zero.host.as_str(), zero.schema, zero.applied, zero.state),
        ("host-0", 0, 0, HostState::Live)
    );
    let expected = ClusterHost {
        host: "host-1".to_owned(),
        version: "1.2.3".to_owned(),
        schema: 29,
        applied: 5,
        state: HostState::Live,
        leases: vec!["work".to_owned()],
        config: "{}".to_owned(),
        ..one_seen.clone()
    };
    assert_eq!(*one_seen, expected);
    assert!(one_seen.seen_ms_ago < 5000 && one_seen.clock_offset_ms.abs() < 5000, "{one_seen:?}");
    let expected = ClusterHost {
        host: "host-2".to_owned(),
        applied: 9,
        clock_offset_ms: renewal.clock_offset_ms,
        leases: vec!["source/b".to_owned()],
        ..other_seen.clone()
    };
    assert_eq!(*other_seen, expected);
    let_time_pass(&server, 1);
    let seen = other.renew(&heartbeat(), &[]).expect("it answers").hosts[1].seen_ms_ago;
    assert!((11_000..16_000).contains(&seen), "{seen}");
}

#[test]
fn removed_host_appends_nothing_until_it_joins_again() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    let mut log = PostgresLog::new(settings(&server, 2));
    assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(5)));
    assert_eq!(leases(&mut other, &["work"]), ["work"]);
    assert_eq!(one.remove("host-3"), Ok(false));
    assert!(one.remove("host-1").is_err(), "it is itself");
    assert_eq!(one.remove("host-2"), Ok(true));
    assert_refused(log.append(end(5), &group(5, 7)), "was removed from the cluster");
    assert_refused(log.append(end(5), &group(5, 7)), "is not connected");
    assert_refused(log.connect(OWN), "was removed from the cluster");
    let renewal = other.renew(&heartbeat(), &["work", "source/b"]).expect("it answers");
    assert!(!renewal.is_live && renewal.leases.is_empty(), "{renewal:?}");
    assert_eq!(renewal.hosts[2].state, HostState::Removed);
    assert_eq!(leases(&mut one, &["work"]), [""; 0], "the removed host may still work by its lease");
    assert_refused(other.leave(false), "was removed from the cluster");
    assert_refused(other.enter(false), "was removed from the cluster");
    other.enter(true).expect("it joins again");
    assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(5)));
    assert_eq!(log.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended));
    assert_eq!(log.append(end(5), &group(5, 8)), Ok(SharedAppend::Behind), "it is a member");
}

/// How many statements of hosts wait for others.
fn waiting(client: &mut Client) -> i64 {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
        WHERE application_name = 'oracled' AND wait_event_type = 'Lock'";
    client.query_one(waiting, &[]).expect("the view exists").get(0)
}

#[test]
fn removal_waits_for_the_append_that_has_begun() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut log) = (member(&server, 1), PostgresLog::new(settings(&server, 0)));
    log.connect(OWN).expect("it answers");
    // an uncommitted group at the same place holds the append back, after it has found its host live
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let mut observer = Client::connect(&server.url(), NoTls).expect("the server runs");
    let mut transaction = client.transaction().expect("the server runs");
    let row = "INSERT INTO oracled_group VALUES (5, 6, '', '', '', '', 29)";
    transaction.execute(row, &[]).expect("the table exists");
    let (removed, is_removed) = mpsc::channel();
    thread::scope(|scope| {
        let append = scope.spawn(|| log.append(end(5), &group(5, 7)));
        while waiting(&mut observer) < 1 {
            thread::yield_now();
        }
        scope.spawn(move || removed.send(one.remove("host-0")));
        while waiting(&mut observer) < 2 {
            assert_eq!(is_removed.try_recv(), Err(TryRecvError::Empty), "the append is not decided");
        }
        transaction.rollback().expect("the server runs");
        assert_eq!(append.join().expect("it does not panic"), Ok(SharedAppend::Appended));
        assert_eq!(is_removed.recv(), Ok(Ok(true)));
    });
    assert_refused(log.append(end(7), &group(7, 9)), "was removed from the cluster");
}

#[test]
fn name_is_taken_over_only_from_a_process_that_is_silent() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let mut first = member(&server, 1);
    let mut log = PostgresLog::new(settings(&server, 1));
    log.connect(OWN).expect("it answers");
    let mut second = ClusterMembership::new(other_process(&server, 1));
    for joins in [false, true] {
        assert_refused(second.enter(joins), "was seen within the last 10 s");
    }
    assert_refused(PostgresLog::new(other_process(&server, 1)).connect(OWN), "another process has taken");
    first.enter(false).expect("its own name");
    let_time_pass(&server, 1);
    leases(&mut first, &[]);
    assert_refused(second.enter(false), "was seen within the last 10 s");
    let_time_pass(&server, 1);
    second.enter(false).expect("the first is silent");
    assert_refused(log.append(end(5), &group(5, 7)), "another process has taken the name host-1");
    assert_refused(log.connect(OWN), "another process has taken the name host-1");
    assert!(!first.renew(&heartbeat(), &["work"]).expect("it answers").is_live);
    assert_refused(first.leave(false), "another process has taken");
    assert_refused(first.enter(false), "was seen within the last 10 s");
    let mut log = PostgresLog::new(other_process(&server, 1));
    assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(5)));
    assert_eq!(log.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended));
}

#[test]
fn host_leaves_and_the_last_one_only_alone() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let (mut one, mut other) = (member(&server, 1), member(&server, 2));
    let mut log = PostgresLog::new(settings(&server, 1));
    log.connect(OWN).expect("it answers");
    assert_eq!(leases(&mut one, &["work"]), ["work"]);
    let_time_pass(&server, 0);
    assert_eq!(one.leave(true), Ok(false));
    assert_eq!(log.append(end(5), &group(5, 7)), Ok(SharedAppend::Appended), "it has not left");
    assert_eq!(one.leave(false), Ok(true));
    assert_refused(log.append(end(7), &group(7, 9)), "has left the cluster");
    assert_refused(one.leave(false), "has left the cluster");
    assert_refused(one.enter(false), "has left the cluster");
    assert_eq!(leases(&mut other, &["work"]), ["work"], "its leases are released");
    assert_eq!(other.leave(true), Ok(false), "host 0 is silent, and could come back");
    assert_eq!(other.remove("host-0"), Ok(true));
    let hosts = other.renew(&heartbeat(), &[]).expect("it answers").hosts;
    let states: Vec<_> = hosts.iter().map(|host| host.state).collect();
    assert_eq!(states, [HostState::Removed, HostState::Left, HostState::Live]);
    assert_eq!(other.leave(true), Ok(true));
    assert_refused(other.enter(true), "it has no cluster");
}

#[test]
fn host_with_other_keys_is_refused() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let settings = settings(&server, 0);
    let identity = |log_key: &str, held_key: &str| ClusterIdentity {
        log_key: log_key.to_owned(),
        held_key: held_key.to_owned(),
    };
    for (identity, words) in [
        (identity("other", "held"), "its key of the log is another one; give this host the key `log.key`"),
        (
            identity("log", "other"),
            "its key of held verdicts is another one; give this host the key `held.key`",
        ),
    ] {
        let settings = PostgresSettings { identity, ..settings.clone() };
        assert_refused(PostgresLog::new(settings.clone()).connect(OWN), words);
        assert_refused(ClusterMembership::new(settings).enter(true), words);
    }
    let other = PostgresSettings { store_id: 8, ..settings.clone() };
    assert_refused(ClusterMembership::new(other).enter(true), "another cluster");
    assert_eq!(PostgresLog::new(settings).connect(OWN), Ok(SharedTail::Follows(5)));
}

#[test]
fn membership_needs_a_cluster_and_connects_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(server) = PostgresServer::start(dir.path()).expect("the server starts") else { return };
    let mut membership = ClusterMembership::new(settings(&server, 0));
    assert_refused(membership.enter(true), "it has no cluster");
    assert_refused(PostgresLog::new(settings(&server, 0)).connect(OWN), "it has no cluster");
    PostgresLog::new(settings(&server, 0)).create(OWN, false, None).expect("the tables are created");
    assert_eq!(leases(&mut membership, &["work"]), ["work"], "create has entered the host");
    assert_refused(PostgresLog::new(settings(&server, 1)).connect(OWN), "its cluster has no host host-1");
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'oracled'";
    client.query(end, &[]).expect("the server runs");
    assert!(membership.renew(&heartbeat(), &["work"]).is_err());
    assert_eq!(leases(&mut membership, &["work"]), ["work"]);
}

fn limit(name: &str, burst: u32) -> MeterLimit {
    MeterLimit { name: name.to_owned(), every: Duration::from_secs(10), burst }
}

/// Whether each limit permits the call now.
fn take(meters: &mut ClusterMeters, limits: &[MeterLimit]) -> Vec<bool> {
    let waits = meters.take(limits).expect("it answers");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(10)), "{waits:?}");
    waits.iter().map(Duration::is_zero).collect()
}

#[test]
fn meter_permits_a_burst_of_all_hosts_and_then_evenly_spread_calls() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let meters = |host| ClusterMeters::new(settings(&server, host));
    let model = [limit("model/a", 3)];
    let start = Barrier::new(4);
    let take_often = |host| {
        let mut meters = meters(host);
        start.wait();
        (0..5).filter(|_| take(&mut meters, &model) == [true]).count()
    };
    let taken: usize = thread::scope(|threads| {
        let hosts: Vec<_> = (1..5).map(|host| threads.spawn(move || take_often(host))).collect();
        hosts.into_iter().map(|host| host.join().expect("no host panics")).sum()
    });
    assert_eq!(taken, 3);
    let mut client = Client::connect(&server.url(), NoTls).expect("the server runs");
    let passed = "UPDATE oracled_meter SET due = due - interval '10 s'";
    client.execute(passed, &[]).expect("the table exists");
    let mut one = meters(1);
    assert_eq!([take(&mut one, &model), take(&mut one, &model)], [[true], [false]]);
    client.execute(passed, &[]).expect("the table exists");
    let waits = one.take(&[limit("model/a", 1)]).expect("it answers");
    assert!(*waits.first().expect("one wait") > Duration::from_secs(10), "a smaller burst: {waits:?}");
}

#[test]
fn call_that_one_meter_refuses_is_taken_of_none() {
    let Some((_dir, server)) = cluster(OWN) else { return };
    let mut meters = ClusterMeters::new(settings(&server, 1));
    let call = |application: &str| [limit(application, 1), limit("model/a", 1)];
    assert_eq!(take(&mut meters, &call("application/x")), [true, true]);
    assert_eq!(take(&mut meters, &call("application/y")), [true, false]);
    assert_eq!(take(&mut meters, &[limit("application/y", 1)]), [true], "it was not taken before");
    assert_eq!(take(&mut meters, &[limit("application/y", 1)]), [false]);
    drop(server);
    // the process of the session ends a moment after the server
    let mut is_refused = || {
        thread::sleep(Duration::from_millis(10));
        meters.take(&call("application/z")).is_err()
    };
    assert!((0..1000).any(|_| is_refused()));
}
