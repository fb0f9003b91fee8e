//! `oraclectl ingest`.

mod follow;
mod show;
mod upload;

use super::output::{csv, json, table};
use super::{CtlError, Options, segment};
use crate::control::run::Seen;
use crate::control::upkeep::Pulled;
use domain::ground::id::{PipelineId, SourceId};
use domain::ground::run::RunState;
use hyper::Method;
use std::io::Write;

/// Ingestion: payloads of sources that become records, each in a run.
#[derive(Debug, clap::Args)]
pub struct Ingest {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Run(upload::Run),
    /// Has the daemon pull a payload, and shows its run until that has ended
    Pull {
        /// By which pipeline
        pipeline_id: PipelineId,
        /// Only begin the run, and print it
        #[arg(long)]
        detach: bool,
    },
    /// Shows the runs, the latest first
    List {
        /// Only those of this source
        oracle_id: Option<SourceId>,
        /// How many at the most: 100, or up to 1000
        #[arg(short = 'n', long, value_name = "N")]
        limit: Option<usize>,
        /// Print a table for programs
        #[arg(long, conflicts_with = "json")]
        csv: bool,
    },
    /// Shows a run: how far it is, or what came of it
    Show {
        /// Which one, by its id or 8 or more of its first digits
        run_id: String,
    },
    /// Has a run end; nothing of it becomes visible
    Cancel {
        /// Which one, by its id or 8 or more of its first digits
        run_id: String,
    },
}

impl Ingest {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Run(verb) => verb.run(options, out).await,
            Action::Pull { pipeline_id, detach } => pull(options, out, pipeline_id, *detach).await,
            Action::List { oracle_id, limit, csv } => {
                list(options, out, oracle_id.as_ref(), *limit, *csv).await
            }
            Action::Show { run_id } => {
                let seen = seen(options, run_id).await?;
                if options.json { json(out, &seen) } else { show::show(out, &seen) }
            }
            Action::Cancel { run_id } => {
                let path = path(run_id) + "/cancel";
                let seen: Seen = options.on_control(Method::POST, &path, None).await?.json()?;
                if options.json {
                    return json(out, &seen);
                }
                Ok(writeln!(out, "run {} is told to end", seen.run.run_id)?)
            }
        }
    }
}

/// # Errors
/// `CameToNothing` where the run did; why was printed.
async fn pull(
    options: &Options,
    out: &mut dyn Write,
    pipeline_id: &PipelineId,
    detach: bool,
) -> Result<(), CtlError> {
    let path = format!("/v1/pipelines/{pipeline_id}/pull");
    let pulled: Pulled = options.done_on_control(&path, &serde_json::json!({})).await?.json()?;
    let Some(run) = pulled.run.clone().filter(|_| !detach && !pulled.unchanged) else {
        if options.json {
            return json(out, &pulled);
        }
        let told = match &pulled.run {
            Some(run) if pulled.unchanged => {
                format!("run {} has brought the same before: nothing changes", run.run_id)
            }
            Some(run) => format!("run {} goes on", run.run_id),
            None => "the source has nothing that is not known".to_owned(),
        };
        return Ok(writeln!(out, "{told}")?);
    };
    let seen = follow::to_its_end(options, &run.run_id).await?;
    if options.json {
        json(out, &seen)?;
    } else {
        show::show(out, &seen)?;
    }
    if seen.run.state == RunState::Completed { Ok(()) } else { Err(CtlError::CameToNothing) }
}

/// The path of a run.
pub(super) fn path(run_id: &str) -> String {
    format!("/v1/runs/{}", segment(run_id))
}

/// A run as it is now.
pub(super) async fn seen(options: &Options, run_id: &str) -> Result<Seen, CtlError> {
    Ok(options.on_control(Method::GET, &path(run_id), None).await?.json()?)
}

async fn list(
    options: &Options,
    out: &mut dyn Write,
    oracle_id: Option<&SourceId>,
    limit: Option<usize>,
    is_csv: bool,
) -> Result<(), CtlError> {
    let asked = [
        oracle_id.map(|oracle_id| format!("oracle_id={oracle_id}")),
        limit.map(|limit| format!("limit={limit}")),
    ];
    let asked: Vec<_> = asked.into_iter().flatten().collect();
    let path = format!("/v1/runs?{}", asked.join("&"));
    let runs: Vec<Seen> = options.on_control(Method::GET, &path, None).await?.json()?;
    if options.json {
        return json(out, &runs);
    }
    if is_csv {
        return csv(out, show::COLUMNS, runs.iter().map(show::row).collect());
    }
    if runs.is_empty() {
        return Ok(writeln!(out, "no runs: `oraclectl ingest run`")?);
    }
    Ok(writeln!(out, "{}", table(show::HEADING, runs.iter().map(show::short_row).collect()))?)
}
