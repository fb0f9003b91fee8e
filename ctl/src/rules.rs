//! `oraclectl rules`.

pub mod check;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{OutputStyle, format_pairs, format_table, print_json, write_section};
use crate::base::program::{ProgramArgs, examples};
pub(crate) use check::show_verdict_evaluation;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle};
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_rules::RuleId;
use hyper::Method;
use oracled_api::client::DaemonResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show the rules for text, check a text, or evaluate test cases
#[derive(Debug, clap::Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    action: RulesAction,
}

#[derive(Debug, clap::Subcommand)]
enum RulesAction {
    /// Show all rules
    List,
    #[command(after_help = examples(&["oraclectl rules show RULE-PREC-013"]))]
    Show(RulesShowArgs),
    #[command(after_help = examples(&["oraclectl rules check text.txt --facts facts.txt", "oraclectl rules check text.txt --facts-from sources.json --rules RULE-PREC-013", "oraclectl rules check text.txt --facts facts.txt --rules RULE-PREC-013 --wordlist clinic"]))]
    Check(check::RulesCheckArgs),
    #[command(after_help = examples(&["oraclectl rules eval cases.ndjson"]))]
    Eval(RulesEvalArgs),
}

/// Evaluate test cases through the daemon, and show the cases with an unexpected result
///
/// A case is an evaluation request that can have three more members, which are not sent: `category` and
/// `note` (text), and `want` (`{"verdict", "failed"?}`, where `failed` lists the rules that must fail).
/// Without `want`, the expected verdict is PASS. If a line is not a case, it is reported, the other lines are
/// still evaluated, and the exit status is 5.
#[derive(Debug, clap::Args)]
pub struct RulesEvalArgs {
    /// The cases, one `{"candidate_output", "facts", …}` object per line; `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
}

impl ProgramArgs for RulesEvalArgs {
    const PROGRAM: &'static str = "oraclectl-rules-eval";

    fn arguments(&self) -> Vec<&OsStr> {
        vec![self.file.as_os_str()]
    }
}

/// An error of `oraclectl rules`. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum RulesCommandError {
    /// A text does not pass the rules. The reason was printed.
    #[error("the verdict is not PASS")]
    NoPass,
    /// The daemon has another version, without this rule.
    #[error("the daemon has no rule {0}")]
    NoSuchRule(RuleId),
    /// Some cases do not have the expected result. They were printed.
    #[error("not all cases have the expected result")]
    UnexpectedResults,
    /// The daemon failed on some cases. They were printed.
    #[error("the daemon could not evaluate {}", format_count(*.0, "case", "cases"))]
    NotEvaluated(u64),
    /// Some lines are not cases. They were printed.
    #[error("{file}: {}", format_count(*.lines, "line is not a case", "lines are not cases"))]
    NoCases {
        /// The file, as given on the command line.
        file: String,
        /// Number of these lines.
        lines: u64,
    },
    /// The file has only blank lines, or none.
    #[error(
        "{file} has no case; a file of cases has one {{\"candidate_output\", \"facts\", …}} object per line, \
         at least one"
    )]
    Empty {
        /// The file, as given on the command line.
        file: String,
    },
    /// Results cannot be printed. The remaining cases were not evaluated.
    #[error("cannot print: {0}")]
    Output(io::Error),
}

impl RulesCommandError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::UnexpectedResults | Self::NoPass | Self::NoSuchRule(_) => 1,
            Self::NotEvaluated(_) => 4,
            Self::NoCases { .. } | Self::Empty { .. } | Self::Output(_) => 5,
        }
    }
}

impl From<RulesCommandError> for CtlError {
    fn from(error: RulesCommandError) -> Self {
        let was_printed = matches!(error, RulesCommandError::UnexpectedResults | RulesCommandError::NoPass);
        Self::Verb { message: error.to_string(), exit_code: error.exit_code(), was_printed }
    }
}

impl RulesArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            RulesAction::List => list(options, out).await,
            RulesAction::Show(show) => show.run(options, out).await,
            RulesAction::Check(check) => check.run(options, out).await,
            RulesAction::Eval(eval) => eval.start(options),
        }
    }
}

/// The rules, as the daemon lists them.
#[derive(Deserialize)]
struct RuleList {
    rules: Vec<ListedRule>,
    unsupported_max: u64,
}

#[derive(Deserialize, Serialize)]
struct ListedRule {
    check_type: String,
    description: String,
    id: String,
    invariant: String,
    parameters: Map<String, Value>,
    version: String,
    sha256: String,
    in_profile: bool,
}

impl ListedRule {
    const fn in_profile(&self) -> &'static str {
        if self.in_profile { "yes" } else { "no" }
    }
}

async fn fetch_rules(options: &GlobalOptions) -> Result<DaemonResponse, CtlError> {
    options.call_routes(Method::GET, "/v1/rules", None).await
}

async fn list(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = fetch_rules(options).await?;
    if options.json {
        return print_json(out, &answer.json::<Value>()?);
    }
    let RuleList { rules, unsupported_max } = answer.json()?;
    let rows = rules.into_iter().map(|rule| {
        let in_profile = rule.in_profile().to_owned();
        [rule.id, rule.invariant, in_profile, rule.description]
    });
    writeln!(out, "{}", format_table(["id", "invariant", "in profile", "description"], rows.collect()))?;
    Ok(writeln!(out, "\nClaims allowed without support: {unsupported_max} (unsupported_max)")?)
}

/// Show one rule with all its parameters
#[derive(Debug, clap::Args)]
struct RulesShowArgs {
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
