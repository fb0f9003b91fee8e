//! Where claims come from: RULE-PREC-001 and RULE-PREC-004.

use super::candidate::Subject;
use super::findings::{Findings, Violated};
use super::result::{Finding, Output};

/// RULE-PREC-001: no more claims without support than are allowed.
pub(super) fn unsupported_claims(subject: &Subject<'_>, findings: &mut Findings) {
    note_blank_facts(subject, findings);
    let (claims, unsupported) = (subject.claims().len() as u64, unsupported(subject));
    for text in subject.texts() {
        findings.step(text, ". ! ?", || Output {
            count: Some(claims),
            finding: Finding::Claims,
            ..Output::default()
        });
    }
    let facts = format!("{} facts, {}", subject.facts.len(), subject.facts.sha256());
    findings.step(&format!("{claims} claims"), &facts, || Output {
        count: Some(unsupported),
        finding: Finding::Unsupported,
        ..Output::default()
    });
    let over = unsupported > subject.unsupported_max;
    findings.step(&unsupported.to_string(), &subject.unsupported_max.to_string(), || Output {
        finding: if over { Finding::OverThreshold } else { Finding::WithinThreshold },
        ..Output::default()
    });
    if over {
        note_unsupported(subject, findings);
    }
}

/// RULE-PREC-004: the same test stated per claim; the evidence names the fact that each claim comes from.
pub(super) fn fact_sourcing(subject: &Subject<'_>, findings: &mut Findings) {
    note_blank_facts(subject, findings);
    for (claim, support) in subject.claims().iter().zip(subject.supports()) {
        let span = || Some(subject.span(claim.part, claim.range.clone()));
        match support {
            Some(support) => findings.step(&claim.normal, subject.facts.normal(support.fact), || Output {
                direction: Some(support.direction),
                fact: Some(support.fact),
                finding: Finding::Supported,
                span: span(),
                ..Output::default()
            }),
            None => findings.step(&claim.normal, subject.facts.sha256().as_str(), || Output {
                finding: Finding::Unsupported,
                span: span(),
                ..Output::default()
            }),
        }
    }
    if unsupported(subject) > subject.unsupported_max {
        note_unsupported(subject, findings);
    }
}

/// How many claims are without support.
fn unsupported(subject: &Subject<'_>) -> u64 {
    subject.supports().iter().filter(|support| support.is_none()).count() as u64
}

fn note_blank_facts(subject: &Subject<'_>, findings: &mut Findings) {
    for fact in subject.facts.blank() {
        findings.step("", "", || Output {
            fact: Some(fact),
            finding: Finding::BlankFact,
            ..Output::default()
        });
    }
}

fn note_unsupported(subject: &Subject<'_>, findings: &mut Findings) {
    let claims = subject.claims().iter().zip(subject.supports());
    for (claim, _) in claims.filter(|(_, support)| support.is_none()) {
        findings.violation(|| Violated {
            message: "no fact supports this claim".into(),
            text: subject.text_at(claim.part, claim.range.clone()).to_owned(),
            span: Some(subject.span(claim.part, claim.range.clone())),
            related: None,
        });
    }
}
