//! Erasing the data of a [`RemovalPlan`] from rows and from lines of the log.

use crate::audit::log::{LOG, damaged_line, row, seq_of_line};
use crate::audit::removal::{EntryHead, RemovalPlan, SessionKey, session_in_key};
use crate::base::bundle::Bundle;
use crate::base::database::Database;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, stored_in, stored_tables, tables_in};
use domain_audit::leaf::{LogLineError, has_open_values, hide_values};
use domain_base::row::{ErasedData, RowData, RowOwner};
use domain_base::session_id::SessionId;
use memchr::memmem;
use oracled_domain::events::event_type;
use oracled_domain::tables::tables;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use store_base::error::StoreError;

/// The maximum number of entries of a row of the log: each line has a number, an event and a time.
const ROW_ENTRIES_MAX: u64 = rows::ONE_CHUNK_BYTES as u64 / 48;

/// Maximum number of sessions whose ids are searched in a content before it is parsed.
const SEARCHED_MAX: usize = 64;

/// The data that are erased, and the kinds of data that were found.
#[derive(Debug)]
pub(crate) struct DataEraser {
    dir: PathBuf,
    plan: RemovalPlan,
    /// Whether the ids of the sessions are removed too, in the keys of rows.
    erases_ids: bool,
    /// The revision of the last version of each row, by the key of its first chunk. Removed rows are absent.
    last_versions: HashMap<Vec<u8>, u64>,
    pub(crate) found: BTreeMap<SessionId, BTreeSet<ErasedData>>,
}

impl DataEraser {
    pub(crate) fn new(dir: &Path, plan: RemovalPlan, erases_ids: bool) -> Self {
        Self { dir: dir.to_owned(), plan, erases_ids, last_versions: HashMap::new(), found: BTreeMap::new() }
    }

    /// Whether earlier versions of rows are erased. Then [`Self::note_versions`] must get all groups first.
    pub(crate) const fn needs_versions(&self) -> bool {
        self.plan.has_values()
    }

    /// Notes the versions of the rows of a group.
    pub(crate) fn note_versions(&mut self, group: &RowBatch) -> Result<(), StoreError> {
        for table in personal_tables() {
            for (key, value) in group.range(rows::all(table)).filter(|(key, _)| rows::is_first_chunk(key)) {
                match value {
                    Some(first) => {
                        let (revision, ..) = rows::split_head(&self.dir, first)?;
                        self.last_versions.insert(key.to_vec(), revision);
                    }
                    None => drop(self.last_versions.remove(key)),
                }
            }
        }
        Ok(())
    }

    /// Whether this version of a row is erased, since it was replaced or removed later.
    fn is_old_version(&self, stored_in: &str, key: &[u8], revision: u64) -> bool {
        let of_verification = tables_in(stored_in).any(|table| matches!(table.data, RowData::Verification));
        let plan = &self.plan;
        let up_to = if of_verification { plan.verifications_up_to } else { plan.values_up_to };
        up_to.is_some_and(|up_to| revision <= up_to) && self.last_versions.get(key) != Some(&revision)
    }

    /// Checks that the database has none of the rows that are erased: the new database would lack them.
    ///
    /// # Errors
    /// `Unavailable` if it has one.
    pub(crate) fn check_removed(&self, db: Database<'_>) -> Result<(), StoreError> {
        for table in tables() {
            let RowData::Session { owner, .. } = &table.data else { continue };
            let left = match owner {
                RowOwner::Name => self.named_row(db, stored_in(table))?,
                RowOwner::Inside(_) => self.row_with_owner(db, table.name)?,
            };
            if let Some(session_id) = left {
                let cause = format!("session {session_id} has data that were not removed; try again");
                return Err(StoreError::Unavailable { cause });
            }
        }
        Ok(())
    }

    /// A session that is erased and has a row in this table, whose rows are named by sessions.
    fn named_row(&self, db: Database<'_>, table: &str) -> Result<Option<SessionId>, StoreError> {
        for session_id in self.plan.sessions.keys() {
            let head = rows::head(db, &self.dir, table, session_id.as_str().as_bytes())?;
            if head.is_some_and(|(revision, _)| self.is_erased(session_id, revision)) {
                return Ok(Some(session_id.clone()));
            }
        }
        Ok(None)
    }

    /// A session that is erased and has a row in this table.
    fn row_with_owner(&self, db: Database<'_>, table: &str) -> Result<Option<SessionId>, StoreError> {
        for head in rows::heads(db, &self.dir, rows::all(table)) {
            let rows::StoredRowHead { key, revision, .. } = head?;
            let name = rows::name(&key).unwrap_or_default();
            let row = rows::get(db, &self.dir, table, name)?;
            let owner = row.and_then(|row| self.owner_of(table, name, revision, &row.value));
            if let Some((session_id, _)) = owner {
                return Ok(Some(session_id));
            }
        }
        Ok(None)
    }

    /// Whether a segment may have data: its groups follow entry `after`. They can have earlier entries, too, since the last row of the log is
    /// in each group until it is full.
    pub(crate) fn is_concerned(&self, after: u64, content: &[u8]) -> bool {
        after < self.plan.last_seq().saturating_add(ROW_ENTRIES_MAX)
            && (self.plan.has_values() || self.may_name_session(content))
    }

    /// The first entry of the log that stays; `None` if none is dropped.
    pub(crate) const fn log_from(&self) -> Option<u64> {
        self.plan.log_from
    }

    /// Whether a line is that of an entry that is dropped.
    pub(crate) fn drops(&self, line: &[u8]) -> bool {
        self.plan.log_from.is_some_and(|first| seq_of_line(line).is_some_and(|seq| seq < first))
    }

    /// Whether a line may have data.
    pub(crate) fn may_have_data(&self, line: &[u8]) -> bool {
        self.plan.has_values() && memmem::find(line, b"\"salts\":").is_some() || self.may_name_session(line)
    }

    /// Whether `content` names one of the sessions. Ids are never escaped, and each group that is about a session has its id in
    /// a key. Many sessions are not searched one by one.
    fn may_name_session(&self, content: &[u8]) -> bool {
        let sessions = &self.plan.sessions;
        let is_named = |id: &SessionId| memmem::find(content, id.as_str().as_bytes()).is_some();
        sessions.len() > SEARCHED_MAX || sessions.keys().any(is_named)
    }

    /// The rows of the group up to entry `entries` without the data of the sessions; `None` if it has none. The removal of a row
    /// stays, unless its key has an id that is erased.
    ///
    /// # Errors
    /// `Corrupt` if a line of the log cannot be read.
    pub(crate) fn erase_from_rows(
        &mut self,
        entries: u64,
        group: RowBatch,
    ) -> Result<Option<RowBatch>, StoreError> {
        let (mut kept, mut is_changed) = (RowBatch::default(), false);
        let mut changes = group.into_rows().peekable();
        while let Some((key, value)) = changes.next() {
            if self.erases_ids && self.is_erased_name(&key, value.as_deref(), entries) {
                is_changed = true;
                continue;
            }
            let table = rows::split_key(&key).map(|(table, _)| table);
            let table = table.filter(|table| *table == LOG || is_personal(table));
            let (Some(table), Some(first), Some(name)) = (table, &value, rows::name(&key)) else {
                kept.set(key, value);
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
            let erasure = if table == LOG {
                self.erase_from_log_row(&row)?
            } else if self.is_old_version(table, &key, revision)
                || self.erase_row(table, name, revision, &row)
            {
                RowErasure::Whole
            } else {
                RowErasure::None
            };
            match erasure {
                RowErasure::None => {
                    kept.set(key, value);
                    chunks.into_iter().for_each(|(key, chunk)| kept.set(key, chunk));
                }
                RowErasure::Whole => is_changed = true,
                RowErasure::Lines(row) => {
                    is_changed = true;
                    rows::put(&mut kept, LOG, name, revision, &row, 0);
                }
            }
        }
        Ok(is_changed.then_some(kept))
    }

    /// Whether the row has data of a session that are erased. Notes what was found.
    fn erase_row(&mut self, stored_in: &str, name: &[u8], revision: u64, row: &[u8]) -> bool {
        let Some((session_id, found)) = self.owner_of(stored_in, name, revision, row) else { return false };
        self.found.entry(session_id).or_default().extend(found);
        true
    }

    /// The session whose data a row has, if they are erased, and the kinds of its data.
    fn owner_of(
        &self,
        stored_in: &str,
        name: &[u8],
        revision: u64,
        row: &[u8],
    ) -> Option<(SessionId, Vec<ErasedData>)> {
        let name = str::from_utf8(name).ok()?;
        let value = Some(row).filter(|row| !row.is_empty());
        let (mut session_id, mut found) = (None, Vec::new());
        for table in tables_in(stored_in) {
            let RowData::Session { owner, erased_as } = &table.data else { continue };
            session_id = session_id.or_else(|| owner.session_of(name, value));
            let bundle = table.bundle.map(|_| Bundle::from_bytes(&self.dir, row).ok());
            if bundle.is_none_or(|bundle| bundle.is_some_and(|bundle| bundle.row(table).is_some())) {
                found.push(erased_as.clone());
            }
        }
        session_id.filter(|session_id| self.is_erased(session_id, revision)).map(|id| (id, found))
    }

    /// Whether a key of the group up to entry `entries` has the id of one of the sessions, and no value that must be read first.
    fn is_erased_name(&self, key: &[u8], value: Option<&[u8]>, entries: u64) -> bool {
        let Some(SessionKey { session_id, seq, is_index }) = session_in_key(key) else { return false };
        (is_index || value.is_none()) && self.is_erased(&session_id, seq.unwrap_or(entries))
    }

    fn is_erased(&self, session_id: &SessionId, seq: u64) -> bool {
        self.plan.has_session(session_id, seq)
    }

    fn erase_from_log_row(&mut self, value: &[u8]) -> Result<RowErasure, StoreError> {
        let damaged = || StoreError::Corrupt {
            dir: self.dir.clone(),
            detail: "a row of the log is damaged".to_owned(),
        };
        let lines = row::decode(value).ok_or_else(damaged)?;
        let (mut erased, mut is_changed) = (Vec::new(), false);
        for line in lines.lines() {
            let kept = self.erase_from_line(line).map_err(|error| damaged_line(&self.dir, &error))?;
            is_changed |= kept != line;
            erased.extend_from_slice(kept.as_bytes());
            erased.push(b'\n');
        }
        Ok(if is_changed { RowErasure::Lines(row::with_lines(value, &erased)) } else { RowErasure::None })
    }

    /// A line of the log, without the values that the plan removes.
    ///
    /// # Errors
    /// The line is not an entry of the log.
    pub(crate) fn erase_from_line<'l>(&mut self, line: &'l str) -> Result<Cow<'l, str>, LogLineError> {
        if !self.may_have_data(line.as_bytes()) {
            return Ok(Cow::Borrowed(line));
        }
        let head: EntryHead = serde_json::from_str(line).map_err(LogLineError::from)?;
        let erased = hide_values(line, |member| self.plan.removes(&head, member))?;
        if let Some(session_id) = head.session_id.filter(|id| erased != line && self.is_erased(id, head.seq))
        {
            self.found.entry(session_id).or_default().insert(ErasedData::LOG_VALUES);
        }
        Ok(erased)
    }

    /// Whether a line of the log has open values of one of the sessions, although the log has salts for such values.
    pub(crate) fn has_values(&self, line: &str) -> bool {
        let head = self.may_have_data(line.as_bytes()).then(|| serde_json::from_str(line).ok()).flatten();
        let Some(EntryHead { seq, session_id: Some(session_id), .. }) = head else { return false };
        self.is_erased(&session_id, seq) && has_open_values(line, event_type)
    }
}

/// The effect of an erasure on a row.
enum RowErasure {
    /// The row has no data of the sessions.
    None,
    /// The row has only such data.
    Whole,
    /// The row of the log without such data.
    Lines(Vec<u8>),
}

/// The tables of the database with rows that an erasure or a retention removes.
fn personal_tables() -> impl Iterator<Item = &'static str> {
    stored_tables().filter(|stored_in| is_personal(stored_in))
}

fn is_personal(stored_in: &str) -> bool {
    tables_in(stored_in).any(|table| !matches!(table.data, RowData::Impersonal))
}
