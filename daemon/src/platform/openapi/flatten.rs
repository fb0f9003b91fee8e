//! Replaces combinations of objects by one object.
//!
//! utoipa describes a struct with a flattened field as `allOf` both. If one of them denies unknown fields, no
//! value is valid for both.

use std::collections::BTreeMap;
use utoipa::openapi::schema::{AdditionalProperties, AllOf, Object, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

/// The schemas of a document, by their names.
pub(super) type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Flattens every schema in `schemas`, and closes objects without members.
pub(super) fn flatten_all(schemas: &mut Schemas) {
    let all = schemas.clone();
    for schema in schemas.values_mut() {
        flatten(schema, &all);
        close(schema);
    }
}

/// Declares that objects without members have no members, in `schema` and in its parts.
fn close(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            let is_object = object.schema_type == SchemaType::Type(Type::Object);
            if is_object && object.properties.is_empty() && object.additional_properties.is_none() {
                object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            object.properties.values_mut().for_each(close);
        }
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Merges all objects that `schema` combines. A choice between forms stays as it is, without closed objects.
fn flatten(schema: &mut RefOr<Schema>, all: &Schemas) {
    match schema {
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter_mut().for_each(|form| flatten(form, all)),
        RefOr::T(Schema::AllOf(parts)) => {
            let mut object = Object::default();
            let mut others = Vec::new();
            for part in std::mem::take(&mut parts.items) {
                merge(part, all, &mut object, &mut others);
            }
            object.description = parts.description.take();
            if others.is_empty() {
                *schema = RefOr::T(Schema::Object(object));
            } else {
                let mut combined = AllOf::new();
                combined.description = object.description.take();
                others.push(RefOr::T(Schema::Object(object)));
                combined.items = others;
                *schema = RefOr::T(Schema::AllOf(combined));
            }
        }
        _ => {}
    }
}

/// Adds the members of `part` to `object`. A part that is not an object is added to `others`.
fn merge(part: RefOr<Schema>, all: &Schemas, object: &mut Object, others: &mut Vec<RefOr<Schema>>) {
    let resolved = match &part {
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
            all.get(name).cloned()
        }
        RefOr::T(_) => Some(part.clone()),
    };
    match resolved {
        Some(RefOr::T(Schema::Object(inner))) if inner.enum_values.is_none() => {
            object.properties.extend(inner.properties);
            object.required.extend(inner.required);
        }
        Some(RefOr::T(Schema::AllOf(inner))) => {
            for part in inner.items {
                merge(part, all, object, others);
            }
        }
        _ => others.push(part),
    }
}
