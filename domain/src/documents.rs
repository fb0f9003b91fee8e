//! The kinds of documents of all features (RFC-0002, "Source Registry").

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::document::{AnyDocument, Document, DocumentList, DocumentType, KIND_MEMBER, one_of};
use domain_base::event::{EntryMembers, Event, EventClass, EventType};
use domain_base::page::PageLimit;
use domain_base::problem::code_schema;
use domain_base::wording::reword_serde_error;
use jiff::Timestamp;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use serde_path_to_error::{Deserializer as PathDeserializer, Track};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// The kinds of each feature.
type Documents = (
    domain_ground::Documents,
    domain_verification::Documents,
    domain_rules::Documents,
    domain_verdict::Documents,
);

static TYPES: LazyLock<Vec<&DocumentType>> = LazyLock::new(|| {
    let mut types = Vec::new();
    Documents::add_types(&mut types);
    types
});
static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| TYPES.iter().map(|kind| kind.name).collect());

/// One of the kinds of documents. They are ordered: a document depends only on documents of earlier kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentKind(&'static DocumentType);

impl DocumentKind {
    /// All kinds, in their order.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().copied().map(Self)
    }

    /// The names of all kinds, in their order.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The kind with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name == name)
    }

    /// Reads a document of this kind. Its members `kind` and `$schema` are ignored.
    ///
    /// # Errors
    /// If a member is missing, unknown or invalid.
    pub fn read<'de, D: Deserializer<'de>>(self, from: D) -> Result<AnyDocument, D::Error> {
        Documents::read(self.0, from).unwrap_or_else(|_| Err(D::Error::unknown_variant(self.name, &NAMES)))
    }

    /// Reads a document of this kind as [`DocumentKind::read`] does.
    ///
    /// # Errors
    /// The fault, with the path of the member.
    pub fn read_json(self, json: Json) -> Result<AnyDocument, DocumentFaultAt> {
        let mut track = Track::new();
        self.read(PathDeserializer::new(json, &mut track)).map_err(|error: serde_json::Error| {
            DocumentFaultAt { path: track.path(), fault: reword_serde_error(&error.to_string()) }
        })
    }
}

/// Why a document cannot be read.
#[derive(Debug)]
pub struct DocumentFaultAt {
    /// The member with the fault; empty for the whole document.
    pub path: serde_path_to_error::Path,
    /// The fault, in words.
    pub fault: String,
}

impl fmt::Display for DocumentFaultAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, fault } = self;
        if path.iter().next().is_none() { f.write_str(fault) } else { write!(f, "`{path}`: {fault}") }
    }
}

/// Checks that the document in a stored row of the table of documents can be read.
///
/// # Errors
/// The fault, or that the kind in the name of the row is unknown.
pub fn check_stored(name: &str, value: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct StoredDocument {
        document: Json,
    }
    let kind =
        name.split('/').next().and_then(DocumentKind::find).ok_or("the kind of the document is unknown")?;
    let StoredDocument { document } = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    kind.read_json(document).map(drop).map_err(|fault| fault.to_string())
}

impl From<&'static DocumentType> for DocumentKind {
    fn from(kind: &'static DocumentType) -> Self {
        Self(kind)
    }
}

impl Deref for DocumentKind {
    type Target = DocumentType;

    fn deref(&self) -> &DocumentType {
        self.0
    }
}

impl PartialEq<&'static DocumentType> for DocumentKind {
    fn eq(&self, other: &&'static DocumentType) -> bool {
        self.0 == *other
    }
}

impl Ord for DocumentKind {
    fn cmp(&self, other: &Self) -> Ordering {
        let position = |kind: &Self| Self::all().position(|known| known == *kind);
        position(self).cmp(&position(other))
    }
}

impl PartialOrd for DocumentKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for DocumentKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for DocumentKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindVisitor;

        impl Visitor<'_> for KindVisitor {
            type Value = DocumentKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind of documents")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<DocumentKind, E> {
                DocumentKind::find(name).ok_or_else(|| E::unknown_variant(name, &NAMES))
            }
        }

        deserializer.deserialize_str(KindVisitor)
    }
}

impl utoipa::PartialSchema for DocumentKind {
    fn schema() -> RefOr<Schema> {
        let meaning = "The kinds of documents. A document depends only on documents of earlier kinds.";
        one_of(meaning, NAMES.iter().copied())
    }
}

impl ToSchema for DocumentKind {}

/// The schema of a document of any kind.
#[derive(Debug)]
pub enum DocumentContent {}

impl utoipa::PartialSchema for DocumentContent {
    fn schema() -> RefOr<Schema> {
        let meaning = "The content of a document of any kind.";
        let contents = DocumentKind::all()
            .fold(utoipa::openapi::schema::OneOfBuilder::new(), |contents, kind| {
                contents.item((kind.reference)())
            })
            .description(Some(meaning));
        Schema::OneOf(contents.build()).into()
    }
}

impl ToSchema for DocumentContent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        DocumentKind::all().for_each(|kind| (kind.add_schemas)(schemas));
    }
}

/// The kind of a document: by its member `kind`, or else by the one member that only documents of that kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentKindHint(pub DocumentKind);

impl<'de> Deserialize<'de> for DocumentKindHint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindHintVisitor;

        impl<'de> Visitor<'de> for KindHintVisitor {
            type Value = DocumentKindHint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a document with named members")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DocumentKindHint, A::Error> {
                let (mut named, mut found) = (None, None);
                while let Some(name) = map.next_key::<String>()? {
                    if name == KIND_MEMBER {
                        named = Some(map.next_value()?);
                        continue;
                    }
                    map.next_value::<IgnoredAny>()?;
                    found =
                        found.or_else(|| DocumentKind::all().find(|kind| kind.distinguishing_member == name));
                }
                let unknown = || {
                    let kinds = NAMES.join(", ");
                    let members: Vec<_> = TYPES.iter().map(|kind| kind.distinguishing_member).collect();
                    A::Error::custom(format!(
                        "the kind of this document is unknown: add `kind` (one of {kinds}), or the member that only its \
                         kind has (one of {})",
                        members.join(", ")
                    ))
                };
                named.or(found).map(DocumentKindHint).ok_or_else(unknown)
            }
        }

        deserializer.deserialize_map(KindHintVisitor)
    }
}

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

/// The events of registrations.
pub const EVENTS: &[&EventType] = &[DocumentRegistered::TYPE];

/// The query of `GET /v1/documents/{kind}`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DocumentsParams {
    /// Only documents after this one in the list, which is in the order of their ids.
    pub after: Option<String>,
    /// The most documents in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A registered document without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentSummary {
    /// The kind of the document.
    pub kind: DocumentKind,
    /// Its id.
    pub document_id: String,
    /// The SHA-256 of its canonical JSON.
    pub sha256: Sha256Hex,
    /// When it was registered with this content. Null for a built-in prompt template.
    pub registered_at: Option<Timestamp>,
    /// The user id that registered it then. Null for a built-in prompt template.
    pub registered_by: Option<String>,
    /// Its state in words: whether a source answers, whether a workflow can decide, whether a prompt template is the current
    /// one. Null if its kind has none.
    pub status: Option<String>,
}

/// A registered document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentReport {
    /// All but its content.
    #[serde(flatten)]
    pub summary: DocumentSummary,
    /// Its content, with all defaults.
    #[schema(value_type = DocumentContent)]
    pub document: Json,
}

/// `POST /v1/documents`: registers all of these documents, or none if one of them cannot be.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Only report what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// The documents, in any order.
    pub documents: Vec<DocumentRequest>,
}

/// A document to register.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentRequest {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its content.
    #[schema(value_type = DocumentContent)]
    pub document: Box<RawValue>,
}

/// The answer to `POST /v1/documents`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApplyResponse {
    /// The number of documents that are registered now: all of them, or 0 with `dry_run` or after a fault.
    pub registered: usize,
    /// The result of each document, in the order of the request.
    pub items: Vec<AppliedDocument>,
}

/// The result of one document.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AppliedDocument {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its id; null if the document cannot be read.
    pub document_id: Option<String>,
    /// The change, applied or only reported; null if the document has a fault.
    pub change: Option<DocumentChangeKind>,
    /// The document that it replaces; null if there is none.
    #[schema(value_type = Option<DocumentContent>)]
    pub before: Option<Json>,
    /// The document with all defaults; null if it cannot be read.
    #[schema(value_type = Option<DocumentContent>)]
    pub document: Option<Json>,
    /// Why it cannot be registered; null if it can.
    pub fault: Option<DocumentFault>,
}

/// Why a document cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentFault {
    /// The code of the problem.
    #[schema(schema_with = code_schema)]
    pub code: String,
    /// The fault, in words.
    pub detail: String,
}

/// The change by a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentChangeKind {
    /// No document of this id was registered.
    Created,
    /// Another document of this id was registered.
    Changed,
    /// The same document was registered already.
    Unchanged,
}

#[cfg(test)]
mod tests;
