//! The daemon's life cycle: configuration, notifications to systemd, and shutdown.

use crate::wording::{is_logged, stable};
use domain_base::text_form::is_hiding;
use oracled_tests::generation::unreachable_url;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, PATIENCE, at, document, error_line, eventually, get, is_no_read, lines,
    log, post, problem, read_whole_log, submission,
};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Sends the head of a submission and waits for `100 Continue`. From then on, the submission is in flight.
async fn begin_submission(world: &DaemonWorld, session: &str, body: &str) -> WireConnection {
    let mut wire = WireConnection::connect(&world.socket()).await;
    let length = body.len().to_string();
    let headers =
        [("content-type", "application/json"), ("content-length", &length), ("expect", "100-continue")];
    let interim = wire.exchange(head("POST", &format!("/v1/verdicts/{session}"), &headers)).await;
    assert_eq!(interim.expect("the server answers").status, 100);
    wire
}

async fn stops_in_good_order(signal: &str) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let body = submission(GOOD).to_string();
    let mut in_flight = begin_submission(&world, "cs_1", &body).await;
    let mut idle = WireConnection::connect(&world.socket()).await;
    assert_eq!(idle.exchange(head("GET", "/healthz", &[])).await.expect("the server answers").status, 200);
    daemon.signal(signal);
    eventually("the routes' socket is removed", async || !world.socket().exists()).await;
    idle.wait_for_hangup().await;
    in_flight.send(&body).await.expect("the daemon still listens");
    assert_eq!(in_flight.answer().await.expect("the daemon still answers").status, 201, "{signal}");
    let status = daemon.wait();
    assert_eq!(status.code(), Some(0), "{signal}: {}", world.service_log());

    let daemon = world.serve().await;
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await.status, 200);
    let entries = read_whole_log(&mut daemon.control().await).await;
    let events: Vec<_> = entries.iter().filter_map(|entry| entry.get("event")?.as_str()).collect();
    let expected =
        ["service_started", "tmm_crosscheck", "verdict_cached", "service_stopped", "service_started"];
    assert_eq!(events, expected, "{signal}");
}

#[tokio::test]
async fn sigterm_finishes_requests_in_flight_and_exits_with_0() {
    stops_in_good_order("TERM").await;
}

#[tokio::test]
async fn sigint_finishes_requests_in_flight_and_exits_with_0() {
    stops_in_good_order("INT").await;
}

#[tokio::test]
async fn signal_right_after_the_socket_exists_is_handled() {
    for signal in ["TERM", "INT", "HUP", "HUP", "TERM"] {
        let world = DaemonWorld::default();
        let daemon = world.spawn();
        let began = Instant::now();
        // no pause, so that the signal arrives while the daemon starts
        while !world.control_socket().exists() {
            assert!(began.elapsed() < PATIENCE, "{}", world.service_log());
        }
        daemon.signal(signal);
        if signal == "HUP" {
            eventually("it reloads", async || world.mirror().contains("\"reload\"")).await;
            daemon.signal("TERM");
        }
        assert_eq!(daemon.wait().code(), Some(0), "{signal}: {}", world.service_log());
        assert!(world.mirror().contains("service_stopped"), "{signal}: {}", world.mirror());
    }
}

#[tokio::test]
async fn incomplete_request_does_not_delay_shutdown_beyond_its_limit() {
    let world = DaemonWorld::with_config("[limits]\nshutdown_s = 1");
    let daemon = world.serve().await;
    let _never = begin_submission(&world, "cs_1", &submission(GOOD).to_string()).await;
    assert_eq!(daemon.stop().code(), Some(0));
    let values = ["connections=1", "bound_s=1s"];
    assert!(is_logged(&world, "WARN", &values), "{}", world.service_log());
    let last = lines(world.mirror().as_bytes()).pop().unwrap();
    assert_eq!(last["event"], "service_stopped");
}

/// The current log level.
async fn log_level(daemon: &DaemonProcess<'_>) -> Value {
    at(&get(&mut daemon.control().await, "/v1/log-level").await, "/level")
}

#[tokio::test]
async fn sighup_reopens_the_rotated_log_and_applies_the_log_level() {
    let mut world = DaemonWorld::default();
    world.config = "log_level = \"info\"".into();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    assert_eq!(log_level(&daemon).await, "info");

    let (mirror, rotated) =
        (world.state().join("oracle_log.jsonl"), world.state().join("oracle_log.jsonl.1"));
    fs::rename(&mirror, &rotated).unwrap();
    fs::write(world.path("oracled.toml"), "log_level = \"debug\"").unwrap();
    daemon.signal("HUP");
    eventually("the level is in force", async || log_level(&daemon).await == "debug").await;
    eventually("the file exists", async || mirror.exists()).await;
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);

    let reloads = log(&mut daemon.control().await, "event=control_action").await;
    assert_eq!(reloads.len(), 1);
    assert_eq!((&reloads[0]["action"], &reloads[0]["peer"]), (&json!("reload"), &Value::Null), "{reloads:?}");
    assert!(reloads[0].as_object().unwrap().contains_key("peer"), "the field is null, not missing");

    let entries = read_whole_log(&mut daemon.control().await).await;
    let mirrored = [fs::read(&rotated).unwrap(), fs::read(&mirror).unwrap()].concat();
    let mirrored: Vec<_> = lines(&mirrored).into_iter().filter(is_no_read).collect();
    assert_eq!(mirrored, entries, "both files together have each entry once");
    assert!(world.mirror().contains("cs_2"), "{}", world.mirror());
}

#[tokio::test]
async fn sighup_with_an_invalid_configuration_changes_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    fs::write(world.path("oracled.toml"), "log_level = \"debug\"\ncolour = \"blue\"").unwrap();
    daemon.signal("HUP");
    eventually("the error is logged", async || world.service_log().contains("`colour`")).await;
    assert_eq!(log_level(&daemon).await, "info");
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    assert!(log(&mut daemon.control().await, "event=control_action").await.is_empty());
}

#[tokio::test]
async fn second_daemon_on_the_same_store_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut second = world.oracled(&["serve", "--state-dir"]);
    second.arg(world.state()).arg("--socket").arg(world.path("2.sock"));
    second.arg("--control-socket").arg(world.path("2c.sock"));
    let error = error_line(second);
    insta::assert_snapshot!(stable(&world, &error));
    assert!(!world.path("2.sock").exists());
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
}

#[tokio::test]
async fn state_files_are_accessible_only_to_the_daemons_user() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let mut open = vec![world.state()];
    let mut files = 0;
    while let Some(path) = open.pop() {
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
        }
    }
    assert!(files > 2, "the log, the database and other files");
}

#[tokio::test]
async fn systemd_gets_ready_watchdog_reload_and_stop_in_order() {
    let mut world = DaemonWorld::default();
    let socket = UnixDatagram::bind(world.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).expect("systemd gets a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    world.variables = vec![
        ("NOTIFY_SOCKET".into(), world.path("notify").to_str().unwrap().into()),
        ("WATCHDOG_USEC".into(), "100000".into()),
    ];
    let daemon = world.spawn();
    assert_eq!(next().trim_end(), "READY=1", "READY=1 is the first message");
    // a client that waits for this message may connect at once
    assert_eq!(get(&mut daemon.routes().await, "/readyz").await.status, 200);
    for _ in 0..3 {
        assert_eq!(next().trim_end(), "WATCHDOG=1", "the watchdog message is repeated");
    }
    let after_watchdogs = || loop {
        let notification = next();
        if notification.trim_end() != "WATCHDOG=1" {
            return notification;
        }
    };
    daemon.signal("HUP");
    let reloading = after_watchdogs();
    let mut lines = reloading.lines();
    assert_eq!(lines.next(), Some("RELOADING=1"), "{reloading}");
    let since = lines.next().and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(
        since.is_some_and(|since| since.parse::<u64>().is_ok()),
        "Type=notify-reload needs it: {reloading}"
    );
    assert_eq!(after_watchdogs().trim_end(), "READY=1");
    daemon.signal("TERM");
    assert_eq!(after_watchdogs().trim_end(), "STOPPING=1");
    assert!(daemon.wait().success());
}

#[tokio::test]
async fn json_log_format_writes_each_line_as_json() {
    let mut world = DaemonWorld::with_config("log_level = \"debug\"");
    world.flags = ["--log-format", "json"].map(str::to_owned).to_vec();
    let daemon = world.serve().await;
    // release builds have no route that causes a panic
    if cfg!(debug_assertions) {
        let control = &mut daemon.control().await;
        assert_eq!(post(control, "/v1/inject-fault/cache", &json!({})).await.status, 204);
    }
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    daemon.signal("HUP");
    eventually("it reloads", async || world.service_log().contains("reloaded")).await;
    assert!(daemon.stop().success());
    let log_lines = lines(world.service_log().as_bytes());
    assert!(
        log_lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()),
        "{log_lines:?}"
    );
    assert_eq!(
        log_lines.iter().any(|line| line["level"] == "ERROR"),
        cfg!(debug_assertions),
        "{log_lines:?}"
    );
}

#[tokio::test]
async fn state_directory_that_others_can_write_to_is_refused() {
    let world = DaemonWorld::default();
    fs::create_dir(world.state()).expect("the directory is created");
    for (mode, is_taken) in [(0o777, false), (0o770, false), (0o702, false), (0o1777, false), (0o755, true)] {
        fs::set_permissions(world.state(), fs::Permissions::from_mode(mode)).expect("the mode is set");
        if is_taken {
            assert!(world.serve().await.stop().success());
            continue;
        }
        let refused = world.run_until_exit();
        let stderr_text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{mode:o}: {stderr_text}");
        let fault = stable(&world, &stderr_text).replace(&format!("{mode:04o}"), "MODE");
        insta::assert_snapshot!("state_folder_that_others_can_write_to", fault);
        assert_eq!(fs::read_dir(world.state()).expect("the read succeeds").count(), 0, "nothing was created");
    }
}

#[test]
fn check_config_prints_the_effective_configuration() {
    let world = DaemonWorld::with_config("contact = \"a@b.c\"\n[limits]\nidle_s = 7");
    let config = world.config_file();
    let check = |flags: &[&str]| {
        let output = world.oracled(&["check-config", "--config"]).arg(&config).args(flags).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "oracled: the configuration is valid\n");
        String::from_utf8(output.stdout).unwrap()
    };
    let printed: Value = serde_json::from_str(&check(&["--json"])).unwrap();
    assert_eq!((&printed["contact"], &printed["limits"]["idle_s"]), (&json!("a@b.c"), &json!(7)));
    assert_eq!(printed["limits"]["request_s"], 30, "a key that is not given has its default");

    // the output is a configuration file with the same content
    let toml = check(&[]);
    assert!(toml.contains("contact = \"a@b.c\"") && toml.contains("[limits]"), "{toml}");
    fs::write(&config, toml).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&check(&["--json"])).unwrap(), printed);
}

#[test]
fn check_config_and_a_start_show_foreign_text_as_escapes() {
    let hidden = r"\u202e\u200b\u001b]0;x\u0007\U000E0041";
    let world = DaemonWorld::with_config(&format!("contact = \"a{hidden}@b\""));
    let config = world.config_file();
    let check = |flags: &[&str]| {
        let output = world.oracled(&["check-config", "--config"]).arg(&config).args(flags).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.find(is_hiding), None, "{printed}");
        printed
    };
    // escapes keep the meaning
    let contact = json!("a\u{202e}\u{200b}\u{1b}]0;x\u{7}\u{e0041}@b");
    assert_eq!(serde_json::from_str::<Value>(&check(&["--json"])).unwrap()["contact"], contact);
    fs::write(&config, check(&[])).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&check(&["--json"])).unwrap()["contact"], contact);

    for bad in [format!("control_socket_group = \"{hidden}\""), format!("\"{hidden}\" = 5")] {
        fs::write(&config, bad).unwrap();
        let refused = [&["check-config", "--config"], &["serve", "--config"]].map(|verb| {
            let output = world.oracled(verb).arg(&config).output().unwrap();
            assert!(!output.status.success(), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        });
        assert_eq!(refused[0], refused[1]);
        assert!(refused[0].contains(r"\u{202e}\u{200b}"), "{}", refused[0]);
        assert_eq!(refused[0].find(is_hiding), None, "{}", refused[0]);
    }
}

#[test]
fn invalid_configuration_is_refused_with_the_name_of_the_key() {
    for (config, named) in [
        ("colour = \"blue\"", "`colour`"),
        ("[limits]\nbody_kib = 1", "`limits.body_kib`"),
        ("[limits]\nidle_s = 0", "`limits.idle_s`"),
        ("[limits]\nidle_s = \"soon\"", "limits.idle_s"),
        ("log_format = \"xml\"", "allowed: text, json"),
        ("log_level = \"loud=very\"", "`log_level`"),
        ("contact = 5", "`contact`"),
        ("control_socket_group = \"no-such-group\"", "`no-such-group`"),
        ("socket = \"/a\\u0000b\"", "`socket`"),
        ("phi = 0.5", "`phi`"),
        ("[limits", "oracled.toml"),
    ] {
        let world = DaemonWorld::with_config(config);
        let check = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output().unwrap();
        assert!(check.stdout.is_empty());
        // an error of syntax is shown with its line
        let stderr_text = String::from_utf8(check.stderr).unwrap();
        assert_eq!(check.status.code(), Some(1), "{config}: {stderr_text}");
        assert!(
            stderr_text.starts_with("oracled: configuration") && stderr_text.contains(named),
            "{config}: {stderr_text}"
        );
        let serve = world.run_until_exit();
        assert_eq!((serve.status.code(), String::from_utf8(serve.stderr).unwrap()), (Some(1), stderr_text));
        assert!(!world.state().exists(), "nothing was created");
    }
    let world = DaemonWorld::with_config("colour = \"blue\"\nphi = 0.5\nlimits.idle_s = 0");
    let stderr_text = String::from_utf8(world.run_until_exit().stderr).unwrap();
    assert!(
        stderr_text.lines().count() == 3
            && stderr_text.lines().all(|line| line.starts_with("oracled: configuration: ")),
        "each fault has its line: {stderr_text}"
    );
    let world = DaemonWorld::default();
    let missing = error_line(world.oracled(&["check-config", "--config", "/nowhere/oracled.toml"]));
    assert!(missing.contains("/nowhere/oracled.toml"), "{missing}");
}

#[test]
fn flag_overrides_variable_overrides_file_overrides_default() {
    let mut world = DaemonWorld::with_config(
        "state_dir = \"/file\"\ncontact = \"file@b\"\nlog_format = \"json\"\n[limits]\nidle_s = 5\nrequest_s = 35",
    );
    world.variables = [
        ("ORACLED_STATE_DIR", "/variable"),
        ("ORACLED_CONTACT", "variable@b"),
        ("ORACLED_LIMITS__IDLE_S", "6"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let file = world.config_file();
    let printed = |flags: &[&str]| {
        let mut command = world.oracled(&["check-config", "--json"]);
        // a variable can also name the file
        let output = command.args(flags).env("ORACLED_CONFIG", &file).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).expect("valid JSON")
    };
    let limits = |config: &Value| (config["limits"]["idle_s"].clone(), config["limits"]["request_s"].clone());
    let config = printed(&["--state-dir", "/flag", "--log-format", "text"]);
    assert_eq!((&config["state_dir"], &config["log_format"]), (&json!("/flag"), &json!("text")));
    assert_eq!((&config["contact"], limits(&config)), (&json!("variable@b"), (json!(6), json!(35))));
    let config = printed(&[]);
    assert_eq!((&config["state_dir"], &config["log_format"]), (&json!("/variable"), &json!("json")));

    world.variables.push(("ORACLED_CONTCAT".into(), "a@b".into()));
    let refused = world.oracled(&["check-config"]).output().unwrap();
    let stderr_text = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && stderr_text.contains("`ORACLED_CONTCAT`"), "{stderr_text}");
}

#[tokio::test]
async fn unknown_oracled_variables_are_named_and_do_not_prevent_a_start() {
    let mut world = DaemonWorld::default();
    for (name, value) in [("ORACLED_PORT", "tcp://10.0.0.7:8080"), ("ORACLED_SERVICE_HOST", "10.0.0.7")] {
        world.variables.push((name.into(), value.into()));
    }
    let checked = world.oracled(&["check-config", "--json"]).output().unwrap();
    let stderr_text = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{stderr_text}");
    let names = ["ORACLED_PORT", "ORACLED_SERVICE_HOST"];
    assert!(names.iter().all(|name| stderr_text.contains(name)), "{stderr_text}");
    serde_json::from_slice::<Value>(&checked.stdout).expect("valid JSON");
    let daemon = world.serve().await;
    assert!(daemon.stop().success());
    assert!(is_logged(&world, "INFO", &names), "{}", world.service_log());
}

#[tokio::test]
async fn daemon_without_configuration_uses_the_users_directories() {
    let world = DaemonWorld::default();
    let daemon = world.spawn_as(world.oracled(&["serve"]));
    let socket = world.path(".local/state/oracled/oracled.sock");
    eventually("it serves", async || std::os::unix::net::UnixStream::connect(&socket).is_ok()).await;
    let ready = WireConnection::connect(&socket).await.exchange(head("GET", "/readyz", &[])).await.unwrap();
    assert_eq!(ready.status, 200);
    // oraclectl finds the daemon there
    let status = Command::new(oracled_tests::program("oraclectl"))
        .args(["status", "--json"])
        .env_clear()
        .env("HOME", world.path(""))
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    assert!(daemon.stop().success());
}

/// A world whose temporary directories are in `tmp`, so that a test can check that they are removed.
fn world_with_tmp() -> (DaemonWorld, PathBuf) {
    let mut world = DaemonWorld::default();
    let tmp = world.path("tmp");
    fs::create_dir(&tmp).expect("a directory");
    world.variables = vec![("TMPDIR".into(), tmp.display().to_string())];
    (world, tmp)
}

/// Output of `oracled dev --exit` in this world, which must exit with 0.
async fn run_dev(world: &DaemonWorld, options: &[&str]) -> String {
    let mut command = world.oracled(&["dev", "--exit"]);
    command.args(options);
    // the daemon may call a server of this process
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("the task does not panic");
    let output = output.expect("the start succeeds");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        !printed.contains('✗') && !printed.contains('\u{1b}'),
        "no step fails and a file has no color: {printed}"
    );
    printed
}

#[tokio::test]
async fn dev_exits_with_0_and_leaves_no_files() {
    let (mut world, tmp) = world_with_tmp();
    // a running daemon must not be affected
    for (name, path) in [
        ("ORACLED_STATE_DIR", world.state()),
        ("ORACLED_SOCKET", world.socket()),
        ("ORACLED_CONTROL_SOCKET", world.control_socket()),
    ] {
        world.variables.push((name.into(), path.display().to_string()));
    }
    let _living = world.serve().await;
    run_dev(&world, &[]).await;
    let left: Vec<_> = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");

    // without --exit it serves until a signal stops it, and then removes its files, too
    let mut dev = world.oracled(&["dev"]);
    dev.stdout(fs::File::create(world.path("output")).unwrap());
    let daemon = world.spawn_as(dev);
    let output = || fs::read_to_string(world.path("output")).unwrap();
    eventually("the walk-through is complete", async || output().contains("curl --unix-socket ")).await;
    let modes: Vec<_> = fs::read_dir(&tmp)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o700], "only this user can read the mails");
    let socket = output()
        .lines()
        .find_map(|line| line.trim().strip_prefix("export ORACLED_SOCKET=").map(PathBuf::from));
    let ready =
        WireConnection::connect(&socket.unwrap()).await.exchange(head("GET", "/readyz", &[])).await.unwrap();
    assert_eq!(ready.status, 200);
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
}

/// The chapters of the walk-through, each with a part of its lines and a part of its responses.
const CHAPTERS: [(&str, &str, &str); 10] = [
    ("a coherent verdict is delivered", "coherence 1.0, at least 0.9740 required", "\"replayed\":true"),
    (
        "a verdict that contradicts itself or is cut off is rejected",
        "verdict_conflict, empty_analysis, short_summary",
        "dimension_conflict",
    ),
    (
        "the model generates a verdict, and the customer gets it by mail",
        "NULL: ",
        "mail/verdict:dev-1-generated.txt",
    ),
    (
        "a lost verdict is regenerated, and the difference is reported",
        "delivered: NULL, regenerated: RED; divergence: significant",
        "mail/divergence:dev-1-generated:",
    ),
    ("an order survives a failing model", "circuit open after ", "model_unavailable"),
    (
        "two releases of a source are ingested, and both can be queried",
        "3554108 as of 2018-01-01, 2835978 as of now",
        "became_valid",
    ),
    ("a value leads back to its bytes in the payload", "Moldova,MDA,2015,2835978", "raw_sha256"),
    (
        "a text is checked against the facts of the source",
        "no fact supports this claim",
        "/v1/rules/evaluate",
    ),
    (
        "a disagreement between two sources goes to a reviewer",
        "Serbia: 7095383, both sources agree",
        "718130",
    ),
    ("the log reproduces every decision", "tmm_crosscheck, verdict_cached", "/v1/executions/"),
];

/// Requires that the parts are in `text`, in this order.
fn has_in_order<'p>(text: &str, parts: impl IntoIterator<Item = &'p str>) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part);
        assert!(at.is_some(), "{part} is not in\n{rest}");
        rest = &rest[at.unwrap_or_default() + part.len()..];
    }
}

#[tokio::test]
async fn dev_shows_each_chapter_and_the_responses_with_v() {
    let (world, _) = world_with_tmp();
    let short_output = run_dev(&world, &[]).await;
    let passed: Vec<_> = short_output.lines().filter_map(|line| line.strip_prefix("✓ ")).collect();
    assert_eq!(passed, CHAPTERS.map(|(title, ..)| title));
    has_in_order(&short_output, CHAPTERS.iter().flat_map(|(title, line, _)| [*title, *line]));
    assert!(short_output.contains("\n10 of 10 ") && !short_output.contains("POST "), "{short_output}");
    let verbose = run_dev(&world, &["-v"]).await;
    has_in_order(&verbose, CHAPTERS.iter().flat_map(|(title, line, response)| [*title, *line, *response]));
}

/// Starts `oracled dev`, and returns what it has printed when its walk-through is complete.
async fn spawn_dev(world: &DaemonWorld, mut dev: Command) -> (DaemonProcess<'_>, String) {
    dev.stdout(fs::File::create(world.path("output")).expect("a file"));
    let daemon = world.spawn_as(dev);
    let printed = || fs::read_to_string(world.path("output")).expect("it is there");
    eventually("the walk-through is complete", async || printed().contains("curl --unix-socket ")).await;
    (daemon, printed())
}

#[tokio::test]
async fn dev_fits_two_screens_and_its_commands_work() {
    let (world, _) = world_with_tmp();
    let (daemon, printed) = spawn_dev(&world, world.oracled(&["dev"])).await;
    let usual = printed.replace(&*std::env::temp_dir().to_string_lossy(), "/tmp");
    assert!(
        // the link to the console has two random texts
        usual.lines().count() <= 48
            && usual.lines().all(|line| line.chars().count() <= 100 || line.starts_with("console  ")),
        "{printed}"
    );
    let (_, commands) = printed.split_once("in another terminal:\n").expect("commands are suggested");
    let (commands, curl) = commands.trim_end().rsplit_once('\n').expect("several lines");
    let output = Command::new("sh").args(["-ec", commands]).output().expect("the start succeeds");
    assert!(output.status.success() && output.stderr.is_empty(), "{commands}\n{output:?}");
    let shown = String::from_utf8(output.stdout).expect("valid UTF-8");
    has_in_order(&shown, ["service_started", "GREEN", "2026-03-06", "2835978"]);
    let path = curl.rsplit_once("http://oracled").expect("the command has a URL").1;
    let socket = commands.lines().find_map(|line| line.trim().strip_prefix("export ORACLED_SOCKET="));
    let read = WireConnection::connect(socket.expect("the socket is set").as_ref())
        .await
        .exchange(head("GET", path, &[]))
        .await;
    assert_eq!(read.expect("the server answers").status, 200, "{curl}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test]
async fn dev_prints_the_urls_of_webhooks_and_names_its_file_by_an_absolute_path() {
    let (world, _) = world_with_tmp();
    fs::write(world.path("secret"), format!("whsec_{}", "A".repeat(32))).unwrap();
    let config = "ingestion.allow_local = [\"127.0.0.1/32\"]\n\
                  [webhooks]\nurl = \"http://127.0.0.1:9/\"\nsecret_file = \"secret\"\n";
    fs::write(world.path("oracled.toml"), config).unwrap();
    let mut dev = world.oracled(&["dev", "--config", "oracled.toml"]);
    dev.arg("--control-socket").arg(world.control_socket()).current_dir(world.path(""));
    let (daemon, printed) = spawn_dev(&world, dev).await;
    assert!(printed.contains("\nwebhooks http://127.0.0.1:9\n"), "{printed}");
    let status = world.ctl(&["--json", "status"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let file = status["config_file"].as_str().expect("a path");
    assert!(file.starts_with('/') && file.ends_with("/oracled.toml"), "{file}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test]
async fn console_of_a_killed_dev_ends() {
    let (world, _) = world_with_tmp();
    let (daemon, printed) = spawn_dev(&world, world.oracled(&["dev"])).await;
    let link = printed.lines().find_map(|line| line.strip_prefix("console  http://")).expect("a link");
    let (_, port) = link.split('/').next().and_then(|host| host.split_once(".localhost:")).expect("a name");
    let address = format!("127.0.0.1:{port}");
    let is_served = async || tokio::net::TcpStream::connect(&address).await.is_ok();
    assert!(is_served().await, "{link}");
    daemon.kill();
    eventually("the console has ended", async || !is_served().await).await;
}

#[tokio::test]
async fn dev_demonstrates_a_kept_state_once() {
    let (world, _) = world_with_tmp();
    let state = world.state().display().to_string();
    let options = ["--state-dir", &state];
    assert!(run_dev(&world, &options).await.contains("\n10 of 10 "));
    let again = run_dev(&world, &options).await;
    assert!(!again.contains(" of 10 ") && !again.contains('✓'), "{again}");
    let note = again.lines().find(|line| line.starts_with("the state directory ")).expect("a note");
    insta::assert_snapshot!("dev_with_a_kept_state", note);

    let mut dev = world.oracled(&["dev"]);
    dev.args(options).stdout(fs::File::create(world.path("output")).unwrap());
    let daemon = world.spawn_as(dev);
    let printed = || fs::read_to_string(world.path("output")).unwrap();
    eventually("the daemon serves", async || printed().contains("curl --unix-socket ")).await;
    let printed = printed();
    assert!(printed.contains(" verdict dev-1-good\n") && !printed.contains(" explain "), "{printed}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test]
async fn dev_rejects_an_unreadable_seed_before_the_demonstration() {
    let (world, tmp) = world_with_tmp();
    for (seed, fault) in
        [(tmp.display().to_string(), "is a directory"), ("missing.sh".to_owned(), "No such file")]
    {
        let output = world.oracled(&["dev", "--exit", "--seed", &seed]).output().expect("the start succeeds");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(output.stdout.is_empty() && error.contains(&seed) && error.contains(fault), "{error}");
    }
}

/// The model and the mail service, what did not pass, and the summary without the time it took.
fn outline(output: &str) -> String {
    // a folder for mail differs between runs
    let is_service =
        |line: &str| ["model ", "mail "].iter().any(|name| line.starts_with(name)) && !line.contains('/');
    let told = output.lines().filter(|line| line.starts_with(['✗', '·']) || is_service(line));
    let summary = output.trim_end().lines().last().and_then(|line| line.rsplit_once(" ("));
    told.chain(summary.map(|(summary, _)| summary)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn dev_with_a_failed_chapter_names_it_and_exits_with_1() {
    let (mut world, _) = world_with_tmp();
    // the first two chapters have a longer query
    world.variables.push(("ORACLED_LIMITS__QUERY_BYTES".into(), "70".into()));
    let output = world.oracled(&["dev", "--exit"]).output().expect("the start succeeds");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    insta::assert_snapshot!(outline(&printed));
}

#[tokio::test]
async fn dev_stops_on_a_signal_and_leaves_no_files() {
    for signal in ["INT", "TERM"] {
        let (world, tmp) = world_with_tmp();
        let mut dev = world.oracled(&["dev"]);
        dev.stdout(fs::File::create(world.path("output")).unwrap());
        let daemon = world.spawn_as(dev);
        let output = || fs::read_to_string(world.path("output")).unwrap();
        eventually("a step has passed", async || output().contains("✓ ")).await;
        daemon.signal(signal);
        assert_eq!(daemon.wait().code(), Some(1), "{signal}");
        assert!(!output().contains(" of 10 "), "{signal}: {}", output());
        insta::assert_snapshot!("dev_stopped_by_a_signal", world.service_log());
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "{signal}");
    }
}

#[tokio::test]
async fn dev_uses_the_configured_model_and_writes_mails_to_files() {
    let (mut world, tmp) = world_with_tmp();
    let (model, mail) = (ModelServer::start().await, ModelServer::start().await);
    let configured = [
        ("ORACLED_MODEL__PROVIDER", "openai".to_owned()),
        ("ORACLED_MODEL__NAME", "made-up".to_owned()),
        ("ORACLED_MODEL__BASE_URL", model.openai_url()),
        ("ORACLED_MAIL__TRANSPORT", "http".to_owned()),
        ("ORACLED_MAIL__BASE_URL", mail.url()),
    ];
    world.variables.extend(configured.map(|(name, value)| (name.to_owned(), value)));
    let good =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../daemon/src/dev/good.json")).unwrap();
    model.set_default(ScriptedReply::with_text(&good));
    let output = run_dev(&world, &[]).await;
    insta::assert_snapshot!("dev_with_the_configured_model", outline(&output));
    assert_eq!(model.request_count(), 2, "one call for the first verdict and one for the lost one");
    assert_eq!(mail.request_count(), 0, "the mail service is not used in test mode");
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
}

#[tokio::test]
async fn dev_skips_the_regeneration_if_the_configured_model_is_unreachable() {
    let (mut world, _) = world_with_tmp();
    let (_reserved, unreachable) = unreachable_url();
    let configured = [
        ("PROVIDER", "openai".to_owned()),
        ("NAME", "made-up".to_owned()),
        ("BASE_URL", unreachable),
        ("MAX_RETRIES", "0".to_owned()),
    ];
    world.variables.extend(configured.map(|(name, value)| (format!("ORACLED_MODEL__{name}"), value)));
    let output = run_dev(&world, &[]).await;
    has_in_order(
        &output,
        [
            "· the model generates a verdict",
            "the model is not available",
            "· a lost verdict is regenerated, and the difference is reported: skipped",
            "7 of 9 steps passed, 2 not checked",
        ],
    );
    assert!(!output.contains("verdict_not_cached") && !output.contains("DELETE"), "{output}");
}

#[tokio::test]
async fn dev_continues_if_the_configured_mail_service_is_unreachable() {
    let (mut world, _) = world_with_tmp();
    let unreachable = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let configured = [("TRANSPORT", "http".to_owned()), ("BASE_URL", format!("http://{unreachable}"))];
    world.variables.extend(configured.map(|(name, value)| (format!("ORACLED_MAIL__{name}"), value)));
    let output = run_dev(&world, &[]).await;
    assert!(output.contains("\n10 of 10 "), "{output}");
}

#[tokio::test]
async fn dev_without_a_model_skips_its_steps() {
    let (mut world, _) = world_with_tmp();
    world.variables.push(("ORACLED_MODEL__PROVIDER".into(), "none".into()));
    let output = run_dev(&world, &[]).await;
    insta::assert_snapshot!("dev_without_a_model", outline(&output));
}

#[tokio::test]
async fn serve_cannot_use_the_recorded_model_or_the_mailbox() {
    let world = DaemonWorld::default();
    let help = world.oracled(&["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap().to_lowercase();
    assert!(help.contains("--state-dir"), "{help}");
    for word in ["record", "mailbox", "dev"] {
        assert!(!help.contains(word), "{word}: {help}");
    }
    for (key, word) in
        [("provider", "recorded"), ("provider", "dev"), ("transport", "mailbox"), ("transport", "file")]
    {
        let section = if key == "provider" { "model" } else { "mail" };
        let world = DaemonWorld::with_config(&format!("[{section}]\n{key} = \"{word}\""));
        let error = error_line(world.command());
        assert!(error.contains(&format!("`{section}.{key}`")), "{error}");
    }
    // without configuration neither of them is used
    let daemon = world.serve().await;
    let request = json!({"tier": "quick", "query": "Sell honey?", "customer_email": "a@example.org"});
    let routes = &mut daemon.routes().await;
    problem(&post(routes, "/v1/verdicts/cs_1", &request).await, 503, "model_unavailable");
    assert_eq!(document(&get(routes, "/v1/health/oracles").await), json!([]));
}

#[tokio::test]
async fn daemon_that_is_aborted_leaves_no_core_dump() {
    let world = DaemonWorld::default();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""]).current_dir(world.path(""));
    let of_daemon = world.command();
    command.arg(of_daemon.get_program()).args(of_daemon.get_args());
    for (name, value) in of_daemon.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let daemon = world.ready(world.spawn_as(command)).await;
    daemon.signal("ABRT");
    let ended = daemon.wait();
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(6), false), "{ended:?}");
}
