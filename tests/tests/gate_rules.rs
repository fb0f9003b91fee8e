//! `gate.rules`: rules that every verdict must pass, also without facts.

use oracled_tests::generation::{
    event_names, purge_verdict, read_cached, read_verdict, request_verdict, wait_for_order,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, log, post, problem, submission};
use serde_json::json;

const RULES: &str = "[gate]\nrules = [\"RULE-CONT-002\"]\n";
/// An approved verdict that contradicts itself.
const CONTRADICTORY: &str = r#"{"verdict":"GREEN","summary":"price > cost, but later cost > price"}"#;

#[tokio::test]
async fn submission_that_breaks_a_rule_of_the_gate_is_rejected_without_facts() {
    let world = DaemonWorld::with_config(RULES);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let rejected = post(routes, "/v1/verdicts/cs_1", &submission(CONTRADICTORY)).await;
    let rejected = problem(&rejected, 422, "rules_rejected");
    let rules = rejected["evaluation"]["rules"].as_array().expect("rules");
    assert_eq!((rules.len(), &rules[0]["rule"]), (1, &json!("RULE-CONT-002")), "{rejected}");
    assert_eq!(event_names(control, "cs_1").await, ["tmm_crosscheck", "rules_evaluated"]);
    assert_eq!(read_verdict(routes, "cs_1").await.status, 404, "nothing is stored");

    let delivered = post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    assert_eq!(document(&delivered).get("evaluation_sha256"), None, "it was not checked against facts");
    assert_eq!(log(control, "session=cs_1&event=rules_evaluated").await.len(), 2);
}

#[tokio::test]
async fn rules_of_the_gate_are_applied_beside_those_of_the_request() {
    let world = DaemonWorld::with_config(RULES);
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let checked = |raw: &str, fact: &str| {
        let mut body = submission(raw);
        body["facts"] = json!([fact]);
        body["rules"] = json!(["RULE-PREC-001"]);
        body
    };
    for (session, body) in [
        ("cs_1", checked(CONTRADICTORY, "price > cost, but later cost > price")),
        ("cs_2", checked(GOOD, "Honey is sweet")),
    ] {
        let rejected = post(routes, &format!("/v1/verdicts/{session}"), &body).await;
        let rejected = problem(&rejected, 422, "rules_rejected");
        let rules = rejected["evaluation"]["rules"].as_array().expect("rules");
        let failed: Vec<_> = rules.iter().map(|rule| rule["verdict"] == "FAIL").collect();
        assert_eq!(failed, [session == "cs_2", session == "cs_1"], "{rejected}");
    }
    // the request's own rules stay in force for the session
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 422);
    let delivered = post(routes, "/v1/verdicts/cs_1", &checked(GOOD, "A sound and simple plan")).await;
    assert!(at(&delivered, "/evaluation_sha256").is_string(), "{}", document(&delivered));
}

#[tokio::test]
async fn generated_and_regenerated_verdicts_must_pass_the_rules_of_the_gate() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("");
    world.config = format!("{}[gate.quick]\nrules = [\"RULE-CONT-002\"]\n", world.config);
    model.next([ScriptedReply::with_text(CONTRADICTORY)]);
    model.set_default(ScriptedReply::with_text(GOOD));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    request_verdict(routes, "cs_1").await;
    let order = wait_for_order(routes, "cs_1", "delivered").await;
    assert_eq!(order["last_attempts"][0]["outcome"], "refused_by_rules", "{order}");
    assert_eq!(order["attempts"], 2);

    purge_verdict(control, "cs_1").await;
    model.set_default(ScriptedReply::with_text(CONTRADICTORY));
    problem(&read_verdict(routes, "cs_1").await, 422, "rules_rejected");
    assert_eq!(read_cached(routes, "cs_1").await.status, 404);
}

#[tokio::test]
async fn verdict_without_facts_does_not_count_as_checked_against_facts() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("");
    world.config.push_str(RULES);
    model.set_default(ScriptedReply::with_text(GOOD));
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    oracled_tests::generation::put_session(routes, "cs_1", &json!({"tier": "quick", "query": "Q?"})).await;
    let read = read_verdict(routes, "cs_1").await;
    assert_eq!(read.status, 200, "{}", document(&read));
    let mut body = submission(GOOD);
    body["query"] = json!("Q?");
    body["facts"] = json!(["A sound and simple plan"]);
    let refused = problem(&post(routes, "/v1/verdicts/cs_1", &body).await, 409, "session_mismatch");
    assert_eq!(refused["mismatch"], "facts");
}
