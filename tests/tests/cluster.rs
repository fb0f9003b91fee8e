//! Several daemons with one log in PostgreSQL.

use crate::rules_gate::{FACTS, UNFOUNDED};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::cluster::TestCluster;
use oracled_tests::disk;
use oracled_tests::generation::{
    coherent_answer, generation_request, place_order, purge_verdict, read_metric, read_order, read_verdict,
    register_session, request_order, request_verdict, retry_after_s, world_with_model, x_cache,
};
use oracled_tests::model::{ModelServer, ScriptedReply, gemini_answer};
use oracled_tests::partition::{Cut, CuttableNetwork};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, document, eventually, get, log, post, problem, submission,
};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::time::Duration;
use tokio::task::JoinSet;

/// Starts the server of a cluster. Without PostgreSQL the test ends, except in CI.
pub(crate) fn start_cluster() -> Option<TestCluster> {
    let cluster = TestCluster::start();
    assert!(cluster.is_some() || env::var_os("CI").is_none(), "CI has PostgreSQL");
    cluster
}

fn world(cluster: &TestCluster, host: &str) -> DaemonWorld {
    DaemonWorld::with_config(&cluster.config(host))
}

/// Checks that each host's log is the beginning of the longest one.
pub(crate) fn assert_prefixes(worlds: &[&DaemonWorld]) {
    let mut logs: Vec<_> = worlds.iter().map(|world| world.mirror()).collect();
    logs.sort_by_key(String::len);
    let longest = logs.pop().expect("a host");
    assert!(!longest.is_empty());
    for log in logs {
        assert!(longest.starts_with(&log), "{} and {} bytes", log.len(), longest.len());
    }
}

/// Stops the hosts, and checks that each has a whole log, which continues the present one of the first host.
pub(crate) async fn stop_and_check<'w>(
    hosts: impl IntoIterator<Item = DaemonProcess<'w>>,
    worlds: &[impl Borrow<DaemonWorld>],
) {
    let worlds: Vec<&DaemonWorld> = worlds.iter().map(Borrow::borrow).collect();
    let read = async |verb| {
        let output = worlds[0].ctl_in_thread(&["log", verb]).await;
        String::from_utf8(output.stdout).expect("valid UTF-8")
    };
    let (key, checkpoint) = (read("key").await, read("checkpoint").await);
    let since = worlds[0].path("checkpoint");
    fs::write(&since, checkpoint).expect("it is written");
    for host in hosts {
        assert!(host.stop().success());
    }
    assert_prefixes(&worlds);
    for world in worlds {
        let mut verify = world.ctl_command(&["verify-log", "--key", key.trim(), "--since"]);
        // a long log may take longer than other commands
        let verified = verify.arg(&since).arg(world.state()).output().expect("the program starts");
        assert!(verified.status.success(), "{verified:?}");
    }
}

/// A model that answers each request with a coherent verdict after a delay.
pub(crate) async fn coherent_model(delay: Duration) -> ModelServer {
    let model = ModelServer::start().await;
    let text = coherent_answer(ProductTier::Quick, VerdictLabel::Green);
    model.set_default(ScriptedReply::json(200, &gemini_answer(&text)).after(delay));
    model
}

async fn status(world: &DaemonWorld) -> Value {
    let output = world.ctl_in_thread(&["cluster", "status", "--json"]).await;
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn verdict_of_one_host_is_read_at_once_on_the_other_as_it_was_delivered() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let first = cluster.init(&a).await;
    let delivered = post(&mut first.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    let second = cluster.join(&b, &a).await;
    let (mut one, mut other) = (first.routes().await, second.routes().await);
    assert_eq!(
        document(&get(&mut other, "/v1/verdicts/cs_1").await),
        document(&get(&mut one, "/v1/verdicts/cs_1").await)
    );
    for n in 2..40 {
        let (writer, reader) = if n % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        let path = format!("/v1/verdicts/cs_{n}");
        problem(&get(reader, &format!("/cache/cs_{n}")).await, 404, "verdict_not_cached");
        let delivered = post(writer, &path, &submission(GOOD)).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
        let read = get(reader, &path).await;
        assert_eq!((read.status.as_u16(), x_cache(&read)), (200, Some("HIT")), "{}", document(&read));
        assert_eq!(document(&read), document(&get(writer, &path).await));
    }
    for (world, host) in [(&a, &first), (&b, &second)] {
        let output = world.ctl_in_thread(&["status"]).await;
        let shown = String::from_utf8(output.stdout).expect("valid UTF-8");
        assert!(shown.lines().any(|line| line.starts_with("cluster")), "{shown}");
        let routes = &mut host.routes().await;
        assert_eq!(read_metric(routes, "oracled_cluster_lag_entries").await, 0.0);
        assert!(read_metric(routes, "oracled_cluster_append_seconds_count").await > 19.0);
        assert!(read_metric(routes, "oracled_cluster_wait_seconds_count").await > 0.0);
        assert!(read_metric(routes, "oracled_cluster_contact_age_seconds").await < 5.0);
    }
    eventually("each host sees both", async || {
        let (one, other) = (status(&a).await, status(&b).await);
        let turns = [&one, &other].iter().filter(|host| host["has_work"] == true).count();
        let seen = |report: &Value| report["hosts"].as_array().map_or(0, Vec::len);
        (seen(&one), seen(&other), turns) == (2, 2, 1)
    })
    .await;
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn reload_reads_the_keys_so_that_they_are_rotated_without_a_restart() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    let (mut one, mut other) = (first.routes().await, second.routes().await);
    let (old, new) = (cluster.keys(), format!("2026-12 {}\n", BASE64_STANDARD.encode([8; 32])));
    let mut posted = Vec::new();
    cluster.set_keys("2026-12 AAAA");
    assert_eq!(a.ctl_in_thread(&["reload"]).await.status.code(), Some(1), "it is no key");
    for (number, keys) in [format!("{old}{new}"), format!("{new}{old}"), new].into_iter().enumerate() {
        cluster.set_keys(&keys);
        // the other host reads it later, and both write meanwhile
        for world in [&a, &b] {
            let reloaded = world.ctl_in_thread(&["--json", "reload"]).await;
            let reloaded: Value = serde_json::from_slice(&reloaded.stdout).expect("JSON");
            assert_eq!(reloaded["changed_credentials"], serde_json::json!(["cluster.keys_file"]));
            for host in ["a", "b"] {
                let (writer, reader) =
                    if host == "a" { (&mut one, &mut other) } else { (&mut other, &mut one) };
                let path = format!("/v1/verdicts/{host}_{number}_{}", posted.len());
                assert_eq!(post(writer, &path, &submission(GOOD)).await.status, 201);
                assert_eq!(get(reader, &path).await.status, 200);
                posted.push(path);
            }
        }
    }
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn reload_gives_a_host_the_key_that_it_lacks() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    cluster.set_keys(&format!("2026-12 {}\n{}", BASE64_STANDARD.encode([8; 32]), cluster.keys()));
    assert!(a.ctl_in_thread(&["reload"]).await.status.success());
    assert_eq!(post(&mut first.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let mut routes = second.routes().await;
    eventually("the other host lacks the key", async || get(&mut routes, "/readyz").await.status == 503)
        .await;
    assert_eq!(status(&b).await["keys"], json!(["2026-11"]));
    let reloaded = b.ctl_in_thread(&["reload"]).await;
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(status(&b).await["keys"], json!(["2026-12", "2026-11"]));
    eventually("it has the verdict", async || get(&mut routes, "/v1/verdicts/cs_1").await.status == 200)
        .await;
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn session_has_one_verdict_for_equal_submissions_to_two_hosts() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    let mut calls = JoinSet::new();
    for caller in 0..8_usize {
        let mut routes = if caller.is_multiple_of(2) { first.routes().await } else { second.routes().await };
        calls.spawn(async move {
            let mut created = Vec::new();
            for n in 0..30 {
                let summary = format!("A plan of caller {caller}.");
                let body = submission(&format!(r#"{{"verdict":"GREEN","summary":"{summary}"}}"#));
                let answer = post(&mut routes, &format!("/v1/verdicts/cs_{n}"), &body).await;
                match answer.status.as_u16() {
                    201 => created.push(n),
                    200 => assert_eq!(document(&answer)["replayed"], true),
                    _ => panic!("{}", document(&answer)),
                }
            }
            created
        });
    }
    let mut created = BTreeMap::new();
    while let Some(of_caller) = calls.join_next().await {
        for n in of_caller.expect("no answer is wrong") {
            *created.entry(n).or_insert(0) += 1;
        }
    }
    assert_eq!(created, (0..30).map(|n| (n, 1)).collect(), "each session was created once");
    let (mut one, mut other) = (first.routes().await, second.routes().await);
    for n in 0..30 {
        let path = format!("/v1/verdicts/cs_{n}");
        assert_eq!(document(&get(&mut one, &path).await), document(&get(&mut other, &path).await));
    }
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn lost_verdict_is_regenerated_once_for_reads_on_both_hosts() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::from_millis(300)).await;
    let (a, b) = (cluster.world("a", &model.url(), ""), cluster.world("b", &model.url(), ""));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    for n in 0..5 {
        let session = format!("cs_{n}");
        let answer = request_verdict(&mut first.routes().await, &session).await;
        assert_eq!(answer.status, 201, "{}", document(&answer));
        purge_verdict(&mut second.control().await, &session).await;
        let calls = model.request_count();
        let mut reads = JoinSet::new();
        for reader in 0..6_usize {
            let mut routes =
                if reader.is_multiple_of(2) { first.routes().await } else { second.routes().await };
            let session = session.clone();
            reads.spawn(async move { read_verdict(&mut routes, &session).await });
        }
        let answers = reads.join_all().await;
        let texts: Vec<_> = answers
            .iter()
            .map(|answer| (answer.status.as_u16(), document(answer)["verdict"].clone()))
            .collect();
        assert!(texts.iter().all(|text| *text == (200, texts[0].1.clone())), "{texts:?}");
        assert_eq!(model.request_count(), calls + 1, "one call for session {n}");
    }
    for host in [&first, &second] {
        let mut control = host.control().await;
        eventually("each host counts the regenerations of both", async || {
            document(&get(&mut control, "/v1/status").await)["variance"]["regens"] == 5
        })
        .await;
    }
}

#[tokio::test]
async fn failed_regeneration_has_one_answer_for_reads_on_both_hosts() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    let config = "max_retries = 0";
    let (a, b) = (cluster.world("a", &model.url(), config), cluster.world("b", &model.url(), config));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    for (n, reply, status, code) in [
        (1, ScriptedReply::with_text("no JSON"), 422, "crosscheck_rejected"),
        (2, ScriptedReply::error(400, "no"), 502, "model_refused_request"),
        (3, ScriptedReply::with_text(""), 502, "model_refused"),
        (4, ScriptedReply::with_text(UNFOUNDED), 422, "rules_rejected"),
    ] {
        let session = format!("cs_{n}");
        let mut body = submission(GOOD);
        if code == "rules_rejected" {
            body["facts"] = json!(FACTS);
        }
        let stored = post(&mut first.routes().await, &format!("/v1/verdicts/{session}"), &body).await;
        assert_eq!(stored.status, 201, "{}", document(&stored));
        purge_verdict(&mut second.control().await, &session).await;
        let mut routes = first.routes().await;
        eventually("the other host has forgotten it", async || {
            get(&mut routes, &format!("/cache/{session}")).await.status == 404
        })
        .await;
        let calls = model.request_count();
        model.next([reply.after(Duration::from_millis(800))]);
        let mut reads = JoinSet::new();
        for reader in 0..6_usize {
            let mut routes =
                if reader.is_multiple_of(2) { first.routes().await } else { second.routes().await };
            let session = session.clone();
            reads.spawn(async move { read_verdict(&mut routes, &session).await });
        }
        let answers = reads.join_all().await;
        let documents: Vec<_> = answers.iter().map(|answer| problem(answer, status, code)).collect();
        for document in &documents {
            assert_eq!(document["decision"], documents[0]["decision"], "{document}");
        }
        let waits: BTreeSet<_> = answers.iter().map(|answer| retry_after_s(answer).is_some()).collect();
        assert_eq!(waits.len(), 1, "{answers:?}");
        assert_eq!(model.request_count(), calls + 1, "one call for session {n}");
        for host in [&first, &second] {
            problem(&read_verdict(&mut host.routes().await, &session).await, 429, "regen_rate_limited");
        }
        let failed = log(&mut first.control().await, &format!("event=regen_failed&session={session}")).await;
        assert_eq!(failed.len(), 1);
    }
    assert!(!a.written().contains("Q7X"), "the text of a refused verdict is not stored");
}

#[tokio::test]
async fn hosts_share_the_calls_per_minute_of_a_model() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    // one call at once, then one in 20 s
    let config = "calls_per_minute = 4";
    let (a, b) = (cluster.world("a", &model.url(), config), cluster.world("b", &model.url(), config));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    for session in ["cs_1", "cs_2"] {
        register_session(&mut first.routes().await, session, None).await;
    }
    assert_eq!(read_verdict(&mut first.routes().await, "cs_1").await.status, 200);
    let busy = read_verdict(&mut second.routes().await, "cs_2").await;
    problem(&busy, 503, "model_busy");
    assert!(retry_after_s(&busy).is_some_and(|wait_s| (1..=20).contains(&wait_s)), "{busy:?}");
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn order_of_a_killed_host_is_made_by_the_other() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    let config = "deadline_ms = 2000";
    let (a, b) = (cluster.world("a", &model.url(), config), cluster.world("b", &model.url(), config));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    eventually("one host has the lease work", async || status(&a).await["has_work"] == true).await;
    // one attempt is in progress when its host is killed, and the others wait
    model.next([ScriptedReply::silence()]);
    for n in 0..4 {
        let session = format!("cs_{n}");
        let placed = request_order(&a.socket(), &session, &generation_request(ProductTier::Quick)).await;
        assert_eq!(placed.status, 202, "{}", document(&placed));
    }
    eventually("an attempt is in progress", async || model.request_count() > 0).await;
    first.kill();
    let mut routes = second.routes().await;
    for n in 0..4 {
        let session = format!("cs_{n}");
        eventually("the order is delivered", async || {
            read_order(&mut routes, &session).await["state"] == "delivered"
        })
        .await;
    }
    let delivered = log(&mut second.control().await, "event=order_delivered&after=0").await;
    assert_eq!(delivered.len(), 4, "each once");
}

#[tokio::test]
async fn host_without_the_server_serves_hits_and_refuses_all_else_until_it_is_back() {
    let Some(mut cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    let a = cluster.world("a", &model.url(), "");
    let first = cluster.init(&a).await;
    let mut routes = first.routes().await;
    assert_eq!(post(&mut routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    cluster.stop_server();
    assert_eq!(get(&mut routes, "/v1/verdicts/cs_1").await.status, 200);
    for _ in 0..2 {
        problem(&post(&mut routes, "/v1/verdicts/cs_2", &submission(GOOD)).await, 503, "storage_unavailable");
        problem(&get(&mut routes, "/v1/verdicts/cs_3").await, 503, "storage_unavailable");
        problem(&get(&mut routes, "/v1/orders").await, 503, "storage_unavailable");
        problem(&request_verdict(&mut routes, "cs_4").await, 503, "storage_unavailable");
    }
    assert_eq!(model.request_count(), 0, "no model is asked for what cannot be stored");
    assert_eq!(get(&mut routes, "/readyz").await.status, 503);
    assert!(status(&a).await["failure"].is_string());
    assert_eq!(a.ctl_in_thread(&["cluster", "status"]).await.status.code(), Some(4));
    let report = document(&get(&mut first.control().await, "/v1/status").await);
    assert!(report["reasons"][0].as_str().is_some_and(|reason| reason.starts_with("storage_unavailable")));
    assert!(report["cluster"]["failure"].is_string(), "{report}");
    assert!(read_metric(&mut routes, "oracled_cluster_failures_total").await > 0.0);
    assert_eq!(get(&mut routes, "/v1/verdicts/cs_1").await.status, 200);
    cluster.start_server();
    eventually("the host is ready again", async || get(&mut routes, "/readyz").await.status == 200).await;
    assert_eq!(post(&mut routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    assert!(first.stop().success());
}

#[tokio::test]
async fn host_that_is_cut_off_does_not_answer_that_something_is_missing() {
    let Some(cluster) = start_cluster() else { return };
    let model = coherent_model(Duration::ZERO).await;
    let network = CuttableNetwork::to(&cluster.server.as_ref().expect("it runs").socket());
    let config = cluster.config_behind("b", &network) + "deadline_ms = 1000\n";
    let (a, b) = (cluster.world("a", &model.url(), ""), world_with_model(&model.url(), &config));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    let (mut one, mut other) = (first.routes().await, second.routes().await);
    assert_eq!(post(&mut one, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    // a busy machine can take longer than the deadline
    eventually("the other host answers", async || get(&mut other, "/cache/cs_1").await.status == 200).await;
    assert_eq!(at(&get(&mut other, "/v1/orders").await, "/items"), json!([]));
    network.cut(Cut { to_server: true, to_client: true });
    assert_eq!(post(&mut one, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    place_order(&a, "cs_3").await;
    for _ in 0..2 {
        problem(&get(&mut other, "/cache/cs_2").await, 503, "storage_unavailable");
        problem(&get(&mut other, "/v1/orders").await, 503, "storage_unavailable");
        assert_eq!(get(&mut other, "/cache/cs_1").await.status, 200);
    }
    network.cut(Cut::default());
    eventually("the host has contact again", async || {
        let read = get(&mut other, "/cache/cs_2").await;
        assert!(matches!(read.status.as_u16(), 200 | 503), "{}", document(&read));
        read.status == 200
    })
    .await;
    assert_eq!(at(&get(&mut other, "/v1/orders").await, "/items/0/session_id"), "cs_3");
    stop_and_check([first, second], &[&a, &b]).await;
}

#[tokio::test]
async fn host_that_cannot_write_gives_the_work_to_another() {
    let Some(cluster) = start_cluster() else { return };
    let (mut a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    assert!(disk::can_be_filled(&mut a));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    let works = async |number: usize| {
        let leases = status(&b).await["hosts"][number]["leases"].clone();
        leases.as_array().is_some_and(|leases| leases.contains(&json!("work")))
    };
    eventually("the first host has the work", async || works(0).await).await;
    disk::fill(&first, &a.state());
    let large = json!({"verdict": "GREEN", "summary": "large ".repeat(80_000)});
    let (mut routes, mut number) = (first.routes().await, 0);
    eventually("the disk is full", async || {
        number += 1;
        let path = format!("/v1/verdicts/large_{number}");
        post(&mut routes, &path, &submission(&large.to_string())).await.status == 503
    })
    .await;
    eventually("the other host has the work", async || works(1).await).await;
    disk::empty(&first);
    eventually("the host is ready again", async || get(&mut routes, "/readyz").await.status == 200).await;
    assert!(first.stop().success() && second.stop().success());
    assert_prefixes(&[&a, &b]);
}

#[tokio::test]
async fn removed_host_ends_and_a_host_that_left_is_not_started_again() {
    let Some(cluster) = start_cluster() else { return };
    let (a, b, c) = (world(&cluster, "a"), world(&cluster, "b"), world(&cluster, "c"));
    let first = cluster.init(&a).await;
    let second = cluster.join(&b, &a).await;
    let third = cluster.join(&c, &a).await;
    assert_eq!(post(&mut second.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let unknown = a.ctl_in_thread(&["cluster", "remove", "d"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let too_early = a.ctl_in_thread(&["cluster", "leave", "--last"]).await;
    assert!(!too_early.status.success(), "{too_early:?}");
    let actions = log(&mut first.control().await, "event=control_action").await;
    let details: Vec<_> = actions.iter().filter_map(|entry| entry["detail"].as_str()).collect();
    let expected =
        ["remove d", "remove d: refused", "leave as the last host", "leave as the last host: refused"];
    assert!(details.ends_with(&expected), "{details:?}");
    assert!(a.ctl_in_thread(&["cluster", "remove", "b"]).await.status.success());
    assert!(!second.wait().success(), "{}", b.service_log());
    assert!(!b.run_until_exit().status.success(), "it does not enter again by itself");
    assert!(c.ctl_in_thread(&["cluster", "leave"]).await.status.success());
    assert!(third.wait().success(), "{}", c.service_log());
    assert!(!c.run_until_exit().status.success());
    let not_as_last = a.ctl_in_thread(&["cluster", "leave"]).await;
    assert!(!not_as_last.status.success(), "{not_as_last:?}");
    let last = a.ctl_in_thread(&["cluster", "leave", "--last"]).await;
    assert!(last.status.success(), "{last:?}");
    assert!(first.wait().success());
    assert!(!a.run_until_exit().status.success(), "`cluster.host` is still set");
    let mut alone = a;
    alone.config = String::new();
    let daemon = alone.serve().await;
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await.status, 200);
}

#[tokio::test]
async fn end_of_a_cluster_is_completed_after_a_lost_answer() {
    let Some(cluster) = start_cluster() else { return };
    let url = cluster.server.as_ref().expect("it runs").url();
    for is_killed in [false, true] {
        let mut a = world(&cluster, "a");
        let first = cluster.init(&a).await;
        assert_eq!(post(&mut first.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
        // as a host leaves it whose answer is lost
        let marker = json!({"state": "leaving", "host": "a", "removed_up_to": 0});
        fs::write(a.state().join("cluster"), marker.to_string()).expect("it is written");
        let url = url.clone();
        let dropped = tokio::task::spawn_blocking(move || {
            let mut client = postgres::Client::connect(&url, postgres::NoTls).expect("the server runs");
            let tables = ["key", "meter", "lease", "host", "group", "cluster"];
            let tables: Vec<_> = tables.iter().map(|name| format!("oracled_{name}")).collect();
            client.batch_execute(&format!("DROP TABLE {}", tables.join(", "))).expect("they are dropped");
        });
        dropped.await.expect("no panic");
        if is_killed {
            first.kill();
            assert!(!a.run_until_exit().status.success(), "`cluster.host` is still set");
        } else {
            let last = a.ctl_in_thread(&["cluster", "leave", "--last"]).await;
            assert!(last.status.success(), "{last:?}");
            assert!(first.wait().success());
        }
        assert!(!a.state().join("cluster").exists());
        a.config = String::new();
        let daemon = a.serve().await;
        assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await.status, 200);
    }
}

#[tokio::test]
async fn host_with_another_configuration_joins_only_if_allowed_and_is_reported() {
    let Some(cluster) = start_cluster() else { return };
    let gate = "[gate]\ncoherence_min = 0.99\n";
    let (a, b) = (world(&cluster, "a"), DaemonWorld::with_config(&format!("{gate}{}", cluster.config("b"))));
    let first = cluster.init(&a).await;
    eventually("the first host has reported itself", async || {
        status(&a).await["hosts"][0]["config"]["gate"].is_string()
    })
    .await;
    cluster.restore(&b, &a).await;
    let refused = b.run_until_exit();
    assert!(!refused.status.success(), "{refused:?}");
    fs::remove_dir_all(b.state()).expect("it is removed");
    cluster.restore_with(&b, &a, &["--allow-different-config"]).await;
    let second = b.serve().await;
    for (one, host, other) in [(&first, &a, "b"), (&second, &b, "a")] {
        eventually("the difference is reported", async || {
            status(host).await["config_differences"] == json!([{"host": other, "sections": ["gate"]}])
        })
        .await;
        let routes = &mut one.routes().await;
        assert_eq!(read_metric(routes, "oracled_cluster_config_differences").await, 1.0);
        assert_eq!(
            get(routes, "/readyz").await.status,
            200,
            "a change on one host after the other is no fault"
        );
    }
    assert!(second.stop().success());
    assert!(b.serve().await.stop().success(), "a host that has joined starts again");
}

#[tokio::test]
async fn store_and_configuration_must_agree_on_the_cluster() {
    let Some(cluster) = start_cluster() else { return };
    let a = world(&cluster, "a");
    let refused = a.run_until_exit();
    assert!(!refused.status.success() && !refused.stderr.is_empty());
    let first = cluster.init(&a).await;
    assert!(first.stop().success());
    let mut alone = a;
    alone.config = String::new();
    assert!(!alone.run_until_exit().status.success(), "a host of a cluster does not write alone");
}
