//! Oracle-A: text checked against facts.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::sourced::FactsFrom;
use crate::{CandidateExpectations, RuleDefinition, RuleId, RulesEvaluation, TextLanguage};
use domain_base::digest::Sha256Hex;
use domain_base::payload::{given, object};
use domain_base::problem::ProblemDocument;
use domain_ground::version_name::WordlistName;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `POST /v1/rules/evaluate`, and every line of `POST /v1/rules/evaluate:batch`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateTextRequest {
    /// The caller's own id, at most 255 characters. The answer of a batch and the audit log repeat it.
    pub id: Option<String>,
    /// The text to check.
    pub candidate_output: String,
    /// The facts; either this or `facts_from`, or both.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub facts: Option<Vec<String>>,
    /// Sources of facts: at most 16 of `{"query": …}`, as of `POST /v1/query`, and `{"verify": …}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub facts_from: Option<Vec<FactsFrom>>,
    /// The origin of the text. It is part of `input_sha256`; it is neither checked nor logged.
    pub context: Option<String>,
    /// Comparisons that must hold.
    pub constraints: Option<Vec<String>>,
    /// The expected findings: `must_find`, `must_not_find`, `max_unsupported_claims`, `contradiction_ids`,
    /// `contradiction_pairs`.
    #[serde(default, deserialize_with = "object")]
    pub expected: Option<CandidateExpectations>,
    /// The rules to apply; the configured profile if it is absent.
    pub rules: Option<Vec<RuleId>>,
    /// Whether a claim may state a sum, a difference or a change in percent of two facts, for RULE-PREC-013; `false` if it is
    /// absent.
    pub derive: Option<bool>,
    /// The language of the text and its facts, for RULE-PREC-013; if it is absent, that of the word list, or `en`.
    pub language: Option<TextLanguage>,
    /// The registered word list with which the text and its facts are read, for RULE-PREC-013.
    pub wordlist: Option<WordlistName>,
}

/// The answer of `GET /v1/rules`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct RulesResponse {
    /// All rules.
    pub rules: Vec<RegisteredRule>,
    /// The most unsupported claims that are allowed if a request sets no limit.
    pub unsupported_max: u64,
}

/// One rule of the registry.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct RegisteredRule {
    /// Its definition: `id`, `invariant`, `check_type`, `description`, `version`, `parameters`.
    #[serde(flatten)]
    #[schema(inline = false, value_type = RuleDefinition)]
    pub rule: &'static RuleDefinition,
    /// The SHA-256 of the definition's canonical JSON.
    pub sha256: Sha256Hex,
    /// Whether it applies to a request that names no rules.
    pub in_profile: bool,
}

/// One line of the answer of `POST /v1/rules/evaluate:batch`: an evaluation or a problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct BatchAnswer<'a> {
    /// The number of the line in the request, from 1.
    pub line: u64,
    /// The `id` of the request in this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// The evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<RulesEvaluation>)]
    pub evaluation: Option<&'a RulesEvaluation>,
    /// The problem, if the text was not evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<ProblemDocument>)]
    pub problem: Option<Box<RawValue>>,
}
