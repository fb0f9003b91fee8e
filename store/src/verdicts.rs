//! The cached verdicts: one document a session.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::{self, Table};
use domain::{Delivery, Session, SessionId, Sha256Hex};

impl Store {
    /// The cached verdict of a session with its revision. It is judged again on its way out of the store, and its text is
    /// compared with the SHA-256 in its session.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(Delivery, u64)>, StoreError> {
        self.as_promised(
            session_id,
            || self.read_row(Table::Verdicts, session_id.as_str()),
            |delivery: &Delivery| delivery,
            |_, session| session.cached_sha256.as_ref(),
        )
    }

    /// The SHA-256 of the cached verdict of a session and the revision of its row, for its removal. The SHA-256 is `None`
    /// if the stored verdict is damaged.
    pub fn verdict_for_removal(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(Option<Sha256Hex>, u64)>, StoreError> {
        match self.verdict(session_id) {
            Err(StoreError::Corrupt { detail, .. }) => {
                tracing::warn!(%session_id, detail, "the verdict to be removed is damaged");
                let name = session_id.as_str().as_bytes();
                let head = self.read(|db, _| rows::head(db, self.dir(), Table::Verdicts, name))?;
                Ok(head.map(|(revision, _)| (None, revision)))
            }
            found => Ok(found?.map(|(delivery, at)| (Some(delivery.approved.sha256().clone()), at))),
        }
    }

    /// A row that holds a verdict of the session, whose text must have the SHA-256 that the session promises.
    pub(crate) fn as_promised<T>(
        &self,
        session_id: &SessionId,
        read: impl Fn() -> Result<Option<(T, u64)>, StoreError>,
        delivery: impl Fn(&T) -> &Delivery,
        promised: impl for<'s> Fn(&T, &'s Session) -> Option<&'s Sha256Hex>,
    ) -> Result<Option<(T, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((row, revision)) = read()? else { return Ok(None) };
            let session = self.session(session_id)?;
            let found = delivery(&row).approved.sha256();
            let promised = session.as_ref().and_then(|(session, _)| promised(&row, session));
            let Some(promised) = promised.filter(|promised| *promised != found) else {
                return Ok(Some((row, revision)));
            };
            // a commit between the two reads replaces both rows; rows that differ twice were never equal
            let seen = Some((revision, session.as_ref().map(|(_, revision)| *revision)));
            if before == seen {
                let detail = format!(
                    "the text of a verdict of session {session_id} has the SHA-256 {found}, its session promises {promised}"
                );
                return Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail });
            }
            before = seen;
        }
    }
}
