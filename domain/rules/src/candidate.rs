//! The candidate of a check: one text, or the texts of one verdict.

use super::check::CandidateCheck;
use super::claims::{CandidateClaim, CandidateRange, split_claims};
use super::facts::FactSet;
use super::facts::{FactSupport, SearchableFacts};
use super::normalization::{OriginOffsets, normalize};
use super::opposite_pairs::RequestedPairs;
use super::plain_text::PlainText;
use super::result::{CandidateSpan, EvaluationMetrics, RuleResult, RuleVerdict};
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
    plain: OnceCell<Vec<PlainText>>,
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
        let (supports, requested_pairs) = Default::default();
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
    pub(super) fn plain(&self) -> &[PlainText] {
        self.plain.get_or_init(|| self.texts().map(PlainText::of).collect())
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
