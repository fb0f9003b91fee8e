//! The cache: delivered verdicts, at hand.
//!
//! The store is the truth and holds them all; the actor keeps the hottest in memory, as the very bytes that are
//! answered. What it holds was read from the store, durable and judged again, and goes when it is purged.

use crate::clock::Clock;
use crate::logger::{CommitError, Log};
use crate::metrics::{FoundIn, HIT_MEMORY, HIT_STORE, MISS, Metrics};
use actix::{Actor, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use bytes::Bytes;
use domain::session::{Email, Mismatch, Original};
use domain::{Approved, Delivery, Event, GatePath, Peer, Query, Session, SessionId, Tier};
use quick_cache::Weighter;
use quick_cache::unsync::Cache as HotCache;
use std::sync::Arc;
use store::{Expect, Record, RowKey, Store, StoreError, Write};

/// What an entry costs in memory beside its bytes.
const ENTRY_BYTES: u64 = 256;
/// The size by which the number of entries that fit is guessed.
const TYPICAL_BYTES: u64 = 2048;
/// A decision whose rows keep changing is taken anew so many times.
const ATTEMPTS: usize = 8;

/// A delivered verdict, as the document that answers for it.
#[derive(Debug)]
pub struct Cached {
    /// Its JSON.
    pub body: Bytes,
}

impl From<Delivery> for Cached {
    fn from(delivery: Delivery) -> Self {
        let body = serde_json::to_vec(&delivery).expect("a delivery is plain data with string keys");
        Self { body: body.into() }
    }
}

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

/// Asks what there is already for a session that is about to be submitted.
#[derive(Debug, Message)]
#[rtype(result = "Result<Known, CacheError>")]
pub struct Find {
    /// Whose.
    pub session_id: SessionId,
    /// For which tier.
    pub tier: Tier,
    /// About what.
    pub query: Query,
}

/// What there is for a session.
#[derive(Debug)]
pub enum Known {
    /// Nothing cached, and no session that speaks against it.
    Nothing,
    /// A verdict.
    Cached(Arc<Cached>),
    /// A session of another tier or query.
    Mismatch(Mismatch),
}

/// Takes an approved verdict in: stores it with its session and both their log entries, as one commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<Admission, CacheError>")]
pub struct Admit {
    /// The verdict.
    pub approved: Approved,
    /// The judgement's log entry.
    pub judged: Event,
    /// Whose.
    pub session_id: SessionId,
    /// About what.
    pub query: Query,
    /// Where the verdict will be mailed to.
    pub customer_email: Option<Email>,
    /// On which path it came.
    pub path: GatePath,
}

/// What became of an approved verdict.
#[derive(Debug)]
pub enum Admission {
    /// It was stored.
    Stored(Arc<Cached>),
    /// Another was there already, and stays.
    Replayed(Arc<Cached>),
    /// The session is of another tier or query.
    Mismatch(Mismatch),
}

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
    pub(crate) fn new(store: Store, log: Log, clock: Clock, metrics: Metrics, hot_bytes: u64) -> Self {
        Self { store, log, clock, metrics, hot_bytes, hot: empty(hot_bytes) }
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

    fn find(&mut self, Find { session_id, tier, query }: &Find) -> Result<Known, CacheError> {
        let store = self.store.clone();
        let (known, _) = known(&store, session_id, *tier, query, || Ok(self.look_up(session_id)?.0))?;
        Ok(known)
    }
}

fn empty(hot_bytes: u64) -> HotCache<SessionId, Arc<Cached>, ByBytes> {
    let entries = usize::try_from(hot_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
    HotCache::with_weighter(entries, hot_bytes, ByBytes)
}

/// What there is already for a session, and the session's revision. Its verdict is looked up only where the session
/// is there, which it always is where a verdict is, and does not speak against the request.
fn known(
    store: &Store,
    session_id: &SessionId,
    tier: Tier,
    query: &Query,
    look_up: impl FnOnce() -> Result<Option<Arc<Cached>>, StoreError>,
) -> Result<(Known, Option<u64>), StoreError> {
    let Some((session, revision)) = store.session(session_id)? else { return Ok((Known::Nothing, None)) };
    let known = match session.mismatch(tier, query) {
        Some(mismatch) => Known::Mismatch(mismatch),
        None => look_up()?.map_or(Known::Nothing, Known::Cached),
    };
    Ok((known, Some(revision)))
}

async fn admit(admit: Admit, store: Store, log: Log, clock: Clock) -> Result<Admission, CacheError> {
    let tier = admit.approved.tier();
    // whoever hands it in has asked before and been told that there is nothing; if that has changed, or a session
    // is there, the journal refuses the record
    let (mut there, mut session_revision) = (Known::Nothing, None);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let seen = match there {
            Known::Nothing => None,
            // it was judged, so its entry is due, whatever becomes of it
            Known::Cached(cached) => Some(Admission::Replayed(cached)),
            Known::Mismatch(mismatch) => Some(Admission::Mismatch(mismatch)),
        };
        if let Some(seen) = seen {
            log.commit(admit.judged.into()).await?;
            return Ok(seen);
        }
        let (record, delivery) = delivered(&admit, session_revision, &clock);
        match log.commit(record).await {
            Ok(_) => return Ok(Admission::Stored(Arc::new(Delivery::clone(&delivery).into()))),
            Err(CommitError::Stale(_)) if attempt < ATTEMPTS => {
                let session_id = &admit.session_id;
                let stored = || Ok(store.verdict(session_id)?.map(|(delivery, _)| Arc::new(delivery.into())));
                (there, session_revision) = known(&store, session_id, tier, &admit.query, stored)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The record of a first delivery: the judgement's entry, the verdict with its own, and the session if it is new.
fn delivered(admit: &Admit, session_revision: Option<u64>, clock: &Clock) -> (Record, Arc<Delivery>) {
    let Admit { approved, judged, session_id, query, customer_email, path } = admit;
    let now = clock.now();
    let cached = Event::VerdictCached {
        session_id: session_id.clone(),
        tier: approved.tier(),
        verdict_label: approved.label(),
        verdict_sha256: approved.sha256().clone(),
        path: *path,
        timestamp: now,
    };
    let delivery = Arc::new(Delivery {
        session_id: session_id.clone(),
        query: query.clone(),
        approved: approved.clone(),
        cached_at: now,
        regen: None,
    });
    let mut writes = vec![Write::PutVerdict(Arc::clone(&delivery))];
    if session_revision.is_none() {
        writes.push(Write::PutSession(Session {
            session_id: session_id.clone(),
            tier: approved.tier(),
            query: query.clone(),
            customer_email: customer_email.clone(),
            original: Some(Original::delivered(approved, None, now)),
        }));
    }
    let expect = vec![
        Expect { row: RowKey::Verdict(session_id.clone()), revision: None },
        Expect { row: RowKey::Session(session_id.clone()), revision: session_revision },
    ];
    (Record { expect, events: vec![judged.clone(), cached], writes }, delivery)
}

async fn purge(purge: Purge, store: Store, log: Log, clock: Clock) -> Result<bool, CacheError> {
    let Purge { session_id, peer } = purge;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let Some((delivery, revision)) = store.verdict(&session_id)? else { return Ok(false) };
        let purged = Event::VerdictPurged {
            session_id: session_id.clone(),
            verdict_sha256: delivery.approved.sha256().clone(),
            peer,
            timestamp: clock.now(),
        };
        let record = Record {
            expect: vec![Expect { row: RowKey::Verdict(session_id.clone()), revision: Some(revision) }],
            events: vec![purged],
            writes: vec![Write::RemoveVerdict(session_id.clone())],
        };
        match log.commit(record).await {
            Ok(_) => return Ok(true),
            Err(CommitError::Stale(_)) if attempt < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Actor for Cache {
    type Context = Context<Self>;
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

impl Handler<Find> for Cache {
    type Result = Result<Known, CacheError>;

    fn handle(&mut self, message: Find, _: &mut Context<Self>) -> Self::Result {
        self.find(&message)
    }
}

impl Handler<Admit> for Cache {
    type Result = ResponseFuture<Result<Admission, CacheError>>;

    fn handle(&mut self, message: Admit, _: &mut Context<Self>) -> Self::Result {
        Box::pin(admit(message, self.store.clone(), self.log.clone(), self.clock.clone()))
    }
}

impl Handler<Purge> for Cache {
    type Result = ResponseFuture<Result<bool, CacheError>>;

    fn handle(&mut self, message: Purge, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let purged = purge(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let purged = purged.await;
            // only now: a read since the handler began may have brought it back from the store. A cache that has
            // panicked meanwhile holds nothing at all
            if let Err(error) = cache.send(Forget(session_id)).await {
                tracing::debug!(%error, "the cache has forgotten everything");
            }
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

crate::panics_when_told!(Cache);

#[cfg(test)]
mod tests;
