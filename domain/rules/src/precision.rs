//! Sourcing of claims, and required and forbidden patterns: RULE-PREC-001 to RULE-PREC-004.

use super::candidate::{NormalizedText, RuleContext};
use super::claims::{CandidateClaim, CandidateRange};
use super::facts::{FactSupport, SearchableFacts};
use super::needles::NeedleAutomaton;
use super::normalization::NormalizedLines;
use super::result::{EvidenceFinding, EvidenceOutput, FullViolation, RuleError, RuleFindings, quoted};

/// RULE-PREC-001: at most the allowed number of claims has no support.
pub(super) fn unsupported_claims(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    let (claims, unsupported) = (subject.claims().len() as u64, unsupported(subject, subject.supports()));
    for text in subject.texts() {
        findings.step(text, ". ! ?", || EvidenceOutput {
            count: Some(claims),
            finding: EvidenceFinding::Claims,
            ..EvidenceOutput::default()
        });
    }
    let facts = format!("facts: {}, {}", subject.facts.len(), subject.facts.sha256());
    let claims = format!("claims: {claims}, {}", subject.candidate_sha256());
    findings.step(&claims, &facts, || EvidenceOutput {
        count: Some(unsupported),
        finding: EvidenceFinding::Unsupported,
        ..EvidenceOutput::default()
    });
    let over = unsupported > subject.unsupported_max;
    findings.step(&unsupported.to_string(), &subject.unsupported_max.to_string(), || EvidenceOutput {
        finding: if over { EvidenceFinding::OverThreshold } else { EvidenceFinding::WithinThreshold },
        ..EvidenceOutput::default()
    });
    if over {
        note_unsupported(subject, findings, subject.claims(), subject.supports());
    }
    note_blank_facts(findings, subject.facts.published_form());
}

/// RULE-PREC-004: the same test for each claim; the evidence names the fact that supports the claim.
pub(super) fn fact_sourcing(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    sourced(subject, findings, subject.claims(), subject.supports(), subject.facts.published_form());
}

/// Checks that at most the allowed number of `claims` is without a supporting fact.
fn sourced(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    claims: &[CandidateClaim],
    supports: &[Option<FactSupport>],
    facts: &SearchableFacts,
) {
    for (claim, support) in claims.iter().zip(supports) {
        let span = || Some(subject.span(claim.part, claim.range.clone()));
        match support {
            Some(support) => findings.step(&claim.normal, facts.normal(support.fact), || EvidenceOutput {
                direction: Some(support.direction),
                fact: Some(support.fact),
                finding: EvidenceFinding::Supported,
                span: span(),
                ..EvidenceOutput::default()
            }),
            None => findings.step(&claim.normal, facts.sha256().as_str(), || EvidenceOutput {
                finding: EvidenceFinding::Unsupported,
                span: span(),
                ..EvidenceOutput::default()
            }),
        }
    }
    if unsupported(subject, supports) > subject.unsupported_max {
        note_unsupported(subject, findings, claims, supports);
    }
    note_blank_facts(findings, facts);
}

/// The number of claims without support, which is also recorded for the metrics.
fn unsupported(subject: &RuleContext<'_>, supports: &[Option<FactSupport>]) -> u64 {
    let unsupported = supports.iter().filter(|support| support.is_none()).count() as u64;
    subject.count_unsupported(unsupported);
    unsupported
}

fn note_blank_facts(findings: &mut RuleFindings, facts: &SearchableFacts) {
    for fact in facts.blank() {
        findings.step("", "", || EvidenceOutput {
            fact: Some(fact),
            finding: EvidenceFinding::BlankFact,
            ..EvidenceOutput::default()
        });
    }
}

fn note_unsupported(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    claims: &[CandidateClaim],
    supports: &[Option<FactSupport>],
) {
    for (claim, _) in claims.iter().zip(supports).filter(|(_, support)| support.is_none()) {
        findings.violation(|| FullViolation {
            message: "no fact supports this claim".into(),
            text: subject.text_at(claim.part, claim.range.clone()).to_owned(),
            span: Some(subject.span(claim.part, claim.range.clone())),
            related: None,
        });
    }
}

/// RULE-PREC-002: every pattern appears.
pub(super) fn must_find(subject: &RuleContext<'_>, findings: &mut RuleFindings) -> Result<(), RuleError> {
    for (pattern, first_match) in found(subject, "must_find", &subject.check.expected.must_find)? {
        note(subject, findings, &pattern, first_match.as_ref());
        if first_match.is_none() {
            findings.violation(|| FullViolation {
                message: "this pattern must be found, and is not there".into(),
                text: pattern,
                span: None,
                related: None,
            });
        }
    }
    Ok(())
}

/// RULE-PREC-003: no pattern appears.
pub(super) fn must_not_find(subject: &RuleContext<'_>, findings: &mut RuleFindings) -> Result<(), RuleError> {
    let patterns = &subject.check.expected.must_not_find;
    for (pattern, first_match) in found(subject, "must_not_find", patterns)? {
        note(subject, findings, &pattern, first_match.as_ref());
        if let Some(CandidateRange { part, range }) = first_match {
            findings.violation(|| FullViolation {
                message: format!("`{}` must not be found, and is there", quoted(&pattern)),
                text: subject.text_at(part, range.clone()).to_owned(),
                span: Some(subject.span(part, range)),
                related: None,
            });
        }
    }
    Ok(())
}

fn note(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    pattern: &str,
    first_match: Option<&CandidateRange>,
) {
    findings.step(pattern, subject.candidate_sha256().as_str(), || EvidenceOutput {
        finding: if first_match.is_some() { EvidenceFinding::Found } else { EvidenceFinding::NotFound },
        span: first_match.map(|first_match| subject.span(first_match.part, first_match.range.clone())),
        ..EvidenceOutput::default()
    });
}

/// Each pattern, normalized, with its first match in the original texts.
fn found(
    subject: &RuleContext<'_>,
    list: &str,
    given: &[String],
) -> Result<Vec<(String, Option<CandidateRange>)>, RuleError> {
    // a blank pattern would be found in every text
    if let Some(index) = given.iter().position(|pattern| pattern.trim().is_empty()) {
        return Err(RuleError(format!(
            "`{list}[{index}]` is blank; a pattern has at least one visible character"
        )));
    }
    let patterns = NormalizedLines::normalized(given);
    let matches = first_matches(subject.normal(), &patterns);
    Ok(patterns.iter().map(|(_, pattern)| pattern.to_owned()).zip(matches).collect())
}

/// The first match of each pattern in `texts`, as a range of the original texts.
fn first_matches(texts: &[NormalizedText<'_>], patterns: &NormalizedLines) -> Vec<Option<CandidateRange>> {
    let bytes: u64 = texts.iter().map(|text| text.text().len() as u64).sum();
    let worth_it = bytes.saturating_mul(patterns.len() as u64) > NeedleAutomaton::cost(patterns);
    let first_matches = match worth_it.then(|| NeedleAutomaton::of(patterns)).flatten() {
        Some(needles) => first_matches_by(&needles, texts, patterns),
        None => patterns.iter().map(|(_, pattern)| first_match(texts, pattern)).collect(),
    };
    let origin = |CandidateRange { part, range }: CandidateRange| {
        let range = texts.get(part).map_or(0..0, |text| text.origin(range));
        CandidateRange { part, range }
    };
    first_matches.into_iter().map(|first_match| first_match.map(origin)).collect()
}

/// The first match of `pattern`.
fn first_match(texts: &[NormalizedText<'_>], pattern: &str) -> Option<CandidateRange> {
    let mut texts = texts.iter().map(NormalizedText::text).enumerate();
    texts.find_map(|(part, text)| {
        text.find(pattern).map(|at| CandidateRange { part, range: at..at + pattern.len() })
    })
}

/// The first match of each pattern, found in one pass through the texts.
fn first_matches_by(
    needles: &NeedleAutomaton,
    texts: &[NormalizedText<'_>],
    patterns: &NormalizedLines,
) -> Vec<Option<CandidateRange>> {
    let mut first_matches = vec![None; patterns.len()];
    for (part, text) in texts.iter().map(NormalizedText::text).enumerate() {
        for (end, longest) in needles.ends(patterns, text) {
            for pattern in needles.with_shorter(longest) {
                // a pattern that was found before was noted together with all its shorter suffixes
                let Some(new @ None) = first_matches.get_mut(pattern as usize) else { break };
                *new = Some(CandidateRange { part, range: end - patterns.get(pattern).len()..end });
            }
        }
    }
    first_matches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn places_by_needles_equal_single_pattern_searches(
            patterns in prop::collection::vec("[ab]{1,4}|[aéß\u{1}]{1,3}|a{1,20}", 1..30),
            texts in prop::collection::vec("[abé ]{0,60}|[aß\u{1}]{0,20}|a{0,30}", 1..4),
        ) {
            let texts: Vec<NormalizedText<'_>> = texts.iter().map(|text| NormalizedText::of(text.into())).collect();
            let patterns = NormalizedLines::normalized(&patterns);
            let each: Vec<_> = patterns.iter().map(|(_, pattern)| first_match(&texts, pattern)).collect();
            let needles = NeedleAutomaton::of(&patterns).expect("the needles are few");
            prop_assert_eq!(first_matches_by(&needles, &texts, &patterns), each);
        }
    }
}
