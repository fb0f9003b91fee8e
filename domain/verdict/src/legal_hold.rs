//! Legal holds: sessions that no retention and no administrator removes.

use domain_base::caller::PeerCredentials;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A session whose data stay until the hold is released, with all log entries from its first one on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegalHold {
    /// The session.
    pub session_id: SessionId,
    /// Why its data must stay.
    pub reason: String,
    /// When the hold was placed.
    pub placed_at: Timestamp,
    /// The administrator's process.
    pub peer: PeerCredentials,
    /// The first log entry that stays.
    pub first_seq: u64,
}

impl Row for LegalHold {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "legal_holds",
        bundle: None,
        data: RowData::of_named_session("legal_hold"),
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for LegalHold {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}
