use super::*;
use crate::platform::caller::run_as_caller;
use crate::testing::{GOOD, TestClock, TestServices, TestSystem, id, logged_events, with_services};
use crate::upstream::failure::{RequestFailure, RequestFailureKind};
use crate::upstream::oracle_health::{MonitoredOracle, RequestCallPermit};
use crate::upstream::{
    BoxFuture, ModelAnswerMetadata, ModelAttempt, ModelCallPolicy, ModelCaller, ModelClient, ModelError,
    ModelRefusal, ModelTextError,
};
use crate::verdict::cache::{PurgeVerdict, RegisterSession};
use crate::verdict::crosscheck::GateError;
use crate::verdict::rate_limiter::CallLimitError;
use oracled_domain::verdict::generation::{GenerationSettings, LOCKED_MODEL};
use oracled_domain::verdict::health::OracleHealthConfig;
use oracled_domain::verdict::session::SessionMismatch;
use oracled_domain::{DivergenceLevel, GatePath, ModelPrompt, PeerCredentials, Sha256Hex, VerdictLabel};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

const PEER: PeerCredentials = PeerCredentials { uid: 7, gid: 8, pid: None };

/// A model with scripted answers.
#[derive(Debug, Default)]
struct ScriptedModel {
    answers: Mutex<VecDeque<Result<String, ModelTextError>>>,
    requests: Mutex<Vec<(String, GenerationSettings)>>,
    /// Delays each answer until a notification, if it is set.
    held: Option<Notify>,
}

impl ScriptedModel {
    fn with_answers(answers: impl IntoIterator<Item = Result<String, ModelTextError>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    fn calls(&self) -> usize {
        self.requests.lock().expect("the lock is not poisoned").len()
    }

    fn settings(&self) -> Vec<GenerationSettings> {
        let requests = self.requests.lock().expect("the lock is not poisoned");
        requests.iter().map(|(_, settings)| settings.clone()).collect()
    }
}

impl ModelClient for ScriptedModel {
    fn oracle_id(&self) -> &'static str {
        "gemini"
    }

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
                usage: None,
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

fn outside(model: &Arc<ScriptedModel>, time: &TestClock) -> TestServices {
    let model: Arc<dyn ModelClient> = Arc::clone(model) as _;
    let policy = ModelCallPolicy { max_retries: 0, ..ModelCallPolicy::default() };
    let caller = ModelCaller::new(model, policy, time.clock());
    let oracle_id: oracled_domain::OracleId = "gemini".parse().expect("a valid id");
    let oracles =
        vec![MonitoredOracle { id: oracle_id.clone(), config: OracleHealthConfig::default(), probe: None }];
    let original = GenerationSettings { temperature: 0.7, ..GenerationSettings::locked(LOCKED_MODEL.into()) };
    TestServices {
        oracles,
        model: Some(ConfiguredModel::new(oracle_id, caller, LOCKED_MODEL.into(), original)),
        ..TestServices::default()
    }
}

fn with_model<F: Future<Output = ()>>(
    model: Arc<ScriptedModel>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>) -> F,
) {
    let time = TestClock::new();
    let outside = outside(&model, &time);
    with_services(time, outside, |world| test(world, model));
}

fn verdict(label: VerdictLabel) -> Result<String, ModelTextError> {
    Ok(format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan."}}"#))
}

fn failure(kind: RequestFailureKind) -> Result<String, ModelTextError> {
    Err(ModelTextError::Failed(RequestFailure::new(kind, "made up".into())))
}

async fn register(world: &TestSystem, session_id: &str, original_verdict: Option<VerdictLabel>) {
    let query = CustomerQuery::new("Sell honey?".into());
    let (session_id, tier) = (id(session_id), ProductTier::Quick);
    let message = RegisterSession { session_id, tier, query, customer_email: None, original_verdict };
    world.system.cache.ask(message).await.expect("the actor answers").expect("the commit succeeds");
}

async fn read(world: &TestSystem, session_id: &str) -> GenerationResult {
    world.system.regen.ask(RegenerateVerdict(id(session_id))).await.expect("the actor answers")
}

async fn deliver(world: &TestSystem, session_id: &str, query: &str) -> GenerationResult {
    let (session_id, query) = (id(session_id), CustomerQuery::new(query.into()));
    let message = GenerateVerdict(Submission { session_id, query, ..submission_of_query("") });
    world.system.regen.ask(message).await.expect("the actor answers")
}

async fn lose_verdict(world: &TestSystem, session_id: &str) {
    let purge = PurgeVerdict { session_id: id(session_id), peer: PEER };
    assert!(world.system.cache.ask(purge).await.expect("the actor answers").expect("the commit succeeds"));
}

#[test]
fn regeneration_uses_locked_settings_and_the_same_prompt() {
    let model = ScriptedModel::with_answers([verdict(VerdictLabel::Green), verdict(VerdictLabel::Red)]);
    with_model(model, |world, model| async move {
        let first = deliver(&world, "cs_1", "Sell honey?").await;
        assert!(matches!(first, Ok(SubmissionOutcome::Stored(_))), "{first:?}");
        let again = deliver(&world, "cs_1", "Sell honey?").await;
        assert!(matches!(again, Ok(SubmissionOutcome::Replayed(_))), "{again:?}");
        lose_verdict(&world, "cs_1").await;
        let second = read(&world, "cs_1").await;
        let Ok(SubmissionOutcome::Regenerated(_, check)) = second else { panic!("{second:?}") };
        assert_eq!(check.divergence_level, Some(DivergenceLevel::Significant));
        assert_eq!((check.prompt_changed, check.settings_changed), (Some(false), Some(true)));

        let requests = model.requests.lock().expect("the lock is not poisoned").clone();
        let [(prompt, _), (prompt_again, _)] = requests.as_slice() else { panic!("two calls: {requests:?}") };
        assert_eq!(prompt, prompt_again);
        let [original, regen] = model.settings().try_into().expect("two calls");
        assert_eq!((original.temperature, regen), (0.7, GenerationSettings::locked(LOCKED_MODEL.into())));
        assert_eq!(
            logged_events(&world.system.store),
            [
                "oracle_interaction",
                "tmm_crosscheck",
                "verdict_cached",
                "verdict_purged",
                "regen_attempted",
                "oracle_interaction",
                "tmm_crosscheck",
                "verdict_cached",
                "regen_divergence_check"
            ]
        );
    });
}

#[test]
fn thousand_reads_of_one_missing_verdict_are_one_call() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let reads: Vec<_> = (0..1000)
            .map(|_| {
                let regen = world.system.regen.clone();
                actix_rt::spawn(async move {
                    regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
                })
            })
            .collect();
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        model.held.as_ref().expect("`held` is set").notify_one();
        let mut bodies = Vec::new();
        for read in reads {
            match read.await.expect("the task does not panic") {
                Ok(SubmissionOutcome::Regenerated(cached, _)) => bodies.push(cached),
                other => panic!("{other:?}"),
            }
        }
        assert!(bodies.iter().all(|body| Arc::ptr_eq(body, &bodies[0])));
        assert_eq!(model.calls(), 1);
    });
}

/// Sends all of these at the same time, and lets the model answer when the first has reached it.
async fn during_model_call(
    world: &TestSystem,
    model: &ScriptedModel,
    orders: impl IntoIterator<Item = (Option<Submission>, SessionId)>,
) -> Vec<GenerationResult> {
    let flights: Vec<_> = orders
        .into_iter()
        .map(|(deliver, session_id)| {
            let regen = world.system.regen.clone();
            actix_rt::spawn(async move {
                match deliver {
                    Some(submission) => {
                        regen.ask(GenerateVerdict(submission)).await.expect("the actor answers")
                    }
                    None => regen.ask(RegenerateVerdict(session_id)).await.expect("the actor answers"),
                }
            })
        })
        .collect();
    while model.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let mut outcomes = Vec::new();
    for flight in flights {
        // one notification for each model call that may follow
        model.held.as_ref().expect("`held` is set").notify_one();
        outcomes.push(flight.await.expect("the task does not panic"));
    }
    outcomes
}

fn submission_of_query(query: &str) -> Submission {
    let (session_id, query) = (id("cs_1"), CustomerQuery::new(query.into()));
    Submission {
        session_id,
        tier: ProductTier::Quick,
        query,
        payload: None,
        customer_email: None,
        check: None,
        path: GatePath::Generate,
        generation_trace: None,
    }
}

#[test]
fn equal_requests_share_a_call_and_other_requests_are_a_conflict() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        let orders = ["Sell honey?", "Sell honey?", "Sell wax?"]
            .map(|query| (Some(submission_of_query(query)), id("cs_1")));
        let outcomes = during_model_call(&world, &model, orders).await;
        let [first, again, other] = outcomes.try_into().expect("three");
        assert!(matches!(first, Ok(SubmissionOutcome::Stored(_))), "{first:?}");
        assert!(matches!(again, Ok(SubmissionOutcome::Replayed(_))), "{again:?}");
        assert!(matches!(other, Ok(SubmissionOutcome::Mismatch(SessionMismatch::Query))), "{other:?}");
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn request_is_not_answered_with_the_rejection_of_another_uid() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        let by = |uid, order: Submission| {
            let caller = oracled_domain::RequestCaller {
                peer: PeerCredentials { uid, gid: uid, pid: None },
                request_id: "r".into(),
            };
            let regen = world.system.regen.clone();
            let answer = async move { regen.ask(GenerateVerdict(order)).await.expect("the actor answers") };
            actix_rt::spawn(run_as_caller(caller, answer))
        };
        let check = Some(Arc::new(CandidateCheck {
            facts: vec!["Another plan.".into()],
            ..CandidateCheck::default()
        }));
        let refused = by(1001, Submission { check, ..submission_of_query("Sell honey?") });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let held = model.held.as_ref().expect("`held` is set");
        held.notify_one();
        let refused = refused.await.expect("the task does not panic");
        assert!(matches!(refused, Ok(SubmissionOutcome::RejectedByRules { .. })), "{refused:?}");

        // the facts of that rejection apply to the first of the two equal orders, and not to the other
        let [first, other] = [1001, 1002].map(|uid| by(uid, submission_of_query("Sell honey?")));
        while model.calls() < 2 {
            tokio::task::yield_now().await;
        }
        held.notify_one();
        let first = first.await.expect("the task does not panic");
        assert!(matches!(first, Ok(SubmissionOutcome::RejectedByRules { .. })), "{first:?}");
        held.notify_one();
        let other = other.await.expect("the task does not panic");
        assert!(matches!(other, Ok(SubmissionOutcome::Stored(_))), "{other:?}");
    });
}

#[test]
fn second_request_is_not_answered_with_the_rejection_of_the_first() {
    let refused = Ok(r#"{"verdict":"GREEN","summary":" "}"#.to_owned());
    let answers = Mutex::new([refused, verdict(VerdictLabel::Green)].into());
    let model = Arc::new(ScriptedModel { answers, held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        let orders = ["Sell honey?", "Sell wax?"].map(|query| (Some(submission_of_query(query)), id("cs_1")));
        let outcomes = during_model_call(&world, &model, orders).await;
        let [first, other] = outcomes.try_into().expect("two");
        assert!(matches!(first, Ok(SubmissionOutcome::RejectedByCrosscheck { .. })), "{first:?}");
        assert!(matches!(other, Ok(SubmissionOutcome::Stored(_))), "{other:?}");
    });
}

#[test]
fn read_during_a_generation_shares_its_verdict_without_rate_limit() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        let orders = [(Some(submission_of_query("Sell honey?")), id("cs_1")), (None, id("cs_1"))];
        let outcomes = during_model_call(&world, &model, orders).await;
        assert!(
            matches!(outcomes[..], [Ok(SubmissionOutcome::Stored(_)), Ok(SubmissionOutcome::Stored(_))]),
            "{outcomes:?}"
        );
    });
    let answers = Mutex::new([failure(RequestFailureKind::Status(500)), verdict(VerdictLabel::Green)].into());
    let model = Arc::new(ScriptedModel { answers, held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let orders = [(None, id("cs_1")), (Some(submission_of_query("Sell honey?")), id("cs_1"))];
        let outcomes = during_model_call(&world, &model, orders).await;
        assert!(matches!(outcomes[..], [Err(_), Ok(SubmissionOutcome::Stored(_))]), "{outcomes:?}");
    });
}

#[test]
fn model_is_not_called_if_the_verdict_could_not_be_stored() {
    let model = ScriptedModel::with_answers([]);
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        world.break_store();
        let lost = AuditEvent::new(world.system.clock.now(), None, EventKind::ServiceStopped);
        assert!(world.system.log.commit(lost.into()).await.is_err());
        for outcome in [deliver(&world, "cs_2", "Sell honey?").await, read(&world, "cs_1").await] {
            assert!(
                matches!(outcome.as_ref().map_err(|e| &**e), Err(GenerationError::Commit(_))),
                "{outcome:?}"
            );
        }
        assert_eq!(model.calls(), 0);
        world.mend_store();
    });
}

#[test]
fn rate_limit_is_reported_before_an_open_circuit() {
    let model = ScriptedModel::with_answers((0..3).map(|_| failure(RequestFailureKind::Status(503))));
    with_model(model, |world, _| async move {
        for n in 0..3 {
            register(&world, &format!("cs_{n}"), None).await;
            assert!(read(&world, &format!("cs_{n}")).await.is_err());
        }
        let again = read(&world, "cs_0").await.expect_err("the limit rejects the request");
        assert!(matches!(&*again, GenerationError::Limited(CallLimitError::Session { .. })), "{again:?}");
    });
}

#[test]
fn await_generations_waits_for_those_in_progress() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        world.system.regen.ask(AwaitGenerations).await.expect("no call is in flight");
        let regen = world.system.regen.clone();
        let flight =
            actix_rt::spawn(
                async move { regen.ask(GenerateVerdict(submission_of_query("Sell honey?"))).await },
            );
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let regen = world.system.regen.clone();
        let rest = actix_rt::spawn(async move { regen.ask(AwaitGenerations).await });
        tokio::task::yield_now().await;
        assert!(!rest.is_finished());
        model.held.as_ref().expect("`held` is set").notify_one();
        rest.await.expect("the task does not panic").expect("the call succeeds");
        assert!(logged_events(&world.system.store).contains(&"verdict_cached".to_owned()));
        drop(flight.await);
    });
}

#[test]
fn second_regeneration_within_5_minutes_is_refused_after_any_outcome() {
    for first in [
        failure(RequestFailureKind::Status(500)),
        Err(ModelTextError::Refused(ModelRefusal::Empty)),
        Ok("no JSON".into()),
    ] {
        let model = ScriptedModel::with_answers([first]);
        with_model(model, |world, model| async move {
            register(&world, "cs_1", None).await;
            let refused = read(&world, "cs_1").await;
            assert!(!matches!(refused, Ok(SubmissionOutcome::Regenerated(..))), "{refused:?}");
            let again = read(&world, "cs_1").await.expect_err("the limit rejects the request");
            let GenerationError::Limited(CallLimitError::Session { wait }) = &*again else {
                panic!("{again:?}")
            };
            assert_eq!((*wait, model.calls()), (Duration::from_secs(300), 1));
            world.time.advance(300);
            let third = read(&world, "cs_1").await;
            assert!(matches!(third, Ok(SubmissionOutcome::Regenerated(..))), "{third:?}");
        });
    }
}

#[test]
fn attempt_that_did_not_reach_the_model_does_not_count() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Connect)]);
    with_model(model, |world, _| async move {
        register(&world, "cs_1", None).await;
        let unreached = read(&world, "cs_1").await.expect_err("the model is unreachable");
        let GenerationError::Model { error: ModelError::Unavailable { .. }, retry_after } = &*unreached
        else {
            panic!("{unreached:?}")
        };
        assert!(retry_after.is_some_and(|wait| wait < Duration::from_secs(60)), "{retry_after:?}");
        assert!(matches!(read(&world, "cs_1").await, Ok(SubmissionOutcome::Regenerated(..))));
    });
}

#[test]
fn session_limit_survives_a_restart() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Status(500))]);
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        assert!(read(&world, "cs_1").await.is_err());
        let outside = outside(&model, &world.time);
        let again = world.restarted(outside).await;
        let refused = read(&again, "cs_1").await.expect_err("the limit rejects the request");
        assert!(matches!(&*refused, GenerationError::Limited(CallLimitError::Session { .. })), "{refused:?}");
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn unknown_or_delivered_session_gets_no_generation() {
    let model = ScriptedModel::with_answers([]);
    with_model(model, |world, model| async move {
        let unknown = read(&world, "cs_1").await.expect_err("the session is unknown");
        assert!(matches!(&*unknown, GenerationError::SessionUnknown), "{unknown:?}");
        register(&world, "cs_1", Some(VerdictLabel::Green)).await;
        let delivered = deliver(&world, "cs_1", "Sell honey?").await.expect_err("it has its verdict");
        assert!(matches!(&*delivered, GenerationError::DeliveredAlready), "{delivered:?}");
        assert_eq!((model.calls(), logged_events(&world.system.store).len()), (0, 1));
    });
}

#[test]
fn model_is_not_called_after_three_failures_open_the_circuit() {
    let model = ScriptedModel::with_answers((0..3).map(|_| failure(RequestFailureKind::Status(503))));
    with_model(model, |world, model| async move {
        for n in 0..4 {
            register(&world, &format!("cs_{n}"), None).await;
        }
        for n in 0..3 {
            assert!(read(&world, &format!("cs_{n}")).await.is_err());
        }
        let open = read(&world, "cs_3").await.expect_err("the circuit is open");
        let GenerationError::NotPermitted { retry_after, .. } = &*open else { panic!("{open:?}") };
        assert_eq!((*retry_after, model.calls()), (Duration::from_secs(30), 3));
        assert_eq!(
            world.system.store.regen_attempt(&id("cs_3")).expect("the regeneration attempt is readable"),
            None,
            "not attempted"
        );

        world.time.advance(30);
        assert!(
            matches!(read(&world, "cs_3").await, Ok(SubmissionOutcome::Regenerated(..))),
            "one call is let through"
        );
        let permit = world.system.oracle_health.ask(RequestCallPermit("gemini".parse().expect("a valid id")));
        drop(permit.await.expect("the actor answers").expect("it is closing"));
    });
}

#[test]
fn rejected_verdict_is_logged_with_its_model_call_and_not_stored() {
    let model = ScriptedModel::with_answers([Ok(r#"{"verdict":"GREEN","summary":" ","note":"q7x"}"#.into())]);
    with_model(model, |world, _| async move {
        let refused = deliver(&world, "cs_1", "Sell honey?").await;
        let Ok(SubmissionOutcome::RejectedByCrosscheck { decision, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(!decision.approved);
        assert_eq!(logged_events(&world.system.store), ["oracle_interaction", "tmm_crosscheck"]);
        assert!(world.system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert!(world.system.store.session(&id("cs_1")).expect("the session is readable").is_none());
    });
}

#[test]
fn verdict_made_while_the_store_is_broken_is_not_delivered_but_logged() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let regen = world.system.regen.clone();
        let read = actix_rt::spawn(async move {
            regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
        });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.break_store();
        model.held.as_ref().expect("`held` is set").notify_one();
        let outcome =
            read.await.expect("the task does not panic").expect_err("the log entry cannot be written");
        assert!(matches!(&*outcome, GenerationError::Gate(_)), "{outcome:?}");
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        let events: Vec<_> = ["oracle_interaction", "tmm_crosscheck"]
            .map(|event| lines.iter().filter(|line| line.contains(event)).count())
            .into();
        assert_eq!((events, lines.len()), (vec![1, 1], 2), "{lines:?}");
        world.mend_store();
    });
}

#[test]
fn regen_gap_06_divergence_is_escalated_once_and_over_a_restart() {
    let regenerated = |n| verdict(if n < 2 { VerdictLabel::Amber } else { VerdictLabel::Green });
    let model =
        ScriptedModel::with_answers((0..20).flat_map(|n| [verdict(VerdictLabel::Green), regenerated(n)]));
    let time = TestClock::new();
    let mut outside = outside(&model, &time);
    if let Some(model) = &mut outside.model {
        model.original = GenerationSettings::locked(LOCKED_MODEL.into());
    }
    with_services(time, outside, |world| async move {
        for n in 0..20 {
            let first = deliver(&world, &format!("cs_{n}"), "Sell honey?").await;
            assert!(matches!(first, Ok(SubmissionOutcome::Stored(_))), "{first:?}");
            lose_verdict(&world, &format!("cs_{n}")).await;
            assert!(matches!(read(&world, &format!("cs_{n}")).await, Ok(SubmissionOutcome::Regenerated(..))));
        }
        let variance = world.system.regen.ask(ReadVariance).await.expect("the actor answers");
        assert_eq!((variance.regens, variance.diverged, variance.escalated), (20, 2, true));
        while !logged_events(&world.system.store).contains(&"infrastructure_variance".to_owned()) {
            tokio::task::yield_now().await;
        }
        // regenerations without an original do not displace the counted ones
        for n in 100..210 {
            register(&world, &format!("cs_{n}"), None).await;
            assert!(matches!(read(&world, &format!("cs_{n}")).await, Ok(SubmissionOutcome::Regenerated(..))));
        }
        let TestSystem { system, .. } = world.restarted(TestServices::default()).await;
        assert_eq!(system.regen.ask(ReadVariance).await.expect("the actor answers"), variance);
        let escalations =
            logged_events(&system.store).iter().filter(|e| *e == "infrastructure_variance").count();
        assert_eq!(escalations, 1);
    });
}

#[test]
fn generation_survives_a_panic_of_its_actor() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let regen = world.system.regen.clone();
        let read_on = actix_rt::spawn(async move { regen.ask(RegenerateVerdict(id("cs_1"))).await });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(world.system.regen.ask(crate::InjectPanic).await.is_err());
        let regen = world.system.regen.clone();
        let joined = actix_rt::spawn(async move { regen.ask(RegenerateVerdict(id("cs_1"))).await });
        tokio::task::yield_now().await;
        model.held.as_ref().expect("`held` is set").notify_one();
        assert!(matches!(
            joined.await.expect("the task does not panic"),
            Ok(Ok(SubmissionOutcome::Regenerated(..) | SubmissionOutcome::Replayed(_)))
        ));
        drop(read_on.await);
        assert_eq!(model.calls(), 1, "the one flight was joined");
    });
}

#[test]
fn check_set_during_a_regeneration_makes_its_verdict_stale() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", Some(VerdictLabel::Green)).await;
        let regen = world.system.regen.clone();
        let reading = actix_rt::spawn(async move {
            regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
        });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let check = Some(Arc::new(CandidateCheck {
            facts: vec!["another plan".into()],
            ..CandidateCheck::default()
        }));
        let (tier, query) = (ProductTier::Quick, CustomerQuery::new("Sell honey?".into()));
        let find = FindSession(Submission { tier, query, check: check.clone(), ..submission_of_query("") });
        let known =
            world.system.cache.ask(find).await.expect("the actor answers").expect("the commit succeeds");
        assert!(matches!(known, FindSessionOutcome::Nothing(cached) if cached == check));
        model.held.as_ref().expect("`held` is set").notify_one();
        let outcome = reading.await.expect("the task does not panic");
        let Err(failed) = &outcome else { panic!("{outcome:?}") };
        assert!(matches!(**failed, GenerationError::Gate(GateError::Cache(_))), "{failed:?}");
        assert!(world.system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert_eq!(logged_events(&world.system.store).last().map(String::as_str), Some("tmm_crosscheck"));
    });
}
