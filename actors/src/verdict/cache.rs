//! The cache of delivered verdicts.
//!
//! The store holds all verdicts and is authoritative. The actor keeps the most recently used ones in memory, as the bytes
//! of the response. Each was read from the store, which returns only durable verdicts that it has judged again. A purge
//! removes the verdict from memory, too.

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

/// Estimated memory of an entry in addition to its bytes.
const ENTRY_BYTES: u64 = 256;
/// Typical size of a verdict, in bytes, to estimate how many entries fit into memory.
const TYPICAL_BYTES: u64 = 2048;

/// Why a request to the cache failed.
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

/// Removes the cached verdict of a session. The session itself stays. Returns whether there was a verdict.
#[derive(Debug, Message)]
#[rtype(result = "Result<bool, CacheError>")]
pub struct Purge {
    /// The session.
    pub session_id: SessionId,
    /// The administrator.
    pub peer: Peer,
}

/// Removes the verdict of a session from memory.
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
    /// The notifier, to wake when a mail is queued. Without a notifier, no mail is queued.
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

/// Removes the verdict of a session from the cache's memory after a change in the store: a read during the change may have
/// loaded the old verdict again. A cache that has panicked meanwhile is empty.
async fn forget(cache: &Addr<Cache>, session_id: SessionId) {
    if let Err(error) = cache.send(Forget(session_id)).await {
        tracing::debug!(%error, "the cache was restarted and is empty");
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
