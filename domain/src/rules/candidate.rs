//! What is checked: one text, or the texts of one verdict.

use super::check::Check;
use super::claims::{Claim, Place, sentences};
use super::fact_set::FactSet;
use super::facts::{Facts, Support};
use super::normal::{Origins, normalize};
use super::pairs::Asked;
use super::plain::Plain;
use super::result::{Metrics, RuleResult, Span, Verdict};
use super::sentences;
use crate::base::digest::Sha256Hex;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::Range;

/// One text of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field of a verdict that it is; none where the candidate is one text.
    pub field: Option<&'a str>,
    /// The text.
    pub text: &'a str,
}

/// What is checked. The texts of a verdict are split into claims each for itself; a pattern is found in any of them, and
/// they must not contradict one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<'a>(Vec<Part<'a>>);

impl<'a> Candidate<'a> {
    /// One text.
    #[must_use]
    pub fn text(text: &'a str) -> Self {
        Self(vec![Part { field: None, text }])
    }

    /// Several, by the fields that they stand in.
    #[must_use]
    pub fn fields(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(fields.into_iter().map(|(field, text)| Part { field: Some(field), text }).collect())
    }

    /// The fields that it is made of; none where it is one text.
    pub(super) fn field_names(&self) -> Option<Vec<&'a str>> {
        match self.0.as_slice() {
            [Part { field: None, .. }] => None,
            parts => Some(parts.iter().map(|part| part.field.unwrap_or_default()).collect()),
        }
    }

    /// The SHA-256 of the text; of several, that of their JSON object by fields.
    fn sha256(&self) -> Sha256Hex {
        match self.0.as_slice() {
            [Part { field: None, text }] => Sha256Hex::of(text.as_bytes()),
            parts => {
                let fields = parts.iter().map(|part| (part.field.unwrap_or_default(), part.text));
                Sha256Hex::of_json(&fields.collect::<std::collections::BTreeMap<_, _>>())
            }
        }
    }
}

/// A text with its normalized form.
#[derive(Debug)]
pub(super) struct Normal<'a> {
    source: Cow<'a, str>,
    text: String,
    /// Made where something is found.
    origins: OnceCell<Origins>,
}

impl<'a> Normal<'a> {
    pub(super) fn of(source: Cow<'a, str>) -> Self {
        Self { text: normalize(&source), source, origins: OnceCell::new() }
    }

    /// The normalized text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The range of the original text that became `range` of the normalized text.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        self.origins.get_or_init(|| Origins::of(&self.source)).range(&self.source, range)
    }
}

/// What of `facts` supports each of `claims`.
pub(super) fn supports(claims: &[Claim], facts: &Facts) -> Vec<Option<Support>> {
    let claims: Vec<&str> = claims.iter().map(|claim| claim.normal.as_str()).collect();
    facts.supports(&claims)
}

/// A candidate and its check as the rules see them: what several rules look at is made once.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) check: &'a Check,
    pub(super) facts: &'a FactSet,
    pub(super) unsupported_max: u64,
    candidate: &'a Candidate<'a>,
    parts: &'a [Part<'a>],
    sha256: OnceCell<Sha256Hex>,
    normal: OnceCell<Vec<Normal<'a>>>,
    claims: OnceCell<Vec<Claim>>,
    plain: OnceCell<Vec<Plain<'a>>>,
    sentences: OnceCell<Vec<Place>>,
    supports: OnceCell<Vec<Option<Support>>>,
    asked: OnceCell<Asked>,
    unsupported_claims: Cell<u64>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        candidate: &'a Candidate<'a>,
        check: &'a Check,
        facts: &'a FactSet,
        unsupported_max: u64,
    ) -> Self {
        let (sha256, normal, claims, plain) = Default::default();
        let (sentences, supports, asked) = Default::default();
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
            asked,
            unsupported_claims: Cell::new(0),
        }
    }

    /// The SHA-256 of the candidate.
    pub(super) fn candidate_sha256(&self) -> &Sha256Hex {
        self.sha256.get_or_init(|| self.candidate.sha256())
    }

    /// The texts, as they came.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.parts.iter().map(|part| part.text)
    }

    /// The texts, normalized.
    pub(super) fn normal_texts(&self) -> impl Iterator<Item = &str> {
        self.normal().iter().map(Normal::text)
    }

    /// The texts with their normalized forms.
    pub(super) fn normal(&self) -> &[Normal<'a>] {
        self.normal.get_or_init(|| self.texts().map(|text| Normal::of(text.into())).collect())
    }

    /// The claims, by the published splitting.
    pub(super) fn claims(&self) -> &[Claim] {
        let split = || self.texts().enumerate().flat_map(|(part, text)| sentences(part, text)).collect();
        self.claims.get_or_init(split)
    }

    /// The texts without their layout.
    pub(super) fn plain(&self) -> &[Plain<'a>] {
        self.plain.get_or_init(|| self.texts().map(Plain::of).collect())
    }

    /// The sentences by Unicode's boundaries, of the texts without their layout.
    pub(super) fn sentences(&self) -> &[Place] {
        let places = |(part, plain): (usize, &Plain<'_>)| {
            sentences::sentences(plain.text()).into_iter().map(move |range| Place { part, range })
        };
        self.sentences.get_or_init(|| self.plain().iter().enumerate().flat_map(places).collect())
    }

    /// The text of a stretch without layout.
    pub(super) fn plain_at(&self, Place { part, range }: &Place) -> &str {
        self.plain().get(*part).and_then(|plain| plain.text().get(range.clone())).unwrap_or_default()
    }

    /// The claim that a stretch without layout makes, which is matched as `normal`, unless that is empty.
    pub(super) fn claim(&self, place: &Place, normal: String) -> Option<Claim> {
        let text = self.plain_at(place);
        let start = place.range.start + text.len() - text.trim_start().len();
        let range = self.plain_origin(place.part, start..start + text.trim().len());
        (!normal.is_empty()).then_some(Claim { part: place.part, range, normal })
    }

    /// The stretch of the text as it came, by one without layout.
    pub(super) fn plain_origin(&self, part: usize, range: Range<usize>) -> Range<usize> {
        self.plain().get(part).map_or(0..0, |plain| plain.origin(range))
    }

    /// What supports each of the claims.
    pub(super) fn supports(&self) -> &[Option<Support>] {
        self.supports.get_or_init(|| supports(self.claims(), self.facts.given()))
    }

    /// The pairs of opposites that are asked for, and where their terms appear, as `look` finds them the first time.
    pub(super) fn asked(&self, look: impl FnOnce() -> Asked) -> &Asked {
        self.asked.get_or_init(look)
    }

    /// A stretch of a part's text, as it came.
    pub(super) fn span(&self, part: usize, range: Range<usize>) -> Span {
        let field = self.parts.get(part).and_then(|part| part.field).map(String::from);
        Span { end: range.end, field, start: range.start }
    }

    /// The text of a stretch.
    pub(super) fn text_at(&self, part: usize, range: Range<usize>) -> &'a str {
        self.parts.get(part).and_then(|part| part.text.get(range)).unwrap_or_default()
    }

    /// The stretch of the text as it came, by one of the normalized text.
    pub(super) fn origin(&self, place: &Place) -> Range<usize> {
        self.normal().get(place.part).map_or(0..0, |normal| normal.origin(place.range.clone()))
    }

    /// A rule has found so many claims without support: how many there are is what the strictest says.
    pub(super) fn count_unsupported(&self, claims: u64) {
        self.unsupported_claims.set(self.unsupported_claims.get().max(claims));
    }

    /// What is counted, once the rules have been applied.
    pub(super) fn metrics(&self, results: &[RuleResult]) -> Metrics {
        let counted = |verdict| results.iter().filter(|result| result.verdict == verdict).count() as u64;
        let violations = |result: &RuleResult| result.violations.len() as u64 + result.violations_omitted;
        Metrics {
            blank_facts: self.facts.given().blank().count() as u64,
            claims: self.claims().len() as u64,
            facts: self.facts.len() as u64,
            rules: results.len() as u64,
            rules_error: counted(Verdict::Error),
            rules_failed: counted(Verdict::Fail),
            unsupported_claims: self.unsupported_claims.get(),
            violations: results.iter().map(violations).sum(),
        }
    }
}
