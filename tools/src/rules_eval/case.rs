//! A case: one evaluation request with its expected result, and the daemon's answer compared with it.

use bytes::Bytes;
use domain_base::problem::{INVALID_JSON, INVALID_REQUEST, ProblemDocument};
use domain_rules::{RuleId, RuleVerdict};
use oracled_api::client::ClientError;
use oracled_ctl::base::input::{LineTooLong, json_error_text, strip_position};
use oracled_ctl::base::output::shorten_line;
use oracled_ctl::rules::check::{EvaluationSummary, RuleComplaint, RuleMessage, merge_messages};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// A fault in a line. Each message states what is allowed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseLineFault {
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    #[error(
        "not JSON ({reason}, column {column}); a line is one {{\"candidate_output\", \"facts\", …}} object"
    )]
    NotJson { reason: String, column: usize },
    #[error("not a JSON object; a line is one {{\"candidate_output\", \"facts\", …}} object")]
    NotAnObject,
    #[error("{reason}, column {column}")]
    NotACase { reason: String, column: usize },
    #[error("missing field `facts`, or `facts_from`")]
    NoFacts,
    #[error("`want` is impossible; the verdict is FAIL if a rule fails, and only then")]
    Impossible,
}

impl CaseLineFault {
    /// The problem that the daemon would return for this line.
    pub(crate) fn problem(&self) -> ProblemDocument {
        match self {
            Self::NotJson { reason, column } => {
                ProblemDocument::new(INVALID_JSON, format!("the body is not JSON: {reason}, column {column}"))
            }
            other => ProblemDocument::new(INVALID_REQUEST, other.to_string()),
        }
    }
}

/// The expected result of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseExpectation {
    pub(crate) verdict: RuleVerdict,
    /// The exact set of rules that must fail; `None` accepts any set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<BTreeSet<RuleId>>,
}

impl Default for CaseExpectation {
    fn default() -> Self {
        Self { verdict: RuleVerdict::Pass, failed: None }
    }
}

impl CaseExpectation {
    /// Whether an evaluation can have this result: the verdict is `FAIL` if and only if a rule fails.
    fn is_possible(&self) -> bool {
        let fails = |failed: &BTreeSet<RuleId>| !failed.is_empty();
        self.failed.as_ref().is_none_or(|failed| fails(failed) == (self.verdict == RuleVerdict::Fail))
    }
}

/// The members of a line. The request members are sent unchanged, and the daemon validates them; the others
/// are not sent.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CaseMembers<'l> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing)]
    category: Option<String>,
    #[serde(skip_serializing)]
    note: Option<String>,
    #[serde(skip_serializing)]
    want: Option<CaseExpectation>,
    #[serde(borrow)]
    candidate_output: &'l RawValue,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    facts: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    facts_from: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    context: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    constraints: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    expected: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    rules: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    language: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    derive: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "as_it_stands", skip_serializing_if = "Option::is_none")]
    wordlist: Option<&'l RawValue>,
}

/// Keeps an explicit null, which is sent too.
fn as_it_stands<'l, D: Deserializer<'l>>(deserializer: D) -> Result<Option<&'l RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A case during its evaluation by the daemon.
#[derive(Debug)]
pub(crate) struct EvalCase {
    /// Line number in the file, from 1.
    pub(crate) line: u64,
    pub(crate) id: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) want: CaseExpectation,
}

impl EvalCase {
    /// Parses a line into the case and the request to send.
    pub(crate) fn parse(line: u64, text: &[u8]) -> Result<(Self, Bytes), CaseLineFault> {
        // serde also accepts an array with the members in their order
        let is_object = text.first() == Some(&b'{');
        let members: CaseMembers<'_> = match serde_json::from_slice(text) {
            Ok(members) if is_object => members,
            Ok(_) => return Err(CaseLineFault::NotAnObject),
            Err(error) => return Err(line_fault(&error, is_object)),
        };
        if members.facts.is_none() && members.facts_from.is_none() {
            return Err(CaseLineFault::NoFacts);
        }
        let mut request = serde_json::to_vec(&members).expect("plain data with string keys");
        request.push(b'\n');
        let CaseMembers { id, category, note, want, .. } = members;
        let want = want.unwrap_or_default();
        if !want.is_possible() {
            return Err(CaseLineFault::Impossible);
        }
        Ok((Self { line, id, category, note, want }, request.into()))
    }
}

fn line_fault(error: &serde_json::Error, is_object: bool) -> CaseLineFault {
    let (reason, column) = (json_error_text(error), error.column());
    match (error.is_data(), is_object) {
        (false, _) => CaseLineFault::NotJson { reason, column },
        (true, false) => CaseLineFault::NotAnObject,
        (true, true) => CaseLineFault::NotACase { reason, column },
    }
}

/// Maximum number of complaints shown for one case; the rest are counted.
const COMPLAINTS_MAX: usize = 10;
/// Maximum length of a case's note, in characters.
const NOTE_MAX_CHARS: usize = 500;

/// A line of the daemon's answer.
#[derive(Debug, Deserialize)]
pub(crate) struct ReceivedBatchLine {
    /// Number of the request among the lines that were sent, from 1.
    pub(crate) line: u64,
    id: Option<String>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// The outcome of a line.
#[derive(Debug)]
pub(crate) struct CaseOutcome {
    pub(crate) line: u64,
    pub(crate) id: Option<String>,
    pub(crate) category: Option<String>,
    /// The note on one line, shortened.
    pub(crate) note: Option<String>,
    pub(crate) end: CaseStatus,
    /// The first complaints, if the result is not the expected one.
    pub(crate) complaints: Vec<RuleComplaint>,
    /// Number of complaints left out.
    pub(crate) complaints_omitted: u64,
    want: Option<CaseExpectation>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseStatus {
    /// The result is the expected one.
    AsExpected,
    /// The case passes, and was not expected to.
    FalsePass,
    /// The case fails, and was not expected to.
    FalseFailure,
    /// The case fails as expected, but not by the expected rules.
    OtherRules,
    /// The verdict is `ERROR`, which was not expected.
    Undecided,
    /// The line is not a case.
    NoCase,
    /// The daemon failed on the case.
    NotEvaluated,
}

#[derive(Deserialize)]
struct CaseProblem {
    code: String,
    detail: String,
    status: u16,
}

impl CaseOutcome {
    /// Compares `answer` with the expected result of `case`.
    ///
    /// # Errors
    /// `Unreadable` if it is not an answer, or belongs to another case.
    pub(crate) fn from_answer(case: EvalCase, answer: ReceivedBatchLine) -> Result<Self, ClientError> {
        let (end, complaints) = match (&answer.evaluation, &answer.problem) {
            (Some(evaluation), None) => compare_result(&case, &parse_raw(evaluation)?),
            (None, Some(problem)) => problem_result(&parse_raw(problem)?),
            _ => return Err(unreadable_error("a line has either `evaluation` or `problem`")),
        };
        if answer.id.is_some() && answer.id != case.id {
            return Err(unreadable_error("the answer to a case has another id"));
        }
        let complaints_omitted = complaints.len().saturating_sub(COMPLAINTS_MAX) as u64;
        Ok(Self {
            line: case.line,
            id: case.id,
            category: case.category,
            note: case
                .note
                .map(|note| shorten_line(note.trim(), NOTE_MAX_CHARS))
                .filter(|note| !note.is_empty()),
            end,
            complaints: complaints.into_iter().take(COMPLAINTS_MAX).collect(),
            complaints_omitted,
            want: Some(case.want),
            evaluation: answer.evaluation,
            problem: answer.problem,
        })
    }

    /// The outcome of a line that is not a case, with the problem that the daemon would return.
    pub(crate) fn from_line_fault(line: u64, fault: &CaseLineFault) -> Self {
        let problem = fault.problem();
        Self {
            line,
            id: None,
            category: None,
            note: None,
            end: CaseStatus::NoCase,
            complaints: vec![RuleComplaint::new(problem.code.name, &fault.to_string())],
            complaints_omitted: 0,
            want: None,
            evaluation: None,
            problem: serde_json::value::to_raw_value(&problem).ok(),
        }
    }

    /// The id of the case, or its line number.
    pub(crate) fn case_name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    /// One JSON line: the daemon's answer, and whether the result is the expected one.
    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct CaseOutcomeLine<'a> {
            line: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            evaluation: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            problem: Option<&'a RawValue>,
            ok: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            want: Option<&'a CaseExpectation>,
        }
        let line = CaseOutcomeLine {
            line: self.line,
            id: self.id.as_deref(),
            evaluation: self.evaluation.as_deref(),
            problem: self.problem.as_deref(),
            ok: self.end == CaseStatus::AsExpected,
            want: self.want.as_ref(),
        };
        serde_json::to_string(&line).expect("plain data with string keys")
    }
}

fn unreadable_error(text: &str) -> ClientError {
    ClientError::Unreadable(text.into())
}

fn parse_raw<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, ClientError> {
    serde_json::from_str(json.get()).map_err(|error| unreadable_error(&error.to_string()))
}

fn problem_result(document: &CaseProblem) -> (CaseStatus, Vec<RuleComplaint>) {
    let end = if document.status < 500 { CaseStatus::NoCase } else { CaseStatus::NotEvaluated };
    (end, vec![RuleComplaint::new(&document.code, strip_position(&document.detail))])
}

fn compare_result(case: &EvalCase, evaluated: &EvaluationSummary) -> (CaseStatus, Vec<RuleComplaint>) {
    let CaseExpectation { verdict: expected, failed } = &case.want;
    let actual = evaluated.verdict;
    let fails: BTreeSet<RuleId> =
        evaluated.with_verdict(RuleVerdict::Fail).map(|applied| applied.rule).collect();
    if actual == *expected && failed.as_ref().is_none_or(|failed| *failed == fails) {
        return (CaseStatus::AsExpected, Vec::new());
    }
    let mut messages = Vec::new();
    if let (RuleVerdict::Fail, Some(failed)) = (expected, failed) {
        let differing = |rules: &BTreeSet<RuleId>, others: &BTreeSet<RuleId>, text: &'static str| {
            rules.difference(others).map(|rule| RuleMessage::new(*rule, text)).collect::<Vec<_>>()
        };
        messages.extend(differing(failed, &fails, "did not fail, but was expected to"));
        messages.extend(differing(&fails, failed, "failed, but was not expected to"));
    }
    let is_expected =
        |rule| failed.as_ref().map_or(*expected == RuleVerdict::Fail, |failed| failed.contains(&rule));
    messages.extend(evaluated.collect_messages(|rule| !is_expected(rule)));
    let mut complaints = merge_messages(&messages);
    // the complaints against a PASS already show that the verdict is not PASS
    if actual != *expected && (*expected != RuleVerdict::Pass || complaints.is_empty()) {
        let message = format!("the verdict is {}; expected {}", actual.into_str(), expected.into_str());
        complaints.insert(0, RuleComplaint::new("verdict", &message));
    }
    let status = match actual {
        RuleVerdict::Error => CaseStatus::Undecided,
        RuleVerdict::Pass => CaseStatus::FalsePass,
        RuleVerdict::Fail if *expected == RuleVerdict::Fail => CaseStatus::OtherRules,
        RuleVerdict::Fail => CaseStatus::FalseFailure,
    };
    (status, complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        EvalCase::parse(1, text.as_bytes()).expect_err(text).to_string()
    }

    #[test]
    fn request_has_the_members_unchanged_without_local_ones() {
        let line = r#"{"category":"c","facts": [ "\u00e9" ],"facts_from":[ {} ],"note":"n","candidate_output":"a\u0020b","id":"7",
            "expected":{"max_unsupported_claims":1.0},"context":null,"want":{"verdict":"FAIL"}}"#;
        let (case, request) = EvalCase::parse(3, line.replace('\n', "").as_bytes()).unwrap();
        assert_eq!(
            std::str::from_utf8(&request).unwrap(),
            "{\"id\":\"7\",\"candidate_output\":\"a\\u0020b\",\"facts\":[ \"\\u00e9\" ],\"facts_from\":[ {} ],\"context\":null,\
             \"expected\":{\"max_unsupported_claims\":1.0}}\n"
        );
        assert_eq!((case.line, case.id.as_deref(), case.category.as_deref()), (3, Some("7"), Some("c")));
        assert_eq!(case.want.verdict, RuleVerdict::Fail);
    }

    #[test]
    fn case_without_want_expects_pass() {
        let (case, _) = EvalCase::parse(1, br#"{"candidate_output":"","facts":[]}"#).unwrap();
        assert_eq!(case.want, CaseExpectation { verdict: RuleVerdict::Pass, failed: None });
    }

    #[test]
    fn invalid_line_is_reported_with_its_fault() {
        for (line, message) in [
            ("nonsense", "not JSON (expected ident, column 2); a line is one"),
            ("[\"a\",[]]", "not a JSON object; a line is one"),
            ("7", "not a JSON object; a line is one"),
            (r#"{"candidate_output":"a"}"#, "missing field `facts`, or `facts_from`"),
            (r#"{"facts":[]}"#, "missing field `candidate_output`"),
            (r#"{"candidate_output":"a","facts":[],"fact":1}"#, "unknown field `fact`, expected one of `id`"),
            (r#"{"candidate_output":"a","candidate_output":"b"}"#, "duplicate field `candidate_output`"),
            (r#"{"candidate_output":"a","facts":[],"id":7}"#, "expected a string, column"),
            (
                r#"{"candidate_output":"a","facts":[],"want":{"verdict":"pass"}}"#,
                "unknown variant `pass`, expected one of `PASS`, `FAIL`, `ERROR`",
            ),
            (
                r#"{"candidate_output":"a","facts":[],"want":{"verdict":"FAIL","failed":["RULE-PREC-999"]}}"#,
                "`RULE-PREC-999` is not a rule; allowed: RULE-PREC-001",
            ),
            (r#"{"candidate_output":"a","facts":[],"want":{"failed":[]}}"#, "missing field `verdict`"),
        ] {
            assert!(fault(line).contains(message), "{line}: {}", fault(line));
        }
        assert!(EvalCase::parse(1, b"{\"candidate_output\":\"\xff\",\"facts\":[]}").is_err());
    }

    #[test]
    fn impossible_want_is_rejected() {
        for (want, possible) in [
            (r#"{"verdict":"FAIL","failed":["RULE-PREC-001"]}"#, true),
            (r#"{"verdict":"PASS","failed":[]}"#, true),
            (r#"{"verdict":"FAIL","failed":[]}"#, false),
            (r#"{"verdict":"PASS","failed":["RULE-PREC-001"]}"#, false),
            (r#"{"verdict":"ERROR","failed":["RULE-PREC-001"]}"#, false),
        ] {
            let line = format!(r#"{{"candidate_output":"","facts":[],"want":{want}}}"#);
            assert_eq!(EvalCase::parse(1, line.as_bytes()).is_ok(), possible, "{want}");
        }
    }
}
