//! Storage of oracled's features: reads over the rows of each, and the files of facts beside the database.
//!
//! [`Store::open`] opens the journal, which is the only way to write, and [`Store`], the read side: any number of concurrent
//! readers see only durable data.

pub mod ground;
mod state_files;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod verdict;
mod verification;

pub use ground::Store;
pub use ground::files::is_backed_up;
pub use state_files::{LoggedState, VerifiedStateFiles};
pub use store_base::cluster_marker::ClusterMarker;
pub use store_base::disk::{FileIdentity, boot_id};
pub use store_base::error::{SourceFileKind, StoreError};
pub use store_log::{
    CommitReceipt, CommittedRows, ComparedRows, EntryContent, Erasure, ErasureOutcome, ErasureStep,
    EvidenceEntry, FollowedChanges, GroupsEnd, Journal, JournalRecord, LogLine, LogPage, LogQuery, LogState,
    MirrorFault, MirrorSnapshot, PREVIEW_REVISION, Postings, PostingsChange, RESTORING_FILE, RecordCallers,
    RecordRejectedError, RemovableEntries, RemovalPlan, RowComparison, RowDifference, RowExpectation,
    RowName, RowWrite, SCHEMA, SegmentEntry, SegmentHealing, SegmentLog, SegmentRemains, SharedAppend,
    SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail, StoreBackup, StoreBackupFile, StoreCounts,
    StoreOptions, TableReader, is_mirror_line, is_panic_caught,
};
pub use verdict::{OrderQuery, RejectingCheckSize, SessionRows, SessionsWithAddress, committed_verdict};
pub use verification::{CachedAnswerPage, ReviewQuery};
