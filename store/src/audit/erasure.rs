//! Erasing the data of sessions from rows and from lines of the log.

use crate::audit::log::{TIME_BYTES, damaged_line};
use crate::base::error::StoreError;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, TableId};
use crate::base::session_row::SessionRow;
use memchr::memmem;
use oracled_domain::SessionId;
use oracled_domain::audit::event::ErasedData;
use oracled_domain::audit::leaf::{LogLineError, hide_values};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The tables that have data of sessions in their values.
const TABLES: [TableId; 7] = [
    TableId::Sessions,
    TableId::Held,
    TableId::Refusals,
    TableId::Regens,
    TableId::Outbox,
    TableId::Webhooks,
    TableId::Log,
];

/// The sessions whose data are erased, and the kinds of data that were found so far.
#[derive(Debug)]
pub(crate) struct SessionEraser {
    dir: PathBuf,
    sessions: BTreeSet<SessionId>,
    pub(crate) found: BTreeSet<ErasedData>,
}

/// The session of an entry.
#[derive(Deserialize)]
struct LineSession {
    session_id: Option<SessionId>,
}

/// The session of a mail or a webhook.
#[derive(Deserialize)]
struct MessageSession {
    standing: LineSession,
}

impl SessionEraser {
    pub(crate) fn new(dir: &Path, sessions: BTreeSet<SessionId>) -> Self {
        Self { dir: dir.to_owned(), sessions, found: BTreeSet::new() }
    }

    /// Whether `content` names one of the sessions. Ids are never escaped, and each group that is about a session has its id in
    /// a key.
    pub(crate) fn may_have_data(&self, content: &[u8]) -> bool {
        self.sessions.iter().any(|session_id| memmem::find(content, session_id.as_str().as_bytes()).is_some())
    }

    /// The rows of a group without the data of the sessions; `None` if it has none. The removal of a row stays.
    ///
    /// # Errors
    /// `Corrupt` if a line of the log cannot be read.
    pub(crate) fn erase_from_rows(&mut self, group: RowBatch) -> Result<Option<RowBatch>, StoreError> {
        let (mut kept, mut is_changed) = (RowBatch::default(), false);
        let mut changes = group.into_rows().peekable();
        while let Some((key, value)) = changes.next() {
            let table = TABLES.into_iter().find(|table| key.first() == Some(&(*table as u8)));
            let (Some(table), Some(first), Some(name)) = (table, &value, rows::name(&key)) else {
                put(&mut kept, key, value);
                continue;
            };
            let (revision, _, start) = rows::split_head(&self.dir, first)?;
            let mut row = start.to_vec();
            // the further chunks of the row follow
            let (mut chunks, stem) = (Vec::new(), rows::chunk_stem(&key));
            while let Some((key, chunk)) =
                changes.next_if(|(next, chunk)| chunk.is_some() && rows::chunk_stem(next) == stem)
            {
                row.extend_from_slice(chunk.as_deref().unwrap_or_default());
                chunks.push((key, chunk));
            }
            match self.erase_from_row(table, name, &row)? {
                RowErasure::None => {
                    put(&mut kept, key, value);
                    chunks.into_iter().for_each(|(key, chunk)| put(&mut kept, key, chunk));
                }
                RowErasure::Whole => is_changed = true,
                RowErasure::Lines(row) => {
                    is_changed = true;
                    rows::put(&mut kept, TableId::Log, name, revision, &row, 0);
                }
            }
        }
        Ok(is_changed.then_some(kept))
    }

    fn erase_from_row(&mut self, table: TableId, name: &[u8], row: &[u8]) -> Result<RowErasure, StoreError> {
        let is_named = || self.sessions.iter().any(|session_id| session_id.as_str().as_bytes() == name);
        let is_message =
            || serde_json::from_slice(row).is_ok_and(|MessageSession { standing }| self.is_erased(&standing));
        let found = match table {
            TableId::Log => return self.erase_from_log_row(row),
            TableId::Sessions if is_named() => {
                let SessionRow { session, verdict } = SessionRow::from_bytes(&self.dir, row)?;
                self.found.extend(session.map(|_| ErasedData::Session));
                self.found.extend(verdict.map(|_| ErasedData::Verdict));
                return Ok(RowErasure::Whole);
            }
            TableId::Held if is_named() => ErasedData::HeldVerdict,
            TableId::Refusals if is_named() => ErasedData::RejectingCheck,
            TableId::Regens if is_named() => ErasedData::RegenAttempt,
            TableId::Outbox if is_message() => ErasedData::Mail,
            TableId::Webhooks if is_message() => ErasedData::Webhook,
            _ => return Ok(RowErasure::None),
        };
        self.found.insert(found);
        Ok(RowErasure::Whole)
    }

    fn erase_from_log_row(&mut self, row: &[u8]) -> Result<RowErasure, StoreError> {
        let split = row.split_at_checked(TIME_BYTES);
        let split = split.and_then(|(time, lines)| Some((time, str::from_utf8(lines).ok()?)));
        let not_text = || StoreError::Corrupt {
            dir: self.dir.clone(),
            detail: "a row of the log is not text".to_owned(),
        };
        let (time, lines) = split.ok_or_else(not_text)?;
        let (mut erased, mut is_changed) = (time.to_vec(), false);
        for line in lines.lines() {
            let kept = self.erase_from_line(line).map_err(|error| damaged_line(&self.dir, &error))?;
            is_changed |= kept != line;
            erased.extend_from_slice(kept.as_bytes());
            erased.push(b'\n');
        }
        Ok(if is_changed { RowErasure::Lines(erased) } else { RowErasure::None })
    }

    /// A line of the log, without the values that are committed to if it is about one of the sessions.
    ///
    /// # Errors
    /// The line is not an entry of the log.
    pub(crate) fn erase_from_line<'l>(&mut self, line: &'l str) -> Result<Cow<'l, str>, LogLineError> {
        if !self.may_have_data(line.as_bytes())
            || !serde_json::from_str(line).is_ok_and(|session| self.is_erased(&session))
        {
            return Ok(Cow::Borrowed(line));
        }
        let erased = hide_values(line, |_| true)?;
        if erased != line {
            self.found.insert(ErasedData::LogValues);
        }
        Ok(erased)
    }

    fn is_erased(&self, LineSession { session_id }: &LineSession) -> bool {
        session_id.as_ref().is_some_and(|session_id| self.sessions.contains(session_id))
    }
}

/// What an erasure leaves of a row.
enum RowErasure {
    /// The row has no data of the sessions.
    None,
    /// The row has only such data.
    Whole,
    /// The row of the log without such data.
    Lines(Vec<u8>),
}

fn put(rows: &mut RowBatch, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => rows.insert(key, value),
        None => rows.remove(key),
    }
}
