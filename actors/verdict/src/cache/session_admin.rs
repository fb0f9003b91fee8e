//! Changes that administrators make to a session. Each change and its log entry are one commit.

use super::{VerdictCache, VerdictCacheError, address_change_event, evict_verdict, refuse_on_hold};
use crate::cache::admit::remove_held_verdict;
use crate::notifier::{HeldMessages, queued_mails};
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::logger::LoggerHandle;
use actors_audit::logger::handle::CommitDecision;
use actors_platform::clock::Clock;
use domain_audit::event::{ErasureStartEntry, ErasureStarted};
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::divergence::OriginalLabel;
use domain_verdict::event::{SessionCorrected, SessionRemoved, ValueChange};
use domain_verdict::label::VerdictLabel;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::outbox::{MessageState, OutboxMessage};
use domain_verdict::recall_notice::RecallNotice;
use domain_verdict::session::{CustomerEmail, OriginalVerdict, SessionMismatch, SessionRecord};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};

/// Corrects a session. A field that is `None` keeps its value.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CorrectSessionOutcome, VerdictCacheError>")]
pub struct CorrectSession {
    pub session_id: SessionId,
    /// The new address.
    pub customer_email: Option<CustomerEmail>,
    /// The verdict that was delivered without oracled. A verdict that oracled delivered cannot be corrected.
    pub original_verdict: Option<VerdictLabel>,
    /// The user id that owns it from now on.
    pub owner_uid: Option<u32>,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// The outcome of a correction.
#[derive(Debug)]
pub enum CorrectSessionOutcome {
    Done(Box<SessionRecord>),
    /// There is no such session.
    Unknown,
    /// The original verdict was delivered by oracled and cannot be corrected. Nothing has changed.
    Mismatch(SessionMismatch),
}

/// Removes a session with its cached verdict and its queued mails. Returns the session, or `None` if it is unknown.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<SessionRecord>, VerdictCacheError>")]
pub struct RemoveSession {
    pub session_id: SessionId,
    /// Its queued mails, if there are any, held back from sending.
    pub mails: Option<HeldMessages>,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Removes the rows and the queued mails of a session, known or not, and logs that its erasure has started. Returns false, and
/// changes nothing, if it has a queued mail that is not held back.
#[derive(Debug, Message)]
#[rtype(result = "Result<bool, VerdictCacheError>")]
pub struct EraseSession {
    pub session_id: SessionId,
    /// Its queued mails, if there are any, held back from sending.
    pub mails: Option<HeldMessages>,
    /// The administrator's reason.
    pub reason: String,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// The removal of a session.
struct SessionRemoval {
    /// The session; `None` if it is unknown or lost.
    session: Option<SessionRecord>,
    record: JournalRecord,
    dropped: Vec<MessageState>,
}

impl SessionRemoval {
    /// The removal of what is stored about the session now.
    fn of(
        session_id: &SessionId,
        mails: Option<&HeldMessages>,
        peer: PeerCredentials,
        (store, timestamp): (&Store, Timestamp),
    ) -> Result<Self, VerdictCacheError> {
        refuse_on_hold(store, session_id)?;
        let mut record = JournalRecord::default();
        let (session, revision) = match store.session(session_id) {
            Err(StoreError::RowLost { entry, .. }) => (None, Some(entry)),
            session => session?.unzip(),
        };
        if revision.is_none() {
            record.expect = vec![RowExpectation::new::<SessionRecord>(session_id, None)];
        }
        if revision.is_some() {
            let verdict = store.verdict_for_removal(session_id)?;
            record.expect = vec![
                RowExpectation::new::<SessionRecord>(session_id, revision),
                RowExpectation::new::<VerdictDelivery>(
                    session_id,
                    verdict.as_ref().map(|(_, revision)| *revision),
                ),
            ];
            record.writes.push(RowWrite::remove::<SessionRecord>(session_id));
            if verdict.is_some() {
                record.writes.push(RowWrite::remove::<VerdictDelivery>(session_id));
            }
            record.expect.push(RowExpectation::new::<LegalHold>(session_id, None));
            remove_held_verdict(&mut record, store, session_id)?;
            remove_recall_notice(&mut record, store, session_id)?;
            record.events.push(AuditEvent::new(
                timestamp,
                session_id.clone(),
                SessionRemoved { verdict_sha256: verdict.and_then(|(sha256, _)| sha256), peer },
            ));
        }
        let dropped = mails.map(|mails| mails.put_removal(&mut record, peer, timestamp));
        Ok(Self { session, record, dropped: dropped.transpose()?.unwrap_or_default() })
    }
}

/// Makes `record` also remove the drafted notice of the session, if there is one. The record is stale if that has changed.
pub(super) fn remove_recall_notice(
    record: &mut JournalRecord,
    store: &Store,
    session_id: &SessionId,
) -> Result<(), StoreError> {
    let revision = store.recall_notice_revision(session_id)?;
    record.expect.push(RowExpectation::new::<RecallNotice>(session_id, revision));
    if revision.is_some() {
        record.writes.push(RowWrite::remove::<RecallNotice>(session_id));
    }
    Ok(())
}

impl CorrectSession {
    /// The session after the correction.
    fn correct_session(&self, known: &SessionRecord) -> Result<SessionRecord, SessionMismatch> {
        let original = match (&known.original, self.original_verdict) {
            (Some(original), Some(label)) if original.verdict_sha256.is_some() => {
                if original.verdict_label != label {
                    return Err(SessionMismatch::OriginalVerdict);
                }
                known.original.clone()
            }
            (known, Some(label)) => Some(OriginalVerdict {
                prompt: known.as_ref().and_then(|original| original.prompt.clone()),
                ..OriginalVerdict::reported(label)
            }),
            (original, None) => original.clone(),
        };
        Ok(SessionRecord {
            customer_email: self.customer_email.clone().or_else(|| known.customer_email.clone()),
            owner_uid: self.owner_uid.or(known.owner_uid),
            original,
            ..known.clone()
        })
    }

    fn event(&self, before: &SessionRecord, after: &SessionRecord, timestamp: Timestamp) -> AuditEvent {
        let label = |session: &SessionRecord| {
            OriginalLabel(session.original.as_ref().map(|original| original.verdict_label))
        };
        AuditEvent::new(
            timestamp,
            self.session_id.clone(),
            SessionCorrected {
                original_verdict: ValueChange { before: label(before), after: label(after) },
                address_changed: before.customer_email != after.customer_email,
                owner_uid: after.owner_uid.filter(|_| before.owner_uid != after.owner_uid),
                peer: self.peer,
            },
        )
    }
}

async fn correct(
    correct: CorrectSession,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<CorrectSessionOutcome, VerdictCacheError> {
    let corrected = log.decide_and_commit(|| {
        let Some((before, revision)) = store.session(&correct.session_id)? else {
            return Ok(CommitDecision::Already(CorrectSessionOutcome::Unknown));
        };
        let after = match correct.correct_session(&before) {
            Ok(after) => after,
            Err(mismatch) => return Ok(CommitDecision::Already(CorrectSessionOutcome::Mismatch(mismatch))),
        };
        if after == before {
            return Ok(CommitDecision::Already(CorrectSessionOutcome::Done(Box::new(after))));
        }
        let now = clock.now();
        let mut record = JournalRecord {
            expect: vec![RowExpectation::new::<SessionRecord>(&correct.session_id, Some(revision))],
            events: vec![correct.event(&before, &after, now)],
            writes: vec![RowWrite::put::<SessionRecord>(&after)],
            ..JournalRecord::default()
        };
        record.events.extend(address_change_event(&store, Some(&before), &after, now)?);
        Ok::<_, VerdictCacheError>(CommitDecision::Change(
            CorrectSessionOutcome::Done(Box::new(after)),
            record,
        ))
    });
    Ok(corrected.await?.0)
}

async fn remove(
    remove: RemoveSession,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<Option<SessionRecord>, VerdictCacheError> {
    let RemoveSession { session_id, mails, peer } = remove;
    let removed = log.decide_and_commit(|| {
        // a lost session is not unknown: only an erasure removes it
        store.session(&session_id)?;
        let removal = SessionRemoval::of(&session_id, mails.as_ref(), peer, (&store, clock.now()))?;
        let SessionRemoval { session: Some(session), record, dropped } = removal else {
            return Ok::<_, VerdictCacheError>(CommitDecision::Already(None));
        };
        Ok(CommitDecision::Change(Some((session, dropped)), record))
    });
    let Some((session, dropped)) = removed.await?.0 else { return Ok(None) };
    if let Some(mails) = mails {
        mails.end_removed(&dropped);
    }
    Ok(Some(session))
}

async fn erase(
    erase: EraseSession,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
) -> Result<bool, VerdictCacheError> {
    let EraseSession { session_id, mails, reason, peer } = erase;
    let erased = log.decide_and_commit(|| {
        let queued = queued_mails(&store, &session_id)?;
        let is_held = mails.as_ref().map_or(queued.is_empty(), |mails| mails.has_all(&queued));
        if !is_held {
            return Ok(CommitDecision::Already(None));
        }
        let now = clock.now();
        let removal = SessionRemoval::of(&session_id, mails.as_ref(), peer, (&store, now))?;
        let SessionRemoval { mut record, dropped, .. } = removal;
        // a row that is written meanwhile makes the record stale, so that none is left
        let (expect, writes) = store.session_rows(&session_id)?.removal_except(&record.writes);
        record.expect.extend(expect);
        record.writes.extend(writes);
        record.writes.extend(
            store.lost_rows_of::<OutboxMessage>(&session_id)?.iter().map(RowWrite::remove::<OutboxMessage>),
        );
        // the last entry: the erasure covers all entries up to it
        let started = ErasureStarted(ErasureStartEntry { reason: reason.clone(), peer });
        record.events.push(AuditEvent::new(now, session_id.clone(), started));
        Ok::<_, VerdictCacheError>(CommitDecision::Change(Some(dropped), record))
    });
    let Some(dropped) = erased.await?.0 else { return Ok(false) };
    if let Some(mails) = mails {
        mails.end_removed(&dropped);
    }
    Ok(true)
}

impl Handler<CorrectSession> for VerdictCache {
    type Result = ResponseFuture<Result<CorrectSessionOutcome, VerdictCacheError>>;

    fn handle(&mut self, message: CorrectSession, _: &mut Context<Self>) -> Self::Result {
        Box::pin(correct(message, self.store.clone(), self.log.clone(), self.clock.clone()))
    }
}

impl Handler<RemoveSession> for VerdictCache {
    type Result = ResponseFuture<Result<Option<SessionRecord>, VerdictCacheError>>;

    fn handle(&mut self, message: RemoveSession, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let removed = remove(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let removed = removed.await;
            evict_verdict(&cache, session_id).await;
            removed
        })
    }
}

impl Handler<EraseSession> for VerdictCache {
    type Result = ResponseFuture<Result<bool, VerdictCacheError>>;

    fn handle(&mut self, message: EraseSession, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let erased = erase(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let erased = erased.await;
            evict_verdict(&cache, session_id).await;
            erased
        })
    }
}
