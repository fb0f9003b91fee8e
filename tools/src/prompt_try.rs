//! `oraclectl prompt try`.

mod report;

use domain_base::blank::is_blank;
use domain_base::document::Document;
use domain_base::wording::reword_serde_error;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::PromptTemplate;
use domain_verdict::template_name::TemplateName;
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use oracled_api::verdict::{PromptTryRequest, PromptTryResponse};
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input_lines::{InputLine, InputLineReader, display_name, json_error_text, open};
use oracled_ctl::base::options::{GlobalOptions, call};
use oracled_ctl::base::output::{format_table, print_json};
use oracled_ctl::base::program::{ProgramArgs, block_on, run_program};
use oracled_ctl::ground::apply::read_document;
use oracled_ctl::ground::documents::find_document;
use oracled_ctl::verdict::prompt::PromptTryArgs;
use report::{RUNS, TemplateReport, TrialReport};
use serde::Deserialize;
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
    let [candidate, current] = run_all(&options.control_path()?, template, &queries).await?;
    let report = TrialReport {
        queries: queries.len(),
        candidate: TemplateReport::of(&candidate),
        current: TemplateReport::of(&current),
    };
    if options.json {
        return print_json(out, &report);
    }
    let name = |report: &TemplateReport, what: &str| {
        report.template.as_ref().map_or_else(|| what.to_owned(), |template| format!("{what}: {template}"))
    };
    let (candidate, current) = (name(&report.candidate, "candidate"), name(&report.current, "current"));
    let heading = [format!("{} queries, {RUNS} runs", report.queries), candidate, current];
    let [queries, candidate, current] = &heading;
    Ok(writeln!(out, "{}", format_table([queries, candidate, current], report.rows()))?)
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

/// The results of a template: the tier of each query, and its runs.
type TemplateRuns = Vec<(ProductTier, Vec<PromptTryResponse>)>;

/// Runs all queries with `template` and with the current template.
async fn run_all(
    socket: &Path,
    template: PromptTemplate,
    queries: &[TrialQuery],
) -> Result<[TemplateRuns; 2], CtlError> {
    let none = || queries.iter().map(|query| (query.tier, Vec::new())).collect::<Vec<_>>();
    let (mut candidate, mut current) = (none(), none());
    let (template, room) = (Arc::new(template), Arc::new(Semaphore::new(CALLS_AT_ONCE)));
    let mut running = JoinSet::new();
    for (position, query) in queries.iter().enumerate() {
        for call in 0..2 * RUNS {
            let is_candidate = call < RUNS;
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
    let style = ProgressStyle::with_template("trying {bar:20} {pos} of {len} calls, {eta} left");
    let bar = style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style));
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

/// Maximum number of queries of a trial. Each is sent to the model four times.
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
}
