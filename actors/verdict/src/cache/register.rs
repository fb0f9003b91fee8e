//! Registering a session, so that a lost verdict can be regenerated at a later read.

use super::rejecting_checks::{find_check_in_force, remove_rejecting_check};
use super::session_record::{address_change_event, session_update_record};
use super::{VerdictCache, VerdictCacheError};
use actix::{Context, Handler, Message, ResponseFuture};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::LoggerHandle;
use actors_platform::clock::Clock;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::prompt::VerdictPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{
    CustomerEmail, OriginalVerdict, SessionCaller, SessionMismatch, SessionRecord,
};
use oracled_store::Store;

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
        let (check, refusal_revision) = find_check_in_force(&store, &message.session_id, known.as_ref())?;
        session.check = check;
        if known.as_ref() == Some(&session) {
            return Ok(CommitDecision::Already(RegisterSessionOutcome::Updated(session)));
        }
        let mut record = session_update_record(&session, revision, clock.now());
        record.events.splice(0..0, message.look_up.clone());
        record.events.extend(address_change_event(&store, known.as_ref(), &session, clock.now())?);
        if known.is_none() {
            remove_rejecting_check(&mut record, &message.session_id, refusal_revision);
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
