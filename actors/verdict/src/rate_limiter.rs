//! The rate limiter. It limits how often a session's verdict may be regenerated. It also limits the calls of
//! each model, per minute and at the same time.
//!
//! The limit of a session is a row in the store, written before the model is called. It therefore survives a
//! restart. A crash between the two can only make it stricter, and millions of sessions use no memory. The
//! budget of all calls is kept by governor, and is reset when the daemon restarts.

use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::work::InFlight;
use domain_base::event::{AuditEvent, EventSeverity};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::{CostBudgets, DailyBudget, day_of, end_of_day};
use domain_verdict::event::{DailyBudgetReached, RegenAttempted, RegenFailed};
use domain_verdict::generation::VerdictGeneration;
use domain_verdict::label::ProductTier;
use domain_verdict::regen::{RegenAttempt, RegenFailure};
use domain_verdict::session::SessionRecord;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowName, RowWrite, Store, StoreError};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long no trial starts after another call was refused. Orders ask again within this time.
const TRIAL_PAUSE: Duration = Duration::from_secs(3);

/// Why the model may not be called now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallLimitError {
    /// The session's verdict was regenerated a short time ago.
    #[error("the session's verdict was regenerated less than five minutes ago")]
    Session {
        /// Time until the next regeneration is allowed.
        wait: Duration,
    },
    /// Too many model calls are in flight.
    #[error("too many model calls in flight (limit {calls_at_once})")]
    Places {
        calls_at_once: usize,
        /// Time until a retry makes sense.
        wait: Duration,
    },
    /// The budget of model calls per minute is used up.
    #[error("too many model calls (limit {calls_per_minute} a minute)")]
    Budget {
        calls_per_minute: NonZeroU32,
        /// Time until the next call is allowed.
        wait: Duration,
    },
    /// The application's own budget of model calls per minute is used up.
    #[error("too many model calls of the application (limit {calls_per_minute} a minute)")]
    Application {
        calls_per_minute: NonZeroU32,
        /// Time until the next call of the application is allowed.
        wait: Duration,
    },
    /// A daily budget is used up.
    #[error("the budget for model calls of this UTC day is used up ({budget})")]
    DailyBudget {
        budget: Box<DailyBudget>,
        /// Time until the next day.
        wait: Duration,
    },
}

impl CallLimitError {
    /// The time until a retry makes sense.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        match self {
            Self::Session { wait }
            | Self::Places { wait, .. }
            | Self::Budget { wait, .. }
            | Self::Application { wait, .. }
            | Self::DailyBudget { wait, .. } => *wait,
        }
    }
}

/// Why a call may not start.
#[derive(Debug, thiserror::Error)]
pub enum CallPermitError {
    /// A limit is reached.
    #[error(transparent)]
    Limited(#[from] CallLimitError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Requests a regeneration of a session's verdict. The attempt is durable when this returns.
#[derive(Debug, Message)]
#[rtype(result = "Result<(RegenPermit, ModelCallSlot), CallPermitError>")]
pub struct RequestRegen {
    pub session_id: SessionId,
    /// The model that is called.
    pub oracle_id: UpstreamId,
    /// The tier of the session.
    pub tier: ProductTier,
    /// The prompt and the settings of the call.
    pub generation: VerdictGeneration,
}

/// A permitted regeneration, which can be undone.
#[derive(Debug, Clone)]
pub struct RegenPermit {
    attempt: RegenAttempt,
    revision: u64,
}

impl RegenPermit {
    /// Adds to `record` the removal of the attempt. Use this if the model was not reached.
    pub fn remove_attempt(self, record: &mut JournalRecord) {
        let Self { attempt: RegenAttempt { session_id, .. }, revision } = self;
        record.expect.push(RowExpectation::new::<RegenAttempt>(&session_id, Some(revision)));
        record.writes.push(RowWrite::remove::<RegenAttempt>(&session_id));
    }

    /// The record that the attempt failed, for readers on other hosts; `None` if this is the only host. It is stale if the attempt
    /// was removed.
    pub(crate) fn failed(self, failure: RegenFailure, now: Timestamp) -> Option<JournalRecord> {
        let Self { attempt, revision } = self;
        attempt.host.as_ref()?;
        let (outcome, cause) = (failure.outcome, failure.cause.clone());
        let session_id = attempt.session_id.clone();
        Some(JournalRecord {
            expect: vec![RowExpectation::new::<RegenAttempt>(&session_id, Some(revision))],
            events: vec![AuditEvent::new(now, session_id, RegenFailed { outcome, cause })],
            writes: vec![RowWrite::put(&RegenAttempt { failure: Some(failure), ..attempt })],
            ..JournalRecord::default()
        })
    }
}

/// Requests a call of this model for a first verdict, which has no limit for each session.
#[derive(Debug, Message)]
#[rtype(result = "Result<ModelCallSlot, CallPermitError>")]
pub struct RequestFirstCall {
    pub oracle_id: UpstreamId,
    pub application: ApplicationName,
}

/// Requests a call of this model that tries a prompt template. Such calls get at most half of the model's limits. They are
/// refused for a while after other calls were refused, so that the others come first.
#[derive(Debug, Message)]
#[rtype(result = "Result<TrialCallSlot, CallPermitError>")]
pub struct RequestTrialCall(pub UpstreamId);

/// The slots of a trial: among the trials, and among all calls in flight.
#[derive(Debug)]
pub struct TrialCallSlot {
    _trial: ModelCallSlot,
    _call: ModelCallSlot,
}

/// Requests a retry of this model within a call that already has its slot.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), CallLimitError>")]
pub struct RequestCallRetry {
    pub oracle_id: UpstreamId,
    /// `None` for a trial.
    pub application: Option<ApplicationName>,
}

/// The actor.
#[derive(Debug)]
pub struct RateLimiter {
    calls: BTreeMap<UpstreamId, ModelCallBudget>,
    trials: BTreeMap<UpstreamId, ModelCallBudget>,
    /// When a call that is not a trial was refused last by the limits of a model.
    refused_at: Option<Instant>,
    applications: BTreeMap<ApplicationName, CallRate>,
    budgets: CostBudgets,
    /// The applications whose used up budgets are being logged; `None` for the budget of all.
    logging: InFlight<Option<ApplicationName>>,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    /// The name of this host in its cluster.
    host: Option<String>,
}

/// The limits of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallLimits {
    pub models: BTreeMap<UpstreamId, ModelCallLimits>,
    /// The calls per minute of applications that have a limit of their own, for all models together.
    pub applications: BTreeMap<ApplicationName, NonZeroU32>,
}

impl RateLimiter {
    pub fn new(
        limits: CallLimits,
        budgets: CostBudgets,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        host: Option<String>,
    ) -> Self {
        let CallLimits { models, applications } = limits;
        let trials =
            models.iter().map(|(id, limits)| (id.clone(), ModelCallBudget::new(limits.half()))).collect();
        let calls = models.into_iter().map(|(id, limits)| (id, ModelCallBudget::new(limits))).collect();
        let applications =
            applications.into_iter().map(|(name, limit)| (name, CallRate::new(limit))).collect();
        Self {
            calls,
            trials,
            refused_at: None,
            applications,
            budgets,
            logging: InFlight::default(),
            store,
            log,
            clock,
            host,
        }
    }

    /// Takes a slot of a model, and one call of its budget and of the application's.
    fn take_slot(
        &mut self,
        oracle_id: &UpstreamId,
        application: &ApplicationName,
    ) -> Result<ModelCallSlot, CallLimitError> {
        let slot = self.calls_of(oracle_id).and_then(ModelCallBudget::take_slot);
        let slot = slot.and_then(|slot| self.take_call(oracle_id, Some(application)).map(|()| slot));
        if let Err(CallLimitError::Places { .. } | CallLimitError::Budget { .. }) = slot {
            self.refused_at = Some(monotonic());
        }
        slot
    }

    /// The same for a trial, which belongs to no application.
    fn take_trial_slot(&self, oracle_id: &UpstreamId) -> Result<TrialCallSlot, CallLimitError> {
        let calls = self.calls_of(oracle_id)?;
        let left = self.refused_at.and_then(|at| TRIAL_PAUSE.checked_sub(monotonic().duration_since(at)));
        if let Some(wait) = left {
            return Err(CallLimitError::Places { calls_at_once: calls.at_once, wait });
        }
        let trials = self.trials.get(oracle_id).unwrap_or(calls);
        let slots = TrialCallSlot { _trial: trials.take_slot()?, _call: calls.take_slot()? };
        trials.take_budgeted_call()?;
        calls.take_budgeted_call()?;
        Ok(slots)
    }

    fn take_call(
        &self,
        oracle_id: &UpstreamId,
        application: Option<&ApplicationName>,
    ) -> Result<(), CallLimitError> {
        let own = application.and_then(|application| self.applications.get(application));
        if let Some(own) = own {
            let calls_per_minute = own.per_minute;
            own.take().map_err(|wait| CallLimitError::Application { calls_per_minute, wait })?;
        }
        let taken = self.calls_of(oracle_id).and_then(ModelCallBudget::take_budgeted_call);
        if let (Err(_), Some(own)) = (&taken, own) {
            own.put_back();
        }
        taken
    }

    /// The budget of calls of a model. A model without one may not be called.
    fn calls_of(&self, oracle_id: &UpstreamId) -> Result<&ModelCallBudget, CallLimitError> {
        let none = CallLimitError::Places { calls_at_once: 0, wait: SLOT_RETRY_WAIT };
        self.calls.get(oracle_id).ok_or(none)
    }

    /// Checks that no daily budget is used up that applies to `application`; `None` is for trials. Calls in flight are not
    /// counted.
    fn check_daily_budgets(&self, application: Option<&ApplicationName>) -> Result<(), CallPermitError> {
        if self.budgets.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let costs = self.store.costs_of_day(day_of(now))?;
        let budgets = self.budgets.of_day(&costs, now);
        let Some(budget) = budgets.into_iter().find(|budget| budget.stops(application)) else {
            return Ok(());
        };
        if !costs.is_known_used_up(budget.application.as_ref(), &budget.daily) {
            self.log_used_up_budget(&budget, now);
        }
        let wait = end_of_day(now).duration_since(now).unsigned_abs();
        Err(CallLimitError::DailyBudget { budget: Box::new(budget), wait }.into())
    }

    /// Logs that a budget is used up. The commit also stores it with the costs of the day.
    fn log_used_up_budget(&self, budget: &DailyBudget, now: Timestamp) {
        let DailyBudget { application, daily, currency, costs_of_today: costs, .. } = budget.clone();
        let Some(claim) = self.logging.claim(application.clone()) else { return };
        let day = day_of(now);
        tracing::warn!(%costs, budget = %daily, currency, key = %budget, "a daily budget for model calls is used up");
        let level = EventSeverity::Escalation;
        let reached = DailyBudgetReached { application, day, budget: daily, costs, currency, level };
        let (log, reached) = (self.log.clone(), AuditEvent::new(now, None, reached));
        actix_rt::spawn(async move {
            // if it fails, the next refused call tries again
            drop(log.commit(reached.into()).await);
            drop(claim);
        });
    }

    /// Checks that the session's last attempt is long enough ago, and returns the revision of its row.
    fn check_session_limit(&self, session_id: &SessionId) -> Result<Option<u64>, CallPermitError> {
        check_last_attempt(&self.store, session_id, &self.clock)
    }
}

fn check_last_attempt(
    store: &Store,
    session_id: &SessionId,
    clock: &Clock,
) -> Result<Option<u64>, CallPermitError> {
    let noted = store.regen_attempt(session_id)?;
    match noted.as_ref().and_then(|(attempt, _)| attempt.wait(clock.now())) {
        Some(wait) => Err(CallLimitError::Session { wait: wait.unsigned_abs() }.into()),
        None => Ok(noted.map(|(_, revision)| revision)),
    }
}

async fn commit_regen_attempt(
    (take, host): (RequestRegen, Option<String>),
    before: Option<u64>,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<RegenPermit, CallPermitError> {
    let RequestRegen { session_id, tier, generation, .. } = take;
    let mut read = Some(before);
    let noted = log.decide_and_commit(|| {
        let revision = read.take().map_or_else(|| check_last_attempt(&store, &session_id, &clock), Ok)?;
        let session = RowName::of::<SessionRecord>(&session_id);
        // a session that was removed meanwhile gets no rows
        let Some((_, session_revision)) = store.session(&session_id)? else {
            return Err(CommitError::Stale(session).into());
        };
        let (now, generation) = (clock.now(), generation.clone());
        let attempted = RegenAttempted { tier, generation };
        let attempt = RegenAttempt {
            session_id: session_id.clone(),
            attempted_at: now,
            host: host.clone(),
            failure: None,
        };
        let record = JournalRecord {
            expect: vec![
                RowExpectation::new::<RegenAttempt>(&session_id, revision),
                RowExpectation { row: session, revision: Some(session_revision) },
            ],
            events: vec![AuditEvent::new(now, session_id.clone(), attempted)],
            writes: vec![RowWrite::put::<RegenAttempt>(&attempt)],
            ..JournalRecord::default()
        };
        Ok::<_, CallPermitError>(CommitDecision::Change(attempt, record))
    });
    let (attempt, receipt) = noted.await?;
    Ok(RegenPermit { attempt, revision: receipt.map_or(0, |receipt| receipt.last_seq) })
}

impl Actor for RateLimiter {
    type Context = Context<Self>;
}

impl Supervised for RateLimiter {}

impl Handler<RequestRegen> for RateLimiter {
    type Result = ResponseFuture<Result<(RegenPermit, ModelCallSlot), CallPermitError>>;

    fn handle(&mut self, take: RequestRegen, _: &mut Context<Self>) -> Self::Result {
        let allowed = self.check_session_limit(&take.session_id);
        let application = take.session_id.application();
        let allowed =
            allowed.and_then(|before| self.check_daily_budgets(Some(&application)).map(|()| before));
        let allowed = allowed.and_then(|before| Ok((before, self.take_slot(&take.oracle_id, &application)?)));
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        let attempt = (take, self.host.clone());
        Box::pin(async move {
            let (before, slot) = allowed?;
            Ok((commit_regen_attempt(attempt, before, store, log, clock).await?, slot))
        })
    }
}

impl Handler<RequestFirstCall> for RateLimiter {
    type Result = Result<ModelCallSlot, CallPermitError>;

    fn handle(&mut self, call: RequestFirstCall, _: &mut Context<Self>) -> Self::Result {
        self.check_daily_budgets(Some(&call.application))?;
        Ok(self.take_slot(&call.oracle_id, &call.application)?)
    }
}

impl Handler<RequestTrialCall> for RateLimiter {
    type Result = Result<TrialCallSlot, CallPermitError>;

    fn handle(
        &mut self,
        RequestTrialCall(oracle_id): RequestTrialCall,
        _: &mut Context<Self>,
    ) -> Self::Result {
        self.check_daily_budgets(None)?;
        Ok(self.take_trial_slot(&oracle_id)?)
    }
}

impl Handler<RequestCallRetry> for RateLimiter {
    type Result = Result<(), CallLimitError>;

    fn handle(&mut self, call: RequestCallRetry, _: &mut Context<Self>) -> Self::Result {
        self.take_call(&call.oracle_id, call.application.as_ref())
    }
}

actors_platform::handle_actor_calls!(RateLimiter);

/// When to retry after all places are taken: a call takes a second or more.
const SLOT_RETRY_WAIT: Duration = Duration::from_secs(1);

/// A slot among the calls in flight; dropping it releases the slot.
#[derive(Debug)]
pub struct ModelCallSlot {
    _permit: OwnedSemaphorePermit,
}

/// The limits for all calls of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCallLimits {
    /// Maximum number of calls per minute, including retries.
    pub per_minute: NonZeroU32,
    /// Maximum number of calls at the same time.
    pub at_once: usize,
}

/// A limit of calls per minute.
#[derive(Debug)]
struct CallRate {
    per_minute: NonZeroU32,
    governor: DefaultDirectRateLimiter,
    /// Whether a call was taken that another limit refused.
    has_unused: AtomicBool,
}

impl CallRate {
    fn new(per_minute: NonZeroU32) -> Self {
        let governor = DefaultDirectRateLimiter::direct(quota(per_minute));
        Self { per_minute, governor, has_unused: AtomicBool::new(false) }
    }

    /// Takes one call, or returns the time until the next one is allowed.
    fn take(&self) -> Result<(), Duration> {
        if self.has_unused.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.governor.check().map_err(|not_until| not_until.wait_time_from(DefaultClock::default().now()))
    }

    /// Gives the call that was taken last back, for the next one.
    fn put_back(&self) {
        self.has_unused.store(true, Ordering::Relaxed);
    }
}

/// The budget of all calls of a model.
#[derive(Debug)]
struct ModelCallBudget {
    at_once: usize,
    rate: CallRate,
    slots: Arc<Semaphore>,
}

impl ModelCallLimits {
    fn half(self) -> Self {
        Self {
            per_minute: NonZeroU32::new(self.per_minute.get() / 2).unwrap_or(NonZeroU32::MIN),
            at_once: (self.at_once / 2).max(1),
        }
    }
}

impl ModelCallBudget {
    fn new(limits: ModelCallLimits) -> Self {
        let ModelCallLimits { per_minute, at_once } = limits;
        Self { at_once, rate: CallRate::new(per_minute), slots: Arc::new(Semaphore::new(at_once)) }
    }

    fn take_slot(&self) -> Result<ModelCallSlot, CallLimitError> {
        let calls_at_once = self.at_once;
        let permit = Arc::clone(&self.slots).try_acquire_owned();
        let _permit = permit.map_err(|_| CallLimitError::Places { calls_at_once, wait: SLOT_RETRY_WAIT })?;
        Ok(ModelCallSlot { _permit })
    }

    fn take_budgeted_call(&self) -> Result<(), CallLimitError> {
        let calls_per_minute = self.rate.per_minute;
        self.rate.take().map_err(|wait| CallLimitError::Budget { calls_per_minute, wait })
    }
}

/// At most `per_minute` calls within any minute: a quarter of them as a burst, and the rest spread over the minute. A
/// bucket of the full size that is also refilled would permit nearly twice as many.
fn quota(per_minute: NonZeroU32) -> Quota {
    let at_once = NonZeroU32::new(per_minute.get() / 4).unwrap_or(NonZeroU32::MIN);
    let spread = NonZeroU32::new(per_minute.get() - at_once.get()).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(spread).allow_burst(at_once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::RateLimiter;
    use governor::clock::FakeRelativeClock;

    #[test]
    fn calls_stay_within_the_budget_in_any_minute() {
        for per_minute in [1, 2, 3, 4, 7, 60, 1000] {
            let clock = FakeRelativeClock::default();
            let limit = NonZeroU32::new(per_minute).expect("not zero");
            let governor = RateLimiter::direct_with_clock(quota(limit), clock.clone());
            let (mut now_ms, mut taken): (u64, Vec<u64>) = (0, Vec::new());
            // a caller that calls all the time, for three minutes
            while now_ms < 180_000 {
                while governor.check().is_ok() {
                    taken.push(now_ms);
                }
                clock.advance(Duration::from_millis(7));
                now_ms += 7;
            }
            let within = |from: u64| taken.iter().filter(|at| (from..from + 60_000).contains(at)).count();
            let most = taken.iter().map(|at| within(*at)).max().expect("some are let through");
            assert!(most <= per_minute as usize + usize::from(per_minute == 1), "{most} of {per_minute}");
            assert!(
                2 * taken.len() >= 3 * per_minute as usize,
                "{} of {per_minute} in three minutes",
                taken.len()
            );
        }
    }

    #[test]
    fn budget_error_contains_the_wait() {
        let per_minute = NonZeroU32::new(4).expect("not zero");
        let calls = ModelCallBudget::new(ModelCallLimits { per_minute, at_once: 100 });
        assert_eq!(calls.take_budgeted_call(), Ok(()));
        let Err(CallLimitError::Budget { wait, .. }) = calls.take_budgeted_call() else {
            panic!("a second call at once")
        };
        assert!((Duration::from_secs(15)..=Duration::from_secs(20)).contains(&wait), "{wait:?}");
    }

    #[test]
    fn call_that_was_put_back_is_taken_next() {
        let rate = CallRate::new(NonZeroU32::new(4).expect("not zero"));
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
        rate.put_back();
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
    }

    #[test]
    fn calls_at_once_are_limited() {
        let per_minute = NonZeroU32::new(1000).expect("not zero");
        let calls = ModelCallBudget::new(ModelCallLimits { per_minute, at_once: 2 });
        let (first, second) = (calls.take_slot(), calls.take_slot());
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(calls.take_slot(), Err(CallLimitError::Places { calls_at_once: 2, .. })));
        assert_eq!(calls.take_budgeted_call(), Ok(()), "a retry has its place");
        drop(first);
        assert!(calls.take_slot().is_ok());
    }
}
