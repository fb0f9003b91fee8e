//! Required and forbidden patterns: RULE-PREC-002, RULE-PREC-003, and with line ends RULE-PREC-011, RULE-PREC-012.

use super::candidate::{Normal, Subject};
use super::claims::Place;
use super::findings::{Findings, RuleError, Violated, quoted};
use super::lines::Lines;
use super::needles::Needles;
use super::normal::normalize;
use super::result::{Finding, Output};

/// How line ends in texts and patterns are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// Like any other white space.
    Space,
    /// CR LF, CR and LF are three different line ends: a pattern with LF does not match CR LF.
    Whole,
    /// CR and LF are separate characters: a pattern with CR matches the CR of CR LF.
    Characters,
}

impl LineEnds {
    /// Whether `pattern` has a line end that counts.
    fn count_in(self, pattern: &str) -> bool {
        self != Self::Space && pattern.contains(['\r', '\n'])
    }

    /// `text` with control characters in place of its line ends, because normalization keeps control characters. The
    /// same control characters in `text` are replaced by another one. Every character keeps its length in bytes.
    fn marked(self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\r' if self == Self::Whole && characters.next_if_eq(&'\n').is_some() => {
                    marked.push_str("\u{1}\u{2}");
                }
                '\r' => marked.push('\u{3}'),
                '\n' => marked.push('\u{4}'),
                '\0'..='\u{4}' => marked.push('\0'),
                other => marked.push(other),
            }
        }
        marked
    }
}

/// RULE-PREC-002, and RULE-PREC-011 with line ends: every pattern appears.
pub(super) fn must_find(
    subject: &Subject<'_>,
    findings: &mut Findings,
    line_ends: LineEnds,
) -> Result<(), RuleError> {
    for (pattern, place) in found(subject, "must_find", &subject.check.expected.must_find, line_ends)? {
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

/// RULE-PREC-003, and RULE-PREC-012 with line ends: no pattern appears.
pub(super) fn must_not_find(
    subject: &Subject<'_>,
    findings: &mut Findings,
    line_ends: LineEnds,
) -> Result<(), RuleError> {
    let patterns = &subject.check.expected.must_not_find;
    for (pattern, place) in found(subject, "must_not_find", patterns, line_ends)? {
        note(subject, findings, &pattern, place.as_ref());
        if let Some(Place { part, range }) = place {
            let pattern = pattern.replace('\r', "\\r").replace('\n', "\\n");
            findings.violation(|| Violated {
                message: format!("`{}` must not be found, and is there", quoted(&pattern)),
                text: subject.text_at(part, range.clone()).to_owned(),
                span: Some(subject.span(part, range)),
                related: None,
            });
        }
    }
    Ok(())
}

fn note(subject: &Subject<'_>, findings: &mut Findings, pattern: &str, place: Option<&Place>) {
    findings.step(pattern, subject.candidate_sha256().as_str(), || Output {
        finding: if place.is_some() { Finding::Found } else { Finding::NotFound },
        span: place.map(|place| subject.span(place.part, place.range.clone())),
        ..Output::default()
    });
}

/// Each pattern, normalized unless its line ends count, with its first place in the original texts.
fn found(
    subject: &Subject<'_>,
    list: &str,
    given: &[String],
    line_ends: LineEnds,
) -> Result<Vec<(String, Option<Place>)>, RuleError> {
    // a blank pattern would be found in every text
    let is_blank = |pattern: &String| pattern.trim().is_empty() && !line_ends.count_in(pattern);
    if let Some(place) = given.iter().position(is_blank) {
        return Err(RuleError(format!(
            "`{list}[{place}]` is blank; a pattern has at least one visible character"
        )));
    }
    let (with_ends, without): (Vec<&String>, Vec<&String>) =
        given.iter().partition(|pattern| line_ends.count_in(pattern));
    let without = Lines::of(without.into_iter().map(|pattern| normalize(pattern)));
    let mut places_without = places(subject.normal(), &without).into_iter();
    let mut without = without.iter().map(|(_, pattern)| pattern.to_owned());
    let mut places_with = if with_ends.is_empty() {
        Vec::new().into_iter()
    } else {
        let marked: Vec<Normal<'_>> =
            subject.texts().map(|text| Normal::of(line_ends.marked(text).into())).collect();
        let patterns = with_ends.into_iter().map(|pattern| normalize(&line_ends.marked(pattern)));
        places(&marked, &Lines::of(patterns)).into_iter()
    };
    let found = |pattern: &String| {
        if line_ends.count_in(pattern) {
            (pattern.clone(), places_with.next().flatten())
        } else {
            (without.next().unwrap_or_default(), places_without.next().flatten())
        }
    };
    Ok(given.iter().map(found).collect())
}

/// The first place of each pattern in `texts`, as a place in the original texts.
fn places(texts: &[Normal<'_>], patterns: &Lines) -> Vec<Option<Place>> {
    let bytes: u64 = texts.iter().map(|text| text.text().len() as u64).sum();
    let worth_it = bytes.saturating_mul(patterns.len() as u64) > Needles::cost(patterns);
    let places = match worth_it.then(|| Needles::of(patterns)).flatten() {
        Some(needles) => places_by(&needles, texts, patterns),
        None => patterns.iter().map(|(_, pattern)| place(texts, pattern)).collect(),
    };
    let origin = |Place { part, range }: Place| {
        let range = texts.get(part).map_or(0..0, |text| text.origin(range));
        Place { part, range }
    };
    places.into_iter().map(|place| place.map(origin)).collect()
}

/// The first place of `pattern`.
fn place(texts: &[Normal<'_>], pattern: &str) -> Option<Place> {
    let mut texts = texts.iter().map(Normal::text).enumerate();
    texts.find_map(|(part, text)| text.find(pattern).map(|at| Place { part, range: at..at + pattern.len() }))
}

/// The first place of each pattern, found in one pass through the texts.
fn places_by(needles: &Needles, texts: &[Normal<'_>], patterns: &Lines) -> Vec<Option<Place>> {
    let mut places = vec![None; patterns.len()];
    for (part, text) in texts.iter().map(Normal::text).enumerate() {
        for (end, longest) in needles.ends(patterns, text) {
            for pattern in needles.with_shorter(longest) {
                // a pattern that was found before was noted together with all its shorter suffixes
                let Some(new @ None) = places.get_mut(pattern as usize) else { break };
                *new = Some(Place { part, range: end - patterns.get(pattern).len()..end });
            }
        }
    }
    places
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
            let texts: Vec<Normal<'_>> = texts.iter().map(|text| Normal::of(text.into())).collect();
            let patterns = Lines::normalized(&patterns);
            let each: Vec<_> = patterns.iter().map(|(_, pattern)| place(&texts, pattern)).collect();
            let needles = Needles::of(&patterns).expect("they are few");
            prop_assert_eq!(places_by(&needles, &texts, &patterns), each);
        }
    }
}
