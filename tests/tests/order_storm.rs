//! Many orders over two models in random states, with kills of the daemon. Each order is delivered, or ends by a stated limit with
//! a cause. None ends by its age while a model of its list accepts calls.

use domain_verdict::label::ProductTier;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{generation_request, read_order};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, eventually_within, get, post};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;
/// The states of a model in a storm. `Accepting` is taken as often as all others together.
const BAD: [ModelState; 8] = [
    ModelState::Rejected,
    ModelState::Declining,
    ModelState::Limited,
    ModelState::Refusing,
    ModelState::Slow,
    ModelState::Down,
    ModelState::ErrorAnswer,
    ModelState::Broken,
];
/// The time within which the daemon learns that a refusing model accepts calls again: the reset time, and a tolerance.
const LEARNS_WITHIN: SignedDuration = SignedDuration::from_secs(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelState {
    Accepting,
    /// The crosscheck rejects its answers.
    Rejected,
    Declining,
    /// It asks for a long wait.
    Limited,
    /// It rejects the key.
    Refusing,
    Slow,
    Down,
    /// It answers 200 with an error.
    ErrorAnswer,
    /// It answers 503.
    Broken,
}

impl ModelState {
    fn reply(self) -> ScriptedReply {
        match self {
            Self::Accepting => ScriptedReply::with_text(GOOD),
            Self::Rejected => ScriptedReply::with_text(UNUSABLE),
            // by Gemini's protocol, and by Anthropic's
            Self::Declining => ScriptedReply::json(
                200,
                &json!({"promptFeedback": {"blockReason": "OTHER"}, "stop_reason": "refusal", "content": []}),
            ),
            Self::Limited => ScriptedReply::error(429, "slow down").header("retry-after", "90"),
            Self::Refusing => ScriptedReply::error(401, "no such key"),
            Self::Slow => ScriptedReply::with_text(GOOD).after(Duration::from_secs(4)),
            Self::Down => ScriptedReply::hang_up(),
            Self::ErrorAnswer => {
                ScriptedReply::json(200, &json!({"error": {"code": 502, "message": "made up"}}))
            }
            Self::Broken => ScriptedReply::error(503, "not now"),
        }
    }
}

/// A model whose states are recorded.
struct StormyModel {
    server: ModelServer,
    states: Mutex<Vec<(Timestamp, ModelState)>>,
}

impl StormyModel {
    async fn start() -> Arc<Self> {
        let (server, states) = (ModelServer::start().await, Mutex::default());
        Arc::new(Self { server, states })
    }

    fn enter(&self, state: ModelState) {
        self.server.set_default(state.reply());
        self.states.lock().expect("the lock is not poisoned").push((Timestamp::now(), state));
    }

    /// Whether the model accepted calls during the whole time.
    fn accepts_throughout(&self, from: Timestamp, to: Timestamp) -> bool {
        let states = self.states.lock().expect("the lock is not poisoned");
        let before = states.iter().rev().find(|(at, _)| *at <= from);
        let changes = states.iter().filter(|(at, _)| *at > from && *at <= to);
        let mut all = before.into_iter().chain(changes);
        before.is_some() && all.all(|(_, state)| *state == ModelState::Accepting)
    }
}

/// The extent of a storm.
struct Storm {
    orders: usize,
    /// How long the states of the models change at random while orders arrive.
    lasts: Duration,
    /// How long no model accepts calls afterwards.
    outage: Duration,
    kill_every: Duration,
    /// The longest time until all orders have ended, once both models accept calls.
    patience: Duration,
}

fn world(first: &StormyModel, backup: &StormyModel) -> DaemonWorld {
    let times = "soft_timeout_ms = 500\nhard_timeout_ms = 1500\ndeadline_ms = 1900\n";
    let mut world =
        first.server.create_world(&format!("fallbacks = [\"backup\"]\ncalls_at_once = 8\n{times}"));
    world.config.push_str(&format!(
        "[models.backup]\nprovider = \"anthropic\"\nname = \"claude-made-up\"\nbase_url = \"{}\"\nmax_retries = 1\n\
         calls_per_minute = 3000\n{times}[health]\ncircuit_breaker_reset_seconds = 1\nrecovery_threshold = 1\n\
         [orders]\nmax_age_s = 60\n[limits]\nrequest_s = 3\n[ingestion]\nrefresh_s = 1\n",
        backup.server.url()
    ));
    world.variables.push(("ANTHROPIC_API_KEY".into(), "sk-ant-not-a-real-key".into()));
    world
}

/// Requests the verdict of a session until the daemon has accepted its order. 409: it was cancelled before a repetition.
async fn place(socket: PathBuf, session: String) {
    loop {
        let body = generation_request(ProductTier::Quick).to_string();
        if let Ok(mut client) = DaemonClient::connect(&socket).await
            && let Ok(answer) =
                client.call(Method::POST, &format!("/v1/verdicts/{session}"), Some(body.into())).await
            && [200, 201, 202, 409, 422].contains(&answer.status.as_u16())
        {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Cancels an order, unless it was delivered or failed, or is not placed yet.
async fn cancel(routes: &mut DaemonClient, session: &str) {
    let answer = routes.call(Method::DELETE, &format!("/v1/orders/{session}"), None).await;
    let status = answer.expect("an answer").status.as_u16();
    assert!([200, 404, 409].contains(&status), "{session}: {status}");
}

/// Changes the states of a model at random until the task is aborted. During an outage it never accepts calls.
async fn vary(model: Arc<StormyModel>, accepts: bool, mut random: fastrand::Rng) {
    loop {
        let bad = BAD[random.usize(..BAD.len())];
        model.enter(if accepts && random.bool() { ModelState::Accepting } else { bad });
        sleep(Duration::from_millis(random.u64(300..1500))).await;
    }
}

fn time(value: &Value) -> Timestamp {
    value.as_str().expect("a time").parse().expect("a time")
}

/// Checks an order that has ended. Returns its end.
fn check_order(order: &Value, models: &BTreeMap<&str, Arc<StormyModel>>) -> String {
    let text = |name: &str| order[name].as_str().unwrap_or_default().to_owned();
    if ["delivered", "cancelled"].contains(&text("state").as_str()) {
        return text("state");
    }
    assert_eq!(order["state"], "failed", "{order}");
    let cause = text("stop_cause");
    let attempts = order["last_attempts"].as_array().expect("an array");
    match cause.as_str() {
        "generations_used_up" => assert_eq!(order["generations"], 3, "{order}"),
        "interrupted" => assert_eq!(order["interruptions"], 20, "{order}"),
        "operator" => return cause,
        "expired" => {
            let ended = time(&order["changed_at"]);
            assert!(
                ended.duration_since(time(&order["placed_at"])) >= SignedDuration::from_secs(60),
                "{order}"
            );
            for (oracle_id, model) in models {
                let last = attempts.iter().find(|a| a["is_last"] == true && a["oracle_id"] == *oracle_id);
                let accepted = match last {
                    Some(attempt) if attempt["outcome"] == "interrupted" => false,
                    Some(attempt) if attempt["started_at"] != attempt["ended_at"] => {
                        model.accepts_throughout(time(&attempt["started_at"]), time(&attempt["ended_at"]))
                    }
                    // it was not called
                    _ => model.accepts_throughout(ended - LEARNS_WITHIN, ended),
                };
                assert!(!accepted, "{oracle_id} accepted calls: {order}");
            }
        }
        other => assert_eq!(other, "a stated limit", "{order}"),
    }
    let last = attempts.last().expect("an attempt");
    assert!(last["cause"].as_str().is_some_and(|cause| cause.len() > 10), "no cause: {order}");
    cause
}

/// The number of orders in `state`, at most 100.
async fn count(control: &mut DaemonClient, state: &str) -> usize {
    let page = get(control, &format!("/v1/orders?state={state}&limit=100")).await;
    at(&page, "/items").as_array().map_or(0, Vec::len)
}

/// Runs a storm, checks all orders, and returns the number of each end.
async fn run_storm(storm: Storm) -> BTreeMap<String, usize> {
    let (first, backup) = (StormyModel::start().await, StormyModel::start().await);
    let models = BTreeMap::from([("gemini", Arc::clone(&first)), ("backup", Arc::clone(&backup))]);
    let world = world(&first, &backup);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut daemon = world.serve().await;
    let began = Instant::now();
    let (mut clients, mut placed, mut killed_at) = (JoinSet::new(), 0, Instant::now());
    for (accepts, until) in [(true, storm.lasts), (false, storm.lasts + storm.outage)] {
        let mut states = JoinSet::new();
        for model in models.values() {
            states.spawn(vary(Arc::clone(model), accepts, random.fork()));
        }
        while began.elapsed() < until {
            let due =
                storm.orders as f64 * (began.elapsed().as_secs_f64() / storm.lasts.as_secs_f64()).min(1.0);
            while (placed as f64) < due {
                clients.spawn(place(world.socket(), format!("cs_{placed}")));
                placed += 1;
            }
            if killed_at.elapsed() > storm.kill_every {
                daemon.kill();
                daemon = world.serve().await;
                killed_at = Instant::now();
            }
            if placed > 0 && placed % 50 == 0 {
                let (path, action) = (
                    format!("/v1/orders/cs_{}", placed - 1),
                    json!({"action": "fail", "reason": "refunded"}),
                );
                // it may have ended, or be in progress
                drop(post(&mut daemon.control().await, &path, &action).await);
            }
            if placed % 50 == 25 {
                cancel(&mut daemon.routes().await, &format!("cs_{}", placed - 1)).await;
            }
            sleep(Duration::from_millis(50)).await;
        }
        states.abort_all();
        while states.join_next().await.is_some() {}
    }
    models.values().for_each(|model| model.enter(ModelState::Accepting));
    while placed < storm.orders {
        clients.spawn(place(world.socket(), format!("cs_{placed}")));
        placed += 1;
    }
    while clients.join_next().await.is_some() {}
    let control = &mut daemon.control().await;
    eventually_within(storm.patience, "all orders end", async || {
        count(control, "queued").await + count(control, "generating").await == 0
    })
    .await;
    let (routes, mut ends) = (&mut daemon.routes().await, BTreeMap::new());
    for number in 0..storm.orders {
        let order = read_order(routes, &format!("cs_{number}")).await;
        *ends.entry(check_order(&order, &models)).or_default() += 1;
    }
    ends
}

#[tokio::test]
async fn orders_over_failing_models_end_by_delivery_or_a_stated_limit() {
    let ends = run_storm(Storm {
        orders: 40,
        lasts: Duration::from_secs(3),
        outage: Duration::ZERO,
        kill_every: Duration::from_millis(1200),
        patience: Duration::from_secs(90),
    })
    .await;
    assert!(!ends.contains_key("expired"), "{ends:?}");
}

#[tokio::test]
#[ignore = "1,000 orders take minutes; `just torture`"]
async fn thousand_orders_over_failing_models_end_by_delivery_or_a_stated_limit() {
    let ends = run_storm(Storm {
        orders: 1000,
        lasts: Duration::from_secs(90),
        outage: Duration::from_secs(70),
        kill_every: Duration::from_secs(8),
        patience: Duration::from_secs(400),
    })
    .await;
    println!("{ends:?}");
    for end in ["delivered", "expired", "cancelled"] {
        assert!(ends.contains_key(end), "{end}: {ends:?}");
    }
}
