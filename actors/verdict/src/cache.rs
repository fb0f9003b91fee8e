//! The cache of delivered verdicts.
//!
//! The store holds all verdicts and is authoritative. The actor keeps the most recently used ones in memory,
//! as the bytes of the response. Each was read from the store, which returns only durable verdicts that it
//! has judged again. A purge removes the verdict from memory, too.

mod admission;
mod admit;
mod expiry;
mod find;
mod hold;
mod listeners;
mod metrics;
mod register;
mod rejecting_checks;
mod session_admin;
mod session_record;

pub use admission::{AdmitVerdict, VerdictRelease};
pub use expiry::ExpireSessions;
pub use find::{FindSession, FindSessionOutcome};
pub use hold::PolicyConfig;
pub(crate) use hold::remove_held_verdict;
pub use listeners::DeliveryListeners;
pub use metrics::{CacheReadMetrics, ComparisonMetrics};
pub use register::{RegisterSession, RegisterSessionOutcome};
pub use rejecting_checks::StoreRejectingCheck;
pub(crate) use rejecting_checks::{find_check_in_force, remove_rejecting_check};
pub use session_admin::{CorrectSession, CorrectSessionOutcome, EraseSession, RemoveSession};
pub(crate) use session_record::{address_change_event, new_address_record};

use crate::held_key::HeldKeyError;
use crate::submission::CachedVerdict;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::Clock;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::VerdictPurged;
use metrics::CacheReadResult;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
use quick_cache::Weighter;
use quick_cache::unsync::Cache as HotCache;
use std::sync::Arc;

/// Estimated memory of an entry in addition to its bytes.
const ENTRY_BYTES: u64 = 256;
/// Typical size of a verdict, in bytes, to estimate how many entries fit into memory.
const TYPICAL_BYTES: u64 = 2048;

/// Why a request to the cache failed.
#[derive(Debug, thiserror::Error)]
pub enum VerdictCacheError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A verdict could not be encrypted.
    #[error(transparent)]
    HeldKey(#[from] HeldKeyError),
}

/// Reads the cached verdict of a session.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<Arc<CachedVerdict>>, VerdictCacheError>")]
pub struct ReadVerdict(pub SessionId);

/// Removes the cached verdict of a session. The session itself stays. Returns whether there was a verdict.
#[derive(Debug, Message)]
#[rtype(result = "Result<bool, VerdictCacheError>")]
pub struct PurgeVerdict {
    pub session_id: SessionId,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Removes the verdict of a session from memory.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct EvictVerdict(SessionId);

/// The actor.
#[derive(Debug)]
pub struct VerdictCache {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    listeners: DeliveryListeners,
    reads: CacheReadMetrics,
    policy: PolicyConfig,
    refusals: rejecting_checks::RejectingCheckUsage,
    hot_bytes: u64,
    hot: HotCache<SessionId, Arc<CachedVerdict>, VerdictWeighter>,
}

#[derive(Debug, Clone)]
struct VerdictWeighter;

impl Weighter<SessionId, Arc<CachedVerdict>> for VerdictWeighter {
    fn weight(&self, _: &SessionId, cached: &Arc<CachedVerdict>) -> u64 {
        cached.body.len() as u64 + ENTRY_BYTES
    }
}

impl VerdictCache {
    pub fn new(
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        listeners: DeliveryListeners,
        reads: CacheReadMetrics,
        policy: PolicyConfig,
        hot_bytes: u64,
    ) -> Self {
        let refusals = rejecting_checks::RejectingCheckUsage::default();
        Self { store, log, clock, listeners, reads, policy, refusals, hot_bytes, hot: empty(hot_bytes) }
    }

    fn read(&mut self, session_id: &SessionId) -> Result<Option<Arc<CachedVerdict>>, VerdictCacheError> {
        let (cached, found_in) = self.look_up(session_id)?;
        self.reads.count_read(found_in);
        Ok(cached)
    }

    fn look_up(
        &mut self,
        session_id: &SessionId,
    ) -> Result<(Option<Arc<CachedVerdict>>, CacheReadResult), StoreError> {
        if let Some(cached) = self.hot.get(session_id) {
            return Ok((Some(Arc::clone(cached)), CacheReadResult::HitMemory));
        }
        let Some((delivery, _)) = self.store.verdict(session_id)? else {
            return Ok((None, CacheReadResult::Miss));
        };
        let cached = Arc::new(CachedVerdict::from(delivery));
        self.hot.insert(session_id.clone(), Arc::clone(&cached));
        Ok((Some(cached), CacheReadResult::HitStore))
    }
}

fn empty(hot_bytes: u64) -> HotCache<SessionId, Arc<CachedVerdict>, VerdictWeighter> {
    let entries = usize::try_from(hot_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
    HotCache::with_weighter(entries, hot_bytes, VerdictWeighter)
}

async fn purge(
    purge: PurgeVerdict,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<bool, VerdictCacheError> {
    let PurgeVerdict { session_id, peer } = purge;
    let purged = log.decide_and_commit(|| {
        let Some((verdict_sha256, revision)) = store.verdict_for_removal(&session_id)? else {
            return Ok(CommitDecision::Already(false));
        };
        let purged = AuditEvent::new(clock.now(), session_id.clone(), VerdictPurged { verdict_sha256, peer });
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<VerdictDelivery>(&session_id, Some(revision))],
            events: vec![purged],
            writes: vec![RowWrite::remove::<VerdictDelivery>(&session_id)],
            ..JournalRecord::default()
        };
        Ok::<_, VerdictCacheError>(CommitDecision::Change(true, record))
    });
    Ok(purged.await?.0)
}

/// Removes the verdict of a session from the cache's memory after a change in the store: a read during the
/// change may have loaded the old verdict again. A cache that has panicked meanwhile is empty.
async fn evict_verdict(cache: &Addr<VerdictCache>, session_id: SessionId) {
    if let Err(error) = cache.send(EvictVerdict(session_id)).await {
        tracing::debug!(%error, "the cache was restarted and is empty");
    }
}

impl Actor for VerdictCache {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        if let Err(error) = self.refusals.load(&self.store) {
            tracing::warn!(%error, "could not read the size of the rejecting checks");
        }
    }
}

impl Supervised for VerdictCache {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.hot = empty(self.hot_bytes);
    }
}

impl Handler<ReadVerdict> for VerdictCache {
    type Result = Result<Option<Arc<CachedVerdict>>, VerdictCacheError>;

    fn handle(&mut self, ReadVerdict(session_id): ReadVerdict, _: &mut Context<Self>) -> Self::Result {
        self.read(&session_id)
    }
}

impl Handler<PurgeVerdict> for VerdictCache {
    type Result = ResponseFuture<Result<bool, VerdictCacheError>>;

    fn handle(&mut self, message: PurgeVerdict, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let purged = purge(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let purged = purged.await;
            evict_verdict(&cache, session_id).await;
            purged
        })
    }
}

impl Handler<EvictVerdict> for VerdictCache {
    type Result = ();

    fn handle(&mut self, EvictVerdict(session_id): EvictVerdict, _: &mut Context<Self>) {
        self.hot.remove(&session_id);
    }
}

actors_platform::handle_actor_calls!(VerdictCache);

#[cfg(test)]
mod tests {
    use super::*;
    use actors_testing::id;
    use domain_base::payload::VerdictPayload;
    use domain_verdict::crosscheck::judge;
    use domain_verdict::delivery::VerdictDelivery;
    use domain_verdict::label::ProductTier;
    use domain_verdict::query::CustomerQuery;

    #[test]
    fn hot_verdicts_stay_within_their_memory() {
        let mut hot = empty(64 * 1024);
        let delivery = |n: usize| {
            let verdict = format!(r#"{{"verdict":"RED","summary":"{}"}}"#, "s".repeat(2000));
            let approved = judge(ProductTier::Quick, VerdictPayload::raw(&verdict))
                .outcome
                .expect("the verdict passes the crosscheck");
            let cached_at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
            VerdictDelivery {
                session_id: id(&format!("cs_{n}")),
                query: CustomerQuery::new(String::new()),
                approved,
                cached_at,
                regen: None,
                evaluation_sha256: None,
            }
        };
        for n in 0..1000 {
            let delivery = delivery(n);
            hot.insert(delivery.session_id.clone(), Arc::new(delivery.into()));
        }
        assert!(hot.weight() <= 64 * 1024 && hot.len() > 3, "{} in {} entries", hot.weight(), hot.len());
    }
}
