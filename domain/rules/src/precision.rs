//! Sourcing of claims: RULE-PREC-001, RULE-PREC-004.

use super::candidate::RuleContext;
use super::claims::CandidateClaim;
use super::facts::{FactSupport, SearchableFacts};
use super::findings::{FullViolation, RuleFindings};
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
