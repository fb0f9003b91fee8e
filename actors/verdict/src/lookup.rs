//! The look-up of unknown sessions at the payment service: a found session is registered.
//!
//! A session has at most one look-up at a time, and concurrent readers share it. If the payment service does not have the
//! session, further reads within a short time get the same answer, so that a client that polls does not flood the service.

use crate::cache::{RegisterSession, VerdictCache, VerdictCacheError};
use actors_audit::logger::LoggerHandle;
use actors_platform::actor_handle::{ActorCallError, ActorHandle};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters};
use actors_upstream::Reloadable;
use actors_upstream::lookup::{LookupAnswer, LookupCallError, LookupClient};
use actors_upstream::oracle_health::{
    ApplyRequestedWait, CallLease, OracleHealth, PermitError, RequestCallPermit,
};
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_upstream::event::InteractionStatus;
use domain_upstream::health::CircuitCallOutcome;
use domain_verdict::event::SessionLookedUp;
use domain_verdict::lookup::{LookupEntry, LookupOutcome};
use domain_verdict::session::SessionCaller;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strum::VariantArray;
use tokio::sync::{OnceCell, Semaphore};

/// How long a negative answer is kept.
pub const NEGATIVE_KEPT: SignedDuration = SignedDuration::from_secs(10);
/// Maximum number of negative answers in memory. The limit is low in debug builds, so that tests reach it.
pub const NEGATIVE_MAX: usize = if cfg!(debug_assertions) { 10 } else { 10_000 };
/// Maximum number of concurrent look-ups.
const CALLS_MAX: usize = 64;
/// When to retry if the payment service requests no wait.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Why a session is not registered.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The payment service has no such session, or failed.
    #[error("{0}")]
    Call(#[from] LookupCallError),
    /// The circuit of the payment service is open, or it requested a wait.
    #[error("{0}")]
    NotPermitted(PermitError),
    #[error("too many look-ups in flight (limit {CALLS_MAX})")]
    Busy,
    #[error(transparent)]
    Cache(#[from] VerdictCacheError),
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
}

/// The result of a look-up, for all callers that wait for it.
pub type LookupResult = Result<(), Arc<LookupError>>;

/// The service.
#[derive(Debug, Clone)]
pub struct LookupService(pub Arc<LookupContext>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    outcome: MetricLabelValue,
}

impl LookupLabels {
    const fn new(outcome: LookupOutcome) -> Self {
        Self { outcome: MetricLabelValue(outcome.into_str()) }
    }
}

/// The metrics of calls of the payment service.
#[derive(Debug, Clone)]
pub struct LookupMetrics(Family<LookupLabels, Counter>);

impl LookupMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self(registry.add(
            "session_lookups",
            "sessions looked up, by outcome",
            init_counters(LookupOutcome::VARIANTS.iter().copied().map(LookupLabels::new)),
        ))
    }
}

#[derive(Debug)]
pub struct LookupContext {
    client: Reloadable<LookupClient>,
    oracle_health: ActorHandle<OracleHealth>,
    cache: ActorHandle<VerdictCache>,
    log: LoggerHandle,
    clock: Clock,
    metrics: LookupMetrics,
    slots: Semaphore,
    pub lookups: Mutex<HashMap<SessionId, Arc<Lookup>>>,
}

/// A look-up in progress, or its negative result.
#[derive(Debug, Default)]
pub struct Lookup(OnceCell<(Timestamp, LookupResult)>);

impl LookupError {
    /// Whether the payment service answered that it has no such session.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_negative())
    }

    /// When a retry makes sense.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        let requested = match self {
            Self::Call(error) => error.failure().and_then(|failure| failure.retry_after),
            Self::NotPermitted(error) => error.retry_after(),
            _ => None,
        };
        requested.unwrap_or(RETRY_AFTER).min(actors_upstream::failure::RETRY_AFTER_MAX)
    }
}

impl Lookup {
    /// Whether the look-up is in progress, or its result is kept.
    fn is_kept(&self, now: Timestamp) -> bool {
        self.0.get().is_none_or(|(at, _)| {
            let age = now.duration_since(*at);
            // a clock that was set back makes the age negative
            age < NEGATIVE_KEPT && !age.is_negative()
        })
    }
}

impl LookupService {
    pub fn new(
        client: Reloadable<LookupClient>,
        oracle_health: ActorHandle<OracleHealth>,
        cache: ActorHandle<VerdictCache>,
        log: LoggerHandle,
        clock: Clock,
        metrics: LookupMetrics,
    ) -> Self {
        let slots = Semaphore::new(CALLS_MAX);
        let lookups = Mutex::default();
        Self(Arc::new(LookupContext { client, oracle_health, cache, log, clock, metrics, slots, lookups }))
    }

    /// Looks up an unknown session, and registers it. Run this in a task that a disconnect does not stop.
    ///
    /// # Errors
    /// Why the session is not registered. Another request may have registered it meanwhile.
    pub async fn register_unknown(&self, session_id: &SessionId) -> LookupResult {
        let Self(context) = self;
        let lookup = context.join(session_id);
        let look_up = async || {
            let result = context.look_up(session_id).await.map_err(Arc::new);
            (context.clock.now(), result)
        };
        // if this task ends early, the next one that waits looks the session up
        let (_, result) = lookup.0.get_or_init(look_up).await;
        if !result.as_ref().is_err_and(|error| error.is_negative()) {
            context.forget(session_id, &lookup);
        }
        result.clone()
    }
}

impl LookupContext {
    /// The look-up of a session that is in progress or kept, or a new one.
    fn join(&self, session_id: &SessionId) -> Arc<Lookup> {
        let now = self.clock.now();
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lookups.get(session_id).filter(|known| known.is_kept(now)) {
            return Arc::clone(known);
        }
        if lookups.len() >= NEGATIVE_MAX {
            lookups.retain(|_, known| known.is_kept(now));
        }
        if lookups.len() >= NEGATIVE_MAX {
            lookups.retain(|_, known| known.0.get().is_none());
        }
        let lookup = Arc::<Lookup>::default();
        lookups.insert(session_id.clone(), Arc::clone(&lookup));
        lookup
    }

    /// Removes `lookup`, unless a newer one has replaced it.
    fn forget(&self, session_id: &SessionId, lookup: &Arc<Lookup>) {
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if lookups.get(session_id).is_some_and(|known| Arc::ptr_eq(known, lookup)) {
            lookups.remove(session_id);
        }
    }

    async fn look_up(&self, session_id: &SessionId) -> Result<(), LookupError> {
        let client = self.client.get();
        let url = client.url(session_id)?;
        let Ok(_slot) = self.slots.try_acquire() else { return Err(LookupError::Busy) };
        let lease = self.request_lease().await?;
        let (began, request_timestamp) = (monotonic(), self.clock.now());
        let LookupAnswer { result, response_hash } = client.call(&url).await;
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = result.as_ref().err();
        let success = CircuitCallOutcome::Success { latency_ms: Some(latency_ms) };
        let health = error.map_or(success, |error| error.health_outcome(latency_ms));
        lease.report_for(Some(session_id.clone()), health);
        if let Some(wait) =
            error.and_then(LookupCallError::failure).and_then(|failure| failure.requested_wait())
        {
            let requested_wait = ApplyRequestedWait { oracle_id: LookupClient::oracle_id(), wait };
            self.oracle_health.ask(requested_wait).await?;
        }
        let outcome = error.map_or(LookupOutcome::Found, LookupCallError::outcome);
        self.metrics.0.get_or_create(&LookupLabels::new(outcome)).inc();
        let now = self.clock.now();
        let entry = LookupEntry {
            oracle_id: LookupClient::oracle_id(),
            request_timestamp,
            response_timestamp: (outcome != LookupOutcome::TimedOut).then_some(now),
            latency_ms,
            status: error.map_or(InteractionStatus::Success, LookupCallError::status),
            outcome,
            error_code: error.map(LookupCallError::error_code),
            response_hash,
        };
        let event = AuditEvent::new(now, session_id.clone(), SessionLookedUp(entry));
        match result {
            Ok(found) => {
                if let Some(error) = found.email_error {
                    tracing::warn!(%session_id, %error, "session looked up without its address, its verdict is not mailed");
                }
                let registered = self.cache.ask(RegisterSession {
                    session_id: session_id.clone(),
                    caller: SessionCaller::Daemon,
                    tier: found.tier,
                    query: found.query,
                    customer_email: found.customer_email,
                    original_verdict: None,
                    prompt: None,
                    look_up: Some(event),
                });
                // a session that another request has registered with other data meanwhile stays as it is
                registered.await??;
                Ok(())
            }
            Err(error) => {
                tracing::info!(%session_id, error = %error.kind(), "session look-up found no session");
                // the entry goes to the service log if it cannot be committed
                drop(self.log.commit(event.into()).await);
                Err(error.into())
            }
        }
    }

    async fn request_lease(&self) -> Result<CallLease, LookupError> {
        let permit = self.oracle_health.ask(RequestCallPermit(LookupClient::oracle_id())).await?;
        permit.map_err(LookupError::NotPermitted)
    }
}
