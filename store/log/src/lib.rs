//! The journal, its segments, the log with its Merkle tree, and the tables: bytes, rows and revisions. What a row means is known to
//! the crates above.
//!
//! [`Journal::commit`] is the only way to write rows and entries. A [`JournalRecord`] has events and the changes that they
//! report. It is applied completely or not at all, and is on the disk when `commit` returns. [`TableReader`] is the
//! read side: any number of concurrent readers see only durable data. Files beside the segments and the database are known only
//! as [`StateFiles`].
//!
//! This is the only crate that uses sled.

mod audit;
mod base;
mod journal;
mod segments;
mod shared_log;

pub use audit::log::{
    EvidenceEntry, LogLine, LogPage, LogQuery, RecordCallers, damaged_line, kept_entries_in,
};
pub use audit::logged_rows::{ComparedRows, RowComparison, RowDifference};
pub use audit::mirror::{MirrorFault, MirrorSnapshot, is_mirror_line};
pub use audit::removal::{RemovableEntries, RemovalPlan};
pub use audit::segment_log::LogState;
pub use audit::segment_log::{CommittedRows, EntryContent, SegmentEntry, SegmentLog, SegmentRemains};
pub use base::bundle::Bundle;
pub use base::database_error::is_panic_caught;
pub use base::engine::{CheckResults, StoreOptions, TableReader};
pub use base::postings::{Postings, PostingsChange};
pub use base::read::{PREVIEW_REVISION, skip_lost};
pub use base::row_batch::RowBatch;
pub use base::row_write::{RowExpectation, RowName, RowWrite};
pub use base::rows;
pub use base::rows::CollectedRows;
pub use base::schema::SCHEMA;
pub use base::watermark::StoreCounts;

pub use journal::backup::{StoreBackup, StoreBackupFile, is_journal_file};
pub use journal::erasure::{Erasure, ErasureOutcome, ErasureStep};
pub use journal::healing::SegmentHealing;
pub use journal::opening::RESTORING_FILE;
pub use journal::{CommitReceipt, FollowedChanges, Journal, JournalRecord, RecordRejectedError, StateFiles};
pub use segments::visit_rows;
pub use shared_log::{
    GroupsEnd, SharedAppend, SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail,
};
