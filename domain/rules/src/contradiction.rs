//! Pairs of opposites that must not both appear: RULE-CONT-001, its part of RULE-CONT-002, and RULE-CONT-003, by whole words and
//! their inflections.

use super::candidate::RuleContext;
use super::claims::{CandidateRange, sentence_around};
use super::normalization::normalize;
use super::opposite_pairs::{OppositePair, PAIRS, RequestedPairs};
use super::result::{EvidenceFinding, EvidenceOutput};
use super::result::{FullViolation, RuleFindings};
use std::ops::Range;

/// The requested pairs: those named by ids, in their order, then the check's own; with the places of their terms as
/// substrings of the normalized texts.
pub(super) fn requested_pairs<'s>(subject: &'s RuleContext<'_>) -> &'s RequestedPairs {
    let find = |[one, other]: [&str; 2]| {
        [(one, other), (other, one)].map(|(term, opposite)| {
            let mut texts = subject.normal_texts().enumerate();
            texts.find_map(|(part, text)| {
                first_outside(text, term, opposite)
                    .map(|at| CandidateRange { part, range: at..at + term.len() })
            })
        })
    };
    subject.requested_pairs(|| find_requested_pairs(subject, find))
}

/// The requested pairs, with the places that `find` returns for the terms of each.
fn find_requested_pairs(
    subject: &RuleContext<'_>,
    find: impl Fn([&str; 2]) -> [Option<CandidateRange>; 2],
) -> RequestedPairs {
    let expected = &subject.check.expected;
    let own: Vec<[String; 2]> =
        expected.contradiction_pairs.iter().map(|(one, other)| [normalize(one), normalize(other)]).collect();
    let known = || {
        PAIRS
            .iter()
            .map(|(one, other)| [*one, *other])
            .chain(own.iter().map(|[one, other]| [one.as_str(), other.as_str()]))
    };
    let mut requested = RequestedPairs::default();
    let add = |requested: &mut RequestedPairs, terms: [&str; 2]| {
        let [one, other] = terms;
        // a pair and its reverse are the same pair
        if !requested.pairs.iter().any(|pair| pair.terms == [one, other] || pair.terms == [other, one]) {
            requested.pairs.push(OppositePair { terms: terms.map(String::from), places: find(terms) });
        }
    };
    for id in &expected.contradiction_ids {
        let normal = normalize(id);
        let mut named = known().filter(|terms| is_pair_id(&normal, *terms)).peekable();
        if named.peek().is_none() {
            requested.unknown.push(id.clone());
        }
        named.for_each(|terms| add(&mut requested, terms));
    }
    for [one, other] in &own {
        add(&mut requested, [one, other]);
    }
    requested
}

/// Whether `id` is `one-other`, `other-one`, or either term.
fn is_pair_id(id: &str, [one, other]: [&str; 2]) -> bool {
    let joined = |one: &str, other: &str| {
        id.strip_prefix(one).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| rest == other)
    };
    id == one || id == other || joined(one, other) || joined(other, one)
}

/// The offset of the first occurrence of `term` in `text` outside of every occurrence of its opposite.
fn first_outside(text: &str, term: &str, opposite: &str) -> Option<usize> {
    let first = text.find(term)?;
    // for example, "invalid" contains "valid"
    if !opposite.contains(term) {
        return Some(first);
    }
    let mut opposites = occurrences(text, opposite).peekable();
    let mut covered = 0;
    occurrences(text, term).find(|at| {
        // the last of the opposites that begin at or before `at` also ends last
        while let Some(begin) = opposites.next_if(|begin| begin <= at) {
            covered = begin + opposite.len();
        }
        at + term.len() > covered
    })
}

/// The offsets of `needle` in `text`, overlapping or not, in linear time (Knuth, Morris and Pratt, 1977).
fn occurrences(text: &str, needle: &str) -> impl Iterator<Item = usize> {
    let needle = needle.as_bytes();
    // for each prefix, the length of its longest proper suffix that is also a prefix
    let mut borders = vec![0];
    for byte in needle.iter().skip(1) {
        borders.push(matched(needle, &borders, borders.last().copied().unwrap_or(0), *byte));
    }
    let mut matched_bytes = 0;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        matched_bytes = matched(needle, &borders, matched_bytes, byte);
        (matched_bytes == needle.len()).then(|| at + 1 - matched_bytes)
    })
}

/// The number of bytes of `needle` that are matched after `byte`, if `matched_bytes` matched before.
fn matched(needle: &[u8], borders: &[usize], mut matched_bytes: usize, byte: u8) -> usize {
    while needle.get(matched_bytes) != Some(&byte) {
        match matched_bytes.checked_sub(1).and_then(|last| borders.get(last)) {
            Some(border) => matched_bytes = *border,
            None => return 0,
        }
    }
    matched_bytes + 1
}

/// RULE-CONT-001: the two terms of a pair must not both appear.
pub(super) fn direct_negation(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    negations(subject, findings);
    note_unknown(findings, requested_pairs(subject));
}

/// RULE-CONT-001 without the notes about unknown ids, which RULE-CONT-002 adds itself.
pub(super) fn negations(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    opposites(subject, findings, requested_pairs(subject), |range| subject.origin(range));
}

/// Checks that the two terms of a requested pair do not both appear; `origin` maps a place to the range in the original
/// text.
pub(super) fn opposites(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    requested: &RequestedPairs,
    origin: impl Fn(&CandidateRange) -> Range<usize>,
) {
    for OppositePair { terms: [one, other], places } in &requested.pairs {
        let both = sort_ranges(places).map(|both| both.map(|range| (range.part, origin(range))));
        note(subject, findings, [one, other], both.as_ref());
        if let Some([first, second]) = both {
            findings.violation(|| FullViolation {
                message: format!("`{one}` and `{other}` are opposites, and both appear"),
                text: subject.text_at(second.0, second.1.clone()).to_owned(),
                span: Some(subject.span(second.0, second.1)),
                related: Some(subject.span(first.0, first.1)),
            });
        }
    }
}

/// RULE-CONT-003: a sentence must not contradict an assertion in itself or in an earlier sentence. It reports the two
/// sentences.
pub(super) fn assertion_then_infirmation(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    let requested = requested_pairs(subject);
    for OppositePair { terms: [one, other], places } in &requested.pairs {
        let both = sort_ranges(places).map(|both| both.map(|range| (range.part, subject.origin(range))));
        note(subject, findings, [one, other], both.as_ref());
        if let Some(both) = both {
            let [first, second] = both.map(|(part, range)| {
                let text = subject.texts().nth(part).unwrap_or_default();
                (part, sentence_around(text, range.start))
            });
            findings.violation(|| FullViolation {
                message: format!(
                    "this infirms what was asserted before: `{one}` and `{other}` are opposites"
                ),
                text: subject.text_at(second.0, second.1.clone()).to_owned(),
                span: Some(subject.span(second.0, second.1)),
                related: Some(subject.span(first.0, first.1)),
            });
        }
    }
    note_unknown(findings, requested);
}

/// The two places in the order of the text; `None` unless both exist.
fn sort_ranges(places: &[Option<CandidateRange>; 2]) -> Option<[&CandidateRange; 2]> {
    let [Some(one), Some(other)] = places else { return None };
    let order = |range: &CandidateRange| (range.part, range.range.start);
    Some(if order(one) <= order(other) { [one, other] } else { [other, one] })
}

fn note(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    [one, other]: [&str; 2],
    both: Option<&[(usize, Range<usize>); 2]>,
) {
    let pair = serde_json::to_string(&[one, other]).expect("two texts serialize");
    findings.step(&pair, subject.candidate_sha256().as_str(), || EvidenceOutput {
        finding: if both.is_some() { EvidenceFinding::BothAppear } else { EvidenceFinding::NotBothAppear },
        span: both.map(|[_, (part, range)]| subject.span(*part, range.clone())),
        ..EvidenceOutput::default()
    });
}

/// Notes the ids that match no pair.
pub(super) fn note_unknown(findings: &mut RuleFindings, requested: &RequestedPairs) {
    for id in &requested.unknown {
        findings.step(id, "the known pairs", || EvidenceOutput {
            finding: EvidenceFinding::UnknownContradictionId,
            ..EvidenceOutput::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_outside_skips_terms_within_their_opposites(
            text in "[ab]{0,24}", term in "[ab]{1,4}", opposite in "[ab]{1,6}",
        ) {
            let stands = |needle: &str, at: usize| text[at..].starts_with(needle);
            let holds = |begin: usize, at: usize| {
                stands(&opposite, begin) && begin <= at && at + term.len() <= begin + opposite.len()
            };
            let is_outside = |at: &usize| stands(&term, *at) && !(0..text.len()).any(|begin| holds(begin, *at));
            prop_assert_eq!(first_outside(&text, &term, &opposite), (0..text.len()).find(is_outside));
        }
    }
}
