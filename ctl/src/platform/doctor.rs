//! `oraclectl doctor`.
//!
//! Each check has one line. The checks of files work without a daemon.

mod clock;
mod config;
mod daemon;
mod files;
mod sockets;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_count, print_json};
use config::{CheckedConfig, ConfigSource};
use oracled_domain::base::visible::visible_line;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check the configuration, permissions, sockets, keys, disk, clock and upstream systems; exit status 1 if there is a fault
///
/// Run it as root or as the daemon's user: other users cannot read the state directory and the secrets. It changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Configuration file of the daemon [default: the file of the running daemon; without one, /etc/oracled/oracled.toml, else the file that `oracled serve` reads]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckLevel {
    Pass,
    Warning,
    Fault,
}

impl CheckLevel {
    const fn into_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// A check with its result.
#[derive(Debug, Serialize)]
struct CheckResult {
    /// The subject of the check, such as `disk`.
    check: &'static str,
    level: CheckLevel,
    /// The value that was found.
    value: String,
    /// The remedy; `None` if the check has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl CheckResult {
    fn pass(check: &'static str, value: impl Into<String>) -> Self {
        Self { check, level: CheckLevel::Pass, value: value.into(), remedy: None }
    }

    fn warning(check: &'static str, value: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: CheckLevel::Warning, value: value.into(), remedy: Some(remedy.into()) }
    }

    fn fault(check: &'static str, value: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: CheckLevel::Fault, value: value.into(), remedy: Some(remedy.into()) }
    }
}

/// All results.
#[derive(Debug, Serialize)]
struct DoctorReport {
    faults: usize,
    warnings: usize,
    checks: Vec<CheckResult>,
}

impl DoctorArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let daemon = daemon::read_daemon(options).await?;
        let source = match (&self.config, daemon.config_file) {
            (Some(named), _) => ConfigSource::Named(named.clone()),
            (None, Some(file)) => ConfigSource::OfDaemon(file),
            (None, None) => ConfigSource::Default,
        };
        let (config, mut checks) = config::check_config(&source);
        checks.extend(daemon.checks);
        checks.extend(sockets::check_sockets(options, config.as_ref())?);
        // flags of the daemon override its configuration
        let state_dir = daemon.state_dir.or_else(|| config.as_ref()?.state_dir());
        if let Some(dir) = &state_dir {
            checks.extend(files::check_state_dir(dir));
            checks.extend(files::check_disk(dir, config.as_ref().and_then(CheckedConfig::min_free_bytes)));
        }
        checks.extend(config.as_ref().map(files::check_secret_files).unwrap_or_default());
        checks.push(clock::check_clock(state_dir.as_deref(), daemon.last_entry_at));
        let count = |level| checks.iter().filter(|result| result.level == level).count();
        let (faults, warnings) = (count(CheckLevel::Fault), count(CheckLevel::Warning));
        let report = DoctorReport { faults, warnings, checks };
        if options.json {
            print_json(out, &report)?;
        } else {
            print_report(&report, out)?;
        }
        if faults == 0 {
            return Ok(());
        }
        let message = format!("the checks found {}", format_count(faults as u64, "fault", "faults"));
        Err(CtlError::Verb { message, exit_code: 1, was_printed: true })
    }
}

fn print_report(report: &DoctorReport, out: &mut dyn Write) -> Result<(), CtlError> {
    for CheckResult { check, level, value, remedy } in &report.checks {
        let level = level.into_str();
        let remedy = remedy.as_ref().map(|remedy| format!("; {}", visible_line(remedy))).unwrap_or_default();
        writeln!(out, "{level:<7}  {check:<13}  {}{remedy}", visible_line(value))?;
    }
    let faults = format_count(report.faults as u64, "fault", "faults");
    let warnings = format_count(report.warnings as u64, "warning", "warnings");
    Ok(writeln!(out, "{faults}, {warnings}")?)
}
