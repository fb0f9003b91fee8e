//! The outcomes of calls of upstream systems.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The HTTP statuses of a permanent rejection: the model would reject the same request again.
pub const PERMANENT_STATUSES: [u16; 7] = [400, 401, 402, 403, 404, 413, 422];

/// The outcome of an attempt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum InteractionStatus {
    /// A usable answer.
    Success,
    /// No answer within the timeout.
    Timeout,
    /// An error, or an unusable answer.
    Error,
    /// An answer that contradicts another one.
    Conflict,
}
