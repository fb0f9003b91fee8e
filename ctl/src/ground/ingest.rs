//! `oraclectl ingest`.

use crate::base::error::CtlError;
use crate::base::input;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser, problem_error};
use crate::base::output::{
    Output, format_pairs, format_requester, format_table, print_csv, print_json, short_run_id, shorten_line,
    warn_of_omitted_rows,
};
use crate::base::program::examples;
use crate::ground::parquet::{is_parquet, open_payload};
use domain_base::decimal::Decimal;
use domain_base::digest::Sha256Hex;
use domain_base::moment::Moment;
use domain_base::page::{ListPage, PageLimit};
use domain_base::text_form::visible_line;
use domain_ground::axis_effect::AxisEffect;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::rejection::RecordRule;
use domain_ground::run::{
    AxisCoverage, IngestionRun, ReleaseEffect, RunDecision, RunProgress, RunState, RunWarning,
};
use domain_ground::timeline::VersionChangeKind;
use domain_ground::wire::{
    ApprovalRequest, PullResponse, ReasonRequest, RunChangeReport, RunReport, UploadResponse,
};
use hyper::Method;
use indicatif::ProgressBar;
use jiff::Timestamp;
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse, PATIENCE};
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_domain::documents::DocumentReport;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem, thread};
use tokio::runtime::Handle;
use tokio::signal::ctrl_c;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

/// Ingest payloads of sources, and show and control ingestion runs
#[derive(Debug, clap::Args)]
pub(crate) struct IngestArgs {
    #[command(subcommand)]
    action: IngestAction,
}

#[derive(Debug, clap::Subcommand)]
enum IngestAction {
    #[command(after_help = examples(&["oraclectl ingest run wb-population data.csv --version 2026 --released-at 2026-07-01"]))]
    Run(IngestRunArgs),
    /// Pull a payload from its source, and show the progress of its run
    Pull {
        /// The pipeline
        pipeline_id: PipelineId,
        /// Request the payload even if the source would report that it has not changed
        #[arg(long)]
        force: bool,
        /// Start the run and print it, without waiting for its end
        #[arg(long)]
        detach: bool,
    },
    /// Show ingestion runs, the latest first
    #[command(after_help = examples(&["oraclectl ingest list wb-population -n 10"]))]
    List {
        /// Only runs of this source
        oracle_id: Option<SourceId>,
        /// Only runs after this run in the list; the full id is required
        #[arg(long, value_name = "RUN")]
        after: Option<Sha256Hex>,
        /// Maximum number of runs, 1 to 1000 [default: 100]
        #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
        limit: Option<usize>,
        /// Print CSV, for programs
        #[arg(long)]
        csv: bool,
    },
    /// Show a run: its progress, or its result
    #[command(after_help = examples(&["oraclectl ingest show 3f2a9c01"]))]
    Show {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
    },
    #[command(after_help = examples(&["oraclectl ingest changes 3f2a9c01"]))]
    Changes(IngestChangesArgs),
    /// Cancel a run; none of its records become visible
    Cancel {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
    },
    /// Approve a held run despite its failed gates, and show its progress
    #[command(after_help = examples(&["oraclectl ingest approve 3f2a9c01 --reason 'the census has changed the counts'"]))]
    Approve {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
        /// The reason, for the log
        #[arg(long)]
        reason: String,
        /// Approve it although this run was completed since it was read; the full id is required
        #[arg(long, value_name = "RUN")]
        outdated_by: Option<Sha256Hex>,
        /// Do not wait for the end of the run
        #[arg(long)]
        detach: bool,
    },
    /// Discard a held run
    Discard {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
        /// The reason, for the log
        #[arg(long)]
        reason: String,
    },
    /// Undo a completed run; queries with an earlier `--known-at` still return its records
    Undo {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
        /// The reason, for the log
        #[arg(long)]
        reason: String,
    },
}

impl IngestArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match &self.action {
            IngestAction::Run(verb) => verb.run(options, out).await,
            IngestAction::Pull { pipeline_id, force, detach } => {
                pull(options, out, pipeline_id, *force, *detach).await
            }
            IngestAction::List { oracle_id, after, limit, csv } => {
                let params = [
                    oracle_id.as_ref().map(|oracle_id| format!("oracle_id={oracle_id}")),
                    after.as_ref().map(|after| format!("after={after}")),
                    limit.map(|limit| format!("limit={limit}")),
                ];
                let params: Vec<_> = params.into_iter().flatten().collect();
                list(options, out, &params.join("&"), *csv).await
            }
            IngestAction::Show { run_id } => {
                let seen = read_run(options, run_id).await?;
                if options.json { print_json(out, &seen) } else { print_run(out, &seen) }
            }
            IngestAction::Changes(verb) => verb.run(options, out).await,
            IngestAction::Approve { run_id, reason, outdated_by, detach } => {
                let seen = match approve(options, run_id, reason, outdated_by.clone()).await {
                    Ok(seen) => seen,
                    Err(error) => return Err(with_outdated_hint(options, error, run_id).await),
                };
                if *detach {
                    return if options.json { print_json(out, &seen) } else { print_run(out, &seen) };
                }
                show_ended(options, out, &wait_for_end(options, &seen.run.run_id).await?)
            }
            IngestAction::Discard { run_id, reason } => {
                let seen = decide(options, run_id, "discard", reason).await?;
                if options.json { print_json(out, &seen) } else { print_run(out, &seen) }
            }
            IngestAction::Undo { run_id, reason } => {
                let seen = decide(options, run_id, "undo", reason).await?;
                if options.json { print_json(out, &seen) } else { print_run(out, &seen) }
            }
            IngestAction::Cancel { run_id } => {
                let seen = cancel(options, run_id).await?;
                if options.json {
                    return print_json(out, &seen);
                }
                Ok(writeln!(out, "run {} is being canceled", seen.run.run_id)?)
            }
        }
    }
}

/// Shows a run that has ended.
///
/// # Errors
/// `Held`, and `RunFailed` if the run failed, was canceled or was discarded.
fn show_ended(options: &GlobalOptions, out: &mut dyn Write, seen: &RunReport) -> Result<(), CtlError> {
    if options.json {
        print_json(out, seen)?;
    } else {
        print_run(out, seen)?;
    }
    check_state(&seen.run)
}

/// # Errors
/// `Held`, and `RunFailed` if the run failed, was canceled or was discarded.
fn check_state(run: &IngestionRun) -> Result<(), CtlError> {
    match run.state {
        RunState::Completed | RunState::Running => Ok(()),
        RunState::Held => Err(CtlError::Held(run.run_id.clone())),
        RunState::Failed | RunState::Cancelled | RunState::Discarded => Err(CtlError::RunFailed),
    }
}

/// # Errors
/// The same as [`ended`].
async fn pull(
    options: &GlobalOptions,
    out: &mut dyn Write,
    pipeline_id: &PipelineId,
    force: bool,
    detach: bool,
) -> Result<(), CtlError> {
    let path = format!("/v1/pipelines/{pipeline_id}/pull?force={force}");
    let pulled: PullResponse = options.run_on_control(&path, &serde_json::json!({})).await?.json()?;
    let Some(run) = pulled.run.clone().filter(|_| !detach && !pulled.unchanged) else {
        if options.json {
            print_json(out, &pulled)?;
            return pulled.run.as_ref().map_or(Ok(()), check_state);
        }
        let text = match &pulled.run {
            Some(run) if pulled.unchanged => {
                check_state(run)?;
                format!("run {} has read the same payload before; nothing changes", run.run_id)
            }
            Some(run) => format!("run {} continues", run.run_id),
            None => "the source has nothing new".to_owned(),
        };
        return Ok(writeln!(out, "{text}")?);
    };
    show_ended(options, out, &wait_for_end(options, &run.run_id).await?)
}

/// Requests the cancellation of a run, which ends later.
pub(crate) async fn cancel(options: &GlobalOptions, run_id: &str) -> Result<RunReport, CtlError> {
    let path = run_path(run_id) + "/cancel";
    Ok(options.call_control(Method::POST, &path, None).await?.json()?)
}

/// Sends an operator's decision about a run to the daemon. Returns the run; for `undo`, the new run that undoes it.
pub(crate) async fn decide(
    options: &GlobalOptions,
    run_id: &str,
    verb: &str,
    reason: &str,
) -> Result<RunReport, CtlError> {
    let reason = ReasonRequest { reason: reason.to_owned() };
    Ok(options.run_on_control(&format!("{}/{verb}", run_path(run_id)), &reason).await?.json()?)
}

/// Approves a held run, if `outdated_by` is still the latest run that was completed since it was read.
pub(crate) async fn approve(
    options: &GlobalOptions,
    run_id: &str,
    reason: &str,
    outdated_by: Option<Sha256Hex>,
) -> Result<RunReport, CtlError> {
    let request = ApprovalRequest { reason: reason.to_owned(), outdated_by };
    Ok(options.run_on_control(&format!("{}/approve", run_path(run_id)), &request).await?.json()?)
}

/// Adds to the error about an outdated run how its changes are shown, and how it is approved all the same. Other errors stay as
/// they are.
async fn with_outdated_hint(options: &GlobalOptions, error: CtlError, run_id: &str) -> CtlError {
    let detail = match &error {
        CtlError::Problem { detail, code, .. } if code == "run_outdated" => detail.clone(),
        _ => return error,
    };
    let outdated_by = read_run(options, run_id).await.ok().and_then(|seen| seen.outdated_by);
    let flag = outdated_by
        .map_or_else(|| "without `--outdated-by`".to_owned(), |by| format!("with `--outdated-by {by}`"));
    error.reword("run_outdated", || {
        format!(
            "{detail}: `oraclectl ingest changes {run_id}` shows its changes to the data before. To approve it all the same, \
             repeat the command {flag}"
        )
    })
}

/// The note about a held run whose changes are those to earlier data.
fn outdated_note(by: &Sha256Hex) -> String {
    format!(
        "run {by} was completed since the held run was read: its effect differs from `oraclectl ingest changes`. For a new \
         comparison, discard it and ingest the payload again"
    )
}

/// The path of a run.
pub(crate) fn run_path(run_id: &str) -> String {
    format!("/v1/runs/{}", encode_segment(run_id))
}

/// The current state of a run.
pub(crate) async fn read_run(options: &GlobalOptions, run_id: &str) -> Result<RunReport, CtlError> {
    Ok(options.call_control(Method::GET, &run_path(run_id), None).await?.json()?)
}

async fn list(
    options: &GlobalOptions,
    out: &mut dyn Output,
    params: &str,
    is_csv: bool,
) -> Result<(), CtlError> {
    let path = format!("/v1/runs?{params}");
    let page: ListPage<RunReport> = options.call_control(Method::GET, &path, None).await?.json()?;
    if options.json {
        return print_json(out, &page);
    }
    let runs = page.items;
    if let Some(next) = &page.next {
        warn_of_omitted_rows(Some(next));
    }
    if is_csv {
        return print_csv(out, RUN_COLUMNS, runs.iter().map(run_columns).collect());
    }
    if runs.is_empty() {
        return Ok(writeln!(out, "no runs: `oraclectl ingest run`")?);
    }
    Ok(writeln!(out, "{}", format_table(RUN_HEADING, runs.iter().map(run_row).collect()))?)
}

/// Interval at which the state of a run is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches a run until it ends. The bar is hidden if standard error is not a terminal.
///
/// # Errors
/// `Detached` if the user interrupts the wait, `RunLost` if the daemon does not answer.
async fn wait_for_end(options: &GlobalOptions, run_id: &Sha256Hex) -> Result<RunReport, CtlError> {
    let bar = input::with_style(ProgressBar::new(0), "{bar:20} {percent:>3}% {wide_msg}");
    let mut interrupted = pin!(ctrl_c());
    loop {
        let seen = read_run(options, run_id.as_str()).await.map_err(|error| lost_error(error, run_id))?;
        if seen.run.state != RunState::Running {
            bar.finish_and_clear();
            return Ok(seen);
        }
        if let Some(progress) = &seen.progress {
            draw(&bar, progress);
        }
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            _ = &mut interrupted => {
                bar.finish_and_clear();
                return Err(CtlError::Detached(run_id.clone()));
            }
        }
    }
}

/// Adds to an error of the connection how to find the run. Other errors stay as they are.
fn lost_error(error: CtlError, run_id: &Sha256Hex) -> CtlError {
    let CtlError::Client(cause) = error else { return error };
    let next = format!(
        "run {run_id} continues, or resumes at the daemon's next start; `oraclectl ingest show {run_id}` shows it"
    );
    CtlError::RunLost { cause, next }
}

fn draw(bar: &ProgressBar, progress: &RunProgress) {
    let RunProgress { bytes, bytes_read, read, rejected, .. } = progress;
    let elapsed = Timestamp::now().duration_since(progress.started_at);
    let each_s = read / u64::try_from(elapsed.as_secs()).unwrap_or(0).max(1);
    bar.set_length(*bytes);
    bar.set_position(*bytes_read);
    let doing: &str = progress.phase.into();
    bar.set_message(format!("{doing}: {read} records ({each_s}/s), {rejected} rejected"));
}

/// The text about a run without a file of its changes.
pub(crate) const UNKNOWN_CHANGES: &str =
    "not known: the run has not been read to its end, failed, or an approval of it was interrupted";
/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 60;

/// Show what a run changes, or a held run would change, with the raw records before and after
///
/// A changed record has two lines: `superseded` for the record that was in force, and `became_valid` for the new one. `moved` means
/// the same content in another interval.
#[derive(Debug, clap::Args)]
struct IngestChangesArgs {
    /// The run's id, or 8 or more of its first digits
    #[arg(value_name = "RUN", value_parser = id_parser())]
    run_id: String,
    /// Only changes after this number
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Maximum number of changes, 1 to 1000 [default: 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
    limit: Option<usize>,
}

impl IngestChangesArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let page = read_changes(options, &self.run_id, self.after, self.limit).await?;
        if options.json {
            return print_json(out, &page);
        }
        if let Some(next) = &page.next {
            warn_of_omitted_rows(Some(next));
        }
        if page.items.is_empty() {
            let run = read_run(options, &self.run_id).await?.run;
            let text = if run.rows.is_some() { "no changes" } else { UNKNOWN_CHANGES };
            return Ok(writeln!(out, "{text}")?);
        }
        let rows = page.items.iter().map(|change| {
            let [before, after] = raw_texts(change).map(|text| shorten_line(text, RAW_MAX_CHARS));
            let id = shorten_line(&change.source_record_id, RAW_MAX_CHARS);
            [change.kind.into_str().to_owned(), id, before, after]
        });
        Ok(writeln!(out, "{}", format_table(["change", "record", "before", "after"], rows.collect()))?)
    }
}

/// The raw records before and after a change: `-` if there is none, `pruned` if its payload was removed.
pub(crate) fn raw_texts(change: &RunChangeReport) -> [&str; 2] {
    let ends = matches!(
        change.kind,
        VersionChangeKind::Withdrawn | VersionChangeKind::Expired | VersionChangeKind::Undone
    );
    let missing = |is_there: bool| if is_there { "pruned" } else { "-" };
    let before = change.before.as_deref().unwrap_or(missing(change.record_id.is_some()));
    [before, change.after.as_deref().unwrap_or(missing(!ends))]
}

/// A page of the changes of a run.
pub(crate) async fn read_changes(
    options: &GlobalOptions,
    run_id: &str,
    after: Option<u64>,
    limit: Option<usize>,
) -> Result<ListPage<RunChangeReport>, CtlError> {
    let after = after.map(|after| format!("after={after}"));
    let params = after.into_iter().chain(limit.map(|limit| format!("limit={limit}")));
    let path = format!("{}/changes?{}", run_path(run_id), params.collect::<Vec<_>>().join("&"));
    Ok(options.call_control(Method::GET, &path, None).await?.json()?)
}

/// Columns for people.
pub(crate) const RUN_HEADING: [&str; 7] =
    ["run", "source", "version", "state", "started at", "records", "rejected"];

/// Columns for programs.
const RUN_COLUMNS: [&str; 12] = [
    "run_id",
    "oracle_id",
    "pipeline_id",
    "version",
    "released_at",
    "state",
    "started_at",
    "ended_at",
    "read",
    "records",
    "rejected",
    "undone_by",
];

/// The state of a run: its phase while it is in progress, and whether another run undid it.
pub(crate) fn state_word(RunReport { run, progress, undone_by, .. }: &RunReport) -> &'static str {
    match (progress, undone_by) {
        (Some(progress), _) => progress.phase.into(),
        (None, Some(_)) => "undone",
        (None, None) => run.state.into_str(),
    }
}

/// The row of a run for people.
fn run_row(report: &RunReport) -> [String; 7] {
    let RunReport { run, progress, .. } = report;
    let state = state_word(report);
    let rejected = progress.as_ref().map_or(run.counts.rejected, |progress| progress.rejected);
    [
        short_run_id(&run.run_id),
        run.oracle_id.to_string(),
        run.input.version.clone(),
        state.to_owned(),
        run.started_at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        run.counts.records.to_string(),
        rejected.to_string(),
    ]
}

/// The row of a run for programs.
fn run_columns(RunReport { run, undone_by, .. }: &RunReport) -> [String; 12] {
    [
        run.run_id.to_string(),
        run.oracle_id.to_string(),
        run.pipeline_id.to_string(),
        run.input.version.clone(),
        run.input.released_at.to_string(),
        run.state.into_str().to_owned(),
        run.started_at.to_string(),
        run.ended_at.map(|at| at.to_string()).unwrap_or_default(),
        run.counts.read.to_string(),
        run.counts.records.to_string(),
        run.counts.rejected.to_string(),
        undone_by.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

/// Why a run failed or is held, if its gates do not say it: an approval may have failed since.
pub(crate) fn cause_beside_gates(run: &IngestionRun) -> Option<String> {
    let of_gates: Vec<_> = run.breaches.iter().map(ToString::to_string).collect();
    run.cause.clone().filter(|cause| *cause != of_gates.join("; "))
}

/// The progress of a run, in words.
fn format_progress(progress: &RunProgress) -> String {
    let RunProgress { bytes_read, bytes, read, rejected, merged, .. } = progress;
    let doing: &str = progress.phase.into();
    format!("{doing}: {bytes_read} of {bytes} bytes, {read} records, {rejected} rejected, {merged} merged")
}

fn format_in_force(effect: ReleaseEffect) -> String {
    let ReleaseEffect { in_force, withdrawn, changed, unconfirmed } = effect;
    let unconfirmed = if unconfirmed > 0 { format!(", {unconfirmed} not confirmed") } else { String::new() };
    format!("{in_force} before it; {withdrawn} withdrawn, {changed} changed{unconfirmed}")
}

/// Prints a run with its counts, warnings and decisions.
fn print_run(
    out: &mut dyn Write,
    RunReport { run, progress, undone_by, outdated_by }: &RunReport,
) -> Result<(), CtlError> {
    let IngestionRun { run_id, oracle_id, pipeline_id, input, counts, .. } = run;
    let mut shown = vec![
        ("run", run_id.to_string()),
        ("state", progress.as_ref().map_or_else(|| run.state.into_str().to_owned(), format_progress)),
        ("source", format!("{oracle_id}, version {} of {}", input.version, input.released_at)),
        ("pipeline", pipeline_id.to_string()),
        ("payload", format!("{} bytes, {}", run.raw_bytes, input.raw_sha256)),
        ("requested by", format_requester(&run.requested_by)),
        ("started", run.started_at.to_string()),
    ];
    shown.extend(run.source_url.clone().map(|url| ("pulled from", url)));
    if let Some(ended_at) = run.ended_at {
        shown.extend([
            ("ended", ended_at.to_string()),
            ("read", counts.read.to_string()),
            ("records", counts.records.to_string()),
            ("collapsed", counts.collapsed.to_string()),
            ("rejected", format_total(counts.rejected, format_rule_counts(&counts.rejected_by_rule))),
        ]);
        let warnings = counts.warnings_by_rule.values().sum::<u64>() + counts.warnings.len() as u64;
        let of_run = counts.warnings.iter().map(|warning| warning.into_str().to_owned());
        let parts = format_rule_counts(&counts.warnings_by_rule).into_iter().chain(of_run).collect();
        shown.push(("warnings", format_total(warnings, parts)));
        shown.extend(counts.warnings.iter().map(|warning| {
            let label = match warning {
                RunWarning::ColumnsAppeared { .. } => "new columns",
                RunWarning::ColumnsDisappeared { .. } => "lost columns",
                RunWarning::UnmatchedPath { .. }
                | RunWarning::UnnamedColumns { .. }
                | RunWarning::HiddenCharacters { .. }
                | RunWarning::MixedScripts { .. } => "warning",
            };
            (label, visible_line(&warning.to_string()).into_owned())
        }));
        shown.extend(counts.axes.iter().map(|(axis, fill)| ("axis", format_coverage(axis, fill))));
        shown
            .extend(counts.axis_effects.iter().map(|(axis, effect)| ("values", format_effect(axis, effect))));
        let changes: u64 = counts.changes.values().sum();
        let parts = counts.changes.iter().map(|(change, count)| format!("{change} {count}")).collect();
        shown.push(("changes", format_total(changes, parts)));
        shown.extend(counts.effect.map(|effect| ("in force", format_in_force(effect))));
        if (run.snapshot || run.replace) && counts.unidentified > 0 {
            let note = format!(
                "rejected records without a readable identity: {}, so this run withdraws nothing",
                counts.unidentified
            );
            shown.push(("note", note));
        }
    }
    shown.extend(run.undoes.as_ref().map(|undone| ("undoes", format!("run {}", undone.run_id))));
    shown.extend(undone_by.as_ref().map(|by| ("undone by", format!("run {by}"))));
    shown.extend(outdated_by.as_ref().map(|by| ("outdated", outdated_note(by))));
    shown.extend(run.breaches.iter().map(|breach| ("gate", breach.to_string())));
    if let Some(RunDecision { decided_by, decided_at, reason }) = &run.decision {
        shown.push(("decision", format!("by {} at {decided_at}: {reason}", format_requester(decided_by))));
    }
    shown.extend(cause_beside_gates(run).map(|cause| ("cause", cause)));
    if matches!(run.state, RunState::Failed | RunState::Held) && counts.rejected > 0 {
        shown.push(("next", format!("oraclectl rejects {run_id}")));
    }
    if run.state == RunState::Held {
        shown.push(("next", format!("oraclectl ingest changes {run_id}")));
        let known = outdated_by.as_ref().map(|by| format!(" --outdated-by {by}")).unwrap_or_default();
        let command = |(verb, known): (&str, &str)| {
            ("next", format!("oraclectl ingest {verb} {run_id}{known} --reason …"))
        };
        shown.extend([("approve", known.as_str()), ("discard", "")].map(command));
    }
    Ok(out.write_all(format_pairs(&shown).as_bytes())?)
}

/// The number and the share of records with a value for an axis.
pub(in crate::ground) fn format_coverage(
    axis: &str,
    AxisCoverage { records, share }: &AxisCoverage,
) -> String {
    let percent = share.checked_mul(&Decimal::from(100)).unwrap_or_else(|_| share.clone());
    format!("{axis} {percent} %, {records} records")
}

/// The effect of a release on the values of an axis.
fn format_effect(axis: &str, AxisEffect { filled, unfilled, changed, .. }: &AxisEffect) -> String {
    format!("{axis} {filled} in force before it; {changed} changed, of which {unfilled} are now empty")
}

fn format_rule_counts(counts: &BTreeMap<RecordRule, u64>) -> Vec<String> {
    counts.iter().map(|(rule, count)| format!("{} {count}", rule.into_str())).collect()
}

fn format_total(total: u64, parts: Vec<String>) -> String {
    if parts.is_empty() { total.to_string() } else { format!("{total}: {}", parts.join(", ")) }
}

/// Size of the pieces in which a payload is read and sent, in bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// Upload a payload and show the progress of its run; Ctrl-C does not stop the run
#[derive(Debug, clap::Args)]
struct IngestRunArgs {
    /// The pipeline
    #[arg(value_name = "PIPELINE")]
    pipeline_id: PipelineId,
    /// The payload; `-` reads standard input. A Parquet file is sent as lines of JSON
    file: PathBuf,
    /// The source's name for this version
    #[arg(long, value_name = "VERSION")]
    version: String,
    /// Release date of the version: a day such as 2026-11-20, or a time
    #[arg(long, value_name = "DATE")]
    released_at: Moment,
    /// Replace the records of this version, even if the payload or the release time differs
    #[arg(long)]
    replace: bool,
    /// Do not wait for the end of the run
    #[arg(long)]
    detach: bool,
}

impl IngestRunArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let ingested = self.upload(options).await.map_err(lost_upload)?;
        if ingested.unchanged || self.detach {
            if options.json {
                print_json(out, &ingested)?;
                return check_state(&ingested.run);
            }
            let UploadResponse { unchanged, run } = ingested;
            check_state(&run)?;
            let how =
                if unchanged { "has brought these records before; nothing changes" } else { "continues" };
            return Ok(writeln!(out, "run {} {how}", run.run_id)?);
        }
        show_ended(options, out, &wait_for_end(options, &ingested.run.run_id).await?)
    }

    /// The definition of the pipeline.
    async fn read_definition(&self, options: &GlobalOptions) -> Result<PipelineDefinition, CtlError> {
        let path = format!("/v1/documents/pipeline/{}", self.pipeline_id);
        let report: DocumentReport = options.call_control(Method::GET, &path, None).await?.json()?;
        let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
        Ok(serde_json::from_value(report.document).map_err(unreadable)?)
    }

    /// Sends the payload, and waits for the daemon's answer.
    async fn upload(&self, options: &GlobalOptions) -> Result<UploadResponse, CtlError> {
        let unreadable = |cause| CtlError::Read { file: input::display_name(&self.file), cause };
        let is_parquet = is_parquet(&self.file).map_err(unreadable)?;
        let definition = if is_parquet { Some(self.read_definition(options).await?) } else { None };
        let retrieval = definition.as_ref().map(|definition| &definition.pipeline.retrieval);
        let (payload, bar) = open_payload(&self.file, "sent", retrieval).map_err(unreadable)?;
        let Self { pipeline_id, version, released_at: Moment(released_at), replace, .. } = self;
        let (version, released_at) = (encode_segment(version), encode_segment(&released_at.to_string()));
        let path = format!(
            "/v1/pipelines/{pipeline_id}/runs?version={version}&released_at={released_at}&replace={replace}"
        );
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let (pieces, body) = StreamedBody::new(1);
        let requested = Arc::new(Notify::new());
        let sent = send(payload, bar.length(), pieces, Arc::clone(&requested)).map_err(unreadable)?;
        let mut uploading = pin!(client.upload(&path, body, bar.length(), requested));
        let response = tokio::select! {
            // a payload that cannot be read also breaks the connection; the read error is the cause to report
            biased;
            sent = sent => {
                sent.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(unreadable)?;
                timeout(PATIENCE, uploading).await.map_err(|_| ClientError::Silent(PATIENCE))??
            }
            response = &mut uploading => response?,
        };
        bar.finish_and_clear();
        let answer = DaemonResponse::read_whole(response).await?;
        if answer.status.is_success() { Ok(answer.json()?) } else { Err(problem_error(&answer)) }
    }
}

/// Adds the next command to an error of a connection that broke. Other errors stay as they are.
fn lost_upload(error: CtlError) -> CtlError {
    match error {
        CtlError::Client(cause) if !matches!(cause, ClientError::NotThere { .. }) => {
            let next = "the run may have started; `oraclectl ingest list` shows it, and the same command waits for it";
            CtlError::RunLost { cause, next: next.to_owned() }
        }
        other => other,
    }
}

/// Starts a thread that sends the payload once the daemon requests it. A payload that cannot be read to its
/// end, or whose length is no longer `length_bytes`, is an error, and the upload is cut off. The thread is
/// not joined, since a read from a terminal or a pipe may never return.
fn send(
    payload: impl Read + Send + 'static,
    length_bytes: Option<u64>,
    mut pieces: StreamedBodySender,
    requested: Arc<Notify>,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (done, sent) = oneshot::channel();
    let runtime = Handle::current();
    let send = move || {
        let ended = runtime.block_on(async {
            requested.notified().await;
            send_all(payload, length_bytes, &mut pieces).await
        });
        let is_whole = ended.is_ok();
        // the receiver is gone if the daemon has already answered
        drop(done.send(ended));
        if is_whole {
            pieces.finish();
        }
    };
    thread::Builder::new().name("payload".into()).spawn(send)?;
    Ok(sent)
}

/// Sends until the end of the payload, or until the daemon has answered.
async fn send_all(
    mut payload: impl Read,
    length_bytes: Option<u64>,
    pieces: &mut StreamedBodySender,
) -> io::Result<()> {
    let (mut read_bytes, mut held) = (0, Vec::new());
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        read_bytes += payload.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)? as u64;
        let is_last = piece.is_empty();
        let differs = |length: &u64| if is_last { read_bytes < *length } else { read_bytes > *length };
        if let Some(length) = length_bytes.filter(differs) {
            let how = if is_last { "shortened" } else { "extended" };
            let message = format!("the file had {length} bytes and was {how} while it was read");
            return Err(io::Error::other(message));
        }
        // one piece is held back: with `length_bytes` sent, the daemon would take the payload as complete,
        // but the file may be longer
        let held = mem::replace(&mut held, piece);
        if !held.is_empty() && pieces.send(held.into()).await.is_err() || is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::path::Path;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn file_that_changes_while_it_is_read_is_not_sent_as_complete() {
        let length = PIECE_BYTES as u64 + 1;
        let content = vec![b'x'; PIECE_BYTES + 1];
        for (length_bytes, is_whole) in
            [(None, true), (Some(length), true), (Some(length + 1), false), (Some(length - 1), false)]
        {
            let (mut pieces, body) = StreamedBody::new(2);
            let ended = send_all(&content[..], length_bytes, &mut pieces).await;
            assert_eq!(ended.is_ok(), is_whole, "{length_bytes:?}: {ended:?}");
            pieces.finish();
            let sent_bytes = body.collect().await.unwrap().to_bytes().len() as u64;
            if is_whole {
                assert_eq!(sent_bytes, length);
            } else {
                // otherwise the daemon would have received the announced length
                assert!(length_bytes > Some(sent_bytes), "{length_bytes:?}: {sent_bytes}");
            }
        }
    }

    /// The head of the upload request for `file`, as a daemon receives it that rejects the upload.
    async fn read_upload_head(dir: &Path, file: &Path) -> String {
        let socket = dir.join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let run = IngestRunArgs {
            pipeline_id: "people".parse().unwrap(),
            file: file.to_owned(),
            version: "1".into(),
            released_at: Moment("2026-11-20T00:00:00Z".parse().unwrap()),
            replace: false,
            detach: true,
        };
        let options = GlobalOptions { socket: None, control_socket: Some(socket.clone()), json: false };
        let received = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8(head).unwrap()
        });
        run.upload(&options).await.expect_err("the daemon is busy");
        std::fs::remove_file(socket).unwrap();
        received.await.unwrap()
    }

    #[tokio::test]
    async fn upload_has_content_length_only_for_files_with_a_length() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("payload");
        std::fs::write(&file, "abc").unwrap();
        let head = read_upload_head(dir.path(), &file).await;
        assert!(head.contains("content-length: 3\r\n") && !head.contains("transfer-encoding"), "{head}");
        for endless in ["/dev/null", "/proc/self/stat"] {
            let head = read_upload_head(dir.path(), Path::new(endless)).await;
            assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        }
    }
}
