//! Places and releases legal holds, and keeps what they protect.

use super::{VerdictCache, VerdictCacheError};
use actix::{Context, Handler, Message, ResponseFuture};
use actors_audit::logger::handle::CommitDecision;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::legal_hold::{LegalHold, LegalHoldPlaced, LegalHoldReleased};
use oracled_store::{JournalRecord, LogQuery, RowExpectation, RowWrite, Store, StoreError};

/// Keeps a session. If it is on hold already, that hold stays as it is. Returns the hold; `None` if nothing of the session is stored.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Option<LegalHold>, VerdictCacheError>")]
pub struct PlaceLegalHold {
    pub session_id: SessionId,
    pub reason: String,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Ends the hold of a session, also one that is lost. Returns whether there was one.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<bool, VerdictCacheError>")]
pub struct ReleaseLegalHold {
    pub session_id: SessionId,
    pub reason: String,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Refuses to remove data of a session that is on hold.
///
/// # Errors
/// It is on hold, or that cannot be read.
pub(crate) fn refuse_on_hold(store: &Store, session_id: &SessionId) -> Result<(), VerdictCacheError> {
    match store.legal_hold(session_id)? {
        Some((hold, _)) => Err(VerdictCacheError::OnHold(Box::new(hold))),
        None => Ok(()),
    }
}

/// The first log entry about a session; the first one of the log if none is left.
fn first_entry(store: &Store, session_id: &SessionId) -> Result<u64, StoreError> {
    let query = LogQuery { session: Some(session_id.clone()), limit: 1, ..LogQuery::default() };
    match store.log(&query)?.first() {
        Some(line) => Ok(line.seq),
        None => store.first_seq(),
    }
}

impl Handler<PlaceLegalHold> for VerdictCache {
    type Result = ResponseFuture<Result<Option<LegalHold>, VerdictCacheError>>;

    fn handle(&mut self, message: PlaceLegalHold, _: &mut Context<Self>) -> Self::Result {
        let PlaceLegalHold { session_id, reason, peer } = message;
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let placed = log.decide_and_commit(|| {
                if let Some((hold, _)) = store.legal_hold(&session_id)? {
                    return Ok(CommitDecision::Already(Some(hold)));
                }
                if !store.has_session_data(&session_id)? {
                    return Ok(CommitDecision::Already(None));
                }
                let (placed_at, first_seq) = (clock.now(), first_entry(&store, &session_id)?);
                let hold = LegalHold {
                    session_id: session_id.clone(),
                    reason: reason.clone(),
                    placed_at,
                    peer,
                    first_seq,
                    erasure_refused_at: None,
                };
                // the rows are still there when the hold is
                let (expect, _) = store.session_rows(&session_id)?.removal();
                let event = LegalHoldPlaced { reason: reason.clone(), peer };
                let record = JournalRecord {
                    expect,
                    events: vec![AuditEvent::new(placed_at, session_id.clone(), event)],
                    writes: vec![RowWrite::put::<LegalHold>(&hold)],
                    ..JournalRecord::default()
                };
                Ok::<_, VerdictCacheError>(CommitDecision::Change(Some(hold), record))
            });
            Ok(placed.await?.0)
        })
    }
}

impl Handler<ReleaseLegalHold> for VerdictCache {
    type Result = ResponseFuture<Result<bool, VerdictCacheError>>;

    fn handle(&mut self, message: ReleaseLegalHold, _: &mut Context<Self>) -> Self::Result {
        let ReleaseLegalHold { session_id, reason, peer } = message;
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        Box::pin(async move {
            let released = log.decide_and_commit(|| {
                let Some(revision) = store.legal_hold_revision(&session_id)? else {
                    return Ok(CommitDecision::Already(false));
                };
                let event = LegalHoldReleased { reason: reason.clone(), peer };
                let record = JournalRecord {
                    expect: vec![RowExpectation::new::<LegalHold>(&session_id, Some(revision))],
                    events: vec![AuditEvent::new(clock.now(), session_id.clone(), event)],
                    writes: vec![RowWrite::remove::<LegalHold>(&session_id)],
                    ..JournalRecord::default()
                };
                Ok::<_, VerdictCacheError>(CommitDecision::Change(true, record))
            });
            Ok(released.await?.0)
        })
    }
}
