//! Values that several entries have.

use serde::{Deserialize, Serialize};

/// A value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValueChange<T> {
    /// The value before the change.
    pub before: T,
    /// The value after the change.
    pub after: T,
}

/// The severity of an event, where the specification requires one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventSeverity {
    /// Something failed.
    Error,
    /// An operator must act.
    Escalation,
}

/// The member of an entry with lost rows.
pub const LOST_ROWS: &str = "lost_rows";

/// A row that every copy has lost: its segment and the database were damaged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LostRow {
    /// The table and the name of the row, as in `rows_sha256`: `verdicts/cs_1`.
    pub row: String,
    /// The number of the entry that set it.
    pub entry: u64,
    /// The number of the damaged segment.
    pub segment: u64,
}
