//! The rows at the end of a log, compared with the entries that set them: an entry names each row with its SHA-256.

use crate::base::bundle::Bundle;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, StoredValue, row_of_path, row_path, stored_tables, tables_in};
use crate::base::schema::was_dropped;
use domain_audit::event::{DueData, LostRow, StoreUpgraded};
use domain_audit::leaf::{LogLineError, LoggedRows};
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, EventClass, event_in, read_open};
use domain_base::row::{RowData, Table};
use domain_base::session_id::SessionId;
use oracled_domain::events::event_type;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::path::Path;
use store_base::error::StoreError;

/// The member of an entry with lost rows.
const LOST: &str = "\"lost_rows\":";

/// The members of an entry with lost rows.
#[derive(Deserialize)]
pub(crate) struct RecoveryMembers {
    #[serde(default, deserialize_with = "read_open")]
    pub(crate) lost_rows: Option<Vec<LostRow>>,
}

/// The number of differences that are listed.
const LISTED_MAX: usize = 20;

/// The members of an entry whose digests are hidden, or that reports a removal.
#[derive(Deserialize)]
struct RemovalMembers {
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    #[serde(default, deserialize_with = "read_open")]
    session_ids: Option<Vec<SessionId>>,
    due: Option<DueData>,
    /// The salts of the values that the log commits to and that are not erased.
    #[serde(default)]
    salts: BTreeMap<String, IgnoredAny>,
}

/// An entry whose digests are hidden.
#[derive(Debug)]
struct HiddenDigests {
    /// Its session; `None` if it is about none, or if its id is hidden, too.
    session_id: Option<SessionId>,
    /// Whether the log commits to the id, so that an erasure with ids would have hidden it.
    covers_id: bool,
}

/// The removals that the log reports.
#[derive(Debug, Default)]
struct LoggedRemovals {
    /// The last removal of the data of each session.
    sessions: BTreeMap<SessionId, u64>,
    /// The last removal whose sessions were erased from the log, too.
    hidden: u64,
    /// The last removal of data of sessions.
    last: u64,
    /// The last entry whose values a retention has removed.
    values_up_to: u64,
}

/// A version of a row: the number of the entry that set it, and the start of its SHA-256.
type RowVersion = (u64, [u8; 16]);

/// A row as the entries name it, and as the segments have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowVersions {
    named: Option<RowVersion>,
    stored: Option<RowVersion>,
}

/// The versions of a row, in half the space while they are equal, as most are.
#[derive(Debug)]
enum ComparedRow {
    Equal(RowVersion),
    Different(Box<RowVersions>),
}

impl ComparedRow {
    /// `None` if the row is removed.
    fn of(versions: RowVersions) -> Option<Self> {
        match versions {
            RowVersions { named: None, stored: None } => None,
            RowVersions { named: Some(version), stored } if stored == Some(version) => {
                Some(Self::Equal(version))
            }
            different => Some(Self::Different(Box::new(different))),
        }
    }

    fn versions(&self) -> RowVersions {
        match self {
            Self::Equal(version) => RowVersions { named: Some(*version), stored: Some(*version) },
            Self::Different(versions) => **versions,
        }
    }
}

/// The comparison, as far as the log was read. It has about 150 bytes of each row.
#[derive(Debug, Default)]
pub struct RowComparison {
    /// The rows by their paths. Removed rows are absent.
    rows: HashMap<Box<str>, ComparedRow>,
    /// The entries whose digests were erased.
    hidden: BTreeMap<u64, HiddenDigests>,
    removals: LoggedRemovals,
    /// The rows that every copy has lost, by the entries that set them.
    lost: BTreeSet<(String, u64)>,
    /// The tables whose rows an upgrade has changed, with the last entry before it.
    upgraded: BTreeMap<String, u64>,
    /// The versions of rows that the segments have, that differ from their entries, and that later groups have replaced.
    replaced: Vec<(Box<str>, RowVersions)>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ComparedRows {
    /// The number of rows that are as their entries name them.
    pub equal: u64,
    /// The number of rows whose entry no longer names them: its digests were erased, or it was dropped.
    pub unnamed: u64,
    /// The number of rows whose form an upgrade has changed: only their entries were compared.
    pub upgraded: u64,
    /// The rows that every copy has lost, as the log says.
    pub lost: Vec<String>,
    /// The first differences.
    pub differences: Vec<RowDifference>,
    /// The first entries whose digests are hidden although no entry reports a removal that concerns them.
    pub uncovered: Vec<u64>,
}

/// A row that differs from the last entry that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowDifference {
    /// The table and the name of the row.
    pub row: String,
    /// The last entry that names the row; `None` if no entry does.
    pub named: Option<u64>,
    /// The entry that set the row, by the row; `None` if it is missing.
    pub stored: Option<u64>,
}

impl RowComparison {
    /// Notes the rows that the entry number `seq` names.
    ///
    /// # Errors
    /// The line is not an entry.
    pub(crate) fn note_entry(&mut self, seq: u64, line: &str) -> Result<(), LogLineError> {
        if line.contains(LOST) {
            let RecoveryMembers { lost_rows } = serde_json::from_str(line).map_err(LogLineError::from)?;
            self.lost.extend(lost_rows.into_iter().flatten().map(|lost| (lost.row, lost.entry)));
        }
        if event_in(line).and_then(event_type).is_some_and(|kind| kind.class == EventClass::Removal) {
            self.removals.note(seq, serde_json::from_str(line)?);
        }
        if event_in(line) == Some(StoreUpgraded::NAME) {
            let StoreUpgraded { entries, tables, .. } = serde_json::from_str(line)?;
            for table in tables {
                let last = self.upgraded.entry(table).or_default();
                *last = entries.max(*last);
            }
        }
        match LoggedRows::read(line)? {
            LoggedRows::None => {}
            LoggedRows::Hidden => {
                let RemovalMembers { session_id, salts, .. } = serde_json::from_str(line)?;
                let covers_id = salts.contains_key("session_id");
                self.hidden.insert(seq, HiddenDigests { session_id, covers_id });
            }
            LoggedRows::Open(named) => {
                for (path, sha256) in named {
                    self.change(path.into(), |row| row.named = sha256.map(|sha256| (seq, start_of(&sha256))));
                }
            }
        }
        Ok(())
    }

    /// Notes the rows that a group sets and removes. A row of which the group has only a part counts as a different one.
    ///
    /// # Errors
    /// `Corrupt` if a row is malformed.
    pub(crate) fn note_group(&mut self, dir: &Path, batch: &RowBatch) -> Result<(), StoreError> {
        for table in stored_tables() {
            let mut last = None;
            for (key, chunk) in batch.range(rows::all(table)) {
                let stem = rows::chunk_stem(key);
                // the further chunks, also removed ones of a longer row from before, follow the first one
                if last.as_ref() == Some(&stem) {
                    continue;
                }
                let name =
                    rows::split_key(&stem).and_then(|(_, name)| name.strip_suffix(&[0])).unwrap_or_default();
                let head = chunk.filter(|_| rows::is_first_chunk(key));
                let head = head.map(|first| rows::split_head(dir, first)).transpose()?;
                let value = rows::get_from(batch, table, name).flatten();
                let stored = head.zip(value).map(|((revision, ..), value)| StoredValue { revision, value });
                let is_part = !rows::is_first_chunk(key);
                self.note_stored(dir, table, name, stored, is_part || chunk.is_some())?;
                last = Some(stem);
            }
        }
        Ok(())
    }

    /// Notes a stored row; `None` if it is removed, or if it `is_set` and not whole.
    fn note_stored(
        &mut self,
        dir: &Path,
        stored_in: &str,
        name: &[u8],
        stored: Option<StoredValue>,
        is_set: bool,
    ) -> Result<(), StoreError> {
        let torn = (is_set && stored.is_none()).then(|| StoredValue { revision: 0, value: Vec::new() });
        let bundle = match &stored {
            Some(stored) if tables_in(stored_in).any(|table| table.bundle.is_some()) => {
                Some(Bundle::from_bytes(dir, &stored.value)?)
            }
            _ => None,
        };
        for table in tables_in(stored_in) {
            let row = match &bundle {
                Some(bundle) => bundle.row(table),
                None => stored.as_ref(),
            };
            self.note_row(table, name, row.or(torn.as_ref()));
        }
        Ok(())
    }

    fn note_row(&mut self, table: &Table, name: &[u8], stored: Option<&StoredValue>) {
        let stored = stored.map(|row| (row.revision, start_of(&Sha256Hex::of(&row.value))));
        let path = row_path(table, &String::from_utf8_lossy(name));
        self.change(path.into(), |row| row.stored = stored);
    }

    fn change(&mut self, path: Box<str>, change: impl FnOnce(&mut RowVersions)) {
        let changed = |mut versions: RowVersions| {
            change(&mut versions);
            ComparedRow::of(versions)
        };
        match self.rows.entry(path) {
            Entry::Occupied(mut known) => {
                let before = known.get().versions();
                let row = changed(before);
                let is_replaced = row.as_ref().and_then(|row| row.versions().stored) != before.stored;
                // an erasure has removed the others
                let is_whole = before.stored.is_some_and(|version| version != torn());
                if is_replaced && is_whole && before.named != before.stored {
                    self.replaced.push((known.key().clone(), before));
                }
                match row {
                    Some(row) => drop(mem::replace(known.get_mut(), row)),
                    None => drop(known.remove()),
                }
            }
            Entry::Vacant(new) => {
                if let Some(row) = changed(RowVersions::default()) {
                    new.insert(row);
                }
            }
        }
    }

    /// The result for a log whose entries before `first_seq` were dropped. Replaced versions of rows count only as differences.
    #[must_use]
    pub fn finish(mut self, first_seq: u64) -> ComparedRows {
        // who hides the digests of an entry must not be able to change its rows
        let uncovered = self.hidden.extract_if(.., |seq, hidden| !self.removals.cover(*seq, hidden));
        let mut uncovered: Vec<_> = uncovered.map(|(seq, _)| seq).collect();
        uncovered.truncate(LISTED_MAX);
        let mut compared = ComparedRows { uncovered, ..ComparedRows::default() };
        let empty = start_of(&Sha256Hex::of(b""));
        let last_hidden = self.hidden.last_key_value().map_or(0, |(seq, _)| *seq);
        let present = self.rows.into_iter().map(|(path, row)| (path, row.versions(), true));
        let replaced = self.replaced.into_iter().map(|(path, versions)| (path, versions, false));
        for (path, RowVersions { named, stored }, is_present) in present.chain(replaced) {
            // their digests are never erased
            let is_permanent =
                row_of_path(&path).is_some_and(|(table, _)| matches!(table.data, RowData::Impersonal));
            let seq_of = |version: Option<RowVersion>| version.map_or(0, |(seq, _)| seq);
            let is_unnamed = match stored {
                Some((revision, _)) => {
                    let is_hidden = !is_permanent && self.hidden.contains_key(&revision);
                    revision > seq_of(named) && (revision < first_seq || is_hidden)
                }
                // an entry whose digests were erased can have removed it
                None => !is_permanent && last_hidden > seq_of(named),
            };
            let lost =
                stored.filter(|(_, sha256)| *sha256 == empty).map(|(entry, _)| (path.to_string(), entry));
            let table = path.split_once('/').map_or("", |(table, _)| table);
            let is_of_same_entry = named.is_some() && stored.is_some() && seq_of(named) == seq_of(stored);
            let is_upgraded = is_of_same_entry
                && lost.is_none()
                && self.upgraded.get(table).is_some_and(|last| seq_of(stored) <= *last);
            let is_dropped = stored.is_none() && was_dropped(table);
            if named == stored {
                compared.equal += 1;
            } else if lost.is_some_and(|lost| self.lost.contains(&lost)) {
                compared.lost.extend(is_present.then(|| path.into()));
            } else if is_upgraded || is_dropped {
                compared.upgraded += u64::from(is_present);
            } else if is_unnamed {
                compared.unnamed += u64::from(is_present);
            } else {
                let [named, stored] = [named, stored].map(|version| version.map(|(seq, _)| seq));
                compared.differences.push(RowDifference { row: path.into(), named, stored });
            }
        }
        compared.lost.sort_unstable();
        compared.differences.sort_unstable_by(|one, other| one.row.cmp(&other.row));
        compared.differences.truncate(LISTED_MAX);
        compared
    }
}

impl LoggedRemovals {
    fn note(&mut self, seq: u64, members: RemovalMembers) {
        let RemovalMembers { session_id, session_ids, due, .. } = members;
        self.last = seq;
        if let Some(due) = due {
            let values = [due.log_values, due.verifications].into_iter().flatten().map(|kind| kind.last_seq);
            self.values_up_to = values.fold(self.values_up_to, u64::max);
            return;
        }
        let named: Vec<_> = session_id.into_iter().chain(session_ids.into_iter().flatten()).collect();
        if named.is_empty() {
            self.hidden = seq;
        }
        self.sessions.extend(named.into_iter().map(|session_id| (session_id, seq)));
    }

    /// Whether a removal can have hidden the digests of entry `seq`.
    fn cover(&self, seq: u64, hidden: &HiddenDigests) -> bool {
        let removed = match &hidden.session_id {
            None => self.last,
            Some(session_id) => {
                let named = self.sessions.get(session_id).copied().unwrap_or_default();
                named.max(if hidden.covers_id { 0 } else { self.hidden })
            }
        };
        // a removal also hides the names of the rows that it has removed
        seq <= removed.max(self.values_up_to)
    }
}

/// The version of an incomplete row.
fn torn() -> RowVersion {
    (0, start_of(&Sha256Hex::of(b"")))
}

fn start_of(sha256: &Sha256Hex) -> [u8; 16] {
    sha256.to_bytes().first_chunk().copied().unwrap_or_default()
}
