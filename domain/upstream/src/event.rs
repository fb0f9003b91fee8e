//! The events of circuits.

use crate::health::OracleHealthLevel;
use crate::upstream_id::UpstreamId;
use domain_base::caller::PeerCredentials;
use domain_base::event::{EntryMembers, Event, EventClass, EventNotice, EventType};
use domain_base::session_id::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{IntoStaticStr, VariantArray};

/// The health status of an oracle changed, or an administrator opened or closed its circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OracleHealthChanged {
    /// The oracle.
    pub oracle_id: UpstreamId,
    /// The previous status.
    pub from: OracleHealthLevel,
    /// The new status.
    pub to: OracleHealthLevel,
    /// The cause of the change, without texts of the oracle. `session_id` is the session whose call failed: its entries have the texts.
    pub cause: String,
    /// The number of failures since the last success.
    pub consecutive_failures: u32,
    /// The administrator's process; null if the result of calls, or elapsed time, caused the change.
    pub peer: Option<PeerCredentials>,
    /// Whether its circuit was open or half open before. It decides about the webhook, and is not logged.
    #[serde(skip)]
    pub was_open: bool,
}

impl Event for OracleHealthChanged {
    const NAME: &'static str = "oracle_health_changed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let [oracle_id, from, to, cause] = ["oracle_id", "from", "to", "cause"].map(|name| entry.text(name));
        let by = if entry.text("peer").is_empty() { String::new() } else { format!(" by {}", entry.peer()) };
        format!("{oracle_id} {from} → {to}: {cause}{by}")
    }

    fn needs_commit(&self) -> bool {
        self.peer.is_some()
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        let Self { oracle_id, to, consecutive_failures, was_open, .. } = self;
        // a call that is let through while the circuit is half open ends no outage if it fails
        let name = match (was_open, to) {
            (false, OracleHealthLevel::CircuitOpen | OracleHealthLevel::Refusing) => "circuit.opened",
            (true, OracleHealthLevel::Healthy) => "circuit.closed",
            _ => return None,
        };
        let data = json!({ "oracle_id": oracle_id, "consecutive_failures": consecutive_failures });
        Some(EventNotice::to_operators(name, data))
    }
}

pub const EVENTS: &[&EventType] = &[OracleHealthChanged::TYPE];

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
