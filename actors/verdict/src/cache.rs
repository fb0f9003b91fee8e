//! The cache of delivered verdicts.
//!
//! The store holds all verdicts and is authoritative. The actor keeps the most recently used ones in memory,
//! as the bytes of the response. Each was read from the store, which returns only durable verdicts that it
//! has judged again. A purge removes the verdict from memory, too. Only the actor writes this memory; reads of it need no
//! message.

mod admit;
mod find;
mod legal_hold;
mod session_admin;

pub use crate::cache::admit::PolicyConfig;
pub(crate) use crate::cache::admit::remove_held_verdict;
pub(crate) use crate::cache::find::CountRejectingCheck;
pub use crate::cache::find::StoreRejectingCheck;
pub(crate) use crate::cache::find::{find_check_in_force, remove_rejecting_check};
use crate::held_key::HeldKeyError;
use crate::order_metrics::{OrderMetrics, OrderProgress};
use crate::submission::{CachedVerdict, GenerationTrace, Submission, SubmissionOutcome};
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::Clock;
use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use domain_audit::event::{SessionExpiryEntry, SessionsExpired};
use domain_base::caller::{DecidingUser, PeerCredentials};
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_rules::CandidateCheck;
use domain_verdict::cost::ModelCost;
use domain_verdict::crosscheck::ApprovedVerdict;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::divergence::{DivergenceCheck, DivergenceLevel, OriginalLabel};
use domain_verdict::event::{OrderDelivered, SessionAddressChanged, SessionRegistered, VerdictPurged};
use domain_verdict::generation::{GenerationOutcome, ModelTokenUsage};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::order::{Order, OrderState};
use domain_verdict::prompt::VerdictPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{
    CustomerEmail, OriginalVerdict, SessionCaller, SessionMismatch, SessionRecord,
};
pub use find::{FindSession, FindSessionOutcome};
use jiff::Timestamp;
pub(crate) use legal_hold::refuse_on_hold;
pub use legal_hold::{PlaceLegalHold, ReleaseLegalHold};
use oracled_store::{JournalRecord, RowExpectation, RowName, RowWrite, Store, StoreError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quick_cache::sync::Cache as HotCache;
use quick_cache::{OptionsBuilder, Weighter};
use session_admin::remove_recall_notice;
pub use session_admin::{CorrectSession, CorrectSessionOutcome, EraseSession, RemoveSession};
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

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
    /// The session is on legal hold.
    #[error("{}; release it with `oraclectl hold --session {} --release --reason …`", .0, .0.session_id)]
    OnHold(Box<LegalHold>),
}

/// Reads the cached verdict of a session.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<Arc<CachedVerdict>>, VerdictCacheError>")]
pub struct ReadVerdict(pub SessionId);

/// Removes the cached verdict of a session. The session itself stays.
#[derive(Debug, Message)]
#[rtype(result = "Result<PurgeOutcome, VerdictCacheError>")]
pub struct PurgeVerdict {
    pub session_id: SessionId,
    /// The administrator.
    pub peer: PeerCredentials,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeOutcome {
    /// No verdict is cached.
    NotCached,
    Removed,
    /// The verdict is removed. Its text was damaged or lost.
    RemovedDamaged,
}

/// Removes the verdict of a session from memory.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ForgetVerdict(pub SessionId);

/// The actor.
#[derive(Debug)]
pub struct VerdictCache {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    listeners: DeliveryListeners,
    hot: HotVerdicts,
    policy: PolicyConfig,
    rejecting_checks: find::RejectingCheckUsage,
}

/// The most recently used verdicts.
#[derive(Debug, Clone)]
pub struct HotVerdicts {
    verdicts: Arc<HotCache<SessionId, Arc<CachedVerdict>, VerdictWeighter>>,
    reads: CacheReadMetrics,
    /// The counter of the hits here, of `reads`.
    hits: Counter,
}

impl HotVerdicts {
    /// Memory for verdicts of `hot_bytes` bytes.
    #[must_use]
    pub fn new(hot_bytes: u64, reads: CacheReadMetrics) -> Self {
        let entries = usize::try_from(hot_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        let mut options = OptionsBuilder::new();
        // with several shards, a long verdict would exceed the memory of its own
        options.shards(1).estimated_items_capacity(entries).weight_capacity(hot_bytes);
        let options = options.build().expect("all needed options are set");
        let verdicts =
            HotCache::with_options(options, VerdictWeighter, Default::default(), Default::default());
        let verdicts = Arc::new(verdicts);
        let hits = reads.counter(CacheReadResult::HitMemory);
        Self { verdicts, reads, hits }
    }

    /// The verdict of a session, counted as a read. `None` if only the store may have it.
    #[must_use]
    pub fn read(&self, session_id: &SessionId) -> Option<Arc<CachedVerdict>> {
        let cached = self.verdicts.get(session_id)?;
        self.hits.inc();
        Some(cached)
    }
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
        hot: HotVerdicts,
        policy: PolicyConfig,
    ) -> Self {
        let rejecting_checks = find::RejectingCheckUsage::default();
        Self { store, log, clock, listeners, hot, policy, rejecting_checks }
    }

    fn read(&self, session_id: &SessionId) -> Result<Option<Arc<CachedVerdict>>, VerdictCacheError> {
        let (cached, found_in) = self.look_up(session_id)?;
        self.hot.reads.counter(found_in).inc();
        Ok(cached)
    }

    fn look_up(
        &self,
        session_id: &SessionId,
    ) -> Result<(Option<Arc<CachedVerdict>>, CacheReadResult), StoreError> {
        if let Some(cached) = self.hot.verdicts.get(session_id) {
            return Ok((Some(cached), CacheReadResult::HitMemory));
        }
        let Some((delivery, _)) = self.store.verdict(session_id)? else {
            return Ok((None, CacheReadResult::Miss));
        };
        let cached = Arc::new(CachedVerdict::from(delivery));
        self.hot.verdicts.insert(session_id.clone(), Arc::clone(&cached));
        Ok((Some(cached), CacheReadResult::HitStore))
    }
}

async fn purge(
    purge: PurgeVerdict,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<PurgeOutcome, VerdictCacheError> {
    let PurgeVerdict { session_id, peer } = purge;
    let purged = log.decide_and_commit(|| {
        let Some((verdict_sha256, revision)) = store.verdict_for_removal(&session_id)? else {
            return Ok(CommitDecision::Already(PurgeOutcome::NotCached));
        };
        refuse_on_hold(&store, &session_id)?;
        let outcome =
            if verdict_sha256.is_some() { PurgeOutcome::Removed } else { PurgeOutcome::RemovedDamaged };
        let purged = AuditEvent::new(clock.now(), session_id.clone(), VerdictPurged { verdict_sha256, peer });
        let mut record = JournalRecord {
            expect: vec![
                RowExpectation::new::<VerdictDelivery>(&session_id, Some(revision)),
                RowExpectation::new::<LegalHold>(&session_id, None),
            ],
            events: vec![purged],
            writes: vec![RowWrite::remove::<VerdictDelivery>(&session_id)],
            ..JournalRecord::default()
        };
        remove_recall_notice(&mut record, &store, &session_id)?;
        Ok::<_, VerdictCacheError>(CommitDecision::Change(outcome, record))
    });
    Ok(purged.await?.0)
}

/// Removes the verdict of a session from the cache's memory after a change in the store: a read during the
/// change may have loaded the old verdict again. A cache that has panicked meanwhile is empty.
async fn evict_verdict(cache: &Addr<VerdictCache>, session_id: SessionId) {
    if let Err(error) = cache.send(ForgetVerdict(session_id)).await {
        tracing::debug!(%error, "the cache was restarted and is empty");
    }
}

impl Actor for VerdictCache {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        if let Err(error) = self.rejecting_checks.load(&self.store) {
            tracing::warn!(%error, "could not read the size of the rejecting checks");
        }
    }
}

impl Supervised for VerdictCache {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.hot.verdicts.clear();
    }
}

impl Handler<ReadVerdict> for VerdictCache {
    type Result = Result<Option<Arc<CachedVerdict>>, VerdictCacheError>;

    fn handle(&mut self, ReadVerdict(session_id): ReadVerdict, _: &mut Context<Self>) -> Self::Result {
        self.read(&session_id)
    }
}

impl Handler<PurgeVerdict> for VerdictCache {
    type Result = ResponseFuture<Result<PurgeOutcome, VerdictCacheError>>;

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

impl Handler<ForgetVerdict> for VerdictCache {
    type Result = ();

    fn handle(&mut self, ForgetVerdict(session_id): ForgetVerdict, _: &mut Context<Self>) {
        self.hot.verdicts.remove(&session_id);
    }
}

actors_platform::handle_actor_calls!(VerdictCache);

/// Stores an approved verdict with its session and their log entries, as one commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, VerdictCacheError>")]
pub struct AdmitVerdict {
    /// The submission; its payload is `approved` now.
    pub submission: Submission,
    pub approved: ApprovedVerdict,
    /// The log entries of the gate.
    pub judged: Vec<AuditEvent>,
    /// The digest of the evaluation by the rules, if the submission has a check.
    pub evaluation_sha256: Option<Sha256Hex>,
    /// The release, if an operator releases a held verdict.
    pub release: Option<VerdictRelease>,
}

impl AdmitVerdict {
    /// Whether the rules checked the verdict against the check of its session, or against one of its own.
    fn is_checked_against(&self, session_check: &Arc<CandidateCheck>) -> bool {
        let Submission { check, path, .. } = &self.submission;
        let is_generated = matches!(path, GatePath::Generate | GatePath::Regen);
        check.as_ref().is_some_and(|check| !is_generated || check == session_check)
    }
}

/// The release of a held verdict by an operator.
#[derive(Debug, Clone)]
pub struct VerdictRelease {
    /// The revision of the held verdict that was decrypted.
    pub held_revision: u64,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub user: DecidingUser,
}

/// Removes the rows of those of `sessions` that were last changed up to entry `last_seq`, in one commit. Returns their number.
#[derive(Debug, Message)]
#[rtype(result = "Result<u64, VerdictCacheError>")]
pub struct ExpireSessions {
    /// The number of the entry with which the retention started.
    pub started_seq: u64,
    pub last_seq: u64,
    pub sessions: Vec<SessionId>,
}

impl Handler<ExpireSessions> for VerdictCache {
    type Result = ResponseFuture<Result<u64, VerdictCacheError>>;

    fn handle(&mut self, message: ExpireSessions, ctx: &mut Context<Self>) -> Self::Result {
        let ExpireSessions { started_seq, last_seq, sessions } = message;
        let cache = ctx.address();
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let removing = log.decide_and_commit(|| {
                let (mut record, mut session_ids) = (JournalRecord::default(), Vec::new());
                for session_id in &sessions {
                    if let Some(rows) = store.expired_session(session_id, last_seq)? {
                        let (expect, writes) = rows.removal();
                        record.expect.extend(expect);
                        record.writes.extend(writes);
                        session_ids.push(session_id.clone());
                    }
                }
                let count = session_ids.len() as u64;
                if session_ids.is_empty() {
                    return Ok::<_, VerdictCacheError>(CommitDecision::Already(count));
                }
                let expired = SessionsExpired(SessionExpiryEntry { started_seq, session_ids });
                record.events.push(AuditEvent::new(clock.now(), None, expired));
                Ok(CommitDecision::Change(count, record))
            });
            let expired = removing.await;
            for session_id in sessions.iter().cloned() {
                evict_verdict(&cache, session_id).await;
            }
            Ok(expired?.0)
        })
    }
}

#[derive(Debug, Clone)]
pub struct DeliveryListeners {
    /// Whether mails are sent.
    pub mails: bool,
    pub orders: OrderProgress,
    pub order_metrics: OrderMetrics,
    pub comparisons: ComparisonMetrics,
}

impl DeliveryListeners {
    /// Reports the order that a commit stopped or ended.
    fn report(&self, session_id: &SessionId, order: &Order) {
        self.order_metrics.count_end(session_id.application(), order.state);
        self.orders.publish(session_id, order);
    }
}

/// The labels of a comparison with the first verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DivergenceLabels {
    original: MetricLabelValue,
    regenerated: MetricLabelValue,
    level: MetricLabelValue,
}

impl DivergenceLabels {
    fn new(original: OriginalLabel, regenerated: VerdictLabel, level: Option<DivergenceLevel>) -> Self {
        Self {
            original: MetricLabelValue(original.as_str()),
            regenerated: MetricLabelValue(regenerated.into_str()),
            level: MetricLabelValue(level.map_or("unknown", Into::into)),
        }
    }

    /// All combinations of labels.
    fn all() -> impl Iterator<Item = Self> {
        let originals: Vec<_> =
            VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel).collect();
        let levels: Vec<_> = DivergenceLevel::ALL.map(Some).into_iter().chain([None]).collect();
        let labels: Vec<_> = pairs(&originals, &VerdictLabel::ALL).collect();
        let all: Vec<_> = pairs(&labels, &levels).collect();
        all.into_iter().map(|((original, regenerated), level)| Self::new(original, regenerated, level))
    }
}

/// The metrics of comparisons with the first verdict.
#[derive(Debug, Clone)]
pub struct ComparisonMetrics(Family<DivergenceLabels, Counter>);

impl ComparisonMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self(registry.add(
            "regens_compared",
            "regenerated verdicts, by original label, regenerated label and divergence level",
            init_counters(DivergenceLabels::all()),
        ))
    }

    /// Counts a regenerated verdict by its divergence from the first.
    fn count_comparison(&self, check: &DivergenceCheck) {
        let labels =
            DivergenceLabels::new(check.original_verdict, check.regen_verdict, check.divergence_level);
        self.0.get_or_create(&labels).inc();
    }
}

/// Where a cached verdict was found.
#[derive(Debug, Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum CacheReadResult {
    HitMemory,
    HitStore,
    Miss,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheReadLabels {
    result: MetricLabelValue,
}

impl CacheReadLabels {
    const fn new(result: CacheReadResult) -> Self {
        Self { result: MetricLabelValue(result.into_str()) }
    }
}

/// The metrics of reads of cached verdicts.
#[derive(Debug, Clone)]
pub struct CacheReadMetrics(Family<CacheReadLabels, Counter>);

impl CacheReadMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self(registry.add(
            "cache_reads",
            "reads of cached verdicts, by where they were found",
            init_counters(CacheReadResult::VARIANTS.iter().copied().map(CacheReadLabels::new)),
        ))
    }

    fn counter(&self, result: CacheReadResult) -> Counter {
        self.0.get_or_create_owned(&CacheReadLabels::new(result))
    }
}

/// Registers a session, or updates one.
#[derive(Debug, Message)]
#[rtype(result = "Result<RegisterSessionOutcome, VerdictCacheError>")]
pub struct RegisterSession {
    pub session_id: SessionId,
    /// The caller of the request.
    pub caller: SessionCaller,
    /// The tier that was bought.
    pub tier: ProductTier,
    /// The customer's question.
    pub query: CustomerQuery,
    /// The address for mails; `None` keeps the known one.
    pub customer_email: Option<CustomerEmail>,
    /// The label of a verdict that was delivered without oracled, if there is one.
    pub original_verdict: Option<VerdictLabel>,
    /// The prompt of that verdict, if it is known.
    pub prompt: Option<VerdictPrompt>,
    /// The entry of the look-up that found the session, for the same commit.
    pub look_up: Option<AuditEvent>,
}

/// The outcome of a registration.
#[derive(Debug)]
pub enum RegisterSessionOutcome {
    /// The session is new.
    Created(SessionRecord),
    /// The session was known, and now contains the registered values.
    Updated(SessionRecord),
    /// The session is known with other values. Nothing has changed.
    Mismatch(SessionMismatch),
}

async fn register(
    message: RegisterSession,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<RegisterSessionOutcome, VerdictCacheError> {
    let registered = log.decide_and_commit(|| {
        let known = store.session(&message.session_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let known = known.map(|(session, _)| session);
        let mut session = match apply_registration(&message, known.as_ref()) {
            Ok(session) => session,
            Err(mismatch) => return Ok(CommitDecision::Already(RegisterSessionOutcome::Mismatch(mismatch))),
        };
        let (check, check_revision) = find_check_in_force(&store, &message.session_id, known.as_ref())?;
        session.check = check;
        if known.as_ref() == Some(&session) {
            return Ok(CommitDecision::Already(RegisterSessionOutcome::Updated(session)));
        }
        let mut record = session_update_record(&session, revision, clock.now());
        record.events.splice(0..0, message.look_up.clone());
        record.events.extend(address_change_event(&store, known.as_ref(), &session, clock.now())?);
        if known.is_none() {
            remove_rejecting_check(&mut record, &message.session_id, check_revision);
        }
        let registered = if known.is_none() {
            RegisterSessionOutcome::Created(session)
        } else {
            RegisterSessionOutcome::Updated(session)
        };
        Ok::<_, VerdictCacheError>(CommitDecision::Change(registered, record))
    });
    let (registered, receipt) = registered.await?;
    // another request has registered the session meanwhile; it was looked up nevertheless
    if let Some(event) = message.look_up.filter(|_| receipt.is_none()) {
        log.commit(event.into()).await?;
    }
    Ok(registered)
}

/// The known session updated with the registered values, or a new session.
fn apply_registration(
    message: &RegisterSession,
    known: Option<&SessionRecord>,
) -> Result<SessionRecord, SessionMismatch> {
    let RegisterSession { session_id, caller, tier, query, customer_email, original_verdict, prompt, .. } =
        message;
    let mismatch = known.and_then(|session| session.mismatch(*tier, query));
    let first = known.and_then(|session| session.original.clone());
    let speaks_against =
        |first: &OriginalVerdict| original_verdict.is_some_and(|label| label != first.verdict_label);
    let has_other_prompt = |first: &OriginalVerdict| {
        let prompts = first.prompt.as_ref().zip(prompt.as_ref());
        prompts.is_some_and(|(first, given)| first.sha256 != given.sha256)
    };
    match mismatch {
        Some(mismatch) => Err(mismatch),
        None if first.as_ref().is_some_and(speaks_against) => Err(SessionMismatch::OriginalVerdict),
        None if first.as_ref().is_some_and(has_other_prompt) => Err(SessionMismatch::Prompt),
        None => {
            let new = || SessionRecord::new(session_id.clone(), *tier, query.clone());
            let base = known.cloned().unwrap_or_else(new);
            let session = SessionRecord {
                customer_email: customer_email.clone().or(base.customer_email),
                original: first.or_else(|| original_verdict.map(OriginalVerdict::reported)).map(|original| {
                    let prompt = original.prompt.or_else(|| prompt.clone());
                    OriginalVerdict { prompt, ..original }
                }),
                ..base
            };
            let changed = known.filter(|known| **known != session);
            match changed.and_then(|known| known.change_mismatch(*caller, customer_email.as_ref())) {
                Some(mismatch) => Err(mismatch),
                None => Ok(session.owned_by(*caller)),
            }
        }
    }
}

impl Handler<RegisterSession> for VerdictCache {
    type Result = ResponseFuture<Result<RegisterSessionOutcome, VerdictCacheError>>;

    fn handle(&mut self, message: RegisterSession, _: &mut Context<Self>) -> Self::Result {
        Box::pin(register(message, self.store.clone(), self.log.clone(), self.clock.clone()))
    }
}

/// The record that stores `session`, and requires `revision` of its row.
fn session_update_record(session: &SessionRecord, revision: Option<u64>, now: Timestamp) -> JournalRecord {
    JournalRecord {
        expect: vec![RowExpectation::new::<SessionRecord>(&session.session_id, revision)],
        events: vec![session_registered_event(session, now)],
        writes: vec![RowWrite::put::<SessionRecord>(session)],
        ..JournalRecord::default()
    }
}

/// The record that stores `address` with a session, whose revision is `revision`; `None` if the session has an address.
pub(crate) fn new_address_record(
    store: &Store,
    (session, revision): (SessionRecord, u64),
    address: &CustomerEmail,
    now: Timestamp,
) -> Result<Option<JournalRecord>, StoreError> {
    if session.customer_email.is_some() {
        return Ok(None);
    }
    let after = SessionRecord { customer_email: Some(address.clone()), ..session.clone() };
    let changed = address_change_event(store, Some(&session), &after, now)?;
    let row = RowName::of::<SessionRecord>(&after.session_id);
    Ok(Some(JournalRecord {
        expect: vec![RowExpectation { row, revision: Some(revision) }],
        events: changed.into_iter().collect(),
        writes: vec![RowWrite::put::<SessionRecord>(&after)],
        ..JournalRecord::default()
    }))
}

/// The entry of a session that was registered or changed.
fn session_registered_event(session: &SessionRecord, timestamp: Timestamp) -> AuditEvent {
    let label = session.original.as_ref().map(|original| original.verdict_label);
    AuditEvent::new(
        timestamp,
        session.session_id.clone(),
        SessionRegistered {
            tier: session.tier,
            query_preview: session.query.preview(),
            original_verdict: OriginalLabel(label),
            has_email: session.customer_email.is_some(),
        },
    )
}

/// Ends the open order of a session whose verdict is delivered. Returns the order and the log entry; `None` if there is no
/// order, or it was delivered before.
fn deliver_order(
    session: &SessionRecord,
    path: GatePath,
    trace: Option<&GenerationTrace>,
    now: Timestamp,
) -> Option<(Order, AuditEvent)> {
    let order = session.order.as_ref().filter(|order| order.state != OrderState::Delivered)?;
    let order = order.clone().delivered(attempt_end(path, GenerationOutcome::Delivered, trace), now);
    let delivered = OrderDelivered { path, attempts: order.attempts };
    Some((order, AuditEvent::new(now, session.session_id.clone(), delivered)))
}

/// The end of an attempt in progress, when a verdict of `path` is delivered or held: its own verdict, or one that overtakes
/// it.
fn attempt_end(
    path: GatePath,
    own: GenerationOutcome,
    trace: Option<&GenerationTrace>,
) -> (GenerationOutcome, Option<ModelTokenUsage>, Option<ModelCost>) {
    let outcome = if path == GatePath::Generate { own } else { GenerationOutcome::Replayed };
    (outcome, GenerationTrace::usage(trace), GenerationTrace::cost(trace))
}

/// The log entry for a changed address of a known session.
pub(crate) fn address_change_event(
    store: &Store,
    before: Option<&SessionRecord>,
    after: &SessionRecord,
    timestamp: Timestamp,
) -> Result<Option<AuditEvent>, StoreError> {
    let Some(before) = before.filter(|before| before.customer_email != after.customer_email) else {
        return Ok(None);
    };
    let digest = |email: Option<&CustomerEmail>| {
        email.map(|email| store.keyed_digest(&email.as_str().to_lowercase())).transpose()
    };
    Ok(Some(AuditEvent::new(
        timestamp,
        after.session_id.clone(),
        SessionAddressChanged {
            before: digest(before.customer_email.as_ref())?,
            after: digest(after.customer_email.as_ref())?,
        },
    )))
}

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
        let HotVerdicts { verdicts: hot, .. } =
            HotVerdicts::new(64 * 1024, CacheReadMetrics::register(&mut Registry::default()));
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
