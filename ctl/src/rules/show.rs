//! `oraclectl rules show`.

use super::{ListedRule, RuleList, RulesCommandError, fetch_rules};
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_pairs, print_json};
use crate::base::output_style::{OutputStyle, write_section};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle};
use domain_base::visible::visible_line;
use domain_rules::RuleId;
use serde_json::{Map, Value};
use std::io::Write;

/// Show one rule with all its parameters
#[derive(Debug, clap::Args)]
pub(crate) struct RulesShowArgs {
    /// The rule
    id: RuleId,
}

impl RulesShowArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let RuleList { rules, .. } = fetch_rules(options).await?.json()?;
        let rule = rules.into_iter().find(|rule| rule.id == self.id.into_str());
        let rule = rule.ok_or(RulesCommandError::NoSuchRule(self.id))?;
        if options.json { print_json(out, &rule) } else { show(out, rule, OutputStyle::for_stdout()) }
    }
}

fn show(out: &mut dyn Write, rule: ListedRule, look: OutputStyle) -> Result<(), CtlError> {
    let parameters = parameter_table(&rule.parameters, look);
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
    write!(out, "{}", format_pairs(&head))?;
    Ok(write_section(out, "Parameters", &parameters)?)
}

/// Names and values, as wide as the terminal.
fn parameter_table(parameters: &Map<String, Value>, look: OutputStyle) -> Table {
    let mut rows = Vec::new();
    collect_rows("", parameters, &mut rows);
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
fn collect_rows(within: &str, members: &Map<String, Value>, rows: &mut Vec<[String; 2]>) {
    for (name, value) in members {
        let name = format!("{within}{name}");
        let shown = |text: &str| visible_line(text).into_owned();
        match value {
            Value::Object(members) => collect_rows(&format!("{name}."), members, rows),
            Value::String(text) => rows.push([shown(&name), shown(text)]),
            Value::Array(values) if values.iter().any(Value::is_array) => {
                let lines: Vec<_> = values.iter().map(format_value).collect();
                rows.push([shown(&name), lines.join("\n")]);
            }
            other => rows.push([shown(&name), format_value(other)]),
        }
    }
}

/// A value on one line; a list without its outer brackets.
fn format_value(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(format_json).collect::<Vec<_>>().join(", "),
        other => format_json(other),
    }
}

/// A value as JSON. White space other than a plain space is escaped, so that it can be seen.
fn format_json(value: &Value) -> String {
    if value.is_array() {
        return format!("[{}]", format_value(value));
    }
    let mut shown = String::new();
    for character in visible_line(&value.to_string()).chars() {
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
        collect_rows("", parameters.as_object().unwrap(), &mut rows);
        let expected = [
            ["delimiters", r#"".", "\u00a0", "\u001b""#],
            ["mode", "whole words"],
            ["pairs", "\"always\", [\"never\", \"not ever\"]\n\"true\", 7"],
            ["quantities.digits_max", "64"],
            ["quantities.separators.none", ""],
        ];
        assert_eq!(rows, expected);
        let shown = parameter_table(parameters.as_object().unwrap(), OutputStyle::new(60, false));
        assert!(
            shown.lines().count() == 7 && shown.lines().all(|line| line.chars().count() <= 60),
            "{shown}"
        );
    }
}
