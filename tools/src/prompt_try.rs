//! `oraclectl prompt try`.

use domain_base::document::Document;
use domain_base::text_form::is_blank;
use domain_base::wording::{format_count, reword_serde_error};
use domain_verdict::cost::ModelCost;
use domain_verdict::generation::ModelTokenUsage;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::{PromptTemplate, TemplateName, TemplateRef};
use domain_verdict::wire::{PromptTryRequest, PromptTryResponse};
use hyper::Method;
use indicatif::ProgressBar;
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input::{InputLine, InputLineReader, display_name, json_error_text, open, with_style};
use oracled_ctl::base::options::{GlobalOptions, call};
use oracled_ctl::base::output::{format_table, print_json, shorten_line};
use oracled_ctl::base::program::{ProgramArgs, block_on, run_program};
use oracled_ctl::ground::apply::read_document;
use oracled_ctl::ground::documents::find_document;
use oracled_ctl::verdict::programs::PromptTryArgs;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Maximum number of calls in flight. The daemon has its own limits.
const CALLS_AT_ONCE: usize = 16;
/// When to send a call again that the daemon's limits refused.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// The longest part of a query in the table.
const QUERY_SHOWN_CHARS: usize = 60;
/// The longest wait for the limits of calls.
const BUSY_MAX: Duration = Duration::from_secs(120);

/// The name of the program.
pub const PROGRAM: &str = PromptTryArgs::PROGRAM;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    run_program(|args: &PromptTryArgs, options, out| block_on(try_template(args, options, out)))
}

async fn try_template(
    args: &PromptTryArgs,
    options: &GlobalOptions,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let template = find_template(args, options).await?;
    let queries = read_queries(&args.queries, &template)?;
    let (socket, runs) = (options.control_path()?, usize::from(args.repeat));
    check_queries(&socket, &args.queries, &queries).await?;
    let ([candidate, current], ended) = run_all(&socket, template, &queries, runs).await;
    let (candidate, current) = (TemplateReport::of(&candidate, runs), TemplateReport::of(&current, runs));
    let report = TrialReport { queries: queries.len(), runs, candidate, current };
    let (calls, missing) = (2 * runs * queries.len(), report.candidate.missing + report.current.missing);
    if missing < calls as u64 {
        report.print(options, out)?;
    }
    match ended {
        // only its text: a problem document would follow the report on standard output
        Err(error) if missing < calls as u64 => Err(CtlError::Verb {
            message: format!("{error}; the results are partial: {missing} of {calls} calls are missing"),
            exit_code: error.exit_code(),
            was_printed: false,
        }),
        ended => ended,
    }
}

/// The template of a file, or the registered one.
async fn find_template(args: &PromptTryArgs, options: &GlobalOptions) -> Result<PromptTemplate, CtlError> {
    let kind = PromptTemplate::TYPE;
    if args.template.parse::<TemplateName>().is_ok() {
        let document = find_document(options, kind.into(), &args.template).await?.document;
        return Ok(serde_json::from_value(document).map_err(io::Error::from)?);
    }
    let invalid = |fault: String| CtlError::Verb {
        message: format!("{}: {fault}", args.template),
        exit_code: 5,
        was_printed: false,
    };
    let document = read_document(Path::new(&args.template))?;
    let Some(template) = document.get::<PromptTemplate>() else {
        let other = document.document_type();
        return Err(invalid(format!("it has a document of the kind {other}, not {kind}")));
    };
    template.validate().map_err(|error| invalid(error.to_string()))?;
    Ok(template.clone())
}

/// The results of a template: each query, and its runs.
type TemplateRuns = Vec<(TrialQuery, Vec<PromptTryResponse>)>;

/// The answer to a call: the position of its query, and whether it was with the candidate; `None` if it was not sent, because the trial
/// had ended.
type TrialAnswer = Option<Result<(usize, bool, PromptTryResponse), CtlError>>;

/// Starts all calls, which take turns: those of the first query come first.
fn start_calls(
    socket: &Path,
    template: PromptTemplate,
    queries: &[TrialQuery],
    runs: usize,
    room: &Arc<Semaphore>,
) -> JoinSet<TrialAnswer> {
    let (template, mut running) = (Arc::new(template), JoinSet::new());
    for (position, query) in queries.iter().enumerate() {
        for call in 0..2 * runs {
            let is_candidate = call < runs;
            let template = is_candidate.then(|| Arc::clone(&template));
            let (query, room, socket) = (query.clone(), Arc::clone(room), socket.to_owned());
            running.spawn(async move {
                let _permit = room.acquire().await.ok()?;
                let template = template.map(|template| PromptTemplate::clone(&template));
                let answer = send(&socket, &query.into_request(template, false), &room).await.transpose()?;
                Some(answer.map(|answer| (position, is_candidate, answer)))
            });
        }
    }
    running
}

/// Runs all queries with `template` and with the current template. After an error, no further call is sent, but the answers to those in
/// flight, which cost money, are waited for. Ctrl-C ends the wait.
async fn run_all(
    socket: &Path,
    template: PromptTemplate,
    queries: &[TrialQuery],
    runs: usize,
) -> ([TemplateRuns; 2], Result<(), CtlError>) {
    let none = || queries.iter().map(|query| (query.clone(), Vec::new())).collect::<Vec<_>>();
    let (mut candidate, mut current, mut ended) = (none(), none(), Ok(()));
    let room = Arc::new(Semaphore::new(CALLS_AT_ONCE));
    let mut running = start_calls(socket, template, queries, runs, &room);
    let bar = ProgressBar::new(running.len() as u64);
    let bar = with_style(bar, "trying {bar:20} {pos} of {len} calls, {eta} left");
    bar.enable_steady_tick(BUSY_PAUSE);
    let mut interrupted = pin!(ctrl_c());
    loop {
        let joined = tokio::select! {
            joined = running.join_next() => joined,
            _ = &mut interrupted => {
                let message = "the trial was interrupted".to_owned();
                ended = ended.and(Err(CtlError::Verb { message, exit_code: 130, was_printed: false }));
                break;
            }
        };
        let Some(joined) = joined else { break };
        match joined.unwrap_or_else(|error| Some(Err(io::Error::other(error).into()))) {
            Some(Ok((position, is_candidate, answer))) => {
                let runs = if is_candidate { &mut candidate } else { &mut current };
                if let Some((_, answers)) = runs.get_mut(position) {
                    answers.push(answer);
                }
                bar.inc(1);
            }
            Some(Err(error)) => {
                room.close();
                ended = ended.and(Err(error));
            }
            None => {}
        }
    }
    bar.finish_and_clear();
    ([candidate, current], ended)
}

/// The route that tries a prompt.
const PATH: &str = "/v1/prompts/try";

/// Checks before the first call what only the daemon knows: the tiers of the current template, the longest query, and that a model is
/// configured.
async fn check_queries(socket: &Path, file: &Path, queries: &[TrialQuery]) -> Result<(), CtlError> {
    for query in queries {
        let body = serde_json::to_vec(&query.clone().into_request(None, true)).map_err(io::Error::from)?;
        let checked = call(socket, Method::POST, PATH, Some(body.into())).await;
        checked.map_err(|error| match &error {
            CtlError::Problem { code, detail, .. }
                if matches!(code.as_str(), "query_too_long" | "prompt_unavailable") =>
            {
                let (code, text) = (code.clone(), format!("{}:{}: {detail}", display_name(file), query.line));
                error.reword(&code, || text)
            }
            _ => error,
        })?;
    }
    Ok(())
}

/// Sends a call until the daemon's limits and the model permit it. Returns `None` if the trial has ended before. A used up daily budget is
/// an error, because it lasts for hours.
async fn send(
    socket: &Path,
    request: &PromptTryRequest,
    room: &Semaphore,
) -> Result<Option<PromptTryResponse>, CtlError> {
    let body = serde_json::to_vec(request).map_err(io::Error::from)?;
    loop {
        match call(socket, Method::POST, PATH, Some(body.clone().into())).await {
            Err(CtlError::Problem { code, retry_after, .. })
                if code == "model_busy"
                    && retry_after.unwrap_or_default() <= BUSY_MAX
                    && !room.is_closed() =>
            {
                sleep(BUSY_PAUSE).await;
                if room.is_closed() {
                    return Ok(None);
                }
            }
            answer => return Ok(Some(answer?.json()?)),
        }
    }
}

/// Maximum number of queries of a trial.
const QUERIES_MAX: usize = 500;

/// A query to try.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialQuery {
    tier: ProductTier,
    query: String,
    /// Its line in the file, from 1.
    #[serde(skip)]
    line: u64,
}

impl TrialQuery {
    /// The request with `template`, or with the current template.
    fn into_request(self, template: Option<PromptTemplate>, check_only: bool) -> PromptTryRequest {
        PromptTryRequest { template, tier: self.tier, query: self.query, check_only }
    }
}

/// The queries of a file, all of which `template` has a text for.
fn read_queries(file: &Path, template: &PromptTemplate) -> Result<Vec<TrialQuery>, CtlError> {
    let name = display_name(file);
    let unreadable = |cause| CtlError::Read { file: name.clone(), cause };
    let invalid = |fault: String| CtlError::Verb {
        message: format!("{name}{fault}"),
        exit_code: 5,
        was_printed: false,
    };
    let (input, bar) = open(file, "reading queries").map_err(unreadable)?;
    let (mut lines, mut queries) = (InputLineReader::new(input), Vec::new());
    while let Some(InputLine { number, text }) = lines.next_line().map_err(unreadable)? {
        let read = text.map_err(|error| error.to_string()).and_then(|text| parse_query(text, template));
        let query = read.map_err(|fault| invalid(format!(":{number}: {fault}")))?;
        queries.push(TrialQuery { line: number, ..query });
        if queries.len() > QUERIES_MAX {
            let fault = format!(" has more than {QUERIES_MAX} queries (at most {QUERIES_MAX} allowed)");
            return Err(invalid(format!("{fault}; try them in several files")));
        }
    }
    bar.finish_and_clear();
    if queries.is_empty() {
        return Err(invalid(r#" has no queries; write one {"tier", "query"} object per line"#.to_owned()));
    }
    Ok(queries)
}

fn parse_query(text: &[u8], template: &PromptTemplate) -> Result<TrialQuery, String> {
    const FORM: &str = r#"a line is one {"tier": "quick", "query": "…"} object"#;
    if !text.starts_with(b"{") {
        return Err(format!("not a JSON object; {FORM}"));
    }
    let query: TrialQuery = serde_json::from_slice(text).map_err(|error| {
        format!("{}, column {}; {FORM}", reword_serde_error(&json_error_text(&error)), error.column())
    })?;
    if is_blank(&query.query) {
        return Err(format!("`query` is empty; {FORM}"));
    }
    if template.tiers.get(query.tier).is_none() {
        let (tier, reference) = (query.tier, template.reference());
        return Err(format!(
            "prompt template {reference} has no text for the tier {tier}; add one to `tiers`"
        ));
    }
    Ok(query)
}

/// The results of both templates.
#[derive(Debug, Serialize)]
struct TrialReport {
    queries: usize,
    /// The number of runs of each query with each template.
    runs: usize,
    candidate: TemplateReport,
    current: TemplateReport,
}

/// The results of one template.
#[derive(Debug, Default, Serialize)]
struct TemplateReport {
    /// The template; absent before the first answer.
    template: Option<TemplateRef>,
    /// The model, by its name among the oracles; absent before the first answer.
    oracle_id: Option<String>,
    /// The name of the model at its provider.
    model: Option<String>,
    /// The number of runs without a result, because the trial ended before.
    missing: u64,
    /// By tier.
    approval: BTreeMap<&'static str, ApprovalReport>,
    /// The number of runs without an answer that can be judged, by their cause.
    failures: BTreeMap<String, u64>,
    /// The number of runs with each flag.
    flags: BTreeMap<String, u64>,
    mean_coherence: Option<f64>,
    /// How many queries got the same label in all runs.
    label_agreement: AgreementReport,
    /// How many queries were approved in all runs: pass^K.
    all_approved: AgreementReport,
    /// The queries with several labels.
    flips: Vec<LabelFlips>,
    usage: Option<ModelTokenUsage>,
    cost: Option<ModelCost>,
}

/// The approved runs of a tier.
#[derive(Debug, Default, Serialize)]
struct ApprovalReport {
    runs: u64,
    approved: u64,
}

/// How many queries had the same result in all runs.
#[derive(Debug, Default, Serialize)]
struct AgreementReport {
    /// The queries of which all runs were judged.
    compared: u64,
    agreed: u64,
}

/// A query that got several labels.
#[derive(Debug, Serialize)]
struct LabelFlips {
    /// The line of the query.
    line: u64,
    tier: ProductTier,
    query: String,
    /// How often it got each label; `none` for answers without a readable one.
    labels: BTreeMap<&'static str, u64>,
}

/// The label of an answer that has no readable one.
const NO_LABEL: &str = "none";

impl AgreementReport {
    fn add(&mut self, is_same: bool) {
        self.compared += 1;
        self.agreed += u64::from(is_same);
    }
}

impl TemplateReport {
    /// The report of all queries, each with `runs_of_each`.
    fn of(runs: &[(TrialQuery, Vec<PromptTryResponse>)], runs_of_each: usize) -> Self {
        let mut report = Self::default();
        let (mut coherence, mut judged) = (0.0, 0u64);
        for (TrialQuery { tier, query, line }, answers) in runs {
            report.missing += runs_of_each.saturating_sub(answers.len()) as u64;
            let approval = report.approval.entry(tier.into_str()).or_default();
            for answer in answers {
                report.template.get_or_insert_with(|| answer.template.clone());
                report.oracle_id.get_or_insert_with(|| answer.oracle_id.to_string());
                report.model.get_or_insert_with(|| answer.model.clone());
                approval.runs += 1;
                if let Some(failure) = &answer.failure {
                    *report.failures.entry(failure.clone()).or_default() += 1;
                }
                let Some(decision) = &answer.decision else { continue };
                approval.approved += u64::from(decision.approved);
                coherence += decision.coherence_score;
                judged += 1;
                for flag in &decision.flags {
                    *report.flags.entry(flag.to_string()).or_default() += 1;
                }
            }
            let decisions: Vec<_> = answers.iter().filter_map(|answer| answer.decision.as_ref()).collect();
            let mut labels = BTreeMap::new();
            for decision in &decisions {
                let label = decision.verdict_label.map_or(NO_LABEL, |label| label.into_str());
                *labels.entry(label).or_default() += 1;
            }
            if decisions.len() == runs_of_each {
                report.all_approved.add(decisions.iter().all(|decision| decision.approved));
                report.label_agreement.add(labels.len() == 1);
            }
            if labels.len() > 1 {
                report.flips.push(LabelFlips { line: *line, tier: *tier, query: query.clone(), labels });
            }
        }
        report.mean_coherence = (judged > 0).then(|| coherence / judged as f64);
        let answers = || runs.iter().flat_map(|(_, answers)| answers);
        report.usage = ModelTokenUsage::sum(answers().filter_map(|answer| answer.usage));
        report.cost = ModelCost::sum(answers().filter_map(|answer| answer.cost.clone()));
        report
    }

    fn approved(&self, tier: &str) -> String {
        self.approval.get(tier).map_or_else(String::new, |approval| share(approval.approved, approval.runs))
    }

    fn tokens(&self, of: fn(&ModelTokenUsage) -> Option<u64>) -> String {
        self.usage.as_ref().and_then(of).map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string())
    }
}

impl TrialReport {
    /// The rows of the table: the name of a figure, and its value for each template.
    fn rows(&self) -> Vec<[String; 3]> {
        let both = [&self.candidate, &self.current];
        let mut rows = Vec::new();
        let mut add = |name: String, value: &dyn Fn(&TemplateReport) -> String| {
            let [candidate, current] = both.map(value);
            rows.push([name, candidate, current]);
        };
        add("model".into(), &|report| match (&report.oracle_id, &report.model) {
            (Some(oracle_id), Some(model)) => format!("{oracle_id} ({model})"),
            _ => "unknown".into(),
        });
        if both.iter().any(|report| report.missing > 0) {
            add("missing runs".into(), &|report| report.missing.to_string());
        }
        for tier in ProductTier::ALL.map(|tier| tier.into_str()) {
            if both.iter().any(|report| report.approval.contains_key(tier)) {
                add(format!("approved, {tier}"), &|report| report.approved(tier));
            }
        }
        add("mean coherence".into(), &|report| {
            report.mean_coherence.map_or_else(|| "none".into(), |mean| format!("{mean:.4}"))
        });
        add("same label in all runs".into(), &|report| {
            share(report.label_agreement.agreed, report.label_agreement.compared)
        });
        add("approved in all runs".into(), &|report| {
            share(report.all_approved.agreed, report.all_approved.compared)
        });
        let names = |of: fn(&TemplateReport) -> &BTreeMap<String, u64>| {
            both.iter().flat_map(|report| of(report).keys().cloned()).collect::<BTreeSet<_>>()
        };
        for flag in names(|report| &report.flags) {
            add(format!("flag {flag}"), &|report| report.flags.get(&flag).copied().unwrap_or(0).to_string());
        }
        for cause in names(|report| &report.failures) {
            add(format!("no answer: {cause}"), &|report| {
                report.failures.get(&cause).copied().unwrap_or(0).to_string()
            });
        }
        add("tokens of prompts".into(), &|report| report.tokens(|usage| usage.prompt_tokens));
        add("tokens of answers".into(), &|report| report.tokens(|usage| usage.output_tokens));
        add("tokens in all".into(), &|report| report.tokens(|usage| usage.total_tokens));
        if both.iter().any(|report| report.cost.is_some()) {
            add("cost".into(), &|report| {
                report.cost.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
            });
        }
        rows
    }
}

impl LabelFlips {
    /// The labels, the most frequent first.
    fn describe(&self) -> String {
        let mut labels: Vec<_> = self.labels.iter().collect();
        labels.sort_by_key(|(_, times)| Reverse(**times));
        let labels: Vec<_> = labels.into_iter().map(|(label, times)| format!("{label} {times}")).collect();
        labels.join(", ")
    }
}

impl TrialReport {
    fn print(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        if options.json {
            return print_json(out, self);
        }
        let name = |report: &TemplateReport, what: &str| {
            report.template.as_ref().map_or_else(|| what.to_owned(), |template| format!("{what}: {template}"))
        };
        let (candidate, current) = (name(&self.candidate, "candidate"), name(&self.current, "current"));
        let heading = format!(
            "{}, {}",
            format_count(self.queries, "query", "queries"),
            format_count(self.runs, "run", "runs")
        );
        writeln!(out, "{}", format_table([&heading, &candidate, &current], self.rows()))?;
        let flips = self.flip_rows();
        if flips.is_empty() {
            return Ok(());
        }
        Ok(writeln!(out, "\n{}", format_table(["query with several labels", &candidate, &current], flips))?)
    }

    /// The rows of the queries with several labels: the line and the query, and the labels by each template.
    fn flip_rows(&self) -> Vec<[String; 3]> {
        let mut rows = BTreeMap::<u64, [String; 3]>::new();
        for (column, report) in [(1, &self.candidate), (2, &self.current)] {
            for flips in &report.flips {
                let LabelFlips { line, tier, query, .. } = flips;
                let row = rows.entry(*line).or_insert_with(|| {
                    let name = format!("line {line}, {tier}: {}", shorten_line(query, QUERY_SHOWN_CHARS));
                    [name, String::new(), String::new()]
                });
                if let Some(cell) = row.get_mut(column) {
                    *cell = flips.describe();
                }
            }
        }
        rows.into_values().collect()
    }
}

/// A part of a whole, with its percentage.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "none".to_owned();
    }
    format!("{part} of {whole} ({:.1} %)", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_one_object_of_a_tier_with_a_text() {
        let mut template = PromptTemplate::built_in().clone();
        template.tiers.full = None;
        let parse = |text: &str| parse_query(text.as_bytes(), &template);
        let quick = TrialQuery { tier: ProductTier::Quick, query: "Sell honey?".into(), line: 0 };
        assert_eq!(parse(r#"{"tier":"quick","query":"Sell honey?"}"#), Ok(quick));
        for line in [
            "quick",
            r#"["quick","Sell honey?"]"#,
            r#"{"tier":"quick"}"#,
            r#"{"tier":"gold","query":"Sell honey?"}"#,
            r#"{"tier":"quick","query":" "}"#,
            r#"{"tier":"quick","query":"Sell honey?","id":1}"#,
            r#"{"tier":"quick","query":"Sell honey?","line":1}"#,
            r#"{"tier":"full","query":"Sell honey?"}"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    mod report {
        use crate::prompt_try::*;
        use domain_base::payload::VerdictPayload;
        use domain_verdict::crosscheck::judge;
        use domain_verdict::label::VerdictLabel;

        fn answer(tier: ProductTier, raw: &str) -> PromptTryResponse {
            let usage = ModelTokenUsage {
                prompt_tokens: Some(10),
                output_tokens: Some(2),
                thinking_tokens: None,
                total_tokens: None,
            };
            PromptTryResponse {
                template: "house@2".parse().expect("a reference"),
                oracle_id: "gemini".parse().expect("an id"),
                model: "gemini-2.5-flash".into(),
                decision: Some(judge(tier, VerdictPayload::raw(raw)).decision),
                failure: None,
                usage: Some(usage),
                cost: Some(ModelCost { amount: "0.25".parse().expect("a number"), currency: "USD".into() }),
            }
        }

        fn good(label: VerdictLabel) -> PromptTryResponse {
            let raw = format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan."}}"#);
            answer(ProductTier::Quick, &raw)
        }

        #[test]
        fn report_counts_approval_flags_agreement_and_tokens() {
            let quick = ProductTier::Quick;
            let failed = PromptTryResponse {
                decision: None,
                failure: Some("declined".into()),
                usage: None,
                cost: None,
                ..good(VerdictLabel::Green)
            };
            let query = |line, query: &str| TrialQuery { tier: quick, query: query.to_owned(), line };
            let runs = [
                (query(1, "a"), vec![good(VerdictLabel::Green), good(VerdictLabel::Green)]),
                (query(2, "b"), vec![good(VerdictLabel::Green), good(VerdictLabel::Red)]),
                (query(3, "c"), vec![answer(quick, "{}"), failed]),
                (query(4, "d"), vec![answer(quick, "{}"), answer(quick, "{}")]),
                (query(5, "b"), vec![good(VerdictLabel::Red), answer(quick, "{}")]),
            ];
            let cut_off = TemplateReport::of(&runs, 3);
            assert_eq!((cut_off.missing, cut_off.label_agreement.compared), (5, 0));
            let report = TemplateReport::of(&runs, 2);
            let approval = report.approval.get("quick").expect("the tier was tried");
            assert_eq!((approval.runs, approval.approved, report.missing), (10, 5, 0));
            assert_eq!((report.label_agreement.compared, report.label_agreement.agreed), (4, 2));
            assert_eq!((report.all_approved.compared, report.all_approved.agreed), (4, 2));
            assert_eq!(report.failures.get("declined"), Some(&1));
            assert_eq!(report.flags.get("verdict_missing"), Some(&4), "{:?}", report.flags);
            assert!(report.mean_coherence.is_some_and(|mean| mean < 1.0));
            let usage = report.usage.expect("the model reported its tokens");
            assert_eq!(
                (usage.prompt_tokens, usage.output_tokens, usage.total_tokens),
                (Some(90), Some(18), None)
            );
            let current = TemplateReport::default();
            let report = TrialReport { queries: 5, runs: 2, candidate: report, current };
            // the same query twice, and an answer without a label
            let flips =
                [["line 2, quick: b", "GREEN 1, RED 1", ""], ["line 5, quick: b", "RED 1, none 1", ""]];
            assert_eq!(report.flip_rows(), flips);
            let rows = report.rows();
            assert_eq!(rows[0], ["model", "gemini (gemini-2.5-flash)", "unknown"]);
            assert!(
                rows.contains(&["approved, quick".into(), "5 of 10 (50.0 %)".into(), String::new()]),
                "{rows:?}"
            );
            // nine of ten answers have a cost
            assert_eq!(rows.last(), Some(&["cost".into(), "2.25 USD".into(), "unknown".into()]));
        }
    }
}
