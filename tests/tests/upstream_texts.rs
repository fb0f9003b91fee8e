//! Upstreams whose errors and words quote the request. An erasure of the session removes their texts, and data that cannot be erased never have
//! them.

use crate::erasure::files_with;
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{read_verdict, wait_for_first_attempt, wait_for_order};
use oracled_tests::live::{LOCAL, ScriptedSource, empty, register_census, source, verify_census};
use oracled_tests::model::{ModelServer, ScriptedReply, gemini_answer};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, eventually, get, lines, log, post};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The services of a daemon, which quote what they get.
struct QuotingServices {
    model: ModelServer,
    mailbox: ModelServer,
    endpoint: ModelServer,
    payments: ScriptedSource,
}

impl QuotingServices {
    async fn start() -> Self {
        let (model, mailbox, endpoint) =
            (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
        Self { model, mailbox, endpoint, payments: ScriptedSource::start().await }
    }

    fn create_world(&self) -> DaemonWorld {
        let mut world = self.model.create_world(&format!(
            "[health]\nhealth_check_interval_seconds = 3600\nrecovery_threshold = 1\nfailure_threshold = 1000000\n\
             [orders]\ngenerations_max = 1\n[mail]\ntransport = \"http\"\nbase_url = \"{}\"\n{LOCAL}\
             [lookup]\npreset = \"stripe\"\nsession_url = \"{}/v1/{{session_id}}\"\n",
            self.mailbox.url(),
            self.payments.origin()
        ));
        world.configure_webhooks(Some(&self.endpoint.url()), &self.endpoint.url());
        world.variables.push(("LOOKUP_TOKEN".into(), "sk_test_not_a_real_key".into()));
        world.config.insert_str(0, "log_format = \"json\"\n");
        world
    }

    /// Lets each service quote `token` from now on.
    fn quote(&self, token: &str) {
        let quoted = format!("cannot handle <{token}@example.org>: \"What does {token} mean?\"");
        self.mailbox.set_default(ScriptedReply::bytes(502, quoted.clone()));
        self.endpoint.set_default(ScriptedReply::bytes(500, quoted.clone()).header("x-request-id", token));
        self.model.set_default(ScriptedReply::error(501, &quoted).header("x-request-id", token));
        self.payments
            .set_answer(empty("302 Found", &format!("location: https://{token}.example.net/{token}\r\n")));
    }
}

/// Answers with `token` as a word: one as the finish reason without a text, one as the version with a verdict.
fn words_of(token: &str) -> [ScriptedReply; 2] {
    let stopped = json!({"candidates": [{"finishReason": token}], "modelVersion": token});
    let mut answer = gemini_answer(GOOD);
    answer["modelVersion"] = json!(token);
    [&stopped, &answer].map(|answer| ScriptedReply::json(200, answer))
}

async fn request(routes: &mut DaemonClient, session: &str, token: &str) {
    let body = json!({
        "tier": "quick", "query": format!("What does {token} mean?"), "customer_email": format!("{token}@example.org"),
    });
    post(routes, &format!("/v1/verdicts/{session}"), &body).await;
}

/// Erases a session. A mail or a webhook that is being sent delays it.
async fn erase(world: &DaemonWorld, session: &str) {
    eventually("the session is erased", async || {
        let output = world.ctl_in_thread(&["erase", "--session", session, "--reason", "asked"]).await;
        let is_sending = String::from_utf8_lossy(&output.stderr).contains("mail_in_flight");
        assert!(output.status.success() || is_sending, "{session}: {output:?}");
        output.status.success()
    })
    .await;
}

/// The output of a daemon that cannot be erased: the service log, the health, the metrics.
async fn unerasable_texts(daemon: &DaemonProcess<'_>, world: &DaemonWorld) -> String {
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mut texts = world.service_log();
    for path in ["/v1/health/oracles", "/v1/health", "/metrics"] {
        texts.push_str(&String::from_utf8_lossy(&get(routes, path).await.body));
        texts.push_str(&String::from_utf8_lossy(&get(control, path).await.body));
    }
    texts + &document(&get(control, "/v1/status").await).to_string()
}

/// Uses three sessions with `token`: one whose call fails, one whose answer has no text, and one with a verdict. Then erases them.
async fn use_and_erase(
    daemon: &DaemonProcess<'_>,
    world: &DaemonWorld,
    services: &QuotingServices,
    round: usize,
) {
    let (token, routes, control) =
        (&*format!("zq{round}x7w"), &mut daemon.routes().await, &mut daemon.control().await);
    let [failed, stopped, delivered] =
        ["failed", "stopped", "delivered"].map(|way| format!("cs-{way}-{round}"));
    services.quote(token);
    assert!(read_verdict(routes, &format!("cs-unknown-{round}")).await.status.is_server_error());

    request(routes, &failed, token).await;
    let order = wait_for_first_attempt(routes, &failed).await;
    assert!(order.to_string().contains(token), "the text is in the attempts of the order: {order}");
    let changes = log(control, "event=oracle_health_changed&limit=1000").await;
    let change = changes.iter().find(|change| change["session_id"] == failed.as_str());
    let change = change.expect("the entry names the session");
    assert_eq!((&change["to"], &change["cause"]), (&json!("degraded"), &json!("a failure: HTTP status 501")));
    erase(world, &failed).await;

    services.model.next(words_of(token));
    request(routes, &stopped, token).await;
    wait_for_order(routes, &stopped, "failed").await;
    request(routes, &delivered, token).await;
    wait_for_order(routes, &delivered, "delivered").await;
    for (session, word) in [(&stopped, "finish_reason"), (&delivered, "oracle_version")] {
        let calls = log(control, &format!("session={session}&event=oracle_interaction")).await;
        assert_eq!(calls[0][word], "other", "{calls:?}");
    }
    for kind in ["verdict", "order.delivered"] {
        eventually("the message fails", async || {
            let failed = log(control, &format!("session={delivered}&event=message_failed")).await;
            failed.iter().any(|entry| entry["kind"] == kind)
        })
        .await;
    }
    assert!(!files_with(&world.state(), token).is_empty());
    for session in [&stopped, &delivered] {
        erase(world, session).await;
    }
    assert_eq!(files_with(&world.state(), token), Vec::<PathBuf>::new());
}

/// Erases three sessions in each of `rounds`, and searches all bytes afterwards.
async fn erase_what_upstreams_quote(rounds: usize) {
    let services = QuotingServices::start().await;
    let world = services.create_world();
    let daemon = world.serve().await;
    for round in 0..rounds {
        use_and_erase(&daemon, &world, &services, round).await;
    }
    let shown = unerasable_texts(&daemon, &world).await;
    assert!(shown.contains("HTTP status 502"), "the health has the class: {shown}");
    assert!(daemon.stop().success());
    let shown = shown + &world.service_log();
    for token in (0..rounds).map(|round| format!("zq{round}x7w")) {
        assert_eq!(files_with(&world.state(), &token), Vec::<PathBuf>::new());
        let line = shown.lines().find(|line| line.contains(&token));
        assert_eq!(line, None, "{token}");
    }
    let hits = shown.matches("x7w").count() + files_with(&world.state(), "x7w").len();
    println!("{} sessions erased, {hits} hits", 3 * rounds);
    assert_eq!(hits, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_an_upstream_quotes_is_in_no_file_after_an_erasure_and_never_in_the_service_log() {
    erase_what_upstreams_quote(2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "heavy: 102 erasures"]
async fn text_that_an_upstream_quotes_is_nowhere_after_100_erasures() {
    erase_what_upstreams_quote(34).await;
}

#[tokio::test]
async fn text_and_question_of_a_failed_live_source_are_only_in_the_verification() {
    let census = ScriptedSource::start().await;
    let world = DaemonWorld::with_config(&format!("log_format = \"json\"\n{LOCAL}"));
    let daemon = world.serve().await;
    source(&daemon, "census", "primary", &census.endpoint(), json!({})).await;
    register_census(&daemon, &["census"], json!({})).await;
    for answer in [
        empty("500 Zq1x7w", "x-request-id: zq1x7w\r\n"),
        empty("302 Found", "location: https://zq1x7w.example.net/ABW\r\n"),
        empty("200 OK", "content-encoding: zq1x7w\r\n"),
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nzq1x7w".to_owned(),
    ] {
        census.set_answer(answer);
        let envelope = verify_census(&daemon).await;
        assert_ne!(envelope["kind"], "authoritative", "{envelope}");
    }
    let control = &mut daemon.control().await;
    let changes = log(control, "event=oracle_health_changed&limit=1000").await;
    assert!(!changes.is_empty());
    let unmarked: Vec<Value> = lines(world.service_log().as_bytes());
    assert!(
        unmarked.iter().any(|line| line["fields"]["message"] == "live source failed; retrying"),
        "{unmarked:?}"
    );
    let shown = json!(changes).to_string() + &unerasable_texts(&daemon, &world).await;
    for quoted in ["zq1x7w", "Zq1x7w", "ABW/1960"] {
        assert!(!shown.contains(quoted), "{quoted}: {:?}", shown.lines().find(|line| line.contains(quoted)));
    }
}
