//! What the log keeps of an evaluation: who came to what, and by which bytes; no text.

use crate::digest::Sha256Hex;
use crate::gate_path::GatePath;
use crate::rules::{Evaluation, RuleId, RuleResult, Verdict};
use crate::session::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One evaluation of Oracle-A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesEntry {
    /// Whose verdict was examined; null where a text was checked by itself.
    pub session_id: Option<SessionId>,
    /// On which path the verdict came; null likewise.
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
    /// The SHA-256 of all that the evaluation depended on.
    pub input_sha256: Sha256Hex,
    /// The evaluation's own SHA-256.
    pub evaluation_sha256: Sha256Hex,
    /// When.
    pub timestamp: Timestamp,
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

impl RulesEntry {
    /// The entry for `evaluation` at `at`, of the verdict of a session where it was one.
    #[must_use]
    pub fn of(evaluation: &Evaluation, verdict_of: Option<(SessionId, GatePath)>, at: Timestamp) -> Self {
        let (session_id, path) = verdict_of.unzip();
        let rule = |result: &RuleResult| RuleEntry {
            rule: result.rule,
            verdict: result.verdict,
            violations: result.violations.len() as u64 + result.violations_omitted,
            cause: result.cause.clone(),
        };
        Self {
            session_id,
            path,
            case_id: None,
            verdict: evaluation.verdict,
            rules: evaluation.rules.iter().map(rule).collect(),
            candidate_sha256: evaluation.candidate_sha256.clone(),
            facts_sha256: evaluation.facts_sha256.clone(),
            input_sha256: evaluation.input_sha256.clone(),
            evaluation_sha256: evaluation.sha256.clone(),
            timestamp: at,
        }
    }
}
