//! The rate limiter. It limits how often a session's verdict may be regenerated. It also limits the calls of
//! each model, per minute and at the same time.
//!
//! The limit of a session is a row in the store, written before the model is called. It therefore survives a
//! restart. A crash between the two can only make it stricter, and millions of sessions use no memory. The
//! budget of all calls is kept by governor, and is reset when the daemon restarts. The hosts of a cluster keep it together, in
//! their server.

use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::shared_calls::{CallMeter, SharedCalls};
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
use oracled_store::{EvidenceEntry, JournalRecord, RowExpectation, RowName, RowWrite, Store, StoreError};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
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
    #[error(
        "too many model calls (limit {calls_per_minute} a minute, of which a quarter can be sent at once)"
    )]
    Budget {
        calls_per_minute: NonZeroU32,
        /// Time until the next call is allowed.
        wait: Duration,
    },
    /// The application's own budget of model calls per minute is used up.
    #[error(
        "too many model calls of the application (limit {calls_per_minute} a minute, of which a quarter can be sent at once)"
    )]
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
    /// The entry of the attempt.
    pub(crate) evidence: Vec<EvidenceEntry>,
}

impl RegenPermit {
    /// Adds to `record` the removal of the attempt. Use this if the model was not reached.
    pub fn remove_attempt(self, record: &mut JournalRecord) {
        let Self { attempt: RegenAttempt { session_id, .. }, revision, .. } = self;
        record.expect.push(RowExpectation::new::<RegenAttempt>(&session_id, Some(revision)));
        record.writes.push(RowWrite::remove::<RegenAttempt>(&session_id));
    }

    /// The record that the attempt failed, for readers on other hosts; `None` if this is the only host. It is stale if the attempt
    /// was removed.
    pub(crate) fn failed(self, failure: RegenFailure, now: Timestamp) -> Option<JournalRecord> {
        let Self { attempt, revision, .. } = self;
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
#[rtype(result = "Result<(), CallPermitError>")]
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
    refused_at: Rc<Cell<Option<Instant>>>,
    applications: BTreeMap<ApplicationName, CallRate>,
    budgets: CostBudgets,
    /// The applications whose used up budgets are being logged; `None` for the budget of all.
    logging: InFlight<Option<ApplicationName>>,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    /// The calls of the cluster; `None` if this is the only host.
    cluster: Option<SharedCalls>,
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
        cluster: Option<SharedCalls>,
    ) -> Self {
        let CallLimits { models, applications } = limits;
        let budget = |kind: &str, id: &UpstreamId, limits| {
            (id.clone(), ModelCallBudget::new(format!("{kind}/{id}"), limits))
        };
        let trials = models.iter().map(|(id, limits)| budget("trial", id, limits.half())).collect();
        let calls = models.iter().map(|(id, limits)| budget("model", id, *limits)).collect();
        let rate = |(name, limit)| {
            let limit = RateLimit { per_minute: limit, is_of_application: true };
            let rate = CallRate::new(format!("application/{name}"), limit);
            (name, rate)
        };
        let applications = applications.into_iter().map(rate).collect();
        Self {
            calls,
            trials,
            refused_at: Rc::default(),
            applications,
            budgets,
            logging: InFlight::default(),
            store,
            log,
            clock,
            cluster,
        }
    }

    /// Takes a slot of a model, and one call of its budget and of the application's.
    fn take_slot(
        &self,
        oracle_id: &UpstreamId,
        application: &ApplicationName,
    ) -> ResponseFuture<Result<ModelCallSlot, CallPermitError>> {
        let slot = self.calls_of(oracle_id).and_then(|calls| calls.take_slot(self.share_of(calls)));
        let call = slot.map(|slot| (slot, self.take_call(oracle_id, Some(application), false)));
        let refused_at = Rc::clone(&self.refused_at);
        Box::pin(async move {
            let taken = match call {
                Ok((slot, call)) => call.await.map(|()| slot),
                Err(limit) => Err(limit.into()),
            };
            if let Err(CallPermitError::Limited(
                CallLimitError::Places { .. } | CallLimitError::Budget { .. },
            )) = taken
            {
                refused_at.set(Some(monotonic()));
            }
            taken
        })
    }

    /// The same for a trial, which belongs to no application.
    fn take_trial_slot(
        &self,
        oracle_id: &UpstreamId,
    ) -> ResponseFuture<Result<TrialCallSlot, CallPermitError>> {
        let slots = self.take_trial_places(oracle_id);
        let call = slots.map(|slots| (slots, self.take_call(oracle_id, None, true)));
        Box::pin(async move {
            let (slots, call) = call?;
            call.await.map(|()| slots)
        })
    }

    fn take_trial_places(&self, oracle_id: &UpstreamId) -> Result<TrialCallSlot, CallLimitError> {
        let calls = self.calls_of(oracle_id)?;
        let refused_at = self.refused_at.get();
        let left = refused_at.and_then(|at| TRIAL_PAUSE.checked_sub(monotonic().duration_since(at)));
        if let Some(wait) = left {
            return Err(CallLimitError::Places { calls_at_once: calls.at_once, wait });
        }
        let trials = self.trials.get(oracle_id).unwrap_or(calls);
        let (_trial, _call) =
            (trials.take_slot(self.share_of(trials))?, calls.take_slot(self.share_of(calls))?);
        Ok(TrialCallSlot { _trial, _call })
    }

    /// The number of simultaneous calls that this host may make.
    fn share_of(&self, budget: &ModelCallBudget) -> usize {
        self.cluster.as_ref().map_or(budget.at_once, |cluster| cluster.share_of(budget.at_once))
    }

    /// Takes one call of the budgets of a model and of the application, or of none.
    fn take_call(
        &self,
        oracle_id: &UpstreamId,
        application: Option<&ApplicationName>,
        is_trial: bool,
    ) -> ResponseFuture<Result<(), CallPermitError>> {
        let rates = match self.rates(oracle_id, application, is_trial) {
            Ok(rates) => rates,
            Err(limit) => return Box::pin(async { Err(limit.into()) }),
        };
        let Some(cluster) = self.cluster.clone() else {
            let taken = take_of_all(&rates);
            return Box::pin(async { Ok(taken?) });
        };
        let meters = rates.iter().map(|rate| rate.meter.clone()).collect();
        let limits: Vec<_> = rates.iter().map(|rate| rate.limit).collect();
        Box::pin(async move {
            let waits = cluster.take(meters).await.map_err(|cause| StoreError::Unavailable {
                cause: format!("the server of the cluster counts no calls of models: {cause}"),
            })?;
            let refused = limits.into_iter().zip(waits).find(|(_, wait)| !wait.is_zero());
            refused.map_or(Ok(()), |(limit, wait)| Err(limit.refusal(wait).into()))
        })
    }

    /// The limits of calls per minute for a call.
    fn rates(
        &self,
        oracle_id: &UpstreamId,
        application: Option<&ApplicationName>,
        is_trial: bool,
    ) -> Result<Vec<&CallRate>, CallLimitError> {
        let own = application.and_then(|application| self.applications.get(application));
        let trial = self.trials.get(oracle_id).filter(|_| is_trial).map(|trials| &trials.rate);
        Ok(own.into_iter().chain(trial).chain([&self.calls_of(oracle_id)?.rate]).collect())
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
    let (revision, evidence) =
        receipt.map(|receipt| (receipt.last_seq, receipt.evidence)).unwrap_or_default();
    Ok(RegenPermit { attempt, revision, evidence })
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
        let allowed = allowed.map(|before| (before, self.take_slot(&take.oracle_id, &application)));
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        let attempt = (take, self.cluster.as_ref().map(|cluster| cluster.host.clone()));
        Box::pin(async move {
            let (before, slot) = allowed?;
            let slot = slot.await?;
            Ok((commit_regen_attempt(attempt, before, store, log, clock).await?, slot))
        })
    }
}

impl Handler<RequestFirstCall> for RateLimiter {
    type Result = ResponseFuture<Result<ModelCallSlot, CallPermitError>>;

    fn handle(&mut self, call: RequestFirstCall, _: &mut Context<Self>) -> Self::Result {
        match self.check_daily_budgets(Some(&call.application)) {
            Ok(()) => self.take_slot(&call.oracle_id, &call.application),
            Err(refused) => Box::pin(async { Err(refused) }),
        }
    }
}

impl Handler<RequestTrialCall> for RateLimiter {
    type Result = ResponseFuture<Result<TrialCallSlot, CallPermitError>>;

    fn handle(
        &mut self,
        RequestTrialCall(oracle_id): RequestTrialCall,
        _: &mut Context<Self>,
    ) -> Self::Result {
        match self.check_daily_budgets(None) {
            Ok(()) => self.take_trial_slot(&oracle_id),
            Err(refused) => Box::pin(async { Err(refused) }),
        }
    }
}

impl Handler<RequestCallRetry> for RateLimiter {
    type Result = ResponseFuture<Result<(), CallPermitError>>;

    fn handle(&mut self, call: RequestCallRetry, _: &mut Context<Self>) -> Self::Result {
        self.take_call(&call.oracle_id, call.application.as_ref(), false)
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

/// A limit of calls per minute, of a model or an application.
#[derive(Debug, Clone, Copy)]
struct RateLimit {
    per_minute: NonZeroU32,
    is_of_application: bool,
}

impl RateLimit {
    const fn refusal(self, wait: Duration) -> CallLimitError {
        let Self { per_minute: calls_per_minute, is_of_application } = self;
        if is_of_application {
            CallLimitError::Application { calls_per_minute, wait }
        } else {
            CallLimitError::Budget { calls_per_minute, wait }
        }
    }
}

/// The calls that a limit has permitted.
#[derive(Debug)]
struct CallRate {
    limit: RateLimit,
    /// Counts them in a cluster, in place of `governor`.
    meter: CallMeter,
    governor: DefaultDirectRateLimiter,
    /// Whether a call was taken that another limit refused.
    has_unused: AtomicBool,
}

/// Takes one call of each limit of this host, or of none.
fn take_of_all(rates: &[&CallRate]) -> Result<(), CallLimitError> {
    for (place, rate) in rates.iter().enumerate() {
        if let Err(wait) = rate.take() {
            rates.iter().take(place).for_each(|taken| taken.put_back());
            return Err(rate.limit.refusal(wait));
        }
    }
    Ok(())
}

impl CallRate {
    fn new(name: String, limit: RateLimit) -> Self {
        let quota = quota(limit.per_minute);
        let (every, burst) = (quota.replenish_interval(), quota.burst_size().get());
        let governor = DefaultDirectRateLimiter::direct(quota);
        Self { limit, meter: CallMeter { name, every, burst }, governor, has_unused: AtomicBool::new(false) }
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
    fn new(name: String, limits: ModelCallLimits) -> Self {
        let ModelCallLimits { per_minute, at_once } = limits;
        let rate = CallRate::new(name, RateLimit { per_minute, is_of_application: false });
        Self { at_once, rate, slots: Arc::new(Semaphore::new(at_once)) }
    }

    /// Takes one of the slots, of which this host may use `calls_at_once`.
    fn take_slot(&self, calls_at_once: usize) -> Result<ModelCallSlot, CallLimitError> {
        let refused = CallLimitError::Places { calls_at_once, wait: SLOT_RETRY_WAIT };
        if self.at_once.saturating_sub(self.slots.available_permits()) >= calls_at_once {
            return Err(refused);
        }
        let permit = Arc::clone(&self.slots).try_acquire_owned();
        Ok(ModelCallSlot { _permit: permit.map_err(|_| refused)? })
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
        let calls = ModelCallBudget::new("model/a".to_owned(), ModelCallLimits { per_minute, at_once: 100 });
        assert_eq!(take_of_all(&[&calls.rate]), Ok(()));
        let Err(CallLimitError::Budget { wait, .. }) = take_of_all(&[&calls.rate]) else {
            panic!("a second call at once")
        };
        assert!((Duration::from_secs(15)..=Duration::from_secs(20)).contains(&wait), "{wait:?}");
    }

    #[test]
    fn call_that_was_put_back_is_taken_next() {
        let per_minute = NonZeroU32::new(4).expect("not zero");
        let rate =
            |is_of_application| CallRate::new("a".to_owned(), RateLimit { per_minute, is_of_application });
        let (own, used_up) = (rate(true), rate(false));
        assert_eq!(take_of_all(&[&used_up]), Ok(()));
        let refused = take_of_all(&[&own, &used_up]);
        assert!(matches!(refused, Err(CallLimitError::Budget { .. })), "{refused:?}");
        assert_eq!(take_of_all(&[&own]), Ok(()), "it was given back");
        assert!(matches!(take_of_all(&[&own]), Err(CallLimitError::Application { .. })));
    }

    #[test]
    fn calls_at_once_are_limited() {
        let per_minute = NonZeroU32::new(1000).expect("not zero");
        let calls = ModelCallBudget::new("model/a".to_owned(), ModelCallLimits { per_minute, at_once: 2 });
        let (first, second) = (calls.take_slot(2), calls.take_slot(2));
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(calls.take_slot(2), Err(CallLimitError::Places { calls_at_once: 2, .. })));
        assert_eq!(take_of_all(&[&calls.rate]), Ok(()), "a retry has its place");
        drop(first);
        assert!(matches!(calls.take_slot(1), Err(CallLimitError::Places { calls_at_once: 1, .. })));
        assert!(calls.take_slot(2).is_ok());
    }
}
