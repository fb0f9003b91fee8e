//! Why an answer of the model was rejected, for the log, the order, and the next prompt.

use crate::crosscheck::CrosscheckDecision;
use crate::flag::Flag;
use domain_rules::{CandidateSpan, RuleId, RuleResult, RuleVerdict, RulesEvaluation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The maximum number of claims that are quoted in a prompt.
const QUOTED_CLAIMS_MAX: usize = 20;
/// The maximum length of a quoted claim, in characters.
const CLAIM_MAX_CHARS: usize = 500;
/// The maximum number of claims that a rule lists.
const LISTED_CLAIMS_MAX: usize = 100;
/// The delimiters at which the published rules split a text into claims.
const CLAIM_ENDS: [char; 3] = ['.', '!', '?'];

/// Why the gate rejected an answer of the model. It has no text of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRejection {
    /// The flags of the crosscheck, without those of unexpected members; absent if it approved the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flags: Vec<Flag>,
    /// The rules that failed; absent if the crosscheck rejected the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rules: Vec<RejectingRule>,
}

/// A rule that failed for an answer of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RejectingRule {
    /// The rule.
    pub rule: RuleId,
    /// The numbers of the claims that it found fault with, at most 100. The claims of all texts of the verdict are numbered from
    /// 1; empty if the fault is not in a claim.
    pub claims: Vec<u32>,
}

/// A claim of a rejected answer. Its text is never stored in plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedClaim {
    /// The number of the claim, from 1.
    pub claim: u32,
    pub text: String,
}

impl AnswerRejection {
    /// The rejection by the crosscheck. The names of unexpected members are the model's words, and no reason for a rejection.
    #[must_use]
    pub fn by_crosscheck(decision: &CrosscheckDecision) -> Self {
        let is_reason = |flag: &&Flag| !matches!(flag, Flag::UnexpectedField(_));
        Self { flags: decision.flags.iter().filter(is_reason).cloned().collect(), rules: Vec::new() }
    }

    /// The rejection by the rules, and the texts of the first claims that they found fault with. `fields` are the texts of the
    /// verdict with the paths of their fields, in order.
    pub(crate) fn by_rules(
        evaluation: &RulesEvaluation,
        fields: &[(String, String)],
    ) -> (Self, Vec<RejectedClaim>) {
        let claims = NumberedClaims::of(fields);
        let mut quoted = BTreeMap::new();
        let failed = evaluation.rules.iter().filter(|result| result.verdict == RuleVerdict::Fail);
        let rules = failed.map(|result| {
            let found: BTreeMap<u32, &str> = claims.of_rule(result).take(LISTED_CLAIMS_MAX).collect();
            let numbers = found.keys().copied().collect();
            quoted.extend(found);
            RejectingRule { rule: result.rule, claims: numbers }
        });
        let rejection = Self { flags: Vec::new(), rules: rules.collect() };
        let quoted = quoted.into_iter().take(QUOTED_CLAIMS_MAX);
        let quote = |(claim, text): (u32, &str)| RejectedClaim {
            claim,
            text: text.chars().take(CLAIM_MAX_CHARS).collect(),
        };
        (rejection, quoted.map(quote).collect())
    }

    /// Whether it names no fault.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flags.is_empty() && self.rules.is_empty()
    }
}

impl fmt::Display for AnswerRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = |RejectingRule { rule, claims }: &RejectingRule| {
            let s = if claims.len() == 1 { "" } else { "s" };
            let claims = claims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            if claims.is_empty() { rule.to_string() } else { format!("{rule} (claim{s} {claims})") }
        };
        let faults = self.flags.iter().map(ToString::to_string).chain(self.rules.iter().map(rule));
        f.write_str(&faults.collect::<Vec<_>>().join(", "))
    }
}

/// The claims of all texts of a verdict, split as the published rules do.
struct NumberedClaims<'v> {
    /// The texts of each field. The name and the value of a member have the same field.
    fields: BTreeMap<&'v str, Vec<NumberedText<'v>>>,
}

struct NumberedText<'v> {
    text: &'v str,
    claims: Vec<NumberedClaim>,
}

struct NumberedClaim {
    number: u32,
    /// Its place in its text, in bytes.
    range: Range<usize>,
}

impl<'v> NumberedClaims<'v> {
    fn of(fields: &'v [(String, String)]) -> Self {
        let mut number = 0;
        let mut numbered = BTreeMap::<_, Vec<_>>::new();
        for (field, text) in fields {
            let (mut claims, mut start) = (Vec::new(), 0);
            for piece in text.split(CLAIM_ENDS) {
                if !piece.trim().is_empty() {
                    number += 1;
                    claims.push(NumberedClaim { number, range: start..start + piece.len() });
                }
                // each delimiter has one byte
                start += piece.len() + 1;
            }
            numbered.entry(field.as_str()).or_default().push(NumberedText { text, claims });
        }
        Self { fields: numbered }
    }

    /// The claim that contains all of `span`, or the first of several in it: other rules do not split a text at the point of `66.5`.
    /// `None` if it may be in the name or in the value of a member.
    fn at(&self, span: &CandidateSpan) -> Option<(u32, &'v str)> {
        let texts = self.fields.get(span.field.as_deref()?)?;
        let contains = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let claims = texts.iter().flat_map(|text| text.claims.iter().map(move |claim| (text.text, claim)));
        let mut whole = claims.filter(|(_, claim)| contains(&claim.range));
        match (whole.next(), whole.next(), texts.as_slice()) {
            (Some((text, claim)), None, _) => Some((claim.number, text.get(claim.range.clone())?.trim())),
            (None, _, [NumberedText { text, claims }]) => {
                let first = claims.iter().find(|claim| span.start < claim.range.end)?;
                Some((first.number, text.get(span.start..span.end)?.trim()))
            }
            _ => None,
        }
    }

    /// The claims in which `result` has violations.
    fn of_rule(&self, result: &RuleResult) -> impl Iterator<Item = (u32, &'v str)> {
        let spans = result.violations.iter().flat_map(|violation| [&violation.span, &violation.related]);
        spans.flatten().filter_map(|span| self.at(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_attributed_to_its_claim_and_not_to_the_name_of_a_member() {
        // `"tests":[{"Cows moo loudly":"Ask ten people."}]`
        let path = "tests[0].Cows moo loudly";
        let fields = [("summary", "Sound. Simple."), (path, "Cows moo loudly"), (path, "Ask ten people.")];
        let fields = fields.map(|(field, text)| (field.to_owned(), text.to_owned()));
        let claims = NumberedClaims::of(&fields);
        for (field, start, end, claim) in [
            ("summary", 7, 13, Some((2, "Simple"))),
            (path, 0, 15, Some((3, "Cows moo loudly"))),
            // it may be in the name or in the value
            (path, 0, 14, None),
            // it is in two claims
            ("summary", 0, 13, Some((1, "Sound. Simple"))),
            ("other", 0, 5, None),
        ] {
            let span = CandidateSpan { end, field: Some(field.to_owned()), start };
            assert_eq!(claims.at(&span), claim, "{span:?}");
        }
    }
}
