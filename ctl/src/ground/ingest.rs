//! `oraclectl ingest`.

pub(crate) mod changes;
pub(crate) mod show;
mod upload;

use crate::base::arguments::{id_parser, limit_parser};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_table, print_csv, print_json, warn_of_omitted_rows};
use crate::base::output_stream::Output;
use domain_base::digest::Sha256Hex;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::run::{IngestionRun, RunProgress, RunState};
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use oracled_api::base::page::{ListPage, PageLimit};
use oracled_api::ground::{PullResponse, ReasonRequest, RunReport};
pub(super) use show::format_coverage;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::time::sleep;

/// Ingest payloads of sources, and show and control ingestion runs
#[derive(Debug, clap::Args)]
pub(crate) struct IngestArgs {
    #[command(subcommand)]
    action: IngestAction,
}

#[derive(Debug, clap::Subcommand)]
enum IngestAction {
    Run(upload::IngestRunArgs),
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
        #[arg(long, conflicts_with = "json")]
        csv: bool,
    },
    /// Show a run: its progress, or its result
    Show {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
    },
    Changes(changes::IngestChangesArgs),
    /// Cancel a run; none of its records become visible
    Cancel {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
    },
    /// Approve a held run despite its failed gates, and show its progress
    Approve {
        /// The run's id, or 8 or more of its first digits
        #[arg(value_parser = id_parser())]
        run_id: String,
        /// The reason, for the log
        #[arg(long)]
        reason: String,
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
                if options.json { print_json(out, &seen) } else { show::show(out, &seen) }
            }
            IngestAction::Changes(verb) => verb.run(options, out).await,
            IngestAction::Approve { run_id, reason, detach } => {
                let seen: RunReport = decide(options, run_id, "approve", reason).await?;
                if *detach {
                    return if options.json { print_json(out, &seen) } else { show::show(out, &seen) };
                }
                show_ended(options, out, &wait_for_end(options, &seen.run.run_id).await?)
            }
            IngestAction::Discard { run_id, reason } => {
                let seen = decide(options, run_id, "discard", reason).await?;
                if options.json { print_json(out, &seen) } else { show::show(out, &seen) }
            }
            IngestAction::Undo { run_id, reason } => {
                let seen = decide(options, run_id, "undo", reason).await?;
                if options.json { print_json(out, &seen) } else { show::show(out, &seen) }
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
        show::show(out, seen)?;
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
        return print_csv(out, show::COLUMNS, runs.iter().map(show::row).collect());
    }
    if runs.is_empty() {
        return Ok(writeln!(out, "no runs: `oraclectl ingest run`")?);
    }
    Ok(writeln!(out, "{}", format_table(show::HEADING, runs.iter().map(show::short_row).collect()))?)
}

/// Interval at which the state of a run is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches a run until it ends. The bar is hidden if standard error is not a terminal.
///
/// # Errors
/// `Detached` if the user interrupts the wait, `RunLost` if the daemon does not answer.
async fn wait_for_end(options: &GlobalOptions, run_id: &Sha256Hex) -> Result<RunReport, CtlError> {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:20} {percent:>3}% {wide_msg}");
    let bar = style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style));
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
