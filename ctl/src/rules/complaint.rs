//! Complaints: the violations and errors of an evaluation, as text for people.

use crate::base::output::shorten_line;
use oracled_domain::base::visible::visible_line;
use oracled_domain::rules::{CandidateSpan, RuleId, RuleVerdict, RuleViolation};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum length of a shown message, in characters.
const MESSAGE_MAX_CHARS: usize = 500;
/// Maximum length of the shown offending words, in characters.
const WORDS_MAX_CHARS: usize = 1_000;

/// One complaint about a text. Control characters in foreign text are escaped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleComplaint {
    /// The rules with this complaint, or a problem code.
    pub(crate) about: Vec<String>,
    pub(crate) message: String,
    /// The offending words, at most 1,000 characters.
    pub(crate) words: Option<String>,
}

impl RuleComplaint {
    pub(crate) fn new(about: &str, message: &str) -> Self {
        Self {
            about: vec![visible_line(about).into_owned()],
            message: shorten_line(message, MESSAGE_MAX_CHARS),
            words: None,
        }
    }
}

/// The parts of an evaluation that are shown.
#[derive(Deserialize)]
pub(crate) struct EvaluationSummary {
    pub(crate) verdict: RuleVerdict,
    pub(crate) rules: Vec<AppliedRule>,
}

#[derive(Deserialize)]
pub(crate) struct AppliedRule {
    pub(crate) rule: RuleId,
    verdict: RuleVerdict,
    cause: Option<String>,
    violations: Vec<RuleViolation>,
    violations_omitted: u64,
}

impl EvaluationSummary {
    /// The rules with this verdict.
    pub(crate) fn with_verdict(&self, verdict: RuleVerdict) -> impl Iterator<Item = &AppliedRule> {
        self.rules.iter().filter(move |applied| applied.verdict == verdict)
    }

    /// The causes of the rules with `ERROR`, and the violations of the failing rules that `is_told` accepts.
    pub(crate) fn collect_messages(&self, is_included: impl Fn(RuleId) -> bool) -> Vec<RuleMessage<'_>> {
        let causes = self.with_verdict(RuleVerdict::Error).map(|AppliedRule { rule, cause, .. }| {
            RuleMessage::new(
                *rule,
                format!("the rule could not be evaluated: {}", cause.as_deref().unwrap_or_default()),
            )
        });
        let failing = self.with_verdict(RuleVerdict::Fail).filter(|applied| is_included(applied.rule));
        causes.chain(failing.flat_map(AppliedRule::violations)).collect()
    }
}

impl AppliedRule {
    fn violations(&self) -> impl Iterator<Item = RuleMessage<'_>> {
        let omitted = self.violations_omitted;
        let rest = (omitted > 0).then(|| RuleMessage::new(self.rule, format!("{omitted} more violations")));
        let message = |violation| RuleMessage {
            violation: Some(violation),
            ..RuleMessage::new(self.rule, &violation.message)
        };
        self.violations.iter().map(message).chain(rest)
    }
}

/// A message of one rule.
pub(crate) struct RuleMessage<'a> {
    rule: RuleId,
    message: Cow<'a, str>,
    violation: Option<&'a RuleViolation>,
}

impl<'a> RuleMessage<'a> {
    pub(crate) fn new(rule: RuleId, message: impl Into<Cow<'a, str>>) -> Self {
        Self { rule, message: message.into(), violation: None }
    }

    /// The key that is equal for two rules with the same message about the same span.
    fn grouping_key(&self) -> impl Eq + std::hash::Hash + use<'a> {
        let stretch = |span: &'a CandidateSpan| (span.field.as_deref(), span.start, span.end);
        let violation = self.violation.map(|RuleViolation { span, related, text, .. }| {
            (span.as_ref().map(stretch), related.as_ref().map(stretch), text.as_str())
        });
        (self.message.clone(), violation)
    }

    fn to_complaint(&self) -> RuleComplaint {
        let mut complaint = RuleComplaint::new(self.rule.into_str(), &self.message);
        if let Some(RuleViolation { span, related, text, .. }) = self.violation {
            complaint.words = Some(shorten_line(text, WORDS_MAX_CHARS));
            let mut spans: Vec<_> = span.iter().chain(related).collect();
            spans.sort_by_key(|span| span.start);
            let mut fields: Vec<_> = spans.iter().filter_map(|span| span.field.as_deref()).collect();
            fields.dedup();
            if !fields.is_empty() {
                complaint.message += &visible_line(&format!(" (in {})", fields.join(", ")));
            }
        }
        complaint
    }
}

/// The complaints. Several rules with the same message about the same words give one complaint.
pub(crate) fn merge_messages(messages: &[RuleMessage<'_>]) -> Vec<RuleComplaint> {
    let (mut complaints, mut indexes) = (Vec::<RuleComplaint>::new(), HashMap::new());
    for message in messages {
        let index = *indexes.entry(message.grouping_key()).or_insert(complaints.len());
        match complaints.get_mut(index) {
            Some(RuleComplaint { about, .. }) => about.push(message.rule.to_string()),
            None => complaints.push(message.to_complaint()),
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn complaint_texts(rules: &Value) -> Vec<(String, String, String)> {
        let evaluated: EvaluationSummary =
            serde_json::from_value(json!({"verdict": "FAIL", "rules": rules})).expect("a valid evaluation");
        let texts = |RuleComplaint { about, message, words }: RuleComplaint| {
            (about.join(" "), message, words.unwrap_or_default())
        };
        merge_messages(&evaluated.collect_messages(|_| true)).into_iter().map(texts).collect()
    }

    fn applied(rule: &str, verdict: &str, violations: &[Value], omitted: u64) -> Value {
        let cause = (verdict == "ERROR").then_some("the pattern is blank");
        json!({
            "rule": rule, "verdict": verdict, "cause": cause, "violations": violations,
            "violations_omitted": omitted,
        })
    }

    fn violation(message: &str, span: &Value, related: &Value) -> Value {
        json!({"invariant": "Q-INV-01", "message": message, "text": "bad", "span": span, "related": related})
    }

    fn owned_texts(complaints: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        complaints.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn equal_messages_about_one_span_are_one_complaint() {
        let at = |start: usize| violation("no", &json!({"start": start, "end": start + 3}), &Value::Null);
        let other = violation("not so", &json!({"start": 0, "end": 3}), &Value::Null);
        let pair = violation("no", &json!({"start": 0, "end": 3}), &json!({"start": 4, "end": 7}));
        let missing = violation("no", &Value::Null, &Value::Null);
        let rules = json!([
            applied("RULE-PREC-001", "FAIL", &[at(0), at(4)], 2),
            applied("RULE-PREC-002", "FAIL", &[missing], 0),
            applied("RULE-PREC-003", "PASS", &[], 0),
            applied("RULE-PREC-004", "FAIL", &[at(4), at(0), other], 2),
            applied("RULE-CONT-001", "ERROR", &[], 0),
            applied("RULE-CONT-002", "ERROR", &[], 0),
            applied("RULE-CONT-003", "FAIL", &[pair], 3),
        ]);
        assert_eq!(
            complaint_texts(&rules),
            owned_texts(&[
                ("RULE-CONT-001 RULE-CONT-002", "the rule could not be evaluated: the pattern is blank", ""),
                ("RULE-PREC-001 RULE-PREC-004", "no", "bad"),
                ("RULE-PREC-001 RULE-PREC-004", "no", "bad"),
                ("RULE-PREC-001 RULE-PREC-004", "2 more violations", ""),
                ("RULE-PREC-002", "no", "bad"),
                ("RULE-PREC-004", "not so", "bad"),
                ("RULE-CONT-003", "no", "bad"),
                ("RULE-CONT-003", "3 more violations", ""),
            ])
        );
    }

    #[test]
    fn complaint_about_a_verdict_names_its_fields() {
        let at = |field: &str| json!({"field": field, "start": 0, "end": 3});
        let rules = json!([
            applied("RULE-PREC-001", "FAIL", &[violation("no", &at("summary"), &Value::Null)], 0),
            applied("RULE-PREC-004", "FAIL", &[violation("no", &at("b\u{1b}"), &Value::Null)], 0),
            applied("RULE-CONT-001", "FAIL", &[violation("no", &at("summary"), &at("x.analysis"))], 0),
            applied("RULE-CONT-002", "FAIL", &[violation("no", &at("summary"), &at("summary"))], 0),
        ]);
        assert_eq!(
            complaint_texts(&rules),
            owned_texts(&[
                ("RULE-PREC-001", "no (in summary)", "bad"),
                ("RULE-PREC-004", "no (in b\\u{1b})", "bad"),
                ("RULE-CONT-001", "no (in summary, x.analysis)", "bad"),
                ("RULE-CONT-002", "no (in summary)", "bad"),
            ])
        );
    }
}
