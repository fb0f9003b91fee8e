//! What the daemon says of a case, held against what is wanted of it.

use super::case::{Case, LineFault, Want};
use super::complaint::{Complaint, Evaluated, Said, complaints};
use crate::base::lines::without_place;
use crate::base::output::shortened;
use oracled_api::base::client::ClientError;
use oracled_domain::rules::{RuleId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Of one case, so many complaints are shown; the rest is counted.
const COMPLAINTS_MAX: usize = 10;
/// A case's note is cut to so many characters.
const NOTE_MAX_CHARS: usize = 500;

/// A line of the daemon's answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// Its number among the lines that were sent.
    pub(crate) line: u64,
    id: Option<String>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// What became of a line.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) line: u64,
    pub(crate) id: Option<String>,
    pub(crate) category: Option<String>,
    /// On one line, and of a bounded length.
    pub(crate) note: Option<String>,
    pub(crate) end: End,
    /// The most that is shown of what did not go as wanted.
    pub(crate) complaints: Vec<Complaint>,
    /// How many more there were.
    pub(crate) complaints_omitted: u64,
    want: Option<Want>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The verdict is the wanted one.
    AsWanted,
    /// The verdict is another one.
    Otherwise,
    /// The verdict is `ERROR`, and that was not wanted.
    Undecided,
    /// The line is no case.
    NoCase,
    /// The daemon failed over it.
    NotEvaluated,
}

#[derive(Deserialize)]
struct Document {
    code: String,
    detail: String,
    status: u16,
}

impl Outcome {
    /// What `answer` means for `case`.
    ///
    /// # Errors
    /// `Unreadable` where it is no answer, or another case's.
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

    /// A line that is no case; the daemon would say the same of it.
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

    /// The case, as people know it.
    pub(crate) fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    /// One line for programs: the daemon's words, and how they are to be taken.
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
        said.extend(told(failed, &fails, "should have failed, and did not"));
        said.extend(told(&fails, failed, "failed, and should not have"));
    }
    let is_wanted = |rule| failed.as_ref().map_or(*wanted == Verdict::Fail, |failed| failed.contains(&rule));
    said.extend(evaluated.against(|rule| !is_wanted(rule)));
    let mut complaints = complaints(&said);
    // what speaks against a pass says by itself that there is none
    if came != *wanted && (*wanted != Verdict::Pass || complaints.is_empty()) {
        let message = format!("the verdict is {}; {} was wanted", came.into_str(), wanted.into_str());
        complaints.insert(0, Complaint::new("verdict", &message));
    }
    (if came == Verdict::Error { End::Undecided } else { End::Otherwise }, complaints)
}
