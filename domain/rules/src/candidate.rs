//! The candidate of a check: one text, or the texts of one verdict.

use super::check::CandidateCheck;
use super::claims::{CandidateClaim, CandidateRange, sentences, split_claims};
use super::fact_set::FactSet;
use super::facts::{FactSupport, SearchableFacts};
use super::normalization::{OriginOffsets, normalize};
use super::opposite_pairs::RequestedPairs;
use super::plain_text::{HEADING, PlainText, QUOTE, is_line_end};
use super::result::{CandidateSpan, EvaluationMetrics, RuleResult, RuleVerdict};
use super::table::{TableRow, table_rows};
use domain_base::digest::Sha256Hex;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::Range;

/// One text of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidatePart<'a> {
    /// The field of the verdict; `None` if the candidate is one text.
    pub field: Option<&'a str>,
    pub text: &'a str,
}

/// The text to check. The texts of a verdict are split into claims separately. A pattern may be found in any of them,
/// and they must not contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateText<'a>(Vec<CandidatePart<'a>>);

impl<'a> CandidateText<'a> {
    #[must_use]
    pub fn text(text: &'a str) -> Self {
        Self(vec![CandidatePart { field: None, text }])
    }

    /// Several texts, by the fields of a verdict.
    #[must_use]
    pub fn fields(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(fields.into_iter().map(|(field, text)| CandidatePart { field: Some(field), text }).collect())
    }

    /// The names of its fields; `None` if it is one text.
    pub(super) fn field_names(&self) -> Option<Vec<&'a str>> {
        match self.0.as_slice() {
            [CandidatePart { field: None, .. }] => None,
            parts => Some(parts.iter().map(|part| part.field.unwrap_or_default()).collect()),
        }
    }

    /// The SHA-256 of the text; for several texts, of their JSON object by field.
    fn sha256(&self) -> Sha256Hex {
        match self.0.as_slice() {
            [CandidatePart { field: None, text }] => Sha256Hex::of(text.as_bytes()),
            parts => {
                let fields = parts.iter().map(|part| (part.field.unwrap_or_default(), part.text));
                Sha256Hex::of_json(&fields.collect::<std::collections::BTreeMap<_, _>>())
            }
        }
    }
}

/// A text with its normalized form.
#[derive(Debug)]
pub(super) struct NormalizedText<'a> {
    source: Cow<'a, str>,
    text: String,
    /// Created at the first match.
    origins: OnceCell<OriginOffsets>,
}

impl<'a> NormalizedText<'a> {
    pub(super) fn of(source: Cow<'a, str>) -> Self {
        Self { text: normalize(&source), source, origins: OnceCell::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The range of the original text that became `range` of the normalized text.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        self.origins.get_or_init(|| OriginOffsets::of(&self.source)).range(&self.source, range)
    }
}

pub(super) fn supports(claims: &[CandidateClaim], facts: &SearchableFacts) -> Vec<Option<FactSupport>> {
    let claims: Vec<&str> = claims.iter().map(|claim| claim.normal.as_str()).collect();
    facts.supports(&claims)
}

/// A candidate and its check, as input of the rules. Data that several rules use is computed once.
#[derive(Debug)]
pub(super) struct RuleContext<'a> {
    pub(super) check: &'a CandidateCheck,
    pub(super) facts: &'a FactSet,
    pub(super) unsupported_max: u64,
    candidate: &'a CandidateText<'a>,
    parts: &'a [CandidatePart<'a>],
    sha256: OnceCell<Sha256Hex>,
    normal: OnceCell<Vec<NormalizedText<'a>>>,
    claims: OnceCell<Vec<CandidateClaim>>,
    plain: OnceCell<Vec<PlainText<'a>>>,
    sentences: OnceCell<Vec<CandidateRange>>,
    supports: OnceCell<Vec<Option<FactSupport>>>,
    requested_pairs: OnceCell<RequestedPairs>,
    unsupported_claims: Cell<u64>,
}

impl<'a> RuleContext<'a> {
    pub(super) fn new(
        candidate: &'a CandidateText<'a>,
        check: &'a CandidateCheck,
        facts: &'a FactSet,
        unsupported_max: u64,
    ) -> Self {
        let (sha256, normal, claims, plain) = Default::default();
        let (sentences, supports, requested_pairs) = Default::default();
        let parts = &candidate.0;
        Self {
            check,
            facts,
            unsupported_max,
            candidate,
            parts,
            sha256,
            normal,
            claims,
            plain,
            sentences,
            supports,
            requested_pairs,
            unsupported_claims: Cell::new(0),
        }
    }

    /// The SHA-256 of the candidate.
    pub(super) fn candidate_sha256(&self) -> &Sha256Hex {
        self.sha256.get_or_init(|| self.candidate.sha256())
    }

    /// The original texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.parts.iter().map(|part| part.text)
    }

    /// The normalized texts.
    pub(super) fn normal_texts(&self) -> impl Iterator<Item = &str> {
        self.normal().iter().map(NormalizedText::text)
    }

    /// The texts with their normalized forms.
    pub(super) fn normal(&self) -> &[NormalizedText<'a>] {
        self.normal.get_or_init(|| self.texts().map(|text| NormalizedText::of(text.into())).collect())
    }

    /// The claims, split as the published rules do.
    pub(super) fn claims(&self) -> &[CandidateClaim] {
        let split = || self.texts().enumerate().flat_map(|(part, text)| split_claims(part, text)).collect();
        self.claims.get_or_init(split)
    }

    /// The texts without their layout.
    pub(super) fn plain(&self) -> &[PlainText<'a>] {
        self.plain.get_or_init(|| self.texts().map(PlainText::of).collect())
    }

    /// The sentences by Unicode's boundaries, of the texts without their layout.
    pub(super) fn sentences(&self) -> &[CandidateRange] {
        let ranges = |(part, plain): (usize, &PlainText<'_>)| {
            sentences(plain.text()).into_iter().map(move |range| CandidateRange { part, range })
        };
        self.sentences.get_or_init(|| self.plain().iter().enumerate().flat_map(ranges).collect())
    }

    /// The text of a range without layout.
    pub(super) fn plain_at(&self, CandidateRange { part, range }: &CandidateRange) -> &str {
        self.plain().get(*part).and_then(|plain| plain.text().get(range.clone())).unwrap_or_default()
    }

    /// The range of the original text for a range without layout.
    pub(super) fn plain_origin(&self, part: usize, range: Range<usize>) -> Range<usize> {
        self.plain().get(part).map_or(0..0, |plain| plain.origin(range))
    }

    /// The support for each of the claims.
    pub(super) fn supports(&self) -> &[Option<FactSupport>] {
        self.supports.get_or_init(|| supports(self.claims(), self.facts.published_form()))
    }

    /// The requested pairs of opposites and the places of their terms, computed by `look` at the first call.
    pub(super) fn requested_pairs(&self, look: impl FnOnce() -> RequestedPairs) -> &RequestedPairs {
        self.requested_pairs.get_or_init(look)
    }

    /// The span of a range in the original text of a part.
    pub(super) fn span(&self, part: usize, range: Range<usize>) -> CandidateSpan {
        let field = self.parts.get(part).and_then(|part| part.field).map(String::from);
        CandidateSpan { end: range.end, field, start: range.start }
    }

    pub(super) fn text_at(&self, part: usize, range: Range<usize>) -> &'a str {
        self.parts.get(part).and_then(|part| part.text.get(range)).unwrap_or_default()
    }

    /// The range of the original text for a place in the normalized text.
    pub(super) fn origin(&self, within: &CandidateRange) -> Range<usize> {
        self.normal().get(within.part).map_or(0..0, |normal| normal.origin(within.range.clone()))
    }

    /// The lines of a part that are headings of Markdown.
    pub(super) fn headings(&self, part: usize) -> Vec<Range<usize>> {
        let text = self.parts.get(part).map_or("", |part| part.text);
        let mut end = 0;
        let lines = text.split_inclusive('\n').map(|line| {
            end += line.len();
            (end - line.len()..end, line)
        });
        lines.filter(|(_, line)| line.trim_start().starts_with('#')).map(|(range, _)| range).collect()
    }

    /// The level of the heading whose text begins at byte `at` of a part.
    pub(super) fn heading_level(&self, part: usize, at: usize) -> usize {
        let before = self.parts.get(part).and_then(|part| part.text.get(..at)).unwrap_or_default();
        let marks = before.rsplit(is_line_end).next().unwrap_or_default();
        marks.bytes().filter(|mark| *mark == b'#').count()
    }

    /// The rows of the tables of a part, in its text without layout. `of` is the word between a property and what has it.
    pub(super) fn table_rows(&self, part: usize, of: &str) -> Vec<TableRow<'_>> {
        table_rows(self.plain().get(part).map_or("", PlainText::text), of)
    }

    /// Whether marks of deleted text stand within or beside `range` of a part.
    pub(super) fn is_struck(&self, part: usize, range: Range<usize>) -> bool {
        let text = self.parts.get(part).map_or("", |part| part.text);
        let (before, rest) = text.split_at_checked(range.start).unwrap_or_default();
        let (within, after) = rest.split_at_checked(range.len()).unwrap_or_default();
        const DELETED: &str = "~~";
        before.ends_with(DELETED) || within.contains(DELETED) || after.starts_with(DELETED)
    }

    /// Whether an item of a list begins at byte `at` of a part: its line begins with a bullet or a number.
    pub(super) fn is_list_item(&self, part: usize, at: usize) -> bool {
        // longer than an indentation with its bullet; without it, a long line of many sentences would take quadratic time
        const HEAD_MAX_BYTES: usize = 64;
        let before = self.parts.get(part).and_then(|part| part.text.get(..at)).unwrap_or_default();
        let start = before.floor_char_boundary(before.len().saturating_sub(HEAD_MAX_BYTES));
        let head = before.get(start..).unwrap_or_default();
        let is_whole = start == 0 || head.contains(is_line_end);
        let line = head.rsplit(is_line_end).next().unwrap_or_default().trim_start();
        let is_mark = || PlainText::of(&format!("{line}x")).text() == "x";
        is_whole && !line.is_empty() && !line.starts_with([HEADING, QUOTE]) && is_mark()
    }

    /// The text of a fact, as it was given.
    pub(super) fn fact_text(&self, fact: u32) -> &'a str {
        self.check.facts.get(fact as usize).map_or("", String::as_str)
    }

    /// Records the number of unsupported claims that a rule has found; the highest number counts.
    pub(super) fn count_unsupported(&self, claims: u64) {
        self.unsupported_claims.set(self.unsupported_claims.get().max(claims));
    }

    /// The metrics, after all rules have been applied.
    pub(super) fn metrics(&self, results: &[RuleResult]) -> EvaluationMetrics {
        let counted = |verdict| results.iter().filter(|result| result.verdict == verdict).count() as u64;
        let violations = |result: &RuleResult| result.violations.len() as u64 + result.violations_omitted;
        EvaluationMetrics {
            blank_facts: self.facts.published_form().blank().count() as u64,
            claims: self.claims().len() as u64,
            facts: self.facts.len() as u64,
            rules: results.len() as u64,
            rules_error: counted(RuleVerdict::Error),
            rules_failed: counted(RuleVerdict::Fail),
            unsupported_claims: self.unsupported_claims.get(),
            violations: results.iter().map(violations).sum(),
        }
    }
}
