//! Legal holds: sessions that no retention and no administrator removes.

use domain_base::caller::PeerCredentials;
use domain_base::event::{EntryMembers, Event, EventClass};
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// When an erasure of the session was last refused; null if none was.
    #[serde(default)]
    pub erasure_refused_at: Option<Timestamp>,
}

impl fmt::Display for LegalHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session_id, placed_at, reason, .. } = self;
        write!(f, "session {session_id} is on legal hold since {placed_at}: {reason}")
    }
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

/// An administrator placed a legal hold: no erasure and no retention removes the session, or log entries from its first one on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegalHoldPlaced {
    /// Why the data must stay.
    pub reason: String,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for LegalHoldPlaced {
    const NAME: &'static str = "legal_hold_placed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An administrator released the legal hold of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegalHoldReleased {
    /// Why the data need not stay any longer.
    pub reason: String,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for LegalHoldReleased {
    const NAME: &'static str = "legal_hold_released";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// The erasure of a session, or of a person with the session, was refused because of its legal hold. Nothing was erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureRefused {
    /// The reason that was given for the erasure.
    pub reason: String,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for ErasureRefused {
    const NAME: &'static str = "erasure_refused";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}
