//! Splits a text into claims: at the delimiters of the published rules, or into sentences by Unicode's boundaries
//! (UAX #29), which keep "7.8 km/s" whole, and by a list of abbreviations.

use super::normalization::normalize;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The delimiters at which the published rules split.
pub(super) const DELIMITERS: [char; 3] = ['.', '!', '?'];

/// A range of one part of the candidate, in normalized text or in text without layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateRange {
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateClaim {
    /// The index of the part of the candidate.
    pub(super) part: usize,
    /// The range in the text of the part, without surrounding white space.
    pub(super) range: Range<usize>,
    /// The normalized text; never blank.
    pub(super) normal: String,
}

/// The claims of `text`: its non-blank pieces between full stops, exclamation marks and question marks.
pub(super) fn split_claims(part: usize, text: &str) -> impl Iterator<Item = CandidateClaim> {
    text.split(DELIMITERS).filter_map(move |piece| claim(part, text, piece))
}

/// The claim in `piece`, which is a slice of `text`; `None` if it is blank.
fn claim(part: usize, text: &str, piece: &str) -> Option<CandidateClaim> {
    let trimmed = piece.trim();
    let start = trimmed.as_ptr().addr() - text.as_ptr().addr();
    let normal = normalize(trimmed);
    (!normal.is_empty()).then(|| CandidateClaim { part, range: start..start + trimmed.len(), normal })
}

/// The range between delimiters that contains byte `at` of `text`, without surrounding white space.
pub(super) fn sentence_around(text: &str, at: usize) -> Range<usize> {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.rfind(DELIMITERS).map_or(0, |at| at + 1);
    let end = after.find(DELIMITERS).map_or(text.len(), |end| at + end);
    let sentence = text.get(start..end).unwrap_or_default();
    let start = start + sentence.len() - sentence.trim_start().len();
    start..start + sentence.trim().len()
}

/// Abbreviations after which no sentence ends.
pub(super) const ABBREVIATIONS: [&str; 14] = [
    "e.g.", "E.g.", "i.e.", "I.e.", "cf.", "Cf.", "vs.", "viz.", "Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.",
];

/// Abbreviations after which no sentence ends if a digit follows and none precedes: in "5 min." it is a unit.
pub(super) const BEFORE_DIGITS: [&str; 42] = [
    "No.", "no.", "Nos.", "nos.", "Fig.", "fig.", "Figs.", "figs.", "Approx.", "approx.", "ca.", "pp.",
    "Incl.", "incl.", "Excl.", "excl.", "Max.", "max.", "Min.", "min.", "p.", "Vol.", "vol.", "Ch.", "ch.",
    "Art.", "art.", "Sec.", "sec.", "v.", "Jan.", "Feb.", "Mar.", "Apr.", "Jun.", "Jul.", "Aug.", "Sep.",
    "Sept.", "Oct.", "Nov.", "Dec.",
];

/// The maximum number of marks and spaces after a full stop that are examined to find the end of a sentence.
pub(super) const BEHIND_STOP_MAX_CHARS: usize = 64;

/// Splits `text` into consecutive sentences, including white space.
pub(super) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    for cut in cuts(text).into_iter().chain([text.len()]) {
        let pieces = text.get(from..cut).unwrap_or_default().split_sentence_bound_indices();
        for (at, piece) in pieces {
            let range = from + at..from + at + piece.len();
            match sentences.last_mut() {
                Some(last) if is_continued(text.get(last.clone()).unwrap_or_default(), piece) => {
                    last.end = range.end;
                }
                _ => sentences.push(range),
            }
        }
        from = cut;
    }
    sentences
}

/// Whether a boundary after `before` is no end of a sentence: `before` ends with an abbreviation, which `after`
/// continues.
fn is_continued(before: &str, after: &str) -> bool {
    let words = before.trim_end_matches([' ', '\t', '\u{a0}']);
    let before = |abbreviation: &str| {
        let before = words.strip_suffix(abbreviation)?;
        (!before.ends_with(|character: char| character.is_alphanumeric())).then_some(before)
    };
    let is_behind_digit =
        |before: &str| before.trim_end().ends_with(|character: char| character.is_ascii_digit());
    is_day_before_month(words, after)
        || ABBREVIATIONS.iter().any(|abbreviation| before(abbreviation).is_some())
        || after.starts_with(|character: char| character.is_ascii_digit())
            && BEFORE_DIGITS
                .iter()
                .filter_map(|abbreviation| before(abbreviation))
                .any(|before| !is_behind_digit(before))
}

/// The months of German, before which the number of a day has a full stop.
const MONTHS: [&str; 12] = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
];

/// Whether `before` ends with the number of a day and `after` begins with a month: "am 3. Februar".
fn is_day_before_month(before: &str, after: &str) -> bool {
    let Some(before) = before.strip_suffix('.') else { return false };
    let digits = before.len() - before.trim_end_matches(|last: char| last.is_ascii_digit()).len();
    (1..=2).contains(&digits) && MONTHS.iter().any(|month| after.starts_with(month))
}

/// The offsets at which `text` is cut before it is split into sentences. After a full stop, the search for a boundary
/// looks ahead from every closing mark and every space. Many of these would take quadratic time.
fn cuts(text: &str) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut rest = text.char_indices();
    while let Some((_, character)) = rest.next() {
        if !is_full_stop(character) {
            continue;
        }
        let mut tail = rest.clone();
        let (mut passed, mut spaced) = (0, false);
        while let Some((at, character)) = tail.next() {
            // Unicode's boundaries alone do not begin a sentence with a number
            if spaced && character.is_ascii_digit() {
                cuts.push(at);
            }
            if !is_skipped_after_stop(character) {
                break;
            }
            spaced |= character.is_whitespace();
            passed += 1;
            if passed > BEHIND_STOP_MAX_CHARS {
                cuts.push(at);
                break;
            }
            rest = tail.clone();
        }
    }
    cuts
}

/// Whether `character` is an ATerm of UAX #29.
const fn is_full_stop(character: char) -> bool {
    matches!(character, '.' | '\u{2024}' | '\u{fe52}' | '\u{ff0e}')
}

/// Whether the sentence may still end after `character`, which follows a full stop: it is a closing mark or a space, or
/// belongs to the previous character.
fn is_skipped_after_stop(character: char) -> bool {
    match character {
        ' ' | '\t' => true,
        _ if character.is_ascii_alphanumeric() || is_full_stop(character) => false,
        // uses the boundaries themselves: before a letter without case, a sentence ends as soon as possible
        _ => {
            let probe = String::from_iter(['.', character, 'あ']);
            let end = probe.split_sentence_bounds().next().map_or(0, str::len);
            end == 1 + character.len_utf8()
        }
    }
}
