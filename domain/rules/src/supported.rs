//! RULE-PREC-013, supported claims: each part of each sentence is stated by one part of one fact.
//!
//! A part is supported if its subject, its content words, its quantities, its polarity, and how far and under which
//! conditions it holds are those of a fact. The order of the words, light inflection and function words do not count. What
//! the rule cannot decide fails.

#[cfg(test)]
mod tests;

use crate::candidate::RuleContext;
use crate::claims::CandidateRange;
use crate::findings::{FullViolation, RuleError, RuleFindings};
use crate::result::{EvidenceFinding, EvidenceOutput};
use crate::statements::{EXAMINED_MAX, FactParts, Part, Sentence, TextReader};

use std::iter;
use std::ops::Range;

/// The check of a candidate.
struct ClaimCheck<'c, 'a> {
    context: &'c RuleContext<'a>,
    facts: &'c FactParts,
    /// The parts of facts that may still be examined.
    left: usize,
    unsupported: u64,
    /// The part, the range and the message of each claim without support.
    violations: Vec<(usize, Range<usize>, String)>,
}

/// Checks that every part of the candidate is supported by one part of one fact.
pub(crate) fn supported_claims(
    context: &RuleContext<'_>,
    findings: &mut RuleFindings,
) -> Result<(), RuleError> {
    let language = context.check.tables().map_err(|error| RuleError(format!("the word list: {error}")))?;
    let parts = context.facts.parts(context.check);
    let facts = parts.get_or_init(|| FactParts::of(&context.check.facts, language));
    let mut check = ClaimCheck { context, facts, left: EXAMINED_MAX, unsupported: 0, violations: Vec::new() };
    let mut reader = TextReader::new(language);
    let (mut previous_part, mut headings) = (None, Vec::new());
    // "The plan includes:", which each item of the list after it continues
    let mut lead = String::new();
    for within in context.sentences() {
        if previous_part != Some(within.part) {
            reader = TextReader::new(language);
            headings = context.headings(within.part);
            previous_part = Some(within.part);
        }
        let text = context.plain_at(within);
        let origin = context.plain_origin(within.part, within.range.clone());
        if text.contains(char::is_alphanumeric) && !is_in(&headings, origin.start) {
            if !context.is_list_item(within.part, origin.start) {
                lead.clear();
            }
            let mut sentence = reader.read(&format!("{lead}{text}"));
            if let Some(before) = text.trim_end().strip_suffix(':')
                && sentence.parts.iter().any(|part| part.has_verb)
                && context.is_list_item(
                    within.part,
                    context.plain_origin(within.part, within.range.end..within.range.end + 1).start,
                )
            {
                let what =
                    before.trim_start().split_once(' ').filter(|(what, _)| matches!(*what, "What" | "Was"));
                lead = format!("{} ", what.map_or(before, |(_, rest)| rest));
                continue;
            }
            sentence.remove_lead(lead.len());
            check.check_sentence(within, &sentence, findings);
        }
    }
    let ClaimCheck { unsupported, violations, .. } = check;
    context.count_unsupported(unsupported);
    if unsupported > context.unsupported_max {
        for (part, range, message) in violations {
            findings.violation(|| FullViolation {
                message,
                text: context.text_at(part, range.clone()).to_owned(),
                span: Some(context.span(part, range)),
                related: None,
            });
        }
    }
    Ok(())
}

impl ClaimCheck<'_, '_> {
    fn check_sentence(&mut self, within: &CandidateRange, sentence: &Sentence, findings: &mut RuleFindings) {
        let (context, text) = (self.context, self.context.plain_at(within));
        let origin = context.plain_origin(within.part, within.range.clone());
        if let Some(fact) = self.facts.verbatim.get(&sentence.verbatim) {
            findings.step(text.trim(), context.fact_text(*fact), || EvidenceOutput {
                fact: Some(*fact),
                finding: EvidenceFinding::Supported,
                span: Some(context.span(within.part, origin.clone())),
                ..EvidenceOutput::default()
            });
            return;
        }
        if sentence.parts.is_empty() {
            self.unsupported += 1;
            self.violations.push((within.part, origin, "no claim can be read in it".to_owned()));
        }
        let named = sentence.named.iter().map(Some).chain(iter::repeat(None));
        for (part, named) in sentence.parts.iter().zip(named) {
            self.check_part(within, part, named, findings);
        }
    }

    /// Checks `part`; `named` is the same part with full names.
    fn check_part(
        &mut self,
        within: &CandidateRange,
        part: &Part,
        named: Option<&Part>,
        findings: &mut RuleFindings,
    ) {
        let (context, text) = (self.context, self.context.plain_at(within));
        let start = within.range.start;
        let origin = context.plain_origin(within.part, start + part.range.start..start + part.range.end);
        let mut support = |part: &Part| {
            let found = self.facts.find(part, &mut self.left);
            let comparisons = found.iter().flat_map(|(_, comparisons)| comparisons);
            let faults =
                comparisons.filter(|comparison| comparison.result.is_fault()).map(ToString::to_string);
            let faults: Vec<String> = part.undecidable.map(str::to_owned).into_iter().chain(faults).collect();
            (found.is_some() && faults.is_empty(), found, faults)
        };
        let literal = support(part);
        let named = named.filter(|_| !literal.0).map(support).filter(|named| named.0);
        let (is_supported, found, faults) = named.unwrap_or(literal);
        let fact = found.as_ref().map(|(fact, _)| fact.fact);
        let with = fact.map_or("", |fact| context.fact_text(fact));
        let span = context.span(within.part, origin.clone());
        findings.step(text.get(part.range.clone()).unwrap_or_default(), with, || EvidenceOutput {
            comparisons: found.map(|(_, comparisons)| comparisons).unwrap_or_default(),
            fact,
            finding: if is_supported { EvidenceFinding::Supported } else { EvidenceFinding::Unsupported },
            span: Some(span),
            ..EvidenceOutput::default()
        });
        if !is_supported {
            self.unsupported += 1;
            let message = match fact {
                Some(fact) => {
                    format!("no fact supports it; the nearest is fact {fact}: {}", faults.join("; "))
                }
                None => "no fact supports it, and none has a word of it".to_owned(),
            };
            self.violations.push((within.part, origin, message));
        }
    }
}

/// Whether one of `ranges`, which are sorted, has `at`.
fn is_in(ranges: &[Range<usize>], at: usize) -> bool {
    let before = ranges.partition_point(|range| range.start <= at);
    before.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|range| range.contains(&at))
}
