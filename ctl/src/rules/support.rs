//! Shows which facts of sources support a text, and the origin of each fact.

use crate::base::error::CtlError;
use crate::base::output::{format_count, format_pairs, shorten_line};
use oracled_domain::base::visible::visible_line;
use oracled_domain::rules::sourced::{FactQueryTarget, FactSource, SourcedFact, SourcedFactOrigin};
use oracled_domain::rules::{EvidenceFinding, RuleEvidence, RuleResult};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Write;

/// Maximum number of supported claims shown; the rest are counted.
const SHOWN_MAX: usize = 100;
/// Maximum length of a claim or a fact, in characters.
const TEXT_MAX_CHARS: usize = 200;

/// The parts of an evaluation that are shown.
#[derive(Deserialize)]
pub(crate) struct SourcedEvaluation {
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
