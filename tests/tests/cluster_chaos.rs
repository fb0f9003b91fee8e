//! Three hosts with one log under load, while hosts are killed, stopped and cut off, with clocks that differ and full disks, and the server
//! ends, is promoted, or is replaced by an older copy.
//!
//! Each session is written once. So its history is linearizable if all answers have one verdict, which was submitted before the first of
//! them, and if no read after an answer with it reports that there is none.

use crate::cluster::{coherent_model, start_cluster, stop_and_check};
use crate::cluster_calls::{call_faults, calls_by_session, further_calls};
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::cluster::TestCluster;
use oracled_tests::disk;
use oracled_tests::generation::world_with_model;
use oracled_tests::load::post_action;
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::partition::{Cut, CuttableNetwork};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, PATIENCE, at, document, eventually, eventually_within, get, lines,
    submission,
};
use postgres::{Client, NoTls};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const HOSTS: usize = 3;
const CLIENTS: usize = 6;
/// The sessions that are in use at a time. Each is replaced by a new one after some calls.
const SESSIONS: usize = 8;
const CALLS_PER_SESSION: usize = 12;
/// The longest wait of a client, which asks another host then.
const ANSWER_WITHIN: Duration = Duration::from_secs(6);
/// Runs that are longer have some faults and answers of the model that take long.
const LONG: Duration = Duration::from_secs(180);

/// A call about a session, and what its answer says. Times are since the start.
#[derive(Debug)]
struct Call {
    began: Duration,
    ended: Duration,
    host: usize,
    answer: Answer,
}

#[derive(Debug, PartialEq)]
enum Answer {
    /// The session has this verdict.
    Verdict(String),
    /// It has none.
    Absent,
    /// Unknown, or refused: it may have been written.
    Unknown,
}

/// The calls about each session, and the verdicts that were submitted for it with the time at which that began.
#[derive(Debug, Default)]
struct History {
    calls: BTreeMap<String, Vec<Call>>,
    submitted: BTreeMap<String, BTreeMap<String, Duration>>,
}

impl History {
    /// The faults of the histories of all sessions.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (session, calls) in &self.calls {
            let found = calls.iter().filter_map(|call| match &call.answer {
                Answer::Verdict(text) => Some((text, call)),
                _ => None,
            });
            let found: Vec<_> = found.collect();
            let texts: BTreeSet<_> = found.iter().map(|(text, _)| *text).collect();
            if texts.len() > 1 {
                faults.push(format!("{session} has several verdicts: {texts:?}"));
            }
            let Some(first_end) = found.iter().map(|(_, call)| call.ended).min() else { continue };
            for text in texts {
                let submitted = self.submitted.get(session).and_then(|texts| texts.get(text));
                if submitted.is_none_or(|began| *began > first_end) {
                    faults.push(format!("{session} has a verdict that nobody had submitted: {text}"));
                }
            }
            let stale = calls.iter().filter(|call| call.answer == Answer::Absent && call.began > first_end);
            faults.extend(stale.map(|call| {
                format!(
                    "{session} was there at {first_end:?}, and host {} said otherwise later: {call:?}",
                    call.host
                )
            }));
        }
        faults
    }
}

/// The state that the clients share.
#[derive(Debug)]
struct Load {
    /// The sockets of the hosts, and then their control sockets.
    sockets: Vec<PathBuf>,
    began: Instant,
    history: Mutex<History>,
    is_over: AtomicBool,
    calls: AtomicUsize,
    acknowledged: AtomicUsize,
}

impl Load {
    /// Load that begins now.
    fn on(worlds: &[DaemonWorld]) -> Self {
        Self {
            sockets: [DaemonWorld::socket, DaemonWorld::control_socket]
                .iter()
                .flat_map(|socket| worlds.iter().map(socket))
                .collect(),
            began: Instant::now(),
            history: Mutex::default(),
            is_over: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
        }
    }

    /// Calls a random host about random sessions until the load is over.
    async fn run(self: Arc<Self>, client: usize, mut rng: fastrand::Rng) {
        let mut connections: Vec<Option<DaemonClient>> = (0..HOSTS).map(|_| None).collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            let session =
                format!("s{}", call / (SESSIONS * CALLS_PER_SESSION) * SESSIONS + rng.usize(..SESSIONS));
            let host = rng.usize(..HOSTS);
            let connection = connections.get_mut(host).expect("a host");
            let began = self.began.elapsed();
            let text = format!("Plan {call} of client {client}.");
            let is_write = rng.u8(..3) == 0;
            let answered = if is_write {
                self.note_submitted(&session, &text, began);
                let body = submission(&format!(r#"{{"verdict":"GREEN","summary":"{text}"}}"#));
                self.call(host, connection, Method::POST, &format!("/v1/verdicts/{session}"), Some(body))
                    .await
            } else {
                self.call(host, connection, Method::GET, &format!("/cache/{session}"), None).await
            };
            let answer = match answered {
                None => Answer::Unknown,
                Some((200 | 201, document)) => {
                    self.acknowledged.fetch_add(usize::from(is_write), Ordering::Relaxed);
                    Answer::Verdict(document["verdict"]["summary"].as_str().expect("a summary").to_owned())
                }
                Some((404, _)) => Answer::Absent,
                Some((503 | 504, _)) => Answer::Unknown,
                Some((status, document)) => {
                    assert_eq!(status, 200, "{document}");
                    Answer::Unknown
                }
            };
            let ended = self.began.elapsed();
            self.note_call(session, Call { began, ended, host, answer });
        }
    }

    fn note_submitted(&self, session: &str, text: &str, began: Duration) {
        let mut history = self.history.lock().expect("no panic");
        history.submitted.entry(session.to_owned()).or_default().insert(text.to_owned(), began);
    }

    fn note_call(&self, session: String, call: Call) {
        let mut history = self.history.lock().expect("no panic");
        history.calls.entry(session).or_default().push(call);
    }

    /// Calls a host, also at its control socket. Without an answer, the connection is given up.
    async fn call(
        &self,
        socket: usize,
        connection: &mut Option<DaemonClient>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Option<(u16, Value)> {
        let called = async {
            let client = match connection {
                Some(client) => client,
                None => {
                    sleep(Duration::from_millis(10)).await;
                    connection.insert(DaemonClient::connect(self.sockets.get(socket)?).await.ok()?)
                }
            };
            client.call(method, path, body.map(|body| body.to_string().into())).await.ok()
        };
        let answer = timeout(ANSWER_WITHIN, called).await.ok().flatten();
        if answer.is_none() {
            *connection = None;
        }
        answer.map(|answer| (answer.status.as_u16(), document(&answer)))
    }
}

/// The hosts, each with its process while it runs.
struct Hosts<'w> {
    worlds: &'w [DaemonWorld],
    processes: Vec<Option<DaemonProcess<'w>>>,
    /// The way of each host to the server.
    networks: Vec<CuttableNetwork>,
    can_be_filled: bool,
    /// Whether one fault in ten takes so long that the leases of the host expire.
    has_long_faults: bool,
    /// How often each host was started again, by version: the program can be replaced meanwhile.
    starts: BTreeMap<String, usize>,
}

/// Lets a host start with a clock that differs by this time, if `libfaketime` is installed.
fn set_clock(world: &mut DaemonWorld, difference: &str) {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let libraries = libraries.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let Some(library) = libraries.into_iter().find(|library| library.exists()) else { return };
    for (name, value) in [
        ("LD_PRELOAD", library.to_str().expect("valid UTF-8")),
        ("FAKETIME", difference),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ] {
        world.variables.push((name.to_owned(), value.to_owned()));
    }
}

/// Ends the connections of all hosts, 20 times within a second.
fn end_connections(url: &str) {
    let mut client = Client::connect(url, NoTls).expect("the server runs");
    for _ in 0..20 {
        let others =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'oracled'";
        client.query(others, &[]).expect("the server runs");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The service log without requests.
fn notes_of(world: &DaemonWorld) -> String {
    let log = world.service_log();
    let notes: Vec<_> = log.lines().filter(|line| !line.contains("oracled::access")).collect();
    notes.join("\n")
}

/// Starts a host. Like systemd, starts it again if it ends since the server does not answer for long.
async fn start_host(world: &DaemonWorld) -> DaemonProcess<'_> {
    let began = Instant::now();
    loop {
        let mut process = world.spawn();
        while process.exit_status().is_none() {
            if world.is_answering().await {
                return process;
            }
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(process.exit_status().and_then(|ended| ended.code()), Some(1), "{}", notes_of(world));
        assert!(began.elapsed() < 5 * PATIENCE, "{}", notes_of(world));
    }
}

/// A time of at most `most_ms`.
fn some_time(most_ms: u64, rng: &mut fastrand::Rng) -> Duration {
    Duration::from_millis(rng.u64(50..most_ms))
}

impl Hosts<'_> {
    fn process(&self, host: usize) -> &DaemonProcess<'_> {
        self.processes[host].as_ref().expect("it runs")
    }

    /// Starts a host that has ended.
    async fn start(&mut self, host: usize) {
        let process = start_host(&self.worlds[host]).await;
        let live = get(&mut process.routes().await, "/healthz").await;
        let version = document(&live)["version"].as_str().expect("a version").to_owned();
        *self.starts.entry(format!("h{host} as {version}")).or_default() += 1;
        self.processes[host] = Some(process);
    }

    /// How long a host is away: at most `most_ms`, or long.
    fn time_away(&self, most_ms: u64, rng: &mut fastrand::Rng) -> Duration {
        if self.has_long_faults && rng.u8(..10) == 0 {
            return Duration::from_secs(rng.u64(15..=45));
        }
        some_time(most_ms, rng)
    }

    /// Does one fault of a host, and ends it.
    async fn disturb(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        let host = rng.usize(..HOSTS);
        match rng.u8(..10) {
            0..3 => {
                self.processes[host].take().expect("it runs").kill();
                sleep(self.time_away(1500, rng)).await;
                self.start(host).await;
                "a host was killed"
            }
            3..5 => {
                self.process(host).signal("STOP");
                sleep(self.time_away(4000, rng)).await;
                self.process(host).signal("CONT");
                "a host was stopped for a time"
            }
            5 => {
                let stopped = self.processes[host].take().expect("it runs").stop();
                assert!(stopped.success(), "{stopped:?}: {}", notes_of(&self.worlds[host]));
                self.start(host).await;
                "a host was restarted"
            }
            6 if self.can_be_filled => {
                let state = self.worlds[host].state();
                disk::fill(self.process(host), &state);
                sleep(some_time(3000, rng)).await;
                disk::empty(self.process(host));
                "the disk of a host was full"
            }
            _ => {
                let cut = [(true, true), (true, false), (false, true)][rng.usize(..3)];
                self.networks[host].cut(Cut { to_server: cut.0, to_client: cut.1 });
                sleep(self.time_away(6000, rng)).await;
                self.networks[host].cut(Cut::default());
                if cut == (true, true) { "a host was cut off" } else { "a host was cut off in one direction" }
            }
        }
    }

    /// Does faults of hosts and of the server. Returns how often it has done each.
    async fn disturb_until(
        &mut self,
        end: Instant,
        cluster: &mut TestCluster,
        rng: &mut fastrand::Rng,
    ) -> BTreeMap<&'static str, usize> {
        let mut faults: BTreeMap<_, usize> = BTreeMap::new();
        while Instant::now() < end {
            let of_server = rng.u8(..3) == 0;
            let fault =
                if of_server { self.disturb_server(cluster, rng).await } else { self.disturb(rng).await };
            *faults.entry(fault).or_default() += 1;
            sleep(Duration::from_millis(rng.u64(0..1000))).await;
        }
        faults
    }

    /// Does one fault of the server, and ends it.
    async fn disturb_server(&self, cluster: &mut TestCluster, rng: &mut fastrand::Rng) -> &'static str {
        let has_standby = cluster.has_standby();
        let fault = match rng.u8(..5) {
            0 | 1 => {
                let url = cluster.server.as_ref().expect("it runs").url();
                let ended = tokio::task::spawn_blocking(move || end_connections(&url)).await;
                ended.expect("the server runs");
                "connections were ended"
            }
            2 if has_standby => {
                cluster.fail_over();
                cluster.add_standby();
                "the primary was killed, and its standby promoted"
            }
            3 if has_standby => {
                cluster.stop_standby();
                sleep(some_time(3000, rng)).await;
                cluster.add_standby();
                "the standby was gone"
            }
            2 => {
                cluster.stop_server();
                sleep(some_time(2000, rng)).await;
                cluster.start_server();
                "the server was killed"
            }
            _ => {
                cluster.server.as_ref().expect("it runs").save().expect("it is copied");
                sleep(some_time(1500, rng)).await;
                if has_standby {
                    cluster.stop_standby();
                }
                cluster.restore_server();
                if has_standby {
                    cluster.add_standby();
                }
                "the server was replaced by an older copy"
            }
        };
        let socket = cluster.server.as_ref().expect("it runs").socket();
        self.networks.iter().for_each(|network| network.lead_to(&socket));
        fault
    }
}

/// The hosts, whose clocks differ, and the way of each to the server. Their disks can be filled, or not.
fn prepare_worlds(
    cluster: &TestCluster,
    model: &ModelServer,
    mailbox: &ModelServer,
) -> (Vec<DaemonWorld>, Vec<CuttableNetwork>, bool) {
    let mail = format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"\n", mailbox.url());
    let server = cluster.server.as_ref().expect("it runs").socket();
    let networks: Vec<_> = (0..HOSTS).map(|_| CuttableNetwork::to(&server)).collect();
    let world = |(host, network)| {
        let config = cluster.config_behind(&format!("h{host}"), network);
        world_with_model(&model.url(), &format!("deadline_ms = 8000\n{config}deadline_ms = 2000\n{mail}"))
    };
    let mut worlds: Vec<_> = networks.iter().enumerate().map(world).collect();
    let can_be_filled = worlds.iter_mut().all(disk::can_be_filled);
    set_clock(&mut worlds[1], "-2.4");
    set_clock(&mut worlds[2], "+2.4");
    (worlds, networks, can_be_filled)
}

/// The shared memory that a killed host with another clock leaves. Dropping this removes that of processes that have ended.
struct ClockMemory;

impl Drop for ClockMemory {
    fn drop(&mut self) {
        for file in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_str().unwrap_or_default();
            let process =
                name.strip_prefix("faketime_shm_").or_else(|| name.strip_prefix("sem.faketime_sem_"));
            if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
                drop(fs::remove_file(file.path()));
            }
        }
    }
}

async fn disturb_under_load(time: Duration, has_standby: bool) {
    let _memory = ClockMemory;
    let seed = fastrand::u64(..);
    println!("{} s with seed {seed} and {} standby", time.as_secs(), if has_standby { "a" } else { "no" });
    let mut rng = fastrand::Rng::with_seed(seed);
    let Some(mut cluster) = start_cluster() else { return };
    if has_standby {
        cluster = TestCluster::start_with_standby().expect("PostgreSQL is there");
    }
    let model = coherent_model(Duration::ZERO).await;
    model.set_delay(if time > LONG { delay_answers } else { delay_regenerations });
    let mailbox = ModelServer::start().await;
    mailbox.set_default(ScriptedReply::bytes(200, "{}"));
    let (worlds, networks, can_be_filled) = prepare_worlds(&cluster, &model, &mailbox);
    let mut processes = vec![Some(cluster.init(&worlds[0]).await)];
    for world in &worlds[1..] {
        processes.push(Some(cluster.join(world, &worlds[0]).await));
    }
    let mut hosts = Hosts {
        worlds: &worlds,
        processes,
        networks,
        can_be_filled,
        has_long_faults: time > LONG,
        starts: BTreeMap::new(),
    };
    let load = Arc::new(Load::on(&worlds));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).run(client, rng.fork()));
    }
    let orders = tokio::spawn(place_orders(Arc::clone(&load), rng.fork()));
    let losses: JoinSet<_> =
        (0..4).map(|loser| lose_verdicts(loser, Arc::clone(&load), rng.fork())).collect();
    let faults = hosts.disturb_until(load.began + time, &mut cluster, &mut rng).await;
    load.is_over.store(true, Ordering::Relaxed);
    let ended = timeout(PATIENCE, clients.join_all()).await;
    assert!(ended.is_ok(), "the clients end");
    let ordered = orders.await.expect("no answer is wrong");
    let lost = losses.join_all().await.concat();
    for (world, process) in hosts.worlds.iter().zip(&mut hosts.processes) {
        let ended = process.as_mut().expect("it runs").exit_status();
        assert!(ended.is_none(), "{ended:?}: {}", notes_of(world));
    }
    check(&load, &hosts, &ordered).await;
    check_lost(&hosts, &lost).await;
    let (calls, acknowledged) =
        (load.calls.load(Ordering::Relaxed), load.acknowledged.load(Ordering::Relaxed));
    println!(
        "{faults:?}; {:?}; {calls} calls, {acknowledged} writes acknowledged, {} verdicts lost, {} calls of the model",
        hosts.starts,
        lost.len(),
        model.request_count()
    );
    assert!(acknowledged > 50, "{acknowledged}");
    // a short run can have few regenerations on a slow machine
    assert!(time <= LONG || lost.len() > 5, "{}", lost.len());
    stop_and_check(hosts.processes.into_iter().flatten(), &worlds).await;
    let log = worlds.iter().map(DaemonWorld::mirror).max_by_key(String::len).expect("a host");
    let log = lines(log.as_bytes());
    check_calls(&log, &model, &ordered);
    check_mails(&log, &mailbox, &ordered);
}

/// Orders verdicts at random hosts until the load is over. Returns the sessions whose order was accepted.
async fn place_orders(load: Arc<Load>, mut rng: fastrand::Rng) -> Vec<String> {
    let mut ordered = Vec::new();
    while !load.is_over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(200)).await;
        let session = format!("o{}", load.calls.load(Ordering::Relaxed));
        let query = format!("Query of {session}.");
        let body = json!({"tier": "quick", "query": query, "customer_email": "a@example.org"});
        let path = format!("/v1/verdicts/{session}");
        let answer = load.call(rng.usize(..HOSTS), &mut None, Method::POST, &path, Some(body)).await;
        if answer.is_some_and(|(status, _)| matches!(status, 200..=202)) {
            ordered.push(session);
        }
    }
    ordered
}

/// Purges verdicts at random hosts, some of them again, and reads them at several hosts at once, until the load is over. Returns their
/// sessions.
async fn lose_verdicts(loser: usize, load: Arc<Load>, mut rng: fastrand::Rng) -> Vec<String> {
    let mut lost = Vec::new();
    while !load.is_over.load(Ordering::Relaxed) {
        let session = match rng.choice(&lost) {
            Some(earlier) if rng.u8(..3) == 0 => String::clone(earlier),
            _ => format!("r{loser}-{}", lost.len()),
        };
        let path = format!("/v1/verdicts/{session}");
        if !lost.contains(&session) {
            let body = json!({"tier": "quick", "query": format!("Query of {session}."), "raw": GOOD});
            let stored = load.call(rng.usize(..HOSTS), &mut None, Method::POST, &path, Some(body)).await;
            if stored.is_none_or(|(status, _)| !matches!(status, 200 | 201)) {
                continue;
            }
            lost.push(session.clone());
        }
        load.call(HOSTS + rng.usize(..HOSTS), &mut None, Method::DELETE, &path, None).await;
        let mut reads = JoinSet::new();
        for host in (0..4).map(|_| rng.usize(..HOSTS)) {
            let (load, path) = (Arc::clone(&load), path.clone());
            reads.spawn(async move { load.call(host, &mut None, Method::GET, &path, None).await });
        }
        for (status, document) in reads.join_all().await.into_iter().flatten() {
            assert!(matches!(status, 200 | 429 | 502..=504), "{session}: {status} {document}");
        }
    }
    lost
}

/// Delays half of the regenerations.
fn delay_regenerations(request: &ReceivedRequest) -> Duration {
    let is_delayed = request.body.to_string().contains("Query of r") && fastrand::bool();
    if is_delayed { some_time(3000, &mut fastrand::Rng::new()) } else { Duration::ZERO }
}

/// Delays one in ten orders, too. The one that is being made when its host ends is made by another one half a minute later.
fn delay_answers(request: &ReceivedRequest) -> Duration {
    if fastrand::u8(..10) == 0 {
        some_time(3000, &mut fastrand::Rng::new())
    } else {
        delay_regenerations(request)
    }
}

/// Checks the histories, and that each host has all verdicts.
async fn check(load: &Load, hosts: &Hosts<'_>, ordered: &[String]) {
    let history = std::mem::take(&mut *load.history.lock().expect("no panic"));
    assert_eq!(history.faults(), Vec::<String>::new());
    for (host, process) in hosts.processes.iter().enumerate() {
        let mut routes = process.as_ref().expect("it runs").routes().await;
        eventually("a host answers after the last fault", async || {
            get(&mut routes, "/cache/none").await.status == 404
        })
        .await;
        for (session, calls) in &history.calls {
            let known = calls.iter().find_map(|call| match &call.answer {
                Answer::Verdict(text) => Some(text),
                _ => None,
            });
            let Some(known) = known else { continue };
            let read = get(&mut routes, &format!("/cache/{session}")).await;
            assert_eq!(read.status, 200, "host {host} lost {session}: {}", document(&read));
            assert_eq!(document(&read)["verdict"]["summary"], **known, "host {host}, {session}");
        }
        for session in ordered {
            eventually_within(2 * PATIENCE, "an accepted order is delivered", async || {
                get(&mut routes, &format!("/v1/verdicts/{session}")).await.status == 200
            })
            .await;
        }
    }
}

/// Checks that the hosts have the same verdict of each session, or none. A regeneration can be in progress.
async fn check_lost(hosts: &Hosts<'_>, lost: &[String]) {
    let mut routes = Vec::new();
    for process in hosts.processes.iter().flatten() {
        routes.push(process.routes().await);
    }
    for session in lost {
        eventually("the hosts have the same verdict", async || {
            let mut found = BTreeSet::new();
            for routes in &mut routes {
                found.insert(at(&get(routes, &format!("/cache/{session}")).await, "/cached_at").to_string());
            }
            found.len() == 1
        })
        .await;
    }
}

/// Checks that each order was made, and that the model was called once for each attempt, and for each window of regenerations.
fn check_calls(log: &[Value], model: &ModelServer, ordered: &[String]) {
    let sessions = calls_by_session(log, &model.requests());
    assert_eq!(call_faults(&sessions), Vec::<String>::new());
    assert!(ordered.iter().all(|session| sessions[session].calls > 0));
    println!("called more than once: {:?}", further_calls(&sessions));
}

/// Checks that each delivered order has queued one mail, which was sent as one message, also if a fault let a host send it again.
fn check_mails(log: &[Value], mailbox: &ModelServer, ordered: &[String]) {
    let requests = mailbox.requests();
    let mut received: BTreeMap<_, usize> = BTreeMap::new();
    for request in &requests {
        let id = request.header("idempotency-key").expect("each mail has its key");
        *received.entry(id).or_default() += 1;
    }
    let of = |event| {
        let mut times: BTreeMap<_, usize> = BTreeMap::new();
        for entry in log.iter().filter(|entry| entry["event"] == event) {
            *times.entry(entry["message_id"].as_str().expect("an id")).or_default() += 1;
        }
        times
    };
    let (queued, sent) = (of("message_queued"), of("message_sent"));
    assert!(queued.values().all(|times| *times == 1), "each id is queued once: {queued:?}");
    let of_orders: BTreeSet<_> = ordered.iter().map(|session| format!("verdict:{session}")).collect();
    // an order without an answer can have been accepted, too
    assert!(of_orders.iter().all(|id| queued.contains_key(id.as_str())), "one mail for each order");
    // a host that stopped while it sent a mail logs its attempt although another host has sent the mail meanwhile
    let not_received: Vec<_> = sent
        .iter()
        .map(|(id, times)| (id, times, received.get(id).copied().unwrap_or_default()))
        .filter(|(_, times, received)| *times > received)
        .collect();
    assert!(not_received.is_empty(), "more is logged as sent than was received: {not_received:?}");
    assert!(received.keys().all(|id| queued.contains_key(id)), "no other mail was received");
    let again: usize = received.values().map(|times| times - 1).sum();
    println!(
        "{} mails, {} logged as sent; {again} were sent again with their id",
        received.len(),
        sent.len()
    );
}

/// The other two hosts wait, and the same check finds nothing wrong with their answers.
#[tokio::test]
async fn misses_of_a_host_that_does_not_wait_for_the_shared_log_are_reported() {
    let Some(cluster) = start_cluster() else { return };
    let worlds: Vec<_> =
        (0..HOSTS).map(|host| DaemonWorld::with_config(&cluster.config(&format!("h{host}")))).collect();
    let mut processes = vec![cluster.init(&worlds[0]).await];
    for world in &worlds[1..] {
        processes.push(cluster.join(world, &worlds[0]).await);
    }
    let stale = HOSTS - 1;
    post_action(&mut processes[stale].control().await, "/v1/inject-fault/stale-reads").await;
    let load = Arc::new(Load::on(&worlds));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).run(client, fastrand::Rng::new()));
    }
    eventually("stale misses are reported", async || {
        !load.history.lock().expect("no panic").faults().is_empty()
    })
    .await;
    load.is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let named = format!("host {stale} said otherwise later");
    let faults = load.history.lock().expect("no panic").faults();
    assert!(faults.iter().all(|fault| fault.contains(&named)), "{faults:?}");
}

#[test]
fn history_with_a_miss_after_an_answer_or_with_two_verdicts_is_reported() {
    let at = Duration::from_secs;
    let call = |host, began, answer| Call { began: at(began), ended: at(began + 1), host, answer };
    let verdict = |text: &str| Answer::Verdict(text.to_owned());
    let faults = |calls: Vec<Call>| {
        let submitted = BTreeMap::from([("a".to_owned(), at(0)), ("b".to_owned(), at(0))]);
        let (calls, submitted) = ([("cs_1".to_owned(), calls)], [("cs_1".to_owned(), submitted)]);
        History { calls: calls.into(), submitted: submitted.into() }.faults().len()
    };
    assert_eq!(
        faults(vec![call(0, 1, verdict("a")), call(1, 1, Answer::Absent), call(1, 4, verdict("a"))]),
        0
    );
    assert_eq!(faults(vec![call(0, 1, verdict("a")), call(1, 4, Answer::Absent)]), 1, "a stale miss");
    assert_eq!(faults(vec![call(0, 1, verdict("a")), call(1, 4, verdict("b"))]), 1, "two verdicts");
    assert_eq!(faults(vec![call(0, 1, verdict("c"))]), 1, "a verdict that nobody has submitted");
}

#[tokio::test]
async fn cluster_keeps_its_promises_under_faults() {
    disturb_under_load(Duration::from_secs(25), fastrand::bool()).await;
}

/// Lasts half an hour, or the seconds of `ORACLED_CHAOS_S`.
async fn disturb_for_long(has_standby: bool) {
    let seconds = std::env::var("ORACLED_CHAOS_S").ok().and_then(|text| text.parse().ok());
    disturb_under_load(Duration::from_secs(seconds.unwrap_or(1800)), has_standby).await;
}

#[tokio::test]
#[ignore = "half an hour; `just torture`"]
async fn cluster_keeps_its_promises_under_faults_for_long() {
    disturb_for_long(false).await;
}

#[tokio::test]
#[ignore = "half an hour; `just torture`"]
async fn cluster_with_a_standby_keeps_its_promises_under_faults_for_long() {
    disturb_for_long(true).await;
}
