//! The unit of writing: events and the changes that they report, as plain data.

use crate::audit::log::RecordCallers;
use crate::base::row_write::{RowExpectation, RowName, RowWrite};
use domain_base::event::AuditEvent;

/// Events and changes that are committed together: all of them, or none.
///
/// A record is plain data, and applying one to equal stores gives equal stores, except for the salts in its entries and the
/// hashes of these. It contains its own times, and its entry numbers depend only on the order of the records.
#[derive(Debug, Clone, Default)]
pub struct JournalRecord {
    /// The rows on which the record depends, with their revisions.
    pub expect: Vec<RowExpectation>,
    /// The events for the audit log, in this order.
    pub events: Vec<AuditEvent>,
    /// The changes of the tables.
    pub writes: Vec<RowWrite>,
    /// Whether the record ends accepted work. Low disk space then does not reject its new rows.
    pub ends_work: bool,
    /// The callers that caused the events. No table depends on them.
    pub callers: RecordCallers,
}

impl From<AuditEvent> for JournalRecord {
    fn from(event: AuditEvent) -> Self {
        Self { events: vec![event], ..Self::default() }
    }
}

/// Confirms that a record is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The number of its first entry.
    pub first_seq: u64,
    /// The number of its last entry, which is also the revision of every row it wrote.
    pub last_seq: u64,
}

/// The reason why the store rejected a record. No part of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRejectedError {
    /// A row is no longer as the record expects. The caller must read it again and decide again.
    #[error("the row {0} was changed by another record meanwhile")]
    Stale(RowName),
    /// The record is new work, and too little disk space is free.
    #[error("{0}")]
    LowSpace(String),
    /// The record changes state without an event that reports the change.
    #[error("the record has no event")]
    Unlogged,
}
