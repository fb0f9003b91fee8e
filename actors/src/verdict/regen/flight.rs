//! One generation in progress: limits, model call, gate.

use super::{AskedModel, Doors};
use crate::audit::logger::CommitError;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::door::NoAnswer;
use crate::platform::metrics::Metrics;
use crate::upstream::oracle_health::{Lease, Permit, PermitError, QuotaWait, Statuses};
use crate::upstream::{Called, Caller, Health, ModelError, Purpose};
use crate::verdict::cache::{CacheError, Find, Known};
use crate::verdict::crosscheck::{GateError, Judge};
use crate::verdict::rate_limiter::{Limited, Place, Take, TakeError, TakeFirst, TakeRetry, Taken};
use crate::verdict::submission::{Made, Submission, SubmissionOutcome};
use oracled_domain::verdict::generation::Settings;
use oracled_domain::verdict::health;
use oracled_domain::{
    Event, GatePath, Generation, OracleId, Payload, Prompt, SessionId, build_verdict_prompt,
};
use oracled_store::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// The result of a flight, for all callers that wait for it.
pub type Landed = Result<SubmissionOutcome, Arc<Failed>>;

/// Why there is no verdict. Nothing was delivered, and no part of the verdict is cached.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The session is unknown, and so is its question.
    #[error("the session is not known")]
    SessionUnknown,
    /// The session's first verdict was already delivered. It is regenerated only by a read.
    #[error("the session's verdict was already delivered")]
    DeliveredAlready,
    /// No model is configured.
    #[error("no model is configured")]
    NoModel,
    /// A limit is reached.
    #[error(transparent)]
    Limited(Limited),
    /// The model's circuit is open, or the model requested a wait.
    #[error("{error}")]
    NotPermitted {
        /// The cause.
        error: PermitError,
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// The model returned no answer that can be judged.
    #[error("{error}")]
    Model {
        /// Why the call returned no answer.
        error: ModelError,
        /// Time until a retry makes sense; `None` if a retry makes no sense.
        retry_after: Option<Duration>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The gate could not judge or log the verdict.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// An actor did not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The flight's task panicked.
    #[error("generating the verdict failed unexpectedly")]
    Crashed,
}

impl From<TakeError> for Failed {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Limited(limited) => Self::Limited(limited),
            TakeError::Store(error) => Self::Store(error),
            TakeError::Commit(error) => Self::Commit(error),
        }
    }
}

/// When to retry if an administrator holds the circuit open, or the model reports no wait.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Runs the flights, which share its parts.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) model: Option<AskedModel>,
    pub(super) doors: Doors,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
}

/// A verdict to generate: the submission, its prompt and the settings.
struct Order {
    submission: Submission,
    prompt: Prompt,
    settings: Settings,
}

/// The permits for a model call.
struct Leave {
    lease: Lease,
    /// The place among the calls in flight, held until the flight ends.
    _place: Place,
    /// The committed attempt, for a regeneration.
    taken: Option<Taken>,
}

impl Pilot {
    /// Regenerates the lost verdict of a session.
    pub(super) async fn regenerate(&self, session_id: SessionId) -> Landed {
        self.ended(GatePath::Regen, self.try_regenerate(session_id).await)
    }

    /// Generates a first verdict.
    pub(super) async fn generate(&self, submission: Submission) -> Landed {
        self.ended(GatePath::Generate, self.try_generate(submission).await)
    }

    fn ended(&self, path: GatePath, landed: Result<SubmissionOutcome, Failed>) -> Landed {
        let outcome = landed.as_ref().map_or_else(Failed::outcome, SubmissionOutcome::made_outcome);
        self.metrics.making.ended(path, outcome);
        Ok(landed?)
    }

    async fn try_regenerate(&self, session_id: SessionId) -> Result<SubmissionOutcome, Failed> {
        // another flight may have stored the verdict since the reader's cache miss
        if let Some((delivery, _)) = self.store.verdict(&session_id)? {
            return Ok(SubmissionOutcome::Replayed(Arc::new(delivery.into())));
        }
        let (session, _) = self.store.session(&session_id)?.ok_or(Failed::SessionUnknown)?;
        let model = self.model()?;
        if let Some(wait) = self.wait(&session_id) {
            return Err(Failed::Limited(Limited::Session { wait }));
        }
        let order = Order {
            prompt: build_verdict_prompt(session.tier, &session.query),
            settings: model.regen(session.original.as_ref()),
            submission: Submission {
                session_id: session_id.clone(),
                tier: session.tier,
                query: session.query,
                payload: None,
                customer_email: None,
                check: session.check,
                path: GatePath::Regen,
                made: None,
            },
        };
        let lease = self.lease(model).await?;
        let take = Take { session_id, tier: session.tier, generation: order.generation() };
        let (taken, place) = self.doors.rate_limiter.ask(take).await??;
        self.fly(model, order, Leave { lease, _place: place, taken: Some(taken) }).await
    }

    async fn try_generate(&self, mut submission: Submission) -> Result<SubmissionOutcome, Failed> {
        match self.doors.cache.ask(Find(submission.clone())).await?? {
            Known::Cached(cached) => return Ok(SubmissionOutcome::Replayed(cached)),
            Known::Mismatch(mismatch) => return Ok(SubmissionOutcome::Mismatch(mismatch)),
            Known::Nothing(kept) => submission.check = submission.check.or(kept),
        }
        let session = self.store.session(&submission.session_id)?;
        if session.is_some_and(|(session, _)| session.original.is_some()) {
            return Err(Failed::DeliveredAlready);
        }
        let model = self.model()?;
        let prompt = build_verdict_prompt(submission.tier, &submission.query);
        let order = Order { submission, prompt, settings: model.original.clone() };
        let lease = self.lease(model).await?;
        let place = self.doors.rate_limiter.ask(TakeFirst).await?.map_err(Failed::Limited)?;
        self.fly(model, order, Leave { lease, _place: place, taken: None }).await
    }

    fn model(&self) -> Result<&AskedModel, Failed> {
        self.model.as_ref().ok_or(Failed::NoModel)
    }

    async fn lease(&self, model: &AskedModel) -> Result<Lease, Failed> {
        // a verdict that could not be delivered must not cost a model call
        if let Some((cause, _)) = self.doors.log.report().borrow().takes_no_work() {
            return Err(CommitError::Unavailable(cause.clone()).into());
        }
        let permit = self.doors.oracle_health.ask(Permit(model.oracle_id.clone())).await?;
        permit.map_err(|error| {
            let retry_after = match &error {
                PermitError::CircuitOpen { retry_after, .. } => retry_after.unwrap_or(RETRY_AFTER),
                PermitError::QuotaWait { retry_after, .. } => *retry_after,
                PermitError::Unknown(_) => RETRY_AFTER,
            };
            Failed::NotPermitted { error, retry_after }
        })
    }

    /// Whether the circuit has not opened since it permitted the call.
    async fn is_closed(&self, oracle_id: &OracleId) -> bool {
        let statuses = self.doors.oracle_health.ask(Statuses).await.unwrap_or_default();
        statuses
            .iter()
            .any(|health| health.oracle_id == *oracle_id && health.status != health::Status::CircuitOpen)
    }

    /// Calls the model and sends its answer to the gate.
    async fn fly(
        &self,
        model: &AskedModel,
        mut order: Order,
        leave: Leave,
    ) -> Result<SubmissionOutcome, Failed> {
        let Leave { lease, _place, taken } = leave;
        let began = monotonic();
        let mut called = self.call(model, &model.caller, &order).await;
        let substitute =
            called.outcome.as_ref().err().and_then(|error| model.substitute(&order.settings, error));
        if let Some(settings) = substitute.filter(|_| order.submission.path == GatePath::Regen)
            && self.may_retry(model).await
        {
            let (gone, instead) = (&order.settings.model, &settings.model);
            tracing::warn!(gone, instead, "the original's model is gone; asking the configured model");
            order.settings = settings;
            let first = std::mem::take(&mut called.interactions);
            called = self.call(model, &model.caller.after(began.elapsed()), &order).await;
            called.interactions.splice(0..0, first);
            called.reached = true;
        }
        self.metrics.making.called(&called.interactions);
        if let Err(ModelError::RefusedRequest { status, .. }) = &called.outcome {
            self.metrics.making.refused_request(*status);
        }
        lease.report(outcome(&called));
        let Called { outcome, interactions, reached, .. } = called;
        match outcome {
            Ok(answer) => self.judged(order, answer.text, interactions).await,
            Err(error) => {
                let wait = self.gave_nothing(&order, interactions, taken.filter(|_| !reached)).await;
                let retry_after = match &error {
                    ModelError::Unavailable { retry_after, .. } => {
                        Some(wait.unwrap_or_default().max(retry_after.unwrap_or(RETRY_AFTER)))
                    }
                    ModelError::Timeout { .. } => Some(wait.unwrap_or_default().max(RETRY_AFTER)),
                    ModelError::Refused { .. } => wait,
                    ModelError::RefusedRequest { .. } => None,
                };
                Err(Failed::Model { error, retry_after })
            }
        }
    }

    async fn call(&self, model: &AskedModel, caller: &Caller, order: &Order) -> Called {
        let purpose =
            Purpose { session_id: order.submission.session_id.clone(), path: order.submission.path };
        let on_quota_wait = async |wait| {
            let quota_wait = QuotaWait { oracle_id: model.oracle_id.clone(), wait };
            if let Err(error) = self.doors.oracle_health.ask(quota_wait).await {
                tracing::warn!(%error, "could not store the wait that the model asked for");
            }
        };
        let may_retry = async || self.may_retry(model).await;
        caller.call(&purpose, &order.prompt, &order.settings, on_quota_wait, may_retry).await
    }

    /// Whether an attempt may be retried: the model's circuit is closed, and the retry budget is not used up.
    async fn may_retry(&self, model: &AskedModel) -> bool {
        let closed = self.is_closed(&model.oracle_id).await;
        closed && matches!(self.doors.rate_limiter.ask(TakeRetry).await, Ok(Ok(())))
    }

    /// Logs a call without an answer that can be judged, and undoes the attempt if it did not reach the model. Returns how
    /// long the session has to wait.
    async fn gave_nothing(
        &self,
        order: &Order,
        interactions: Vec<Event>,
        unreached: Option<Taken>,
    ) -> Option<Duration> {
        let made = Made { generation: order.generation(), interactions };
        let mut record = Made::record(Some(&made), None);
        if let Some(taken) = unreached {
            taken.give_back(&mut record);
        }
        // an entry that cannot be committed goes to the service log; there is no verdict in either case
        if let Err(error) = self.doors.log.commit(record).await {
            tracing::warn!(%error, "could not log a model call");
        }
        self.wait_after(order.submission.path, &order.submission.session_id)
    }

    /// The time until the session's next regeneration; `None` unless `path` is a regeneration.
    fn wait_after(&self, path: GatePath, session_id: &SessionId) -> Option<Duration> {
        (path == GatePath::Regen).then(|| self.wait(session_id)).flatten()
    }

    /// The time until a session's verdict may be regenerated; `None` for now. The rate limiter decides. This check only
    /// avoids that requests that come too soon reach the rate limiter and the circuit.
    fn wait(&self, session_id: &SessionId) -> Option<Duration> {
        let noted = self.store.regen_attempt(session_id).ok().flatten();
        let wait = noted.and_then(|(attempt, _)| attempt.wait(self.clock.now()));
        wait.map(|wait| wait.unsigned_abs())
    }

    async fn judged(
        &self,
        order: Order,
        text: String,
        interactions: Vec<Event>,
    ) -> Result<SubmissionOutcome, Failed> {
        let made = Some(Made { generation: order.generation(), interactions });
        let submission =
            Submission { payload: Some(Payload::raw(&text)), made: made.clone(), ..order.submission };
        let (path, session_id) = (submission.path, submission.session_id.clone());
        match self.doors.crosscheck.ask(Judge(submission)).await {
            Ok(outcome) => Ok(outcome?.with_retry_after(self.wait_after(path, &session_id))),
            Err(error) => {
                // the gate would have logged the call
                self.doors.log.commit(Made::record(made.as_ref(), None)).await?;
                Err(error.into())
            }
        }
    }
}

impl Order {
    fn generation(&self) -> Generation {
        Generation { prompt_sha256: self.prompt.sha256().clone(), settings: self.settings.clone() }
    }
}

/// The effect of a call on the model's health.
fn outcome(called: &Called) -> health::Outcome {
    match called.health {
        Health::Answered => health::Outcome::Success { latency_ms: Some(called.latency_ms) },
        Health::Neutral => health::Outcome::Neutral,
        Health::Failed => {
            let why = called.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
            match called.outcome {
                Err(ModelError::RefusedRequest { .. }) => health::Outcome::Refusal(why),
                _ => health::Outcome::Failure(why),
            }
        }
    }
}
