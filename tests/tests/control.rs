//! The control socket.

use hyper::Method;
use jiff::Timestamp;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::described::documents;
use oracled_tests::wire::{WireConnection, head, post as whole_post};
use oracled_tests::{
    ACTORS, DaemonWorld, GOOD, PATIENCE, document, eventually, get, is_no_read, log, log_with_reads, post,
    problem, read_whole_log, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, iter, thread};
use tokio::time::sleep;

/// All paths of the socket, each with its methods.
const PATHS: [(&str, &[&str]); 78] = [
    ("/v1/cluster", &["GET"]),
    ("/v1/cluster/hosts/app-2", &["DELETE"]),
    ("/v1/cluster/leave", &["POST"]),
    ("/openapi.json", &["GET"]),
    ("/v1/status", &["GET"]),
    ("/v1/actors", &["GET"]),
    ("/v1/series", &["GET"]),
    ("/v1/inbox", &["GET"]),
    ("/v1/health/oracles", &["GET"]),
    ("/v1/health/oracles/model", &["POST"]),
    ("/v1/log", &["GET"]),
    ("/v1/log/follow", &["GET"]),
    ("/v1/log/checkpoint", &["GET"]),
    ("/v1/log/tile/0", &["GET"]),
    ("/v1/log/proof", &["GET"]),
    ("/v1/log/continuation", &["GET"]),
    ("/v1/backup", &["POST"]),
    ("/v1/log-level", &["GET", "PUT"]),
    ("/v1/erasures", &["POST"]),
    ("/v1/legal-holds", &["GET"]),
    ("/v1/legal-holds/cs_1", &["DELETE", "PUT"]),
    ("/v1/verdicts/cs_1", &["GET", "DELETE"]),
    ("/v1/sessions/cs_1", &["GET", "PATCH", "DELETE"]),
    ("/v1/sessions/cs_1/export", &["GET"]),
    ("/v1/costs", &["GET"]),
    ("/v1/divergence", &["GET"]),
    ("/v1/orders", &["GET"]),
    ("/v1/orders/cs_1", &["GET", "POST"]),
    ("/v1/orders/cs_1/verdict", &["GET"]),
    ("/v1/outbox", &["GET"]),
    ("/v1/outbox/verdict:cs_1", &["POST", "DELETE"]),
    ("/v1/webhooks", &["GET"]),
    ("/v1/webhooks/endpoints", &["GET"]),
    ("/v1/webhooks/resume", &["POST"]),
    ("/v1/webhooks/test", &["POST"]),
    ("/v1/webhooks/msg_00000000000000000000000000000000", &["POST", "DELETE"]),
    ("/v1/drain", &["POST"]),
    ("/v1/prompts/try", &["POST"]),
    ("/v1/reload", &["POST"]),
    ("/v1/retention", &["GET", "POST"]),
    ("/v1/recalls", &["GET"]),
    ("/v1/recall-notices", &["GET"]),
    ("/v1/recall-notices/cs_1", &["GET", "POST"]),
    ("/v1/what-if", &["POST"]),
    ("/v1/documents", &["POST"]),
    ("/v1/documents/source", &["GET"]),
    ("/v1/documents/source/do-1", &["GET", "PUT"]),
    ("/v1/sources/or-1", &["GET"]),
    ("/v1/sources/or-1/review", &["POST"]),
    ("/v1/sources/or-1/freshness", &["GET"]),
    ("/v1/sources/or-1/invalidate", &["POST"]),
    ("/v1/sources/or-1/confirm", &["POST"]),
    ("/v1/pipelines/pi-1/runs", &["POST"]),
    ("/v1/pipelines/pi-1/pull", &["POST"]),
    ("/v1/reviews", &["GET"]),
    ("/v1/reviews/v-1", &["GET"]),
    ("/v1/reviews/v-1/evidence", &["GET"]),
    ("/v1/reviews/v-1/rules/rule-1", &["GET"]),
    ("/v1/review-rules", &["GET"]),
    ("/v1/reviews/v-1/resolve", &["POST"]),
    ("/v1/reviews/v-1/revoke", &["POST"]),
    ("/v1/reviews/v-1/dismiss", &["POST"]),
    ("/v1/reviews/v-1/comments", &["POST"]),
    ("/v1/executions/v-1", &["GET"]),
    ("/v1/sources/or-1/prune", &["POST"]),
    ("/v1/sources/or-1/verify", &["POST"]),
    ("/v1/sources/or-1/rebuild", &["POST"]),
    ("/v1/sources/or-1/export", &["GET"]),
    ("/v1/sources/or-1/history", &["POST"]),
    ("/v1/records/0123456789abcdef-0/provenance", &["GET"]),
    ("/v1/runs", &["GET"]),
    ("/v1/runs/0123456789abcdef", &["GET"]),
    ("/v1/runs/0123456789abcdef/cancel", &["POST"]),
    ("/v1/runs/0123456789abcdef/approve", &["POST"]),
    ("/v1/runs/0123456789abcdef/discard", &["POST"]),
    ("/v1/runs/0123456789abcdef/undo", &["POST"]),
    ("/v1/runs/0123456789abcdef/changes", &["GET"]),
    ("/v1/runs/0123456789abcdef/rejects", &["GET"]),
];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Credentials of this process, as the kernel reports them to the peer of a connection.
fn peer() -> Value {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    json!({"uid": uid, "gid": gid, "pid": std::process::id()})
}

async fn send(control: &mut DaemonClient, method: Method, path: &str, body: Option<Value>) -> DaemonResponse {
    let body = body.map(|body| body.to_string().into());
    control.call(method, path, body).await.expect("the server answers")
}

async fn drain(control: &mut DaemonClient, draining: bool) -> DaemonResponse {
    post(control, "/v1/drain", &json!({"draining": draining})).await
}

#[tokio::test]
async fn status_reports_state_and_counts_of_the_daemon() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let status = document(&get(control, "/v1/status").await);
    for (field, value) in [
        ("pid", json!(daemon.pid())),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("ready", json!(true)),
        ("reasons", json!([])),
        ("state_dir", json!(world.state())),
        ("entries", json!(3)),
        ("verdicts", json!(1)),
        ("sessions", json!(1)),
        ("journal_failure", json!(null)),
        ("fallback_entries", json!(0)),
        ("mirror_lag", json!(null)),
        ("segment_damage", json!(null)),
        ("copies_missing", json!(null)),
        ("lost_rows", json!([])),
        ("in_flight", json!(0)),
        ("control_connections", json!(1)),
    ] {
        assert_eq!(status[field], value, "{field}: {status}");
    }
}

#[tokio::test]
async fn actors_report_handled_messages_and_latency() {
    // no server listens at this port
    let nowhere =
        "[model]\nprovider = \"openai\"\nname = \"m\"\nbase_url = \"http://127.0.0.1:9\"\nmax_retries = 0";
    let world = DaemonWorld::with_config(nowhere);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    assert_eq!(send(control, Method::DELETE, "/v1/verdicts/cs_1", None).await.status, 200);
    problem(&get(routes, "/v1/verdicts/cs_1").await, 503, "model_unavailable");
    // the order of a session whose verdict is lost
    let order = json!({"tier": "quick", "query": "Sell honey?"});
    problem(&post(routes, "/v1/verdicts/cs_1", &order).await, 409, "delivered_already");
    assert_eq!(get(control, "/v1/health/oracles").await.status, 200);
    let requeue = json!({"action": "requeue"});
    problem(&post(control, "/v1/outbox/verdict:cs_9", &requeue).await, 404, "mail_unknown");
    assert_eq!(get(control, "/v1/runs").await.status, 200);
    let ontology = json!({"ontology_id": "on-1", "version": "1", "axes": []});
    let refused = send(control, Method::PUT, "/v1/documents/ontology/on-1@1", Some(ontology)).await;
    problem(&refused, 400, "invalid_document");
    let text = json!({"candidate_output": "Ice melts", "facts": []});
    assert_eq!(post(routes, "/v1/rules/evaluate", &text).await.status, 200);
    let question = json!({"workflow": "wo-1", "where": {}, "axes": ["a"]});
    problem(&post(routes, "/v1/verify", &question).await, 404, "workflow_unknown");
    let mut reports = json!(null);
    // the oracle's new status is logged at the same time as the answer
    eventually("all queues are empty", async || {
        reports = document(&get(control, "/v1/actors").await);
        reports.as_array().unwrap().iter().all(|report| report["queue_depth"] == 0)
    })
    .await;
    let names: Vec<_> = reports.as_array().unwrap().iter().map(|report| &report["name"]).collect();
    assert_eq!(names, ACTORS);
    for report in reports.as_array().unwrap() {
        // the upkeep of the verification only has a schedule and gets no messages
        let is_expected = report["name"] != "verification_upkeep";
        assert_eq!(report["handled"].as_u64().unwrap() > 0, is_expected, "{report}");
        assert_eq!((&report["restarts"], &report["last_panic"]), (&json!(0), &json!(null)), "{report}");
        assert!(report["latency_p99_us"].as_u64() >= report["latency_p50_us"].as_u64(), "{report}");
    }
}

#[tokio::test]
async fn purge_removes_the_verdict_keeps_the_session_and_logs_the_peer() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    // read once, so that the verdict is in memory
    assert_eq!(get(routes, "/v1/verdicts/cs_1").await.status, 200);
    let purged = send(control, Method::DELETE, "/v1/verdicts/cs_1", None).await;
    assert_eq!(
        (purged.status.as_u16(), document(&purged)),
        (200, json!({"session_id": "cs_1", "purged": true}))
    );
    problem(&get(routes, "/v1/verdicts/cs_1").await, 404, "verdict_not_cached");
    problem(&send(control, Method::DELETE, "/v1/verdicts/cs_1", None).await, 404, "verdict_not_cached");

    let entries = log(control, "session=cs_1").await;
    let events: Vec<_> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        ["tmm_crosscheck", "verdict_cached", "verdict_purged"],
        "a purge without a verdict is not logged"
    );
    assert_eq!(entries[2]["peer"], peer());
    assert_eq!(entries[2]["verdict_sha256"], entries[1]["verdict_sha256"]);

    // the session keeps its tier and query
    let other = json!({"tier": "quick", "query": "Sell wax?", "raw": GOOD});
    problem(&post(routes, "/v1/verdicts/cs_1", &other).await, 409, "session_mismatch");
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
}

#[tokio::test]
async fn draining_daemon_refuses_new_verdicts_and_returns_delivered_ones() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let drained = drain(control, true).await;
    assert_eq!(
        (drained.status.as_u16(), document(&drained)),
        (200, json!({"draining": true, "in_flight": 0}))
    );

    let not_ready = get(routes, "/readyz").await;
    assert_eq!(not_ready.status, 503);
    assert_eq!(document(&not_ready), json!({"ready": false, "reasons": ["draining"], "degraded": []}));
    assert_eq!(get(routes, "/healthz").await.status, 200);
    let check = json!({"session_id": "cs_2", "tier": "quick", "query": "?", "raw": GOOD});
    for (path, body) in [
        ("/v1/verdicts/cs_2", submission(GOOD)),
        ("/v1/crosscheck", check),
        ("/cache/cs_2", json!({"tier": "quick", "query": "?", "verdict": {}})),
    ] {
        let refused = post(routes, path, &body).await;
        problem(&refused, 503, "draining");
        assert_eq!(refused.headers["retry-after"], "5", "{path}");
    }
    for path in ["/v1/pipelines/p/runs?version=1&released_at=2020-01-01", "/v1/pipelines/p/pull"] {
        problem(&post(control, path, &json!({})).await, 503, "draining");
    }
    for path in ["/v1/verdicts/cs_1", "/cache/cs_1", "/metrics", "/openapi.json"] {
        assert_eq!(get(routes, path).await.status, 200, "{path}");
    }
    let status = document(&get(control, "/v1/status").await);
    assert_eq!((&status["ready"], &status["reasons"]), (&json!(false), &json!(["draining"])));

    assert_eq!(drain(control, false).await.status, 200);
    assert_eq!(get(routes, "/readyz").await.status, 200);
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    let actions = log(control, "event=control_action").await;
    let columns: Vec<_> =
        actions.iter().map(|entry| (&entry["action"], &entry["detail"], &entry["peer"])).collect();
    let (action, on, off, peer) = (json!("drain"), json!("draining: true"), json!("draining: false"), peer());
    assert_eq!(columns, [(&action, &on, &peer), (&action, &off, &peer)]);
}

#[tokio::test]
async fn log_level_change_takes_effect_and_is_logged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    assert_eq!(document(&get(control, "/v1/log-level").await), json!({"level": "info"}));
    let put = |level: &str| Some(json!({"level": level}));
    let changed = send(control, Method::PUT, "/v1/log-level", put("oracled=debug,warn")).await;
    assert_eq!(changed.status, 200);
    assert_eq!(document(&changed), document(&get(control, "/v1/log-level").await));
    for bad in ["", " ", "loud=very", "info,oracled=loud"] {
        let refused = send(control, Method::PUT, "/v1/log-level", put(bad)).await;
        problem(&refused, 400, "invalid_request");
    }
    let actions = log(control, "event=control_action").await;
    assert_eq!(actions.len(), 1, "a refused change has no entry: {actions:?}");
    assert_eq!((&actions[0]["action"], &actions[0]["peer"]), (&json!("log_level"), &peer()));
    assert_eq!(actions[0]["detail"], "from info to oracled=debug,warn");
}

#[tokio::test]
async fn reload_reports_the_log_level_and_keys_that_need_a_restart() {
    let world = DaemonWorld::with_config("contact = \"a@b\"");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let changed = "contact = \"c@d\"\nlog_level = \"warn\"\n[limits]\nidle_s = 9";
    fs::write(world.config_file(), changed).unwrap();
    let reloaded = send(control, Method::POST, "/v1/reload", None).await;
    let expected = json!({"log_level": "warn", "needs_restart": ["contact", "limits.idle_s"], "changed_credentials": []});
    assert_eq!((reloaded.status.as_u16(), document(&reloaded)), (200, expected));
    let actions = log(control, "event=control_action").await;
    assert_eq!((&actions[0]["action"], &actions[0]["peer"]), (&json!("reload"), &peer()));

    fs::write(world.config_file(), "colour = 1").unwrap();
    let refused = send(control, Method::POST, "/v1/reload", None).await;
    let refused = problem(&refused, 400, "invalid_request");
    assert!(refused["detail"].as_str().unwrap().contains("colour"), "{refused}");
    assert_eq!(log(control, "event=control_action").await.len(), 1);
}

#[tokio::test]
async fn log_is_filtered_by_session_event_time_and_number() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for number in 0..60 {
        let path = format!("/v1/verdicts/cs_{}", number % 30);
        let raw = if number < 30 { "{}" } else { GOOD };
        assert!(post(routes, &path, &submission(raw)).await.status.as_u16() >= 201);
    }
    let whole = read_whole_log(control).await;
    assert_eq!(whole.len(), 1 + 30 + 60);
    let seqs = |entries: &[Value]| entries.iter().map(|entry| entry["seq"].clone()).collect::<Vec<_>>();
    let newest = log_with_reads(control, "limit=3").await;
    assert_eq!(newest[..2], whole[89..]);
    assert_eq!((newest.len(), &newest[2]["event"]), (3, &json!("operator_read")));
    assert_eq!(seqs(&log(control, "").await), seqs(&whole), "the newest 100 entries");
    assert_eq!(log_with_reads(control, "after=0&limit=2").await, whole[..2]);
    assert_eq!(log_with_reads(control, "after=88&limit=3").await, whole[88..]);
    assert_eq!(log(control, "after=91").await, Vec::<Value>::new());
    assert_eq!(log_with_reads(control, "after=18446744073709551615").await, Vec::<Value>::new());

    let of = |event: &str| whole.iter().filter(|entry| entry["event"] == event).cloned().collect::<Vec<_>>();
    assert_eq!(log(control, "event=verdict_cached").await, of("verdict_cached"));
    let several = log(control, "event=verdict_cached,service_started").await;
    assert_eq!(several, [of("service_started"), of("verdict_cached")].concat());
    let events: Vec<_> = log(control, "session=cs_7").await.iter().map(|e| e["event"].clone()).collect();
    assert_eq!(events, ["tmm_crosscheck", "tmm_crosscheck", "verdict_cached"]);
    assert_eq!(log(control, "session=cs_7&event=tmm_crosscheck&limit=1").await.len(), 1);
    assert!(log(control, "session=unknown").await.is_empty());
    assert!(log(control, "execution=unknown").await.is_empty());

    let since = whole[50]["timestamp"].as_str().unwrap();
    let later = log(control, &format!("since={since}&limit=10000")).await;
    let time = |text: &str| text.parse::<Timestamp>().expect("a time");
    let is_since = |entry: &&Value| time(entry["timestamp"].as_str().expect("text")) >= time(since);
    let expected: Vec<_> = whole.iter().filter(is_since).collect();
    assert!(!later.is_empty() && later.iter().eq(expected), "{later:?}");
    assert!(log(control, "since=2999-01-01T00:00:00Z").await.is_empty());

    let answer = get(control, "/v1/log?limit=1").await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
}

#[tokio::test]
async fn invalid_log_parameter_is_refused_with_the_allowed_values() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (question, message) in [
        ("limit=0", "1 to 10000"),
        ("limit=10001", "1 to 10000"),
        ("limit=many", "limit"),
        ("after=-1", "after"),
        ("since=yesterday", "since"),
        ("event=verdict_approved", "tmm_crosscheck, crosscheck_error, rejecting_check_dropped"),
        ("colour=blue", "colour"),
        ("limit=1&limit=2", "limit"),
    ] {
        for path in ["/v1/log", "/v1/log/follow"] {
            let refused = problem(&get(control, &format!("{path}?{question}")).await, 400, "invalid_request");
            assert!(refused["detail"].as_str().unwrap().contains(message), "{question}: {refused}");
        }
    }
    for bad in ["%FF", "a%2F", ""] {
        let answer = get(control, &format!("/v1/log?session={bad}")).await;
        assert_eq!(answer.status, 400, "{bad}");
        problem(&answer, 400, document(&answer)["code"].as_str().unwrap());
    }
}

#[tokio::test]
async fn follower_gets_each_entry_once_in_order_and_ends_at_shutdown() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut follow = world.ctl_command(&["log", "-f", "--after", "0", "--json"]);
    let mut follower = follow.stdout(Stdio::piped()).spawn().unwrap();
    let followed = BufReader::new(follower.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || followed.lines().for_each(|line| sender.send(line.unwrap()).unwrap()));
    let read = || serde_json::from_str::<Value>(&receiver.recv_timeout(PATIENCE).unwrap()).unwrap();
    // its own read, and those of this test, have entries, too
    let next = || iter::repeat_with(read).find(is_no_read).unwrap();
    assert_eq!(next()["event"], "service_started", "the first entry precedes all requests");
    let routes = &mut daemon.routes().await;
    for number in 0..700 {
        // more entries than a follower gets at once
        let path = format!("/v1/verdicts/cs_{}", number % 10);
        assert_eq!(post(routes, &path, &submission("no")).await.status, 422);
    }
    for entry in &read_whole_log(&mut daemon.control().await).await[1..] {
        assert_eq!(next(), *entry);
    }
    assert!(daemon.stop().success());
    assert!(follower.wait().unwrap().success());
    reader.join().unwrap();
    // the daemon logs its stop after it has disconnected all followers
    assert!(receiver.try_iter().all(|line| line.contains("\"event\":\"operator_read\"")));
}

#[tokio::test]
async fn follower_that_reads_nothing_does_not_delay_shutdown() {
    let world = DaemonWorld::with_config("[limits]\nshutdown_s = 1");
    let daemon = world.serve().await;
    let mut follower = WireConnection::connect(&world.control_socket()).await;
    follower.send(head("GET", "/v1/log/follow?after=0", &[])).await.unwrap();
    let routes = &mut daemon.routes().await;
    for _ in 0..1000 {
        // far more than the kernel buffers for the follower
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission("no")).await.status, 422);
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test]
async fn connection_of_a_disconnected_follower_is_closed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut follower = WireConnection::connect(&world.control_socket()).await;
    assert_eq!(follower.exchange(head("GET", "/v1/log/follow", &[])).await.unwrap().status, 200);
    let control = &mut daemon.control().await;
    let mut others = async || {
        let status = document(&get(control, "/v1/status").await);
        status["control_connections"].as_u64().unwrap() - 1
    };
    assert_eq!(others().await, 1);
    drop(follower);
    eventually("its connection is closed", async || others().await == 0).await;
}

#[tokio::test]
async fn documented_query_parameter_is_known_to_its_route() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let described = document(&get(control, "/openapi.json").await);
    let mut checked = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let target: Vec<_> =
            path.split('/').map(|step| if step.starts_with('{') { "x" } else { step }).collect();
        for (method, operation) in methods.as_object().unwrap() {
            let params = operation["parameters"].as_array().into_iter().flatten();
            for param in params.filter(|param| param["in"] == "query") {
                // a value that no parameter allows, except a text
                let target = format!("{}?{}=%20", target.join("/"), param["name"].as_str().unwrap());
                if target.contains("/follow") {
                    continue;
                }
                let method = method.to_uppercase().parse().unwrap();
                let answer = send(control, method, &target, None).await;
                let detail = document(&answer)["detail"].as_str().unwrap_or_default().to_owned();
                assert!(!detail.contains("is not a query parameter"), "{target}: {detail}");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} parameters");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn control_paths_accept_only_their_methods() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let [_, described, _] = documents();
    let routes: BTreeSet<_> =
        described["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    let known: BTreeSet<_> = PATHS
        .iter()
        .map(|(path, _)| {
            path.replace("verdict:cs_1", "{mail_id}")
                .replace("msg_00000000000000000000000000000000", "{webhook_id}")
                .replace("cs_1", "{session_id}")
                .replace("tile/0", "tile/{path}")
                .replace("oracles/model", "oracles/{oracle_id}")
                .replace("documents/source", "documents/{kind}")
                .replace("hosts/app-2", "hosts/{host}")
                .replace("do-1", "{document_id}")
                .replace("or-1", "{oracle_id}")
                .replace("pi-1", "{pipeline_id}")
                .replace("reviews/v-1", "reviews/{review_id}")
                .replace("rules/rule-1", "rules/{rule}")
                .replace("executions/v-1", "executions/{execution_id}")
                .replace("records/0123456789abcdef-0", "records/{record_id}")
                .replace("0123456789abcdef", "{run_id}")
        })
        .collect();
    assert_eq!(routes, known.iter().map(String::as_str).collect(), "add each new route to PATHS");

    for (path, allowed) in PATHS {
        for method in METHODS.iter().filter(|method| !allowed.contains(method)) {
            let answer = send(control, method.parse().unwrap(), path, Some(json!({}))).await;
            problem(&answer, 405, "method_not_allowed");
        }
        let head = send(control, Method::HEAD, path, None).await;
        assert_eq!(head.status != 405, allowed.contains(&"GET"), "HEAD {path}");
    }
}

#[tokio::test]
async fn control_socket_has_no_path_to_judge_deliver_or_change_constants() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let paths = [
        "/v1/crosscheck",
        "/v1/verdicts/cs_1",
        "/v1/verdicts/cs_1/regenerate",
        "/v1/verdicts/cs_1/approve",
        "/cache/cs_1",
        "/v1/regen/cs_1",
        "/v1/regenerate",
        "/v1/approve",
        "/v1/config",
        "/v1/constants",
        "/v1/tmm",
        "/v1/phi",
    ];
    for path in paths {
        for method in ["GET", "POST", "PUT", "PATCH"] {
            let answer = send(control, method.parse().unwrap(), path, Some(submission(GOOD))).await;
            assert!([404, 405].contains(&answer.status.as_u16()), "{method} {path}: {answer:?}");
        }
    }
    problem(&get(routes, "/v1/verdicts/cs_1").await, 404, "session_unknown");
    assert_eq!(read_whole_log(control).await.len(), 1, "only the start is logged");
    let drain = json!({"draining": false, "phi": 0.5});
    problem(&post(control, "/v1/drain", &drain).await, 400, "invalid_request");
    let check = json!({"session_id": "cs_1", "tier": "quick", "query": "?", "raw": GOOD});
    assert_eq!(
        document(&post(routes, "/v1/crosscheck", &check).await)["threshold"],
        domain_verdict::tmm::OMEGA
    );
}

#[tokio::test]
async fn logged_operator_action_is_done_after_the_operator_disconnects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for n in 0..60 {
        let body = json!({"draining": n % 2 == 0}).to_string();
        let mut wire = WireConnection::connect(&world.control_socket()).await;
        wire.send(whole_post("/v1/drain", &[], body)).await.unwrap();
        // some clients disconnect before the daemon reads the request, some during the read, some after it
        sleep(Duration::from_micros(n * 200)).await;
    }
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    eventually("the last entry and the daemon agree", async || {
        let entries = log(control, "event=control_action").await;
        let logged = entries.last().is_some_and(|entry| entry["detail"] == "draining: true");
        let draining = document(&get(routes, "/readyz").await)["reasons"] == json!(["draining"]);
        logged == draining && !entries.is_empty()
    })
    .await;
}
