//! The check that refused a verdict stays in force for its session, whether the session is known or not.
//!
//! A known session stores the check itself. For any other session the check is a row of its own. When the session is
//! registered or gets a verdict, it takes the row over. The rows share a limit in bytes; the oldest are dropped first.

use super::session_record::session_update_record;
use super::{VerdictCache, VerdictCacheError};
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::Clock;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_rules::CandidateCheck;
use domain_verdict::event::RejectingCheckDropped;
use domain_verdict::session::{RejectingCheck, SessionRecord};
use oracled_store::{JournalRecord, RejectingCheckSize, RowExpectation, RowWrite, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

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
struct CountRejectingCheck(SessionId);

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
