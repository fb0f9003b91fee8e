//! A scripted model, and orders and sessions for tests of generation.

use super::{GOOD, TestClock, TestServices, TestSystem, id, with_services};
use actors_upstream::failure::{RequestFailure, RequestFailureKind};
use actors_upstream::oracle_health::MonitoredOracle;
use actors_upstream::{
    BoxFuture, ModelAnswerMetadata, ModelAttempt, ModelCallPolicy, ModelCaller, ModelClient, ModelTextError,
};
use actors_verdict::cache::{PurgeOutcome, PurgeVerdict, RegisterSession};
use actors_verdict::generation::{ConfiguredModel, ConfiguredModels, GenerationError};
use actors_verdict::orders::{PlaceOrder, PlacedOrder};
use actors_verdict::submission::Submission;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_upstream::health::OracleHealthConfig;
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL, ModelTokenUsage};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::order::Order;
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionCaller;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) const PEER: PeerCredentials = PeerCredentials { uid: 7, gid: 8, pid: None };

/// A model with scripted answers.
#[derive(Debug, Default)]
pub(crate) struct ScriptedModel {
    pub(crate) answers: Mutex<VecDeque<Result<String, ModelTextError>>>,
    pub(crate) requests: Mutex<Vec<(String, GenerationSettings)>>,
    /// The tokens that each answer reports.
    pub(crate) usage: Option<ModelTokenUsage>,
    /// Delays each answer until a notification, if it is set.
    pub(crate) held: Option<Notify>,
}

impl ScriptedModel {
    pub(crate) fn with_answers(
        answers: impl IntoIterator<Item = Result<String, ModelTextError>>,
    ) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn calls(&self) -> usize {
        self.requests.lock().expect("the lock is not poisoned").len()
    }

    pub(crate) fn settings(&self) -> Vec<GenerationSettings> {
        let requests = self.requests.lock().expect("the lock is not poisoned");
        requests.iter().map(|(_, settings)| settings.clone()).collect()
    }
}

impl ModelClient for ScriptedModel {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        settings.model.clone()
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        _: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        self.requests
            .lock()
            .expect("the lock is not poisoned")
            .push((prompt.text().to_owned(), settings.clone()));
        let next = self.answers.lock().expect("the lock is not poisoned").pop_front();
        Box::pin(async move {
            if let Some(held) = &self.held {
                held.notified().await;
            }
            let metadata = ModelAnswerMetadata {
                response_hash: Sha256Hex::of(b"{}"),
                finish_reason: Some("STOP".into()),
                usage: self.usage,
                oracle_version: None,
            };
            match next.unwrap_or_else(|| Ok(GOOD.to_owned())) {
                Err(ModelTextError::Failed(failure)) => ModelAttempt::NoAnswerReceived(failure),
                result => ModelAttempt::AnswerReceived(metadata, result),
            }
        })
    }

    fn probe<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        Box::pin(async { Ok(()) })
    }
}

/// A model that is called `oracle_id` among the oracles and `name` by its provider, and its circuit.
pub(crate) fn configured(
    model: &Arc<ScriptedModel>,
    oracle_id: &str,
    name: &str,
    time: &TestClock,
) -> (MonitoredOracle, Arc<ConfiguredModel>) {
    let id: domain_upstream::upstream_id::UpstreamId = oracle_id.parse().expect("a valid id");
    let policy = ModelCallPolicy { max_retries: 0, ..ModelCallPolicy::default() };
    let caller = ModelCaller::new(id.clone(), Arc::clone(model) as _, policy, time.clock());
    let original =
        GenerationSettings { temperature: Some(0.7), ..GenerationSettings::locked(name.to_owned()) };
    let oracle = MonitoredOracle { id, config: OracleHealthConfig::default(), probe: None };
    (oracle, Arc::new(ConfiguredModel::new(caller, original)))
}

pub(crate) fn outside(model: &Arc<ScriptedModel>, time: &TestClock) -> TestServices {
    let (oracle, model) = configured(model, "gemini", LOCKED_MODEL, time);
    TestServices {
        oracles: vec![oracle],
        models: ConfiguredModels { order: vec![model], ..ConfiguredModels::default() },
        ..TestServices::default()
    }
}

pub(crate) fn with_model<F: Future<Output = ()>>(
    model: Arc<ScriptedModel>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>) -> F,
) {
    let time = TestClock::new();
    let outside = outside(&model, &time);
    with_services(time, outside, |world| test(world, model));
}

pub(crate) fn verdict(label: VerdictLabel) -> Result<String, ModelTextError> {
    Ok(format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan."}}"#))
}

pub(crate) fn failure(kind: RequestFailureKind) -> Result<String, ModelTextError> {
    Err(ModelTextError::Failed(RequestFailure::new(kind, "made up".into())))
}

pub(crate) async fn register(world: &TestSystem, session_id: &str, original_verdict: Option<VerdictLabel>) {
    let query = CustomerQuery::new("Sell honey?".into());
    let (session_id, tier) = (id(session_id), ProductTier::Quick);
    let message = RegisterSession {
        session_id,
        caller: SessionCaller::Application,
        tier,
        query,
        customer_email: None,
        original_verdict,
        prompt: None,
        look_up: None,
    };
    world.system.cache.ask(message).await.expect("the actor answers").expect("the commit succeeds");
}

pub(crate) async fn lose_verdict(world: &TestSystem, session_id: &str) {
    let purge = PurgeVerdict { session_id: id(session_id), peer: PEER };
    let purged =
        world.system.cache.ask(purge).await.expect("the actor answers").expect("the commit succeeds");
    assert_eq!(purged, PurgeOutcome::Removed);
}

pub(crate) fn submission_of_query(query: &str) -> Submission {
    let (session_id, query) = (id("cs_1"), CustomerQuery::new(query.into()));
    Submission {
        session_id,
        caller: SessionCaller::Application,
        tier: ProductTier::Quick,
        query,
        payload: None,
        customer_email: None,
        check: None,
        path: GatePath::Generate,
        prompt: None,
        generation_trace: None,
        evidence: Vec::new(),
    }
}

/// Places the order of a session, and returns its first state with its progress.
pub(crate) async fn place(
    world: &TestSystem,
    submission: Submission,
) -> Result<PlacedOrder, GenerationError> {
    world.system.orders.ask(PlaceOrder(submission)).await.expect("the actor answers")
}

/// Orders a verdict, and waits until the order is not open any longer.
pub(crate) async fn order(
    world: &TestSystem,
    session_id: &str,
    query: &str,
) -> Result<Order, GenerationError> {
    let submission = Submission { session_id: id(session_id), ..submission_of_query(query) };
    let PlacedOrder::Order { mut progress, .. } = place(world, submission).await? else {
        panic!("the session has an order")
    };
    Ok(progress.wait_for(|order| !order.state.is_open()).await.expect("the order ends").clone())
}
