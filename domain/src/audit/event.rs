//! The events of all features, with the seed's field names.
//!
//! The JSON of an event is one line of `oracle_log.jsonl`.

mod backup;
mod caller;
mod common;
mod crosscheck;
mod erasure;
pub mod ground;
mod query;
mod retention;
mod rules;
mod service;
mod verdict;
pub mod verification;

pub use crate::base::event::{
    AuditEvent, Event, EventClass, EventKind, EventType, LoggedEvent, event_in, read_open,
};
pub use backup::BackupEntry;
pub use caller::{CallerSocket, DecidingUser, PeerCredentials, REQUEST_ID_MAX_CHARS, RequestCaller};
pub use common::{EventSeverity, LOST_ROWS, LostRow, ValueChange};
pub use crosscheck::CrosscheckEntry;
pub use erasure::{ErasureEndEntry, ErasureStartEntry};
pub use ground::*;
pub use query::{QueryEntry, SourceReadKind, SourceReadOutcome};
pub use retention::{DueData, DueKind, RetentionEndEntry, RetentionStartEntry, SessionExpiryEntry};
pub use rules::{FactOriginEntry, FactsFromEntry, RuleEntry, RulesEntry, RulesEvaluated};
pub use service::*;
pub use verdict::*;
pub use verification::*;

use crate::base::session_id::SessionId;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The events of each feature.
const EVENTS: [&[&EventType]; 5] =
    [verdict::EVENTS, rules::EVENTS, ground::EVENTS, verification::EVENTS, service::EVENTS];

/// All kinds of events.
pub fn event_types() -> impl Iterator<Item = &'static EventType> {
    EVENTS.into_iter().flatten().copied()
}

/// The kind with this name.
#[must_use]
pub fn event_type(name: &str) -> Option<&'static EventType> {
    event_types().find(|kind| kind.name == name)
}

impl AuditEvent {
    /// The event of the entry with this line; `None` if this program does not know its kind.
    ///
    /// # Errors
    /// The line is not an entry, or a member of it is not one of its kind.
    pub fn read(line: &str) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Envelope {
            event: String,
            #[serde(default, deserialize_with = "read_open")]
            session_id: Option<SessionId>,
            timestamp: Timestamp,
        }
        let Envelope { event, session_id, timestamp } = serde_json::from_str(line)?;
        let kind = event_type(&event).map(|kind| (kind.read)(line)).transpose()?;
        Ok(kind.map(|kind| Self { kind, session_id, timestamp }))
    }
}

impl PartialSchema for EventKind {
    fn schema() -> RefOr<Schema> {
        let form = |kind: &EventType| {
            let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind.name]));
            let tag = ObjectBuilder::new().property("event", name).required("event");
            let details = (kind.schema)();
            let description = match &details {
                RefOr::T(Schema::Object(details)) => details.description.clone(),
                RefOr::T(Schema::AllOf(details)) => details.description.clone(),
                RefOr::Ref(details) => Some(details.description.clone()),
                RefOr::T(_) => None,
            };
            AllOfBuilder::new().item(details).item(tag).description(description).build()
        };
        let forms = event_types()
            .fold(OneOfBuilder::new(), |forms, kind| forms.item(Schema::AllOf(form(kind))))
            .build();
        Schema::OneOf(forms).into()
    }
}

impl ToSchema for EventKind {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        event_types().for_each(|kind| (kind.schemas)(schemas));
    }
}

#[cfg(test)]
mod tests;
