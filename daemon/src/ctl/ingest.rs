//! `oraclectl ingest`.

mod follow;
mod show;
mod upload;

use super::output::{csv, json, table};
use super::{CtlError, Options, segment};
use crate::control::run::Seen;
use domain::ground::id::SourceId;
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
