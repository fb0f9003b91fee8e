//! Sourcing of claims: RULE-PREC-001, RULE-PREC-004, and the later rules that do the same with other claims.

use super::candidate::{RuleContext, supports};
use super::claims::{CandidateClaim, CandidateRange};
use super::comparison_form::ComparisonForm;
use super::facts::{FactSupport, SearchableFacts};
use super::findings::{FullViolation, RuleError, RuleFindings};
use super::joint_claims::{SentencePart, parts};
use super::result::{EvidenceFinding, EvidenceOutput};

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

/// RULE-PREC-005, RULE-PREC-007 with quantities, and RULE-PREC-009 with notes: the same test with sentences by
/// Unicode's boundaries, and with whole words.
pub(super) fn whole_sentences(subject: &RuleContext<'_>, findings: &mut RuleFindings, form: ComparisonForm) {
    let claim = |sentence| subject.claim(sentence, form.statement(subject.plain_at(sentence)));
    let claims: Vec<CandidateClaim> = subject.sentences().iter().filter_map(claim).collect();
    sourced_in(subject, findings, form, &claims);
}

/// RULE-PREC-006, RULE-PREC-008 with quantities, and RULE-PREC-010 with notes: the same test with the parts of those
/// sentences. A sentence that completes a note is one part.
pub(super) fn part_by_part(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    form: ComparisonForm,
) -> Result<(), RuleError> {
    let given = &subject.check.facts;
    let notes = subject.facts.notes(form, given);
    let joined = || subject.facts.joined(form, given);
    let mut claims = Vec::new();
    for sentence in subject.sentences() {
        let at = sentence.range.start;
        if let Some(notes) = notes {
            let whole = form.statement(subject.plain_at(sentence));
            if notes.support(&whole).is_some() {
                claims.extend(subject.claim(sentence, whole));
                continue;
            }
        }
        for SentencePart { range, normal } in parts(subject.plain_at(sentence), form, joined)? {
            let range_in_part =
                CandidateRange { part: sentence.part, range: at + range.start..at + range.end };
            claims.extend(subject.claim(&range_in_part, normal));
        }
    }
    sourced_in(subject, findings, form, &claims);
    Ok(())
}

/// Tests `claims` against the facts in `form`, and a claim that no fact supports against the notes.
fn sourced_in(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    form: ComparisonForm,
    claims: &[CandidateClaim],
) {
    let given = &subject.check.facts;
    let facts = subject.facts.in_form(form, given);
    let mut supports = supports(claims, facts);
    if let Some(notes) = subject.facts.notes(form, given) {
        for (claim, support) in claims.iter().zip(&mut supports) {
            *support = support.or_else(|| notes.support(&claim.normal));
        }
    }
    sourced(subject, findings, claims, &supports, facts);
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
