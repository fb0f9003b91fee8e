//! `oraclectl rules check`.

use super::RulesCommandError;
use super::complaint::{EvaluationSummary, merge_messages};
use super::complaint_table::ComplaintTable;
use super::support::SourcedEvaluation;
use crate::base::error::CtlError;
use crate::base::input::{read_facts, read_facts_from, read_text, regular_file_parser};
use crate::base::options::GlobalOptions;
use crate::base::output::format_count;
use crate::base::output_style::OutputStyle;
use hyper::Method;
use oracled_api::base::client::ClientError;
use oracled_domain::base::visible::visible_json;
use oracled_domain::rules::{RuleId, RuleVerdict};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Maximum number of complaints shown; the rest are counted.
const COMPLAINTS_MAX: usize = 1_000;

/// Check a text against facts, and show the violations
#[derive(Debug, clap::Args)]
pub(crate) struct RulesCheckArgs {
    /// The text; `-` reads standard input
    file: PathBuf,

    /// The facts, one per line; blank lines are skipped
    #[arg(long, value_name = "FILE", value_parser = regular_file_parser(), required_unless_present = "facts_from")]
    facts: Option<PathBuf>,

    /// Sources of facts: a list of {"query": …} and {"verify": …}, as in `facts_from` of a request
    #[arg(long, value_name = "FILE.json", value_parser = regular_file_parser())]
    facts_from: Option<PathBuf>,

    /// Rules to apply instead of the configured profile
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    rules: Option<Vec<RuleId>>,
}

impl RulesCheckArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let text = read_text(&self.file)?;
        let mut request = json!({"candidate_output": text});
        let more = [
            ("facts", self.facts.as_deref().map(read_facts).transpose()?.map(Value::from)),
            ("facts_from", self.facts_from.as_deref().map(read_facts_from).transpose()?),
            ("rules", self.rules.as_ref().map(|rules| json!(rules))),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, request.as_object_mut()) {
                members.insert(name.into(), value);
            }
        }
        let body = Some(request.to_string().into());
        let answer = options.call_routes(Method::POST, "/v1/rules/evaluate", body).await?;
        let evaluated: EvaluationSummary = answer.json()?;
        let shown = if options.json {
            writeln!(out, "{}", visible_json(&String::from_utf8_lossy(&answer.body))).map_err(CtlError::from)
        } else {
            show(out, &evaluated, &answer.json()?, &text, OutputStyle::for_stdout())
        };
        // the exit status is the verdict, even if printing fails
        if evaluated.verdict == RuleVerdict::Pass { shown } else { Err(RulesCommandError::NoPass.into()) }
    }
}

/// Prints the complaints of `evaluation`, the evaluation of a verdict's fields.
pub(crate) fn show_verdict_evaluation(out: &mut dyn Write, evaluation: &Value) -> Result<(), CtlError> {
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    let evaluated = EvaluationSummary::deserialize(evaluation).map_err(unreadable)?;
    let sourced = SourcedEvaluation::deserialize(evaluation).map_err(unreadable)?;
    show(out, &evaluated, &sourced, "", OutputStyle::for_stdout())
}

/// Prints the complaints of `evaluated` about `text`, and the facts of sources that support it.
fn show(
    out: &mut dyn Write,
    evaluated: &EvaluationSummary,
    sourced: &SourcedEvaluation,
    text: &str,
    look: OutputStyle,
) -> Result<(), CtlError> {
    writeln!(out, "{}", summarize(evaluated))?;
    let complaints = merge_messages(&evaluated.collect_messages(|_| true));
    if !complaints.is_empty() {
        let (shown, omitted) = complaints.split_at(complaints.len().min(COMPLAINTS_MAX));
        let mut table = ComplaintTable::new(&[], look);
        table.add_complaints(&[], shown, omitted.len() as u64, None);
        writeln!(out)?;
        table.write(out)?;
    }
    sourced.show(out, text)
}

fn summarize(evaluated: &EvaluationSummary) -> String {
    let of = |verdict| evaluated.with_verdict(verdict).count() as u64;
    let counts: Vec<_> = [
        (of(RuleVerdict::Fail), "fails", "fail"),
        (of(RuleVerdict::Error), "ends in ERROR", "end in ERROR"),
        (of(RuleVerdict::Pass), "passes", "pass"),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, one, several)| format_count(number, &format!("rule {one}"), &format!("rules {several}")))
    .collect();
    format!("{}: {}", evaluated.verdict.into_str(), counts.join(", "))
}
