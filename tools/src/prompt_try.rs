//! `oraclectl prompt try`.

use domain_base::document::Document;
use domain_base::text_form::is_blank;
use domain_base::wording::reword_serde_error;
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
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
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
    let [candidate, current] =
        run_all(&options.control_path()?, template, &queries, args.repeat.into()).await?;
    let report = TrialReport {
        queries: queries.len(),
        runs: args.repeat.into(),
        candidate: TemplateReport::of(&candidate, args.repeat.into()),
        current: TemplateReport::of(&current, args.repeat.into()),
    };
    if options.json {
        return print_json(out, &report);
    }
    let name = |report: &TemplateReport, what: &str| {
        report.template.as_ref().map_or_else(|| what.to_owned(), |template| format!("{what}: {template}"))
    };
    let (candidate, current) = (name(&report.candidate, "candidate"), name(&report.current, "current"));
    let heading = [format!("{} queries, {} runs", report.queries, report.runs), candidate, current];
    let [queries, candidate, current] = &heading;
    writeln!(out, "{}", format_table([queries, candidate, current], report.rows()))?;
    let flips = report.flip_rows();
    if flips.is_empty() {
        return Ok(());
    }
    Ok(writeln!(out, "\n{}", format_table(["query with several labels", candidate, current], flips))?)
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

/// Runs all queries with `template` and with the current template.
async fn run_all(
    socket: &Path,
    template: PromptTemplate,
    queries: &[TrialQuery],
    runs: usize,
) -> Result<[TemplateRuns; 2], CtlError> {
    let none = || queries.iter().map(|query| (query.clone(), Vec::new())).collect::<Vec<_>>();
    let (mut candidate, mut current) = (none(), none());
    let (template, room) = (Arc::new(template), Arc::new(Semaphore::new(CALLS_AT_ONCE)));
    let mut running = JoinSet::new();
    for (position, query) in queries.iter().enumerate() {
        for call in 0..2 * runs {
            let is_candidate = call < runs;
            let template = is_candidate.then(|| Arc::clone(&template));
            let (query, room, socket) = (query.clone(), Arc::clone(&room), socket.to_owned());
            running.spawn(async move {
                let _permit = room.acquire_owned().await;
                let TrialQuery { tier, query } = query;
                let template = template.map(|template| PromptTemplate::clone(&template));
                (position, is_candidate, send(&socket, &PromptTryRequest { template, tier, query }).await)
            });
        }
    }
    let bar = ProgressBar::new(running.len() as u64);
    let bar = with_style(bar, "trying {bar:20} {pos} of {len} calls, {eta} left");
    // an error drops the other calls
    while let Some(ended) = running.join_next().await {
        let (position, is_candidate, answer) = ended.map_err(io::Error::other)?;
        let runs = if is_candidate { &mut candidate } else { &mut current };
        if let Some((_, answers)) = runs.get_mut(position) {
            answers.push(answer?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok([candidate, current])
}

/// Sends a call until the daemon's limits permit it. A used up daily budget is an error, because it lasts for hours.
async fn send(socket: &Path, request: &PromptTryRequest) -> Result<PromptTryResponse, CtlError> {
    let body = serde_json::to_vec(request).map_err(io::Error::from)?;
    loop {
        match call(socket, Method::POST, "/v1/prompts/try", Some(body.clone().into())).await {
            Err(CtlError::Problem { code, retry_after, .. })
                if code == "model_busy" && retry_after.unwrap_or_default() <= BUSY_MAX =>
            {
                sleep(BUSY_PAUSE).await;
            }
            answer => return Ok(answer?.json()?),
        }
    }
}

/// Maximum number of queries of a trial.
const QUERIES_MAX: usize = 500;

/// A query to try.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialQuery {
    pub(super) tier: ProductTier,
    pub(super) query: String,
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
    let (input, bar) = open(file, "reading").map_err(unreadable)?;
    let (mut lines, mut queries) = (InputLineReader::new(input), Vec::new());
    while let Some(InputLine { number, text }) = lines.next_line().map_err(unreadable)? {
        let read = text.map_err(|error| error.to_string()).and_then(|text| parse_query(text, template));
        queries.push(read.map_err(|fault| invalid(format!(":{number}: {fault}")))?);
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
    tier: ProductTier,
    query: String,
    /// How often it got each label.
    labels: BTreeMap<&'static str, u64>,
}

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
        for (TrialQuery { tier, query }, answers) in runs {
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
            if decisions.len() == runs_of_each {
                report.all_approved.add(decisions.iter().all(|decision| decision.approved));
            }
            let mut labels = BTreeMap::new();
            for label in decisions.iter().filter_map(|decision| decision.verdict_label) {
                *labels.entry(label.into_str()).or_default() += 1;
            }
            if labels.values().sum::<u64>() == runs_of_each as u64 {
                report.label_agreement.add(labels.len() == 1);
            }
            if labels.len() > 1 {
                report.flips.push(LabelFlips { tier: *tier, query: query.clone(), labels });
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
    /// The rows of the queries with several labels: the query, and the labels by each template.
    fn flip_rows(&self) -> Vec<[String; 3]> {
        let mut rows = BTreeMap::<(&str, &str), [String; 2]>::new();
        for (column, report) in [&self.candidate, &self.current].into_iter().enumerate() {
            for flips in &report.flips {
                let row = rows.entry((&flips.query, flips.tier.into_str())).or_default();
                if let Some(cell) = row.get_mut(column) {
                    *cell = flips.describe();
                }
            }
        }
        let row = |((query, tier), [candidate, current]): ((&str, &str), [String; 2])| {
            [format!("{tier}: {}", shorten_line(query, QUERY_SHOWN_CHARS)), candidate, current]
        };
        rows.into_iter().map(row).collect()
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
        let quick = TrialQuery { tier: ProductTier::Quick, query: "Sell honey?".into() };
        assert_eq!(parse(r#"{"tier":"quick","query":"Sell honey?"}"#), Ok(quick));
        for line in [
            "quick",
            r#"["quick","Sell honey?"]"#,
            r#"{"tier":"quick"}"#,
            r#"{"tier":"gold","query":"Sell honey?"}"#,
            r#"{"tier":"quick","query":" "}"#,
            r#"{"tier":"quick","query":"Sell honey?","id":1}"#,
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
            let query = |query: &str| TrialQuery { tier: quick, query: query.to_owned() };
            let runs = [
                (query("a"), vec![good(VerdictLabel::Green), good(VerdictLabel::Green)]),
                (query("b"), vec![good(VerdictLabel::Green), good(VerdictLabel::Red)]),
                (query("c"), vec![answer(quick, "{}"), failed]),
                // answers without a label do not agree
                (query("d"), vec![answer(quick, "{}"), answer(quick, "{}")]),
            ];
            let report = TemplateReport::of(&runs, 2);
            let approval = report.approval.get("quick").expect("the tier was tried");
            assert_eq!((approval.runs, approval.approved), (8, 4));
            assert_eq!((report.label_agreement.compared, report.label_agreement.agreed), (2, 1));
            assert_eq!((report.all_approved.compared, report.all_approved.agreed), (3, 2));
            let flips: Vec<_> = report.flips.iter().map(|flips| (&*flips.query, flips.describe())).collect();
            assert_eq!(flips, [("b", "GREEN 1, RED 1".to_owned())]);
            assert_eq!(report.failures.get("declined"), Some(&1));
            assert_eq!(report.flags.get("verdict_missing"), Some(&3), "{:?}", report.flags);
            assert!(report.mean_coherence.is_some_and(|mean| mean < 1.0));
            let usage = report.usage.expect("the model reported its tokens");
            assert_eq!(
                (usage.prompt_tokens, usage.output_tokens, usage.total_tokens),
                (Some(70), Some(14), None)
            );
            let current = TemplateReport::default();
            let report = TrialReport { queries: 4, runs: 2, candidate: report, current };
            assert_eq!(report.flip_rows(), [["quick: b", "GREEN 1, RED 1", ""]]);
            let rows = report.rows();
            assert_eq!(rows[0], ["model", "gemini (gemini-2.5-flash)", "unknown"]);
            assert!(
                rows.contains(&["approved, quick".into(), "4 of 8 (50.0 %)".into(), String::new()]),
                "{rows:?}"
            );
            // seven of eight answers have a cost
            assert_eq!(rows.last(), Some(&["cost".into(), "1.75 USD".into(), "unknown".into()]));
        }
    }
}
