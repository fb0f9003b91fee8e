//! RULE-PREC-013, supported claims: each part of each sentence is stated by one part of one fact.
//!
//! A part is supported if one part of a fact has the same subject, words, quantities, negations, qualifiers and conditions in the
//! same positions. Verbs are compared without their endings; most function words are ignored. A part that the rule cannot decide
//! fails. With `derive`, a quantity may follow from two facts.

#[cfg(test)]
mod tests;

use crate::candidate::RuleContext;
use crate::claims::CandidateRange;
use crate::result::{ClaimComparison, EvidenceFinding, EvidenceOutput};
use crate::result::{FullViolation, RuleError, RuleFindings};
use crate::statements::{Derivation, EXAMINED_MAX, FactParts, Part, Sentence, read_text};

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

/// How far the facts support a part of a claim.
#[derive(Default)]
struct Support {
    /// The fact that supports it, or the nearest one.
    fact: Option<u32>,
    /// The second fact of a calculation.
    derived_with: Option<u32>,
    comparisons: Vec<ClaimComparison>,
    faults: Vec<String>,
}

impl Support {
    const fn is_supported(&self) -> bool {
        self.fact.is_some() && self.faults.is_empty()
    }
}

/// Checks that every part of the candidate is supported by one part of one fact.
pub(crate) fn supported_claims(
    context: &RuleContext<'_>,
    findings: &mut RuleFindings,
) -> Result<(), RuleError> {
    let language = context.check.tables().map_err(|error| RuleError(format!("the word list: {error}")))?;
    let parts = context.facts.parts(context.check);
    let facts = parts.get_or_init(|| FactParts::of(&context.check.facts, language));
    let (left, violations) = (EXAMINED_MAX, Vec::new());
    let mut check = ClaimCheck { context, facts, left, unsupported: 0, violations };
    for (part, plain) in context.plain().iter().enumerate() {
        read_text(plain, language, |range, sentence| {
            check.check_sentence(&CandidateRange { part, range }, &sentence, findings);
        });
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
    fn support(&mut self, part: &Part) -> Support {
        let found = self.facts.find(part, &mut self.left);
        let (fact, comparisons) =
            found.map_or((None, Vec::new()), |(fact, comparisons)| (Some(fact.fact), comparisons));
        let compared = comparisons.iter().filter(|comparison| comparison.result.is_fault());
        let joined =
            (part.is_joined || part.shares_words).then(|| "no fact has the whole sentence".to_owned());
        let undecidable = part.undecidable.map(str::to_owned);
        let is_open = fact.is_none() || comparisons.iter().any(|comparison| comparison.result.is_fault());
        let exhausted =
            (self.left == 0 && is_open).then(|| format!("more than {EXAMINED_MAX} comparisons are needed"));
        let named = compared.map(ToString::to_string);
        let faults = undecidable.into_iter().chain(exhausted).chain(joined).chain(named).collect();
        let support = Support { fact, derived_with: None, comparisons, faults };
        if support.is_supported() || !self.context.check.derive {
            return support;
        }
        let derived = self.facts.derive(part, &mut self.left);
        derived.map_or(support, |Derivation { facts: [fact, other], comparison }| Support {
            fact: Some(fact),
            derived_with: Some(other),
            comparisons: vec![comparison],
            faults: Vec::new(),
        })
    }

    fn check_sentence(&mut self, within: &CandidateRange, sentence: &Sentence, findings: &mut RuleFindings) {
        let context = self.context;
        let text = sentence.composed.as_deref().unwrap_or_else(|| context.plain_at(within));
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
            self.violations.push((within.part, origin, "the sentence has no claim".to_owned()));
        }
        // a fact may have the whole sentence
        if let Some(whole) = &sentence.whole {
            let support = self.support(whole);
            if support.is_supported() {
                return self.report(within, sentence, whole, support, findings);
            }
        }
        // the same parts with full names
        let named = sentence.named.iter().map(Some).chain(iter::repeat(None));
        for (part, named) in sentence.parts.iter().zip(named) {
            let literal = self.support(part);
            let named = named.filter(|_| !literal.is_supported());
            let named = named.map(|named| self.support(named)).filter(Support::is_supported);
            self.report(within, sentence, part, named.unwrap_or(literal), findings);
        }
    }

    fn report(
        &mut self,
        within: &CandidateRange,
        sentence: &Sentence,
        part: &Part,
        support: Support,
        findings: &mut RuleFindings,
    ) {
        let (context, start) = (self.context, within.range.start);
        let text = context.plain_at(within).get(part.range.clone()).unwrap_or_default();
        let text = sentence.composed.as_deref().unwrap_or(text);
        let origin = context.plain_origin(within.part, start + part.range.start..start + part.range.end);
        let is_supported = support.is_supported();
        let Support { fact, derived_with, comparisons, faults } = support;
        let with = fact.map_or("", |fact| context.fact_text(fact));
        let span = context.span(within.part, origin.clone());
        findings.step(text, with, || EvidenceOutput {
            comparisons,
            derived_with,
            fact,
            finding: if is_supported { EvidenceFinding::Supported } else { EvidenceFinding::Unsupported },
            span: Some(span),
            ..EvidenceOutput::default()
        });
        if !is_supported {
            self.unsupported += 1;
            let message = match fact {
                Some(fact) => {
                    format!(
                        "no fact supports this claim; the nearest is fact {fact} (from 0): {}",
                        faults.join("; ")
                    )
                }
                None => match faults.as_slice() {
                    [] => "no fact supports this claim; no fact was near enough to compare".to_owned(),
                    faults => format!("no fact supports this claim: {}", faults.join("; ")),
                },
            };
            self.violations.push((within.part, origin, message));
        }
    }
}
