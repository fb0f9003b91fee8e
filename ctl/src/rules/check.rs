//! `oraclectl rules check`.

use super::RulesCommandError;
use super::complaint::{ComplaintTable, EvaluationSummary, merge_messages};
use crate::base::error::CtlError;
use crate::base::input::{read_facts, read_facts_from, read_text, regular_file_parser};
use crate::base::options::GlobalOptions;
use crate::base::output::{format_count, format_pairs, shorten_line};
use crate::base::output_style::OutputStyle;
use domain_base::visible::{visible_json, visible_line};
use domain_rules::sourced::{FactQueryTarget, FactSource, SourcedFact, SourcedFactOrigin};
use domain_rules::{EvidenceFinding, RuleEvidence, RuleId, RuleResult, RuleVerdict};
use hyper::Method;
use oracled_api::base::client::ClientError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
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

/// Maximum number of supported claims shown; the rest are counted.
const SHOWN_MAX: usize = 100;
/// Maximum length of a claim or a fact, in characters.
const TEXT_MAX_CHARS: usize = 200;

/// The parts of an evaluation that are shown.
#[derive(Deserialize)]
struct SourcedEvaluation {
    #[serde(default)]
    facts_from: Vec<FactSource>,
    rules: Vec<RuleResult>,
}

/// A claim, and the fact of a source that supports it.
struct SupportedClaim<'s> {
    claim: &'s str,
    fact: &'s SourcedFact,
    origin: &'s SourcedFactOrigin,
}

impl SourcedEvaluation {
    /// Prints each claim of `text` that a source's fact supports, with the fact and its origin, and the
    /// number of facts from each source. Prints nothing if no sources were queried.
    pub(crate) fn show(&self, out: &mut dyn Write, text: &str) -> Result<(), CtlError> {
        let supported = self.find_supported(text);
        for SupportedClaim { claim, fact, origin } in supported.iter().take(SHOWN_MAX) {
            let mut rows = vec![
                ("claim", shorten_line(claim, TEXT_MAX_CHARS)),
                ("fact", shorten_line(&fact.text, TEXT_MAX_CHARS)),
            ];
            rows.extend(origin_rows(origin));
            write!(out, "\n{}", format_pairs(&rows))?;
        }
        if let Some(more @ 1..) = supported.len().checked_sub(SHOWN_MAX) {
            writeln!(out, "\n{more} more claims are supported")?;
        }
        for (index, FactSource { facts, asked: target, warnings, .. }) in self.facts_from.iter().enumerate() {
            let before = if index == 0 { "\n" } else { "" };
            let target = format_target(target);
            writeln!(
                out,
                "{before}facts_from[{index}]: {} from {target}",
                format_count(*facts, "fact", "facts")
            )?;
            for warning in warnings {
                writeln!(out, "warning: {}", visible_line(warning))?;
            }
        }
        Ok(())
    }

    /// The supported claims, each once, even if several rules have it.
    fn find_supported<'s>(&'s self, text: &'s str) -> Vec<SupportedClaim<'s>> {
        let mut seen = BTreeSet::new();
        let steps = self.rules.iter().flat_map(|applied| &applied.evidence);
        let supported =
            steps.filter(|step| step.output.finding == EvidenceFinding::Supported).filter_map(|step| {
                let (fact, origin) = self.find_fact(step.output.fact?)?;
                let claim = claim_text(step, text);
                seen.insert((claim, fact.fact)).then_some(SupportedClaim { claim, fact, origin })
            });
        supported.collect()
    }

    /// The fact with this number, if a source returned it.
    fn find_fact(&self, number: u32) -> Option<(&SourcedFact, &SourcedFactOrigin)> {
        let mut origins = self.facts_from.iter().flat_map(|source| &source.origins);
        origins.find_map(|origin| {
            let fact = origin.facts.iter().find(|fact| fact.fact == number)?;
            Some((fact, &origin.origin))
        })
    }
}

/// The source or the workflow of facts.
pub(crate) fn format_target(target: &FactQueryTarget) -> String {
    match target {
        FactQueryTarget::Query(oracle_id) => format!("source {oracle_id}"),
        FactQueryTarget::Verify(workflow_id) => format!("workflow {workflow_id}"),
    }
}

/// The claim that a step is about: the text of its span in `text`, or, for a verdict's field, the compared text.
fn claim_text<'s>(step: &'s RuleEvidence, text: &'s str) -> &'s str {
    let span = step.output.span.as_ref().filter(|span| span.field.is_none());
    let excerpt = span.and_then(|span| text.get(span.start..span.end));
    excerpt.unwrap_or(&step.input.text).trim()
}

fn origin_rows(origin: &SourcedFactOrigin) -> Vec<(&'static str, String)> {
    let stale = |stale: bool| if stale { ", stale" } else { "" };
    match origin {
        SourcedFactOrigin::Record(record) => {
            let (source, tier) = (&record.oracle_id, record.oracle_tier.into_str());
            let text = format!("{source}, {tier}, version {}{}", record.source_version, stale(record.stale));
            vec![("source", text), ("record", record.record_id.clone())]
        }
        SourcedFactOrigin::Verification(decision) => {
            let mut rows = vec![("decision", format!("{}{}", decision.execution_id, stale(decision.stale)))];
            for (axis, records) in &decision.records {
                rows.extend(records.iter().map(|record| {
                    let version =
                        record.source_version.as_ref().map(|version| format!(", version {version}"));
                    let (source, tier) = (&record.oracle_id, record.oracle_tier.into_str());
                    ("source", format!("{source}, {tier}{}: {axis}", version.unwrap_or_default()))
                }));
            }
            rows
        }
    }
}
