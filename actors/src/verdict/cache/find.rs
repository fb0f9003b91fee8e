//! Looking up a session before a verdict is submitted or generated for it.

use super::refuse::in_force;
use super::session_record::{address_change, kept, registered};
use super::{Cache, CacheError, forget};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::Log;
use crate::platform::caller::uid;
use crate::platform::clock::Clock;
use crate::platform::door::Door;
use crate::verdict::notifier::{Notifier, Wake};
use crate::verdict::submission::{Cached, Submission};
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::rules::Check;
use oracled_domain::verdict::mail::MailKind;
use oracled_domain::verdict::session::{Email, Mismatch, Original};
use oracled_domain::{Delivery, Event, EventKind, Mail, Query, Session, SessionId, Tier};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};
use std::sync::Arc;

/// Looks up a session whose verdict is to be delivered.
///
/// A verdict that was regenerated for a read, but never delivered, counts as delivered from now on: it becomes the
/// session's first verdict, and is mailed. A delivered verdict is mailed, too, if the session had no address until now.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Known, CacheError>")]
pub struct Find(pub Submission);

/// The result of looking up a session.
#[derive(Debug)]
pub enum Known {
    /// No verdict is cached, and the session, if it is known, matches the request. Contains the check that is in force for
    /// its verdict.
    Nothing(Option<Arc<Check>>),
    /// The cached verdict.
    Cached(Arc<Cached>),
    /// The session has another tier, query or owner, or its cached verdict was not checked against facts.
    Mismatch(Mismatch),
}

/// Looks up a session and its verdict, and returns them with the session and its revision. The verdict is looked up only if
/// the session is known and matches the request; a verdict never exists without its session.
pub(super) fn known(
    store: &Store,
    session_id: &SessionId,
    tier: Tier,
    query: &Query,
    look_up: impl FnOnce() -> Result<Option<Arc<Cached>>, StoreError>,
) -> Result<(Known, Option<(Session, u64)>), StoreError> {
    let session = store.session(session_id)?;
    let known = match session.as_ref().map(|(session, _)| session.mismatch(tier, query)) {
        None => Known::Nothing(in_force(store, session_id, None)?.0),
        Some(Some(mismatch)) => Known::Mismatch(mismatch),
        Some(None) => look_up()?.map_or_else(
            || Known::Nothing(session.as_ref().and_then(|(session, _)| session.check.clone())),
            Known::Cached,
        ),
    };
    Ok((known, session))
}

/// Whether a repeated delivery of a cached verdict would change the session.
fn is_news(session: &Session, customer_email: Option<&Email>) -> bool {
    session.delivered_sha256.is_none() || (session.customer_email.is_none() && customer_email.is_some())
}

/// Commits the delivery of a cached verdict.
struct Deliverer {
    store: Store,
    log: Log,
    clock: Clock,
    notifier: Option<Door<Notifier>>,
}

impl Deliverer {
    /// Delivers the cached verdict of a session, and returns the verdict as it is cached afterwards.
    async fn deliver(&self, find: &Submission) -> Result<Known, CacheError> {
        let delivered = self.log.decide_and_commit(|| {
            let already = |known| Ok::<_, CacheError>(Decided::Already((known, None)));
            let Some((session, session_revision)) = self.store.session(&find.session_id)? else {
                return already(Known::Nothing(None));
            };
            let Some((delivery, verdict_revision)) = self.store.verdict(&find.session_id)? else {
                return already(Known::Nothing(find.check.clone().or(session.check)));
            };
            if session.delivered_sha256.is_none()
                && find.check.is_some()
                && delivery.evaluation_sha256.is_none()
            {
                return already(Known::Mismatch(Mismatch::Facts));
            }
            if !is_news(&session, find.customer_email.as_ref()) {
                return already(Known::Cached(Arc::new(delivery.into())));
            }
            if session.is_foreign_to(uid()) {
                return already(Known::Mismatch(Mismatch::Owner));
            }
            let (mut record, delivery, mail) = self.delivered(&session, delivery, find, self.clock.now())?;
            record.expect = vec![
                Expect { row: RowKey::Session(find.session_id.clone()), revision: Some(session_revision) },
                Expect { row: RowKey::Verdict(find.session_id.clone()), revision: Some(verdict_revision) },
            ];
            let known = Known::Cached(Arc::new(Delivery::clone(&delivery).into()));
            Ok(Decided::Change((known, mail), record))
        });
        let ((known, mail), _) = delivered.await?;
        wake(self.notifier.as_ref(), mail);
        Ok(known)
    }

    /// Stores the check of the request with a known session.
    async fn keep_check(&self, find: &Submission) -> Result<Known, CacheError> {
        let kept = self.log.decide_and_commit(|| {
            let stored =
                || Ok(self.store.verdict(&find.session_id)?.map(|(stored, _)| Arc::new(stored.into())));
            let (known, session) = known(&self.store, &find.session_id, find.tier, &find.query, stored)?;
            let (Known::Nothing(_), Some((session, revision))) = (&known, session) else {
                return Ok::<_, CacheError>(Decided::Already(known));
            };
            if session.is_foreign_to(uid()) {
                return Ok(Decided::Already(Known::Mismatch(Mismatch::Owner)));
            }
            if session.check == find.check {
                return Ok(Decided::Already(known));
            }
            let session = Session { check: find.check.clone(), ..session };
            let record = kept(&session, Some(revision), self.clock.now());
            Ok(Decided::Change(Known::Nothing(find.check.clone()), record))
        });
        Ok(kept.await?.0)
    }

    fn delivered(
        &self,
        known: &Session,
        delivery: Delivery,
        find: &Submission,
        now: Timestamp,
    ) -> Result<(Record, Arc<Delivery>, Option<oracled_domain::MailId>), StoreError> {
        // without an original to compare with, the regenerated verdict becomes the original
        let delivery = Arc::new(match &known.original {
            None => Delivery { regen: None, ..delivery },
            Some(_) => delivery,
        });
        let sha256 = delivery.approved.sha256();
        let original = || Original::delivered(&delivery.approved, None, now);
        let customer_email = find.customer_email.clone().or_else(|| known.customer_email.clone());
        // only the verdict that was delivered first is mailed, not a later one
        let to_be_mailed = known.delivered_sha256.as_ref().is_none_or(|first| first == sha256);
        let to = customer_email.clone().filter(|_| to_be_mailed && self.notifier.is_some());
        let session = Session {
            customer_email,
            original: Some(known.original.clone().unwrap_or_else(original)),
            delivered_sha256: Some(known.delivered_sha256.clone().unwrap_or_else(|| sha256.clone())),
            ..known.clone()
        };
        let mut events = vec![registered(&session, now)];
        events.extend(address_change(&self.store, Some(known), &session, now)?);
        let mut writes = vec![Write::PutVerdict(Arc::clone(&delivery))];
        let mail = to.map(|to| Mail::queued(MailKind::Verdict, Arc::clone(&delivery), to));
        let mail_id = mail.as_ref().map(|mail| mail.standing.mail_id.clone());
        if let Some(mail) = mail {
            events.push(queued(&mail, now));
            writes.push(Write::PutMail(Arc::new(mail)));
        }
        writes.push(Write::PutSession(session.into()));
        Ok((Record { expect: Vec::new(), events, writes, ..Record::default() }, delivery, mail_id))
    }
}

/// The log entry of a mail that is put into the outbox.
pub(super) fn queued(mail: &Mail, timestamp: Timestamp) -> Event {
    let oracled_domain::verdict::mail::Standing { mail_id, session_id, kind, .. } = mail.standing.clone();
    Event::new(timestamp, session_id, EventKind::MailQueued { mail_id, kind })
}

/// Wakes the notifier for a queued mail, in the background.
pub(super) fn wake(notifier: Option<&Door<Notifier>>, mail_id: Option<oracled_domain::MailId>) {
    let (Some(notifier), Some(mail_id)) = (notifier.cloned(), mail_id) else { return };
    actix_rt::spawn(async move {
        if let Err(error) = notifier.ask(Wake(mail_id)).await {
            tracing::debug!(%error, "could not wake the notifier; the mail goes out at its next poll");
        }
    });
}

impl Handler<Find> for Cache {
    type Result = ResponseFuture<Result<Known, CacheError>>;

    fn handle(&mut self, Find(find): Find, ctx: &mut Context<Self>) -> Self::Result {
        let store = self.store.clone();
        let Submission { session_id, tier, query, customer_email, check, .. } = &find;
        let looked = known(&store, session_id, *tier, query, || Ok(self.look_up(session_id)?.0));
        let (known, session) = match looked {
            Ok(looked) => looked,
            Err(error) => return Box::pin(async { Err(error.into()) }),
        };
        let session = session.map(|(session, _)| session);
        let foreign = session.as_ref().is_some_and(|session| session.is_foreign_to(uid()));
        let news = session.as_ref().is_some_and(|session| is_news(session, customer_email.as_ref()));
        let new_check = check.is_some() && session.is_some_and(|session| session.check != *check);
        let (log, clock, notifier) = (self.log.clone(), self.clock.clone(), self.notifier.clone());
        let (cache, deliverer) = (ctx.address(), Deliverer { store, log, clock, notifier });
        match known {
            // a replay changes nothing; the other cases do
            Known::Nothing(_) if foreign => {
                return Box::pin(async { Ok(Known::Mismatch(Mismatch::Owner)) });
            }
            Known::Cached(_) if news => {}
            Known::Nothing(_) if new_check => {
                return Box::pin(async move { deliverer.keep_check(&find).await });
            }
            known => return Box::pin(async { Ok(known) }),
        }
        Box::pin(async move {
            let known = deliverer.deliver(&find).await;
            // the verdict may have become the first one, which changes its document
            forget(&cache, find.session_id).await;
            known
        })
    }
}
