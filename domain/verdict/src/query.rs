//! The customer's query.

use serde::{Deserialize, Serialize};

/// The number of characters of a query in the log.
const PREVIEW_CHARS: usize = 80;

/// The customer's complete query. Request parsing limits its length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct CustomerQuery(String);

impl CustomerQuery {
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The complete text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 80 Unicode scalar values, for the log.
    #[must_use]
    pub fn preview(&self) -> String {
        self.0.chars().take(PREVIEW_CHARS).collect()
    }
}
