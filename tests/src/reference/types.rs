//! The types of a JSON Schema or an OpenAPI document, in words.

use super::markdown::{anchor, code, codes, grouped, table};
use serde_json::{Map, Value};

/// The schemas that references lead to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaTypes<'a> {
    schemas: &'a Map<String, Value>,
    /// The page with a section for each type; empty for the same page.
    page: &'a str,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct SchemaField<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
}

/// The member of `schema` with this name, as text.
pub(super) fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The member of `schema` with this name, as a list.
fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A value as code, without the quotes of a text.
pub(super) fn value(value: &Value) -> String {
    code(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

impl<'a> SchemaTypes<'a> {
    pub(super) fn new(schemas: &'a Map<String, Value>, page: &'a str) -> Self {
        Self { schemas, page }
    }

    fn reference(schema: &'a Value) -> Option<&'a str> {
        schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next())
    }

    /// The schema that a reference leads to; another schema is itself.
    pub(super) fn resolve(self, schema: &'a Value) -> &'a Value {
        Self::reference(schema)
            .and_then(|name| self.schemas.get(name))
            .map_or(schema, |found| self.resolve(found))
    }

    /// The type of a schema, in words. A type with a name is a link.
    pub(super) fn words(self, schema: &'a Value) -> String {
        if let Some(name) = Self::reference(schema) {
            return format!("[{name}]({}#{})", self.page, anchor(name));
        }
        for (keyword, separator) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
            let parts = list(schema, keyword);
            if !parts.is_empty() {
                return parts.iter().map(|part| self.words(part)).collect::<Vec<_>>().join(separator);
            }
        }
        if let Some(only) = schema.get("const") {
            return value(only);
        }
        if schema.get("enum").is_some() {
            return list(schema, "enum").iter().map(value).collect::<Vec<_>>().join(", ");
        }
        match schema.get("type") {
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                kinds.map(|kind| self.one(kind, schema)).collect::<Vec<_>>().join(" or ")
            }
            Some(Value::String(kind)) => self.one(kind, schema),
            _ => "any value".into(),
        }
    }

    fn one(self, kind: &str, schema: &'a Value) -> String {
        match kind {
            "array" => {
                let items = schema.get("items").map(|items| self.words(items)).unwrap_or_default();
                format!("list of {items}")
            }
            "object" => match schema.get("additionalProperties") {
                Some(of @ Value::Object(_)) => format!("object with values of {}", self.words(of)),
                _ => "object".into(),
            },
            "string" => match (text(schema, "format"), text(schema, "pattern")) {
                ("date-time", _) => "time".into(),
                ("date", _) => "day".into(),
                (_, "") => "string".into(),
                (_, pattern) => format!("string of the form `{pattern}`"),
            },
            "integer" | "number" => match range(schema) {
                Some(range) if range != "at least 0" => format!("{kind}, {range}"),
                _ => kind.into(),
            },
            _ => kind.into(),
        }
    }

    /// The members of an object, with those of the types that it includes.
    pub(super) fn fields(self, schema: &'a Value) -> Vec<SchemaField<'a>> {
        let schema = self.resolve(schema);
        let required = list(schema, "required");
        let mut fields: Vec<SchemaField<'a>> = Vec::new();
        for part in list(schema, "allOf") {
            fields.extend(self.fields(part));
        }
        for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.iter().any(|required| required.as_str() == Some(name));
            fields.push(SchemaField { name, schema: member, is_required });
        }
        fields
    }

    /// The meaning of a member: its own description, that of the one of its forms that is not null, or that
    /// of its type.
    pub(super) fn meaning(self, schema: &'a Value) -> &'a str {
        let form = list(schema, "oneOf").iter().find(|form| form.get("$ref").is_some()).unwrap_or(schema);
        let descriptions = [schema, form, self.resolve(form)].map(|schema| text(schema, "description"));
        descriptions.into_iter().find(|description| !description.is_empty()).unwrap_or_default()
    }

    /// The table of members, without those in `left_out`.
    pub(super) fn field_table(self, schema: &'a Value, left_out: &[&str]) -> String {
        let fields = self.fields(schema).into_iter().filter(|field| !left_out.contains(&field.name));
        let rows: Vec<_> = fields
            .map(|SchemaField { name, schema, is_required }| {
                let default = schema.get("default").map(|default| format!("; default: {}", value(default)));
                let words = self.words(schema);
                // the page states that a field may be absent if its type has null
                let optional = if is_required || words.ends_with(" or null") { "" } else { "; optional" };
                let kind = format!("{words}{optional}{}", default.unwrap_or_default());
                [code(name), kind, self.meaning(schema).to_owned()]
            })
            .collect();
        table(["field", "type", "meaning"], &rows)
    }

    /// The section of a type: its meaning, and its members, variants or values.
    pub(super) fn section(self, name: &str, schema: &'a Value) -> String {
        let mut out = format!("### {name}\n\n");
        let description = text(schema, "description");
        if !description.is_empty() {
            out += &format!("{description}\n\n");
        }
        let variants = list(schema, "oneOf");
        if !variants.is_empty() {
            for variant in variants {
                out += &self.variant(variant);
            }
            return out + "\n";
        }
        let choices = list(schema, "allOf").iter().filter(|part| self.fields(part).is_empty());
        let choices: Vec<_> = choices.map(|part| self.words(part)).collect();
        if !choices.is_empty() {
            out += &format!("It also has the members of {}.\n\n", choices.join(" and "));
        }
        let fields = self.field_table(schema, &[]);
        if fields.is_empty() {
            let words = self.words(schema);
            return out + &format!("Type: {words}\n\n");
        }
        out + &fields
    }

    /// One of several forms, as an item of a list.
    fn variant(self, variant: &'a Value) -> String {
        let meaning = self.meaning(variant);
        let fields: Vec<_> = self
            .fields(variant)
            .into_iter()
            .map(|field| format!("{} ({})", code(field.name), self.words(field.schema)))
            .collect();
        let form = if fields.is_empty() || variant.get("$ref").is_some() {
            self.words(variant)
        } else {
            fields.join(", ")
        };
        if meaning.is_empty() {
            format!("- {form}\n")
        } else {
            format!("- {form}: {}\n", meaning.replace('\n', " "))
        }
    }
}

/// The allowed range of a number, in words.
pub(super) fn range(schema: &Value) -> Option<String> {
    let bound = |name: &str| {
        let bound = schema.get(name)?;
        Some(bound.as_u64().map_or_else(|| bound.to_string(), grouped))
    };
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

/// Names as code, for the values of an enumeration.
pub(super) fn names(schema: &Value) -> String {
    codes(list(schema, "enum").iter().filter_map(Value::as_str))
}
