//! Required and forbidden patterns: RULE-PREC-002, RULE-PREC-003, and with line ends RULE-PREC-011, RULE-PREC-012.

use super::candidate::{NormalizedText, RuleContext};
use super::claims::CandidateRange;
use super::findings::{FullViolation, RuleError, RuleFindings, quoted};
use super::needles::NeedleAutomaton;
use super::normalization::{NormalizedLines, normalize};
use super::result::{EvidenceFinding, EvidenceOutput};

/// How line ends in texts and patterns are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEndMode {
    /// Like any other white space.
    Space,
    /// CR LF, CR and LF are three different line ends: a pattern with LF does not match CR LF.
    Whole,
    /// CR and LF are separate characters: a pattern with CR matches the CR of CR LF.
    Characters,
}

impl LineEndMode {
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
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    line_ends: LineEndMode,
) -> Result<(), RuleError> {
    for (pattern, first_match) in found(subject, "must_find", &subject.check.expected.must_find, line_ends)? {
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

/// RULE-PREC-003, and RULE-PREC-012 with line ends: no pattern appears.
pub(super) fn must_not_find(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    line_ends: LineEndMode,
) -> Result<(), RuleError> {
    let patterns = &subject.check.expected.must_not_find;
    for (pattern, first_match) in found(subject, "must_not_find", patterns, line_ends)? {
        note(subject, findings, &pattern, first_match.as_ref());
        if let Some(CandidateRange { part, range }) = first_match {
            let pattern = pattern.replace('\r', "\\r").replace('\n', "\\n");
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

/// Each pattern, normalized unless its line ends count, with its first match in the original texts.
fn found(
    subject: &RuleContext<'_>,
    list: &str,
    given: &[String],
    line_ends: LineEndMode,
) -> Result<Vec<(String, Option<CandidateRange>)>, RuleError> {
    // a blank pattern would be found in every text
    let is_blank = |pattern: &String| pattern.trim().is_empty() && !line_ends.count_in(pattern);
    if let Some(index) = given.iter().position(is_blank) {
        return Err(RuleError(format!(
            "`{list}[{index}]` is blank; a pattern has at least one visible character"
        )));
    }
    let (with_ends, without): (Vec<&String>, Vec<&String>) =
        given.iter().partition(|pattern| line_ends.count_in(pattern));
    let without = NormalizedLines::of(without.into_iter().map(|pattern| normalize(pattern)));
    let mut matches_without = first_matches(subject.normal(), &without).into_iter();
    let mut without = without.iter().map(|(_, pattern)| pattern.to_owned());
    let mut matches_with = if with_ends.is_empty() {
        Vec::new().into_iter()
    } else {
        let marked: Vec<NormalizedText<'_>> =
            subject.texts().map(|text| NormalizedText::of(line_ends.marked(text).into())).collect();
        let patterns = with_ends.into_iter().map(|pattern| normalize(&line_ends.marked(pattern)));
        first_matches(&marked, &NormalizedLines::of(patterns)).into_iter()
    };
    let found = |pattern: &String| {
        if line_ends.count_in(pattern) {
            (pattern.clone(), matches_with.next().flatten())
        } else {
            (without.next().unwrap_or_default(), matches_without.next().flatten())
        }
    };
    Ok(given.iter().map(found).collect())
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
