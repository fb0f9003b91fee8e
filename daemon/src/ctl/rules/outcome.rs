//! What the daemon says of a case, held against what is wanted of it.

use super::super::output::{on_one_line, shortened};
use super::case::{Case, LineFault, Want};
use super::excerpt::{Marked, without_marks};
use crate::client::ClientError;
use crate::problem::Problem;
use domain::rules::{RuleId, Verdict, Violation};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Of one case, so many complaints are shown; the rest is counted.
const COMPLAINTS_MAX: usize = 10;
/// A message is cut to so many characters.
const MESSAGE_MAX_CHARS: usize = 500;

/// A line of the daemon's answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    /// Its number among the lines that were sent.
    pub(super) line: u64,
    id: Option<String>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// What became of a line.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) line: u64,
    pub(super) id: Option<String>,
    pub(super) category: Option<String>,
    pub(super) end: End,
    /// The most that is shown of what did not go as wanted.
    pub(super) complaints: Vec<Complaint>,
    /// How many more there were.
    pub(super) complaints_omitted: u64,
    want: Option<Want>,
    evaluation: Option<Box<RawValue>>,
    problem: Option<Box<RawValue>>,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
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

/// One thing that did not go as wanted; of others' words nothing steers a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// The rule, or a problem's code.
    pub(super) about: String,
    pub(super) message: String,
    pub(super) excerpt: Option<Marked>,
}

/// What counts of an evaluation.
#[derive(Deserialize)]
struct Evaluated {
    verdict: Verdict,
    rules: Vec<Applied>,
}

#[derive(Deserialize)]
struct Applied {
    rule: RuleId,
    verdict: Verdict,
    cause: Option<String>,
    violations: Vec<Violation>,
    violations_omitted: u64,
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
    pub(super) fn of(case: Case, answer: Answer) -> Result<Self, ClientError> {
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
            end,
            complaints: complaints.into_iter().take(COMPLAINTS_MAX).collect(),
            complaints_omitted,
            want: Some(case.want),
            evaluation: answer.evaluation,
            problem: answer.problem,
        })
    }

    /// A line that is no case; the daemon would say the same of it.
    pub(super) fn of_no_case(line: u64, fault: &LineFault) -> Self {
        let problem = Problem::InvalidRequest(fault.to_string());
        let document = String::from_utf8_lossy(&problem.to_json()).into_owned();
        let (_, code) = problem.status();
        Self {
            line,
            id: None,
            category: None,
            end: End::NoCase,
            complaints: vec![Complaint::new(code, &problem.to_string(), None)],
            complaints_omitted: 0,
            want: None,
            evaluation: None,
            problem: Some(RawValue::from_string(document).expect("a problem's document is JSON")),
        }
    }

    /// The case, as people know it.
    pub(super) fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    /// One line for programs: the daemon's words, and how they are to be taken.
    pub(super) fn to_json(&self) -> String {
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

impl Complaint {
    fn new(about: &str, message: &str, excerpt: Option<Marked>) -> Self {
        let message = without_marks(&shortened(message, MESSAGE_MAX_CHARS));
        Self { about: on_one_line(about), message, excerpt }
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, ClientError> {
    serde_json::from_str(json.get()).map_err(|error| unreadable(&error.to_string()))
}

fn complained(document: &Document) -> (End, Vec<Complaint>) {
    let end = if document.status < 500 { End::NoCase } else { End::NotEvaluated };
    (end, vec![Complaint::new(&document.code, &document.detail, None)])
}

fn judged(case: &Case, evaluated: &Evaluated) -> (End, Vec<Complaint>) {
    let Want { verdict: wanted, failed } = &case.want;
    let came = evaluated.verdict;
    let fails: BTreeSet<RuleId> = of(evaluated, Verdict::Fail).map(|applied| applied.rule).collect();
    if came == *wanted && failed.as_ref().is_none_or(|failed| *failed == fails) {
        return (End::AsWanted, Vec::new());
    }
    let mut complaints = Vec::new();
    for rule in failed.iter().flatten().filter(|rule| !fails.contains(rule)) {
        complaints.push(Complaint::new(rule.as_str(), "it was to fail, and does not", None));
    }
    for applied in of(evaluated, Verdict::Error) {
        let cause = applied.cause.as_deref().unwrap_or_default();
        complaints.push(Complaint::new(applied.rule.as_str(), &format!("it cannot tell: {cause}"), None));
    }
    let text = case.candidate();
    let is_wanted = |rule| failed.as_ref().map_or(*wanted == Verdict::Fail, |failed| failed.contains(rule));
    for applied in of(evaluated, Verdict::Fail).filter(|applied| !is_wanted(&applied.rule)) {
        complaints
            .extend(applied.violations.iter().map(|violation| violated(applied.rule, violation, &text)));
        if applied.violations_omitted > 0 {
            let message = format!("{} more violations", applied.violations_omitted);
            complaints.push(Complaint::new(applied.rule.as_str(), &message, None));
        }
    }
    // what speaks against a pass says by itself that there is none
    if came != *wanted && (*wanted != Verdict::Pass || complaints.is_empty()) {
        let message = format!("the verdict is {}; {} was wanted", came.as_str(), wanted.as_str());
        complaints.insert(0, Complaint::new("verdict", &message, None));
    }
    (if came == Verdict::Error { End::Undecided } else { End::Otherwise }, complaints)
}

/// The rules that came to `verdict`.
fn of(evaluated: &Evaluated, verdict: Verdict) -> impl Iterator<Item = &Applied> {
    evaluated.rules.iter().filter(move |applied| applied.verdict == verdict)
}

fn violated(rule: RuleId, violation: &Violation, text: &str) -> Complaint {
    let Violation { message, span, related, text: words, .. } = violation;
    let mut spans: Vec<_> = span.iter().chain(related).collect();
    spans.sort_by_key(|span| span.start);
    // what is missing stands nowhere
    let excerpt = Marked::of(text, &spans).unwrap_or_else(|| Marked::words(words));
    Complaint::new(rule.as_str(), message, Some(excerpt))
}
