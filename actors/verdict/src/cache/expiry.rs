//! Removing the rows of old sessions.

use super::{VerdictCache, VerdictCacheError, evict_verdict};
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::commit_loop::CommitDecision;
use domain_audit::event::{SessionExpiryEntry, SessionsExpired};
use domain_base::event::AuditEvent;
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::held::HeldVerdict;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::session::{RejectingCheck, SessionRecord};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, SessionRevisions};

/// Removes the rows of those of `sessions` that were last changed up to entry `last_seq`, in one commit. Returns their number.
#[derive(Debug, Message)]
#[rtype(result = "Result<u64, VerdictCacheError>")]
pub struct ExpireSessions {
    /// The number of the entry with which the retention started.
    pub started_seq: u64,
    pub last_seq: u64,
    pub sessions: Vec<SessionId>,
}

/// Adds the removal of the rows of a session to `record`.
fn remove_rows(record: &mut JournalRecord, session_id: &SessionId, revisions: SessionRevisions) {
    let SessionRevisions { session, verdict, held, refusal, regen } = revisions;
    remove_row::<SessionRecord>(record, session_id, session);
    remove_row::<VerdictDelivery>(record, session_id, verdict);
    remove_row::<HeldVerdict>(record, session_id, held);
    remove_row::<RejectingCheck>(record, session_id, refusal);
    remove_row::<RegenAttempt>(record, session_id, regen);
}

fn remove_row<R: Row<Key = SessionId>>(
    record: &mut JournalRecord,
    session_id: &SessionId,
    revision: Option<u64>,
) {
    record.expect.push(RowExpectation::new::<R>(session_id, revision));
    if revision.is_some() {
        record.writes.push(RowWrite::remove::<R>(session_id));
    }
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
                    if let Some(revisions) = store.expired_session(session_id, last_seq)? {
                        remove_rows(&mut record, session_id, revisions);
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
