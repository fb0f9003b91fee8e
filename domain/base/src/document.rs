//! Documents that are registered (RFC-0002, "Source Registry"): each is of a kind, and has an id that is unique within it.
//!
//! A feature declares each of its kinds beside the type, as a [`Document`], and names it in its [`DocumentList`].

use crate::digest::{Sha256Hex, digest_of_json};
use crate::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use jiff::Timestamp;
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value as Json, json};
use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Ref, Type};
use utoipa::openapi::{RefOr, Schema};

/// A document with its declaration. Its JSON is an object.
pub trait Document:
    Serialize + DeserializeOwned + ToSchema + Clone + PartialEq + Debug + Send + Sync + 'static
{
    /// The name of the kind: `freshness_policy`.
    const KIND: &'static str;
    /// The member that only documents of this kind have.
    const DISTINGUISHING_MEMBER: &'static str;
    const VERSIONS: DocumentVersions;
    const TYPE: &'static DocumentType = &DocumentType {
        name: Self::KIND,
        distinguishing_member: Self::DISTINGUISHING_MEMBER,
        versions: Self::VERSIONS,
        schema: json_schema::<Self>,
        reference: || Ref::from_schema_name(Self::name()),
        add_schemas: |schemas| {
            schemas.push((Self::name().into_owned(), Self::schema()));
            <Self as ToSchema>::schemas(schemas);
        },
    };

    /// Its id, unique within its kind.
    fn document_id(&self) -> String;

    /// The documents of this kind that need no registration.
    #[must_use]
    fn built_in_versions() -> &'static [Self] {
        &[]
    }

    /// The address that the daemon calls for this document.
    fn endpoint(&self) -> Option<&str> {
        None
    }

    /// Its JSON with all defaults.
    fn to_json(&self) -> Json {
        serde_json::to_value(self).expect("a document is plain data with string keys")
    }

    /// The SHA-256 of its canonical JSON.
    fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }
}

/// The versions of the documents of a kind. A version is immutable, and its id is `NAME@VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentVersions {
    /// A document is replaced by another one with its id.
    None,
    /// A version is any text.
    Named,
    /// A version is a number; the highest is the newest.
    Numbered,
}

/// A kind of documents.
#[derive(Debug)]
pub struct DocumentType {
    pub name: &'static str,
    /// See [`Document::DISTINGUISHING_MEMBER`].
    pub distinguishing_member: &'static str,
    pub versions: DocumentVersions,
    schema: fn() -> Json,
    /// A reference to the schema of its documents.
    pub reference: fn() -> Ref,
    /// Adds the schema of its documents, and those that it refers to.
    pub add_schemas: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl DocumentType {
    /// The JSON Schema of its documents.
    #[must_use]
    pub fn json_schema(&self) -> Json {
        let mut schema = (self.schema)();
        if let Some(kind) = schema.pointer_mut("/properties/kind").and_then(Json::as_object_mut) {
            kind.insert("const".to_owned(), self.name.into());
        }
        schema
    }
}

impl PartialEq for DocumentType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for DocumentType {}

impl fmt::Display for DocumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A document of any kind.
#[derive(Debug, Clone)]
pub struct AnyDocument(Arc<dyn DynDocument>);

trait DynDocument: Any + Debug + Send + Sync {
    fn document_type(&self) -> &'static DocumentType;
    fn document_id(&self) -> String;
    fn endpoint(&self) -> Option<&str>;
    fn to_json(&self) -> Json;
}

impl<D: Document> DynDocument for D {
    fn document_type(&self) -> &'static DocumentType {
        Self::TYPE
    }

    fn document_id(&self) -> String {
        Document::document_id(self)
    }

    fn endpoint(&self) -> Option<&str> {
        Document::endpoint(self)
    }

    fn to_json(&self) -> Json {
        Document::to_json(self)
    }
}

impl<D: Document> From<D> for AnyDocument {
    fn from(document: D) -> Self {
        Self(Arc::new(document))
    }
}

impl PartialEq for AnyDocument {
    fn eq(&self, other: &Self) -> bool {
        self.document_type() == other.document_type() && self.to_json() == other.to_json()
    }
}

impl AnyDocument {
    #[must_use]
    pub fn document_type(&self) -> &'static DocumentType {
        self.0.document_type()
    }

    /// The document, if it is a `D`.
    #[must_use]
    pub fn get<D: Document>(&self) -> Option<&D> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// Its id, unique within its kind.
    #[must_use]
    pub fn document_id(&self) -> String {
        self.0.document_id()
    }

    /// See [`Document::endpoint`].
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.0.endpoint()
    }

    /// Its JSON with all defaults.
    #[must_use]
    pub fn to_json(&self) -> Json {
        self.0.to_json()
    }
}

/// Kinds of documents: one kind, or a tuple of lists. A document depends only on documents of earlier kinds.
pub trait DocumentList {
    /// Adds the kinds in their order.
    fn add_types(types: &mut Vec<&'static DocumentType>);

    /// Reads a document of this kind, without its members `kind` and `$schema`. Returns `from` if the list does not have the kind.
    ///
    /// # Errors
    /// The list does not have the kind. The inner error: a member is missing, unknown or invalid.
    fn read<'de, F: Deserializer<'de>>(
        kind: &DocumentType,
        from: F,
    ) -> Result<Result<AnyDocument, F::Error>, F>;
}

impl<D: Document> DocumentList for D {
    fn add_types(types: &mut Vec<&'static DocumentType>) {
        types.push(D::TYPE);
    }

    fn read<'de, F: Deserializer<'de>>(
        kind: &DocumentType,
        from: F,
    ) -> Result<Result<AnyDocument, F::Error>, F> {
        if kind != D::TYPE {
            return Err(from);
        }
        Ok(D::deserialize(UnmarkedDeserializer(from)).map(AnyDocument::from))
    }
}

macro_rules! list_of_lists {
    ($($List:ident)+) => {
        impl<$($List: DocumentList),+> DocumentList for ($($List,)+) {
            fn add_types(types: &mut Vec<&'static DocumentType>) {
                $($List::add_types(types);)+
            }

            fn read<'de, F: Deserializer<'de>>(
                kind: &DocumentType,
                from: F,
            ) -> Result<Result<AnyDocument, F::Error>, F> {
                $(let from = match $List::read(kind, from) {
                    Err(from) => from,
                    read @ Ok(_) => return read,
                };)+
                Err(from)
            }
        }
    };
}

list_of_lists! { A }
list_of_lists! { A B }
list_of_lists! { A B C }
list_of_lists! { A B C D }
list_of_lists! { A B C D E }
list_of_lists! { A B C D E G }

/// A document as it is stored.
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

impl<D: Document> RegisteredDocument<D> {
    /// The registration of `document` at `registered_at`.
    #[must_use]
    pub fn new(document: D, registered_at: Timestamp, registered_by: String) -> Self {
        Self { sha256: document.digest(), document, registered_at, registered_by }
    }
}

/// The table of registered documents of all kinds.
pub const DOCUMENTS: &Table = &Table {
    name: "documents",
    bundle: None,
    data: RowData::Impersonal,
    is_new_work: true,
    names_files: false,
    finds_entries: false,
    upgrades: &[],
    check: check_row::<RegisteredDocument<serde_json::Value>>,
    indexes: &[],
    index: not_indexed,
};

impl<D: Document> Row for RegisteredDocument<D> {
    /// The id of the document.
    type Key = String;
    const TABLE: &'static Table = DOCUMENTS;

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }

    fn name(document_id: &String) -> String {
        format!("{}/{document_id}", D::KIND)
    }
}

impl<D: Document> KeyedRow for RegisteredDocument<D> {
    fn key(&self) -> String {
        self.document.document_id()
    }
}

/// The member that names the kind of a document.
pub const KIND_MEMBER: &str = "kind";
/// The member that names the schema of a document, for editors.
pub const SCHEMA_MEMBER: &str = "$schema";

/// A deserializer of an object that leaves out its members `kind` and `$schema`.
struct UnmarkedDeserializer<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for UnmarkedDeserializer<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(UnmarkedVisitor(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct UnmarkedVisitor<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for UnmarkedVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document with named members")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(UnmarkedMapAccess(map))
    }
}

struct UnmarkedMapAccess<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for UnmarkedMapAccess<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.0.next_key::<String>()? {
            if name != KIND_MEMBER && name != SCHEMA_MEMBER {
                return seed.deserialize(StringDeserializer::new(name)).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

/// The dialect of the schemas.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The location of referenced types in an OpenAPI document.
const COMPONENTS: &str = "#/components/schemas/";
/// Their location in a JSON Schema.
const DEFINITIONS: &str = "#/$defs/";

/// The JSON Schema (draft 2020-12) of the document type `T`, with the types that it refers to under `$defs`.
///
/// Besides the members of `T`, the document may have the members `$schema` and `kind`. An object with other
/// unknown members is invalid, because all types of registered documents deny unknown fields.
///
/// # Panics
/// If two types have the same schema name.
#[must_use]
pub fn json_schema<T: ToSchema>() -> Json {
    let mut types = Vec::new();
    T::schemas(&mut types);
    let mut definitions = Map::new();
    for (name, schema) in types {
        let schema = adapted(json!(schema));
        let other = definitions.insert(name.clone(), schema.clone()).filter(|other| *other != schema);
        assert!(other.is_none(), "two types have the schema name {name}");
    }
    let mut root = adapted(json!(T::schema()));
    if let Some(members) = root.pointer_mut("/properties").and_then(Json::as_object_mut) {
        let description = "The URL of the JSON Schema of this document, for editors.";
        members.insert("$schema".into(), json!({ "type": "string", "description": description }));
        members
            .insert("kind".into(), json!({ "type": "string", "description": "The kind of this document." }));
    }
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".into(), DRAFT.into());
        root.insert("title".into(), T::name().into());
        root.insert("$defs".into(), definitions.into());
    }
    root
}

/// The schema of a text that is one of `words`.
pub fn one_of<'w>(description: &str, words: impl IntoIterator<Item = &'w str>) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
    text.description(Some(description)).into()
}

/// Converts the OpenAPI schema `schema` to a JSON Schema: references point to `$defs`, and objects reject
/// unknown members. utoipa does the latter for structs with `deny_unknown_fields`, but not for the objects of
/// enum variants.
fn adapted(mut schema: Json) -> Json {
    match &mut schema {
        Json::Object(members) => {
            for member in members.values_mut() {
                *member = adapted(member.take());
            }
            if members.get("type").is_some_and(|kind| kind == "object") {
                members.entry("additionalProperties").or_insert(Json::Bool(false));
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| *item = adapted(item.take())),
        Json::String(text) => {
            if let Some(name) = text.strip_prefix(COMPONENTS) {
                *text = [DEFINITIONS, name].concat();
            }
        }
        _ => {}
    }
    schema
}
