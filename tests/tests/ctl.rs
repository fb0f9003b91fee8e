//! `oraclectl`, verb by verb: text output, JSON output and the exit codes of its help.

use crate::wording::stable;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, PATIENCE, document, get, is_no_read, lines, log, post, program,
    submission,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::{fs, thread};

const REFUSED: &str = r#"{"verdict":"GREEN","summary":""}"#;
const CASE: &str = "{\"candidate_output\":\"It works.\",\"facts\":[\"It works.\"]}\n";

/// Standard output of a run with this exit code.
fn printed(output: &Output, code: i32) -> String {
    let stderr_text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr_text}");
    assert!(code != 0 || stderr_text.is_empty(), "{stderr_text}");
    String::from_utf8(output.stdout.clone()).expect("valid UTF-8")
}

/// The JSON document on standard output of a run with this exit code.
fn json_of(output: &Output, code: i32) -> Value {
    serde_json::from_str(&printed(output, code)).expect("one JSON document")
}

/// The line on standard error of a run with this exit code.
fn complaint(output: &Output, code: i32) -> String {
    let stderr_text = String::from_utf8(output.stderr.clone()).expect("valid UTF-8");
    assert_eq!(output.status.code(), Some(code), "{stderr_text}");
    assert_eq!(stderr_text.lines().count(), 1, "one line: {stderr_text}");
    assert!(stderr_text.starts_with("oraclectl: "), "{stderr_text}");
    stderr_text
}

/// Runs a command with `input` on standard input.
fn with_input(command: &mut Command, input: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("oraclectl starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(input.as_bytes()).expect("the reader succeeds");
    drop(stdin);
    child.wait_with_output().expect("the process ends")
}

/// The rules of an evaluation with this verdict.
fn rules_with<'a>(evaluation: &'a Value, verdict: &str) -> Vec<&'a Value> {
    let rules = evaluation["rules"].as_array().expect("a list");
    rules.iter().filter(|rule| rule["verdict"] == verdict).collect()
}

/// The message of the first violation that an evaluation has.
fn first_message(evaluation: &Value) -> &str {
    let failed = rules_with(evaluation, "FAIL")[0];
    failed["violations"][0]["message"].as_str().expect("a text")
}

/// Writes a file with this content and returns its path.
fn file(world: &DaemonWorld, name: &str, content: &str) -> String {
    fs::write(world.path(name), content).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

async fn deliver(daemon: &DaemonProcess<'_>, session: &str) {
    let path = format!("/v1/verdicts/{session}");
    assert_eq!(post(&mut daemon.routes().await, &path, &submission(GOOD)).await.status, 201);
}

#[tokio::test]
async fn status_and_actors_show_the_daemon() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&daemon, "cs_1").await;
    let status = printed(&world.ctl(&["status"]), 0);
    assert!(status.contains(&daemon.pid().to_string()), "{status}");
    let is_shown = |line: &&str| ["ready ", "log ", "store "].iter().any(|name| line.starts_with(name));
    let rows =
        status.lines().filter(is_shown).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    insta::assert_snapshot!("status_of_a_ready_daemon", rows.collect::<Vec<_>>().join("\n"));
    let status = json_of(&world.ctl(&["status", "--json"]), 0);
    assert_eq!((&status["pid"], &status["ready"]), (&json!(daemon.pid()), &json!(true)));
    let counts = [&status["entries"], &status["verdicts"], &status["sessions"]];
    assert_eq!(counts, [&json!(3), &json!(1), &json!(1)]);

    let actors = printed(&world.ctl(&["actors"]), 0);
    let of_actors = json_of(&world.ctl(&["--json", "actors"]), 0);
    for report in of_actors.as_array().unwrap() {
        assert!(actors.contains(report["name"].as_str().unwrap()), "{actors}");
    }
    assert!(actors.contains("restarts") && actors.contains("none"), "{actors}");

    printed(&world.ctl(&["drain"]), 0);
    let status = json_of(&world.ctl(&["status", "--json"]), 0);
    assert_eq!((&status["ready"], &status["reasons"]), (&json!(false), &json!(["draining"])));
    assert!(printed(&world.ctl(&["status"]), 0).contains("draining"));
}

#[tokio::test]
async fn crosscheck_judges_file_or_stdin_and_exits_with_the_decision() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (good, refused) = (file(&world, "good", GOOD), file(&world, "refused", REFUSED));
    let shown = printed(&world.ctl(&["crosscheck", &good, "--tier", "quick"]), 0);
    assert!(shown.contains("approved") && shown.contains("pass") && shown.contains("GREEN"), "{shown}");
    let output = world.ctl(&["crosscheck", &refused, "--tier", "quick", "--session", "mine"]);
    let shown = printed(&output, 1);
    assert!(shown.contains("rejected") && shown.contains("short_summary"), "{shown}");
    assert!(output.stderr.is_empty(), "a refusal is a result, not an error");

    let decision = json_of(&world.ctl(&["--json", "crosscheck", &refused, "--tier", "quick"]), 1);
    assert_eq!(decision["approved"], false);
    let mut command = world.ctl_command(&["crosscheck", "-", "--tier", "quick", "--json", "--query", "Why?"]);
    assert_eq!(json_of(&with_input(&mut command, GOOD), 0)["approved"], true);

    let entries = log(&mut daemon.control().await, "event=tmm_crosscheck").await;
    let sessions: Vec<_> = entries.iter().map(|entry| entry["session_id"].as_str().unwrap()).collect();
    assert_eq!(sessions, ["oraclectl", "mine", "oraclectl", "oraclectl"]);
    assert_eq!(entries[3]["query_preview"], "Why?");
    assert!(entries.iter().all(|entry| entry["path"] == "check"), "{entries:?}");
}

#[tokio::test]
async fn submit_delivers_verdict_shows_and_refusals_show_the_decision() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let (good, refused) = (file(&world, "good", GOOD), file(&world, "refused", REFUSED));
    let submit = |session: &str, file: &str, more: &[&str]| {
        let arguments = ["submit", session, file, "--tier", "quick", "--query", "Sell honey?"];
        world.ctl(&[&arguments, more].concat())
    };
    let shown = printed(&submit("cs_1", &good, &["--customer-email", "a@b"]), 0);
    assert!(shown.contains("A sound and simple plan."), "{shown}");
    insta::assert_snapshot!(
        "delivery_and_its_repetition",
        stable(&world, &(shown + "\n" + &printed(&submit("cs_1", &good, &[]), 0)))
    );
    assert_eq!(json_of(&submit("cs_1", &good, &["--json"]), 0)["replayed"], true);

    let shown = printed(&world.ctl(&["verdict", "cs_1"]), 0);
    assert!(shown.contains("Sell honey?") && shown.contains("A sound and simple plan."), "{shown}");
    assert_eq!(json_of(&world.ctl(&["verdict", "cs_1", "--json"]), 0)["session_id"], "cs_1");

    let output = submit("cs_2", &refused, &[]);
    assert!(complaint(&output, 1).contains("(crosscheck_rejected)"));
    assert!(printed(&output, 1).contains("short_summary"), "the decision is shown");
    let document = json_of(&submit("cs_2", &refused, &["--json"]), 1);
    assert_eq!(
        (&document["code"], &document["decision"]["approved"]),
        (&json!("crosscheck_rejected"), &json!(false))
    );

    let mismatch = world.ctl(&["submit", "cs_1", &good, "--tier", "full", "--query", "Sell honey?"]);
    assert!(complaint(&mismatch, 1).contains("(session_mismatch)"));
    let missing = world.ctl(&["verdict", "cs_9"]);
    assert!(complaint(&missing, 1).contains("(session_unknown)"));
    // an operator names the application of a session
    assert!(complaint(&world.ctl(&["verdict", "a/b"]), 1).contains("(session_unknown)"));
    // an invalid session id stays within its segment of the path
    for odd in ["a/b/c", "../status", "a b", "%", "?x=1", "ä", "#"] {
        assert!(complaint(&world.ctl(&["verdict", odd]), 1).contains("(invalid_session_id)"), "{odd}");
    }
}

#[tokio::test]
async fn log_shows_the_entries_that_match_its_options() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for session in ["cs_1", "cs_2"] {
        deliver(&daemon, session).await;
    }
    let control = &mut daemon.control().await;
    let read = |arguments: &[&str]| {
        lines(printed(&world.ctl(&[&["log", "--json"], arguments].concat()), 0).as_bytes())
    };
    let entries = |arguments: &[&str]| read(arguments).into_iter().filter(is_no_read).collect::<Vec<_>>();
    assert_eq!(entries(&[]), log(control, "").await);
    assert_eq!(entries(&["--session", "cs_2"]), log(control, "session=cs_2").await);
    assert_eq!(entries(&["--event", "verdict_cached"]), log(control, "event=verdict_cached").await);
    assert_eq!(entries(&["--after", "3"]), log(control, "after=3").await);
    assert_eq!(read(&["--after", "3", "-n", "2"]), log(control, "after=3&limit=2").await);
    let newest = read(&["-n", "2"]);
    assert_eq!(
        (newest.len(), newest.iter().any(is_no_read)),
        (2, false),
        "each read has an entry: {newest:?}"
    );
    for since in ["1h", "90s", "7d", "2020-01-01T00:00:00Z", "15 minutes"] {
        assert_eq!(entries(&["--since", since]).len(), 5, "{since}");
    }
    assert_eq!(entries(&["--since", "2999-01-01T00:00:00Z"]), Vec::<Value>::new());
    assert_eq!(printed(&world.ctl(&["log", "--session", "cs_9"]), 0), "no entries\n");

    let shown = printed(&world.ctl(&["log"]), 0);
    let (reads, shown): (Vec<_>, Vec<_>) = shown.lines().partition(|line| line.contains(" operator_read "));
    assert_eq!(shown.len(), 5, "one line per entry: {shown:?}");
    assert!(reads.iter().any(|line| line.contains(" operator_read cs_2 log [uid ")), "{reads:?}");
    assert!(shown[0].starts_with("1 ") && shown[0].contains("service_started"), "{shown:?}");
    assert!(["tmm_crosscheck", "cs_1", "GREEN"].iter().all(|word| shown[1].contains(word)), "{shown:?}");

    for (arguments, message) in [
        (["--event", "verdict_approved"], "tmm_crosscheck"),
        (["--since", "yesterday"], "--since"),
        (["--after", "-1"], "-1"),
        (["-n", "0"], "1..=10000"),
        (["-n", "10001"], "1..=10000"),
    ] {
        let output = world.ctl(&[&["log"][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{output:?}");
    }
    let refused = complaint(&world.ctl(&["log", "--session", "A/b"]), 1);
    assert!(refused.contains("(invalid_session_id)"), "{refused}");
}

#[tokio::test]
async fn log_follow_shows_new_entries_and_ends_with_the_daemon() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut command = world.ctl_command(&["log", "-f", "--event", "verdict_cached"]);
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let shown = BufReader::new(following.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || shown.lines().for_each(|line| sender.send(line.unwrap()).unwrap()));
    for session in ["cs_1", "cs_2", "cs_3"] {
        deliver(&daemon, session).await;
        let line = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(line.contains(&format!("verdict_cached {session} submit quick GREEN")), "{line}");
    }
    assert!(daemon.stop().success());
    assert!(following.wait().unwrap().success());
    reader.join().unwrap();
    assert_eq!(receiver.try_iter().count(), 0);
}

#[tokio::test]
async fn purge_drain_reload_and_log_level_act_and_are_logged_with_the_operator() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for session in ["cs_1", "cs_2"] {
        deliver(&daemon, session).await;
    }
    let control = &mut daemon.control().await;
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut wording = String::new();
    for (arguments, json, event) in [
        (&["purge", "cs_1"][..], None, "verdict_purged"),
        (&["purge", "cs_2", "--json"], Some(json!({"session_id": "cs_2", "purged": true})), "verdict_purged"),
        (&["drain"], None, "control_action"),
        (&["drain", "--off"], None, "control_action"),
        (&["drain", "--off", "--json"], Some(json!({"draining": false, "in_flight": 0})), "control_action"),
        (&["log-level", "debug"], None, "control_action"),
        (&["log-level", "warn", "--json"], Some(json!({"level": "warn"})), "control_action"),
        (&["reload"], None, "control_action"),
        (
            &["reload", "--json"],
            Some(json!({"log_level": "info", "needs_restart": [], "changed_credentials": []})),
            "control_action",
        ),
    ] {
        let mut command = world.ctl_command(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        match json {
            Some(json) => assert_eq!(json_of(&output, 0), json, "{arguments:?}"),
            None => wording += &printed(&output, 0),
        }
        let last = log(control, "limit=1").await.remove(0);
        assert_eq!(
            (&last["event"], &last["peer"]),
            (&json!(event), &json!({"uid": uid, "gid": gid, "pid": pid})),
            "{arguments:?}"
        );
    }
    insta::assert_snapshot!("answers_of_the_verbs_of_an_operator", wording);
    assert_eq!(printed(&world.ctl(&["log-level"]), 0), "info\n", "showing the level is not logged");
    let before = log(control, "limit=1").await;
    for arguments in [&["purge", "cs_1"][..], &["log-level", "loud=very"]] {
        complaint(&world.ctl(arguments), 1);
    }
    assert_eq!(log(control, "limit=1").await, before, "a refused command logs nothing");
}

#[tokio::test]
async fn temporary_failure_exits_with_4() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    printed(&world.ctl(&["drain"]), 0);
    let good = file(&world, "good", GOOD);
    let output = world.ctl(&["submit", "cs_1", &good, "--tier", "quick", "--query", "?"]);
    assert!(complaint(&output, 4).contains("(draining)"));
    let output = world.ctl(&["crosscheck", &good, "--tier", "quick", "--json"]);
    assert_eq!(json_of(&output, 4)["code"], "draining");
    assert_eq!(document(&get(&mut daemon.routes().await, "/readyz").await)["ready"], false);
}

#[tokio::test]
async fn submit_without_a_configured_model_exits_with_1() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let output = world.ctl(&["submit", "cs_1", "--tier", "quick", "--query", "?"]);
    assert!(complaint(&output, 1).contains("(model_unavailable)"));
}

#[tokio::test]
async fn verb_without_a_daemon_fails_with_one_line_and_exit_code_3() {
    let world = DaemonWorld::default();
    let (good, cases) = (file(&world, "good", GOOD), file(&world, "cases.ndjson", CASE));
    let verbs = [
        &["status"][..],
        &["actors"],
        &["crosscheck", &good, "--tier", "quick"],
        &["submit", "cs_1", &good, "--tier", "quick", "--query", "?"],
        &["verdict", "cs_1"],
        &["log"],
        &["log", "-f"],
        &["purge", "cs_1"],
        &["drain"],
        &["reload"],
        &["health"],
        &["health", "open", "model"],
        &["log-level"],
        &["rules", "list"],
        &["rules", "show", "RULE-PREC-001"],
        &["rules", "check", &good, "--facts", &cases],
        &["rules", "eval", &cases],
        &["rules", "eval", &cases, "--json"],
    ];
    // without a socket, and with the socket of a daemon that was killed
    let mut wording = String::new();
    for stale in [false, true] {
        if stale {
            world.serve().await.kill();
        }
        let error = complaint(&world.ctl(&["status"]), 3);
        wording += &error;
        let reason = error.trim_end().rsplit(": ").next().expect("a reason");
        for verb in verbs {
            let output = world.ctl_command(verb).env("RUST_BACKTRACE", "1").output().unwrap();
            let error = complaint(&output, 3);
            assert!(error.contains(reason) && output.stdout.is_empty(), "{verb:?}: {error}");
        }
    }
    insta::assert_snapshot!("socket_without_a_daemon", stable(&world, &wording));
}

#[test]
fn usage_error_exits_with_2_and_unreadable_file_with_5() {
    let world = DaemonWorld::default();
    for wrong in
        [&["fly"][..], &[], &["crosscheck", "-"], &["crosscheck", "-", "--tier", "platinum"], &["get"]]
    {
        let output = world.ctl(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty());
    }
    let tiers = world.ctl(&["crosscheck", "-", "--tier", "platinum"]);
    let allowed = String::from_utf8_lossy(&tiers.stderr);
    assert!(["quick", "full", "strategy"].iter().all(|tier| allowed.contains(tier)), "{allowed}");
    let missing = complaint(&world.ctl(&["crosscheck", "/nowhere", "--tier", "quick"]), 5);
    assert!(missing.contains("/nowhere"), "{missing}");
    fs::write(world.path("latin1"), b"\xe4").unwrap();
    let latin1 = world.path("latin1");
    complaint(&world.ctl(&["crosscheck", latin1.to_str().unwrap(), "--tier", "quick"]), 5);
    let help = printed(&world.ctl(&["--help"]), 0);
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 130] {
        assert!(help.contains(&format!("\n  {code}  ")), "{code}: {help}");
    }
}

#[test]
fn calibrate_judges_lines_without_a_daemon() {
    let world = DaemonWorld::default();
    let line = |raw: &str| json!({"tier": "quick", "raw": raw}).to_string() + "\n";
    let corpus = file(&world, "corpus.ndjson", &[line(GOOD), line(REFUSED), line("no JSON")].concat());
    let shown = printed(&world.ctl(&["calibrate", &corpus]), 0);
    assert!(shown.contains("quick") && shown.contains("short_summary"), "{shown}");
    let report = json_of(&world.ctl(&["calibrate", &corpus, "--json"]), 0);
    assert_eq!(
        (&report["approval"]["all"]["verdicts"], &report["approval"]["quick"]["approved"]),
        (&json!(3), &json!(1))
    );
    let piped = with_input(&mut world.ctl_command(&["calibrate", "-", "--json"]), &line(GOOD));
    assert_eq!(json_of(&piped, 0)["approval"]["all"]["approved"], 1);

    let bad = file(&world, "bad.ndjson", &(line(GOOD) + "{\"tier\":\"platinum\",\"raw\":\"\"}\n"));
    let error = complaint(&world.ctl(&["calibrate", &bad]), 5);
    insta::assert_snapshot!(stable(&world, &error));
    complaint(&world.ctl(&["calibrate", "/nowhere.ndjson"]), 5);
}

#[test]
fn verb_of_a_program_that_is_not_installed_is_an_error() {
    let world = DaemonWorld::default();
    let alone = world.path("oraclectl");
    fs::copy(program("oraclectl"), &alone).expect("the program is copied");
    for arguments in [&["calibrate", "-"][..], &["rules", "eval", "-"], &["prompt", "try", "house", "-"]] {
        let refused = Command::new(&alone).args(arguments).stdin(Stdio::null()).output().expect("it starts");
        assert!(complaint(&refused, 5).contains("oraclectl-"));
    }
}

#[tokio::test]
async fn rules_list_and_eval_report_results_and_exit_codes() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let listed = json_of(&world.ctl(&["rules", "list", "--json"]), 0);
    let rules = listed["rules"].as_array().unwrap();
    let shown = printed(&world.ctl(&["rules", "list"]), 0);
    assert!(
        rules.len() >= 7 && rules.iter().all(|rule| shown.contains(rule["id"].as_str().unwrap())),
        "{shown}"
    );

    assert_eq!(listed["unsupported_max"], 0);
    assert!(shown.trim_end().ends_with(" 0 (unsupported_max)"), "{shown}");
    for rule in rules {
        let id = rule["id"].as_str().unwrap();
        assert_eq!(&json_of(&world.ctl(&["rules", "show", id, "--json"]), 0), rule);
        let shown = printed(&world.ctl(&["rules", "show", id]), 0);
        for name in rule["parameters"].as_object().unwrap().keys() {
            assert!(shown.contains(&format!("\n {name}")), "{name}: {shown}");
        }
        assert!(shown.contains(rule["sha256"].as_str().unwrap()), "{shown}");
    }
    let unknown = world.ctl(&["rules", "show", "RULE-PREC-999"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("RULE-PREC-001"), "{unknown:?}");

    let eval = |file: &str, more: &[&str]| world.ctl(&[&["rules", "eval", file], more].concat());
    let all = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/oracle-a.ndjson");
    let shown = printed(&eval(all, &[]), 0);
    let cases = fs::read_to_string(all).unwrap().lines().count();
    assert!(shown.contains(&format!("{cases} cases: {cases} agree (100.0 %), 0 ")), "{shown}");
    let piped = with_input(&mut world.ctl_command(&["rules", "eval", "-", "--json"]), CASE);
    assert_eq!((&json_of(&piped, 0)["ok"], &json_of(&piped, 0)["line"]), (&json!(true), &json!(1)));

    let fails = CASE.replace("It works.\",\"facts", "It works. It always flies.\",\"facts");
    let fails = file(&world, "fails.ndjson", &(CASE.to_owned() + &fails));
    let answers = lines(&eval(&fails, &["--json"]).stdout);
    assert_eq!((&answers[1]["ok"], &answers[1]["line"]), (&json!(false), &json!(2)), "{answers:?}");
    let output = eval(&fails, &[]);
    let shown = printed(&output, 1);
    assert!(output.stderr.is_empty(), "a failed case is a result, not an error");
    assert!(shown.contains("»It always flies«"), "{shown}");
    let bad = file(
        &world,
        "bad.ndjson",
        &format!("{CASE}{{\"facts\":[]}}\n{}", CASE.replace("[\"It works.\"]", "7")),
    );
    let output = eval(&bad, &["--json"]);
    assert!(complaint(&output, 5).contains("line"));
    let answers = lines(&output.stdout);
    let problems = [&answers[1], &answers[2]].map(|answer| answer["problem"]["status"].clone());
    assert_eq!((answers.len(), &answers[0]["ok"], problems), (3, &json!(true), [json!(400), json!(400)]));

    printed(&world.ctl(&["drain"]), 0);
    // a longer body would still be on its way when the daemon answers
    let one = file(&world, "one.ndjson", CASE);
    assert!(complaint(&eval(&one, &[]), 4).contains("(draining)"));
}

#[tokio::test]
async fn rules_check_compares_a_text_with_the_facts_in_a_file() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let facts = file(&world, "facts", "\nThe lamp is blue\r\n \t\nIt weighs 1.2 kg");
    let (good, bad) = ("It weighs 1.2 kg. The lamp is blue!", "The lamp is blue. The moon is cheese.");
    let check = |text: &str, more: &[&str]| {
        let arguments = [&["rules", "check", "-", "--facts", &facts], more].concat();
        with_input(&mut world.ctl_command(&arguments), text)
    };
    let passed = printed(&check(good, &[]), 0);
    let output = check(bad, &[]);
    let shown = printed(&output, 1);
    assert!(output.stderr.is_empty(), "a violation is a result, not an error");
    let evaluation = json_of(&check(bad, &["--json"]), 1);
    assert_eq!((&evaluation["verdict"], &evaluation["metrics"]["facts"]), (&json!("FAIL"), &json!(2)));
    assert_eq!((rules_with(&evaluation, "FAIL").len(), rules_with(&evaluation, "PASS").len()), (2, 5));
    let complaint_row = format!("RULE-PREC-001, RULE-PREC-004  {}\n", first_message(&evaluation));
    for part in [complaint_row.as_str(), "»The moon is cheese«\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let failed = shown.lines().find(|line| line.starts_with("FAIL: ")).expect("the line of the verdict");
    insta::assert_snapshot!("verdicts_of_rules_check", passed.clone() + failed);
    let by = ["--rules", "RULE-PREC-002,RULE-PREC-003"];
    assert_eq!(printed(&check(bad, &by), 0), passed.replace('7', "2"));
    let quantities = ["--rules", "RULE-PREC-013"];
    let shown = printed(&check("It weighs 1200 g.", &quantities), 0);
    let has_row = |shown: &str, words: &str| {
        shown.lines().any(|line| line.split_whitespace().eq(words.split_whitespace()))
    };
    assert!(has_row(&shown, "fact It weighs 1.2 kg"), "{shown}");
    assert!(has_row(&shown, "quantity 1200 g 1.2 kg equal"), "{shown}");
    let prices = file(&world, "prices", "The lamp costs 49 €.\nThe desk costs 89 €.\n");
    let sum = ["rules", "check", "-", "--facts", &prices, "--derive", quantities[0], quantities[1]];
    let shown =
        printed(&with_input(&mut world.ctl_command(&sum), "The lamp and the desk cost 138 € together."), 0);
    assert!(has_row(&shown, "second fact The desk costs 89 €."), "{shown}");
    assert!(has_row(&shown, "quantity 138 € 49 € + 89 € = 138 € derived"), "{shown}");
    assert_eq!(
        log(&mut daemon.control().await, "event=rules_evaluated&limit=1").await[0]["derive"],
        json!(true)
    );

    let request = json!({"candidate_output": bad, "facts": ["The lamp is blue", "It weighs 1.2 kg"]});
    let routes = &mut daemon.routes().await;
    let answer = post(routes, "/v1/rules/evaluate", &request).await;
    let report = printed(&check(bad, &["--json"]), 1);
    assert_eq!(report.trim_end().as_bytes(), answer.body, "without changes");

    let text = file(&world, "text", good);
    assert!(printed(&world.ctl(&["rules", "check", &text, "--facts", &facts]), 0).starts_with("PASS"));
    let missing = complaint(&world.ctl(&["rules", "check", &text, "--facts", "/nowhere"]), 5);
    assert!(missing.contains("/nowhere"), "{missing}");
    for wrong in [&["--facts", "-"][..], &[], &["--facts", &facts, "--rules", "RULE-PREC-999"]] {
        let output = world.ctl(&[&["rules", "check", &text], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn submit_with_facts_is_checked_by_the_rules() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let good = file(&world, "good", GOOD);
    let submit = |session: &str, facts: &str, more: &[&str]| {
        let arguments = ["submit", session, &good, "--tier", "quick", "--query", "?", "--facts", facts];
        world.ctl(&[&arguments, more].concat())
    };
    let supporting = file(&world, "supporting", "A sound and simple plan\n");
    let other = file(&world, "other", "The plan is unsound\n\n");
    let output = submit("cs_1", &other, &[]);
    assert!(complaint(&output, 1).contains("(rules_rejected)"));
    let shown = printed(&output, 1);
    let document = json_of(&submit("cs_1", &other, &["--json"]), 1);
    let evaluation = &document["evaluation"];
    assert_eq!(evaluation["verdict"], "FAIL");
    assert_eq!((rules_with(evaluation, "FAIL").len(), rules_with(evaluation, "PASS").len()), (2, 5));
    let row = format!("RULE-PREC-001, RULE-PREC-004  {} (in summary)\n", first_message(evaluation));
    for part in ["FAIL: 2 ", ", 5 ", &row, "»A sound and simple plan«\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let none = file(&world, "none", "\n \n");
    assert!(
        complaint(&submit("cs_1", &none, &[]), 1).contains("(rules_rejected)"),
        "no fact supports anything"
    );
    assert_eq!(submit("cs_1", "-", &[]).status.code(), Some(2));
    complaint(&submit("cs_1", "/nowhere", &[]), 5);
    assert!(
        complaint(&world.ctl(&["verdict", "cs_1"]), 1).contains("(session_unknown)"),
        "nothing was delivered"
    );

    assert_eq!(json_of(&submit("cs_1", &supporting, &["--json"]), 0)["session_id"], "cs_1");
}

#[test]
fn usage_error_names_required_arguments_if_sockets_are_set() {
    let mut command = Command::new(program("oraclectl"));
    command.arg("query").env("ORACLED_SOCKET", "/s").env("ORACLED_CONTROL_SOCKET", "/c");
    let output = command.output().expect("oraclectl starts");
    let stderr_text = String::from_utf8_lossy(&output.stderr);
    assert!(stderr_text.contains("<ORACLE_ID>") && !stderr_text.contains("socket"), "{stderr_text}");
}

#[test]
fn socket_path_of_another_file_and_empty_socket_variable_are_reported() {
    let world = DaemonWorld::default();
    let other = file(&world, "other", "");
    let folder = world.path("").display().to_string();
    let mut wording = String::new();
    for (path, code) in [(other.as_str(), 3), (folder.as_str(), 3), ("", 2)] {
        let mut command = Command::new(program("oraclectl"));
        command.arg("status").env("ORACLED_CONTROL_SOCKET", path);
        wording += &complaint(&command.output().expect("oraclectl starts"), code);
    }
    insta::assert_snapshot!("socket_paths_that_are_no_sockets", stable(&world, &wording));
    let mut command = Command::new(program("oraclectl"));
    command.arg("status").env_remove("ORACLED_CONTROL_SOCKET").env("RUNTIME_DIRECTORY", world.path("none"));
    let error = complaint(&command.output().expect("oraclectl starts"), 3);
    let remedies = ["`ORACLED_CONTROL_SOCKET`", "--control-socket"];
    assert!(remedies.iter().all(|remedy| error.contains(remedy)), "{error}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    let world = DaemonWorld::default();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&world.ctl(&["completions", shell]), 0);
        assert!(script.contains("oraclectl") && script.contains("crosscheck"), "{shell}");
    }
    assert_eq!(world.ctl(&["completions", "csh"]).status.code(), Some(2));
}

#[tokio::test]
async fn closed_output_pipe_is_not_an_error() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&daemon, "cs_1").await;
    let corpus = file(&world, "corpus.ndjson", &json!({"tier": "quick", "raw": GOOD}).to_string());
    let text = file(&world, "text", "Ice melts");
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["actors"],
        &["verdict", "cs_1"],
        &["log"],
        &["log", "-f", "--after", "0"],
        &["calibrate", &corpus],
        &["calibrate", &corpus, "--json"],
        &["rules", "list"],
        &["rules", "show", "RULE-PREC-013"],
        &["rules", "check", &text, "--facts", &text],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = world.ctl_command(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let stderr_text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stderr_text.is_empty(),
            "{arguments:?}: {:?} {stderr_text}",
            output.status
        );
    }
}

#[tokio::test]
async fn refusal_exits_with_1_if_the_output_pipe_is_closed() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let (good, refused) = (file(&world, "good", GOOD), file(&world, "refused", REFUSED));
    let facts = file(&world, "facts", "Ice melts");
    for arguments in [
        &["rules", "check", &good, "--facts", &facts][..],
        &["rules", "check", &good, "--facts", &facts, "--json"],
        &["submit", "cs_1", &good, "--tier", "quick", "--query", "?", "--facts", &facts],
        &["submit", "cs_1", &refused, "--tier", "quick", "--query", "?"],
        &["crosscheck", &refused, "--tier", "quick"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = world.ctl_command(arguments).stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

/// The model's server must run while the test waits for `oraclectl`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regenerated_verdict_and_its_divergence_are_shown() {
    let model = ModelServer::start().await;
    let labeled_reply = |label: &str| ScriptedReply::with_text(&GOOD.replace("GREEN", label));
    model.next([labeled_reply("GREEN"), labeled_reply("RED"), labeled_reply("AMBER")]);
    let url = model.openai_url();
    let config = format!("[model]\nprovider = \"openai\"\nname = \"made-up\"\nbase_url = \"{url}\"");
    let world = DaemonWorld::with_config(&config);
    let _daemon = world.serve().await;

    let bought = ["--tier", "quick", "--query", "Sell honey?"];
    printed(&world.ctl(&[&["submit", "cs_1"], &bought[..]].concat()), 0);
    printed(&world.ctl(&["purge", "cs_1"]), 0);
    let shown = printed(&world.ctl(&["verdict", "cs_1"]), 0);
    let mut wording = shown;

    let register = [&["register", "cs_2"], &bought[..]].concat();
    wording = wording + "\n" + &printed(&world.ctl(&register), 0);
    let known = [&register[..], &["--original-verdict", "RED", "--json"]].concat();
    assert_eq!(json_of(&world.ctl(&known), 0)["original_verdict"], "RED");
    let wrong = [&register[..], &["--original-verdict", "purple"]].concat();
    wording = wording + "\n" + &complaint(&world.ctl(&wrong), 1);
    insta::assert_snapshot!("regenerated_verdict_and_its_registration", stable(&world, &wording));
    printed(&world.ctl(&["verdict", "cs_2"]), 0);

    let shown = printed(&world.ctl(&["divergence"]), 0);
    let row = |name: &str| {
        let row = shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        row.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!((row("GREEN"), row("RED")), ("GREEN 0 0 1 0".into(), "RED 0 1 0 0".into()), "{shown}");
    assert!(row("minor").ends_with('1') && row("significant").ends_with('1'), "{shown}");
    let document = json_of(&world.ctl(&["divergence", "--since", "1h", "--json"]), 0);
    let counts = document["table"]["cells"].as_array().unwrap().iter().map(|cell| &cell["count"]);
    assert_eq!(counts.filter(|count| **count == 1).count(), 2, "{document}");
    // the prompt of a verdict that was delivered elsewhere is not known, so its regeneration does not count
    assert_eq!(document["variance"]["diverged"], 1);
    let none = json_of(&world.ctl(&["divergence", "--since", "2099-01-01T00:00:00Z", "--json"]), 0);
    assert!(none["table"]["cells"].as_array().unwrap().iter().all(|cell| cell["count"] == 0), "{none}");

    let shown = printed(&world.ctl(&["log", "--session", "cs_1"]), 0);
    for message in ["request 1 success", "GREEN → RED significant", "regen_attempted"] {
        assert!(shown.contains(message), "{message} in {shown}");
    }
    let status = json_of(&world.ctl(&["status", "--json"]), 0);
    let counts = [&status["variance"]["diverged"], &status["variance"]["regens"]];
    assert_eq!((&status["model"], counts), (&json!("openai, made-up"), [&json!(1); 2]), "{status}");
}
