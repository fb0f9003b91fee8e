//! `oraclectl rules check`.

use super::RulesError;
use super::complaint::{Evaluated, complaints};
use super::support::Sourced;
use super::wrong::Wrong;
use crate::base::error::CtlError;
use crate::base::input::{facts, facts_from, read_text, regular_file};
use crate::base::look::Look;
use crate::base::options::Options;
use crate::base::output::{count, harmless};
use hyper::Method;
use oracled_api::base::client::ClientError;
use oracled_domain::rules::{RuleId, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Maximum number of complaints shown; the rest are counted.
const COMPLAINTS_MAX: usize = 1_000;

/// Check a text against facts, and show the violations
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The text; `-` reads standard input
    file: PathBuf,

    /// The facts, one per line; blank lines are skipped
    #[arg(long, value_name = "FILE", value_parser = regular_file(), required_unless_present = "facts_from")]
    facts: Option<PathBuf>,

    /// Sources of facts: a list of {"query": …} and {"verify": …}, as in `facts_from` of a request
    #[arg(long, value_name = "FILE.json", value_parser = regular_file())]
    facts_from: Option<PathBuf>,

    /// Rules to apply instead of the configured profile
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    rules: Option<Vec<RuleId>>,
}

impl Check {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let text = read_text(&self.file)?;
        let mut request = json!({"candidate_output": text});
        let more = [
            ("facts", self.facts.as_deref().map(facts).transpose()?.map(Value::from)),
            ("facts_from", self.facts_from.as_deref().map(facts_from).transpose()?),
            ("rules", self.rules.as_ref().map(|rules| json!(rules))),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, request.as_object_mut()) {
                members.insert(name.into(), value);
            }
        }
        let body = Some(request.to_string().into());
        let answer = options.on_routes(Method::POST, "/v1/rules/evaluate", body).await?;
        let evaluated: Evaluated = answer.json()?;
        let shown = if options.json {
            writeln!(out, "{}", harmless(&String::from_utf8_lossy(&answer.body))).map_err(CtlError::from)
        } else {
            show(out, &evaluated, &answer.json()?, &text, Look::of_stdout())
        };
        // the exit status is the verdict, even if printing fails
        if evaluated.verdict == Verdict::Pass { shown } else { Err(RulesError::NoPass.into()) }
    }
}

/// Prints the complaints of `evaluation`, the evaluation of a verdict's fields.
pub(crate) fn show_of_verdict(out: &mut dyn Write, evaluation: &Value) -> Result<(), CtlError> {
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    let evaluated = Evaluated::deserialize(evaluation).map_err(unreadable)?;
    let sourced = Sourced::deserialize(evaluation).map_err(unreadable)?;
    show(out, &evaluated, &sourced, "", Look::of_stdout())
}

/// Prints the complaints of `evaluated` about `text`, and the facts of sources that support it.
fn show(
    out: &mut dyn Write,
    evaluated: &Evaluated,
    sourced: &Sourced,
    text: &str,
    look: Look,
) -> Result<(), CtlError> {
    writeln!(out, "{}", in_short(evaluated))?;
    let complaints = complaints(&evaluated.against(|_| true));
    if !complaints.is_empty() {
        let (told, omitted) = complaints.split_at(complaints.len().min(COMPLAINTS_MAX));
        let mut wrong = Wrong::new(&[], look);
        wrong.add(&[], told, omitted.len() as u64, None);
        writeln!(out)?;
        wrong.write(out)?;
    }
    sourced.show(out, text)
}

fn in_short(evaluated: &Evaluated) -> String {
    let of = |verdict| evaluated.of(verdict).count() as u64;
    let told: Vec<_> = [
        (of(Verdict::Fail), "fails", "fail"),
        (of(Verdict::Error), "ends in ERROR", "end in ERROR"),
        (of(Verdict::Pass), "passes", "pass"),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, one, several)| count(number, &format!("rule {one}"), &format!("rules {several}")))
    .collect();
    format!("{}: {}", evaluated.verdict.into_str(), told.join(", "))
}
