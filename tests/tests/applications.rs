//! Applications: callers by user id, each with sessions of its own.
//!
//! Only root can act as several users; for others, only the tests with one user run.

use domain_verdict::label::ProductTier;
use oracled_api::client::DaemonClient;
use oracled_tests::caller::{UserRelay, is_root};
use oracled_tests::generation::{
    generation_request, put_session, read_metric, request_order, request_verdict,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use std::path::Path;

const SHOP: u32 = 65_531;
const HELP: u32 = 65_532;
const STRANGER: u32 = 65_533;

const TWO: &str = "socket_mode = \"0666\"\n[applications.shop]\nuids = [65531]\ncontact = \"shop@example.org\"\n\
                   [applications.help]\ngids = [65532]\n";

/// The status and the code of an answer of each route that names a session.
async fn try_session_routes(routes: &mut DaemonClient, session: &str) -> Vec<(u16, Value)> {
    let mut answers = Vec::new();
    for path in ["/v1/verdicts", "/v1/orders", "/cache"] {
        answers.push(get(routes, &format!("{path}/{session}")).await);
    }
    answers.iter().map(|answer| (answer.status.as_u16(), at(answer, "/code"))).collect()
}

#[tokio::test]
async fn applications_neither_see_nor_change_sessions_of_each_other() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let mut world = model.create_world("");
    if !is_root(&world) {
        return;
    }
    world.config = format!("{TWO}{}", world.config);
    let daemon = world.serve().await;
    let (shop, help) = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    let (shop, help) = (&mut shop.connect().await, &mut help.connect().await);
    assert_eq!(post(shop, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    assert_eq!(request_verdict(shop, "cs_2").await.status, 201);
    let unknown = try_session_routes(help, "cs_9").await;
    for session in ["cs_1", "cs_2"] {
        assert_eq!(try_session_routes(help, session).await, unknown, "{session}");
        problem(&get(help, &format!("/v1/verdicts/shop%2F{session}")).await, 400, "invalid_session_id");
    }
    assert_eq!(at(&get(help, "/v1/orders").await, "/items"), json!([]));
    assert_eq!(at(&get(shop, "/v1/orders").await, "/items/0/session_id"), "cs_2");

    // the same id is another session, whatever the other application has stored for it
    let red = GOOD.replace("GREEN", "RED");
    let other = json!({"tier": "quick", "query": "Keep bees?", "raw": red});
    let stored = post(help, "/v1/verdicts/cs_1", &other).await;
    assert_eq!((stored.status.as_u16(), at(&stored, "/session_id")), (201, json!("cs_1")));
    let written = json!({"tier": "quick", "query": "Keep bees?", "verdict": {"verdict": "RED", "summary": "Far too risky."}});
    assert_eq!(post(help, "/cache/cs_2", &written).await.status, 201);
    assert_eq!(put_session(help, "cs_3", &generation_request(ProductTier::Quick)).await.status, 201);
    let checked = json!({"session_id": "cs_1", "tier": "full", "query": "Else?", "raw": GOOD});
    assert_eq!(post(help, "/v1/crosscheck", &checked).await.status, 200);
    for (routes, label) in [(&mut *shop, "GREEN"), (&mut *help, "RED")] {
        for session in ["cs_1", "cs_2"] {
            let read = get(routes, &format!("/v1/verdicts/{session}")).await;
            assert_eq!(at(&read, "/verdict/verdict"), label);
            assert_eq!(at(&read, "/session_id"), session);
        }
    }
    problem(&get(shop, "/v1/verdicts/cs_3").await, 404, "session_unknown");

    let control = &mut daemon.control().await;
    let entries = log(control, "session=help%2Fcs_1&event=verdict_cached").await;
    assert_eq!((entries.len(), &entries[0]["caller"]["application"]), (1, &json!("help")));
    assert_eq!(log(control, "session=cs_1").await, Vec::<Value>::new());
    let listed = get(control, "/v1/orders?application=shop").await;
    assert_eq!(at(&listed, "/items/0/session_id"), "shop/cs_2");
    assert_eq!(at(&get(control, "/v1/orders?application=help").await, "/items"), json!([]));
    assert_eq!(get(control, "/v1/sessions/shop%2Fcs_1").await.status, 200);
    assert!(world.ctl(&["session", "help/cs_3"]).status.success());
    let metrics = get(shop, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    for (application, path) in [("shop", "generate"), ("help", "cache_write")] {
        let labels = format!("application=\"{application}\",tier=\"quick\",path=\"{path}\",reason=\"pass\"");
        assert!(metrics.contains(&format!("oracled_crosscheck_judgments_total{{{labels}}} 1\n")), "{labels}");
    }
}

#[tokio::test]
async fn caller_of_no_application_gets_403_except_from_probes_and_metrics() {
    let world = DaemonWorld::with_config("[applications.shop]\nuids = [4000000000]");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    problem(&post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await, 403, "application_unknown");
    problem(
        &put_session(routes, "cs_1", &generation_request(ProductTier::Quick)).await,
        403,
        "application_unknown",
    );
    for path in
        ["/v1/verdicts/cs_1", "/cache/cs_1", "/v1/orders", "/v1/sources", "/v1/rules", "/openapi.json"]
    {
        problem(&get(routes, path).await, 403, "application_unknown");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(routes, path).await.status, 200, "{path}");
    }
    assert_eq!(get(&mut daemon.control().await, "/v1/sessions/cs_1").await.status, 404);
}

#[tokio::test]
async fn rejection_names_the_contact_of_the_application() {
    let world = DaemonWorld::with_config(&format!("contact = \"all@example.org\"\n{TWO}"));
    if !is_root(&world) {
        return;
    }
    let _daemon = world.serve().await;
    for (uid, contact) in [(SHOP, "shop@example.org"), (HELP, "all@example.org")] {
        let relay = UserRelay::start(&world, uid).await;
        let rejected = post(&mut relay.connect().await, "/v1/verdicts/cs_1", &submission("{}")).await;
        problem(&rejected, 422, "crosscheck_rejected");
        assert_eq!(at(&rejected, "/contact"), contact);
    }
    let stranger = UserRelay::start(&world, STRANGER).await;
    let refused = post(&mut stranger.connect().await, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    problem(&refused, 403, "application_unknown");
    assert!(document(&refused)["detail"].as_str().is_some_and(|text| text.contains("65533")));
}

/// Orders a verdict without waiting for it, and returns the status.
async fn order(socket: &Path, session: &str) -> u16 {
    request_order(socket, session, &generation_request(ProductTier::Quick)).await.status.as_u16()
}

#[tokio::test]
async fn flood_of_one_application_delays_another_by_one_order() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("calls_at_once = 1");
    if !is_root(&world) {
        return;
    }
    world.config = format!("{TWO}queue_max = 3\n{}", world.config);
    let daemon = world.serve().await;
    let (shop, help) = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    model.set_default(ScriptedReply::with_text(GOOD).after(std::time::Duration::from_millis(100)));
    for n in 0..20 {
        assert_eq!(order(shop.socket(), &format!("cs_{n}")).await, 202);
    }
    for n in 0..3 {
        assert_eq!(order(help.socket(), &format!("cs_{n}")).await, 202);
    }
    assert_eq!(order(help.socket(), "cs_3").await, 503, "its own limit is reached");
    let control = &mut daemon.control().await;
    eventually("all orders are delivered", async || {
        let waiting = get(control, "/v1/orders?state=queued").await;
        at(&waiting, "/items") == json!([])
            && log(control, "event=order_delivered&limit=100").await.len() == 23
    })
    .await;
    let order: Vec<_> = log(control, "event=order_attempted&limit=100").await;
    let names: Vec<_> = order.iter().filter_map(|entry| entry["session_id"].as_str()).collect();
    // on a busy machine, attempts can begin before all orders are placed
    let last = log(control, "session=help/cs_2&event=order_placed").await.remove(0)["seq"].as_u64();
    let waited = names.iter().zip(&order).filter(|(_, attempt)| attempt["seq"].as_u64() > last);
    let waited: Vec<_> = waited.map(|(name, _)| name.starts_with("help/")).collect();
    let helped: Vec<_> = (0..waited.len()).filter(|index| waited[*index]).collect();
    assert!(helped.first().is_none_or(|first| *first <= 1), "{names:?}");
    assert!(helped.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{names:?}");
    let placed = log(control, "session=help/cs_0&event=order_placed").await.remove(0)["seq"].as_u64();
    let attempted = order.iter().find(|entry| entry["session_id"] == "help/cs_0").expect("an attempt");
    let between = |seq: Option<u64>| seq > placed && seq < attempted["seq"].as_u64();
    let overtook = order.iter().filter(|entry| between(entry["seq"].as_u64())).count();
    assert!(overtook <= 1, "{names:?}");
    let shops = names.iter().filter(|name| name.starts_with("shop/"));
    let expected: Vec<_> = (0..20).map(|n| format!("shop/cs_{n}")).collect();
    assert!(shops.eq(expected.iter()), "an application's own orders keep their order: {names:?}");
}

#[tokio::test]
async fn call_quota_of_an_application_holds_and_leaves_others_alone() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let mut world = model.create_world("");
    if !is_root(&world) {
        return;
    }
    world.config = format!(
        "{}calls_per_minute = 2\n{}",
        TWO.replace("[applications.help]\n", "[applications.help]\nin_flight = 1\n"),
        world.config
    );
    let daemon = world.serve().await;
    let (shop, help) = (UserRelay::start(&world, SHOP).await, UserRelay::start(&world, HELP).await);
    for n in 0..4 {
        assert_eq!(order(help.socket(), &format!("cs_{n}")).await, 202);
    }
    let routes = &mut shop.connect().await;
    for n in 0..4 {
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 201);
    }
    let of_shop = r#"oracled_verdicts_made_total{application="shop",path="generate",outcome="delivered"}"#;
    assert!((read_metric(routes, of_shop).await - 4.0).abs() < f64::EPSILON);
    let control = &mut daemon.control().await;
    let attempted = log(control, "event=order_attempted&limit=100").await;
    let helped = attempted
        .iter()
        .filter(|entry| entry["session_id"].as_str().is_some_and(|id| id.starts_with("help/")));
    assert!(helped.count() <= 2);
    let waiting = get(control, "/v1/orders?application=help&state=queued").await;
    assert_eq!(at(&waiting, "/items/0/waiting_for/cause"), "model_busy");
    let fail = json!({"action": "fail", "reason": "test"});
    let failed = post(control, "/v1/orders/help%2Fcs_3", &fail).await;
    assert_eq!(failed.status, 200, "{}", document(&failed));
}
