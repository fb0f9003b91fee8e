//! The findings of a rule: its steps and its violations.

use super::registry::RuleId;
use super::result::{
    CandidateSpan, EvidenceInput, EvidenceOutput, RuleEvidence, RuleResult, RuleVerdict, RuleViolation,
};
use domain_base::digest::Sha256Hex;
use serde::Serialize;

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
