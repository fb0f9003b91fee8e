//! How verbs print: JSON for programs, tables for people.

use super::CtlError;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// One JSON document on lines of its own.
pub(super) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), CtlError> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// A table with a heading.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    let style = TableStyle::new().header_separator(LineStyle::none().fill('─'));
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(heading);
    table.add_rows(rows);
    table.to_string()
}

/// Names and values below each other.
pub(super) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// A decision for people: what was decided, why, and on what grounds.
pub(super) fn decision(decision: &Value) -> String {
    let field = |name: &str| match decision.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let approved = decision.get("approved").and_then(Value::as_bool).unwrap_or(false);
    let flags = decision.get("flags").and_then(Value::as_array);
    let flags: Vec<_> = flags.into_iter().flatten().filter_map(Value::as_str).collect();
    pairs(&[
        ("decision", if approved { "approved".into() } else { "refused".into() }),
        ("reason", field("crosscheck_reason")),
        ("verdict", field("verdict_label")),
        ("coherence", format!("{} (threshold {})", field("coherence_score"), field("threshold"))),
        ("flags", if flags.is_empty() { "none".into() } else { flags.join(", ") }),
    ])
}
