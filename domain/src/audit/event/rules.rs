//! What the log keeps of an evaluation: who came to what, and by which bytes; no text.

use crate::base::digest::Sha256Hex;
use crate::rules::sourced::{FactSource, Origin, RecordOrigin};
use crate::rules::{Evaluation, RuleId, RuleResult, Verdict};
use crate::verdict::gate_path::GatePath;
use serde::{Deserialize, Serialize};

/// So many origins of facts are named; the rest is counted.
const ORIGINS_MAX: usize = 100;

/// One evaluation of Oracle-A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesEntry {
    /// The path on which the verdict arrived; null where a text was checked by itself.
    pub path: Option<GatePath>,
    /// What the caller called the text, if anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub case_id: Option<String>,
    /// What all rules come to.
    pub verdict: Verdict,
    /// What each of them comes to.
    pub rules: Vec<RuleEntry>,
    /// The SHA-256 of the text.
    pub candidate_sha256: Sha256Hex,
    /// The SHA-256 of the facts.
    pub facts_sha256: Sha256Hex,
    /// Where facts come from that sources gave; none where none were asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub facts_from: Option<FactsFromEntry>,
    /// The SHA-256 of all that the evaluation depended on.
    pub input_sha256: Sha256Hex,
    /// The evaluation's own SHA-256.
    pub evaluation_sha256: Sha256Hex,
}

/// What one rule came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEntry {
    /// Which.
    pub rule: RuleId,
    /// What it came to.
    pub verdict: Verdict,
    /// How much it found.
    pub violations: u64,
    /// With `ERROR`: why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
}

/// Where the facts of an evaluation come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactsFromEntry {
    /// How many facts sources gave.
    pub facts: u64,
    /// What they come from, in their order; at most 100.
    pub origins: Vec<OriginEntry>,
    /// How many more there were.
    pub origins_omitted: u64,
    /// The SHA-256 of the canonical JSON of the evaluation's `facts_from`.
    pub sha256: Sha256Hex,
}

/// What facts come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginEntry {
    /// A record of a source.
    Record(RecordOrigin),
    /// A decision over several.
    Verification {
        /// The SHA-256 of its envelope.
        envelope_sha256: Sha256Hex,
        /// Its name.
        execution_id: String,
    },
}

impl OriginEntry {
    fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Record(record) => Self::Record(record.clone()),
            Origin::Verification(verification) => Self::Verification {
                envelope_sha256: verification.envelope_sha256.clone(),
                execution_id: verification.execution_id.clone(),
            },
        }
    }
}

impl FactsFromEntry {
    /// The entry for what `sources` gave, if any were asked.
    fn of(sources: &[FactSource]) -> Option<Self> {
        let origins = || sources.iter().flat_map(|source| &source.origins);
        (!sources.is_empty()).then(|| Self {
            facts: sources.iter().map(|source| source.facts).sum(),
            origins: origins().take(ORIGINS_MAX).map(|origin| OriginEntry::of(&origin.origin)).collect(),
            origins_omitted: origins().skip(ORIGINS_MAX).count() as u64,
            sha256: Sha256Hex::of_json(&sources),
        })
    }
}

impl RulesEntry {
    /// The entry for `evaluation`, of a verdict that arrived on `path` or of a text.
    #[must_use]
    pub fn of(evaluation: &Evaluation, path: Option<GatePath>) -> Self {
        let rule = |result: &RuleResult| RuleEntry {
            rule: result.rule,
            verdict: result.verdict,
            violations: result.violations.len() as u64 + result.violations_omitted,
            cause: result.cause.clone(),
        };
        Self {
            path,
            case_id: None,
            verdict: evaluation.verdict,
            rules: evaluation.rules.iter().map(rule).collect(),
            candidate_sha256: evaluation.candidate_sha256.clone(),
            facts_sha256: evaluation.facts_sha256.clone(),
            facts_from: FactsFromEntry::of(&evaluation.facts_from),
            input_sha256: evaluation.input_sha256.clone(),
            evaluation_sha256: evaluation.sha256.clone(),
        }
    }
}
