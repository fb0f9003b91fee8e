//! The cache: delivered verdicts, at hand.
//!
//! The store is the truth and holds them all; the actor keeps the hottest in memory, as the very bytes that are
//! answered. What it holds was read from the store, durable and judged again, and goes when it is purged.

mod admit;
mod find;
mod refuse;
mod register;
mod session_record;
mod steer;

pub use admit::Admit;
pub use find::{Find, Known};
pub use refuse::Refuse;
pub use register::{Register, Registered};
pub use steer::{Correct, Corrected, Remove};

use crate::audit::commit_loop::Decided;
use crate::audit::logger::{CommitError, Log};
use crate::platform::clock::Clock;
use crate::platform::door::Door;
use crate::platform::metrics::{FoundIn, HIT_MEMORY, HIT_STORE, MISS, Metrics};
use crate::verdict::notifier::Notifier;
use crate::verdict::submission::Cached;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use oracled_domain::{Event, EventKind, Peer, SessionId};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};
use quick_cache::Weighter;
use quick_cache::unsync::Cache as HotCache;
use std::sync::Arc;

/// What an entry costs in memory beside its bytes.
const ENTRY_BYTES: u64 = 256;
/// The size by which the number of entries that fit is guessed.
const TYPICAL_BYTES: u64 = 2048;

/// Why the cache did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Reads the cached verdict of a session.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<Arc<Cached>>, CacheError>")]
pub struct Read(pub SessionId);

/// Removes the cached verdict of a session. Its session stays. Answers whether there was one.
#[derive(Debug, Message)]
#[rtype(result = "Result<bool, CacheError>")]
pub struct Purge {
    /// Whose.
    pub session_id: SessionId,
    /// By order of whom.
    pub peer: Peer,
}

/// Lets go of what is held in memory for a session.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Forget(SessionId);

/// The actor.
#[derive(Debug)]
pub struct Cache {
    store: Store,
    log: Log,
    clock: Clock,
    metrics: Metrics,
    /// Whoever is told of a mail that was queued; nobody where none is sent, and then none is queued.
    notifier: Option<Door<Notifier>>,
    refusals: refuse::Refusals,
    hot_bytes: u64,
    hot: HotCache<SessionId, Arc<Cached>, ByBytes>,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<SessionId, Arc<Cached>> for ByBytes {
    fn weight(&self, _: &SessionId, cached: &Arc<Cached>) -> u64 {
        cached.body.len() as u64 + ENTRY_BYTES
    }
}

impl Cache {
    pub(crate) fn new(
        store: Store,
        log: Log,
        clock: Clock,
        metrics: Metrics,
        notifier: Option<Door<Notifier>>,
        hot_bytes: u64,
    ) -> Self {
        let refusals = refuse::Refusals::default();
        Self { store, log, clock, metrics, notifier, refusals, hot_bytes, hot: empty(hot_bytes) }
    }

    fn read(&mut self, session_id: &SessionId) -> Result<Option<Arc<Cached>>, CacheError> {
        let (cached, found_in) = self.look_up(session_id)?;
        self.metrics.cache_reads.get_or_create(found_in).inc();
        Ok(cached)
    }

    fn look_up(
        &mut self,
        session_id: &SessionId,
    ) -> Result<(Option<Arc<Cached>>, &'static FoundIn), StoreError> {
        if let Some(cached) = self.hot.get(session_id) {
            return Ok((Some(Arc::clone(cached)), &HIT_MEMORY));
        }
        let Some((delivery, _)) = self.store.verdict(session_id)? else { return Ok((None, &MISS)) };
        let cached = Arc::new(Cached::from(delivery));
        self.hot.insert(session_id.clone(), Arc::clone(&cached));
        Ok((Some(cached), &HIT_STORE))
    }
}

fn empty(hot_bytes: u64) -> HotCache<SessionId, Arc<Cached>, ByBytes> {
    let entries = usize::try_from(hot_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
    HotCache::with_weighter(entries, hot_bytes, ByBytes)
}

async fn purge(purge: Purge, store: Store, log: Log, clock: Clock) -> Result<bool, CacheError> {
    let Purge { session_id, peer } = purge;
    let purged = log.decide_and_commit(|| {
        let Some((verdict_sha256, revision)) = store.verdict_for_removal(&session_id)? else {
            return Ok(Decided::Already(false));
        };
        let purged =
            Event::new(clock.now(), session_id.clone(), EventKind::VerdictPurged { verdict_sha256, peer });
        let record = Record {
            expect: vec![Expect { row: RowKey::Verdict(session_id.clone()), revision: Some(revision) }],
            events: vec![purged],
            writes: vec![Write::RemoveVerdict(session_id.clone())],
            ..Record::default()
        };
        Ok::<_, CacheError>(Decided::Change(true, record))
    });
    Ok(purged.await?.0)
}

/// Has the cache let go of what it holds in memory for a session, behind a change of the store: a read since the change
/// began may have brought it back. A cache that has panicked meanwhile holds nothing at all.
async fn forget(cache: &Addr<Cache>, session_id: SessionId) {
    if let Err(error) = cache.send(Forget(session_id)).await {
        tracing::debug!(%error, "the cache has forgotten everything");
    }
}

impl Actor for Cache {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        if let Err(error) = self.refusals.load(&self.store) {
            tracing::warn!(%error, "could not read the size of the refusals");
        }
    }
}

impl Supervised for Cache {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.hot = empty(self.hot_bytes);
    }
}

impl Handler<Read> for Cache {
    type Result = Result<Option<Arc<Cached>>, CacheError>;

    fn handle(&mut self, Read(session_id): Read, _: &mut Context<Self>) -> Self::Result {
        self.read(&session_id)
    }
}

impl Handler<Purge> for Cache {
    type Result = ResponseFuture<Result<bool, CacheError>>;

    fn handle(&mut self, message: Purge, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let purged = purge(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let purged = purged.await;
            forget(&cache, session_id).await;
            purged
        })
    }
}

impl Handler<Forget> for Cache {
    type Result = ();

    fn handle(&mut self, Forget(session_id): Forget, _: &mut Context<Self>) {
        self.hot.remove(&session_id);
    }
}

crate::platform::door::asked_through_a_door!(Cache);

#[cfg(test)]
mod tests;
