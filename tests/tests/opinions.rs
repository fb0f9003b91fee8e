//! Several opinions on the verdict of one order: what the application, the operator and the log get, and kills of the daemon.

use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{coherent_answer, place_order, read_order, request_order, wait_for_order};
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::{DaemonWorld, at, eventually_within, get, log, read_whole_log};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A world with the models `gemini` and `backup`, and lines of `[orders]`.
fn world(first: &ModelServer, backup: &ModelServer, orders: &str) -> DaemonWorld {
    let mut world = first.create_world("calls_at_once = 8\n");
    world.config.push_str(&format!(
        "[models.backup]\nprovider = \"openai\"\nname = \"made-up\"\nbase_url = \"{}\"\nmax_retries = 0\n\
         calls_per_minute = 1000000\n[orders]\n{orders}",
        backup.openai_url()
    ));
    world
}

fn reply(label: VerdictLabel) -> ScriptedReply {
    ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label))
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test]
async fn operator_and_log_have_the_labels_and_the_application_one_text() {
    let (first, backup) = (ModelServer::start().await, ModelServer::start().await);
    first.next([reply(VerdictLabel::Red), reply(VerdictLabel::Green)]);
    backup.next([reply(VerdictLabel::Green)]);
    let orders = "opinions = { count = 3, models = [\"gemini\", \"backup\"], agree = 2 }\n";
    let world = world(&first, &backup, orders);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    place_order(&world, "cs_1").await;
    let order = wait_for_order(routes, "cs_1", "delivered").await;
    assert!(order.get("opinions").is_none() && order.get("open_opinions").is_none(), "{order}");
    let verdict = get(routes, "/v1/verdicts/cs_1").await;
    let delivered: Value =
        serde_json::from_str(&coherent_answer(ProductTier::Quick, VerdictLabel::Green)).expect("valid JSON");
    assert_eq!(at(&verdict, "/verdict"), delivered);

    let seen = get(control, "/v1/orders/cs_1").await;
    let share = |id: &str, label: &str, opinions: u32, of: u32, min: f64, max: f64| json!({"oracle_id": id, "verdict_label": label, "opinions": opinions, "of": of, "share_min": min, "share_max": max});
    let tally = json!({
        "count": 3, "agree": 2, "agreed_label": "GREEN",
        "shares": [
            share("backup", "GREEN", 1, 1, 0.025, 1.0),
            share("gemini", "GREEN", 1, 2, 0.0125, 0.9875),
            share("gemini", "RED", 1, 2, 0.0125, 0.9875),
        ],
    });
    let found = at(&seen, "/opinions");
    // the last places are those of the rounding
    let close =
        |a: &Value, b: &Value| (a.as_f64().expect("a number") - b.as_f64().expect("a number")).abs() < 2e-4;
    for (found, share) in
        found["shares"].as_array().expect("a list").iter().zip(tally["shares"].as_array().expect("a list"))
    {
        assert!(
            close(&found["share_min"], &share["share_min"])
                && close(&found["share_max"], &share["share_max"]),
            "{found}"
        );
        for member in ["oracle_id", "verdict_label", "opinions", "of"] {
            assert_eq!(found[member], share[member]);
        }
    }
    assert_eq!((&found["agreed_label"], &found["count"]), (&json!("GREEN"), &json!(3)));

    let shown = world.ctl_in_thread(&["order", "show", "cs_1"]).await;
    let shown = String::from_utf8(shown.stdout).expect("valid UTF-8");
    // two rows of attempts and two of opinions, by the same name
    assert_eq!(shown.matches("gemini (").count(), 2, "{shown}");
    assert_eq!(shown.matches("gemini ").count(), 4, "{shown}");

    let entries = log(control, "session=cs_1&limit=100").await;
    let opinions: Vec<_> = entries.iter().filter(|entry| text(entry, "event") == "order_opinion").collect();
    let labels: Vec<_> = opinions.iter().map(|entry| text(entry, "verdict_label")).collect();
    assert_eq!(labels, ["RED", "GREEN", "GREEN"]);
    assert_eq!(opinions[2]["shares"], found["shares"]);
    let cached = entries.iter().find(|entry| text(entry, "event") == "verdict_cached").expect("it is logged");
    assert_eq!(
        cached["verdict_sha256"], opinions[1]["verdict_sha256"],
        "the first one with the agreed label"
    );
}

#[tokio::test]
async fn order_without_agreement_fails_or_is_held_as_configured() {
    for (at_limit, state) in [("fail", "failed"), ("hold", "held")] {
        let (first, backup) = (ModelServer::start().await, ModelServer::start().await);
        backup.set_default(reply(VerdictLabel::Red));
        let orders = format!(
            "at_limit = \"{at_limit}\"\n[orders.opinions.quick]\ncount = 2\nmodels = [\"gemini\", \"backup\"]\n"
        );
        let world = world(&first, &backup, &orders);
        let daemon = world.serve().await;
        place_order(&world, "cs_1").await;
        let order = wait_for_order(&mut daemon.routes().await, "cs_1", state).await;
        assert_eq!((text(&order, "stop_cause"), &order["attempts"]), ("no_agreement", &json!(2)));
        assert_eq!((first.request_count(), backup.request_count()), (1, 1));
    }
}

/// The session whose query is in the prompt.
fn session_of(request: &ReceivedRequest) -> String {
    let prompt = request.body.to_string();
    let session = prompt.split("the question of ").nth(1).and_then(|rest| rest.split('.').next());
    session.expect("the prompt has the query").to_owned()
}

/// The entries of each session with this event.
fn by_session<'l>(log: &'l [Value], event: &str) -> BTreeMap<&'l str, Vec<&'l Value>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for entry in log.iter().filter(|entry| text(entry, "event") == event) {
        found.entry(text(entry, "session_id")).or_default().push(entry);
    }
    found
}

/// Checks the entries of a session against the `calls` that the models received for it.
fn check_session(log: &[Value], session: &str, calls: usize) {
    let of = |event| by_session(log, event).remove(session).unwrap_or_default();
    let (attempts, failed, opinions) =
        (of("order_attempted"), of("order_attempt_failed"), of("order_opinion"));
    assert!(calls <= attempts.len(), "{session}: {calls} calls, {} attempts", attempts.len());
    assert_eq!(attempts.len(), failed.len() + opinions.len(), "{session}: each attempt has one end");
    assert!(failed.iter().all(|entry| text(entry, "outcome") == "interrupted"), "{session}: {failed:?}");
    // a call whose answer was judged is logged once, and is one opinion
    assert_eq!(of("oracle_interaction").len(), opinions.len(), "{session}");
    assert_eq!(of("tmm_crosscheck").len(), opinions.len(), "{session}");
    for (number, entry) in opinions.iter().enumerate() {
        let shares = entry["shares"].as_array().expect("a list").iter();
        let counted: u64 = shares.map(|share| share["opinions"].as_u64().expect("a number")).sum();
        assert_eq!(counted, number as u64 + 1, "{session}: no opinion is lost or counted twice");
        assert_eq!(entry["agreed_label"].is_string(), number + 1 == opinions.len(), "{session}: {entry}");
        let expected = ["gemini", "backup"][number % 2];
        assert_eq!(text(entry, "oracle_id"), expected, "{session}");
    }
    let (last, cached) = (opinions.last().expect("opinions"), of("verdict_cached"));
    let agreed = opinions.iter().find(|entry| entry["verdict_label"] == last["agreed_label"]);
    assert_eq!(cached.len(), 1, "{session}");
    assert_eq!(cached[0]["verdict_sha256"], agreed.expect("an opinion")["verdict_sha256"], "{session}");
}

#[tokio::test]
async fn kills_lose_and_double_no_opinion() {
    const ORDERS: usize = 30;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let servers = [ModelServer::start().await, ModelServer::start().await];
    for server in &servers {
        server.next((0..2000).map(|_| {
            let label = if random.bool() { VerdictLabel::Green } else { VerdictLabel::Red };
            reply(label).after(Duration::from_millis(random.u64(0..40)))
        }));
    }
    let orders =
        "generations_max = 100\nopinions = { count = 5, agree = 3, models = [\"gemini\", \"backup\"] }\n";
    let world = world(&servers[0], &servers[1], orders);
    let sessions: Vec<_> = (0..ORDERS).map(|number| format!("cs_{number}")).collect();
    for round in 0..5 {
        let daemon = world.serve().await;
        for session in sessions.iter().skip(round * ORDERS / 5).take(ORDERS / 5) {
            let body = json!({"tier": "quick", "query": format!("the question of {session}.")});
            request_order(&world.socket(), session, &body).await;
        }
        tokio::time::sleep(Duration::from_millis(random.u64(0..250))).await;
        daemon.kill();
    }
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    eventually_within(Duration::from_secs(120), "all orders are delivered", async || {
        let mut left = false;
        for session in &sessions {
            left |= text(&read_order(routes, session).await, "state") != "delivered";
        }
        !left
    })
    .await;
    let mut calls = BTreeMap::<String, usize>::new();
    for request in servers.iter().flat_map(ModelServer::requests) {
        *calls.entry(session_of(&request)).or_default() += 1;
    }
    let log = read_whole_log(&mut daemon.control().await).await;
    let interrupted = by_session(&log, "order_attempt_failed").values().map(Vec::len).sum::<usize>();
    println!("{} calls, {interrupted} attempts cut off", calls.values().sum::<usize>());
    for session in &sessions {
        check_session(&log, session, calls.get(session).copied().unwrap_or_default());
    }
}
