//! The kinds of registered documents (RFC-0002, "Source Registry"). A new kind is a type and one entry in the
//! list below.

pub mod event;
mod members;

use crate::base::digest::Sha256Hex;
use crate::base::row::{IndexEntry, KeyedRow, Row, RowData, Table, not_indexed};
use crate::base::schema::json_schema;
use crate::base::wording::reword_serde_error;
use crate::ground::digest_of_json;
use crate::ground::freshness::FreshnessPolicy;
use crate::ground::ontology::Ontology;
use crate::ground::pipeline::{PipelineDefinition, RegisteredPipeline};
use crate::ground::source::SourceRegistration;
use crate::verdict::mail_template::MailTemplate;
use crate::verdict::prompt::PromptTemplate;
use crate::verification::adapter::Adapter;
use crate::verification::workflow::Workflow;
use jiff::Timestamp;
use members::UnmarkedDeserializer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use serde_path_to_error::{Deserializer as PathDeserializer, Track};
use std::fmt;
use strum::{EnumString, IntoStaticStr, VariantArray};

pub use members::DocumentKindHint;

/// A document that the registry stores.
pub trait RegistryDocument: Serialize + DeserializeOwned {
    const KIND: DocumentKind;

    /// Its id, unique within its kind.
    fn document_id(&self) -> String;

    /// Its JSON with all defaults.
    fn to_json(&self) -> Json {
        serde_json::to_value(self).expect("a document is plain data with string keys")
    }

    /// The SHA-256 of its canonical JSON.
    fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredDocument<D> {
    pub document: D,
    /// Its digest.
    pub sha256: Sha256Hex,
    /// When it was registered with this content.
    pub registered_at: Timestamp,
    /// The user id that registered it.
    pub registered_by: String,
}

impl<D: RegistryDocument> RegisteredDocument<D> {
    /// The registration of `document` at `registered_at`.
    #[must_use]
    pub fn new(document: D, registered_at: Timestamp, registered_by: String) -> Self {
        Self { sha256: document.digest(), document, registered_at, registered_by }
    }
}

macro_rules! document_kinds {
    ($($(#[$attribute:meta])* $Kind:ident($Document:ty), $member:literal, $id:expr;)+) => {
        /// The kinds of documents. A document depends only on documents of earlier kinds.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            EnumString, IntoStaticStr, VariantArray, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case", const_into_str)]
        pub enum DocumentKind {
            $($(#[$attribute])* $Kind,)+
        }

        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyDocument {
            $($(#[$attribute])* $Kind(Box<$Document>),)+
        }

        $(impl RegistryDocument for $Document {
            const KIND: DocumentKind = DocumentKind::$Kind;

            fn document_id(&self) -> String {
                let document_id: fn(&Self) -> String = $id;
                document_id(self)
            }
        })+

        impl DocumentKind {
            #[must_use]
            pub fn json_schema(self) -> Json {
                let mut schema = match self {
                    $(Self::$Kind => json_schema::<$Document>(),)+
                };
                if let Some(kind) = schema.pointer_mut("/properties/kind").and_then(Json::as_object_mut) {
                    kind.insert("const".to_owned(), self.into_str().into());
                }
                schema
            }

            /// The member that only documents of this kind have.
            #[must_use]
            pub const fn distinguishing_member(self) -> &'static str {
                match self {
                    $(Self::$Kind => $member,)+
                }
            }
        }

        impl AnyDocument {
            /// Reads a document of this kind. Its members `kind` and `$schema` are ignored.
            ///
            /// # Errors
            /// If a member is missing, unknown or invalid.
            pub fn read<'de, D: Deserializer<'de>>(kind: DocumentKind, from: D) -> Result<Self, D::Error> {
                match kind {
                    $(DocumentKind::$Kind => Box::deserialize(UnmarkedDeserializer(from)).map(Self::$Kind),)+
                }
            }

            /// Reads a document of this kind as [`AnyDocument::read`] does.
            ///
            /// # Errors
            /// The fault, with the path of the member.
            pub fn from_json(kind: DocumentKind, json: Json) -> Result<Self, String> {
                let mut track = Track::new();
                Self::read(kind, PathDeserializer::new(json, &mut track)).map_err(|error| {
                    let (path, fault) = (track.path(), reword_serde_error(&error.to_string()));
                    if path.iter().next().is_none() { fault } else { format!("`{path}`: {fault}") }
                })
            }

            #[must_use]
            pub const fn kind(&self) -> DocumentKind {
                match self {
                    $(Self::$Kind(_) => DocumentKind::$Kind,)+
                }
            }

            /// Its id, unique within its kind.
            #[must_use]
            pub fn document_id(&self) -> String {
                match self {
                    $(Self::$Kind(document) => document.document_id(),)+
                }
            }

            /// Its JSON with all defaults.
            #[must_use]
            pub fn to_json(&self) -> Json {
                match self {
                    $(Self::$Kind(document) => document.to_json(),)+
                }
            }
        }
    };
}

document_kinds! {
    /// An ontology; its id is `ontology_id@version`.
    Ontology(Ontology), "ontology_id", |ontology| ontology.reference().to_string();
    Source(SourceRegistration), "oracle_name", |source| source.oracle_id.to_string();
    /// The freshness policy of a source, under the source's id.
    FreshnessPolicy(FreshnessPolicy), "default_max_age_seconds", |policy| policy.oracle_id.to_string();
    /// A pipeline with its normalization, schemas and tables.
    Pipeline(PipelineDefinition), "pipeline", |definition| definition.pipeline.pipeline_id.to_string();
    /// The adapter of a live source, under the source's id.
    Adapter(Adapter), "endpoint", |adapter| adapter.oracle_id.to_string();
    /// A verification workflow.
    Workflow(Workflow), "workflow_id", |workflow| workflow.workflow_id.to_string();
    /// A prompt template; its id is `template_id@version`.
    PromptTemplate(PromptTemplate), "tiers", |template| template.reference().to_string();
    /// A mail template; its id is `template_id@version`.
    MailTemplate(MailTemplate), "mails", |template| template.reference().to_string();
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// The table of registered documents. Sources and their freshness policies are in the table of sources.
pub const DOCUMENTS: &Table = &Table {
    name: "documents",
    bundle: None,
    data: RowData::Impersonal,
    is_new_work: true,
    names_files: false,
    finds_entries: false,
    indexes: &[],
    index: not_indexed,
};

/// The tables of all kinds of documents.
pub const TABLES: &[&Table] = &[DOCUMENTS];

/// The key of a registered document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentKey {
    pub kind: DocumentKind,
    pub document_id: String,
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.document_id)
    }
}

impl<D: RegistryDocument> Row for RegisteredDocument<D> {
    type Key = DocumentKey;
    const TABLE: &'static Table = DOCUMENTS;

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl<D: RegistryDocument> KeyedRow for RegisteredDocument<D> {
    fn key(&self) -> DocumentKey {
        DocumentKey { kind: D::KIND, document_id: self.document.document_id() }
    }
}

impl Row for RegisteredPipeline {
    type Key = DocumentKey;
    const TABLE: &'static Table = DOCUMENTS;

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for RegisteredPipeline {
    fn key(&self) -> DocumentKey {
        DocumentKey { kind: DocumentKind::Pipeline, document_id: self.pipeline_id.to_string() }
    }
}

#[cfg(test)]
mod tests;
