//! Events: what was decided or changed, by whom and when. Each is one entry of the log.
//!
//! A feature declares each of its events as an [`Event`]. The log knows only the [`EventType`] and the JSON. An event never contains
//! the text of a rejected verdict.

use crate::digest::Sha256Hex;
use crate::row::SumWrite;
use crate::session_id::{ApplicationName, SessionId};
use crate::wording::format_count;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::any::Any;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An event with its details. Its JSON is an object.
pub trait Event: Serialize + DeserializeOwned + ToSchema + Debug + Send + Sync + 'static {
    /// The `event` field.
    const NAME: &'static str;
    /// The members that have personal data, texts about a person, or digests of texts that can be guessed: the log commits to their
    /// values, so that they can be erased. A nested value is erased with its member.
    const ERASABLE: &'static [&'static str];
    /// Those of the erasable members whose values only the log itself has. `oracle_log.jsonl` has their hashes.
    const NOT_MIRRORED: &'static [&'static str] = &[];
    const CLASS: EventClass;
    /// Whether the event takes effect only if its entry is committed. A verdict was judged even if its entry is lost, but it is cached
    /// only by the commit of its entry.
    const NEEDS_COMMIT: bool;
    /// Whether an entry without a session has `"session_id": null`.
    const SAYS_NO_SESSION: bool = false;
    /// The links of its entry to others of the same delivery.
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::None;
    const TYPE: &'static EventType = &EventType {
        name: Self::NAME,
        erasable: Self::ERASABLE,
        not_mirrored: Self::NOT_MIRRORED,
        class: Self::CLASS,
        delivery_role: Self::DELIVERY_ROLE,
        read: |json| serde_json::from_str::<Self>(json).map(EventKind::from),
        summary: Self::summary,
        schema: <Self as PartialSchema>::schema,
        schemas: <Self as ToSchema>::schemas,
    };

    /// The content of an entry in words, without its number, time, session and caller. It is for people: escape it where it is shown.
    fn summary(entry: EntryMembers<'_>) -> String;

    /// As [`Self::NEEDS_COMMIT`], if it depends on the details.
    fn needs_commit(&self) -> bool {
        Self::NEEDS_COMMIT
    }

    /// The verification that the event is part of. The id of a review is the execution id of its decision.
    fn execution_id(&self) -> Option<&str> {
        None
    }

    /// The addition of the event to a row of sums.
    fn sums(&self, _timestamp: Timestamp, _session_id: Option<&SessionId>) -> Option<SumWrite> {
        None
    }

    /// The report of the event by a webhook; `None` if no webhook reports it.
    fn notice(&self, _session_id: Option<&SessionId>) -> Option<EventNotice> {
        None
    }
}

/// The severity of an event, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventSeverity {
    /// Something failed.
    Error,
    /// An operator must act.
    Escalation,
}

/// The retention that removes the erasable values of an event, and the effect of the event itself on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClass {
    /// The retention of values of the log removes its values.
    Value,
    /// As [`Self::Value`]. Callers and the pages of the console cause it all the time: the console hides it unless a filter asks for it.
    Routine,
    /// It is of a verification or its review: the retention of verifications removes its values.
    Verification,
    /// It reports a removal of data. It can be the reason why digests in other entries are hidden.
    Removal,
    /// It is kept apart if the log drops its first entries: rows depend on it.
    Kept,
}

/// The role of an event in the delivery of a verdict, by which the journal links the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryRole {
    None,
    /// A delivery can follow from it.
    Evidence,
    /// The delivery. Its entry names the evidence that it follows from.
    Delivery,
    /// It follows from the delivery in the same commit, whose entry it names.
    Effect,
}

/// A kind of events.
#[derive(Debug)]
pub struct EventType {
    pub name: &'static str,
    /// See [`Event::ERASABLE`].
    pub erasable: &'static [&'static str],
    /// See [`Event::NOT_MIRRORED`].
    pub not_mirrored: &'static [&'static str],
    pub class: EventClass,
    /// See [`Event::DELIVERY_ROLE`].
    pub delivery_role: DeliveryRole,
    /// Reads the details from the JSON of an entry.
    pub read: fn(&str) -> Result<EventKind, serde_json::Error>,
    /// See [`Event::summary`].
    pub summary: fn(EntryMembers<'_>) -> String,
    /// The schema of the details.
    pub schema: fn() -> RefOr<Schema>,
    /// Adds the schemas that the details refer to.
    pub schemas: fn(&mut Vec<(String, RefOr<Schema>)>),
}

/// The members of an entry, as a reader of the log has them: the value of a member can be missing, erased or withheld.
#[derive(Debug, Clone, Copy)]
pub struct EntryMembers<'a>(pub &'a Value);

impl<'a> EntryMembers<'a> {
    /// The text of a value that was erased or withheld.
    pub const HIDDEN: &'static str = "hidden";

    /// The value at `path`: the name of a member, and those of members inside it after a `/`. A hidden value hides the values inside it.
    fn at(self, path: &str) -> Option<Self> {
        let inside = |value: Self, name| {
            if value.is_hidden() { Some(value) } else { value.0.get(name).map(EntryMembers) }
        };
        path.split('/').try_fold(self, inside)
    }

    /// Whether the value was erased or withheld, and has its hash in its place.
    fn is_hidden(self) -> bool {
        self.0.as_object().is_some_and(|members| members.len() == 1 && members.contains_key("sha256"))
    }

    /// The text of the value at `path`; empty if it is missing or null.
    #[must_use]
    pub fn text(self, path: &str) -> String {
        match self.at(path) {
            None | Some(EntryMembers(Value::Null)) => String::new(),
            Some(EntryMembers(Value::String(text))) => text.clone(),
            Some(hidden) if hidden.is_hidden() => Self::HIDDEN.to_owned(),
            Some(other) => other.0.to_string(),
        }
    }

    /// `mark` and the text at `path`; empty if there is no text.
    #[must_use]
    pub fn text_after(self, mark: &str, path: &str) -> String {
        let text = self.text(path);
        if text.is_empty() { text } else { format!("{mark}{text}") }
    }

    /// The texts at `paths` that are not empty.
    #[must_use]
    pub fn words(self, paths: &[&str]) -> String {
        let words = paths.iter().map(|path| self.text(path)).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The texts of the list at `path`, or the names of the members of an object.
    #[must_use]
    pub fn list(self, path: &str) -> String {
        let texts: Vec<_> = match self.at(path) {
            Some(hidden) if hidden.is_hidden() => vec![Self::HIDDEN],
            Some(EntryMembers(Value::Array(items))) => items.iter().filter_map(Value::as_str).collect(),
            Some(EntryMembers(Value::Object(members))) => members.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        texts.join(", ")
    }

    /// The number at `path`, or the number of items of the list there, with its noun.
    #[must_use]
    pub fn count(self, path: &str, one: &str, several: &str) -> String {
        match self.at(path).and_then(|list| list.0.as_array()) {
            Some(list) => format_count(list.len(), one, several),
            None => {
                let number = self.text(path);
                format_count(if number.is_empty() { "?" } else { &number }, one, several)
            }
        }
    }

    #[must_use]
    pub fn is_true(self, path: &str) -> bool {
        self.at(path).is_some_and(|value| value.0 == &Value::Bool(true))
    }

    /// The process in the member `peer`. A signal has none.
    #[must_use]
    pub fn peer(self) -> String {
        let Some(peer) = self.at("peer").filter(|peer| peer.0.is_object()) else { return "a signal".into() };
        let id = |name| Some(peer.text(name)).filter(|id| !id.is_empty()).unwrap_or_else(|| "?".to_owned());
        let [uid, gid, pid] = ["uid", "gid", "pid"].map(id);
        format!("uid {uid} gid {gid} pid {pid}")
    }

    /// The process that gave an order, and the reason if it gave one.
    #[must_use]
    pub fn by_peer(self) -> String {
        format!("by {}{}", self.peer(), self.text_after(": ", "reason"))
    }

    /// The process and the request that caused the entry. If no request did, the trace that it continues, or nothing.
    #[must_use]
    pub fn caller(self) -> String {
        match self.at("caller") {
            None => {
                let trace = self.text_after("[trace ", "trace_id");
                if trace.is_empty() { trace } else { trace + "]" }
            }
            Some(hidden) if hidden.is_hidden() => format!("[caller {}]", Self::HIDDEN),
            Some(caller) => {
                let [uid, pid, request] = ["uid", "pid", "request_id"].map(|name| caller.text(name));
                let trace = caller.text_after(" trace ", "trace_id");
                format!("[uid {uid} pid {pid} request {request}{trace}]")
            }
        }
    }
}

/// The report of an event by a webhook. It has no address, no query and no text of a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct EventNotice {
    /// The type of the webhook.
    pub kind: &'static str,
    /// The application that receives it; `None` for operators.
    pub application: Option<ApplicationName>,
    pub data: Value,
}

impl EventNotice {
    /// A notice to operators.
    #[must_use]
    pub const fn to_operators(kind: &'static str, data: Value) -> Self {
        Self { kind, application: None, data }
    }

    /// A notice to the application of a session, with the session's id without the application.
    #[must_use]
    pub fn to_application(session_id: &SessionId, kind: &'static str, mut data: Value) -> Self {
        let application = session_id.application();
        if let Value::Object(members) = &mut data {
            members.insert("application".to_owned(), json!(application));
            members.insert("session_id".to_owned(), json!(session_id.local()));
        }
        Self { kind, application: Some(application), data }
    }
}

/// The details of any event.
#[derive(Debug, Clone)]
pub struct EventKind(Arc<dyn AnyEvent>);

trait AnyEvent: Any + Debug + Send + Sync {
    fn event_type(&self) -> &'static EventType;
    fn members(&self) -> String;
    fn says_no_session(&self) -> bool;
    fn needs_commit(&self) -> bool;
    fn execution_id(&self) -> Option<&str>;
    fn sums(&self, timestamp: Timestamp, session_id: Option<&SessionId>) -> Option<SumWrite>;
    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice>;
}

impl<E: Event> AnyEvent for E {
    fn event_type(&self) -> &'static EventType {
        Self::TYPE
    }

    fn members(&self) -> String {
        json_members(self)
    }

    fn says_no_session(&self) -> bool {
        Self::SAYS_NO_SESSION
    }

    fn needs_commit(&self) -> bool {
        Event::needs_commit(self)
    }

    fn execution_id(&self) -> Option<&str> {
        Event::execution_id(self)
    }

    fn sums(&self, timestamp: Timestamp, session_id: Option<&SessionId>) -> Option<SumWrite> {
        Event::sums(self, timestamp, session_id)
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        Event::notice(self, session_id)
    }
}

impl<E: Event> From<E> for EventKind {
    fn from(event: E) -> Self {
        Self(Arc::new(event))
    }
}

impl PartialEq for EventKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.0.members() == other.0.members()
    }
}

impl EventKind {
    /// The `event` field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.event_type().name
    }

    #[must_use]
    pub fn event_type(&self) -> &'static EventType {
        self.0.event_type()
    }

    /// The details, if they are those of an `E`.
    #[must_use]
    pub fn get<E: Event>(&self) -> Option<&E> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// See [`Event::needs_commit`].
    #[must_use]
    pub fn needs_commit(&self) -> bool {
        self.0.needs_commit()
    }

    /// See [`Event::execution_id`].
    #[must_use]
    pub fn execution_id(&self) -> Option<&str> {
        self.0.execution_id()
    }
}

/// One entry of the log, as its cause reports it. The journal adds `seq` and, if a request caused it, `caller`.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    pub kind: EventKind,
    /// The session that the event is about.
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
}

impl AuditEvent {
    #[must_use]
    pub fn new(
        timestamp: Timestamp,
        session_id: impl Into<Option<SessionId>>,
        kind: impl Into<EventKind>,
    ) -> Self {
        Self { kind: kind.into(), session_id: session_id.into(), timestamp }
    }

    /// Its JSON, an object.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{{{}}}", self.members())
    }

    /// The members of its JSON: `event`, the details, the session and the time.
    #[must_use]
    pub fn members(&self) -> String {
        let details = self.kind.0.members();
        let mut json = format!("\"event\":\"{}\"", self.kind.name());
        if !details.is_empty() {
            json.push(',');
            json.push_str(&details);
        }
        // neither an id nor a time has a character that is escaped
        match &self.session_id {
            Some(session_id) => write!(json, ",\"session_id\":\"{session_id}\""),
            None if self.kind.0.says_no_session() => write!(json, ",\"session_id\":null"),
            None => Ok(()),
        }
        .and_then(|()| write!(json, ",\"timestamp\":\"{}\"", self.timestamp))
        .expect("a text can be extended");
        json
    }

    /// See [`Event::sums`].
    #[must_use]
    pub fn sums(&self) -> Option<SumWrite> {
        self.kind.0.sums(self.timestamp, self.session_id.as_ref())
    }

    /// See [`Event::notice`].
    #[must_use]
    pub fn notice(&self) -> Option<EventNotice> {
        self.kind.0.notice(self.session_id.as_ref())
    }
}

/// The members of the JSON of `object`, without braces.
///
/// # Panics
/// It is not an object with string keys.
#[must_use]
pub fn json_members(object: &impl Serialize) -> String {
    let mut json = serde_json::to_string(object).expect("plain data with string keys");
    assert!(json.starts_with('{') && json.pop() == Some('}'), "an object");
    json.remove(0);
    json
}

impl Serialize for AuditEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_json()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// An entry of the log with the details of one kind of events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoggedEvent<E> {
    #[serde(flatten)]
    pub event: E,
    /// The session that the event is about; `None` if its id was erased.
    #[serde(default, deserialize_with = "read_open")]
    pub session_id: Option<SessionId>,
    pub timestamp: Timestamp,
}

impl<E: Event> LoggedEvent<E> {
    /// The entry with this line; `None` if it is another event.
    ///
    /// # Errors
    /// A member of the line is not one of this event.
    pub fn read(line: &str) -> Result<Option<Self>, serde_json::Error> {
        if event_in(line) == Some(E::NAME) { serde_json::from_str(line).map(Some) } else { Ok(None) }
    }
}

/// The bytes at the start of a line that have its event.
const EVENT_BYTES: usize = 160;

/// The `event` field of the entry with this line, which is not parsed: the log writes the field right after the number. `None` if the
/// line does not start so.
#[must_use]
pub fn event_in(line: &str) -> Option<&str> {
    let start = line.get(..line.len().min(EVENT_BYTES)).unwrap_or(line);
    let (_, event) = start.split_once("\"event\":\"")?;
    event.split_once('"').map(|(event, _)| event)
}

/// Reads the value of a member that can be erased: `None` if it is missing, null or erased.
///
/// # Errors
/// It is neither such a value nor a hash.
pub fn read_open<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ErasableValue<T> {
        Open(T),
        Erased {
            #[serde(rename = "sha256")]
            _hash: Sha256Hex,
        },
    }
    Ok(match Option::<ErasableValue<T>>::deserialize(deserializer)? {
        Some(ErasableValue::Open(value)) => Some(value),
        Some(ErasableValue::Erased { .. }) | None => None,
    })
}
