//! The daemon's answer to a case, compared with the expected result.

use super::case::{Case, LineFault, Want};
use super::complaint::{Complaint, Evaluated, Said, complaints};
use crate::base::lines::without_place;
use crate::base::output::shortened;
use oracled_api::base::client::ClientError;
use oracled_domain::rules::{RuleId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Maximum number of complaints shown for one case; the rest are counted.
const COMPLAINTS_MAX: usize = 10;
/// Maximum length of a case's note, in characters.
const NOTE_MAX_CHARS: usize = 500;

/// A line of the daemon's answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// Number of the request among the lines that were sent, from 1.
    pub(crate) line: u64,
    id: Option<String>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// The outcome of a line.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) line: u64,
    pub(crate) id: Option<String>,
    pub(crate) category: Option<String>,
    /// The note on one line, shortened.
    pub(crate) note: Option<String>,
    pub(crate) end: End,
    /// The first complaints, if the result is not the expected one.
    pub(crate) complaints: Vec<Complaint>,
    /// Number of complaints left out.
    pub(crate) complaints_omitted: u64,
    want: Option<Want>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The result is the expected one.
    AsWanted,
    /// The result is not the expected one.
    Otherwise,
    /// The verdict is `ERROR`, which was not expected.
    Undecided,
    /// The line is not a case.
    NoCase,
    /// The daemon failed on the case.
    NotEvaluated,
}

#[derive(Deserialize)]
struct Document {
    code: String,
    detail: String,
    status: u16,
}

impl Outcome {
    /// Compares `answer` with the expected result of `case`.
    ///
    /// # Errors
    /// `Unreadable` if it is not an answer, or belongs to another case.
    pub(crate) fn of(case: Case, answer: Answer) -> Result<Self, ClientError> {
        let (end, complaints) = match (&answer.evaluation, &answer.problem) {
            (Some(evaluation), None) => judged(&case, &read(evaluation)?),
            (None, Some(problem)) => complained(&read(problem)?),
            _ => return Err(unreadable("a line has either `evaluation` or `problem`")),
        };
        if answer.id.is_some() && answer.id != case.id {
            return Err(unreadable("the answer to a case has another id"));
        }
        let complaints_omitted = complaints.len().saturating_sub(COMPLAINTS_MAX) as u64;
        Ok(Self {
            line: case.line,
            id: case.id,
            category: case.category,
            note: case
                .note
                .map(|note| shortened(note.trim(), NOTE_MAX_CHARS))
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
    pub(crate) fn of_no_case(line: u64, fault: &LineFault) -> Self {
        let problem = fault.problem();
        Self {
            line,
            id: None,
            category: None,
            note: None,
            end: End::NoCase,
            complaints: vec![Complaint::new(problem.code.as_str(), &fault.to_string())],
            complaints_omitted: 0,
            want: None,
            evaluation: None,
            problem: serde_json::value::to_raw_value(&problem).ok(),
        }
    }

    /// The id of the case, or its line number.
    pub(crate) fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    /// One JSON line: the daemon's answer, and whether the result is the expected one.
    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Told<'a> {
            line: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            evaluation: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            problem: Option<&'a RawValue>,
            ok: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            want: Option<&'a Want>,
        }
        let told = Told {
            line: self.line,
            id: self.id.as_deref(),
            evaluation: self.evaluation.as_deref(),
            problem: self.problem.as_deref(),
            ok: self.end == End::AsWanted,
            want: self.want.as_ref(),
        };
        serde_json::to_string(&told).expect("plain data with string keys can be written")
    }
}

fn unreadable(text: &str) -> ClientError {
    ClientError::Unreadable(text.into())
}

fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, ClientError> {
    serde_json::from_str(json.get()).map_err(|error| unreadable(&error.to_string()))
}

fn complained(document: &Document) -> (End, Vec<Complaint>) {
    let end = if document.status < 500 { End::NoCase } else { End::NotEvaluated };
    (end, vec![Complaint::new(&document.code, without_place(&document.detail))])
}

fn judged(case: &Case, evaluated: &Evaluated) -> (End, Vec<Complaint>) {
    let Want { verdict: wanted, failed } = &case.want;
    let came = evaluated.verdict;
    let fails: BTreeSet<RuleId> = evaluated.of(Verdict::Fail).map(|applied| applied.rule).collect();
    if came == *wanted && failed.as_ref().is_none_or(|failed| *failed == fails) {
        return (End::AsWanted, Vec::new());
    }
    let mut said = Vec::new();
    if let (Verdict::Fail, Some(failed)) = (wanted, failed) {
        let told = |rules: &BTreeSet<RuleId>, others: &BTreeSet<RuleId>, told: &'static str| {
            rules.difference(others).map(|rule| Said::new(*rule, told)).collect::<Vec<_>>()
        };
        said.extend(told(failed, &fails, "did not fail, but was expected to"));
        said.extend(told(&fails, failed, "failed, but was not expected to"));
    }
    let is_wanted = |rule| failed.as_ref().map_or(*wanted == Verdict::Fail, |failed| failed.contains(&rule));
    said.extend(evaluated.against(|rule| !is_wanted(rule)));
    let mut complaints = complaints(&said);
    // the complaints against a PASS already show that the verdict is not PASS
    if came != *wanted && (*wanted != Verdict::Pass || complaints.is_empty()) {
        let message = format!("the verdict is {}; expected {}", came.into_str(), wanted.into_str());
        complaints.insert(0, Complaint::new("verdict", &message));
    }
    (if came == Verdict::Error { End::Undecided } else { End::Otherwise }, complaints)
}
