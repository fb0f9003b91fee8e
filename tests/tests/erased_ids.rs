//! The ids of erased sessions: no file of the state directory and no later backup has one, however the session was used.

use crate::erasure::files_with;
use domain_verdict::label::VerdictLabel;
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{
    QUERY, place_order, purge_verdict, read_verdict, register_session, request_verdict, wait_for_order,
};
use oracled_tests::ground::{approve, ingest, register, started_run, wait_for_run};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification::{self, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, call, document, eventually, log, post, submission};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The part that all ids have.
const PERSON: &str = "ada-q7x42";
/// An approved verdict that the policy holds.
const FLAGGED: &str = r#"{"verdict":"GREEN","summary":"Fine."}"#;
const RED: &str = r#"{"verdict":"RED","summary":"The plan cannot work at all."}"#;
const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;
const SOURCE: &str = "world-bank-population";
const AXES: [&str; 2] = ["area_name", "population"];
const TRUE_TEXT: &str = "The population of Aruba in 2015 was 107906.";

/// The ways to use a session, each with a session of its own.
const WAYS: [&str; 13] = [
    "submitted",
    "generated",
    "held",
    "failed",
    "cancelled",
    "regenerated",
    "diverged",
    "mailed",
    "verified_facts",
    "rejected_by_rules",
    "webhook_failed",
    "reviewed",
    "cache_written",
];

fn session(way: &str) -> String {
    format!("{PERSON}-{way}")
}

/// The services that a daemon calls.
pub(crate) struct Services {
    model: ModelServer,
    mailbox: ModelServer,
    endpoint: ModelServer,
}

impl Services {
    pub(crate) async fn start() -> Self {
        let (model, mailbox, endpoint) =
            (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
        mailbox.set_default(ScriptedReply::json(200, &json!({})));
        endpoint.set_default(ScriptedReply::bytes(503, "down"));
        Self { model, mailbox, endpoint }
    }

    pub(crate) fn create_world(&self) -> DaemonWorld {
        let mut world = self.model.create_world(&format!(
            "[storage]\nerase_session_ids = true\n[gate]\nhold = [\"short_summary\"]\n\
             [orders]\ngenerations_max = 1\n\
             [mail]\ntransport = \"http\"\nbase_url = \"{}\"\n\
             [ingestion]\nallow_local = [\"127.0.0.1/32\"]\n",
            self.mailbox.url()
        ));
        world.configure_webhooks(Some(&self.endpoint.url()), &self.endpoint.url());
        world
    }
}

/// Uses a session in each way.
pub(crate) async fn use_all_sessions(daemon: &DaemonProcess<'_>, world: &DaemonWorld, services: &Services) {
    let control = &mut daemon.control().await;
    register(control, SOURCE).await;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth/data");
    let data = fs::read(data.join(SOURCE).join("2026-03-06.csv")).expect("the file exists");
    let started = started_run(&ingest(control, SOURCE, "2026-03-06", "2026-03-06", data).await);
    wait_for_run(control, &started).await;
    approve(control, SOURCE).await;
    verification::register(control, &workflow("people", &[SOURCE], json!({"axes": AXES}))).await;
    for way in WAYS {
        use_session(daemon, world, services, way).await;
    }
}

/// Uses a session in one way.
async fn use_session(daemon: &DaemonProcess<'_>, world: &DaemonWorld, services: &Services, way: &str) {
    let (id, model) = (&*session(way), &services.model);
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    match way {
        "submitted" | "webhook_failed" => submit(routes, id, json!({}), 201).await,
        "generated" => {
            model.next([ScriptedReply::bytes(503, "later"), ScriptedReply::with_text(GOOD)]);
            assert_eq!(request_verdict(routes, id).await.status, 201);
        }
        "held" | "reviewed" => {
            order(world, routes, model, id, FLAGGED, "held").await;
            if way == "reviewed" {
                decide(control, id, "release").await;
            }
        }
        "failed" => order(world, routes, model, id, UNUSABLE, "failed").await,
        "cancelled" => {
            order(world, routes, model, id, FLAGGED, "held").await;
            let path = format!("/v1/orders/{id}");
            assert_eq!(call(routes, Method::DELETE, &path, None).await.status, 200);
        }
        "regenerated" | "diverged" => {
            submit(routes, id, json!({"customer_email": "ada@example.org"}), 201).await;
            purge_verdict(control, id).await;
            let text = if way == "diverged" { RED } else { GOOD };
            model.next([ScriptedReply::with_text(text)]);
            assert_eq!(read_verdict(routes, id).await.status, 200);
        }
        "mailed" => submit(routes, id, json!({"customer_email": "ada@example.org"}), 201).await,
        "verified_facts" => {
            let verify = json!({"verify": {"workflow": "people", "where": {"area": "ABW", "year": 2015}, "axes": AXES}});
            let raw = json!({"verdict": "GREEN", "summary": TRUE_TEXT}).to_string();
            let facts = json!({"raw": raw, "facts_from": [verify]});
            submit(routes, id, facts, 201).await;
        }
        "rejected_by_rules" => submit(routes, id, json!({"facts": ["Ice melts."]}), 422).await,
        "cache_written" => {
            register_session(routes, id, Some(VerdictLabel::Green)).await;
            let verdict: Value = serde_json::from_str(GOOD).expect("JSON");
            let body = json!({"tier": "quick", "query": QUERY, "verdict": verdict});
            let written = post(routes, &format!("/cache/{id}"), &body).await;
            assert!(written.status.is_success(), "{}", document(&written));
        }
        other => unreachable!("{other}"),
    }
}

async fn submit(routes: &mut DaemonClient, id: &str, members: Value, status: u16) {
    let mut body = submission(GOOD);
    let (Value::Object(all), Value::Object(members)) = (&mut body, members) else { unreachable!("objects") };
    all.extend(members);
    let answer = post(routes, &format!("/v1/verdicts/{id}"), &body).await;
    assert_eq!(answer.status, status, "{}", document(&answer));
}

/// Orders a verdict for which the model gives this answer.
async fn order(
    world: &DaemonWorld,
    routes: &mut DaemonClient,
    model: &ModelServer,
    id: &str,
    answer: &str,
    state: &str,
) {
    model.next([ScriptedReply::with_text(answer)]);
    place_order(world, id).await;
    wait_for_order(routes, id, state).await;
}

async fn decide(control: &mut DaemonClient, id: &str, action: &str) {
    let body = json!({"action": action, "reason": "checked"});
    let answer = post(control, &format!("/v1/orders/{id}"), &body).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Runs `oraclectl` beside the services.
async fn run(world: &DaemonWorld, arguments: &[&str]) {
    let output = world.ctl_in_thread(arguments).await;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn id_of_an_erased_session_is_in_no_file_however_it_was_used() {
    let services = Services::start().await;
    let world = services.create_world();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    use_all_sessions(&daemon, &world, &services).await;
    eventually("a notice of the divergence is sent", async || {
        log(control, "event=message_sent").await.iter().any(|entry| entry["kind"] == "divergence_notice")
    })
    .await;
    eventually("webhooks failed", async || !log(control, "event=message_failed").await.is_empty()).await;
    for event in ["oracle_interaction", "order_cancelled", "order_stopped", "order_released"] {
        assert!(!log(control, &format!("event={event}")).await.is_empty(), "{event}");
    }
    assert!(!files_with(&world.state(), PERSON).is_empty());

    for way in WAYS {
        // a webhook that is being sent delays an erasure
        eventually("the session is erased", async || {
            let id = session(way);
            let output = world.ctl_in_thread(&["erase", "--session", &id, "--reason", "ticket 7"]).await;
            let is_sending = String::from_utf8_lossy(&output.stderr).contains("mail_in_flight");
            assert!(output.status.success() || is_sending, "{way}: {output:?}");
            output.status.success()
        })
        .await;
    }
    let backup = world.path("backup");
    run(&world, &["backup", backup.to_str().expect("valid UTF-8")]).await;
    for dir in [&world.state(), &backup] {
        assert_eq!(files_with(dir, PERSON), Vec::<PathBuf>::new());
    }
    let key = String::from_utf8(world.ctl_in_thread(&["log", "key"]).await.stdout).expect("valid UTF-8");
    run(&world, &["verify-log", backup.to_str().expect("valid UTF-8"), "--key", key.trim()]).await;
    assert!(daemon.stop().success());
    assert_eq!(files_with(&world.state(), PERSON), Vec::<PathBuf>::new(), "after the stop");
}
