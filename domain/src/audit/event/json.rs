//! The JSON of an event.

use super::{AuditEvent, EventKind};
use crate::verdict::session::SessionId;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

impl Serialize for AuditEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct EventFields<'e> {
            #[serde(flatten)]
            kind: &'e EventKind,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_id: Option<Option<&'e SessionId>>,
            timestamp: Timestamp,
        }
        // an evaluation of a text without a session has `"session_id": null`
        let has_field = self.session_id.is_some() || matches!(self.kind, EventKind::RulesEvaluated(_));
        let session_id = has_field.then_some(self.session_id.as_ref());
        EventFields { kind: &self.kind, session_id, timestamp: self.timestamp }.serialize(serializer)
    }
}
