//! `oraclectl doctor`.
//!
//! Each check has one line. The checks of files work without a daemon.

mod config;
mod daemon;
mod files;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_count, print_json};
use config::{CheckedConfig, ConfigSource};
use domain_base::visible::visible_line;
use jiff::{SignedDuration, Timestamp};
use nix::unistd::{Gid, Group};
use serde::Serialize;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

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
        checks.extend(check_sockets(options, config.as_ref())?);
        // flags of the daemon override its configuration
        let state_dir = daemon.state_dir.or_else(|| config.as_ref()?.state_dir());
        if let Some(dir) = &state_dir {
            checks.extend(files::check_state_dir(dir));
            checks.extend(files::check_disk(dir, config.as_ref().and_then(CheckedConfig::min_free_bytes)));
        }
        checks.extend(config.as_ref().map(files::check_secret_files).unwrap_or_default());
        checks.push(check_clock(state_dir.as_deref(), daemon.last_entry_at));
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

/// A clock may be set back by less, for example by a leap second.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// No clock is right before the first release of the daemon.
const EARLIEST_CLOCK: &str = "2026-01-01T00:00:00Z";

/// Checks the clock against the newest log entry, and the newest file in the state directory.
fn check_clock(state_dir: Option<&Path>, last_entry_at: Option<Timestamp>) -> CheckResult {
    let newest_file_at = state_dir.and_then(newest_file_at);
    judge_clock(Timestamp::now(), last_entry_at, newest_file_at)
}

fn judge_clock(
    now: Timestamp,
    last_entry_at: Option<Timestamp>,
    newest_file_at: Option<Timestamp>,
) -> CheckResult {
    let remedy = "check the time synchronization (`timedatectl`)";
    if EARLIEST_CLOCK.parse().is_ok_and(|earliest: Timestamp| now < earliest) {
        return CheckResult::fault("clock", format!("the clock shows {now}"), remedy);
    }
    for (what, at) in [("log entry", last_entry_at), ("file", newest_file_at)] {
        if let Some(at) = at.filter(|at| at.duration_since(now) > CLOCK_TOLERANCE) {
            let value = format!("the clock shows {now}, and the newest {what} is of {at}");
            return CheckResult::fault("clock", value, remedy);
        }
    }
    let newest = last_entry_at.map(|at| format!(", and the newest log entry is of {at}")).unwrap_or_default();
    CheckResult::pass("clock", format!("the clock shows {now}{newest}"))
}

/// The newest time of change of a file in the state directory, or of a segment.
fn newest_file_at(dir: &Path) -> Option<Timestamp> {
    let folders = [dir.to_owned(), dir.join("segments")];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let times = files.filter_map(|file| Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok());
    times.max()
}

const SOCKET_CHECK: &str = "socket";
/// systemd binds the sockets here, with the mode and the group of its units.
const SYSTEMD_SOCKETS: &str = "/run/oracled";

fn check_sockets(
    options: &GlobalOptions,
    config: Option<&CheckedConfig>,
) -> Result<Vec<CheckResult>, CtlError> {
    let paths = [("socket", options.routes_path()?), ("control_socket", options.control_path()?)];
    Ok(paths.iter().map(|(key, path)| check_socket(key, path, config)).collect())
}

fn check_socket(key: &str, path: &Path, config: Option<&CheckedConfig>) -> CheckResult {
    let at = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let remedy = format!("start the daemon, or name the path with --{}", key.replace('_', "-"));
            return CheckResult::warning(SOCKET_CHECK, format!("{at} does not exist"), remedy);
        }
        Err(error) => {
            return CheckResult::warning(
                SOCKET_CHECK,
                format!("{at}: {error}"),
                "run oraclectl doctor as root",
            );
        }
    };
    if !found.file_type().is_socket() {
        return CheckResult::fault(SOCKET_CHECK, format!("{at} is not a socket"), "move the file away");
    }
    let (mode, group) = (found.mode() & 0o777, group_name(found.gid()));
    let value = format!("{at} has mode {mode:04o} and group {group}");
    if key == "control_socket" && mode & 0o002 != 0 {
        let value = format!("{value}: every user can control the daemon");
        return CheckResult::fault(
            SOCKET_CHECK,
            value,
            format!("chmod o-w {at}, and set `control_socket_mode`"),
        );
    }
    if let Err(error) = UnixStream::connect(path) {
        return connect_fault(&value, &error, &group);
    }
    let (_, configured_mode, configured_group) =
        match config.and_then(|config| config.socket(key)).filter(|_| !path.starts_with(SYSTEMD_SOCKETS)) {
            Some(configured) => configured,
            None => return CheckResult::pass(SOCKET_CHECK, value),
        };
    let has_mode = u32::from_str_radix(configured_mode, 8).is_ok_and(|configured| configured == mode);
    if has_mode && configured_group.is_none_or(|configured| configured == group) {
        return CheckResult::pass(SOCKET_CHECK, value);
    }
    let group = configured_group.map(|group| format!(" and group {group}")).unwrap_or_default();
    let value = format!("{value}, and the configuration has mode {configured_mode}{group}");
    CheckResult::warning(SOCKET_CHECK, value, "restart the daemon; it applies both when it binds the socket")
}

fn connect_fault(value: &str, error: &io::Error, group: &str) -> CheckResult {
    let value = format!("{value}: {error}");
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let remedy = format!("sudo usermod -aG {group} \"$USER\", and log in again");
            CheckResult::warning(SOCKET_CHECK, value, remedy)
        }
        ErrorKind::ConnectionRefused => CheckResult::fault(SOCKET_CHECK, value, "start the daemon"),
        _ => CheckResult::fault(SOCKET_CHECK, value, "`journalctl -u oracled` has the cause"),
    }
}

fn group_name(gid: u32) -> String {
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    group.map_or_else(|| gid.to_string(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use super::CheckLevel::{Fault, Pass};
    use super::*;

    #[test]
    fn clock_before_the_newest_entry_or_file_is_a_fault() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).ok();
        for (entry, file, level) in [
            (None, None, Pass),
            (at(-9), at(-1), Pass),
            (at(2), at(2), Pass),
            (at(3), None, Fault),
            (at(0), at(3), Fault),
        ] {
            let now = at(0).expect("a valid time");
            assert_eq!(judge_clock(now, entry, file).level, level, "{entry:?} {file:?}");
        }
        let reset = Timestamp::from_second(0).expect("a valid time");
        assert_eq!(judge_clock(reset, None, None).level, Fault);
    }
}
