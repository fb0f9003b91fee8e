//! The rows at the end of a log, compared with the entries that set them: an entry names each row with its SHA-256.

use crate::base::error::StoreError;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, TableId, row_path};
use crate::base::session_row::SessionRow;
use oracled_domain::Sha256Hex;
use oracled_domain::audit::event::{LostRow, read_open};
use oracled_domain::audit::leaf::{LogLineError, LoggedRows};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The member of an entry with lost rows.
const LOST: &str = "\"lost_rows\":";

#[derive(Deserialize)]
struct RecoveryMembers {
    #[serde(default, deserialize_with = "read_open")]
    lost_rows: Option<Vec<LostRow>>,
}

/// The number of differences that are listed.
const LISTED_MAX: usize = 20;

/// A version of a row: the number of the entry that set it, and the start of its SHA-256.
type RowVersion = (u64, [u8; 16]);

/// A row as the entries name it, and as the segments have it.
#[derive(Debug, Default, PartialEq, Eq)]
struct ComparedRow {
    named: Option<RowVersion>,
    stored: Option<RowVersion>,
}

/// The comparison, as far as the log was read. It has about 150 bytes of each row.
#[derive(Debug, Default)]
pub struct RowComparison {
    /// The rows by their paths. Removed rows are absent.
    rows: BTreeMap<Box<str>, ComparedRow>,
    /// The entries whose digests were erased.
    hidden: BTreeSet<u64>,
    /// The rows that every copy has lost, by the entries that set them.
    lost: BTreeSet<(String, u64)>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedRows {
    /// The number of rows that are as their entries name them.
    pub equal: u64,
    /// The number of rows that no entry names any more: its digests were erased, or it was dropped.
    pub unnamed: u64,
    /// The rows that every copy has lost, as the log says.
    pub lost: Vec<String>,
    /// The first differences.
    pub differences: Vec<RowDifference>,
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
        match LoggedRows::read(line)? {
            LoggedRows::None => {}
            LoggedRows::Hidden => drop(self.hidden.insert(seq)),
            LoggedRows::Open(named) => {
                for (path, sha256) in named {
                    self.change(path.into(), |row| row.named = sha256.map(|sha256| (seq, start_of(&sha256))));
                }
            }
        }
        Ok(())
    }

    /// Notes the rows that a group sets and removes.
    ///
    /// # Errors
    /// `Corrupt` if a row is malformed.
    pub(crate) fn note_group(&mut self, dir: &Path, batch: &RowBatch) -> Result<(), StoreError> {
        for table in TableId::logged().filter(|table| *table != TableId::Verdicts) {
            let firsts = batch.range(rows::all(table)).filter(|(key, _)| rows::is_first_chunk(key));
            for (key, first) in firsts {
                let name = rows::name(key).unwrap_or_default();
                let value = rows::get_from(batch, table, name);
                let whole = value.as_ref().and_then(|value| value.as_deref());
                if first.is_some() && whole.is_none() {
                    let path = row_path(table, name).unwrap_or_default();
                    let detail = format!("the row {path} is not whole");
                    return Err(StoreError::Corrupt { dir: dir.to_owned(), detail });
                }
                if table == TableId::Sessions {
                    let row = whole.map(|value| SessionRow::from_bytes(dir, value)).transpose()?;
                    let mut row = row.unwrap_or_default();
                    for part in [TableId::Sessions, TableId::Verdicts] {
                        let stored = row.part(part).as_ref();
                        self.note_row(part, name, stored.map(|part| (part.revision, part.json.as_slice())));
                    }
                } else {
                    let head = first.map(|first| rows::split_head(dir, first)).transpose()?;
                    self.note_row(table, name, head.map(|(revision, ..)| revision).zip(whole));
                }
            }
        }
        Ok(())
    }

    fn note_row(&mut self, table: TableId, name: &[u8], stored: Option<(u64, &[u8])>) {
        let stored = stored.map(|(revision, value)| (revision, start_of(&Sha256Hex::of(value))));
        if let Some(path) = row_path(table, name) {
            self.change(path.into(), |row| row.stored = stored);
        }
    }

    fn change(&mut self, path: Box<str>, change: impl FnOnce(&mut ComparedRow)) {
        match self.rows.entry(path) {
            Entry::Occupied(mut known) => {
                change(known.get_mut());
                if *known.get() == ComparedRow::default() {
                    known.remove();
                }
            }
            Entry::Vacant(new) => {
                let mut row = ComparedRow::default();
                change(&mut row);
                if row != ComparedRow::default() {
                    new.insert(row);
                }
            }
        }
    }

    /// The result for a log whose entries before `first_seq` were dropped.
    #[must_use]
    pub fn finish(self, first_seq: u64) -> ComparedRows {
        let mut compared = ComparedRows { equal: 0, unnamed: 0, lost: Vec::new(), differences: Vec::new() };
        let empty = start_of(&Sha256Hex::of(b""));
        let last_hidden = self.hidden.last().copied().unwrap_or_default();
        for (path, ComparedRow { named, stored }) in self.rows {
            let seq_of = |version: Option<RowVersion>| version.map_or(0, |(seq, _)| seq);
            let is_unnamed = match stored {
                Some((revision, _)) => {
                    revision > seq_of(named) && (revision < first_seq || self.hidden.contains(&revision))
                }
                // an entry whose digests were erased can have removed it
                None => last_hidden > seq_of(named),
            };
            let lost =
                stored.filter(|(_, sha256)| *sha256 == empty).map(|(entry, _)| (path.to_string(), entry));
            if named == stored {
                compared.equal += 1;
            } else if lost.is_some_and(|lost| self.lost.contains(&lost)) {
                compared.lost.push(path.into());
            } else if is_unnamed {
                compared.unnamed += 1;
            } else if compared.differences.len() < LISTED_MAX {
                let [named, stored] = [named, stored].map(|version| version.map(|(seq, _)| seq));
                compared.differences.push(RowDifference { row: path.into(), named, stored });
            }
        }
        compared
    }
}

fn start_of(sha256: &Sha256Hex) -> [u8; 16] {
    sha256.to_bytes().first_chunk().copied().unwrap_or_default()
}
