//! An answer of the model that the rules rejected is asked again with its faults, and its text is not stored.

use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{
    generation_request, purge_verdict, read_order, read_verdict, request_order, wait_for_order,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, eventually, get, log};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const UNFOUNDED: &str = r#"{"verdict":"GREEN","summary":"Cows moo loudly. A sound and simple plan."}"#;

/// Whether a file below `path` has the claim of [`UNFOUNDED`].
fn has_claim(path: &Path) -> bool {
    if path.is_dir() {
        return fs::read_dir(path)
            .expect("readable")
            .any(|entry| has_claim(&entry.expect("an entry").path()));
    }
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(8).any(|window| window == b"Cows moo")
}

fn last_prompt(model: &ModelServer) -> String {
    model.requests().last().expect("a request").body.to_string()
}

fn ordered() -> Value {
    let mut order = generation_request(ProductTier::Quick);
    order["facts"] = json!(["A sound and simple plan."]);
    order
}

#[tokio::test]
async fn claim_of_a_rejected_answer_is_in_the_next_prompt_but_in_no_file() {
    let model = ModelServer::start().await;
    model.next([ScriptedReply::with_text(UNFOUNDED)]);
    model.set_default(ScriptedReply::error(503, "busy"));
    let world: DaemonWorld = model.create_world("max_retries = 0");
    let daemon = world.serve().await;
    request_order(&world.socket(), "cs_1", &ordered()).await;
    eventually("the second attempt fails", async || {
        read_order(&mut daemon.routes().await, "cs_1").await["attempts"] == 2
    })
    .await;
    wait_for_order(&mut daemon.routes().await, "cs_1", "queued").await;
    assert!(last_prompt(&model).contains("Cows moo loudly"), "{}", last_prompt(&model));
    let order = read_order(&mut daemon.routes().await, "cs_1").await;
    let rule = json!({"rule": "RULE-PREC-001", "claims": [1]});
    assert_eq!(order["last_attempts"][0]["rejection"]["rules"][0], rule, "{order}");
    assert_eq!(order["open_rejection"], Value::Null);
    let entry = log(&mut daemon.control().await, "session=cs_1&event=order_attempt_failed").await.remove(0);
    assert_eq!(entry["rejection"]["rules"][0], rule, "{entry}");
    assert!(entry["cause"].as_str().is_some_and(|cause| cause.contains("RULE-PREC-001")), "{entry}");
    daemon.kill();
    assert!(!has_claim(&world.path("")), "the text of a rejected answer is in a file");

    model.set_default(ScriptedReply::with_text(GOOD));
    let daemon = world.serve().await;
    let delivered = wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
    assert_eq!(delivered["attempts"], 3, "{delivered}");
    assert!(last_prompt(&model).contains("Cows moo loudly"), "the claim outlasts a kill");
    let control = &mut daemon.control().await;
    let page = document(&get(control, "/v1/sessions/cs_1").await);
    assert_eq!(page["reasked"], true, "{page}");

    purge_verdict(control, "cs_1").await;
    let read = read_verdict(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(
        (at(&read, "/regen"), at(&read, "/reasked")),
        (json!(true), json!(true)),
        "{}",
        document(&read)
    );
    assert!(at(&read, "/notice").is_string(), "{}", document(&read));
    assert!(!last_prompt(&model).contains("Cows"), "a regeneration has no rejection");
    assert_eq!(at(&read, "/original_verdict"), VerdictLabel::Green.to_string());
}
