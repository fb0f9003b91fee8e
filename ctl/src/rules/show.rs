//! `oraclectl rules show`.

use super::{Listed, ListedRule, RulesError, listed};
use crate::base::error::CtlError;
use crate::base::look::{Look, section};
use crate::base::options::Options;
use crate::base::output::{json, on_one_line, pairs};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle};
use oracled_domain::rules::RuleId;
use serde_json::{Map, Value};
use std::io::Write;

/// Show one rule with all its parameters
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The rule
    id: RuleId,
}

impl Show {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let Listed { rules, .. } = listed(options).await?.json()?;
        let rule = rules.into_iter().find(|rule| rule.id == self.id.into_str());
        let rule = rule.ok_or(RulesError::NoSuchRule(self.id))?;
        if options.json { json(out, &rule) } else { show(out, rule, Look::of_stdout()) }
    }
}

fn show(out: &mut dyn Write, rule: ListedRule, look: Look) -> Result<(), CtlError> {
    let parameters = table(&rule.parameters, look);
    let in_profile = rule.in_profile().to_owned();
    let head = [
        ("rule", rule.id),
        ("description", rule.description),
        ("invariant", rule.invariant),
        ("check", rule.check_type),
        ("version", rule.version),
        ("in profile", in_profile),
        ("SHA-256", rule.sha256),
    ];
    write!(out, "{}", pairs(&head))?;
    Ok(section(out, "Parameters", &parameters)?)
}

/// Names and values, as wide as the terminal.
fn table(parameters: &Map<String, Value>, look: Look) -> Table {
    let mut rows = Vec::new();
    collect("", parameters, &mut rows);
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_width(look.width);
    let arrangement = if look.is_whole { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
    table.set_content_arrangement(arrangement).add_rows(rows);
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Adds a row for each member; the name of a nested member is its path.
fn collect(within: &str, members: &Map<String, Value>, rows: &mut Vec<[String; 2]>) {
    for (name, value) in members {
        let name = format!("{within}{name}");
        match value {
            Value::Object(members) => collect(&format!("{name}."), members, rows),
            Value::String(text) => rows.push([on_one_line(&name), on_one_line(text)]),
            Value::Array(values) if values.iter().any(Value::is_array) => {
                let lines: Vec<_> = values.iter().map(readable).collect();
                rows.push([on_one_line(&name), lines.join("\n")]);
            }
            other => rows.push([on_one_line(&name), readable(other)]),
        }
    }
}

/// A value on one line; a list without its outer brackets.
fn readable(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(", "),
        other => written(other),
    }
}

/// A value as JSON. White space other than a plain space is escaped, so that it can be seen.
fn written(value: &Value) -> String {
    if value.is_array() {
        return format!("[{}]", readable(value));
    }
    let mut shown = String::new();
    for character in on_one_line(&value.to_string()).chars() {
        if character.is_whitespace() && character != ' ' {
            shown += &format!("\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_rows_by_path_with_escaped_white_space() {
        let parameters = serde_json::json!({
            "delimiters": [".", "\u{a0}", "\u{1b}"],
            "mode": "whole words",
            "pairs": [["always", ["never", "not ever"]], ["true", 7]],
            "quantities": {"separators": {"none": []}, "digits_max": 64},
        });
        let mut rows = Vec::new();
        collect("", parameters.as_object().unwrap(), &mut rows);
        let expected = [
            ["delimiters", r#"".", "\u00a0", "\u001b""#],
            ["mode", "whole words"],
            ["pairs", "\"always\", [\"never\", \"not ever\"]\n\"true\", 7"],
            ["quantities.digits_max", "64"],
            ["quantities.separators.none", ""],
        ];
        assert_eq!(rows, expected);
        let shown = table(parameters.as_object().unwrap(), Look::new(60, false));
        assert!(
            shown.lines().count() == 7 && shown.lines().all(|line| line.chars().count() <= 60),
            "{shown}"
        );
    }
}
