//! The retention of old data.

use oracled_domain::audit::event::DueData;
use oracled_domain::ground::check::PruneReport;
use serde::{Deserialize, Serialize};

/// `GET` and `POST /v1/retention`: the data that are due, or that were removed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionResponse {
    /// The data by kind.
    pub due: DueData,
    /// Rotated files of `oracle_log.jsonl` in the state directory that may still have the data: they are compressed, cannot be
    /// read, or have lines that are not entries of the log. Empty for `GET`.
    pub unread_files: Vec<String>,
    /// The content of sources that is pruned; null if it is kept forever.
    pub payloads: Option<PayloadRetention>,
}

/// The content and the payloads of sources that are older than configured.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PayloadRetention {
    /// The configured number of days.
    pub days: u32,
    /// The sources by result.
    #[serde(flatten)]
    pub report: PruneReport,
}
