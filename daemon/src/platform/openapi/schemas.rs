//! The parts of schemas that utoipa does not derive.

use domain_audit::leaf::{CALLER, SESSION_IDS};
use oracled_domain::events::event_type;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::mem;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, ArrayItems, Object, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};

/// Corrects what utoipa derives, and adds what it does not.
pub(super) fn complete(schemas: &mut Schemas) {
    name_page_items(schemas);
    flatten_all(schemas);
    schemas.values_mut().for_each(title_forms);
    require_alternatives(schemas);
    allow_hidden_values(schemas);
}

/// Allows a hash in place of each value of a log entry that can be erased or withheld.
fn allow_hidden_values(schemas: &mut Schemas) {
    if let Some(RefOr::T(Schema::OneOf(kinds))) = schemas.get_mut("EventKind") {
        for kind in &mut kinds.items {
            let RefOr::T(Schema::Object(kind)) = kind else { continue };
            let erasable = kind.title.as_deref().and_then(event_type).map_or(&[][..], |kind| kind.erasable);
            for member in erasable.iter().chain(&SESSION_IDS) {
                allow_hidden_value(kind, member);
            }
        }
    }
    if let Some(RefOr::T(Schema::AllOf(entry))) = schemas.get_mut("LogEntry") {
        for part in &mut entry.items {
            if let RefOr::T(Schema::Object(part)) = part {
                for member in SESSION_IDS.into_iter().chain([CALLER]) {
                    allow_hidden_value(part, member);
                }
            }
        }
    }
}

fn allow_hidden_value(object: &mut Object, member: &str) {
    let hidden = Ref::from_schema_name("HiddenValue");
    match object.properties.get_mut(member) {
        Some(RefOr::T(Schema::OneOf(choice))) => choice.items.push(hidden.into()),
        Some(value) => {
            // it describes the member in both forms
            let description = match value {
                RefOr::T(Schema::Object(object)) => object.description.take(),
                RefOr::T(Schema::Array(list)) => list.description.take(),
                _ => None,
            };
            let choice = OneOfBuilder::new().item(value.clone()).item(hidden).description(description);
            *value = Schema::OneOf(choice.build()).into();
        }
        None => {}
    }
}

/// Makes a schema of its own of the items of each page: utoipa describes them within the page.
fn name_page_items(schemas: &mut Schemas) {
    let mut items = Schemas::new();
    for (page_name, page) in schemas.iter_mut() {
        if let Some(name) = page_name.strip_prefix("ListPage_")
            && let RefOr::T(Schema::Object(page)) = page
            && let Some(RefOr::T(Schema::Array(list))) = page.properties.get_mut("items")
            && let ArrayItems::RefOrSchema(item) = &mut list.items
        {
            items.insert(name.to_owned(), mem::replace(item, Ref::from_schema_name(name).into()));
        }
    }
    schemas.extend(items);
}

/// Gives a title to each form of a choice, for generated clients.
fn title_forms(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(choice)) = schema else { return };
    for form in &mut choice.items {
        if let RefOr::T(Schema::Object(form)) = form
            && form.title.is_none()
        {
            form.title = form_name(form);
        }
    }
}

/// The name of a form: the only value of the form or of its tag, or the name of its only member.
fn form_name(form: &Object) -> Option<String> {
    let only_value = |object: &Object| match object.enum_values.as_deref() {
        Some([Value::String(value)]) => Some(value.clone()),
        _ => None,
    };
    let tag = form.properties.values().find_map(|member| match member {
        RefOr::T(Schema::Object(member)) => only_value(member),
        _ => None,
    });
    let only_member = form.properties.keys().next().filter(|_| form.properties.len() == 1);
    only_value(form).or(tag).or_else(|| only_member.cloned())
}

/// Declares that a request has one of two members: at least one, or at most one.
fn require_alternatives(schemas: &mut Schemas) {
    let any = |one: &str, other: &str| ("anyOf", json!([{"required": [one]}, {"required": [other]}]));
    let not_both = |one: &str, other: &str| ("not", json!({"required": [one, other]}));
    for (name, conditions) in [
        ("CrosscheckRequest", vec![any("verdict", "raw"), not_both("verdict", "raw")]),
        ("SubmitVerdictRequest", vec![not_both("verdict", "raw")]),
        ("EvaluateTextRequest", vec![any("facts", "facts_from")]),
    ] {
        if let Some(RefOr::T(Schema::Object(request))) = schemas.get_mut(name) {
            // utoipa has neither keyword for an object, and writes extensions as they are
            request.extensions = Some(conditions.into_iter().collect());
        }
    }
}

/// The schemas of a document, by their names.
pub(super) type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Replaces combinations of objects by one object, and closes objects without members.
///
/// utoipa describes a struct with a flattened field as `allOf` both. If one of them denies unknown fields, no
/// value is valid for both.
fn flatten_all(schemas: &mut Schemas) {
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
            for part in mem::take(&mut parts.items) {
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
