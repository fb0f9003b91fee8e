//! A file of each kind in the state directory is swapped, foreign, older, truncated, extended or deleted, one at a time. The
//! daemon returns correct answers or refuses with an instruction; it never returns a wrong answer or loses data
//! silently.

use oracled_api::client::DaemonClient;
use oracled_tests::ground::{approve, example_documents, ingest, register_all, started_run, wait_for_run};
use oracled_tests::{DaemonWorld, GOOD, PATIENCE, copy_dir, document, get, lines, post, submission};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SESSIONS: usize = 12;
const SOURCES: [&str; 2] = ["alpha", "beta"];

/// Answers of a daemon to all requests of the test.
#[derive(Debug, PartialEq)]
struct FileSwapAnswers {
    verdicts: Vec<(u16, Value)>,
    /// For each source and version: the status, and the records or the code of the problem.
    facts: Vec<(u16, Value)>,
    log: Vec<Value>,
}

async fn run(control: &mut DaemonClient, source: &str, version: &str, payload: String) {
    let answer = ingest(control, source, version, &format!("20{version}-01-01"), payload).await;
    let run = wait_for_run(control, &started_run(&answer)).await;
    assert_eq!(run.get("state"), Some(&json!("completed")), "{run}");
}

/// A state that has every kind of file, and a copy of it from before its last releases and verdicts.
async fn state(seed: usize) -> (DaemonWorld, DaemonWorld) {
    let (world, older) = (DaemonWorld::default(), DaemonWorld::default());
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for source in SOURCES {
        let (ontology, entry, pipeline) = example_documents(source);
        register_all(control, &ontology, &entry, &pipeline).await;
        approve(control, source).await;
    }
    let payload = |source: &str, version: usize| {
        let line = |number: usize| {
            json!({"number": number, "name": format!("{source} {version} {seed} {number}")}).to_string()
                + "\n"
        };
        (0..40).map(line).collect::<String>()
    };
    for source in SOURCES {
        run(control, source, "20", payload(source, 20)).await;
    }
    for n in 0..SESSIONS / 2 {
        post(routes, &format!("/v1/verdicts/s-{seed}-{n}"), &submission(GOOD)).await;
    }
    assert!(daemon.stop().success());
    copy_dir(&world.state(), &older.state());
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for source in SOURCES {
        run(control, source, "21", payload(source, 21)).await;
    }
    for n in SESSIONS / 2..SESSIONS {
        post(routes, &format!("/v1/verdicts/s-{seed}-{n}"), &submission(GOOD)).await;
    }
    assert!(daemon.stop().success());
    (world, older)
}

/// Paths of the files below `dir`, relative to `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).expect("the read succeeds").map(|entry| entry.expect("an entry")) {
            if entry.path().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(dir).expect("the path is below the folder").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Kind of a file, by the beginning and the end of its name.
fn kind(file: &Path) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let short = if name.starts_with("snap.") { "snap" } else { name.rsplit('.').next().unwrap_or(name) };
    file.with_file_name(short).display().to_string()
}

async fn read_answers(world: &DaemonWorld, log_before: u64) -> Result<FileSwapAnswers, String> {
    let connect =
        async |socket: PathBuf| DaemonClient::connect(&socket).await.map_err(|error| error.to_string());
    let (mut routes, mut control) = (connect(world.socket()).await?, connect(world.control_socket()).await?);
    let mut answers = FileSwapAnswers { verdicts: Vec::new(), facts: Vec::new(), log: Vec::new() };
    for n in 0..SESSIONS {
        let answer = get(&mut routes, &format!("/v1/verdicts/s-1-{n}")).await;
        answers.verdicts.push((answer.status.as_u16(), document(&answer)));
    }
    for source in SOURCES {
        for year in ["2020", "2021"] {
            let request = json!({"axes_requested": ["name"], "point_in_time": format!("{year}-06-01T00:00:00Z"), "max_results": 100});
            let answer =
                post(&mut routes, "/v1/query", &json!({"oracle_id": source, "request": request})).await;
            let response = document(&answer);
            let records = response.pointer("/response/records").or_else(|| response.get("code")).cloned();
            answers.facts.push((answer.status.as_u16(), records.unwrap_or_default()));
        }
    }
    let path = format!("/v1/log?after=0&limit={log_before}");
    let log = control.call(hyper::Method::GET, &path, None).await.map_err(|error| error.to_string())?;
    answers.log = lines(&log.body);
    Ok(answers)
}

/// Serves `world` and compares its answers with `right`. A refusal must have an instruction.
async fn check(world: &DaemonWorld, right: &FileSwapAnswers, what: &str) -> &'static str {
    let mut daemon = world.spawn();
    let began = Instant::now();
    while daemon.exit_status().is_none() && !world.is_answering().await {
        assert!(began.elapsed() < PATIENCE, "{what}: {}", world.service_log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let answers = match daemon.exit_status() {
        None => read_answers(world, right.log.len() as u64).await,
        Some(_) => Err("it has ended".into()),
    };
    let wrong = match &answers {
        Ok(answers) => first_wrong_answer(answers, right),
        Err(error) => Some(error.clone()),
    };
    let Some(wrong) = wrong else {
        if what.starts_with("ground/") {
            assert!(is_fault_reported(world).await, "{what}: no check reports it");
        }
        let mirror: Vec<Value> =
            lines(&fs::read(world.state().join("oracle_log.jsonl")).expect("the read succeeds"));
        let mut rest = right.log.iter();
        for line in mirror.iter().filter(|line| line["seq"].as_u64() <= Some(right.log.len() as u64)) {
            assert!(rest.any(|entry| entry == line), "{what}: not a line of the log: {line}");
        }
        assert!(daemon.stop().success(), "{what}: {}", world.service_log());
        let damaged = answers.is_ok_and(|answers| answers != *right);
        return if damaged { "reports the damaged file" } else { "serves everything" };
    };
    while daemon.exit_status().is_none() {
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: the daemon continues to serve, although {wrong}: {}",
            world.service_log()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let log = world.service_log();
    let line = log.lines().last().unwrap_or_default();
    assert!(line.starts_with("oracled: "), "{what}: {log}");
    // a key is no part of a backup
    let instructions = [
        "restore a backup with `oraclectl restore`",
        "the whole state directory from a backup",
        "put your copy of the file back",
        "must be readable and writable",
    ];
    assert!(instructions.iter().any(|words| line.contains(words)), "{what}: {line}");
    "refuses"
}

/// Whether the check of any source reports a fault.
async fn is_fault_reported(world: &DaemonWorld) -> bool {
    for source in SOURCES {
        let verified = world.ctl_in_thread(&["source", "verify", source, "--json"]).await;
        if !verified.status.success() {
            let output = String::from_utf8_lossy(&verified.stdout).into_owned();
            return output.contains("sha256") || output.contains("fault");
        }
    }
    false
}

/// The first answer that is neither right nor an error that names the damaged file.
fn first_wrong_answer(answers: &FileSwapAnswers, right: &FileSwapAnswers) -> Option<String> {
    let is_damage = |(status, code): &(u16, Value)| *status == 500 && code == "source_damaged";
    let facts =
        answers.facts.iter().zip(&right.facts).find(|(found, right)| found != right && !is_damage(found));
    let verdicts = answers.verdicts.iter().zip(&right.verdicts).find(|(found, right)| found != right);
    let log = (answers.log != right.log).then(|| format!("the log has {} entries", answers.log.len()));
    facts.or(verdicts).map(|(found, right)| format!("{found:?} instead of {right:?}")).or(log)
}

#[tokio::test]
async fn changed_or_deleted_file_gives_no_wrong_answer() {
    check_changes(3).await;
}

#[tokio::test]
#[ignore = "each kind of file in each way; `just torture`"]
async fn file_of_each_kind_that_is_changed_in_any_way_gives_no_wrong_answer() {
    check_changes(1).await;
}

/// Changes a file of each kind in one of `every` ways, beginning at a random one.
async fn check_changes(every: usize) {
    let begin = fastrand::usize(..every);
    let (world, older) = state(1).await;
    let (foreign, _) = state(2).await;
    let log = lines(&fs::read(world.state().join("oracle_log.jsonl")).expect("the read succeeds"));
    let right = {
        let copy = DaemonWorld::default();
        copy_dir(&world.state(), &copy.state());
        let daemon = copy.serve().await;
        let right = read_answers(&copy, log.len() as u64).await.expect("the server answers");
        assert!(daemon.stop().success());
        right
    };
    assert!(right.verdicts.iter().chain(&right.facts).all(|(status, _)| *status == 200), "{right:?}");
    let all = files(&world.state());
    let of_kind = |dir: &Path, file: &Path| {
        let same: Vec<_> = files(dir).into_iter().filter(|other| kind(other) == kind(file)).collect();
        same.iter().find(|other| *other != file).or(same.first()).map(|other| dir.join(other))
    };
    // further files of a kind are read in the same way
    let mut kinds = BTreeSet::new();
    let files = all.iter().filter(|file| kinds.insert(kind(file)));
    for (number, file) in files.enumerate() {
        let bytes = fs::read(world.state().join(file)).expect("the read succeeds");
        let another = of_kind(&world.state(), file).filter(|other| *other != world.state().join(file));
        let another = another.unwrap_or_else(|| world.state().join("watermark"));
        let read = |path: PathBuf| fs::read(path).ok();
        let ways = [
            ("swapped", read(another)),
            ("foreign", of_kind(&foreign.state(), file).and_then(read)),
            ("older", of_kind(&older.state(), file).and_then(read)),
            ("cut", Some(bytes[..bytes.len() / 2].to_vec())),
            ("grown", Some([bytes.as_slice(), b"more than there was".as_slice()].concat())),
            ("deleted", None),
        ];
        let ways = ways.into_iter().skip((begin + number) % every).step_by(every);
        for (way, content) in ways.filter(|(way, content)| *way == "deleted" || content.is_some()) {
            if content.as_ref() == Some(&bytes) {
                continue;
            }
            let copy = DaemonWorld::default();
            copy_dir(&world.state(), &copy.state());
            let path = copy.state().join(file);
            match &content {
                Some(content) => fs::write(&path, content),
                None => fs::remove_file(&path),
            }
            .expect("the file is changed");
            let what = format!("{} {way}", kind(file));
            println!("{what}: it {}", check(&copy, &right, &what).await);
        }
    }
}
