//! The event of a registration.

use super::DocumentKind;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::document::Document;
use domain_base::event::{EntryMembers, Event, EventClass, EventType};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::borrow::Cow;

/// A document was registered, or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentEntry {
    /// The kind of the document.
    #[schema(value_type = DocumentKind)]
    pub kind: Cow<'static, str>,
    /// Its id.
    pub document_id: String,
    /// The digest of the document that it replaces; null if it is new.
    pub before_sha256: Option<Sha256Hex>,
    /// Its digest.
    pub sha256: Sha256Hex,
    /// The document that it replaces; null if it is new.
    #[schema(value_type = Option<Value>)]
    pub before: Option<Box<Json>>,
    /// The document.
    #[schema(value_type = Value)]
    pub after: Box<Json>,
    /// The process that registered it.
    pub peer: PeerCredentials,
}

impl DocumentEntry {
    /// The entry of the registration of `after`, which replaces `before`.
    #[must_use]
    pub fn new<D: Document>(before: Option<&D>, after: &D, peer: PeerCredentials) -> Self {
        Self {
            kind: D::KIND.into(),
            document_id: after.document_id(),
            before_sha256: before.map(Document::digest),
            sha256: after.digest(),
            before: before.map(|before| before.to_json().into()),
            after: after.to_json().into(),
            peer,
        }
    }
}

/// A document was registered, or changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct DocumentRegistered(pub DocumentEntry);

impl Event for DocumentRegistered {
    const NAME: &'static str = "document_registered";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.words(&["kind", "document_id"]), entry.by_peer())
    }
}

pub const EVENTS: &[&EventType] = &[DocumentRegistered::TYPE];
