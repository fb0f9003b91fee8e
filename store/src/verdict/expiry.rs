//! Sessions whose data are old.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::read::skip_lost;
use crate::base::rows::{self, TableId};
use crate::base::session_row::SessionRowPart;
use oracled_domain::SessionId;
use std::collections::BTreeSet;

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
        self.read(|db, _| {
            let row = self.session_row(db, session_id)?;
            let revision = |part: Option<SessionRowPart>| part.map(|part| part.revision);
            let head = |table| rows::head(db, self.dir(), table, session_id.as_str().as_bytes());
            Ok(SessionRevisions {
                session: revision(row.session),
                verdict: revision(row.verdict),
                held: head(TableId::Held)?.map(|(revision, _)| revision),
                refusal: head(TableId::Refusals)?.map(|(revision, _)| revision),
                regen: head(TableId::Regens)?.map(|(revision, _)| revision),
            })
        })
    }

    /// The sessions with mails or webhooks in the outbox.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions_with_messages(&self) -> Result<BTreeSet<SessionId>, StoreError> {
        let mut sessions = BTreeSet::new();
        self.visit_mails(None, |mail| {
            sessions.insert(mail.session_id);
            true
        })?;
        self.visit_webhooks(None, |webhook| {
            sessions.extend(webhook.session_id);
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
        for table in [TableId::Sessions, TableId::Refusals, TableId::Regens] {
            let mut cursor: Option<String> = None;
            loop {
                let names = self.names_after(table, cursor.as_deref(), AT_ONCE)?;
                let Some(last) = names.last() else { break };
                cursor = Some(last.clone());
                let mut expired = Vec::new();
                for session_id in names.into_iter().filter_map(|name| SessionId::try_from(name).ok()) {
                    let Some(revisions) = self.expired_session(&session_id, last_seq)? else { continue };
                    // its row in an earlier table was visited
                    let is_visited = match table {
                        TableId::Sessions => false,
                        TableId::Refusals => revisions.session.is_some(),
                        _ => revisions.session.is_some() || revisions.refusal.is_some(),
                    };
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
