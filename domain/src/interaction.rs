//! One request to an upstream, as the log keeps it (seed: `rfc-0002`, "Versioned Oracle Logging").

use crate::digest::Sha256Hex;
use crate::event::GatePath;
use crate::generation::Settings;
use crate::session::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InteractionStatus {
    /// An answer came and was usable.
    Success,
    /// No answer came in time.
    Timeout,
    /// It failed.
    Error,
    /// The answer is at odds with another's.
    Conflict,
}

/// What a model has used, in tokens, as far as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub prompt_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Both, and what else was counted.
    pub total_tokens: Option<u64>,
}

/// The RFC's `OracleInteractionLog`, field for field, and beside it what is particular to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// The call; its attempts share it.
    pub execution_id: String,
    /// Which upstream.
    pub oracle_id: String,
    /// In which version.
    pub oracle_version: String,
    /// When the request was sent.
    pub request_timestamp: Timestamp,
    /// When the answer was there.
    pub response_timestamp: Option<Timestamp>,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
    /// How it ended.
    pub status: InteractionStatus,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
    /// Always false: what is cached is not asked for.
    pub cache_hit: bool,
    /// Always false.
    pub stale_data_used: bool,
    /// For whose verdict.
    pub session_id: SessionId,
    /// On which path.
    pub path: GatePath,
    /// Which attempt of the call, from 1.
    pub attempt: u32,
    /// Whether it took longer than the soft time-out.
    pub soft_timeout_exceeded: bool,
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// The settings.
    pub generation: Settings,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish_reason: Option<String>,
    /// What it has used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// When this was written down.
    pub timestamp: Timestamp,
}
