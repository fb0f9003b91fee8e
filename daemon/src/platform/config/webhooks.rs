//! The configuration of webhooks.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Webhooks to applications and operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhooksSection {
    /// URL of the endpoint of applications without an endpoint of their own. Without an endpoint, no webhook is queued. The
    /// URL is https, or http to a numeric address in `ingestion.allow_local`.
    pub url: Option<String>,
    /// File with the secret that signs webhooks to `url`: `whsec_` and the base64 form of 24 to 64 bytes.
    #[schema(value_type = Option<String>)]
    pub secret_file: Option<PathBuf>,
    /// URL of the endpoint of operators.
    pub operator_url: Option<String>,
    /// File with the secret that signs webhooks to `operator_url`.
    #[schema(value_type = Option<String>)]
    pub operator_secret_file: Option<PathBuf>,
    /// Time during which a webhook is retried.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub max_age_s: u32,
    /// Time limit of an attempt.
    #[schema(minimum = 100, maximum = 60_000)]
    pub hard_timeout_ms: u64,
}

impl Default for WebhooksSection {
    fn default() -> Self {
        Self {
            url: None,
            secret_file: None,
            operator_url: None,
            operator_secret_file: None,
            max_age_s: 3 * 24 * 60 * 60,
            hard_timeout_ms: 10_000,
        }
    }
}
