//! The sessions and their cached verdicts. A session outlives its verdict.

use crate::base::bundle::Bundle;
use crate::base::engine::TableReader;
use crate::base::meta;
use crate::base::rows::{self, is_first_chunk, stored_in};
use crate::segments::visit_rows;
use domain_base::digest::Sha256Hex;
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::{CustomerEmail, RejectingCheck, SessionRecord};
use std::collections::BTreeSet;
use store_base::error::StoreError;

/// The sessions that have or had an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsWithAddress {
    /// Those that have it now.
    pub present: BTreeSet<SessionId>,
    /// Those that were removed, whose data are left in the segments.
    pub removed: BTreeSet<SessionId>,
    /// Those that had it before it was corrected.
    pub corrected: BTreeSet<SessionId>,
}

impl TableReader {
    /// A session, with its revision.
    pub fn session(&self, session_id: &SessionId) -> Result<Option<(SessionRecord, u64)>, StoreError> {
        self.get(session_id)
    }

    /// Whether there is a session with this id, or a rejected verdict of an unknown one, even if the row is lost.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn has_session_data(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        let name = session_id.as_str();
        self.read(|db, _| {
            let refusal = rows::head(db, self.dir(), RejectingCheck::TABLE.name, name.as_bytes())?;
            Ok(refusal.is_some()
                || self.bundle(db, SessionRecord::TABLE, name)?.row(SessionRecord::TABLE).is_some())
        })
    }

    /// The cached verdict of a session, with its revision. It is judged again when it is read, and its text is compared
    /// with the SHA-256 in its session.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(VerdictDelivery, u64)>, StoreError> {
        let name = session_id.as_str();
        let mut bundle = self.read(|db, _| self.bundle(db, VerdictDelivery::TABLE, name))?;
        let [verdict, session] =
            [VerdictDelivery::TABLE, SessionRecord::TABLE].map(|table| bundle.set(table, None));
        let verdict = self.parse::<VerdictDelivery>(VerdictDelivery::TABLE, name, verdict)?;
        let session = self.parse::<SessionRecord>(SessionRecord::TABLE, name, session)?;
        let expected_sha256 = session.and_then(|(session, _)| session.cached_sha256);
        if let (Some((delivery, _)), Some(expected)) = (&verdict, &expected_sha256) {
            self.compare_text(session_id, delivery, expected)?;
        }
        Ok(verdict)
    }

    /// The SHA-256 of the cached verdict of a session and its revision, for its removal. The SHA-256 is
    /// `None` if the stored verdict is damaged.
    pub fn verdict_for_removal(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(Option<Sha256Hex>, u64)>, StoreError> {
        match self.verdict(session_id) {
            Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                tracing::warn!(%session_id, %error, "the verdict to be removed is damaged");
                let row = self.value(VerdictDelivery::TABLE, session_id.as_str())?;
                Ok(row.map(|verdict| (None, verdict.revision)))
            }
            found => Ok(found?.map(|(delivery, at)| (Some(delivery.approved.sha256().clone()), at))),
        }
    }

    /// Compares the text of a verdict with the SHA-256 stored in its session.
    pub(crate) fn compare_text(
        &self,
        session_id: &SessionId,
        delivery: &VerdictDelivery,
        expected_sha256: &Sha256Hex,
    ) -> Result<(), StoreError> {
        let found = delivery.approved.sha256();
        if found == expected_sha256 {
            return Ok(());
        }
        let detail = format!(
            "the text of a verdict of session {session_id} has the SHA-256 {found}, its session has {expected_sha256}"
        );
        Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail })
    }

    /// The sessions that have or had this address (upper and lower case are equal). Reads all segments, since they have the removed
    /// sessions and the earlier versions of the others.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sessions_with_address(&self, address: &CustomerEmail) -> Result<SessionsWithAddress, StoreError> {
        let address = address.as_str().to_lowercase();
        let has_address = |session: &SessionRecord| {
            session.customer_email.as_ref().is_some_and(|found| found.as_str().to_lowercase() == address)
        };
        let mut ever: BTreeSet<SessionId> = BTreeSet::new();
        visit_rows(self.dir(), |rows| {
            let stored_in = stored_in(SessionRecord::TABLE);
            for (key, _) in rows.range(rows::all(stored_in)).filter(|(key, _)| is_first_chunk(key)) {
                let name = rows::name(key).unwrap_or_default();
                let Some(Some(row)) = rows::get_from(rows, stored_in, name) else { continue };
                let bundle = Bundle::from_bytes(self.dir(), &row)?;
                let Some(session) = bundle.row(SessionRecord::TABLE) else { continue };
                let corrupt = |error: serde_json::Error| StoreError::Corrupt {
                    dir: self.dir().to_owned(),
                    detail: format!("the session {}: {error}", String::from_utf8_lossy(name)),
                };
                // a lost one has no address
                if session.value.is_empty() {
                    continue;
                }
                let session: SessionRecord = serde_json::from_slice(&session.value).map_err(corrupt)?;
                if has_address(&session) {
                    ever.insert(session.session_id);
                }
            }
            Ok(())
        })?;
        let mut found = SessionsWithAddress::default();
        for session_id in ever {
            // a lost one may have the address
            let session = match self.session(&session_id) {
                Err(StoreError::RowLost { .. }) => {
                    found.present.insert(session_id);
                    continue;
                }
                session => session?,
            };
            match session {
                Some((session, _)) if !has_address(&session) => found.corrected.insert(session_id),
                Some(_) => found.present.insert(session_id),
                None => found.removed.insert(session_id),
            };
        }
        Ok(found)
    }

    /// The digest of `text` with the store's own key, for the audit log. Equal texts have equal digests, and
    /// a guessed text cannot be tested without the store.
    pub fn keyed_digest(&self, text: &str) -> Result<Sha256Hex, StoreError> {
        Ok(Sha256Hex::compute_hmac(&meta::digest_key(self.engine())?, text.as_bytes()))
    }
}
