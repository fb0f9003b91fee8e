//! What a rule writes down while it looks: its steps, and what speaks against the candidate.

use super::registry::RuleId;
use super::result::{Evidence, Input, Output, RuleResult, Span, Verdict, Violation};
use crate::base::digest::Sha256Hex;
use serde::Serialize;

/// The most steps, and the most violations, that one rule lists; the rest is counted.
const LISTED_MAX: usize = 1_000;
/// The most that the listed steps of one rule look at, the last one's aside: each is hashed whole, and many claims may be
/// in one long fact.
const LISTED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest text that is quoted, in characters.
const QUOTED_MAX_CHARS: usize = 200;

/// Why a rule could not tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RuleError(pub(super) String);

/// What one rule has found so far.
#[derive(Debug)]
pub(super) struct Findings {
    rule: RuleId,
    evidence: Vec<Evidence>,
    evidence_bytes: usize,
    evidence_omitted: u64,
    violations: Vec<Violation>,
    violations_omitted: u64,
}

impl Findings {
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

    /// Notes a step: `text` was held against `with`.
    pub(super) fn step(&mut self, text: &str, with: &str, output: impl FnOnce() -> Output) {
        #[derive(Serialize)]
        struct Whole<'a> {
            text: &'a str,
            with: &'a str,
        }
        if self.evidence.len() == LISTED_MAX || self.evidence_bytes > LISTED_MAX_BYTES {
            self.evidence_omitted += 1;
            return;
        }
        self.evidence_bytes += text.len() + with.len();
        let output = output();
        self.evidence.push(Evidence {
            input: Input { text: quoted(text), with: quoted(with) },
            input_sha256: Sha256Hex::of_json(&Whole { text, with }),
            output_sha256: Sha256Hex::of_json(&output),
            output,
            rule: self.rule,
            step: u32::try_from(self.evidence.len() + 1).unwrap_or(u32::MAX),
        });
    }

    /// Notes what speaks against the candidate.
    pub(super) fn violation(&mut self, violated: impl FnOnce() -> Violated) {
        if self.violations.len() == LISTED_MAX {
            self.violations_omitted += 1;
            return;
        }
        let Violated { message, text, span, related } = violated();
        let invariant = self.rule.rule().invariant;
        self.violations.push(Violation { invariant, message, related, span, text: quoted(&text) });
    }

    /// What the rule says in the end.
    pub(super) fn result(self, cause: Option<String>) -> RuleResult {
        let Self { rule, evidence, evidence_omitted, violations, violations_omitted, .. } = self;
        let verdict = match (&cause, violations.is_empty()) {
            (Some(_), _) => Verdict::Error,
            (None, false) => Verdict::Fail,
            (None, true) => Verdict::Pass,
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

/// What speaks against the candidate, with its text whole.
pub(super) struct Violated {
    pub(super) message: String,
    pub(super) text: String,
    pub(super) span: Option<Span>,
    pub(super) related: Option<Span>,
}

/// `text`, or its beginning.
pub(super) fn quoted(text: &str) -> String {
    // most text has no more bytes than that
    let has_more = text.len() > QUOTED_MAX_CHARS;
    let end = has_more.then(|| text.char_indices().nth(QUOTED_MAX_CHARS)).flatten().map(|(end, _)| end);
    match end.and_then(|end| text.get(..end)) {
        Some(beginning) => format!("{beginning}…"),
        None => text.to_owned(),
    }
}
