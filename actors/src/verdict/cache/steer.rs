//! Changes that administrators make to a session. Each change and its log entry are one commit.

use super::refuse::take_over;
use super::session_record::address_change;
use super::{Cache, CacheError, forget};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::Log;
use crate::platform::clock::Clock;
use crate::verdict::notifier::HeldMails;
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::audit::event::ValueChange;
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::session::{Email, Mismatch, Original, RefusalKey};
use oracled_domain::{Event, EventKind, Label, Peer, Session, SessionId};
use oracled_store::{Expect, Record, RowKey, Store, Write};

/// Corrects a session. A field that is `None` keeps its value.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Corrected, CacheError>")]
pub struct Correct {
    /// The session.
    pub session_id: SessionId,
    /// The new address.
    pub customer_email: Option<Email>,
    /// The verdict that was delivered without oracled. A verdict that oracled delivered cannot be corrected.
    pub original_verdict: Option<Label>,
    /// The user id that owns the session from now on.
    pub owner_uid: Option<u32>,
    /// The administrator.
    pub peer: Peer,
}

/// The outcome of a correction.
#[derive(Debug)]
pub enum Corrected {
    /// The corrected session.
    Done(Box<Session>),
    /// There is no such session.
    Unknown,
    /// The original verdict was delivered by oracled and cannot be corrected. Nothing has changed.
    Mismatch(Mismatch),
}

/// Removes a session with its cached verdict and its queued mails. Returns the session, or `None` if it is unknown.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<Session>, CacheError>")]
pub struct Remove {
    /// The session.
    pub session_id: SessionId,
    /// Its queued mails, if there are any, held back from sending.
    pub mails: Option<HeldMails>,
    /// The administrator.
    pub peer: Peer,
}

impl Correct {
    /// The session after the correction.
    fn applied_to(&self, known: &Session) -> Result<Session, Mismatch> {
        let original = match (&known.original, self.original_verdict) {
            (Some(original), Some(label)) if original.verdict_sha256.is_some() => {
                if original.verdict_label != label {
                    return Err(Mismatch::OriginalVerdict);
                }
                known.original.clone()
            }
            (_, Some(label)) => Some(Original::told(label)),
            (original, None) => original.clone(),
        };
        Ok(Session {
            customer_email: self.customer_email.clone().or_else(|| known.customer_email.clone()),
            owner_uid: self.owner_uid.or(known.owner_uid),
            original,
            ..known.clone()
        })
    }

    fn event(&self, before: &Session, after: &Session, timestamp: Timestamp) -> Event {
        let label = |session: &Session| {
            OriginalLabel(session.original.as_ref().map(|original| original.verdict_label))
        };
        Event::new(
            timestamp,
            self.session_id.clone(),
            EventKind::SessionCorrected {
                owner_uid: ValueChange { before: before.owner_uid, after: after.owner_uid },
                original_verdict: ValueChange { before: label(before), after: label(after) },
                address_changed: before.customer_email != after.customer_email,
                peer: self.peer,
            },
        )
    }
}

async fn correct(correct: Correct, store: Store, log: Log, clock: Clock) -> Result<Corrected, CacheError> {
    let corrected = log.decide_and_commit(|| {
        let Some((before, revision)) = store.session(&correct.session_id)? else {
            return Ok(Decided::Already(Corrected::Unknown));
        };
        let mut after = match correct.applied_to(&before) {
            Ok(after) => after,
            Err(mismatch) => return Ok(Decided::Already(Corrected::Mismatch(mismatch))),
        };
        // a refusal from before the session was known applies to its new owner, too
        let key = RefusalKey { session_id: correct.session_id.clone(), owner_uid: after.owner_uid };
        let has_no_check = after.check.is_none() && after.delivered_sha256.is_none();
        let refusal = if has_no_check { store.refusal(&key)? } else { None };
        let refusal_revision = refusal.map(|(refusal, revision)| {
            after.check = Some(refusal.check);
            revision
        });
        if after == before {
            return Ok(Decided::Already(Corrected::Done(Box::new(after))));
        }
        let now = clock.now();
        let mut record = Record {
            expect: vec![Expect {
                row: RowKey::Session(correct.session_id.clone()),
                revision: Some(revision),
            }],
            events: vec![correct.event(&before, &after, now)],
            writes: vec![Write::PutSession(after.clone().into())],
            ..Record::default()
        };
        record.events.extend(address_change(&store, Some(&before), &after, now)?);
        if refusal_revision.is_some() {
            take_over(&mut record, key, refusal_revision);
        }
        Ok::<_, CacheError>(Decided::Change(Corrected::Done(Box::new(after)), record))
    });
    Ok(corrected.await?.0)
}

async fn remove(remove: Remove, store: Store, log: Log, clock: Clock) -> Result<Option<Session>, CacheError> {
    let Remove { session_id, mails, peer } = remove;
    let removed = log.decide_and_commit(|| {
        let Some((session, revision)) = store.session(&session_id)? else {
            return Ok::<_, CacheError>(Decided::Already(None));
        };
        let verdict = store.verdict_for_removal(&session_id)?;
        let mut record = Record {
            expect: vec![
                Expect { row: RowKey::Session(session_id.clone()), revision: Some(revision) },
                Expect {
                    row: RowKey::Verdict(session_id.clone()),
                    revision: verdict.as_ref().map(|(_, revision)| *revision),
                },
            ],
            writes: vec![Write::RemoveSession(session_id.clone())],
            ..Record::default()
        };
        if verdict.is_some() {
            record.writes.push(Write::RemoveVerdict(session_id.clone()));
        }
        let timestamp = clock.now();
        let dropped = mails.as_ref().map(|mails| mails.put_removal(&mut record, &store, peer, timestamp));
        let dropped = dropped.transpose()?.unwrap_or_default();
        record.events.push(Event::new(
            timestamp,
            session_id.clone(),
            EventKind::SessionRemoved {
                owner_uid: session.owner_uid,
                verdict_sha256: verdict.and_then(|(sha256, _)| sha256),
                peer,
            },
        ));
        Ok(Decided::Change(Some((session, dropped)), record))
    });
    let Some((session, dropped)) = removed.await?.0 else { return Ok(None) };
    if let Some(mails) = mails {
        mails.report_removed(dropped);
    }
    Ok(Some(session))
}

impl Handler<Correct> for Cache {
    type Result = ResponseFuture<Result<Corrected, CacheError>>;

    fn handle(&mut self, message: Correct, _: &mut Context<Self>) -> Self::Result {
        Box::pin(correct(message, self.store.clone(), self.log.clone(), self.clock.clone()))
    }
}

impl Handler<Remove> for Cache {
    type Result = ResponseFuture<Result<Option<Session>, CacheError>>;

    fn handle(&mut self, message: Remove, ctx: &mut Context<Self>) -> Self::Result {
        let (session_id, cache) = (message.session_id.clone(), ctx.address());
        let removed = remove(message, self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let removed = removed.await;
            forget(&cache, session_id).await;
            removed
        })
    }
}
