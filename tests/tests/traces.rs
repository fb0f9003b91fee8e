//! `traceparent` (W3C Trace Context): from a request into the log and the calls that the request causes.

use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{coherent_answer, generation_request, wait_for_order};
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::wire::{WireConnection, post as whole_post};
use oracled_tests::{eventually, log, read_whole_log};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Asks for a verdict that the model generates, with these headers.
async fn order(socket: &Path, session: &str, headers: &[(&str, &str)]) {
    let mut body = generation_request(ProductTier::Quick);
    body["customer_email"] = json!("customer@example.org");
    let headers = [headers, &[("prefer", "respond-async")]].concat();
    let request = whole_post(&format!("/v1/verdicts/{session}"), &headers, body.to_string());
    let answer = WireConnection::connect(socket).await.exchange(request).await.expect("an answer");
    // the model answers at once, and on a busy machine the verdict can be there before the order is reported
    assert!(matches!(answer.status.as_u16(), 201 | 202), "{}", answer.status);
}

fn traceparents(server: &ModelServer) -> Vec<String> {
    let of = |request: &ReceivedRequest| request.header("traceparent").map(str::to_owned);
    server.requests().iter().filter_map(of).collect()
}

#[tokio::test]
async fn trace_of_a_request_is_in_its_entries_and_in_all_calls_that_it_causes() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let (endpoint, operators) = (ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Green)));
    // a mail that is sent again belongs to the same trace
    mailbox.set_default(ScriptedReply::bytes(503, ""));
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let mut world = model.create_world(&format!(
        "[mail]\ntransport = \"http\"\nbase_url = \"{}\"\n[health]\nhealth_check_interval_seconds = 3600",
        mailbox.url()
    ));
    world.configure_webhooks(Some(&endpoint.url()), &operators.url());
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    let daemon = world.serve().await;
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let state = ("tracestate", "vendor=opaque");
    order(&world.socket(), "cs_1", &[("traceparent", &traceparent), state]).await;
    wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
    for (server, calls) in [(&model, 1), (&mailbox, 2), (&endpoint, 1)] {
        eventually("the calls have the trace", async || traceparents(server).len() >= calls).await;
    }
    let mut spans = BTreeSet::new();
    for sent in [&model, &mailbox, &endpoint].into_iter().flat_map(traceparents) {
        let fields: Vec<_> = sent.split('-').collect();
        assert_eq!((fields[0], fields[1], fields[3]), ("00", TRACE, "01"), "{sent}");
        assert!(
            fields[2] != PARENT && spans.insert(fields[2].to_owned()),
            "each call has a new span: {sent}"
        );
    }
    for server in [&model, &mailbox, &endpoint] {
        assert!(server.requests().iter().all(|request| request.header("tracestate").is_none()));
    }
    let entries = log(&mut daemon.control().await, "session=cs_1&after=0").await;
    let traced = entries.iter().filter(|entry| entry["caller"]["trace_id"] == TRACE);
    let traced: Vec<_> = traced.filter_map(|entry| entry["event"].as_str()).collect();
    assert!(traced.contains(&"order_placed") && traced.contains(&"verdict_cached"), "{entries:?}");
    let shown = world.ctl_in_thread(&["log", "--session", "cs_1"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!(" trace {TRACE}]")), "{shown}");
}

#[tokio::test]
async fn request_without_a_valid_traceparent_has_no_trace() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Green)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let valid = format!("00-{TRACE}-{PARENT}-01");
    let invalid = format!("00-{TRACE}-{PARENT}-01-more");
    for (session, headers) in [
        ("cs_1", vec![]),
        ("cs_2", vec![("traceparent", &*invalid)]),
        ("cs_3", vec![("traceparent", &*valid), ("traceparent", &*valid)]),
    ] {
        order(&world.socket(), session, &headers).await;
        wait_for_order(&mut daemon.routes().await, session, "delivered").await;
    }
    assert_eq!(traceparents(&model), Vec::<String>::new());
    let entries = read_whole_log(&mut daemon.control().await).await;
    assert!(entries.iter().any(|entry| entry["caller"].is_object()), "{entries:?}");
    assert!(entries.iter().all(|entry| entry["caller"].get("trace_id").is_none()), "{entries:?}");
}
