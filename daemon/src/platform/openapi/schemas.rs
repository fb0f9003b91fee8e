//! The parts of schemas that utoipa does not derive.

use super::flatten::{Schemas, flatten_all};
use oracled_domain::audit::event::EventName;
use oracled_domain::audit::leaf::{CALLER, SESSION_IDS};
use serde_json::{Value, json};
use std::mem;
use strum::VariantArray;
use utoipa::openapi::schema::{ArrayItems, Object, OneOfBuilder};
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
            let has_title = |name: &&EventName| kind.title.as_deref() == Some((*name).into());
            let name = EventName::VARIANTS.iter().find(has_title);
            let erasable = name.map(|name| name.erasable_members()).unwrap_or_default();
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
