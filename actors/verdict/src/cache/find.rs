//! Looking up a session before a verdict is submitted or generated for it.
//!
//! The check that refused a verdict stays in force for its session, whether the session is known or not. A known
//! session stores the check itself. For any other session the check is a row of its own. When the session is registered
//! or gets a verdict, it takes the row over. The rows share a limit in bytes; the oldest are dropped first.

use super::{
    VerdictCache, VerdictCacheError, address_change_event, deliver_order, evict_verdict, new_address_record,
    session_registered_event, session_update_record,
};
use crate::cache::DeliveryListeners;
use crate::submission::{CachedVerdict, Submission};
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::caller::current_trace;
use actors_platform::clock::Clock;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_rules::CandidateCheck;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{MessageQueued, RejectingCheckDropped};
use domain_verdict::mail::{MailKind, OutboxMail};
use domain_verdict::order::Order;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::session::{
    CustomerEmail, OriginalVerdict, RejectingCheck, SessionMismatch, SessionRecord,
};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RejectingCheckSize, RowExpectation, RowWrite, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Looks up a session whose verdict is to be delivered.
///
/// A verdict that was regenerated for a read, but never delivered, counts as delivered from now on: it becomes the
/// session's first verdict, and is mailed. A delivered verdict is mailed, too, if the session had no address until now.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<FindSessionOutcome, VerdictCacheError>")]
pub struct FindSession(pub Submission);

/// The result of looking up a session.
#[derive(Debug)]
pub enum FindSessionOutcome {
    /// No verdict is cached, and the session, if it is known, matches the request. Contains the check that is
    /// in force for its verdict.
    Nothing(Option<Arc<CandidateCheck>>),
    Cached(Arc<CachedVerdict>),
    /// The policy holds the verdict of the session.
    Held,
    /// The application or an operator cancelled the order of the session, which gets no verdict.
    Cancelled,
    /// The request contradicts the session, or its cached verdict was not checked against facts.
    Mismatch(SessionMismatch),
}

/// Looks up a session and its verdict, and returns them with the session and its revision. The verdict is
/// looked up only if the session is known and matches the request; a verdict never exists without its
/// session.
pub(super) fn find_session(
    store: &Store,
    find: &Submission,
    look_up: impl FnOnce() -> Result<Option<Arc<CachedVerdict>>, StoreError>,
) -> Result<(FindSessionOutcome, Option<(SessionRecord, u64)>), StoreError> {
    let known = store.session(&find.session_id)?;
    let Some((session, _)) = &known else {
        let (check, _) = find_check_in_force(store, &find.session_id, None)?;
        return Ok((FindSessionOutcome::Nothing(check), None));
    };
    let found = if let Some(mismatch) = session.mismatch(find.tier, &find.query) {
        FindSessionOutcome::Mismatch(mismatch)
    } else if session.is_cancelled() {
        FindSessionOutcome::Cancelled
    } else if session.is_held_by_policy() {
        FindSessionOutcome::Held
    } else {
        let nothing = || FindSessionOutcome::Nothing(session.check.clone());
        look_up()?.map_or_else(nothing, FindSessionOutcome::Cached)
    };
    let mismatch = found.refusal(find, session);
    Ok((mismatch.map_or(found, FindSessionOutcome::Mismatch), known))
}

impl FindSessionOutcome {
    /// Why the request may not get this outcome: it is of another user id, or has other facts.
    fn refusal(&self, find: &Submission, session: &SessionRecord) -> Option<SessionMismatch> {
        let Submission { caller, customer_email, check, path, .. } = find;
        let address = customer_email.as_ref();
        let repeats = || session.repeat_mismatch(*caller, address, check.as_ref());
        match self {
            Self::Cached(_) if session.delivered_sha256.is_none() => {
                repeats().or_else(|| session.change_mismatch(*caller, address))
            }
            Self::Cached(_) | Self::Held => repeats(),
            Self::Nothing(_) if *path == GatePath::Generate && session.has_unfinished_order() => repeats(),
            Self::Nothing(_) => session.change_mismatch(*caller, address),
            Self::Cancelled | Self::Mismatch(_) => None,
        }
    }
}

/// Whether a repeated delivery of a cached verdict would change the session.
fn is_session_changed(session: &SessionRecord, customer_email: Option<&CustomerEmail>) -> bool {
    session.delivered_sha256.is_none() || (session.customer_email.is_none() && customer_email.is_some())
}

/// The record of a repeated delivery, the verdict, and the order that it ends.
type RepeatedDelivery = (JournalRecord, Arc<VerdictDelivery>, Option<Order>);

/// Commits the delivery of a cached verdict.
struct CachedVerdictDelivery {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    listeners: DeliveryListeners,
}

impl CachedVerdictDelivery {
    /// Delivers the cached verdict of a session, and returns the verdict as it is cached afterwards.
    async fn deliver(&self, find: &Submission) -> Result<FindSessionOutcome, VerdictCacheError> {
        let delivered = self.log.decide_and_commit(|| {
            let already = |known| Ok::<_, VerdictCacheError>(CommitDecision::Already((known, None)));
            let stored = self.store.verdict(&find.session_id)?;
            let cached = stored.as_ref().map(|(delivery, _)| Arc::new(delivery.clone().into()));
            let (known, session) = find_session(&self.store, find, || Ok(cached))?;
            let (FindSessionOutcome::Cached(_), Some((session, session_revision))) = (&known, session) else {
                return already(known);
            };
            let Some((delivery, verdict_revision)) = stored else { return already(known) };
            if session.delivered_sha256.is_none()
                && find.check.is_some()
                && delivery.evaluation_sha256.is_none()
            {
                return already(FindSessionOutcome::Mismatch(SessionMismatch::Facts));
            }
            if !is_session_changed(&session, find.customer_email.as_ref()) {
                return already(FindSessionOutcome::Cached(Arc::new(delivery.into())));
            }
            let (mut record, delivery, ended) =
                self.build_repeat_delivery(&session, delivery, find, self.clock.now())?;
            record.expect = vec![
                RowExpectation::new::<SessionRecord>(&find.session_id, Some(session_revision)),
                RowExpectation::new::<VerdictDelivery>(&find.session_id, Some(verdict_revision)),
            ];
            let known = FindSessionOutcome::Cached(Arc::new(VerdictDelivery::clone(&delivery).into()));
            Ok(CommitDecision::Change((known, ended), record))
        });
        let ((known, ended), _) = delivered.await?;
        if let Some(order) = &ended {
            self.listeners.report(&find.session_id, order);
        }
        Ok(known)
    }

    /// Stores the check of the request with a known session. The check of an order stays that of its first request.
    async fn store_check(&self, find: &Submission) -> Result<FindSessionOutcome, VerdictCacheError> {
        let committed = self.log.decide_and_commit(|| {
            let stored =
                || Ok(self.store.verdict(&find.session_id)?.map(|(stored, _)| Arc::new(stored.into())));
            let (known, session) = find_session(&self.store, find, stored)?;
            let (FindSessionOutcome::Nothing(_), Some((session, revision))) = (&known, session) else {
                return Ok::<_, VerdictCacheError>(CommitDecision::Already(known));
            };
            if session.check == find.check || session.has_unfinished_order() {
                return Ok(CommitDecision::Already(known));
            }
            let session = SessionRecord { check: find.check.clone(), ..session };
            let record = session_update_record(&session, Some(revision), self.clock.now());
            Ok(CommitDecision::Change(FindSessionOutcome::Nothing(find.check.clone()), record))
        });
        Ok(committed.await?.0)
    }

    /// Stores the address of the request with a session whose verdict is held, so that the verdict is mailed once it is
    /// released.
    async fn store_address(&self, find: &Submission) -> Result<FindSessionOutcome, VerdictCacheError> {
        let committed = self.log.decide_and_commit(|| {
            let known = self.store.session(&find.session_id)?;
            let held =
                known.filter(|(session, _)| session.is_held_by_policy()).zip(find.customer_email.as_ref());
            let record = match held {
                Some((known, address)) => new_address_record(&self.store, known, address, self.clock.now())?,
                None => None,
            };
            Ok::<_, VerdictCacheError>(match record {
                Some(record) => CommitDecision::Change((), record),
                None => CommitDecision::Already(()),
            })
        });
        committed.await?;
        Ok(FindSessionOutcome::Held)
    }

    fn build_repeat_delivery(
        &self,
        known: &SessionRecord,
        delivery: VerdictDelivery,
        find: &Submission,
        now: Timestamp,
    ) -> Result<RepeatedDelivery, StoreError> {
        // without an original to compare with, the regenerated verdict becomes the original
        let delivery = Arc::new(match &known.original {
            None => VerdictDelivery { regen: None, ..delivery },
            Some(_) => delivery,
        });
        let sha256 = delivery.approved.sha256();
        let original = || OriginalVerdict::delivered(&delivery.approved, None, None, now);
        let customer_email = find.customer_email.clone().or_else(|| known.customer_email.clone());
        // only the verdict that was delivered first is mailed, not a later one
        let to_be_mailed = known.delivered_sha256.as_ref().is_none_or(|first| first == sha256);
        let to = customer_email.clone().filter(|_| to_be_mailed && self.listeners.mails);
        let delivered = deliver_order(known, find.path, None, now);
        let (order, order_delivered) = delivered.unzip();
        let session = SessionRecord {
            customer_email,
            original: Some(known.original.clone().unwrap_or_else(original)),
            delivered_sha256: Some(known.delivered_sha256.clone().unwrap_or_else(|| sha256.clone())),
            order: order.clone().or_else(|| known.order.clone()),
            ..known.clone().owned_by(find.caller)
        };
        let mut events = vec![session_registered_event(&session, now)];
        events.extend(order_delivered);
        events.extend(address_change_event(&self.store, Some(known), &session, now)?);
        let mut writes = vec![RowWrite::put::<VerdictDelivery>(&delivery)];
        if let Some(to) = to {
            let mail = queue_mail(MailKind::Verdict, &delivery, to);
            events.push(mail_queued_event(&mail, now));
            writes.push(RowWrite::put(&mail));
        }
        writes.push(RowWrite::put::<SessionRecord>(&session));
        Ok((JournalRecord { events, writes, ..JournalRecord::default() }, delivery, order))
    }
}

/// A mail of `kind` about `delivery`, with the trace of the current caller.
pub(super) fn queue_mail(
    kind: MailKind,
    delivery: &Arc<VerdictDelivery>,
    to: CustomerEmail,
) -> OutboxMessage {
    OutboxMail { trace: current_trace(), ..OutboxMail::queued(kind, Arc::clone(delivery), to) }.into()
}

/// The log entry of a mail that is put into the outbox.
pub(super) fn mail_queued_event(mail: &OutboxMessage, timestamp: Timestamp) -> AuditEvent {
    let state = mail.state();
    AuditEvent::new(timestamp, state.session_id().cloned(), MessageQueued(state.entry()))
}

impl Handler<FindSession> for VerdictCache {
    type Result = ResponseFuture<Result<FindSessionOutcome, VerdictCacheError>>;

    fn handle(&mut self, FindSession(find): FindSession, ctx: &mut Context<Self>) -> Self::Result {
        let store = self.store.clone();
        let Submission { session_id, customer_email, check, .. } = &find;
        let lookup = find_session(&store, &find, || Ok(self.look_up(session_id)?.0));
        let (known, session) = match lookup {
            Ok(found) => found,
            Err(error) => return Box::pin(async { Err(error.into()) }),
        };
        let session = session.map(|(session, _)| session);
        let news =
            session.as_ref().is_some_and(|session| is_session_changed(session, customer_email.as_ref()));
        let is_new = |session: SessionRecord| session.check != *check && !session.has_unfinished_order();
        let new_check = check.is_some() && session.is_some_and(is_new);
        let (log, clock, listeners) = (self.log.clone(), self.clock.clone(), self.listeners.clone());
        let (cache, deliverer) = (ctx.address(), CachedVerdictDelivery { store, log, clock, listeners });
        match known {
            // a replay changes nothing; the other cases do
            FindSessionOutcome::Cached(_) if news => {}
            FindSessionOutcome::Held if customer_email.is_some() => {
                return Box::pin(async move { deliverer.store_address(&find).await });
            }
            FindSessionOutcome::Nothing(_) if new_check => {
                return Box::pin(async move { deliverer.store_check(&find).await });
            }
            known => return Box::pin(async { Ok(known) }),
        }
        Box::pin(async move {
            let known = deliverer.deliver(&find).await;
            // the verdict may have become the first one, which changes its document
            evict_verdict(&cache, find.session_id).await;
            known
        })
    }
}

/// The limit for the rejecting checks of all sessions that are not known.
const REJECTING_CHECKS_MAX_BYTES: u64 = 256 << 20;

/// Commits the record of a verdict that the rules refused, and keeps its check for the session.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), VerdictCacheError>")]
pub struct StoreRejectingCheck {
    /// The session of the verdict.
    pub session_id: SessionId,
    /// The check that refused the verdict.
    pub check: Arc<CandidateCheck>,
    /// Whether the session can be new. If it cannot and is unknown, it was removed meanwhile, and the check is not stored.
    pub may_be_new: bool,
    /// The entries of the rejection.
    pub record: JournalRecord,
}

/// Counts a stored rejecting check, and drops the oldest ones beyond the limit.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct CountRejectingCheck(pub(crate) SessionId);

/// The bytes that the rejecting checks take. A row that was removed or replaced still counts until it is the oldest.
#[derive(Debug)]
pub(super) struct RejectingCheckUsage {
    by_age: BTreeMap<u64, (SessionId, u64)>,
    bytes: u64,
    max_bytes: u64,
}

impl Default for RejectingCheckUsage {
    fn default() -> Self {
        Self { by_age: BTreeMap::new(), bytes: 0, max_bytes: REJECTING_CHECKS_MAX_BYTES }
    }
}

impl RejectingCheckUsage {
    pub(super) fn load(&mut self, store: &Store) -> Result<(), StoreError> {
        *self = Self { max_bytes: self.max_bytes, ..Self::default() };
        for size in store.rejecting_check_sizes()? {
            self.add(size);
        }
        Ok(())
    }

    fn add(&mut self, RejectingCheckSize { session_id, revision, bytes }: RejectingCheckSize) {
        if self.by_age.insert(revision, (session_id, bytes)).is_none() {
            self.bytes += bytes;
        }
    }

    /// Removes the oldest ones beyond the limit, and returns them with their revisions.
    fn take_excess(&mut self) -> Vec<(SessionId, u64)> {
        let mut excess = Vec::new();
        while self.bytes > self.max_bytes
            && let Some((revision, (session_id, bytes))) = self.by_age.pop_first()
        {
            self.bytes = self.bytes.saturating_sub(bytes);
            excess.push((session_id, revision));
        }
        excess
    }
}

/// The check in force for `session_id`: that of the session, or, for a session that is not known, the stored rejecting
/// check with its revision.
pub(crate) fn find_check_in_force(
    store: &Store,
    session_id: &SessionId,
    session: Option<&SessionRecord>,
) -> Result<(Option<Arc<CandidateCheck>>, Option<u64>), StoreError> {
    if let Some(session) = session {
        return Ok((session.check.clone(), None));
    }
    let stored = store.rejecting_check(session_id)?;
    Ok(stored.map(|(rejecting, revision)| (rejecting.check, revision)).unzip())
}

/// Makes `record`, which stores a session, also remove its stored rejecting check. The record is stale if that
/// rejecting check has changed since.
pub(crate) fn remove_rejecting_check(
    record: &mut JournalRecord,
    session_id: &SessionId,
    revision: Option<u64>,
) {
    record.expect.push(RowExpectation::new::<RejectingCheck>(session_id, revision));
    if revision.is_some() {
        record.writes.push(RowWrite::remove::<RejectingCheck>(session_id));
    }
}

async fn store_rejecting_check(
    refuse: StoreRejectingCheck,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<bool, VerdictCacheError> {
    let StoreRejectingCheck { session_id, check, may_be_new, record } = refuse;
    let refused = log.decide_and_commit(|| {
        let session = store.session(&session_id)?;
        let (in_force, revision) =
            find_check_in_force(&store, &session_id, session.as_ref().map(|(session, _)| session))?;
        let (mut record, mut keeps) = (record.clone(), false);
        match session {
            Some((session, revision)) if in_force.is_none() => {
                let session = SessionRecord { check: Some(Arc::clone(&check)), ..session };
                let JournalRecord { expect, events, writes, .. } =
                    session_update_record(&session, Some(revision), clock.now());
                record.expect.extend(expect);
                record.events.extend(events);
                record.writes.extend(writes);
            }
            None if may_be_new && in_force.as_ref() != Some(&check) => {
                keeps = true;
                let (session_id, check) = (session_id.clone(), Arc::clone(&check));
                record.expect.extend([
                    RowExpectation::new::<SessionRecord>(&session_id, None),
                    RowExpectation::new::<RejectingCheck>(&session_id, revision),
                ]);
                record.writes.push(RowWrite::put::<RejectingCheck>(&RejectingCheck { session_id, check }));
            }
            _ => {}
        }
        Ok::<_, VerdictCacheError>(CommitDecision::Change(keeps, record))
    });
    Ok(refused.await?.0)
}

/// Drops a rejecting check, unless it was replaced or removed meanwhile.
async fn drop_rejecting_check(session_id: SessionId, revision: u64, log: LoggerHandle, clock: Clock) {
    let record = JournalRecord {
        expect: vec![RowExpectation::new::<RejectingCheck>(&session_id, Some(revision))],
        events: vec![AuditEvent::new(clock.now(), session_id.clone(), RejectingCheckDropped {})],
        writes: vec![RowWrite::remove::<RejectingCheck>(&session_id)],
        ..JournalRecord::default()
    };
    match log.commit(record).await {
        Ok(_) | Err(CommitError::Stale(_)) => {}
        Err(error) => tracing::warn!(%error, "could not drop an old rejecting check"),
    }
}

impl Handler<StoreRejectingCheck> for VerdictCache {
    type Result = ResponseFuture<Result<(), VerdictCacheError>>;

    fn handle(&mut self, message: StoreRejectingCheck, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let refused =
            store_rejecting_check(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            if refused.await? {
                cache.do_send(CountRejectingCheck(session_id));
            }
            Ok(())
        })
    }
}

impl Handler<CountRejectingCheck> for VerdictCache {
    type Result = ();

    fn handle(&mut self, CountRejectingCheck(session_id): CountRejectingCheck, _: &mut Context<Self>) {
        match self.store.rejecting_check_size(session_id) {
            Ok(Some(size)) => self.rejecting_checks.add(size),
            // a session has already taken the row over
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "could not read the size of a rejecting check"),
        }
        for (session_id, revision) in self.rejecting_checks.take_excess() {
            actix_rt::spawn(drop_rejecting_check(session_id, revision, self.log.clone(), self.clock.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_rejecting_checks_are_dropped_beyond_the_bound() {
        let mut rejecting_checks = RejectingCheckUsage { max_bytes: 10, ..RejectingCheckUsage::default() };
        let size = |revision, bytes| {
            let session_id: SessionId = format!("cs_{revision}").parse().expect("a valid id");
            RejectingCheckSize { session_id, revision, bytes }
        };
        for revision in [3, 1, 2] {
            rejecting_checks.add(size(revision, 5));
        }
        let dropped = |rejecting_checks: &mut RejectingCheckUsage| {
            rejecting_checks.take_excess().into_iter().map(|(_, revision)| revision).collect::<Vec<_>>()
        };
        assert_eq!(dropped(&mut rejecting_checks), [1]);
        rejecting_checks.add(size(4, 11));
        assert_eq!(dropped(&mut rejecting_checks), [2, 3, 4]);
        assert_eq!((rejecting_checks.bytes, rejecting_checks.by_age.len()), (0, 0));
    }
}
