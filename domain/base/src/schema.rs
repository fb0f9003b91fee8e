//! JSON Schemas of the types that implement [`utoipa::ToSchema`].

use serde_json::{Map, Value as Json, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

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
