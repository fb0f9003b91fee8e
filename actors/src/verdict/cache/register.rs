//! Registering a session, so that a lost verdict can be regenerated at a later read.

use super::refuse::{in_force, refusal_key, take_over};
use super::session_record::{address_change, kept};
use super::{Cache, CacheError};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::Log;
use crate::platform::caller::uid;
use crate::platform::clock::Clock;
use actix::{Context, Handler, Message, ResponseFuture};
use oracled_domain::verdict::session::{Email, Mismatch, Original};
use oracled_domain::{Label, Query, Session, SessionId, Tier};
use oracled_store::Store;

/// Registers a session, or updates one.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered, CacheError>")]
pub struct Register {
    /// The session.
    pub session_id: SessionId,
    /// The tier that was bought.
    pub tier: Tier,
    /// The customer's question.
    pub query: Query,
    /// The address for mails; `None` keeps the known one.
    pub customer_email: Option<Email>,
    /// The label of a verdict that was delivered without oracled, if there is one.
    pub original_verdict: Option<Label>,
}

/// The outcome of a registration.
#[derive(Debug)]
pub enum Registered {
    /// The session is new.
    Created(Session),
    /// The session was known, and now contains the registered values.
    Updated(Session),
    /// The session is known with other values. Nothing has changed.
    Mismatch(Mismatch),
}

async fn register(message: Register, store: Store, log: Log, clock: Clock) -> Result<Registered, CacheError> {
    let registered = log.decide_and_commit(|| {
        let known = store.session(&message.session_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let known = known.map(|(session, _)| session);
        if known.as_ref().is_some_and(|session| session.is_foreign_to(uid())) {
            return Ok(Decided::Already(Registered::Mismatch(Mismatch::Owner)));
        }
        let mut session = match told(&message, known.as_ref()) {
            Ok(session) => session,
            Err(mismatch) => return Ok(Decided::Already(Registered::Mismatch(mismatch))),
        };
        let (check, refusal_revision) = in_force(&store, &message.session_id, known.as_ref())?;
        session.check = check;
        if known.as_ref() == Some(&session) {
            return Ok(Decided::Already(Registered::Updated(session)));
        }
        let mut record = kept(&session, revision, clock.now());
        record.events.extend(address_change(&store, known.as_ref(), &session, clock.now())?);
        if known.is_none() {
            take_over(&mut record, refusal_key(&message.session_id), refusal_revision);
        }
        let registered =
            if known.is_none() { Registered::Created(session) } else { Registered::Updated(session) };
        Ok::<_, CacheError>(Decided::Change(registered, record))
    });
    Ok(registered.await?.0)
}

/// The known session updated with the registered values, or a new session.
fn told(message: &Register, known: Option<&Session>) -> Result<Session, Mismatch> {
    let Register { session_id, tier, query, customer_email, original_verdict } = message;
    let mismatch = known.and_then(|session| session.mismatch(*tier, query));
    let first = known.and_then(|session| session.original.clone());
    let speaks_against = |first: &Original| original_verdict.is_some_and(|told| told != first.verdict_label);
    match mismatch {
        Some(mismatch) => Err(mismatch),
        None if first.as_ref().is_some_and(speaks_against) => Err(Mismatch::OriginalVerdict),
        None => {
            let new = || Session::new(session_id.clone(), *tier, query.clone(), uid());
            let known = known.cloned().unwrap_or_else(new);
            Ok(Session {
                customer_email: customer_email.clone().or(known.customer_email),
                original: first.or_else(|| original_verdict.map(Original::told)),
                ..known
            })
        }
    }
}

impl Handler<Register> for Cache {
    type Result = ResponseFuture<Result<Registered, CacheError>>;

    fn handle(&mut self, message: Register, _: &mut Context<Self>) -> Self::Result {
        Box::pin(register(message, self.store.clone(), self.log.clone(), self.clock.clone()))
    }
}
