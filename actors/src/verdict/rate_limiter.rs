//! The rate limiter. It limits how often a session's verdict may be regenerated. It also limits all model calls, per minute
//! and at the same time.
//!
//! The limit of a session is a row in the store, written before the model is called. It therefore survives a restart. A
//! crash between the two can only make it stricter, and millions of sessions use no memory. The budget of all calls is kept
//! by governor, and is reset when the daemon restarts.

use crate::audit::commit_loop::Decided;
use crate::audit::logger::{CommitError, Log};
use crate::platform::clock::Clock;
use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use oracled_domain::{Event, EventKind, Generation, RegenAttempt, SessionId, Tier};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// When to retry after all places are taken: a call takes a second or more.
const PLACE_WAIT: Duration = Duration::from_secs(1);

/// Why the model may not be called now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limited {
    /// The session's verdict was regenerated a short time ago.
    #[error("the session's verdict was regenerated less than five minutes ago")]
    Session {
        /// Time until the next regeneration is allowed.
        wait: Duration,
    },
    /// Too many model calls are in flight.
    #[error("too many model calls in flight (limit {calls_at_once})")]
    Places {
        /// The limit.
        calls_at_once: usize,
        /// Time until a retry makes sense.
        wait: Duration,
    },
    /// The budget of model calls per minute is used up.
    #[error("too many model calls (limit {calls_per_minute} a minute)")]
    Budget {
        /// The limit.
        calls_per_minute: NonZeroU32,
        /// Time until the next call is allowed.
        wait: Duration,
    },
}

/// Why a regeneration may not start.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// A limit is reached.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Requests a regeneration of a session's verdict. The attempt is durable when this returns.
#[derive(Debug, Message)]
#[rtype(result = "Result<(Taken, Place), TakeError>")]
pub struct Take {
    /// The session.
    pub session_id: SessionId,
    /// The tier of the session.
    pub tier: Tier,
    /// The prompt and the settings of the call.
    pub generation: Generation,
}

/// A place among the calls in flight, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// A permitted regeneration, which can be undone.
#[derive(Debug)]
pub struct Taken {
    session_id: SessionId,
    revision: u64,
}

impl Taken {
    /// Adds to `record` the removal of the attempt. Use this if the model was not reached.
    pub(crate) fn give_back(self, record: &mut Record) {
        let Self { session_id, revision } = self;
        record.expect.push(Expect { row: RowKey::Regen(session_id.clone()), revision: Some(revision) });
        record.writes.push(Write::RemoveRegen(session_id));
    }
}

/// Requests the call for a first verdict, which has no limit for each session.
#[derive(Debug, Message)]
#[rtype(result = "Result<Place, Limited>")]
pub struct TakeFirst;

/// Requests a retry within a call that already has its place.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), Limited>")]
pub struct TakeRetry;

/// The actor.
#[derive(Debug)]
pub struct RateLimiter {
    calls: Calls,
    store: Store,
    log: Log,
    clock: Clock,
}

/// The limits for all model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum number of calls per minute, including retries.
    pub per_minute: NonZeroU32,
    /// Maximum number of calls at the same time.
    pub at_once: usize,
}

/// The budget of all calls.
#[derive(Debug)]
struct Calls {
    limits: CallLimits,
    governor: DefaultDirectRateLimiter,
    places: Arc<Semaphore>,
}

impl Calls {
    fn new(limits: CallLimits) -> Self {
        Self {
            limits,
            governor: DefaultDirectRateLimiter::direct(quota(limits.per_minute)),
            places: Arc::new(Semaphore::new(limits.at_once)),
        }
    }

    /// Takes a place, and one call of the budget.
    fn take_place(&self) -> Result<Place, Limited> {
        let calls_at_once = self.limits.at_once;
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let _permit = permit.map_err(|_| Limited::Places { calls_at_once, wait: PLACE_WAIT })?;
        self.take()?;
        Ok(Place { _permit })
    }

    fn take(&self) -> Result<(), Limited> {
        self.governor.check().map_err(|not_until| Limited::Budget {
            calls_per_minute: self.limits.per_minute,
            wait: not_until.wait_time_from(DefaultClock::default().now()),
        })
    }
}

/// At most `per_minute` calls within any minute: a quarter of them as a burst, and the rest spread over the minute. A
/// bucket of the full size that is also refilled would permit nearly twice as many.
fn quota(per_minute: NonZeroU32) -> Quota {
    let at_once = NonZeroU32::new(per_minute.get() / 4).unwrap_or(NonZeroU32::MIN);
    let spread = NonZeroU32::new(per_minute.get() - at_once.get()).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(spread).allow_burst(at_once)
}

impl RateLimiter {
    pub(crate) fn new(limits: CallLimits, store: Store, log: Log, clock: Clock) -> Self {
        Self { calls: Calls::new(limits), store, log, clock }
    }

    /// Checks that the session's last attempt is long enough ago, and returns the revision of its row.
    fn allowed(&self, session_id: &SessionId) -> Result<Option<u64>, TakeError> {
        allowed(&self.store, session_id, &self.clock)
    }
}

fn allowed(store: &Store, session_id: &SessionId, clock: &Clock) -> Result<Option<u64>, TakeError> {
    let noted = store.regen_attempt(session_id)?;
    match noted.as_ref().and_then(|(attempt, _)| attempt.wait(clock.now())) {
        Some(wait) => Err(Limited::Session { wait: wait.unsigned_abs() }.into()),
        None => Ok(noted.map(|(_, revision)| revision)),
    }
}

async fn note(
    take: Take,
    before: Option<u64>,
    store: Store,
    log: Log,
    clock: Clock,
) -> Result<Taken, TakeError> {
    let Take { session_id, tier, generation } = take;
    let mut read = Some(before);
    let noted = log.decide_and_commit(|| {
        let revision = read.take().map_or_else(|| allowed(&store, &session_id, &clock), Ok)?;
        let (now, generation) = (clock.now(), generation.clone());
        let attempted = EventKind::RegenAttempted { tier, generation };
        let record = Record {
            expect: vec![Expect { row: RowKey::Regen(session_id.clone()), revision }],
            events: vec![Event::new(now, session_id.clone(), attempted)],
            writes: vec![Write::PutRegen(RegenAttempt { session_id: session_id.clone(), attempted_at: now })],
            ..Record::default()
        };
        Ok::<_, TakeError>(Decided::Change((), record))
    });
    let revision = noted.await?.1.map_or(0, |receipt| receipt.last_seq);
    Ok(Taken { session_id, revision })
}

impl Actor for RateLimiter {
    type Context = Context<Self>;
}

impl Supervised for RateLimiter {}

impl Handler<Take> for RateLimiter {
    type Result = ResponseFuture<Result<(Taken, Place), TakeError>>;

    fn handle(&mut self, take: Take, _: &mut Context<Self>) -> Self::Result {
        let allowed = self.allowed(&take.session_id);
        let allowed = allowed.and_then(|before| Ok((before, self.calls.take_place()?)));
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let (before, place) = allowed?;
            Ok((note(take, before, store, log, clock).await?, place))
        })
    }
}

impl Handler<TakeFirst> for RateLimiter {
    type Result = Result<Place, Limited>;

    fn handle(&mut self, _: TakeFirst, _: &mut Context<Self>) -> Self::Result {
        self.calls.take_place()
    }
}

impl Handler<TakeRetry> for RateLimiter {
    type Result = Result<(), Limited>;

    fn handle(&mut self, _: TakeRetry, _: &mut Context<Self>) -> Self::Result {
        self.calls.take()
    }
}

crate::platform::door::asked_through_a_door!(RateLimiter);

#[cfg(test)]
mod tests;
