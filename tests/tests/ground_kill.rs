//! `kill -9` at random moments of runs, and flipped bytes. A run is visible completely or not at all, and is resumed
//! after the start. Damage is named and affects no other source.

use crate::wording::is_logged;
use domain_base::digest::Sha256Hex;
use domain_ground::source_state::SourceCheck;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::DaemonClient;
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
use oracled_tests::ground::{
    approve, export, files, ingest, named, open_store, query_all, register, runs_path, started_run, view,
    wait_for_run, without_known_times,
};
use oracled_tests::{
    DaemonWorld, PATIENCE, at, document, eventually, eventually_within, get, log, post, problem,
    read_whole_log,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SOURCE: &str = "world-bank-population";
const OTHER: &str = "iso-4217";
/// Records in a release.
const RECORDS: usize = 4000;
/// Longest time until a kill, in milliseconds, which is about the duration of a run.
const KILL_WITHIN_MS: u64 = 700;

fn version(release: usize) -> String {
    (1900 + release).to_string()
}

fn released_at(release: usize) -> String {
    format!("{}-01-01", version(release))
}

/// A release: every tenth record differs from the one before, and some records are added or removed.
fn payload(release: usize) -> String {
    let mut text = "Country Name,Country Code,Year,Value\n".to_owned();
    for number in release * 40..release * 40 + RECORDS {
        let letters = [number / 676 % 26, number / 26 % 26, number % 26];
        let code: String = letters.iter().map(|letter| char::from(b'A' + *letter as u8)).collect();
        let value = number + if number % 10 == release % 10 { release } else { 0 };
        writeln!(text, "Land {code},{code},{},{value}", 1950 + number / 17_576).expect("valid UTF-8");
    }
    text
}

/// Records of the source as of a release, by id.
async fn records_of(routes: &mut DaemonClient, release: usize) -> BTreeMap<String, String> {
    let time = format!("{}T00:00:00Z", released_at(release));
    let request = json!({"axes_requested": ["area_name", "population"], "point_in_time": time});
    let all = query_all(routes, SOURCE, &request).await;
    let by_id = |record: &Value| (record["source_record_id"].to_string(), record["axes"].to_string());
    all.iter().map(|(record, _)| by_id(record)).collect()
}

async fn prepare_source(world: &DaemonWorld) -> DaemonClient {
    let control = DaemonClient::connect(&world.control_socket()).await;
    let mut control = control.expect("the control socket is served");
    for source in [SOURCE, OTHER] {
        register(&mut control, source).await;
        approve(&mut control, source).await;
    }
    control
}

/// Ingests a release and returns its run.
async fn ingested(control: &mut DaemonClient, release: usize) -> Value {
    let (version, released_at) = (version(release), released_at(release));
    let begins = ingest(control, SOURCE, &version, &released_at, payload(release)).await;
    wait_for_run(control, &started_run(&begins)).await
}

/// Results of these releases in a daemon that is never killed: counts of each run, records after each, and the
/// export.
struct UndisturbedResults {
    counts: Vec<Value>,
    records: Vec<BTreeMap<String, String>>,
    export: Vec<u8>,
}

impl UndisturbedResults {
    async fn of(releases: usize) -> Self {
        let world = DaemonWorld::default();
        let daemon = world.serve().await;
        let control = &mut prepare_source(&world).await;
        let routes = &mut daemon.routes().await;
        let (mut counts, mut records) = (Vec::new(), Vec::new());
        for release in 0..releases {
            let run = ingested(control, release).await;
            assert_eq!(run["state"], "completed", "{run}");
            counts.push(run["counts"].clone());
            records.push(records_of(routes, release).await);
        }
        assert!(daemon.stop().success());
        let (_journal, store) = open_store(&world.state());
        Self { counts, records, export: export(&store, SOURCE) }
    }
}

/// The run of `version`, if the daemon has one.
async fn run_of(control: &mut DaemonClient, version: &str) -> Option<Value> {
    let runs = document(&get(control, &format!("/v1/runs?oracle_id={SOURCE}&limit=1000")).await);
    let runs = runs["items"].as_array().cloned().unwrap_or_default();
    runs.into_iter().map(|seen| seen["run"].clone()).find(|run| run["version"] == version)
}

/// Checks that the files on disk are exactly the files that the store names.
fn check_files(world: &DaemonWorld) -> Store {
    let (_, store) = open_store(&world.state());
    store.audit_all().expect("the store has all that it counts");
    assert_eq!(files(&world.state()).into_keys().collect::<Vec<_>>(), named(&store));
    store
}

/// Kills the daemon `kills` times while it ingests releases one after another.
async fn kill_during_runs(kills: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    prepare_source(&world).await;
    assert!(daemon.stop().success());
    let (mut release, mut done, mut unknown, mut cut) = (0, 0, 0, 0);
    let mut before = BTreeMap::new();
    while done < kills {
        let daemon = world.serve().await;
        let (socket, path) =
            (world.control_socket(), runs_path(SOURCE, &version(release), &released_at(release)));
        let text = payload(release);
        let upload = tokio::spawn(async move {
            let mut control = DaemonClient::connect(&socket).await.expect("the socket is served");
            // the kill may come first, and a resumed run rejects the upload
            drop(control.call(Method::POST, &path, Some(text.into())).await);
        });
        let after = Duration::from_millis(rng.u64(0..KILL_WITHIN_MS));
        tokio::time::sleep(after).await;
        daemon.kill();
        done += 1;
        upload.await.expect("the task does not panic");
        // an interrupted start must not block the next one
        let early = world.spawn();
        tokio::time::sleep(Duration::from_micros(rng.u64(0..200_000))).await;
        early.kill();

        let daemon = world.serve().await;
        let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
        let at_once = records_of(routes, release).await;
        let known = run_of(control, &version(release)).await;
        println!(
            "kill {done} in release {release} after {after:?}: {}",
            match &known {
                Some(run) => run["state"].to_string(),
                None => "unknown".to_owned(),
            }
        );
        match known {
            None => {
                assert!(at_once == before, "no record of the run is visible");
                unknown += 1;
            }
            Some(run) => {
                cut += usize::from(run["state"] == "running");
                let run = wait_for_run(control, run["run_id"].as_str().expect("an id")).await;
                assert_eq!(run["state"], "completed", "{run}");
                let now = records_of(routes, release).await;
                assert!(at_once == before || at_once == now, "the run is visible completely or not at all");
                before = now;
                release += 1;
            }
        }
        read_whole_log(control).await;
        assert!(daemon.stop().success(), "{}", world.service_log());
        check_files(&world);
    }
    println!(
        "{done} kills: {unknown} runs had not begun, {cut} were interrupted and resumed; {release} releases"
    );
    assert!(kills < 20 || cut > 0, "no kill interrupted a run");
    compare(&world, release).await;
}

/// Compares the results of these releases with those of a daemon that was never killed.
async fn compare(world: &DaemonWorld, releases: usize) {
    let undisturbed = UndisturbedResults::of(releases).await;
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    for release in 0..releases {
        let run = run_of(control, &version(release)).await.expect("the run exists");
        assert_eq!(run["counts"], undisturbed.counts[release], "release {release}");
        assert!(records_of(routes, release).await == undisturbed.records[release], "release {release}");
    }
    let log = read_whole_log(control).await;
    let count = |kind: &str| log.iter().filter(|entry| entry["event"] == kind).count();
    assert_eq!((count("ingestion_started"), count("ingestion_ended")), (releases, releases));
    assert!(daemon.stop().success());
    let exported = export(&check_files(world), SOURCE);
    assert!(without_known_times(&exported) == without_known_times(&undisturbed.export));
}

#[tokio::test]
async fn killed_runs_resume_with_the_same_result() {
    kill_during_runs(3).await;
}

#[tokio::test]
#[ignore = "60 kills take minutes; `just torture`"]
async fn runs_resume_after_60_kills_with_the_same_result() {
    kill_during_runs(60).await;
}

/// The `normalized_hash` of `record`, computed only from the answer.
fn normalized_hash(record: &Value) -> String {
    let members = |field: &str| {
        let members = record[field].as_object().into_iter().flatten();
        members.filter(|(_, value)| !value.is_null()).collect::<BTreeMap<_, _>>()
    };
    let (axes, definitions) = (members("axes"), members("definitions"));
    let mut content = BTreeMap::from([("axes", axes)]);
    if !definitions.is_empty() {
        content.insert("definitions", definitions);
    }
    Sha256Hex::of(&serde_json::to_vec(&content).expect("plain data")).to_string()
}

/// Queries the source by scan, index, identity and id until it is stopped. Checks the hash of every record, and
/// counts them.
async fn check_hashes(socket: PathBuf, turn: usize, stop: Arc<AtomicBool>) -> usize {
    let mut routes = DaemonClient::connect(&socket).await.expect("the routes' socket is served");
    let (mut checked, mut code) = (0, "AAA".to_owned());
    for round in turn.. {
        let filter = |axis: &str, value: &str| json!([{"axis": axis, "operator": "eq", "value": value}]);
        let filters = match round % 3 {
            0 => json!([]),
            1 => filter("area_name", &format!("Land {code}")),
            _ => filter("area", &code),
        };
        let request = json!({
            "axes_requested": ["area", "area_name", "year", "population"], "filters": filters, "include_provenance": true,
            "max_results": 500,
        });
        let query = json!({"oracle_id": SOURCE, "request": request});
        let answer = post(&mut routes, "/v1/query", &query).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        let response = at(&answer, "/response");
        let (records, chains) = (response["records"].as_array(), response["provenance"].as_array());
        let pairs: Vec<_> = records.into_iter().flatten().zip(chains.into_iter().flatten()).collect();
        for (record, chain) in &pairs {
            assert_eq!(record["record_id"], chain["record_id"]);
            assert_eq!(chain["normalized_hash"], normalized_hash(record), "{record} {chain}");
        }
        checked += pairs.len();
        if let Some((record, chain)) = pairs.get(round * 7 % pairs.len().max(1)) {
            record["axes"]["area"].as_str().expect("a string").clone_into(&mut code);
            let path = format!("/v1/records/{}", record["record_id"].as_str().expect("an id"));
            let by_id = document(&get(&mut routes, &path).await);
            assert_eq!(by_id["axes"], record["axes"]);
            assert_eq!(chain["normalized_hash"], normalized_hash(&by_id));
            let chain_by_id = document(&get(&mut routes, &format!("{path}/provenance")).await);
            assert_eq!(chain_by_id["normalized_hash"], chain["normalized_hash"]);
        }
        // each kind of query once, also on a slow machine
        if stop.load(Ordering::Relaxed) && round >= turn + 2 {
            break;
        }
    }
    checked
}

#[tokio::test]
async fn hashes_match_the_answers_of_a_daemon_that_resumes_a_run() {
    let world = DaemonWorld::default();
    let mut daemon = world.serve().await;
    let control = &mut prepare_source(&world).await;
    for release in 0..3 {
        assert_eq!(ingested(control, release).await["state"], "completed");
    }
    let mut resumed = 0;
    for release in 3..7 {
        let control = &mut daemon.control().await;
        let (version, released_at) = (version(release), released_at(release));
        let run_id = started_run(&ingest(control, SOURCE, &version, &released_at, payload(release)).await);
        daemon.kill();
        daemon = world.serve().await;
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> =
            (0..4).map(|turn| tokio::spawn(check_hashes(world.socket(), turn, Arc::clone(&stop)))).collect();
        let control = &mut daemon.control().await;
        let state = at(&get(control, &format!("/v1/runs/{run_id}")).await, "/run/state");
        resumed += usize::from(state == "running");
        let run = wait_for_run(control, &run_id).await;
        assert_eq!(run["state"], "completed", "{run}");
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.await.expect("every hash matches") > 0);
        }
    }
    assert!(resumed > 0, "no run was resumed");
}

/// A world with releases of two sources and a stopped daemon, and the folder of its ground truth.
async fn stopped_world() -> (DaemonWorld, PathBuf) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut prepare_source(&world).await;
    for release in 0..2 {
        assert_eq!(ingested(control, release).await["state"], "completed");
    }
    let lek = r#"{"4217": [{"alpha_3": "ALL", "name": "Lek", "numeric": "008"}]}"#;
    let run_id = started_run(&ingest(control, OTHER, "1", "2020-01-01", lek).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
    assert!(daemon.stop().success());
    let ground = world.state().join("ground");
    (world, ground)
}

fn verify_files(view: &SourceView) -> Result<u64, StoreError> {
    view.verify_files(&mut view.meter(&BTreeSet::new(), &mut |_| true))
}

/// Flips a bit of a byte. A second call restores it.
fn flip(path: &Path, place: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file exists");
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).expect("the file is long enough");
    file.write_all_at(&[byte[0] ^ 0x10], place).expect("the write succeeds");
}

/// Some positions in a file, including the first and the last byte.
fn byte_positions(path: &Path, rng: &mut fastrand::Rng) -> Vec<u64> {
    let len = fs::metadata(path).expect("the file exists").len();
    [0, len / 2, len - 40, len - 1].into_iter().chain((0..4).map(|_| rng.u64(0..len))).collect()
}

/// Checks that the daemon serves data that the damage does not affect: another source, and verdicts.
async fn check_others_served(
    world: &DaemonWorld,
    routes: &mut DaemonClient,
    control: &mut DaemonClient,
    round: u64,
) {
    let filter = json!({"axis": "alpha_3", "operator": "eq", "value": "ALL"});
    let lek = query_all(routes, OTHER, &json!({"axes_requested": ["name"], "filters": [filter]})).await;
    assert_eq!(lek[0].0["axes"]["name"], "Lek");
    let verdict = oracled_tests::submission(oracled_tests::GOOD);
    assert_eq!(post(routes, &format!("/v1/verdicts/s-{round}"), &verdict).await.status, 201);
    let name = format!("Lek {round}");
    let lek = json!({"4217": [{"alpha_3": "ALL", "name": "Lek", "numeric": "008"},
        {"alpha_3": "AFN", "name": name, "numeric": "971"}]});
    let version = format!("v{round}");
    let run_id = started_run(&ingest(control, OTHER, &version, "2021-01-01", lek.to_string()).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed", "{}", world.service_log());
}

#[tokio::test]
async fn flipped_byte_in_a_payload_is_found_and_named() {
    let (world, ground) = stopped_world().await;
    let raw = {
        let (_journal, store) = open_store(&world.state());
        view(&store, SOURCE).state.completed[0].raw_sha256.clone()
    };
    let path = ground.join(format!("raw/{raw}.raw"));
    let mut rng = fastrand::Rng::new();
    for (round, place) in (1..).zip(byte_positions(&path, &mut rng)) {
        flip(&path, place);
        let daemon = world.serve().await;
        let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
        assert_eq!(records_of(routes, 1).await.len(), RECORDS, "records of the run stay visible");
        check_others_served(&world, routes, control, round).await;
        assert!(daemon.stop().success());
        let (journal, store) = open_store(&world.state());
        let verified =
            view(&store, SOURCE).verify_run(1, |_| true).expect("the read succeeds").expect("the run exists");
        assert!(verified.fault_count > 0, "byte {place}");
        assert!(verified.faults[0].what.contains(raw.as_str()), "byte {place}: {:?}", verified.faults[0]);
        let whole =
            view(&store, SOURCE).verify_run(2, |_| true).expect("the read succeeds").expect("the run exists");
        assert_eq!(whole.fault_count, 0);
        drop((journal, store));
        flip(&path, place);
    }
}

#[tokio::test]
async fn flipped_byte_in_a_facts_file_is_found_and_affects_no_other_source() {
    let (world, ground) = stopped_world().await;
    let fact = {
        let (_journal, store) = open_store(&world.state());
        view(&store, SOURCE).state.files[0].sha256.clone()
    };
    let path = ground.join(format!("facts/{fact}.sorted"));
    let mut rng = fastrand::Rng::new();
    let (mut hidden, mut next) = (0, 2);
    for (round, place) in (1..).zip(byte_positions(&path, &mut rng)) {
        flip(&path, place);
        let daemon = world.serve().await;
        let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
        check_others_served(&world, routes, control, round).await;
        let request = json!({"axes_requested": ["population"], "max_results": 10_000});
        let answer = post(routes, "/v1/query", &json!({"oracle_id": SOURCE, "request": request})).await;
        if answer.status == 200 {
            // the damaged byte is not needed for this query
            assert_eq!(at(&answer, "/response/records").as_array().map(Vec::len), Some(RECORDS));
            hidden += 1;
        } else {
            let problem = problem(&answer, 500, "source_damaged");
            let (fault, remedy) =
                problem["detail"].as_str().and_then(|detail| detail.split_once("; ")).expect("a remedy");
            assert!(fault.contains(fact.as_str()), "{fault}");
            insta::assert_snapshot!("remedy_for_a_damaged_file_of_facts", remedy);
        }
        let run = ingested(control, next).await;
        if run["state"] == "failed" {
            assert!(run["cause"].to_string().contains(fact.as_str()), "{run}");
        } else {
            next += 1;
        }
        eventually("it is ready", async || get(routes, "/readyz").await.status == 200).await;
        assert!(daemon.stop().success());
        flip(&path, place);
        if !path.exists() {
            break;
        }
        let (_journal, store) = open_store(&world.state());
        verify_files(&view(&store, SOURCE)).expect("the file is intact again");
        flip(&path, place);
        let opened = store.view(&SOURCE.parse().expect("a valid id"));
        let found = opened.and_then(|view| verify_files(&view.expect("the source is registered")));
        let error = found.expect_err("verification finds the damage").to_string();
        assert!(error.contains(fact.as_str()), "{error}");
        flip(&path, place);
    }
    println!("{hidden} queries did not read the damaged byte");
}

/// Output of `oraclectl`, which must end with this exit code.
fn printed(world: &DaemonWorld, line: &[&str], code: i32) -> String {
    let output = world.ctl(line);
    assert_eq!(output.status.code(), Some(code), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

#[tokio::test]
async fn daily_check_finds_a_damaged_payload() {
    let (world, ground) = stopped_world().await;
    let raw = {
        let (_journal, store) = open_store(&world.state());
        // the first daemon may have checked the sources already, and checks them once a day
        let checked_at = Timestamp::now() - SignedDuration::from_hours(48);
        for source in [SOURCE, OTHER] {
            let id = source.parse().expect("a source id");
            let check = SourceCheck { checked_at, fault_count: 0 };
            store.put_source_check(&id, check).expect("the write succeeds");
        }
        view(&store, SOURCE).state.completed[0].raw_sha256.clone()
    };
    let path = ground.join(format!("raw/{raw}.raw"));
    let place = fs::metadata(&path).expect("the file exists").len() / 2;
    flip(&path, place);
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let metrics = async |routes: &mut DaemonClient| {
        String::from_utf8(get(routes, "/metrics").await.body.to_vec()).expect("valid UTF-8")
    };
    let faults = |oracle: &str, count: u64| format!("oracled_source_faults{{oracle=\"{oracle}\"}} {count}\n");
    let checked_today = async |routes: &mut DaemonClient, oracle: &str| {
        let name = format!("oracled_source_checked_timestamp_seconds{{oracle=\"{oracle}\"}} ");
        let metrics = metrics(routes).await;
        let checked_at =
            metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("the source is checked");
        checked_at.parse::<i64>().expect("a number") > Timestamp::now().as_second() - 24 * 60 * 60
    };
    // the check pauses for nine times as long as it works, and works slowly beside other tests
    eventually_within(10 * PATIENCE, "both sources are checked", async || {
        checked_today(routes, SOURCE).await && checked_today(routes, OTHER).await
    })
    .await;
    let checked = metrics(routes).await;
    assert!(checked.contains(&faults(SOURCE, 1)) && checked.contains(&faults(OTHER, 0)), "{checked}");
    // the result is stored before it is logged
    let is_told = async || is_logged(&world, "ERROR", &[SOURCE, "faults=1"]);
    eventually("the faults are in the service log", is_told).await;
    check_others_served(&world, routes, control, 1).await;
    assert_eq!(get(routes, "/readyz").await.status, 200);
    let shown = printed(&world, &["describe", "source", SOURCE], 0);
    let check = shown.lines().find(|line| line.starts_with("last check")).expect("a row");
    insta::assert_snapshot!("check_that_found_a_fault", check.rsplit(": ").next().expect("the result"));
    let checked_at = |shown: &Value| shown["last_check"]["checked_at"].clone();
    let shown = document(&get(control, &format!("/v1/sources/{SOURCE}")).await);
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    assert!(metrics(routes).await.contains(&faults(SOURCE, 1)), "faults are kept over a restart");
    let shown_again = document(&get(control, &format!("/v1/sources/{SOURCE}")).await);
    assert_eq!(checked_at(&shown), checked_at(&shown_again), "it is not checked again at each start");
    flip(&path, place);
    printed(&world, &["source", "verify", SOURCE], 0);
    assert!(metrics(routes).await.contains(&faults(SOURCE, 0)));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn damaged_or_missing_facts_files_are_rebuilt_with_the_same_content() {
    let (world, ground) = stopped_world().await;
    let (before, cut, gone) = {
        let (_journal, store) = open_store(&world.state());
        let state = &view(&store, SOURCE).state;
        let path = |name: &str| ground.join(format!("facts/{name}.sorted"));
        let (cut, gone) = (&state.files[0].sha256, &state.completed[1].rows.sha256);
        (export(&store, SOURCE), path(cut.as_str()), path(gone.as_str()))
    };
    flip(&cut, fs::metadata(&cut).expect("the file exists").len() / 3);
    fs::remove_file(&gone).expect("the file exists");
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let message = format!("{} is missing; `oraclectl source rebuild {SOURCE}`", gone.display());
    eventually("the service log names the missing file", async || world.service_log().contains(&message))
        .await;
    let missing = |number: u64| format!("oracled_source_files_missing{{oracle=\"{SOURCE}\"}} {number}\n");
    let metrics = async |routes: &mut DaemonClient| {
        String::from_utf8(get(routes, "/metrics").await.body.to_vec()).expect("valid UTF-8")
    };
    assert!(metrics(routes).await.contains(&missing(1)));
    let request = json!({"axes_requested": ["population"], "max_results": 10_000});
    let query = json!({"oracle_id": SOURCE, "request": request});
    problem(&post(routes, "/v1/query", &query).await, 500, "source_damaged");
    check_others_served(&world, routes, control, 1).await;
    assert_eq!(get(routes, "/readyz").await.status, 200);

    let verified = printed(&world, &["source", "verify", SOURCE, "--json"], 1);
    let verified: Value = serde_json::from_str(&verified).expect("valid JSON");
    assert!(verified["file_fault"].is_string(), "{verified}");
    let faults = verified["runs"].as_array().expect("an array").iter().map(|run| run["faults"].to_string());
    insta::assert_snapshot!("faults_of_runs_whose_file_is_damaged", faults.collect::<Vec<_>>().join("\n"));
    let rebuilt = printed(&world, &["source", "rebuild", SOURCE], 0);
    assert_eq!(rebuilt, format!("2 files of {SOURCE} rebuilt from the payloads of 2 runs\n"));
    assert_eq!(post(routes, "/v1/query", &query).await.status, 200);
    assert!(printed(&world, &["source", "export", SOURCE], 0).into_bytes() == before);
    assert!(metrics(routes).await.contains(&missing(0)));
    let again = printed(&world, &["source", "rebuild", SOURCE, "--json"], 0);
    let again: Value = serde_json::from_str(&again).expect("valid JSON");
    assert_eq!((&again["runs"], &again["files"]), (&json!(0), &json!([])));
    printed(&world, &["source", "verify", SOURCE], 0);
    let entries = log(control, "event=source_rebuilt").await;
    assert_eq!((entries.len(), entries[0]["files"].as_array().map(Vec::len)), (1, Some(2)));
    assert_eq!(ingested(control, 2).await["state"], "completed");
    assert!(daemon.stop().success());
    check_files(&world);
}
