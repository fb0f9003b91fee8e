//! The row that a session and its cached verdict share.
//!
//! sled keeps at most 16 rows in a page and needs memory for every page, so both are in one row. Each of them
//! has its own revision. The row begins with both revisions (0 if that part is absent) and the length of the
//! session, all big-endian. The session and the verdict follow, as JSON.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::{self, TableId};
use oracled_domain::SessionId;
use std::path::Path;

/// The session or the verdict of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRowPart {
    /// The number of the entry that wrote it.
    pub(crate) revision: u64,
    pub(crate) json: Vec<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) session: Option<SessionRowPart>,
    pub(crate) verdict: Option<SessionRowPart>,
}

impl SessionRow {
    /// The part of `table`: `Sessions` or `Verdicts`.
    pub(crate) const fn part(&mut self, table: TableId) -> &mut Option<SessionRowPart> {
        match table {
            TableId::Verdicts => &mut self.verdict,
            _ => &mut self.session,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let parts = [&self.session, &self.verdict];
        let [session_revision, verdict_revision] =
            parts.map(|part| part.as_ref().map_or(0, |part| part.revision).to_be_bytes());
        let [session, verdict] =
            parts.map(|part| part.as_ref().map_or(&[][..], |SessionRowPart { json, .. }| json.as_slice()));
        let length = u32::try_from(session.len()).expect("a row has at most ROW_MAX_BYTES bytes");
        [&session_revision[..], &verdict_revision, &length.to_be_bytes(), session, verdict].concat()
    }

    pub(crate) fn from_bytes(dir: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let split = || {
            let ([session_revision, verdict_revision], rest) = split_revisions(bytes)?;
            let (length, rest) = rest.split_first_chunk()?;
            // if a chunk of the row is missing, parsing the JSON reports it
            let (session, verdict) = rest.split_at(rest.len().min(u32::from_be_bytes(*length) as usize));
            let part = |revision, json: &[u8]| {
                (revision > 0).then(|| SessionRowPart { revision, json: json.to_vec() })
            };
            Some(Self { session: part(session_revision, session), verdict: part(verdict_revision, verdict) })
        };
        split().ok_or_else(|| truncated_row_error(dir))
    }
}

/// The revision of the part of `table` in the row of a session, or 0; `start` is the start of the row's value.
pub(crate) fn part_revision(dir: &Path, table: TableId, start: &[u8]) -> Result<u64, StoreError> {
    let ([session, verdict], _) = split_revisions(start).ok_or_else(|| truncated_row_error(dir))?;
    Ok(if table == TableId::Verdicts { verdict } else { session })
}

fn split_revisions(bytes: &[u8]) -> Option<([u64; 2], &[u8])> {
    let (session, rest) = bytes.split_first_chunk()?;
    let (verdict, rest) = rest.split_first_chunk()?;
    Some(([u64::from_be_bytes(*session), u64::from_be_bytes(*verdict)], rest))
}

fn truncated_row_error(dir: &Path) -> StoreError {
    StoreError::Corrupt { dir: dir.to_owned(), detail: "the row of a session is truncated".into() }
}

impl TableReader {
    /// The durable row of a session; empty if the session has none.
    pub(crate) fn session_row(
        &self,
        db: &sled::Db,
        session_id: &SessionId,
    ) -> Result<SessionRow, StoreError> {
        let name = session_id.as_str().as_bytes();
        let row = rows::get_readable(db, self.dir(), TableId::Sessions, name)?;
        row.map_or_else(|| Ok(SessionRow::default()), |row| SessionRow::from_bytes(self.dir(), &row.value))
    }
}
