//! Rows: the state that the journal stores, in tables.
//!
//! A feature declares each of its rows beside the type, as a [`Row`]. The journal knows only the [`Table`], names and bytes.

use crate::session_id::SessionId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A table: rows of one kind, each with a name.
#[derive(Debug)]
pub struct Table {
    /// Its name, also in the log and in messages: `cached_answers`. No two tables or indexes have the same, and none has a `/`.
    pub name: &'static str,
    /// The stored row that has this row and those of other tables with the same name; `None` if it is stored by itself. Of rows that
    /// are read or written together, the database then has one.
    pub bundle: Option<&'static str>,
    /// The owner of the data in its rows.
    pub data: RowData,
    /// Whether a row that does not exist yet is new work, which low disk space rejects. Other rows follow from accepted work, such as
    /// mail, and are written until the disk is full.
    pub is_new_work: bool,
    /// Whether its rows name files. Without such a row, its files would count as those of an interrupted run, and be removed.
    pub names_files: bool,
    /// Whether the log finds the last entry of a session by the revision of this row, which spares a row in the log's index.
    pub finds_entries: bool,
    /// The changes of the form of its rows since the first released schema, in the order of their schemas.
    pub upgrades: &'static [RowUpgrade],
    /// Checks that this program can read a stored row; the error is the fault. An upgrade checks each row after its conversion.
    pub check: fn(&[u8]) -> Result<(), String>,
    /// The indexes that have its rows.
    pub indexes: &'static [&'static Index],
    /// The names that a stored row has in its indexes; none if it cannot be read.
    pub index: fn(&[u8]) -> Vec<IndexEntry>,
}

/// A change of the form of a table's rows. An upgrade applies it to the rows of each earlier schema.
#[derive(Debug)]
pub struct RowUpgrade {
    /// The first schema with the new form.
    pub schema: u32,
    /// The new form of a stored row, or why it has none. Equal rows must get equal forms.
    pub convert: fn(&[u8]) -> Result<Vec<u8>, String>,
}

/// The owner of the data in the rows of a table, and so the reason for which they are removed.
#[derive(Debug)]
pub enum RowData {
    /// No person: no erasure and no retention hides their digests in the log.
    Impersonal,
    /// Those of verifications, which a retention removes.
    Verification,
    /// Those of sessions, which an erasure removes.
    Session {
        owner: RowOwner,
        /// The kind of data that an erasure reports.
        erased_as: ErasedData,
    },
}

impl RowData {
    /// The data of the session that is the row's name.
    #[must_use]
    pub const fn of_named_session(erased_as: &'static str) -> Self {
        Self::Session { owner: RowOwner::Name, erased_as: ErasedData::new(erased_as) }
    }
}

/// Where a row has the session whose data it is.
#[derive(Debug)]
pub enum RowOwner {
    /// Its name is the id.
    Name,
    /// In its name, or in its value if it is known and not lost. A table of such rows is read as a whole to find those of a session.
    Inside(fn(&str, Option<&[u8]>) -> Option<SessionId>),
}

impl RowOwner {
    /// The session of a row.
    #[must_use]
    pub fn session_of(&self, name: &str, value: Option<&[u8]>) -> Option<SessionId> {
        match self {
            Self::Name => name.parse().ok(),
            Self::Inside(find) => find(name, value),
        }
    }
}

/// An index of a table: names without values, in an order in which the rows are listed.
#[derive(Debug)]
pub struct Index {
    /// Its name, as for [`Table::name`].
    pub name: &'static str,
    /// The session whose id is in a name.
    pub session_of: fn(&str) -> Option<SessionId>,
}

impl Index {
    /// The entry with this name.
    #[must_use]
    pub const fn entry(&'static self, name: String) -> IndexEntry {
        IndexEntry { index: self.name, name }
    }
}

/// The name of a row in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// The name of the index.
    pub index: &'static str,
    pub name: String,
}

/// A kind of data that an erasure removes: that of a table, or `log_values`, the values in log entries with the callers of these
/// entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, examples("session", "verdict", "log_values"))]
pub struct ErasedData(Cow<'static, str>);

impl ErasedData {
    /// Values in log entries, with the callers of these entries.
    pub const LOG_VALUES: Self = Self::new("log_values");

    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A row: state that outlives the process, and changes only with an entry in the log.
pub trait Row: Serialize + DeserializeOwned {
    /// The key whose text is the name of the row.
    type Key: fmt::Display;
    const TABLE: &'static Table;

    /// Its names in the indexes of the table.
    fn index(&self) -> Vec<IndexEntry>;

    /// The name of the row with this key: no two keys have the same, and none has a NUL.
    fn name(key: &Self::Key) -> String {
        key.to_string()
    }
}

/// A row that has its own key.
pub trait KeyedRow: Row {
    fn key(&self) -> Self::Key;
}

/// The names of a stored row in the indexes of its table: the value of [`Table::index`].
#[must_use]
pub fn index_of<R: Row>(value: &[u8]) -> Vec<IndexEntry> {
    serde_json::from_slice::<R>(value).map(|row| row.index()).unwrap_or_default()
}

/// The value of [`Table::check`].
///
/// # Errors
/// The value cannot be read as an `R`.
pub fn check_row<R: DeserializeOwned>(value: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<R>(value).map(drop).map_err(|error| error.to_string())
}

/// The value of [`Table::index`] for a table without an index.
#[must_use]
pub const fn not_indexed(_: &[u8]) -> Vec<IndexEntry> {
    Vec::new()
}

/// A row of sums, to which entries of the log add. It is not named by entries: it can be computed from them.
#[derive(Debug)]
pub struct SumTable {
    /// Its name, as for [`Table::name`].
    pub name: &'static str,
    /// A row with an addition. A row that cannot be read begins again.
    pub add: fn(Option<&[u8]>, &[u8]) -> Vec<u8>,
}

/// The addition of an entry to a row of sums.
#[derive(Debug, Clone)]
pub struct SumWrite {
    pub table: &'static SumTable,
    /// The name of the row.
    pub name: String,
    pub value: Vec<u8>,
}
