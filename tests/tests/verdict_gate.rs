//! The gate: invisible text, delivered members, and how long a refusal by the rules stays in force.

use domain_verdict::label::{ProductTier, VerdictLabel};
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{
    QUERY, coherent_answer, event_names, generation_request, purge_verdict, put_session, read_verdict,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, get, log, post, problem, submission};
use serde_json::{Value, json};

/// The facts that support every text of a coherent answer, except the strategy's.
const FACTS: [&str; 2] = ["A sound and simple plan", "It holds together"];
/// A coherent verdict with a claim that [`FACTS`] do not support.
const UNSUPPORTED: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan. Gold below it."}"#;

async fn submit(routes: &mut DaemonClient, session: &str, body: &Value) -> DaemonResponse {
    post(routes, &format!("/v1/verdicts/{session}"), body).await
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body.as_object_mut().expect("a body is an object").insert(name.to_owned(), value);
    body
}

fn with_facts(body: Value) -> Value {
    with(body, "facts", json!(FACTS))
}

/// The text of the delivered verdict, byte for byte.
fn verdict_text(answer: &DaemonResponse) -> String {
    let body = String::from_utf8(answer.body.to_vec()).expect("JSON is UTF-8");
    let (_, rest) = body.split_once("\"verdict\":").expect("a verdict");
    let (verdict, _) = rest.split_once(",\"cached_at\"").expect("its end");
    verdict.to_owned()
}

#[tokio::test]
async fn invisible_summary_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for (n, invisible) in
        ["\u{200b}", "\u{ad}", "\u{feff}", "\u{3164}", "\u{e0041}", "\u{1}"].iter().enumerate()
    {
        let raw = json!({"verdict": "GREEN", "summary": invisible.repeat(10)}).to_string();
        let refused =
            problem(&submit(routes, &format!("cs_{n}"), &submission(&raw)).await, 422, "crosscheck_rejected");
        assert_eq!(refused["decision"]["flags"], json!(["short_summary"]), "{invisible:?}");
    }
    // nine visible characters are too few, with any invisible ones between them
    let raw = json!({"verdict": "GREEN", "summary": "\u{200b}so\u{200d}und\u{ad} pla\u{feff}"}).to_string();
    let short = submit(routes, "short", &submission(&raw)).await;
    assert_eq!(at(&short, "/decision/flags"), json!(["short_summary"]), "{}", document(&short));
}

#[tokio::test]
async fn invisible_query_and_address_are_refused() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let invisible = json!({"tier": "quick", "query": "\u{200b}\u{feff} "});
    problem(&submit(routes, "cs_1", &invisible).await, 400, "invalid_request");
    let hidden = with(submission(GOOD), "customer_email", json!("a\u{3164}@example.org"));
    problem(&submit(routes, "cs_1", &hidden).await, 400, "invalid_request");
    model.set_default(ScriptedReply::with_text("\u{200b}\u{feff}"));
    problem(&submit(routes, "cs_1", &generation_request(ProductTier::Quick)).await, 422, "order_failed");
    let order = document(&get(routes, "/v1/orders/cs_1").await);
    let attempts = field(&order, "last_attempts").as_array().expect("an array").iter();
    let outcomes: Vec<_> = attempts.map(|attempt| field(attempt, "outcome")).collect();
    assert_eq!(outcomes, ["empty_answer"; 3], "{order}");
    assert_eq!(put_session(routes, "cs_2", &generation_request(ProductTier::Quick)).await.status, 201);
    problem(&read_verdict(routes, "cs_2").await, 502, "model_refused");
}

#[tokio::test]
async fn unjudged_members_are_not_delivered() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let raw = concat!(
        r#"{ "<script>": {"a":[1]}, "summary" : "Honey \u0061nd bees, 1.10.", "breakdown":{"Stability":1},"#,
        r#"  "verdict":"GREEN" , "strategy": null }"#
    );
    let delivered = submit(routes, "cs_1", &submission(raw)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    let kept = r#"{ "summary" : "Honey \u0061nd bees, 1.10.",  "verdict":"GREEN" }"#;
    assert_eq!(verdict_text(&delivered), kept);
    let flags =
        json!(["unexpected_field:<script>", "unexpected_field:breakdown", "unexpected_field:strategy"]);
    assert_eq!(at(&delivered, "/decision/flags"), flags);
    let digest = json!(domain_base::digest::Sha256Hex::of(kept.as_bytes()));
    for entry in log(control, "session=cs_1").await {
        assert_eq!(entry["verdict_sha256"], digest, "{entry}");
    }
    assert_eq!(get(routes, "/v1/verdicts/cs_1").await.body, delivered.body);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await.body, delivered.body);
}

#[tokio::test]
async fn unexpected_members_are_cut_at_every_judged_level() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let clean: Value =
        serde_json::from_str(&coherent_answer(ProductTier::Strategy, VerdictLabel::Green)).expect("JSON");
    let mut verdict = clean.clone();
    verdict["mood"] = json!("x");
    verdict["breakdown"]["Mood"] = json!({"verdict": "RED"});
    verdict["breakdown"]["Curvature"]["note"] = json!("x");
    verdict["strategy"]["plan_b"] = json!("x");
    let body = json!({"tier": "strategy", "query": QUERY, "verdict": verdict});
    let delivered = submit(routes, "cs_1", &body).await;
    assert_eq!(at(&delivered, "/verdict"), clean);
    assert_eq!(
        at(&delivered, "/decision/flags"),
        json!([
            "unexpected_field:breakdown.Curvature.note",
            "unexpected_field:breakdown.Mood",
            "unexpected_field:mood",
            "unexpected_field:strategy.plan_b",
        ])
    );
}

#[tokio::test]
async fn unexpected_members_are_refused_or_delivered_as_configured() {
    let raw = r#"{"verdict":"GREEN","summary":"A sound and simple plan.","x": 1.10}"#;
    let world = DaemonWorld::with_config("[gate]\nunexpected_fields = \"refuse\"");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let refused = problem(&submit(routes, "cs_1", &submission(raw)).await, 422, "crosscheck_rejected");
    let decision = &refused["decision"];
    assert_eq!(decision["crosscheck_reason"], "unexpected_field");
    assert_eq!((&decision["approved"], &decision["flags"]), (&json!(false), &json!(["unexpected_field:x"])));
    let body = with(submission(raw), "session_id", json!("cs_1"));
    assert_eq!(at(&post(routes, "/v1/crosscheck", &body).await, "/approved"), json!(false));
    assert_eq!(submit(routes, "cs_1", &submission(GOOD)).await.status, 201);

    let world = DaemonWorld::with_config("[gate]\nunexpected_fields = \"deliver\"");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(verdict_text(&submit(routes, "cs_1", &submission(raw)).await), raw);
    // the rules check delivered members, too
    let hidden = r#"{"verdict":"GREEN","summary":"A sound and simple plan.","x":{"y":["Gold below it."]}}"#;
    let refused =
        problem(&submit(routes, "cs_2", &with_facts(submission(hidden))).await, 422, "rules_rejected");
    assert_eq!(refused["evaluation"]["rules"][0]["violations"][0]["span"]["field"], "x.y[0]", "{refused}");
}

#[tokio::test]
async fn strategy_texts_are_checked_by_the_rules() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let facts = [FACTS[0], FACTS[1], "Fill a jar", "Sell wax", "Ask ten neighbours", "Sell one jar"];
    let supported: Value =
        serde_json::from_str(&coherent_answer(ProductTier::Strategy, VerdictLabel::Green)).expect("JSON");
    let body =
        |verdict: &Value| json!({"tier": "strategy", "query": QUERY, "verdict": verdict, "facts": facts});
    for (n, (pointer, text, path)) in [
        ("/strategy/next_step", json!("Dig for gold."), "strategy.next_step"),
        ("/strategy/alternative", json!("Dig for gold."), "strategy.alternative"),
        ("/strategy/tests/1", json!("Dig for gold."), "strategy.tests[1]"),
        ("/strategy/tests/0", json!({"what": {"a.b": "Dig for gold."}}), "strategy.tests[0].what[\"a.b\"]"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut verdict = supported.clone();
        *verdict.pointer_mut(pointer).expect("the value exists") = text;
        let answer = submit(routes, &format!("cs_{n}"), &body(&verdict)).await;
        let refused = problem(&answer, 422, "rules_rejected");
        let rules = field(field(&refused, "evaluation"), "rules").as_array().expect("an array");
        let spans: Vec<_> = rules
            .iter()
            .flat_map(|rule| rule["violations"].as_array().expect("an array"))
            .map(|violation| violation["span"]["field"].clone())
            .collect();
        assert!(!spans.is_empty() && spans.iter().all(|span| span == path), "{path}: {spans:?}");
    }
    let delivered = submit(routes, "supported", &body(&supported)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    // a quick verdict is delivered without a strategy, so nothing of one is checked
    let mut verdict = supported;
    verdict["strategy"]["next_step"] = json!("Dig for gold.");
    let quick = json!({"tier": "quick", "query": QUERY, "verdict": verdict, "facts": facts});
    assert_eq!(submit(routes, "quick", &quick).await.status, 201);
}

#[tokio::test]
async fn verdict_refused_by_rules_stays_refused_without_facts() {
    let world = DaemonWorld::default();
    let mut daemon = world.serve().await;
    for restarted in [false, true] {
        if restarted {
            daemon.kill();
            daemon = world.serve().await;
        }
        let (routes, session) = (&mut daemon.routes().await, "cs_1");
        if !restarted {
            let refused = submit(routes, session, &with_facts(submission(UNSUPPORTED))).await;
            problem(&refused, 422, "rules_rejected");
        }
        problem(&submit(routes, session, &submission(UNSUPPORTED)).await, 422, "rules_rejected");
        problem(&post(routes, "/cache/cs_1", &submission_value(UNSUPPORTED)).await, 422, "rules_rejected");
        // the refusal does not register the session
        problem(&read_verdict(routes, session).await, 404, "session_unknown");
    }
    let routes = &mut daemon.routes().await;
    // another session is judged for itself, and a supported verdict is delivered
    assert_eq!(submit(routes, "cs_2", &submission(UNSUPPORTED)).await.status, 201);
    assert_eq!(submit(routes, "cs_1", &submission(GOOD)).await.status, 201);
    let control = &mut daemon.control().await;
    purge_verdict(control, "cs_1").await;
    problem(&submit(routes, "cs_1", &submission(UNSUPPORTED)).await, 422, "rules_rejected");
    assert_eq!(
        event_names(control, "cs_1").await.iter().filter(|event| *event == "verdict_cached").count(),
        1
    );
}

fn submission_value(raw: &str) -> Value {
    json!({"tier": "quick", "query": "Sell honey?", "verdict": serde_json::from_str::<Value>(raw).expect("JSON")})
}

#[tokio::test]
async fn refusal_by_rules_outlives_a_registration_and_binds_orders() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    model.set_default(ScriptedReply::with_text(UNSUPPORTED));
    let order = generation_request(ProductTier::Quick);
    problem(&submit(routes, "ordered", &with_facts(order.clone())).await, 422, "order_failed");
    problem(&submit(routes, "ordered", &order).await, 422, "order_failed");
    problem(&submit(routes, "ordered", &submission(UNSUPPORTED)).await, 422, "rules_rejected");

    problem(&submit(routes, "refused", &with_facts(submission(UNSUPPORTED))).await, 422, "rules_rejected");
    let failed = problem(&submit(routes, "refused", &order).await, 422, "order_failed");
    assert!(failed["detail"].as_str().is_some_and(|detail| detail.contains("RULE-PREC-001")), "{failed}");

    problem(&submit(routes, "registered", &with_facts(submission(UNSUPPORTED))).await, 422, "rules_rejected");
    assert_eq!(put_session(routes, "registered", &generation_request(ProductTier::Quick)).await.status, 201);
    problem(&read_verdict(routes, "registered").await, 422, "rules_rejected");
    problem(&submit(routes, "registered", &submission(UNSUPPORTED)).await, 422, "rules_rejected");
    // other facts replace those of the refusal
    let others = with(submission(UNSUPPORTED), "facts", json!([FACTS[0], "Gold below it"]));
    assert_eq!(submit(routes, "registered", &others).await.status, 201);
    let purged = daemon.control().await.call(Method::DELETE, "/v1/verdicts/registered", None).await;
    assert_eq!(purged.expect("the server answers").status, 200);
}
