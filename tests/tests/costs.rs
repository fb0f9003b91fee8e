//! The costs of models and the daily budget, end to end.

use crate::wording::stable;
use domain_verdict::label::ProductTier;
use oracled_tests::generation::{
    coherent_answer, place_order, purge_verdict, read_metric, read_order, read_verdict, request_verdict,
    retry_after_s,
};
use oracled_tests::model::{ModelServer, ScriptedReply, anthropic_answer};
use oracled_tests::{at, document, get, log, problem};
use serde_json::{Value, json};

/// Prices at which a call of the scripted model costs 0.00019.
const PRICES: &str = "input_price = 0.3\noutput_price = 2.5\n";

#[tokio::test]
async fn cost_of_a_call_is_logged_summed_and_counted() {
    let model = ModelServer::start().await;
    let world = model.create_world(PRICES);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    let cost = json!({"amount": "0.00019", "currency": "USD"});
    let interaction = log(control, "event=oracle_interaction").await.remove(0);
    assert_eq!((&interaction["cost"], &interaction["tier"]), (&cost, &json!("quick")));
    assert_eq!(at(&get(routes, "/v1/orders/cs_1").await, "/last_attempts/0/cost"), cost);
    assert_eq!(at(&get(control, "/v1/sessions/cs_1").await, "/costs"), json!([cost]));
    let costs = document(&get(control, "/v1/costs").await);
    let [sum] = &costs["costs"].as_array().expect("a list")[..] else { panic!("one sum: {costs}") };
    assert_eq!(
        [&sum["model"], &sum["tier"], &sum["calls"], &sum["prompt_tokens"], &sum["amount"]],
        [&json!("gemini"), &json!("quick"), &json!(1), &json!(300), &json!("0.00019")]
    );
    assert_eq!((&sum["application"], &costs["budgets"]), (&json!("default"), &json!([])));
    let counted = read_metric(
        routes,
        "oracled_model_cost_total{application=\"default\",model=\"gemini\",tier=\"quick\"}",
    )
    .await;
    assert!((counted - 0.00019).abs() < 1e-12, "{counted}");
    // the sums outlive a restart, and days outside of the bounds are left out
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    assert_eq!(document(&get(control, "/v1/costs").await)["costs"], costs["costs"]);
    for bounds in ["since=2100-01-01T00:00:00Z", "until=2020-01-01T00:00:00Z"] {
        assert_eq!(
            document(&get(control, &format!("/v1/costs?{bounds}")).await)["costs"],
            json!([]),
            "{bounds}"
        );
    }
    let table = String::from_utf8(world.ctl(&["costs", "--since", "1d"]).stdout).expect("valid UTF-8");
    assert!(table.contains("0.00019 USD") && table.contains("gemini"), "{table}");
}

#[tokio::test]
async fn used_up_budget_lets_orders_wait_and_refuses_regenerations() {
    let model = ModelServer::start().await;
    let mut world = model.create_world(PRICES);
    world.config.push_str("[costs]\ndaily_budget = 0.0001\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201, "the budget is not used up yet");

    let waits = place_order(&world, "cs_2").await;
    assert_eq!(waits["state"], "queued");
    let waits = read_order(routes, "cs_2").await["waiting_for"].clone();
    assert_eq!(waits["cause"], "budget_used_up", "{waits}");
    assert!(waits["until"].as_str().is_some_and(|at| at.ends_with("T00:00:00Z")), "{waits}");
    let shown = String::from_utf8(world.ctl(&["order", "show", "cs_2"]).stdout).expect("valid UTF-8");
    assert!(shown.contains("costs.daily_budget"), "{shown}");
    let waits = request_verdict(routes, "cs_3").await;
    assert_eq!(waits.status, 202, "a request does not wait for the next day");
    let poll_after = retry_after_s(&waits).expect("an open order is read again");
    assert!((6..=300).contains(&poll_after), "{poll_after}");
    let page = document(&get(control, "/v1/sessions/cs_3").await);
    assert_eq!(page["waiting_for"]["cause"], "budget_used_up", "{page}");
    let status = document(&get(control, "/v1/status").await);
    assert_eq!(status["orders"], json!({"queued": 2, "generating": 0, "held": 0}), "{status}");
    assert!(status["budgets"][0]["resets_at"].is_string(), "{status}");
    let listed = String::from_utf8(world.ctl(&["orders"]).stdout).expect("valid UTF-8");
    assert!(listed.contains("costs.daily_budget"), "{listed}");
    purge_verdict(control, "cs_1").await;
    let refused = read_verdict(routes, "cs_1").await;
    assert!(retry_after_s(&refused).is_some_and(|wait| wait <= 24 * 60 * 60), "{:?}", refused.headers);
    let refused = problem(&refused, 503, "model_busy");
    assert!(
        refused["detail"].as_str().is_some_and(|detail| detail.contains("costs.daily_budget")),
        "{refused}"
    );
    assert_eq!(model.request_count(), 1);

    let reached = log(control, "event=daily_budget_reached").await;
    let [reached] = &reached[..] else { panic!("one entry: {reached:?}") };
    assert_eq!((&reached["budget"], &reached["costs"]), (&json!("0.0001"), &json!("0.00019")));
    assert_eq!(read_metric(routes, "oracled_daily_budget").await, 0.0001);
    assert!(read_metric(routes, "oracled_daily_costs").await > 0.0001);
    let budget = document(&get(control, "/v1/costs").await)["budgets"][0].clone();
    assert_eq!((&budget["daily"], &budget["costs_of_today"]), (&json!("0.0001"), &json!("0.00019")));
    assert!(budget["resets_at"].is_string(), "{budget}");
}

#[tokio::test]
async fn budget_of_an_application_is_reported_and_counted_by_its_name() {
    let model = ModelServer::start().await;
    let mut world = model.create_world(PRICES);
    let uid = nix::unistd::getuid();
    world.config.push_str(&format!("[applications.shop]\nuids = [{uid}]\ndaily_budget = 0.0001\n"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201, "the budget is not used up yet");
    assert_eq!(request_verdict(routes, "cs_2").await.status, 202);
    let unknown = problem(&get(routes, "/v1/orders/cs_3").await, 404, "order_unknown");
    assert_eq!(unknown["detail"], "session cs_3 has no order", "the application does not name itself");
    problem(&get(control, "/v1/orders?application=shpo").await, 400, "invalid_request");
    assert_eq!(get(control, "/v1/orders?application=shop&state=failed").await.status, 200);
    let hint = world.ctl(&["order", "show", "cs_2"]);
    assert!(String::from_utf8_lossy(&hint.stderr).contains("shop/cs_2"), "{hint:?}");
    assert!(world.ctl(&["order", "show", "shop/cs_2"]).status.success());
    let costs = document(&get(control, "/v1/costs").await);
    assert_eq!(costs["costs"][0]["application"], "shop");
    let budget = &costs["budgets"][0];
    assert_eq!((&budget["application"], &budget["daily"]), (&json!("shop"), &json!("0.0001")));
    assert!(budget["resets_at"].is_string(), "{budget}");
    assert_eq!(read_metric(routes, "oracled_daily_budget{application=\"shop\"}").await, 0.0001);
    let reached = log(control, "event=daily_budget_reached").await;
    assert_eq!((reached.len(), &reached[0]["application"]), (1, &json!("shop")));
    let table = String::from_utf8(world.ctl(&["costs"]).stdout).expect("valid UTF-8");
    let budget = table.lines().find(|line| line.contains("0.0001 ")).unwrap_or_else(|| panic!("{table}"));
    insta::assert_snapshot!("costs_of_an_application_above_its_budget", stable(&world, budget));
}

/// The whole way with a second model: the first one fails, its circuit opens, and orders go to Anthropic's API.
#[tokio::test]
async fn fallback_makes_first_verdicts_after_the_circuit_of_the_first_model_opened() {
    let (first, backup) = (ModelServer::start().await, ModelServer::start().await);
    first.set_default(ScriptedReply::error(503, "not now"));
    let answer =
        anthropic_answer(&coherent_answer(ProductTier::Quick, domain_verdict::label::VerdictLabel::Amber));
    backup.set_default(ScriptedReply::json(200, &answer));
    let mut world = first.create_world("fallbacks = [\"backup\"]\n");
    world.config.push_str(&format!(
        "[models.backup]\nprovider = \"anthropic\"\nname = \"claude-haiku-4-5\"\nbase_url = \"{}\"\n{PRICES}\
         [health]\nfailure_threshold = 1\n",
        backup.url()
    ));
    world.variables.push(("ANTHROPIC_API_KEY".into(), "sk-ant-not-a-real-key".into()));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let placed = request_verdict(routes, "cs_1").await;
    assert!(matches!(placed.status.as_u16(), 201 | 202), "{}", document(&placed));
    let delivered = oracled_tests::generation::wait_for_order(routes, "cs_1", "delivered").await;
    let models: Vec<_> = delivered["last_attempts"].as_array().expect("attempts").iter().collect();
    assert_eq!(models[0]["generation"]["model"], "gemini-2.5-flash");
    let last = models.last().expect("an attempt");
    assert_eq!(last["generation"]["model"], "claude-haiku-4-5");
    assert_eq!(last["cost"], json!({"amount": "0.00019", "currency": "USD"}));
    let body = backup.requests()[0].body.clone();
    assert_eq!((&body["temperature"], &body["top_p"]), (&json!(0.0), &Value::Null));

    purge_verdict(control, "cs_1").await;
    let asked = first.request_count();
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    assert_eq!(
        (first.request_count(), backup.request_count()),
        (asked, 2),
        "the model of the original is asked"
    );
    let status = at(&get(control, "/v1/status").await, "/model");
    assert_eq!(status, "gemini, gemini-2.5-flash; backup, claude-haiku-4-5");
}
