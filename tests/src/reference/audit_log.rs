//! `audit-log.md`: every event of the audit log, from the OpenAPI document of the control socket.

use super::markdown::code;
use super::types::{SchemaTypes, text};
use serde_json::{Map, Value};

/// The page with the other types.
const API: &str = "api.md";

const INTRODUCTION: &str = "\
Each line of `oracle_log.jsonl` in the state directory is one entry: a JSON object with the fields below and those of its
event. The file mirrors the log in the database, which `oraclectl log` reads. To rotate the file, rename it and send SIGHUP.
`oraclectl log --json --after 0` recreates it from the database, 10,000 entries at a time.

An entry that a request caused has `caller`. The `request_id` in it is the `X-Request-Id` of the response, and
`oraclectl log --request ID` shows all entries of one request. An entry without `caller` comes from the daemon itself: a
schedule, a probe, the retry of a mail, an attempt of an order that waited, or a run that is resumed after a restart. If
several callers share one regeneration,
its entries name the caller whose request started it.

The text of a rejected verdict is not stored, only its SHA-256. An entry may omit a field whose type includes null.
";

/// The page for the schemas of this document.
pub(super) fn page(document: &Value) -> String {
    let none = Map::new();
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object).unwrap_or(&none);
    let types = SchemaTypes::new(schemas, API);
    let schema = |name: &str| schemas.get(name).unwrap_or(&Value::Null);
    let mut out = format!("# Audit log\n\n{}\n{INTRODUCTION}\n", super::GENERATED);
    out += &types.field_table(schema("LogEntry"), &[]);
    out += "## Events\n\n";
    let variants = schema("EventKind").get("oneOf").and_then(Value::as_array);
    for variant in variants.into_iter().flatten() {
        out += &format!(
            "### {}\n\n{}\n\n",
            code(event(types, variant)),
            text(variant, "description").trim_end()
        );
        out += &types.field_table(variant, &["event"]);
    }
    out.trim_end().to_owned() + "\n"
}

/// The name of the event of a variant.
fn event<'a>(types: SchemaTypes<'a>, variant: &'a Value) -> &'a str {
    let field = types.fields(variant).into_iter().find(|field| field.name == "event");
    let name = field.and_then(|field| field.schema.get("const").or_else(|| field.schema.pointer("/enum/0")));
    name.and_then(Value::as_str).unwrap_or_default()
}
