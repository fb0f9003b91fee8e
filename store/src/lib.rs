//! Storage of oracled: the audit log, the verdicts, the sessions, and all other state.
//!
//! [`Journal::commit`] is the only way to write. A [`JournalRecord`] has events and the changes that they
//! report. It is applied completely or not at all, and is on the disk when `commit` returns. [`Store`] is the
//! read side: any number of concurrent readers see only durable data.
//!
//! This is the only crate that uses sled.

mod audit;
mod base;
pub mod ground;
mod journal;
mod segments;
mod verdict;
mod verification;

pub use crate::base::database_error::is_panic_caught;
pub use crate::journal::{CommitReceipt, JournalRecord, PREVIEW_REVISION, RecordRejectedError};
pub use crate::verdict::{OrderQuery, RejectingCheckSize, SessionRows, SessionsWithAddress};
pub use audit::log::{LogLine, LogPage, LogQuery, RecordCallers};
pub use audit::logged_rows::{ComparedRows, RowComparison, RowDifference};
pub use audit::mirror::{MirrorFault, MirrorSnapshot};
pub use audit::removal::{RemovableEntries, RemovalPlan};
pub use audit::segment_log::{CommittedRows, EntryContent, SegmentEntry, SegmentLog, SegmentRemains};
pub use base::engine::{StoreOptions, TableReader};
pub use base::row_write::{RowExpectation, RowName, RowWrite};
pub use base::watermark::StoreCounts;
pub use ground::Store;
pub use journal::Journal;
pub use journal::backup::{StoreBackup, StoreBackupFile};
pub use journal::erasure::{Erasure, ErasureOutcome, ErasureStep};
pub use journal::healing::SegmentHealing;
pub use journal::opening::RESTORING_FILE;
pub use journal::state_files::{LoggedState, VerifiedStateFiles};
pub use store_base::error::{SourceFileKind, StoreError};
pub use verification::{CachedAnswerPage, ReviewQuery};
