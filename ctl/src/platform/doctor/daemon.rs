//! The reports of the running daemon: its state, its upstream systems, its model.

use super::CheckResult;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::platform::status::list_lost_rows;
use domain_upstream::health::{OracleHealthLevel, OracleHealthStatus};
use hyper::Method;
use jiff::Timestamp;
use oracled_api::base::service::{HeldRun, StatusReport};
use serde::Deserialize;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The answers of the daemon, and the checks of them.
#[derive(Debug, Default)]
pub(super) struct DaemonFindings {
    pub(super) checks: Vec<CheckResult>,
    /// `None` if the daemon does not answer.
    pub(super) state_dir: Option<PathBuf>,
    /// The configuration file with which the daemon was started, if any; `None` if the daemon does not answer.
    pub(super) config_file: Option<Option<PathBuf>>,
    /// The time of the newest entry in the log.
    pub(super) last_entry_at: Option<Timestamp>,
}

/// The time of an entry.
#[derive(Deserialize)]
struct EntryTime {
    timestamp: Timestamp,
}

/// Asks the daemon, if it answers.
pub(super) async fn read_daemon(options: &GlobalOptions) -> Result<DaemonFindings, CtlError> {
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
    let newest = options.call_control(Method::GET, "/v1/log?limit=1", None).await?;
    let newest: Option<EntryTime> = serde_json::from_slice(&newest.body).ok();
    let mut checks = check_status(&status);
    checks.push(check_model(&status));
    checks.extend(oracles.iter().map(check_oracle));
    Ok(DaemonFindings {
        checks,
        state_dir: Some(status.state_dir.into()),
        config_file: Some(status.config_file.map(PathBuf::from)),
        last_entry_at: newest.map(|entry| entry.timestamp),
    })
}

/// The result if the daemon does not answer. It may serve, if this user may not connect.
fn unreachable_daemon(error: &CtlError, control_path: &Path) -> CheckResult {
    let is_denied =
        UnixStream::connect(control_path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if is_denied {
        let remedy = "run oraclectl doctor as root; upstream systems were not checked";
        return CheckResult::warning("daemon", error.to_string(), remedy);
    }
    let remedy = "start it with `systemctl start oracled`; upstream systems were not checked";
    CheckResult::fault("daemon", error.to_string(), remedy)
}

fn check_status(status: &StatusReport) -> Vec<CheckResult> {
    let name = format!("oracled {} (pid {})", status.version, status.pid);
    let ready = if status.ready {
        CheckResult::pass("daemon", format!("{name} accepts verdicts"))
    } else {
        let value = format!("{name} accepts no verdicts: {}", status.reasons.join("; "));
        CheckResult::fault("daemon", value, "see \"After a failure\" in docs/operations.md")
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
    let lost = Some(&status.lost_rows).filter(|lost| !lost.is_empty()).map(|lost| {
        let value = format!("rows are lost: {}", list_lost_rows(lost));
        CheckResult::fault("daemon", value, "restore a backup, erase the sessions, or replace the rows")
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
    [Some(ready), version, lag, damage, lost].into_iter().flatten().chain(witness).chain(held).collect()
}

fn check_model(status: &StatusReport) -> CheckResult {
    let value = format!("model: {}; prompt: {}", status.model, status.prompt);
    if status.model.ends_with("so no verdicts are generated") {
        let remedy = "set `model.api_key_file` or systemd's credential, and restart the daemon";
        return CheckResult::fault("model", value, remedy);
    }
    if status.model.starts_with("none:") && status.model.contains("it has no key") {
        let remedy = "for generated verdicts, set `model.api_key_file` or systemd's credential, and restart the daemon; \
                      otherwise set `model.provider = \"none\"`";
        return CheckResult::warning("model", value, remedy);
    }
    // a daemon without a model needs no prompt
    if !status.model.starts_with("none:") && status.prompt.contains("none, so orders wait") {
        let remedy = "register the template with `oraclectl apply`, or correct `prompt_template`";
        return CheckResult::fault("model", value, remedy);
    }
    CheckResult::pass("model", value)
}

fn check_oracle(oracle: &OracleHealthStatus) -> CheckResult {
    let id = &oracle.oracle_id;
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
