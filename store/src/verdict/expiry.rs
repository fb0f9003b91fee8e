//! Sessions whose data are old.

use crate::base::engine::TableReader;
use crate::base::read::skip_lost;
use crate::base::rows::{self, stored_in};
use domain_base::row::{Row, Table};
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::held::HeldVerdict;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::session::{RejectingCheck, SessionRecord};
use std::collections::BTreeSet;
use store_base::error::StoreError;

/// Number of rows whose names are read at a time.
const AT_ONCE: usize = 512;

/// The revisions of the rows of a session; `None` if a row does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionRevisions {
    pub session: Option<u64>,
    pub verdict: Option<u64>,
    pub held: Option<u64>,
    pub refusal: Option<u64>,
    pub regen: Option<u64>,
}

impl SessionRevisions {
    /// The highest revision; `None` if the session has no rows.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        [self.session, self.verdict, self.held, self.refusal, self.regen].into_iter().flatten().max()
    }
}

impl TableReader {
    /// The revisions of the rows of a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn session_revisions(&self, session_id: &SessionId) -> Result<SessionRevisions, StoreError> {
        let name = session_id.as_str();
        self.read(|db, _| {
            let bundle = self.bundle(db, SessionRecord::TABLE, name)?;
            let head = |table: &Table| {
                Ok::<_, StoreError>(
                    rows::head(db, self.dir(), table.name, name.as_bytes())?.map(|head| head.0),
                )
            };
            Ok(SessionRevisions {
                session: bundle.row(SessionRecord::TABLE).map(|row| row.revision),
                verdict: bundle.row(VerdictDelivery::TABLE).map(|row| row.revision),
                held: head(HeldVerdict::TABLE)?,
                refusal: head(RejectingCheck::TABLE)?,
                regen: head(RegenAttempt::TABLE)?,
            })
        })
    }

    /// The sessions with mails or webhooks in the outbox.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions_with_messages(&self) -> Result<BTreeSet<SessionId>, StoreError> {
        let mut sessions = BTreeSet::new();
        self.visit_messages(None, None, |message| {
            sessions.extend(message.session_id().cloned());
            true
        })?;
        Ok(sessions)
    }

    /// The revisions of a session if all its rows were written up to entry `last_seq`, and it has no order that waits for an
    /// attempt or an operator.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn expired_session(
        &self,
        session_id: &SessionId,
        last_seq: u64,
    ) -> Result<Option<SessionRevisions>, StoreError> {
        let revisions = self.session_revisions(session_id)?;
        if revisions.latest().is_none_or(|latest| latest > last_seq) {
            return Ok(None);
        }
        // the order of a lost session has no other data
        let order = skip_lost(self.session(session_id))?.and_then(|(session, _)| session.order);
        let has_ended = order.is_none_or(|order| order.state.has_ended());
        Ok(has_ended.then_some(revisions))
    }

    /// Passes the sessions that [`Self::expired_session`] accepts to `visit`, in groups, each with its latest revision. Stops if
    /// `visit` returns false.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn visit_expired_sessions(
        &self,
        last_seq: u64,
        mut visit: impl FnMut(Vec<(SessionId, u64)>) -> bool,
    ) -> Result<(), StoreError> {
        for table in [SessionRecord::TABLE, RejectingCheck::TABLE, RegenAttempt::TABLE] {
            let mut cursor: Option<String> = None;
            loop {
                let names = self.names_after(stored_in(table), cursor.as_deref(), AT_ONCE)?;
                let Some(last) = names.last() else { break };
                cursor = Some(last.clone());
                let mut expired = Vec::new();
                for session_id in names.into_iter().filter_map(|name| SessionId::try_from(name).ok()) {
                    let Some(revisions) = self.expired_session(&session_id, last_seq)? else { continue };
                    // its row in an earlier table was visited
                    let is_visited = table.name != SessionRecord::TABLE.name && revisions.session.is_some()
                        || table.name == RegenAttempt::TABLE.name && revisions.refusal.is_some();
                    if let Some(latest) = revisions.latest().filter(|_| !is_visited) {
                        expired.push((session_id, latest));
                    }
                }
                if !expired.is_empty() && !visit(expired) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
