//! Verbs that change the running daemon.

use crate::base::error::CtlError;
use crate::base::examples::examples;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use domain_base::service::{self, DrainResponse, ReloadResponse};
use hyper::Method;
use std::io::Write;

/// Reject new work and pause scheduled pulls, for example before a restart
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl drain", "oraclectl drain --off"]))]
pub(crate) struct DrainArgs {
    /// Accept new work again, and resume scheduled pulls
    #[arg(long)]
    off: bool,
}

impl DrainArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
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
    /// A level (error, warn, info, debug, trace), or tracing filter directives
    level: Option<String>,
}

impl LogLevelArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
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
