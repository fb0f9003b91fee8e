//! Verbs for the daemon itself.

pub(crate) mod cluster;
pub(crate) mod doctor;
pub(crate) mod inbox;
pub(crate) mod status;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{Output, print_json};
use crate::base::program::{block_on, examples};
use domain_base::service::{self, DrainResponse, ReloadResponse};
use hyper::Method;
use std::io::Write;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlatformVerb {
    /// Show the state of the daemon
    Status,
    Doctor(doctor::DoctorArgs),
    Inbox(inbox::InboxArgs),
    /// Show the state of each actor
    Actors,
    /// Reject new work and pause scheduled pulls, for example before a restart
    ///
    /// Stored verdicts are still served. Requests for other work, and payloads, are rejected.
    Drain(DrainArgs),
    /// Reopen oracle_log.jsonl, apply the configured log level, and read the credentials again
    Reload,
    /// Show or set the level of the service log
    LogLevel(LogLevelArgs),
    Cluster(cluster::ClusterArgs),
}

impl PlatformVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Status => block_on(status::run(options, out)),
            Self::Doctor(verb) => block_on(verb.run(options, out)),
            Self::Inbox(verb) => block_on(verb.run(options, out)),
            Self::Actors => block_on(status::list_actors(options, out)),
            Self::Drain(verb) => block_on(verb.run(options, out)),
            Self::Reload => block_on(reload(options, out)),
            Self::LogLevel(verb) => block_on(verb.run(options, out)),
            Self::Cluster(verb) => verb.run(options, out),
        }
    }
}

/// Reject new work and pause scheduled pulls, for example before a restart
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl drain", "oraclectl drain --off"]))]
pub(crate) struct DrainArgs {
    /// Accept new work again, and resume scheduled pulls
    #[arg(long)]
    off: bool,
}

impl DrainArgs {
    async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let body = serde_json::json!({"draining": !self.off}).to_string();
        let drained: DrainResponse =
            options.call_control(Method::POST, "/v1/drain", Some(body.into())).await?.json()?;
        if options.json {
            return print_json(out, &drained);
        }
        let what = if drained.draining { "new work is rejected" } else { "new work is accepted" };
        Ok(writeln!(out, "{what}; {} in flight", drained.in_flight)?)
    }
}

/// Show or set the level of the service log, until the next reload or start
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl log-level debug", "oraclectl log-level oracled=debug,info"]))]
pub(crate) struct LogLevelArgs {
    /// A level (off, error, warn, info, debug, trace), or tracing filter directives
    level: Option<String>,
}

impl LogLevelArgs {
    async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let answer = match &self.level {
            None => options.call_control(Method::GET, "/v1/log-level", None).await?,
            Some(level) => {
                let body = serde_json::json!({"level": level}).to_string();
                options.call_control(Method::PUT, "/v1/log-level", Some(body.into())).await?
            }
        };
        let level: service::LogLevel = answer.json()?;
        if options.json { print_json(out, &level) } else { Ok(writeln!(out, "{}", level.level)?) }
    }
}

/// Reloads the configuration and prints the keys that require a restart.
pub(crate) async fn reload(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let reloaded: ReloadResponse = options.call_control(Method::POST, "/v1/reload", None).await?.json()?;
    if options.json {
        return print_json(out, &reloaded);
    }
    writeln!(out, "oracle_log.jsonl is reopened; the log level is {}", reloaded.log_level)?;
    if !reloaded.changed_credentials.is_empty() {
        writeln!(out, "changed credentials, in use now: {}", reloaded.changed_credentials.join(", "))?;
    }
    if !reloaded.needs_restart.is_empty() {
        writeln!(out, "changed, in force after a restart: {}", reloaded.needs_restart.join(", "))?;
    }
    Ok(())
}
