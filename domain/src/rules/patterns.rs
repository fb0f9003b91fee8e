//! What must and must not stand in the text: RULE-PREC-002 and RULE-PREC-003.

use super::candidate::{Place, Subject};
use super::findings::{Findings, RuleError, Violated};
use super::normal::normalize;
use super::result::{Finding, Output};

/// RULE-PREC-002: every pattern appears.
pub(super) fn must_find(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), RuleError> {
    for (pattern, place) in found(subject, "must_find", &subject.check.expected.must_find)? {
        note(subject, findings, &pattern, place.as_ref());
        if place.is_none() {
            findings.violation(|| Violated {
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
pub(super) fn must_not_find(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), RuleError> {
    for (pattern, place) in found(subject, "must_not_find", &subject.check.expected.must_not_find)? {
        note(subject, findings, &pattern, place.as_ref());
        if let Some(place) = place {
            let range = subject.origin(&place);
            findings.violation(|| Violated {
                message: format!("`{pattern}` must not be found, and is there"),
                text: subject.text_at(place.part, range.clone()).to_owned(),
                span: Some(subject.span(place.part, range)),
                related: None,
            });
        }
    }
    Ok(())
}

fn note(subject: &Subject<'_>, findings: &mut Findings, pattern: &str, place: Option<&Place>) {
    findings.step(pattern, "the candidate", || Output {
        finding: if place.is_some() { Finding::Found } else { Finding::NotFound },
        span: place.map(|place| subject.span(place.part, subject.origin(place))),
        ..Output::default()
    });
}

/// Every pattern, normalized, with the place where it appears first.
fn found(
    subject: &Subject<'_>,
    list: &str,
    patterns: &[String],
) -> Result<Vec<(String, Option<Place>)>, RuleError> {
    let patterns: Vec<String> = patterns.iter().map(|pattern| normalize(pattern)).collect();
    // a blank pattern is found in every text, and says nothing
    if let Some(place) = patterns.iter().position(String::is_empty) {
        return Err(RuleError(format!(
            "`{list}[{place}]` is blank; a pattern has at least one visible character"
        )));
    }
    let place = |pattern: &str| {
        let mut texts = subject.normal_texts().enumerate();
        texts.find_map(|(part, text)| {
            text.find(pattern).map(|at| Place { part, range: at..at + pattern.len() })
        })
    };
    Ok(patterns
        .into_iter()
        .map(|pattern| {
            let place = place(&pattern);
            (pattern, place)
        })
        .collect())
}
