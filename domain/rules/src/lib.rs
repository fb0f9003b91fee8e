//! Oracle-A: checks text against facts by rules that only compare symbols (seed: `oracle-a-rules`).
//!
//! [`evaluate`] applies rules to a [`CandidateText`] and reports the findings of each rule with their
//! evidence. The same input gives the same bytes: rules do not sample, and do not guess meanings. Each family
//! of rules has its own file. [`precision`] checks where claims come from, and required and forbidden text, [`contradiction`] and [`comparison`] check whether the text is consistent;
//! [`supported`] compares the parts of claims with those of facts.

mod candidate;
mod check;
mod claims;
mod comparison;
mod contradiction;
pub mod event;
mod facts;
mod needles;
mod normalization;
mod opposite_pairs;
mod plain_text;
mod precision;
pub mod problem;
pub mod references;
pub mod registry;
mod result;
pub mod sourced;
mod statements;
mod supported;
mod table;
pub mod wire;
pub mod wordlist;

pub use candidate::{CandidatePart, CandidateText};
pub use check::{
    CandidateCheck, CandidateExpectations, InvalidCheckError, RuleSettings, UNSUPPORTED_MAX,
    UnsupportedClaimLimit,
};
pub use facts::FactSet;
pub use registry::{RuleDefinition, RuleId, RuleIds, RuleInvariant};
pub use result::{
    CandidateSpan, ClaimAspect, ClaimComparison, ComparisonResult, EvaluationMetrics, EvidenceFinding,
    EvidenceInput, EvidenceOutput, RuleEvidence, RuleResult, RuleVerdict, RuleViolation, RulesEvaluation,
    SupportDirection, TextLanguage,
};

pub use statements::ReservedUse;

use crate::sourced::FactSource;
use crate::wordlist::Wordlist;
use candidate::RuleContext;
use domain_base::digest::Sha256Hex;
use domain_ground::version_name::WordlistRef;
use result::{RuleError, RuleFindings};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kinds of documents of the feature.
pub type Documents = Wordlist;

/// Everything that an evaluation depends on, for its digest. Members are in RFC 8785 order.
#[derive(Serialize)]
struct EvaluationInput<'a> {
    candidate_sha256: &'a Sha256Hex,
    constraints: &'a [String],
    context: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    derive: bool,
    expected: &'a CandidateExpectations,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    facts_from: &'a [FactSource],
    facts_sha256: &'a Sha256Hex,
    /// The fields of the candidate; null if it is one text.
    fields: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "TextLanguage::is_default")]
    language: TextLanguage,
    rules: &'a [RuleId],
    unsupported_max: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wordlist_sha256: Option<&'a Sha256Hex>,
}

/// Applies the rules that `check` names, or those of the configured profile, to `candidate`.
///
/// `facts` are those of `check`, compiled. A rule that fails to run has the verdict `ERROR`, with the cause; the other
/// rules are still applied.
#[must_use]
pub fn evaluate(
    candidate: &CandidateText<'_>,
    check: &CandidateCheck,
    facts: &FactSet,
    settings: &RuleSettings,
) -> RulesEvaluation {
    // without `..`, so that no member can be forgotten
    let CandidateCheck {
        facts: _,
        facts_from,
        context,
        constraints,
        expected,
        language,
        wordlist,
        derive,
        rules,
        request_sha256: _,
    } = check;
    let rules = rules.as_deref().unwrap_or(&settings.profile);
    let unsupported_max = expected.unsupported_max(settings);
    let subject = RuleContext::new(candidate, check, facts, unsupported_max);
    let results: Vec<RuleResult> = rules.iter().map(|rule| applied(*rule, &subject)).collect();
    let whole = EvaluationInput {
        candidate_sha256: subject.candidate_sha256(),
        constraints,
        context: context.as_deref(),
        derive: *derive,
        expected,
        facts_from,
        facts_sha256: facts.sha256(),
        fields: candidate.field_names(),
        language: *language,
        rules,
        unsupported_max,
        wordlist_sha256: wordlist.as_ref().map(|list| list.sha256()),
    };
    let candidate_sha256 = subject.candidate_sha256().clone();
    let digests = [Sha256Hex::of_json(&whole), candidate_sha256, facts.sha256().clone()];
    evaluation_of(check, digests, subject.metrics(&results), results)
}

/// The evaluation of `check` with the digests of its input, its candidate and its facts.
fn evaluation_of(
    check: &CandidateCheck,
    [input_sha256, candidate_sha256, facts_sha256]: [Sha256Hex; 3],
    metrics: EvaluationMetrics,
    rules: Vec<RuleResult>,
) -> RulesEvaluation {
    #[derive(Serialize)]
    struct UnsignedEvaluation<'a> {
        candidate_sha256: &'a Sha256Hex,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        derive: bool,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        facts_from: &'a [FactSource],
        facts_sha256: &'a Sha256Hex,
        input_sha256: &'a Sha256Hex,
        #[serde(skip_serializing_if = "TextLanguage::is_default")]
        language: TextLanguage,
        metrics: &'a EvaluationMetrics,
        rules: &'a [RuleResult],
        verdict: RuleVerdict,
        #[serde(skip_serializing_if = "Option::is_none")]
        wordlist: Option<&'a WordlistRef>,
    }
    let CandidateCheck { facts_from, language, derive, .. } = check;
    let verdict = RuleVerdict::combine(rules.iter().map(|rule| rule.verdict));
    let wordlist = check.wordlist.as_ref().map(|list| list.document().reference());
    let sha256 = Sha256Hex::of_json(&UnsignedEvaluation {
        candidate_sha256: &candidate_sha256,
        derive: *derive,
        facts_from,
        facts_sha256: &facts_sha256,
        input_sha256: &input_sha256,
        language: *language,
        metrics: &metrics,
        rules: &rules,
        verdict,
        wordlist: wordlist.as_ref(),
    });
    RulesEvaluation {
        candidate_sha256,
        derive: *derive,
        facts_from: facts_from.clone(),
        facts_sha256,
        input_sha256,
        language: *language,
        metrics,
        rules,
        sha256,
        verdict,
        wordlist,
    }
}

/// The result of `rule`, also if it fails or panics.
fn applied(rule: RuleId, subject: &RuleContext<'_>) -> RuleResult {
    let mut findings = RuleFindings::new(rule);
    let done = catch_unwind(AssertUnwindSafe(|| apply(rule, subject, &mut findings)));
    match done {
        Ok(Ok(())) => findings.result(None),
        Ok(Err(RuleError(cause))) => findings.result(Some(cause)),
        Err(_) => findings.result(Some("the rule panicked".into())),
    }
}

fn apply(rule: RuleId, subject: &RuleContext<'_>, findings: &mut RuleFindings) -> Result<(), RuleError> {
    match rule {
        RuleId::Prec001 => precision::unsupported_claims(subject, findings),
        RuleId::Prec002 => return precision::must_find(subject, findings),
        RuleId::Prec003 => return precision::must_not_find(subject, findings),
        RuleId::Prec004 => precision::fact_sourcing(subject, findings),
        RuleId::Prec013 => return supported::supported_claims(subject, findings),
        RuleId::Cont001 => contradiction::direct_negation(subject, findings),
        RuleId::Cont002 => return comparison::incompatible(subject, findings),
        RuleId::Cont003 => contradiction::assertion_then_infirmation(subject, findings),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
