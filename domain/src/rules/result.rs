//! What an evaluation says. The members of every object stand in RFC 8785's order and hold no fractions, so that the
//! JSON that serde writes is the canonical one; a test compares the two.

use super::registry::{Invariant, RuleId};
use crate::base::digest::Sha256Hex;
use crate::rules::sourced::FactSource;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What a rule, or all of them together, come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum Verdict {
    /// Nothing speaks against the candidate.
    Pass,
    /// Something does.
    Fail,
    /// It could not be told. That is no pass.
    Error,
}

impl Verdict {
    /// What the verdicts of all rules come to: `FAIL` where any fails, else `ERROR` where any could not tell.
    pub(super) fn of_all(verdicts: impl Iterator<Item = Self> + Clone) -> Self {
        if verdicts.clone().any(|verdict| verdict == Self::Fail) {
            Self::Fail
        } else if verdicts.clone().any(|verdict| verdict == Self::Error) {
            Self::Error
        } else {
            Self::Pass
        }
    }
}

/// A stretch of the candidate, in bytes of its text as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Behind its last byte.
    pub end: usize,
    /// In which field of a verdict; none where the candidate is one text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub field: Option<String>,
    /// Its first byte.
    pub start: usize,
}

/// One thing that speaks against the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What it violates.
    pub invariant: Invariant,
    /// What is wrong; what it quotes is cut to 200 characters.
    pub message: String,
    /// The other side, where two stretches speak against each other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub related: Option<Span>,
    /// Where; none for what is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<Span>,
    /// The offending text, or what is missing; cut to 200 characters.
    pub text: String,
}

/// What was compared with what. Both are cut to 200 characters here; the digest is of the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What was looked at, normalized.
    pub text: String,
    /// What it was held against.
    pub with: String,
}

/// Which of claim and fact contains the other. Where they are equal, the claim is in the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The claim is a part of the fact.
    ClaimInFact,
    /// The fact is a part of the claim.
    FactInClaim,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// How many, where it is a matter of number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// Which of claim and fact contains the other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<Direction>,
    /// The fact, by its place from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fact: Option<u32>,
    /// In a word.
    pub finding: Finding,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<Span>,
}

/// What a step found, in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The candidate makes so many claims.
    #[default]
    Claims,
    /// A fact is blank and supports nothing.
    BlankFact,
    /// A fact supports the claim.
    Supported,
    /// No fact supports the claim; or so many claims are without one.
    Unsupported,
    /// No more than is allowed.
    WithinThreshold,
    /// More than is allowed.
    OverThreshold,
    /// It is there.
    Found,
    /// It is not there.
    NotFound,
    /// Both sides are there.
    BothAppear,
    /// Not both sides are there.
    NotBothAppear,
    /// The id names no pair, and nothing was checked for it.
    UnknownContradictionId,
    /// The candidate, or a constraint, makes this comparison.
    Comparison,
    /// The comparisons can all hold.
    Compatible,
    /// The comparisons cannot all hold.
    Incompatible,
    /// The constraints cannot all hold, whatever the candidate says.
    ConstraintsIncompatible,
    /// The constraint is not made of comparisons from end to end, and nothing was checked for it.
    ConstraintNotUnderstood,
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was compared with what.
    pub input: Input,
    /// The SHA-256 of the whole input's canonical JSON.
    pub input_sha256: Sha256Hex,
    /// What came of it.
    pub output: Output,
    /// The SHA-256 of the output's canonical JSON.
    pub output_sha256: Sha256Hex,
    /// Whose step.
    pub rule: RuleId,
    /// Its number, from 1.
    pub step: u32,
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleResult {
    /// With `ERROR`: why it could not be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// The steps, whatever they come to; at most 1,000, and none once those before have looked at more than 4 MiB.
    pub evidence: Vec<Evidence>,
    /// How many more there were.
    pub evidence_omitted: u64,
    /// What the rule guards.
    pub invariant: Invariant,
    /// Which rule.
    pub rule: RuleId,
    /// What it comes to.
    pub verdict: Verdict,
    /// What speaks against the candidate; at most 1,000.
    pub violations: Vec<Violation>,
    /// How many more there were.
    pub violations_omitted: u64,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Facts that are blank.
    pub blank_facts: u64,
    /// Claims, by the published splitting.
    pub claims: u64,
    /// Facts.
    pub facts: u64,
    /// Rules that were applied.
    pub rules: u64,
    /// Of them, those that could not tell.
    pub rules_error: u64,
    /// Of them, those that fail.
    pub rules_failed: u64,
    /// Claims without support: the most that a rule of those that were applied finds, each by its own splitting; 0 where none
    /// looks for them.
    pub unsupported_claims: u64,
    /// Violations of all rules.
    pub violations: u64,
}

/// What all rules say of one candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The SHA-256 of the candidate's text.
    pub candidate_sha256: Sha256Hex,
    /// Where the last of the facts come from, which sources gave; none where none were asked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub facts_from: Vec<FactSource>,
    /// The SHA-256 of the facts, as a JSON array.
    pub facts_sha256: Sha256Hex,
    /// The SHA-256 of all that the evaluation depends on.
    pub input_sha256: Sha256Hex,
    /// What was counted.
    pub metrics: Metrics,
    /// What every rule says.
    pub rules: Vec<RuleResult>,
    /// The SHA-256 of the canonical JSON of all other members.
    pub sha256: Sha256Hex,
    /// What they come to.
    pub verdict: Verdict,
}

impl Evaluation {
    pub(super) fn of(
        input_sha256: Sha256Hex,
        candidate_sha256: Sha256Hex,
        (facts_sha256, facts_from): (Sha256Hex, Vec<FactSource>),
        metrics: Metrics,
        rules: Vec<RuleResult>,
    ) -> Self {
        #[derive(Serialize)]
        struct Unsigned<'a> {
            candidate_sha256: &'a Sha256Hex,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            facts_from: &'a [FactSource],
            facts_sha256: &'a Sha256Hex,
            input_sha256: &'a Sha256Hex,
            metrics: &'a Metrics,
            rules: &'a [RuleResult],
            verdict: Verdict,
        }
        let verdict = Verdict::of_all(rules.iter().map(|rule| rule.verdict));
        let sha256 = Sha256Hex::of_json(&Unsigned {
            candidate_sha256: &candidate_sha256,
            facts_from: &facts_from,
            facts_sha256: &facts_sha256,
            input_sha256: &input_sha256,
            metrics: &metrics,
            rules: &rules,
            verdict,
        });
        Self { candidate_sha256, facts_from, facts_sha256, input_sha256, metrics, rules, sha256, verdict }
    }
}
