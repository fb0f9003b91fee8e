//! The results of an evaluation. Members of every object are in RFC 8785 order and contain no fractions, so serde
//! writes canonical JSON; a test compares the two.

use super::registry::{RuleId, RuleInvariant};
use crate::sourced::FactSource;
use domain_base::digest::Sha256Hex;
use domain_ground::version_name::WordlistRef;
use serde::{Deserialize, Serialize};
use std::fmt;
use strum::{IntoStaticStr, VariantArray};

/// The language of a text and its facts.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TextLanguage {
    /// English.
    #[default]
    En,
    /// German.
    De,
}

impl TextLanguage {
    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The verdict of one rule, or of all rules together.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum RuleVerdict {
    /// No violation was found.
    Pass,
    /// At least one violation was found.
    Fail,
    /// The rule could not be applied. This is not a pass.
    Error,
}

impl RuleVerdict {
    /// Combines the verdicts of all rules: `FAIL` if any rule fails, else `ERROR` if any rule could not be applied.
    pub fn combine(verdicts: impl Iterator<Item = Self> + Clone) -> Self {
        if verdicts.clone().any(|verdict| verdict == Self::Fail) {
            Self::Fail
        } else if verdicts.clone().any(|verdict| verdict == Self::Error) {
            Self::Error
        } else {
            Self::Pass
        }
    }
}

/// A range of the candidate's original text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CandidateSpan {
    /// The offset after its last byte.
    pub end: usize,
    /// The field of the verdict; null if the candidate is one text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub field: Option<String>,
    /// The offset of its first byte.
    pub start: usize,
}

/// A violation found by a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleViolation {
    /// The invariant that is violated.
    pub invariant: RuleInvariant,
    /// The fault; quotations in it are cut to 200 characters.
    pub message: String,
    /// The other range, if two ranges contradict each other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub related: Option<CandidateSpan>,
    /// The location; null if something is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<CandidateSpan>,
    /// The offending or missing text, cut to 200 characters.
    pub text: String,
}

/// The two compared texts, each cut to 200 characters. The digest covers the complete texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvidenceInput {
    /// The examined text, normalized.
    pub text: String,
    /// The text with which it was compared.
    pub with: String,
}

/// Which of claim and fact contains the other. If both are equal, the claim is in the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SupportDirection {
    /// The fact contains the claim.
    ClaimInFact,
    /// The claim contains the fact.
    FactInClaim,
}

/// A comparison of a part of a claim with a part of a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClaimComparison {
    /// The aspect that was compared.
    pub aspect: ClaimAspect,
    /// The compared text of the claim; empty if the claim has none.
    pub claim: String,
    /// The compared text of the fact; empty if the fact has none.
    pub fact: String,
    /// The result.
    pub result: ComparisonResult,
}

impl fmt::Display for ClaimComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &str| if text.is_empty() { "nothing".to_owned() } else { format!("`{text}`") };
        let aspect: &str = self.aspect.into();
        match self.result {
            ComparisonResult::Missing => write!(f, "{aspect}: {} is not in the fact", or_none(&self.claim)),
            _ => write!(
                f,
                "{aspect}: {} in the fact, {} in the text",
                or_none(&self.fact),
                or_none(&self.claim)
            ),
        }
    }
}

/// An aspect of a claim and a fact.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ClaimAspect {
    /// The subject.
    Subject,
    /// A content word.
    Word,
    /// The order of the words: who does what, and with which prepositions.
    Order,
    /// A number, a date or a time.
    Quantity,
    /// Whether it is negated.
    Polarity,
    /// Whether it holds now, held once, or has held until now.
    Tense,
    /// How far or how surely it holds.
    Qualifier,
    /// A condition or an attribution.
    Condition,
}

/// The result of a comparison.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ComparisonResult {
    /// Both are the same.
    Same,
    /// Both are forms of one word.
    Inflected,
    /// The word list has both as synonyms, or one as an abbreviation of the other.
    Synonym,
    /// Both have the same value.
    Equal,
    /// The claim has the value of the fact, rounded.
    Rounded,
    /// The claim has the result of a calculation with two facts.
    Derived,
    /// The fact has a different value, or one side has none.
    Different,
    /// The fact does not have the word.
    Missing,
    /// Function words, such as articles, which were not compared.
    Ignored,
}

impl ComparisonResult {
    pub(super) const fn of(is_same: bool) -> Self {
        if is_same { Self::Same } else { Self::Different }
    }

    /// Whether the claim is not supported.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Different | Self::Missing)
    }
}

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvidenceOutput {
    /// The comparisons of a claim with the fact that supports it, or with the nearest one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub comparisons: Vec<ClaimComparison>,
    /// The count, if the step counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// The index of the second fact of a calculation, from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub derived_with: Option<u32>,
    /// Which of claim and fact contains the other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<SupportDirection>,
    /// The index of the fact, from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fact: Option<u32>,
    /// The finding.
    pub finding: EvidenceFinding,
    /// The location.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<CandidateSpan>,
}

/// The finding of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceFinding {
    /// The number of claims of the candidate.
    #[default]
    Claims,
    /// A fact is blank and supports nothing.
    BlankFact,
    /// A fact supports the claim.
    Supported,
    /// No fact supports the claim; or the number of unsupported claims.
    Unsupported,
    /// The count is within the threshold.
    WithinThreshold,
    /// The count exceeds the threshold.
    OverThreshold,
    /// The pattern was found.
    Found,
    /// The pattern was not found.
    NotFound,
    /// Both terms of a pair appear.
    BothAppear,
    /// At most one term of a pair appears.
    NotBothAppear,
    /// The id matches no pair, so it was not checked.
    UnknownContradictionId,
    /// A comparison in the candidate or in a constraint.
    Comparison,
    /// The comparisons are consistent.
    Compatible,
    /// The comparisons contradict each other.
    Incompatible,
    /// The constraints contradict each other, regardless of the candidate.
    ConstraintsIncompatible,
    /// The constraint does not consist only of comparisons, so it was not checked.
    ConstraintNotUnderstood,
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleEvidence {
    /// The compared texts.
    pub input: EvidenceInput,
    /// The SHA-256 of the whole input's canonical JSON.
    pub input_sha256: Sha256Hex,
    /// The result.
    pub output: EvidenceOutput,
    /// The SHA-256 of the output's canonical JSON.
    pub output_sha256: Sha256Hex,
    /// The rule.
    pub rule: RuleId,
    /// The number of the step, from 1.
    pub step: u32,
}

/// The result of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleResult {
    /// With `ERROR`: the reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// The steps, with any finding; at most 1,000, and none after the texts of the previous steps exceed 4 MiB.
    pub evidence: Vec<RuleEvidence>,
    /// The number of steps that are not listed.
    pub evidence_omitted: u64,
    /// The invariant that the rule enforces.
    pub invariant: RuleInvariant,
    /// The rule.
    pub rule: RuleId,
    /// The verdict.
    pub verdict: RuleVerdict,
    /// The violations; at most 1,000.
    pub violations: Vec<RuleViolation>,
    /// The number of violations that are not listed.
    pub violations_omitted: u64,
}

/// The counts of an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvaluationMetrics {
    /// Blank facts.
    pub blank_facts: u64,
    /// Claims, split as the published rules do.
    pub claims: u64,
    /// Facts.
    pub facts: u64,
    /// Applied rules.
    pub rules: u64,
    /// Applied rules that could not be evaluated.
    pub rules_error: u64,
    /// Applied rules that failed.
    pub rules_failed: u64,
    /// Unsupported claims: the highest number that any applied rule found with its own splitting; 0 if no rule checks
    /// for them.
    pub unsupported_claims: u64,
    /// Violations of all rules.
    pub violations: u64,
}

/// The results of all rules for one candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RulesEvaluation {
    /// The SHA-256 of the candidate's text.
    pub candidate_sha256: Sha256Hex,
    /// Whether a claim may state what follows from two facts; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub derive: bool,
    /// The origins of facts from sources, which come after the other facts; empty if none were requested.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub facts_from: Vec<FactSource>,
    /// The SHA-256 of the facts, as a JSON array.
    pub facts_sha256: Sha256Hex,
    /// The SHA-256 of everything that the evaluation depends on.
    pub input_sha256: Sha256Hex,
    /// The language in which the text and the facts were read; absent if it is English.
    #[serde(skip_serializing_if = "TextLanguage::is_default", default)]
    pub language: TextLanguage,
    /// The counts.
    pub metrics: EvaluationMetrics,
    /// The result of every rule.
    pub rules: Vec<RuleResult>,
    /// The SHA-256 of the canonical JSON of all other members.
    pub sha256: Sha256Hex,
    /// The combined verdict.
    pub verdict: RuleVerdict,
    /// The word list with which the text and the facts were read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub wordlist: Option<WordlistRef>,
}

/// The maximum number of steps, and of violations, that one rule lists; the rest is only counted.
const LISTED_MAX: usize = 1_000;
/// The maximum size of the texts of all listed steps but the last, in bytes. Each step hashes its whole texts, and many
/// claims can be in one long fact.
const LISTED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum length of a quoted text, in characters.
const QUOTED_MAX_CHARS: usize = 200;

/// Why a rule could not be applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RuleError(pub(super) String);

/// The findings of one rule so far.
#[derive(Debug)]
pub(super) struct RuleFindings {
    rule: RuleId,
    evidence: Vec<RuleEvidence>,
    evidence_bytes: usize,
    evidence_omitted: u64,
    violations: Vec<RuleViolation>,
    violations_omitted: u64,
}

impl RuleFindings {
    pub(super) const fn new(rule: RuleId) -> Self {
        Self {
            rule,
            evidence: Vec::new(),
            evidence_bytes: 0,
            evidence_omitted: 0,
            violations: Vec::new(),
            violations_omitted: 0,
        }
    }

    /// Adds a step: `text` was compared with `with`.
    pub(super) fn step(&mut self, text: &str, with: &str, output: impl FnOnce() -> EvidenceOutput) {
        #[derive(Serialize)]
        struct FullEvidenceInput<'a> {
            text: &'a str,
            with: &'a str,
        }
        if self.evidence.len() == LISTED_MAX || self.evidence_bytes > LISTED_MAX_BYTES {
            self.evidence_omitted += 1;
            return;
        }
        self.evidence_bytes += text.len() + with.len();
        let output = output();
        self.evidence.push(RuleEvidence {
            input: EvidenceInput { text: quoted(text), with: quoted(with) },
            input_sha256: Sha256Hex::of_json(&FullEvidenceInput { text, with }),
            output_sha256: Sha256Hex::of_json(&output),
            output,
            rule: self.rule,
            step: u32::try_from(self.evidence.len() + 1).unwrap_or(u32::MAX),
        });
    }

    /// Adds a violation.
    pub(super) fn violation(&mut self, violated: impl FnOnce() -> FullViolation) {
        if self.violations.len() == LISTED_MAX {
            self.violations_omitted += 1;
            return;
        }
        let FullViolation { message, text, span, related } = violated();
        let invariant = self.rule.rule().invariant;
        self.violations.push(RuleViolation { invariant, message, related, span, text: quoted(&text) });
    }

    /// The final result of the rule.
    pub(super) fn result(self, cause: Option<String>) -> RuleResult {
        let Self { rule, evidence, evidence_omitted, violations, violations_omitted, .. } = self;
        let verdict = match (&cause, violations.is_empty()) {
            (Some(_), _) => RuleVerdict::Error,
            (None, false) => RuleVerdict::Fail,
            (None, true) => RuleVerdict::Pass,
        };
        let invariant = rule.rule().invariant;
        RuleResult {
            cause,
            evidence,
            evidence_omitted,
            invariant,
            rule,
            verdict,
            violations,
            violations_omitted,
        }
    }
}

/// A violation with its complete text.
pub(super) struct FullViolation {
    pub(super) message: String,
    pub(super) text: String,
    pub(super) span: Option<CandidateSpan>,
    pub(super) related: Option<CandidateSpan>,
}

/// The text, or its beginning followed by `…`.
pub(super) fn quoted(text: &str) -> String {
    // most texts are at most this long in bytes, so they need no count of characters
    let has_more = text.len() > QUOTED_MAX_CHARS;
    let end = has_more.then(|| text.char_indices().nth(QUOTED_MAX_CHARS)).flatten().map(|(end, _)| end);
    match end.and_then(|end| text.get(..end)) {
        Some(beginning) => format!("{beginning}…"),
        None => text.to_owned(),
    }
}
