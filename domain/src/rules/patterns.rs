//! What must and must not stand in the text: RULE-PREC-002 and RULE-PREC-003.

use super::candidate::Subject;
use super::claims::Place;
use super::findings::{Findings, RuleError, Violated, quoted};
use super::lines::Lines;
use super::needles::Needles;
use super::result::{Finding, Output};

/// RULE-PREC-002: every pattern appears.
pub(super) fn must_find(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), RuleError> {
    let patterns = patterns("must_find", &subject.check.expected.must_find)?;
    for ((_, pattern), place) in patterns.iter().zip(places(subject, &patterns)) {
        note(subject, findings, pattern, place.as_ref());
        if place.is_none() {
            findings.violation(|| Violated {
                message: "this pattern must be found, and is not there".into(),
                text: pattern.to_owned(),
                span: None,
                related: None,
            });
        }
    }
    Ok(())
}

/// RULE-PREC-003: no pattern appears.
pub(super) fn must_not_find(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), RuleError> {
    let patterns = patterns("must_not_find", &subject.check.expected.must_not_find)?;
    for ((_, pattern), place) in patterns.iter().zip(places(subject, &patterns)) {
        note(subject, findings, pattern, place.as_ref());
        if let Some(place) = place {
            let range = subject.origin(&place);
            findings.violation(|| Violated {
                message: format!("`{}` must not be found, and is there", quoted(pattern)),
                text: subject.text_at(place.part, range.clone()).to_owned(),
                span: Some(subject.span(place.part, range)),
                related: None,
            });
        }
    }
    Ok(())
}

fn note(subject: &Subject<'_>, findings: &mut Findings, pattern: &str, place: Option<&Place>) {
    findings.step(pattern, subject.candidate_sha256().as_str(), || Output {
        finding: if place.is_some() { Finding::Found } else { Finding::NotFound },
        span: place.map(|place| subject.span(place.part, subject.origin(place))),
        ..Output::default()
    });
}

/// The patterns, normalized.
fn patterns(list: &str, patterns: &[String]) -> Result<Lines, RuleError> {
    let patterns = Lines::normalized(patterns);
    // a blank pattern is found in every text, and says nothing
    if let Some((place, _)) = patterns.iter().find(|(_, pattern)| pattern.is_empty()) {
        return Err(RuleError(format!(
            "`{list}[{place}]` is blank; a pattern has at least one visible character"
        )));
    }
    Ok(patterns)
}

/// Where each pattern appears first.
fn places(subject: &Subject<'_>, patterns: &Lines) -> Vec<Option<Place>> {
    let bytes: u64 = subject.texts().map(|text| text.len() as u64).sum();
    let worth_it = bytes.saturating_mul(patterns.len() as u64) > Needles::cost(patterns);
    match worth_it.then(|| Needles::of(patterns)).flatten() {
        Some(needles) => places_by(&needles, subject, patterns),
        None => patterns.iter().map(|(_, pattern)| place(subject, pattern)).collect(),
    }
}

/// Where `pattern` appears first.
fn place(subject: &Subject<'_>, pattern: &str) -> Option<Place> {
    let mut texts = subject.normal_texts().enumerate();
    texts.find_map(|(part, text)| text.find(pattern).map(|at| Place { part, range: at..at + pattern.len() }))
}

/// Where each pattern appears first, by one pass through the texts.
fn places_by(needles: &Needles, subject: &Subject<'_>, patterns: &Lines) -> Vec<Option<Place>> {
    let mut places = vec![None; patterns.len()];
    for (part, text) in subject.normal_texts().enumerate() {
        for (end, longest) in needles.ends(patterns, text) {
            for pattern in needles.with_shorter(longest) {
                // one that was found has been found with all that it ends with
                let Some(new @ None) = places.get_mut(pattern as usize) else { break };
                *new = Some(Place { part, range: end - patterns.get(pattern).len()..end });
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::{Candidate, Check, FactSet};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn one_pass_finds_what_a_search_for_each_pattern_finds(
            patterns in prop::collection::vec("[ab]{1,4}|[aéß\u{1}]{1,3}|a{1,20}", 1..30),
            texts in prop::collection::vec("[abé ]{0,60}|[aß\u{1}]{0,20}|a{0,30}", 1..4),
        ) {
            let candidate = Candidate::fields(texts.iter().map(|text| ("field", text.as_str())));
            let (check, facts) = (Check::default(), FactSet::compile(&[]));
            let subject = Subject::new(&candidate, &check, &facts, 0);
            let patterns = Lines::normalized(&patterns);
            let each: Vec<_> = patterns.iter().map(|(_, pattern)| place(&subject, pattern)).collect();
            let needles = Needles::of(&patterns).expect("they are few");
            prop_assert_eq!(places_by(&needles, &subject, &patterns), each);
        }
    }
}
