//! The daemon's answer to a case, compared with the expected result.

use super::case::{CaseExpectation, CaseLineFault, EvalCase};
use domain_rules::{RuleId, RuleVerdict};
use oracled_api::client::ClientError;
use oracled_ctl::base::input::strip_position;
use oracled_ctl::base::output::shorten_line;
use oracled_ctl::rules::check::{EvaluationSummary, RuleComplaint, RuleMessage, merge_messages};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

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
