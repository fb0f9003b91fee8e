//! `oraclectl doctor`.
//!
//! Each check has one line. The checks of files work without a daemon.

use crate::base::error::CtlError;
use crate::base::input::decode_secret_key;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use crate::base::program::examples;
use crate::platform::status::list_lost_rows;
use domain_base::cluster::{CLOCK_OFFSET_NOTED_MS, ClusterReport, ClusterStandbys};
use domain_base::problem::NOT_IN_CLUSTER;
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_upstream::health::{OracleHealthLevel, OracleHealthStatus};
use domain_verdict::outbox::{MessagesReport, OutboxReport};
use domain_verdict::webhook::WebhookOutage;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use nix::sys::statvfs::statvfs;
use nix::unistd::{Gid, Group, geteuid};
use oracled_domain::status::{GenerationReadiness, HeldRun, StatusReport};
use serde::Serialize;
use serde_json::Value;
use std::fs::Metadata;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// Check the configuration, permissions, sockets, keys, disk, clock and upstream systems; exit status 1 if there is a fault
///
/// Run it as root or as the daemon's user: other users cannot read the state directory and the secrets. It changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["sudo oraclectl doctor", "oraclectl doctor --config oracled.toml --json"]))]
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
        let daemon = read_daemon(options).await?;
        let source = ConfigSource::select(self.config.as_deref(), daemon.config_file);
        let folder = daemon.working_dir.filter(|folder| source.is_of_daemon() && can_enter(folder));
        let folder = folder.unwrap_or_default();
        let (config, mut checks) = check_config(&source, &folder, daemon.is_test_mode);
        checks.extend(daemon.checks);
        checks.extend(check_sockets(options, config.as_ref())?);
        // flags of the daemon override its configuration
        let state_dir = daemon.state_dir.or_else(|| config.as_ref()?.state_dir());
        if let Some(dir) = &state_dir {
            checks.extend(check_state_dir(dir));
            checks.extend(check_disk(dir, config.as_ref().and_then(CheckedConfig::min_free_bytes)));
        }
        let secrets = config.as_ref().map(|config| check_secret_files(config, &folder));
        checks.extend(secrets.unwrap_or_default());
        checks.push(check_clock(state_dir.as_deref(), daemon.last_entry_at, daemon.latest_entry_at));
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

/// Checks the clock against the newest log entry, the latest time of an entry, and the newest file in the state directory.
fn check_clock(
    state_dir: Option<&Path>,
    last_entry_at: Option<Timestamp>,
    latest_entry_at: Option<Timestamp>,
) -> CheckResult {
    let newest_file_at = state_dir.and_then(newest_file_at);
    judge_clock(Timestamp::now(), last_entry_at, latest_entry_at, newest_file_at)
}

fn judge_clock(
    now: Timestamp,
    last_entry_at: Option<Timestamp>,
    latest_entry_at: Option<Timestamp>,
    newest_file_at: Option<Timestamp>,
) -> CheckResult {
    let remedy = "check the time synchronization (`timedatectl`)";
    if EARLIEST_CLOCK.parse().is_ok_and(|earliest: Timestamp| now < earliest) {
        return CheckResult::fault("clock", format!("the clock shows {now}"), remedy);
    }
    let is_ahead = |at: &Timestamp| at.duration_since(now) > CLOCK_TOLERANCE;
    for (what, at) in [("log entry", last_entry_at), ("file", newest_file_at)] {
        if let Some(at) = at.filter(is_ahead) {
            let value = format!("the clock shows {now}, and the newest {what} is of {at}");
            return CheckResult::fault("clock", value, remedy);
        }
    }
    if let Some(at) = latest_entry_at.filter(is_ahead) {
        let value =
            format!("the clock shows {now}, and the log has an entry of {at}: the clock was set back");
        return CheckResult::warning("clock", value, remedy);
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
        return connect_fault(&value, &error, (key, mode, group.as_str()));
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

/// The result if this user cannot connect to the socket with this configuration key, mode and group.
fn connect_fault(value: &str, error: &io::Error, (key, mode, group): (&str, u32, &str)) -> CheckResult {
    let value = format!("{value}: {error}");
    match error.kind() {
        // its group may not connect, either
        ErrorKind::PermissionDenied if mode & 0o020 == 0 => {
            let remedy = format!("set `{key}_mode = \"0660\"` and `{key}_group`, and restart the daemon");
            CheckResult::warning(SOCKET_CHECK, value, remedy)
        }
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

const CONFIG_CHECK: &str = "configuration";
/// The configuration file of an installed daemon.
const INSTALLED_CONFIG: &str = "/etc/oracled/oracled.toml";
/// The environment that systemd gives an installed daemon.
const INSTALLED_ENVIRONMENT: [(&str, &str); 4] = [
    ("CONFIGURATION_DIRECTORY", "/etc/oracled"),
    ("STATE_DIRECTORY", "/var/lib/oracled"),
    ("RUNTIME_DIRECTORY", "/run/oracled"),
    ("CREDENTIALS_DIRECTORY", "/run/credentials/oracled.service"),
];

/// A valid configuration, with the defaults of keys that are not set.
#[derive(Debug)]
struct CheckedConfig(Value);

impl CheckedConfig {
    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str()
    }

    fn state_dir(&self) -> Option<PathBuf> {
        self.text("/state_dir").map(PathBuf::from)
    }

    fn min_free_bytes(&self) -> Option<u64> {
        self.0.pointer("/storage/min_free_bytes")?.as_u64()
    }

    /// The configured path, mode and group of the socket whose key is `key`.
    fn socket(&self, key: &str) -> Option<(&str, &str, Option<&str>)> {
        let of = |suffix: &str| self.text(&format!("/{key}{suffix}"));
        Some((of("")?, of("_mode")?, of("_group")))
    }

    /// The paths of files with secrets, by their keys. Relative paths start from `folder`.
    fn secret_files(&self, folder: &Path) -> Vec<(String, PathBuf)> {
        let mut files = Vec::new();
        add_secret_files("", &self.0, folder, &mut files);
        files
    }
}

fn add_secret_files(prefix: &str, value: &Value, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = format!("{prefix}{name}");
        match value {
            // `check-config` hides a path that does not exist. A certificate is not secret
            Value::String(path) if name.ends_with("_file") && name != "certificate_file" => {
                let file = folder.join(path);
                let is_path = Path::new(path).is_absolute() || file.exists();
                files.extend(is_path.then_some((key, file)));
            }
            below => add_secret_files(&format!("{key}."), below, folder, files),
        }
    }
}

/// The configuration that is checked.
#[derive(Debug, Clone)]
enum ConfigSource {
    /// The file that the caller names.
    Named(PathBuf),
    /// The file with which the running daemon was started; `None` if it has none.
    OfDaemon(Option<PathBuf>),
    /// The file of an installed daemon, else the one that `oracled serve` reads.
    Default,
}

impl ConfigSource {
    /// The file that the caller names, or that of the daemon. `of_daemon` is as in [`DaemonFindings`].
    fn select(named: Option<&Path>, of_daemon: Option<Option<PathBuf>>) -> Self {
        let Some(named) = named else { return of_daemon.map_or(Self::Default, Self::OfDaemon) };
        match of_daemon.flatten() {
            Some(file) if path::absolute(named).is_ok_and(|named| named == file) => {
                Self::OfDaemon(Some(file))
            }
            _ => Self::Named(named.to_owned()),
        }
    }

    const fn is_of_daemon(&self) -> bool {
        matches!(self, Self::OfDaemon(_))
    }
}

/// Whether a program of this user can have this working directory.
fn can_enter(folder: &Path) -> bool {
    fs::metadata(folder.join(".")).is_ok()
}

/// Checks the configuration. Returns it if it is valid. Its relative paths start from `folder`; if it is empty, from here.
///
/// `oracled check-config` runs as a program: its checks are those of a start, they work without a daemon, and they read the file as
/// it is now, which a running daemon has not read yet. `is_test_mode` is whether the running daemon is in test mode.
fn check_config(
    source: &ConfigSource,
    folder: &Path,
    is_test_mode: bool,
) -> (Option<CheckedConfig>, Vec<CheckResult>) {
    let installed = Path::new(INSTALLED_CONFIG);
    let (file, is_installed) = match source {
        ConfigSource::Named(file) => (Some(file.as_path()), false),
        ConfigSource::OfDaemon(file) => (file.as_deref(), file.as_deref() == Some(installed)),
        ConfigSource::Default => (installed.exists().then_some(installed), installed.exists()),
    };
    // a secret that crosses a network in clear text is a warning here, since the flags of the daemon are not known
    // this program, as the daemon
    let mut command = Command::new("/proc/self/exe");
    command.arg0("oracled").args(["check-config", "--json", "--allow-cleartext"]).stdin(Stdio::null());
    if is_test_mode {
        command.arg("--test-mode");
    }
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    if is_installed {
        command.envs(INSTALLED_ENVIRONMENT.into_iter().filter(|(name, _)| env::var_os(name).is_none()));
    }
    if matches!(source, ConfigSource::OfDaemon(None)) {
        // this user may have a default file that the daemon does not read: nothing is below this path
        command.env("CONFIGURATION_DIRECTORY", "/dev/null");
    }
    let name = match (source, file) {
        (_, Some(file)) => file.display().to_string(),
        (ConfigSource::OfDaemon(_), None) => "the configuration of the daemon, which has no file,".to_owned(),
        (_, None) => "the default configuration".to_owned(),
    };
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let value = format!("cannot run `oracled check-config`: {error}");
            let remedy = "run `oracled check-config` yourself";
            return (None, vec![CheckResult::warning(CONFIG_CHECK, value, remedy)]);
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = stderr.lines().map(|line| line.strip_prefix("oracled: ").unwrap_or(line));
    let lines = lines.map(|line| line.strip_prefix("configuration: ").unwrap_or(line));
    let config = serde_json::from_slice(&output.stdout).ok().map(CheckedConfig);
    let Some(config) = config.filter(|_| output.status.success()) else {
        return (None, lines.map(|fault| config_fault(&name, fault)).collect());
    };
    let warnings = lines.filter_map(|line| line.strip_prefix("warning: "));
    let warnings =
        warnings.map(|warning| CheckResult::warning(CONFIG_CHECK, warning, format!("change it in {name}")));
    let mut checks = vec![CheckResult::pass(CONFIG_CHECK, format!("{name} is valid"))];
    checks.extend(warnings);
    (Some(config), checks)
}

fn config_fault(name: &str, fault: &str) -> CheckResult {
    if fault.contains("Permission denied") && !geteuid().is_root() {
        return CheckResult::warning(CONFIG_CHECK, fault, "run oraclectl doctor as root");
    }
    CheckResult::fault(CONFIG_CHECK, fault, format!("correct {name}; the next start fails"))
}

/// The answers of the daemon, and the checks of them.
#[derive(Debug, Default)]
struct DaemonFindings {
    checks: Vec<CheckResult>,
    /// `None` if the daemon does not answer.
    state_dir: Option<PathBuf>,
    /// The configuration file with which the daemon was started, if any; `None` if the daemon does not answer.
    config_file: Option<Option<PathBuf>>,
    /// The working directory of the daemon; `None` if it is not known.
    working_dir: Option<PathBuf>,
    /// The time of the newest entry in the log.
    last_entry_at: Option<Timestamp>,
    /// The latest time of an entry.
    latest_entry_at: Option<Timestamp>,
    is_test_mode: bool,
}

/// Asks the daemon, if it answers.
async fn read_daemon(options: &GlobalOptions) -> Result<DaemonFindings, CtlError> {
    let status: StatusReport = match options.call_control(Method::GET, "/v1/status", None).await {
        Ok(answer) => answer.json()?,
        Err(error @ CtlError::Usage(_)) => return Err(error),
        Err(error) => {
            let checks = vec![unreachable_daemon(&error, &options.control_path()?)];
            return Ok(DaemonFindings { checks, ..DaemonFindings::default() });
        }
    };
    let oracles = options.call_control(Method::GET, "/v1/health/oracles", None).await?;
    let oracles: Vec<OracleHealthStatus> = oracles.json()?;
    let mut checks = check_status(&status);
    checks.extend(check_changed_keys(&status));
    checks.push(check_model(&status));
    checks.extend(check_cluster(options).await?);
    checks.extend(status.paused_endpoints.iter().filter_map(check_endpoint));
    checks.extend(oracles.iter().map(check_oracle));
    Ok(DaemonFindings {
        checks,
        state_dir: Some(status.state_dir.into()),
        config_file: Some(status.config_file.map(PathBuf::from)),
        working_dir: status.working_dir.map(PathBuf::from),
        last_entry_at: status.last_entry_at,
        latest_entry_at: status.latest_entry_at,
        is_test_mode: status.test_mode,
    })
}

/// The results for a host of a cluster.
async fn check_cluster(options: &GlobalOptions) -> Result<Vec<CheckResult>, CtlError> {
    match options.call_control(Method::GET, "/v1/cluster", None).await {
        Ok(answer) => Ok(check_report(&answer.json()?)),
        Err(CtlError::Problem { code, .. }) if code == NOT_IN_CLUSTER.name => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn check_report(report: &ClusterReport) -> Vec<CheckResult> {
    let mut checks = Vec::new();
    if !report.rights.missing.is_empty() {
        let remedy = format!("run as the owner of the tables: {}", report.rights.missing.join("; "));
        checks.push(CheckResult::fault(
            "cluster",
            "the user of the server lacks rights on the tables",
            remedy,
        ));
    }
    // the rest of the report is as old as the last contact
    if let Some(failure) = &report.failure {
        let remedy = "correct this cause, or start the server of the shared log; docs/cluster.md has a table of failures";
        checks.push(CheckResult::fault("cluster", failure.as_str(), remedy));
        return checks;
    }
    let mut warn = |value: String, remedy: &str| checks.push(CheckResult::warning("cluster", value, remedy));
    if let Some(failure) = &report.fetch_failure {
        let files = format_count(report.missing_files, "file of sources is", "files of sources are");
        warn(
            format!("{files} not on this host yet: {failure}"),
            "check `cluster.objects`, its credentials and the connection",
        );
    }
    if !report.rights.excess.is_empty() {
        let value = format!(
            "the user of the server has more rights than needed: {}",
            report.rights.excess.join(", ")
        );
        warn(value, "give the daemon a user with the rights in docs/cluster.md");
    }
    let own = report.hosts.iter().find(|host| host.host == report.host);
    if let Some(offset) =
        own.map(|own| own.clock_offset_ms).filter(|ms| ms.unsigned_abs() > CLOCK_OFFSET_NOTED_MS)
    {
        let value = describe_offset(offset);
        warn(value, "synchronize both by NTP: from 5 s, this host accepts no new work");
    }
    for difference in &report.config_differences {
        warn(difference.to_string(), "give all hosts the same values there, and restart them");
    }
    if let Some(ClusterStandbys { synchronous_standby_names: names, connected: 0 }) = &report.standbys
        && !names.is_empty()
    {
        let value = format!("the server waits for the standbys `{names}`, and none is connected to it");
        warn(value, "start a standby: until then nothing can be committed");
    }
    let away = report.hosts.iter().filter(|host| host.is_away(report)).map(|host| host.host.as_str());
    let away = away.collect::<Vec<_>>().join(", ");
    if !away.is_empty() {
        let remedy = "start them, or remove them with `oraclectl cluster remove`";
        warn(format!("these hosts are away: {away}"), remedy);
    }
    if checks.is_empty() {
        let hosts = format_count(report.hosts.len() as u64, "host", "hosts");
        checks.push(CheckResult::pass("cluster", format!("{} of a cluster of {hosts}", report.host)));
    }
    checks
}

/// A clock offset in words; it is positive if this host is ahead.
fn describe_offset(offset_ms: i64) -> String {
    let (size, side) = (offset_ms.unsigned_abs(), if offset_ms < 0 { "behind" } else { "ahead of" });
    format!("the clock of this host is {size} ms {side} that of the server of the shared log")
}

/// The result if the daemon does not answer. It may serve, if this user may not connect.
fn unreachable_daemon(error: &CtlError, control_path: &Path) -> CheckResult {
    let is_denied =
        UnixStream::connect(control_path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if is_denied {
        let remedy = "run oraclectl doctor as root; upstream systems were not checked";
        return CheckResult::warning("daemon", error.to_string(), remedy);
    }
    let remedy = "start it with `systemctl start oracled`, or name the socket of another daemon with --control-socket; upstream \
                  systems were not checked";
    CheckResult::fault("daemon", error.to_string(), remedy)
}

fn check_status(status: &StatusReport) -> Vec<CheckResult> {
    let name = format!("oracled {} (pid {})", status.version, status.pid);
    let ready = if status.ready && !status.degraded.is_empty() {
        let value = format!("{name} accepts verdicts and orders, but {}", status.degraded.join("; "));
        CheckResult::warning("daemon", value, "see docs/monitor.md, and the checks of models and mail")
    } else if status.ready {
        CheckResult::pass("daemon", format!("{name} accepts verdicts"))
    } else {
        let value = format!("{name} accepts no verdicts: {}", status.reasons.join("; "));
        let remedy = match status.reasons.as_slice() {
            [only] if only == "draining" => "`oraclectl drain --off` accepts new work again",
            _ => "see docs/recover.md",
        };
        CheckResult::fault("daemon", value, remedy)
    };
    let own = env!("CARGO_PKG_VERSION");
    let version = (status.version != own).then(|| {
        let value = format!("the daemon has version {}, and oraclectl {own}", status.version);
        CheckResult::warning("daemon", value, "restart the daemon, or install the same version of both")
    });
    let lag = status.mirror_lag.as_ref().map(|lag| {
        let value = format!("oracle_log.jsonl lags behind the log: {lag}");
        CheckResult::warning("daemon", value, "check its disk and its permissions")
    });
    let damage = status.segment_damage.as_ref().map(|damage| {
        let value = format!("the segments are damaged: {damage}");
        CheckResult::fault(
            "daemon",
            value,
            "wait until oracled has written them again; if it cannot, see its service log",
        )
    });
    let copies = status.copies_missing.as_ref().map(|missing| {
        let remedy = "free disk space, or check the folder segments.copy; oracled tries again every second";
        CheckResult::fault("daemon", missing.clone(), remedy)
    });
    let lost = Some(&status.lost_rows).filter(|lost| !lost.is_empty()).map(|lost| {
        let value = format!("rows are lost: {}", list_lost_rows(lost));
        CheckResult::fault("daemon", value, "restore a backup, or see docs/recover.md#damage")
    });
    let witness = status.witnesses.iter().filter_map(|witness| {
        let value = format!("the witness {} has not cosigned: {}", witness.name, witness.failure.as_ref()?);
        Some(CheckResult::warning("upstream", value, "check its URL and its key in `checkpoints.witnesses`"))
    });
    let run = |HeldRun { run_id, oracle_id, cause }: &HeldRun| {
        let value = format!("run {run_id} of the source {oracle_id} is held: {cause}");
        let remedy =
            "`oraclectl ingest show` shows it, and `oraclectl ingest approve` or `discard` decides it";
        CheckResult::warning("ingestion", value, remedy)
    };
    let held = status.held_runs.iter().flatten().map(run);
    let messages = status.outbox.iter().flat_map(check_outbox);
    let unsent = status.mails.filter(|mails| *mails > 0 && status.mail.starts_with("none")).map(|mails| {
        let mails = format_count(mails, "mail waits", "mails wait");
        let value = format!("{mails} in the outbox, and `mail.transport` is \"none\"");
        CheckResult::warning("outbox", value, "set a transport, or remove them with `oraclectl outbox drop`")
    });
    let backup = status.backup_overdue_since(Timestamp::now()).map(|since| {
        let last = status.last_backup_at.map_or_else(|| "none".to_owned(), |at| format!("{at:.0}"));
        let value = format!("overdue since {since:.0}, the last one: {last}");
        CheckResult::warning(
            "backup",
            value,
            "take one with `oraclectl backup`, or enable `oracled-backup.timer`",
        )
    });
    let state = [Some(ready), version, lag, damage, copies, lost, backup, unsent].into_iter().flatten();
    state.chain(witness).chain(held).chain(messages).collect()
}

/// The result if keys of the configuration have changed since the start of the daemon.
fn check_changed_keys(status: &StatusReport) -> Option<CheckResult> {
    let keys = (!status.needs_restart.is_empty()).then(|| status.needs_restart.join(", "))?;
    let value = format!("changed since the start of the daemon, and not in force: {keys}");
    Some(CheckResult::warning(CONFIG_CHECK, value, "restart the daemon, or undo the change"))
}

/// Dead letters, and messages that wait for longer than a short failure of their receiver.
fn check_outbox(outbox: &OutboxReport) -> Vec<CheckResult> {
    let of = |name: &str, report: &MessagesReport, (verb, group): (&str, &str)| {
        let dead = (report.dead > 0).then(|| {
            let value = format!(
                "{} {name} in the outbox",
                format_count(report.dead, "dead letter of", "dead letters of")
            );
            let remedy = format!(
                "`oraclectl {verb}` shows them with their errors; `oraclectl {group} requeue --all-dead` sends them again"
            );
            CheckResult::warning("outbox", value, remedy)
        });
        let waiting = report.waits_long_since(Timestamp::now()).map(|since| {
            let value = format!("{name} wait in the outbox, the oldest since {since:.0}");
            CheckResult::warning("outbox", value, format!("`oraclectl {verb}` shows their errors"))
        });
        [dead, waiting].into_iter().flatten()
    };
    let mails = of("mails", &outbox.mails, ("outbox", "outbox"));
    mails.chain(of("webhooks", &outbox.webhooks, ("webhook list", "webhook"))).collect()
}

/// The result for an endpoint of webhooks that is paused.
fn check_endpoint(outage: &WebhookOutage) -> Option<CheckResult> {
    let value = format!("webhooks to {} paused since {:.0}", outage.receiver.describe(), outage.paused_at?);
    let remedy =
        "correct the endpoint, check it with `oraclectl webhook test`, and use `oraclectl webhook resume`";
    Some(CheckResult::warning("outbox", value, remedy))
}

fn check_model(status: &StatusReport) -> CheckResult {
    let value = format!("model: {}; prompt: {}", status.model, status.prompt);
    match status.generation {
        GenerationReadiness::NoKey => {
            let remedy = "set `model.api_key_file` or systemd's credential, and restart the daemon";
            CheckResult::fault("model", value, remedy)
        }
        GenerationReadiness::DefaultWithoutKey => {
            let remedy = "for generated verdicts, set `model.api_key_file` or systemd's credential, and restart the daemon; \
                          otherwise set `model.provider = \"none\"`";
            CheckResult::warning("model", value, remedy)
        }
        GenerationReadiness::NoPrompt => {
            let remedy = "register the template with `oraclectl apply`, or correct `prompt_template`";
            CheckResult::fault("model", value, remedy)
        }
        GenerationReadiness::Ready | GenerationReadiness::NotWanted => CheckResult::pass("model", value),
    }
}

fn check_oracle(oracle: &OracleHealthStatus) -> CheckResult {
    let id = &oracle.oracle_id;
    if let Some(until) = oracle.paused_until(Timestamp::now()) {
        let value = format!("{id} is not called until {until:.0}, since it requested this wait");
        let remedy = format!("check its limits; `oraclectl health close {id}` allows its calls at once");
        return CheckResult::warning("upstream", value, remedy);
    }
    let error = oracle.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let value = match oracle.refusal() {
        Some(refusal) => format!("{id} is refusing: {refusal}"),
        None => format!("{id} is {}{error}", oracle.status.into_str()),
    };
    let remedy = match &oracle.last_error {
        _ if oracle.held_open => format!("`oraclectl health close {id}` allows its calls again"),
        _ if oracle.status == OracleHealthLevel::Refusing => format!(
            "check its key (401, 403), its credit (402), or its name and URL (404) in the configuration; then \
             `oraclectl health close {id}` allows its calls at once"
        ),
        Some(error) if ["401", "403"].iter().any(|status| error.contains(status)) => {
            "check its key or credential".to_owned()
        }
        Some(error) if error.contains("404") => "check its name and its URL in the configuration".to_owned(),
        Some(error) if ["400", "422"].iter().any(|status| error.contains(status)) => {
            "check the settings that it takes (`takes_…` of a model, the adapter of a source)".to_owned()
        }
        _ if oracle.status == OracleHealthLevel::CircuitOpen => format!(
            "check its address and the network; calls close the circuit when they succeed, or `oraclectl health close {id}` does at once"
        ),
        _ => format!("check its address and the network; `oraclectl health probe {id}` tries again"),
    };
    match oracle.status {
        OracleHealthLevel::Healthy if oracle.last_error.is_none() => CheckResult::pass("upstream", value),
        OracleHealthLevel::Healthy if oracle.last_success_at > oracle.last_failure_at => {
            CheckResult::pass("upstream", format!("{id} is {}", oracle.status.into_str()))
        }
        OracleHealthLevel::Healthy | OracleHealthLevel::Degraded => {
            CheckResult::warning("upstream", value, remedy)
        }
        OracleHealthLevel::Unhealthy | OracleHealthLevel::CircuitOpen | OracleHealthLevel::Refusing => {
            CheckResult::fault("upstream", value, remedy)
        }
    }
}

/// The keys in the state directory.
const KEYS: [&str; 2] = ["log.key", "held.key"];
const AS_ROOT: &str = "run oraclectl doctor as root or as the daemon's user";
/// Below this part of all inodes, a disk is nearly full.
const INODES_PART: u64 = 20;

/// Checks the permissions of the state directory, and its keys.
fn check_state_dir(dir: &Path) -> Vec<CheckResult> {
    let at = dir.display();
    let found = match fs::metadata(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let value = format!("{at} does not exist");
            let remedy = "the first start creates it; for a daemon with another state directory, name its file with --config";
            return vec![CheckResult::warning("permissions", value, remedy)];
        }
        Err(error) => {
            return vec![CheckResult::warning("permissions", format!("{at}: {error}"), AS_ROOT)];
        }
    };
    let mode = found.mode() & 0o777;
    let value = format!("{at} has mode {mode:04o}");
    if mode & 0o022 != 0 {
        let value = format!("{value}: others can replace its files, so the daemon does not start");
        return vec![CheckResult::fault("permissions", value, format!("chmod go-w {at}"))];
    }
    if let Err(error) = fs::read_dir(dir) {
        return vec![CheckResult::warning("permissions", format!("{value}: {error}"), AS_ROOT)];
    }
    let mut checks = vec![CheckResult::pass("permissions", value)];
    checks.extend(KEYS.iter().filter_map(|name| check_key(dir, name)));
    checks
}

/// `None` if the key is not needed yet.
fn check_key(dir: &Path, name: &str) -> Option<CheckResult> {
    let file = dir.join(name);
    let at = file.display();
    let read = fs::metadata(&file).and_then(|found| Ok((found, fs::read(&file)?)));
    Some(match read {
        Ok((found, content)) if decode_secret_key(&content).is_some() => {
            check_secret_mode("key", &at.to_string(), &found)
        }
        Ok(_) => CheckResult::fault("key", format!("{at} is not 32 bytes in Base64"), key_remedy(name)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // a key of the log can be a systemd credential
            let is_needed = name == "log.key" && dir.join("segments").exists();
            return is_needed.then(|| {
                let remedy = format!(
                    "nothing, if the key is systemd's credential oracled_log-key; else {}",
                    key_remedy(name)
                );
                CheckResult::warning("key", format!("{at} does not exist"), remedy)
            });
        }
        Err(error) => CheckResult::warning("key", format!("{at}: {error}"), AS_ROOT),
    })
}

/// The remedy for the key in the file `name` that is damaged or missing.
fn key_remedy(name: &str) -> &'static str {
    match name {
        "log.key" => {
            "put your copy of it back (a backup has no private keys), or move it away: the next start creates another key, and \
             everyone who verifies the log needs its public key"
        }
        _ => "put your copy of it back (a backup has no private keys); without it, held verdicts are lost",
    }
}

/// Checks that others cannot read the secret in the file `name`.
fn check_secret_mode(check: &'static str, name: &str, found: &Metadata) -> CheckResult {
    let mode = found.mode() & 0o777;
    let value = format!("{name} has mode {mode:04o}");
    if mode & 0o077 == 0 {
        return CheckResult::pass(check, value);
    }
    if mode & 0o007 == 0 {
        let remedy = format!("chmod go= {name}, unless a group must read it");
        return CheckResult::warning(check, format!("{value}: its group can use the secret"), remedy);
    }
    let value = format!("{value}: every user can use the secret");
    CheckResult::fault(check, value, format!("chmod go= {name}, and replace the secret"))
}

/// Checks the permissions of the files with secrets that the configuration names. Relative paths start from `folder`.
fn check_secret_files(config: &CheckedConfig, folder: &Path) -> Vec<CheckResult> {
    let check = |(key, file): (String, PathBuf)| match fs::metadata(&file) {
        Ok(found) => check_secret_mode("secret", &file.display().to_string(), &found),
        Err(error) => CheckResult::warning("secret", format!("{key}: {error}"), AS_ROOT),
    };
    config.secret_files(folder).into_iter().map(check).collect()
}

/// Checks the free space and the inodes of the disk with `dir`. `min_free_bytes` is `storage.min_free_bytes`.
fn check_disk(dir: &Path, min_free_bytes: Option<u64>) -> Vec<CheckResult> {
    // the directory may not exist yet
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let disk = match statvfs(existing).map_err(io::Error::from) {
        Ok(disk) => disk,
        Err(error) => {
            return vec![CheckResult::warning("disk", format!("{}: {error}", existing.display()), AS_ROOT)];
        }
    };
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    let inodes = (disk.files_available(), disk.files());
    vec![judge_space(free, min_free_bytes), judge_inodes(inodes.0, inodes.1)]
}

/// `min_free` is `None` if the configuration is invalid.
fn judge_space(free: u64, min_free: Option<u64>) -> CheckResult {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let Some(min_free) = min_free else {
        return CheckResult::pass("disk", format!("{} are free", mib(free)));
    };
    let value = format!("{} are free, and `storage.min_free_bytes` is {}", mib(free), mib(min_free));
    match () {
        () if free < min_free => {
            CheckResult::fault("disk", format!("{value}: new work is rejected"), "free space on the disk")
        }
        () if free < min_free.saturating_mul(4) => {
            CheckResult::warning("disk", value, "free space before new work is rejected")
        }
        () => CheckResult::pass("disk", value),
    }
}

/// `all` is 0 on file systems without a fixed number of inodes.
fn judge_inodes(free: u64, all: u64) -> CheckResult {
    if all == 0 {
        return CheckResult::pass("disk", "the file system has no limit of inodes");
    }
    let value = format!("{free} of {all} inodes are free");
    match () {
        () if free == 0 => CheckResult::fault("disk", value, "remove files on the disk"),
        () if free < all / INODES_PART => CheckResult::warning("disk", value, "remove files on the disk"),
        () => CheckResult::pass("disk", value),
    }
}

#[cfg(test)]
mod tests;
