//! The log entry of a rules evaluation: the result of each rule and the digests of the inputs, without text.

use crate::references::{ReliedOn, StatementReference};
use crate::sourced::{RecordOrigin, SourcedFactOrigin};
use crate::{RuleId, RuleResult, RuleVerdict, RulesEvaluation, TextLanguage};
use domain_base::digest::Sha256Hex;
use domain_base::event::{DeliveryRole, EntryMembers, Event, EventClass, EventType};
use domain_base::gate_path::GatePath;
use domain_base::service::is_zero;
use domain_ground::version_name::WordlistRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// The maximum number of listed origins; further ones are only counted.
const ORIGINS_MAX: usize = 100;

/// One evaluation of Oracle-A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RulesEntry {
    /// The path on which the verdict arrived; null if a text was checked without a session.
    pub path: Option<GatePath>,
    /// The caller's name for the text, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub case_id: Option<String>,
    /// The overall result of all rules.
    pub verdict: RuleVerdict,
    /// The result of each rule.
    pub rules: Vec<RuleEntry>,
    /// The SHA-256 of the text.
    pub candidate_sha256: Sha256Hex,
    /// The SHA-256 of the facts.
    pub facts_sha256: Sha256Hex,
    /// The origins of facts that sources provided; absent if no source was queried.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub facts_from: Option<FactsFromEntry>,
    /// The language in which the text and the facts were read; absent if it is English.
    #[serde(skip_serializing_if = "TextLanguage::is_default", default)]
    pub language: TextLanguage,
    /// Whether a claim may state what follows from two facts; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub derive: bool,
    /// The word list with which the text and the facts were read, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wordlist: Option<WordlistRef>,
    /// The SHA-256 of all inputs of the evaluation.
    pub input_sha256: Sha256Hex,
    /// The SHA-256 of the evaluation.
    pub evaluation_sha256: Sha256Hex,
}

/// The result of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleEntry {
    /// The rule.
    pub rule: RuleId,
    /// The result.
    pub verdict: RuleVerdict,
    /// The number of violations found.
    pub violations: u64,
    /// With `ERROR`: the cause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
}

/// The origins of the facts of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FactsFromEntry {
    /// The number of facts that sources provided.
    pub facts: u64,
    /// The origins of the facts, in order; at most 100, and those of facts that support claims in preference to others.
    pub origins: Vec<FactOriginEntry>,
    /// The number of further origins.
    pub origins_omitted: u64,
    /// The SHA-256 of the canonical JSON of the evaluation's `facts_from`.
    pub sha256: Sha256Hex,
    /// The statements of sources that support the claims, by reference; at most 100. Absent in entries of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub relied_on: Option<Vec<StatementReference>>,
    /// The number of further such statements; absent if there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub relied_on_omitted: u64,
}

/// The origin of facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactOriginEntry {
    /// A record of a source.
    Record(RecordOrigin),
    /// A verification over several sources.
    Verification {
        /// The SHA-256 of its envelope.
        envelope_sha256: Sha256Hex,
        /// The execution id of the verification.
        execution_id: String,
    },
}

impl FactOriginEntry {
    fn of(origin: &SourcedFactOrigin) -> Self {
        match origin {
            SourcedFactOrigin::Record(record) => Self::Record(record.clone()),
            SourcedFactOrigin::Verification(verification) => Self::Verification {
                envelope_sha256: verification.envelope_sha256.clone(),
                execution_id: verification.execution_id.clone(),
            },
        }
    }
}

impl FactsFromEntry {
    /// The entry for the facts from sources; `None` if no source was queried.
    fn of(evaluation: &RulesEvaluation) -> Option<Self> {
        let sources = &evaluation.facts_from;
        if sources.is_empty() {
            return None;
        }
        let ReliedOn { statements, omitted, origins: relied_on } = ReliedOn::of(evaluation);
        let origins: Vec<_> = sources.iter().flat_map(|s| &s.origins).map(|of| &of.origin).collect();
        let others = (0..origins.len()).filter(|at| !relied_on.contains(at));
        let listed: BTreeSet<_> = relied_on.iter().copied().chain(others).take(ORIGINS_MAX).collect();
        Some(Self {
            facts: sources.iter().map(|source| source.facts).sum(),
            origins: listed.iter().filter_map(|at| Some(FactOriginEntry::of(origins.get(*at)?))).collect(),
            origins_omitted: (origins.len() - listed.len()) as u64,
            sha256: Sha256Hex::of_json(sources),
            relied_on: Some(statements),
            relied_on_omitted: omitted,
        })
    }
}

impl RulesEntry {
    /// The entry for `evaluation`, of a verdict that arrived on `path` or of a text.
    #[must_use]
    pub fn of(evaluation: &RulesEvaluation, path: Option<GatePath>) -> Self {
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
            facts_from: FactsFromEntry::of(evaluation),
            language: evaluation.language,
            derive: evaluation.derive,
            wordlist: evaluation.wordlist.clone(),
            input_sha256: evaluation.input_sha256.clone(),
            evaluation_sha256: evaluation.sha256.clone(),
        }
    }
}

/// A text, or the text of a verdict, was checked against facts. `session_id` is null for a text without a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct RulesEvaluated(pub RulesEntry);

impl Event for RulesEvaluated {
    const NAME: &'static str = "rules_evaluated";
    // each can be the digest of a text that can be guessed
    const ERASABLE: &'static [&'static str] =
        &["case_id", "candidate_sha256", "facts_sha256", "facts_from", "input_sha256", "evaluation_sha256"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;
    const SAYS_NO_SESSION: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let rules = entry.0.get("rules").and_then(Value::as_array).into_iter().flatten().map(EntryMembers);
        let against =
            rules.filter(|rule| rule.text("verdict") != "PASS").map(|rule| rule.words(&["rule", "verdict"]));
        let against = against.collect::<Vec<_>>().join(", ");
        format!("{} {against}", entry.words(&["case_id", "path", "verdict"]))
    }
}

/// The events of the feature.
pub const EVENTS: &[&EventType] = &[RulesEvaluated::TYPE];
