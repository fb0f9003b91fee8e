//! Values that several entries have.

use serde::{Deserialize, Serialize};

/// A value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValueChange<T> {
    /// The value before the change.
    pub before: T,
    /// The value after the change.
    pub after: T,
}

/// The severity of an event, where the specification requires one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventSeverity {
    /// Something failed.
    Error,
    /// An operator must act.
    Escalation,
}
