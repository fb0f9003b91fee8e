//! The sessions and their cached verdicts. A session outlives its verdict.
//!
//! A session and its verdict share one row, since sled keeps at most 16 rows in a page and needs memory for every page. Each
//! of the two has a revision of its own. The row begins with both revisions (0 if that part is absent) and the length of the
//! session, all big-endian; then come the session and the verdict, as JSON.

use crate::engine::Store;
use crate::error::StoreError;
use crate::meta;
use crate::rows::{self, Table};
use oracled_domain::{Delivery, Session, SessionId, Sha256Hex};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The session or the verdict of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the entry that wrote it.
    pub(crate) revision: u64,
    pub(crate) json: Vec<u8>,
}

/// The row of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) session: Option<Part>,
    pub(crate) verdict: Option<Part>,
}

impl SessionRow {
    /// The part that `table` stands for: `Sessions` or `Verdicts`.
    pub(crate) const fn part(&mut self, table: Table) -> &mut Option<Part> {
        match table {
            Table::Verdicts => &mut self.verdict,
            _ => &mut self.session,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let parts = [&self.session, &self.verdict];
        let [session_revision, verdict_revision] =
            parts.map(|part| part.as_ref().map_or(0, |part| part.revision).to_be_bytes());
        let [session, verdict] =
            parts.map(|part| part.as_ref().map_or(&[][..], |Part { json, .. }| json.as_slice()));
        let length = u32::try_from(session.len()).expect("a row has ROW_MAX_BYTES at the most");
        [&session_revision[..], &verdict_revision, &length.to_be_bytes(), session, verdict].concat()
    }

    pub(crate) fn from_bytes(dir: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let split = || {
            let ([session_revision, verdict_revision], rest) = split_revisions(bytes)?;
            let (length, rest) = rest.split_first_chunk()?;
            // of a row that has lost a chunk, what is missing is found when the JSON is parsed
            let (session, verdict) = rest.split_at(rest.len().min(u32::from_be_bytes(*length) as usize));
            let part = |revision, json: &[u8]| (revision > 0).then(|| Part { revision, json: json.to_vec() });
            Some(Self { session: part(session_revision, session), verdict: part(verdict_revision, verdict) })
        };
        split().ok_or_else(|| cut(dir))
    }
}

/// The revision of the part of a session's row that `table` stands for, or 0; `start` is the start of the row's value.
pub(crate) fn part_revision(dir: &Path, table: Table, start: &[u8]) -> Result<u64, StoreError> {
    let ([session, verdict], _) = split_revisions(start).ok_or_else(|| cut(dir))?;
    Ok(if table == Table::Verdicts { verdict } else { session })
}

fn split_revisions(bytes: &[u8]) -> Option<([u64; 2], &[u8])> {
    let (session, rest) = bytes.split_first_chunk()?;
    let (verdict, rest) = rest.split_first_chunk()?;
    Some(([u64::from_be_bytes(*session), u64::from_be_bytes(*verdict)], rest))
}

fn cut(dir: &Path) -> StoreError {
    StoreError::Corrupt { dir: dir.to_owned(), detail: "the row of a session is cut".into() }
}

impl Store {
    /// A session with its revision.
    pub fn session(&self, session_id: &SessionId) -> Result<Option<(Session, u64)>, StoreError> {
        let row = self.read(|db, _| self.session_row(db, session_id))?;
        self.parsed(session_id, "session", row.session)
    }

    /// The cached verdict of a session with its revision. It is judged again on its way out of the store, and its text is
    /// compared with the SHA-256 in its session.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(Delivery, u64)>, StoreError> {
        let SessionRow { session, verdict } = self.read(|db, _| self.session_row(db, session_id))?;
        let verdict = self.parsed::<Delivery>(session_id, "cached verdict", verdict)?;
        let session = self.parsed::<Session>(session_id, "session", session)?;
        let promised = session.and_then(|(session, _)| session.cached_sha256);
        if let (Some((delivery, _)), Some(promised)) = (&verdict, &promised) {
            self.compare_text(session_id, delivery, promised)?;
        }
        Ok(verdict)
    }

    /// The SHA-256 of the cached verdict of a session and its revision, for its removal. The SHA-256 is `None` if the stored
    /// verdict is damaged.
    pub fn verdict_for_removal(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(Option<Sha256Hex>, u64)>, StoreError> {
        match self.verdict(session_id) {
            Err(StoreError::Corrupt { detail, .. }) => {
                tracing::warn!(%session_id, detail, "the verdict to be removed is damaged");
                let row = self.read(|db, _| self.session_row(db, session_id))?;
                Ok(row.verdict.map(|verdict| (None, verdict.revision)))
            }
            found => Ok(found?.map(|(delivery, at)| (Some(delivery.approved.sha256().clone()), at))),
        }
    }

    /// The row of a session as it is durable; empty if there is none.
    pub(crate) fn session_row(
        &self,
        db: &sled::Db,
        session_id: &SessionId,
    ) -> Result<SessionRow, StoreError> {
        let name = session_id.as_str().as_bytes();
        let row = rows::get_readable(db, self.dir(), Table::Sessions, name)?;
        let row = row.and_then(|row| self.durable(Table::Sessions, name, row));
        row.map_or_else(|| Ok(SessionRow::default()), |row| SessionRow::from_bytes(self.dir(), &row.value))
    }

    fn parsed<T: DeserializeOwned>(
        &self,
        session_id: &SessionId,
        what: &str,
        part: Option<Part>,
    ) -> Result<Option<(T, u64)>, StoreError> {
        let Some(Part { revision, json }) = part else { return Ok(None) };
        let value = serde_json::from_slice(&json).map_err(|error| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("the {what} of session {session_id}: {error}"),
        })?;
        Ok(Some((value, revision)))
    }

    /// Compares the text of a verdict with the SHA-256 that its session promises.
    pub(crate) fn compare_text(
        &self,
        session_id: &SessionId,
        delivery: &Delivery,
        promised: &Sha256Hex,
    ) -> Result<(), StoreError> {
        let found = delivery.approved.sha256();
        if found == promised {
            return Ok(());
        }
        let detail = format!(
            "the text of a verdict of session {session_id} has the SHA-256 {found}, its session promises {promised}"
        );
        Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail })
    }

    /// The digest of `text` under the store's own key, for the audit log: equal texts have equal digests, and nobody
    /// without the store can test a guess.
    pub fn keyed_digest(&self, text: &str) -> Result<Sha256Hex, StoreError> {
        Ok(Sha256Hex::keyed(&meta::digest_key(self.engine())?, text.as_bytes()))
    }
}
