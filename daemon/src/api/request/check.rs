//! What a text, or a verdict, is to be checked against.

use super::SubmitRequest;
use crate::problem::Problem;
use actors::rules::Case;
use domain::rules::{Check, Expected, RuleId, Settings};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The longest id of a case, in characters.
const CASE_ID_MAX_CHARS: usize = 255;

/// `POST /v1/rules/evaluate`, and every line of `POST /v1/rules/evaluate:batch`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateRequest {
    /// What the caller calls it, up to 255 characters; the batch's answer and the audit log bear it.
    pub id: Option<String>,
    /// The text to check.
    pub candidate_output: String,
    /// What is known to be so.
    pub facts: Vec<String>,
    /// Where the text comes from; compared with nothing.
    pub context: Option<String>,
    /// Comparisons that hold.
    pub constraints: Option<Vec<String>>,
    /// What is expected: `must_find`, `must_not_find`, `max_unsupported_claims`, `contradiction_ids`,
    /// `contradiction_pairs`.
    #[serde(default, deserialize_with = "object")]
    #[schema(value_type = Option<Object>)]
    pub expected: Option<Expected>,
    /// The rules to apply; the configured profile without it.
    #[schema(value_type = Option<Vec<String>>)]
    pub rules: Option<Vec<RuleId>>,
}

/// An object, or null for none: serde would take an array as the members in their order, without their names.
pub(super) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<Box<RawValue>>::deserialize(deserializer)? else { return Ok(None) };
    if !text.get().starts_with('{') {
        return Err(D::Error::custom("`expected` is an object"));
    }
    let unplaced = |error: serde_json::Error| {
        let message = error.to_string();
        D::Error::custom(message.split(" at line ").next().unwrap_or_default())
    };
    serde_json::from_str(text.get()).map(Some).map_err(unplaced)
}

impl EvaluateRequest {
    /// The text and its check.
    ///
    /// # Errors
    /// `InvalidRequest` where the check cannot be made.
    pub fn case(self, settings: &Settings) -> Result<Case, Problem> {
        let Self { id, candidate_output, facts, context, constraints, expected, rules } = self;
        let chars = id.as_ref().map_or(0, |id| id.chars().count());
        if chars > CASE_ID_MAX_CHARS {
            let text = format!("`id` has {chars} characters; at most {CASE_ID_MAX_CHARS} are taken");
            return Err(Problem::InvalidRequest(text));
        }
        let (constraints, expected) = (constraints.unwrap_or_default(), expected.unwrap_or_default());
        let check =
            valid(Check { facts, facts_from: Vec::new(), context, constraints, expected, rules }, settings)?;
        Ok(Case { id, candidate_output, check: Arc::new(check) })
    }
}

impl SubmitRequest {
    /// Takes out what the verdict is to be checked against; nothing where the request speaks of no facts.
    ///
    /// # Errors
    /// `InvalidRequest` where the check cannot be made, or all but the facts are given.
    pub fn take_check(&mut self, settings: &Settings) -> Result<Option<Arc<Check>>, Problem> {
        let (context, constraints) = (self.context.take(), self.constraints.take());
        let (expected, rules) = (self.expected.take(), self.rules.take());
        let Some(facts) = self.facts.take() else {
            let beside = [
                ("context", context.is_some()),
                ("constraints", constraints.is_some()),
                ("expected", expected.is_some()),
                ("rules", rules.is_some()),
            ];
            return match beside.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(Problem::InvalidRequest(format!(
                    "`{name}` is given without `facts`: a verdict is checked where `facts` are given, be it none: []"
                ))),
                None => Ok(None),
            };
        };
        let (constraints, expected) = (constraints.unwrap_or_default(), expected.unwrap_or_default());
        let check =
            valid(Check { facts, facts_from: Vec::new(), context, constraints, expected, rules }, settings)?;
        // it stays with the session, and what is configured may change
        Ok(Some(Arc::new(check.settled(settings))))
    }
}

fn valid(check: Check, settings: &Settings) -> Result<Check, Problem> {
    check.validate(settings).map_err(|error| Problem::InvalidRequest(error.to_string()))?;
    Ok(check)
}
