//! Pairs of opposites that must not both appear: RULE-CONT-001, its part of RULE-CONT-002, RULE-CONT-003, and what
//! RULE-CONT-004 shares with them.

use super::candidate::{Place, Subject};
use super::claims::sentence_around;
use super::findings::{Findings, Violated};
use super::normal::normalize;
use super::result::{Finding, Output};
use std::ops::Range;

/// The published pairs (seed: "Predefined Contradiction Pairs").
pub(super) const PAIRS: [(&str, &str); 10] = [
    ("always", "never"),
    ("true", "false"),
    ("increase", "decrease"),
    ("positive", "negative"),
    ("valid", "invalid"),
    ("correct", "incorrect"),
    ("success", "failure"),
    ("above", "below"),
    ("present", "absent"),
    ("enabled", "disabled"),
];

/// A pair that is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    terms: [String; 2],
    /// Where each appears first.
    places: [Option<Place>; 2],
}

/// The pairs that are asked for, and the ids that name none.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pairs: Vec<Pair>,
    unknown: Vec<String>,
}

/// Looks up what the check asks for: the pairs that its ids name, in their order, and then those of its own; and where the
/// terms appear, as substrings of the normalized texts.
pub(super) fn asked(subject: &Subject<'_>) -> Asked {
    asked_by(subject, |[one, other]| {
        [(one, other), (other, one)].map(|(term, opposite)| {
            let mut texts = subject.normal_texts().enumerate();
            texts.find_map(|(part, text)| {
                first_outside(text, term, opposite).map(|at| Place { part, range: at..at + term.len() })
            })
        })
    })
}

/// The pairs that are asked for, with the places that `find` finds for the terms of each.
pub(super) fn asked_by(subject: &Subject<'_>, find: impl Fn([&str; 2]) -> [Option<Place>; 2]) -> Asked {
    let expected = &subject.check.expected;
    let own: Vec<[String; 2]> =
        expected.contradiction_pairs.iter().map(|(one, other)| [normalize(one), normalize(other)]).collect();
    let known = || {
        PAIRS
            .iter()
            .map(|(one, other)| [*one, *other])
            .chain(own.iter().map(|[one, other]| [one.as_str(), other.as_str()]))
    };
    let mut asked = Asked::default();
    let add = |asked: &mut Asked, terms: [&str; 2]| {
        if !asked.pairs.iter().any(|pair| pair.terms == terms) {
            asked.pairs.push(Pair { terms: terms.map(String::from), places: find(terms) });
        }
    };
    for id in &expected.contradiction_ids {
        let normal = normalize(id);
        let mut named = known().filter(|terms| names(&normal, *terms)).peekable();
        if named.peek().is_none() {
            asked.unknown.push(id.clone());
        }
        named.for_each(|terms| add(&mut asked, terms));
    }
    for [one, other] in &own {
        add(&mut asked, [one, other]);
    }
    asked
}

/// Whether `id` is `one-other`, `other-one`, or either term.
fn names(id: &str, [one, other]: [&str; 2]) -> bool {
    let joined = |one: &str, other: &str| {
        id.strip_prefix(one).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| rest == other)
    };
    id == one || id == other || joined(one, other) || joined(other, one)
}

/// Where in `text` the term appears first outside every occurrence of its opposite.
pub(super) fn first_outside(text: &str, term: &str, opposite: &str) -> Option<usize> {
    // where in its opposite the term stands itself, as "valid" does in "invalid"
    let inside: Vec<usize> = occurrences(opposite, term).collect();
    let is_outside = |at: &usize| {
        !inside.iter().any(|offset| {
            let begins = at.checked_sub(*offset).and_then(|begin| text.get(begin..));
            begins.is_some_and(|rest| rest.starts_with(opposite))
        })
    };
    occurrences(text, term).find(is_outside)
}

/// Where `needle` stands in `text`, overlapping or not.
fn occurrences(text: &str, needle: &str) -> impl Iterator<Item = usize> {
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(needle)?;
        from = at + step;
        Some(at)
    })
}

/// RULE-CONT-001, and what RULE-CONT-002 has of it: of no pair both terms appear.
pub(super) fn direct_negation(subject: &Subject<'_>, findings: &mut Findings) {
    opposites(subject, findings, subject.asked(), |place| subject.origin(place));
}

/// Whether of no pair that is asked for both terms appear; `origin` leads a place back to the text as it came.
pub(super) fn opposites(
    subject: &Subject<'_>,
    findings: &mut Findings,
    asked: &Asked,
    origin: impl Fn(&Place) -> Range<usize>,
) {
    note_unknown(findings, asked);
    for Pair { terms: [one, other], places } in &asked.pairs {
        let both = both(places).map(|both| both.map(|place| (place.part, origin(place))));
        note(subject, findings, [one, other], both.as_ref());
        if let Some([first, second]) = both {
            findings.violation(|| Violated {
                message: format!("`{one}` and `{other}` are opposites, and both appear"),
                text: subject.text_at(second.0, second.1.clone()).to_owned(),
                span: Some(subject.span(second.0, second.1)),
                related: Some(subject.span(first.0, first.1)),
            });
        }
    }
}

/// RULE-CONT-003: what one sentence asserts, the same or a later one does not infirm. It reports the two sentences.
pub(super) fn assertion_then_infirmation(subject: &Subject<'_>, findings: &mut Findings) {
    let asked = subject.asked();
    note_unknown(findings, asked);
    for Pair { terms: [one, other], places } in &asked.pairs {
        let both = both(places).map(|both| both.map(|place| (place.part, subject.origin(place))));
        note(subject, findings, [one, other], both.as_ref());
        if let Some(both) = both {
            let [first, second] = both.map(|(part, place)| {
                let text = subject.texts().nth(part).unwrap_or_default();
                (part, sentence_around(text, place.start))
            });
            findings.violation(|| Violated {
                message: format!(
                    "this infirms what was asserted before: `{one}` and `{other}` are opposites"
                ),
                text: subject.text_at(second.0, second.1.clone()).to_owned(),
                span: Some(subject.span(second.0, second.1)),
                related: Some(subject.span(first.0, first.1)),
            });
        }
    }
}

/// The two places in the order of the text, where there are two.
fn both(places: &[Option<Place>; 2]) -> Option<[&Place; 2]> {
    let [Some(one), Some(other)] = places else { return None };
    let order = |place: &Place| (place.part, place.range.start);
    Some(if order(one) <= order(other) { [one, other] } else { [other, one] })
}

fn note(
    subject: &Subject<'_>,
    findings: &mut Findings,
    [one, other]: [&str; 2],
    both: Option<&[(usize, Range<usize>); 2]>,
) {
    findings.step(one, other, || Output {
        finding: if both.is_some() { Finding::BothAppear } else { Finding::NotBothAppear },
        span: both.map(|[_, (part, place)]| subject.span(*part, place.clone())),
        ..Output::default()
    });
}

fn note_unknown(findings: &mut Findings, asked: &Asked) {
    for id in &asked.unknown {
        findings.step(id, "the known pairs", || Output {
            finding: Finding::UnknownContradictionId,
            ..Output::default()
        });
    }
}
