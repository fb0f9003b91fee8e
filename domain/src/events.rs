//! The events of all features.

use crate::documents;
use domain_audit::leaf::hide_values;
use domain_audit::wire::EventForm;
use domain_base::event::{AuditEvent, EventType, event_in, read_open};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// The events of each feature.
const EVENTS: [&[&EventType]; 7] = [
    domain_verdict::event::EVENTS,
    domain_rules::event::EVENTS,
    documents::EVENTS,
    domain_ground::event::EVENTS,
    domain_verification::event::EVENTS,
    domain_upstream::event::EVENTS,
    domain_audit::event::EVENTS,
];

/// All kinds of events.
pub fn event_types() -> impl Iterator<Item = &'static EventType> {
    EVENTS.into_iter().flatten().copied()
}

/// The kind with this name.
#[must_use]
pub fn event_type(name: &str) -> Option<&'static EventType> {
    event_types().find(|kind| kind.name == name)
}

/// The line of an entry in `oracle_log.jsonl`: with hashes in place of the values that only the log itself has. A line that is not an
/// entry stays as it is.
#[must_use]
pub fn mirrored_line(line: &str) -> Cow<'_, str> {
    static SHORTENED: LazyLock<Vec<&EventType>> =
        LazyLock::new(|| event_types().filter(|kind| !kind.not_mirrored.is_empty()).collect());
    let event = event_in(line);
    match SHORTENED.iter().find(|kind| event == Some(kind.name)) {
        Some(kind) => {
            hide_values(line, |member| kind.not_mirrored.contains(&member)).unwrap_or(Cow::Borrowed(line))
        }
        None => Cow::Borrowed(line),
    }
}

/// The event of the entry with this line; `None` if this program does not know its kind.
///
/// # Errors
/// The line is not an entry, or a member of it is not one of its kind.
pub fn read_event(line: &str) -> Result<Option<AuditEvent>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Envelope {
        event: String,
        #[serde(default, deserialize_with = "read_open")]
        session_id: Option<SessionId>,
        timestamp: Timestamp,
    }
    let Envelope { event, session_id, timestamp } = serde_json::from_str(line)?;
    let kind = event_type(&event).map(|kind| (kind.read)(line)).transpose()?;
    Ok(kind.map(|kind| AuditEvent { kind, session_id, timestamp }))
}

/// Describes the event of an entry, which has one of these forms.
pub fn complete_schemas(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let Some(event) = schemas.get_mut(&*EventForm::name()) else { return };
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
    let forms = event_types().fold(OneOfBuilder::new(), |forms, kind| forms.item(Schema::AllOf(form(kind))));
    *event = Schema::OneOf(forms.build()).into();
    let mut parts = Vec::new();
    event_types().for_each(|kind| (kind.schemas)(&mut parts));
    schemas.extend(parts);
}

#[cfg(test)]
mod tests;
