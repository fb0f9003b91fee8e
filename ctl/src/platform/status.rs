//! `oraclectl status`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_known, format_pairs, format_table, print_json};
use domain_audit::event::LostRow;
use domain_base::actor_report::ActorReport;
use domain_base::count::format_count;
use domain_base::visible::visible_line;
use domain_upstream::health::{CircuitAction, OracleHealthLevel, OracleHealthStatus};
use domain_verdict::cost::DailyBudget;
use domain_verdict::divergence::RegenVariance;
use hyper::Method;
use oracled_api::base::service::{
    CircuitRequest, CircuitResponse, HeldRun, ProbeReport, StatusReport, WaitingOrders, WitnessReport,
};
use std::io::Write;

/// Prints the state of the daemon.
pub(crate) async fn run(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = options.call_control(Method::GET, "/v1/status", None).await?;
    let status: StatusReport = answer.json()?;
    if options.json {
        return print_json(out, &status);
    }
    let mut shown = vec![
        ("oracled", format!("{} (pid {})", status.version, status.pid)),
        ("serves since", format!("{} ({} s)", status.started_at, status.uptime_s)),
        ("ready", if status.ready { "yes".into() } else { format!("no: {}", status.reasons.join("; ")) }),
        ("configuration", status.config_file.unwrap_or_else(|| "no file".into())),
        ("state", status.state_dir),
        ("log", format_count(status.entries, "entry", "entries")),
        ("witnesses", format_witnesses(&status.witnesses)),
        ("store", format!("{} verdicts, {} sessions", status.verdicts, status.sessions)),
        ("model", status.model),
        ("prompt", status.prompt),
        (
            "orders",
            match status.orders {
                Some(WaitingOrders { queued, generating, held }) => {
                    format!("{queued} queued, {generating} generating, {held} held")
                }
                None => "unknown: they cannot be read".into(),
            },
        ),
        (
            "budgets",
            status.budgets.map_or_else(|| "unknown: they cannot be read".into(), |all| format_budgets(&all)),
        ),
        ("mail", format!("{}; {} in the outbox", status.mail, format_known(status.mails))),
        ("webhooks", format!("{} in the outbox", format_known(status.webhooks))),
        ("reviews", format!("{} open", status.open_reviews)),
        ("held runs", format_held_runs(status.held_runs.as_deref())),
        ("oracles", if status.oracles.is_empty() { "none".into() } else { status.oracles.join(", ") }),
        ("divergence", format_variance(&status.variance)),
        ("in flight", status.in_flight.to_string()),
        (
            "connections",
            format!("{} on routes, {} on control", status.connections, status.control_connections),
        ),
    ];
    if let Some(failure) = status.journal_failure {
        shown.push((
            "journal",
            format!("rejects entries: {failure}; {} in the service log", status.fallback_entries),
        ));
    }
    if let Some(damage) = status.segment_damage {
        shown.push(("segments", format!("damaged, and written again from the database: {damage}")));
    }
    if !status.lost_rows.is_empty() {
        shown.push(("lost", list_lost_rows(&status.lost_rows)));
    }
    if let Some(lag) = status.mirror_lag {
        shown.push(("oracle_log.jsonl", format!("lags behind the log: {lag}")));
    }
    Ok(out.write_all(format_pairs(&shown).as_bytes())?)
}

/// The first lost rows, with their number.
pub(crate) fn list_lost_rows(lost: &[LostRow]) -> String {
    const LISTED: usize = 10;
    let row = |LostRow { row, entry, .. }: &LostRow| format!("{row} (entry {entry})");
    let listed = lost.iter().take(LISTED).map(row).collect::<Vec<_>>().join(", ");
    let count = format_count(lost.len() as u64, "row", "rows");
    if lost.len() > LISTED { format!("{count}: {listed}, …") } else { format!("{count}: {listed}") }
}

fn format_held_runs(runs: Option<&[HeldRun]>) -> String {
    let run = |HeldRun { run_id, oracle_id, cause }: &HeldRun| format!("{oracle_id}: {run_id} ({cause})");
    match runs {
        None => "unknown: they cannot be read".into(),
        Some([]) => "none".into(),
        Some(runs) => runs.iter().map(run).collect::<Vec<_>>().join("; "),
    }
}

pub(crate) fn format_witnesses(witnesses: &[WitnessReport]) -> String {
    let witness = |witness: &WitnessReport| {
        let WitnessReport { name, cosigned_entries, cosigned_at, failure } = witness;
        let cosigned = match cosigned_entries.zip(*cosigned_at) {
            Some((entries, at)) => {
                format!("{name}: cosigned {} at {at}", format_count(entries, "entry", "entries"))
            }
            None => format!("{name}: cosigned nothing since the start"),
        };
        failure.iter().fold(cosigned, |cosigned, failure| format!("{cosigned} ({failure})"))
    };
    let witnesses: Vec<_> = witnesses.iter().map(witness).collect();
    if witnesses.is_empty() { "none".into() } else { witnesses.join("; ") }
}

pub(crate) fn format_budgets(budgets: &[DailyBudget]) -> String {
    let budget = |budget: &DailyBudget| {
        let DailyBudget { application, daily, currency, costs_of_today, resets_at } = budget;
        let of = application.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let used_up = resets_at.map(|at| format!(" (used up until {at})")).unwrap_or_default();
        format!("{of}{costs_of_today} of {daily} {currency} today{used_up}")
    };
    let budgets: Vec<_> = budgets.iter().map(budget).collect();
    if budgets.is_empty() { "none".into() } else { budgets.join("; ") }
}

pub(crate) fn format_variance(variance: &RegenVariance) -> String {
    let RegenVariance { regens, diverged, rate, escalated } = variance;
    let alarm = if *escalated { ": INFRASTRUCTURE VARIANCE" } else { "" };
    format!("{diverged} of the last {regens} regenerated verdicts ({:.1} %){alarm}", rate * 100.0)
}

/// Show the health of the oracles (model, mail service, sources), or control one
#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    #[command(subcommand)]
    action: Option<HealthAction>,
}

#[derive(Debug, clap::Subcommand)]
enum HealthAction {
    /// Open the circuit of an oracle, so that the oracle is not called until the circuit is closed
    Open {
        /// The id of the oracle, as `oraclectl health` shows it; `source:` may be left out
        #[arg(value_parser = id_parser())]
        oracle_id: String,
    },
    /// Close the circuit of an oracle and mark it healthy
    Close {
        /// The id of the oracle, as `oraclectl health` shows it; `source:` may be left out
        #[arg(value_parser = id_parser())]
        oracle_id: String,
    },
    /// Probe an oracle now, even if its circuit is open; exit status 1 if the probe fails
    Probe {
        /// The id of the oracle, as `oraclectl health` shows it; `source:` may be left out
        #[arg(value_parser = id_parser())]
        oracle_id: String,
    },
}

impl HealthArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let (oracle_id, action) = match &self.action {
            None => return list(options, out).await,
            Some(HealthAction::Open { oracle_id }) => (oracle_id, CircuitAction::Open),
            Some(HealthAction::Close { oracle_id }) => (oracle_id, CircuitAction::Close),
            Some(HealthAction::Probe { oracle_id }) => (oracle_id, CircuitAction::Probe),
        };
        let path = format!("/v1/health/oracles/{}", encode_segment(oracle_id));
        let body = serde_json::to_vec(&CircuitRequest { action }).map_err(std::io::Error::from)?;
        let response: CircuitResponse =
            options.call_control(Method::POST, &path, Some(body.into())).await?.json()?;
        let failed = response.probe.as_ref().is_some_and(|probe| probe.succeeded == Some(false));
        if options.json {
            print_json(out, &response)?;
        } else {
            show(out, response)?;
        }
        if failed { Err(CtlError::ProbeFailed) } else { Ok(()) }
    }
}

async fn list(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = options.call_control(Method::GET, "/v1/health/oracles", None).await?;
    let statuses: Vec<OracleHealthStatus> = answer.json()?;
    if options.json {
        print_json(out, &statuses)
    } else {
        Ok(writeln!(out, "{}", format_statuses(statuses))?)
    }
}

fn show(out: &mut dyn Write, CircuitResponse { oracle, probe }: CircuitResponse) -> Result<(), CtlError> {
    match probe {
        Some(ProbeReport { succeeded: Some(true), .. }) => writeln!(out, "the probe succeeded")?,
        Some(ProbeReport { succeeded: None, .. }) => {
            writeln!(out, "the oracle is reachable; its answer does not report its health")?;
        }
        Some(ProbeReport { succeeded: Some(false), error }) => {
            let error = error.unwrap_or_default();
            writeln!(out, "the probe failed: {}", visible_line(&error))?;
        }
        None => {}
    }
    Ok(writeln!(out, "{}", format_statuses(vec![oracle]))?)
}

fn format_statuses(statuses: Vec<OracleHealthStatus>) -> String {
    if statuses.is_empty() {
        return "no oracles: no model and no mail service is configured".into();
    }
    let rows = statuses.into_iter().map(|oracle| {
        let at = |at: Option<jiff::Timestamp>| at.map_or_else(|| "never".into(), |at| at.to_string());
        let status = match oracle.retry_at {
            _ if oracle.held_open => "circuit_open until it is closed".into(),
            Some(retry_at) if oracle.status == OracleHealthLevel::CircuitOpen => {
                format!("circuit_open until {retry_at}")
            }
            Some(retry_at) if oracle.status == OracleHealthLevel::Refusing => {
                let since = oracle.circuit_opened_at.unwrap_or(retry_at);
                format!("refusing since {since:.0}, no orders until {retry_at:.0}")
            }
            Some(retry_at) => format!("{}, not called until {retry_at}", oracle.status.into_str()),
            None => oracle.status.into_str().to_owned(),
        };
        [
            oracle.oracle_id.to_string(),
            status,
            oracle.consecutive_failures.to_string(),
            format!("{} ms", oracle.latency_p50_ms),
            format!("{} ms", oracle.latency_p99_ms),
            at(oracle.last_success_at),
            at(oracle.last_failure_at),
            oracle.last_error.unwrap_or_else(|| "none".into()),
        ]
    });
    let heading =
        ["oracle", "status", "failures", "p50", "p99", "last success", "last failure", "last error"];
    format_table(heading, rows.collect())
}

/// Prints the state of each actor.
pub(crate) async fn list_actors(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let answer = options.call_control(Method::GET, "/v1/actors", None).await?;
    let reports: Vec<ActorReport> = answer.json()?;
    if options.json {
        return print_json(out, &reports);
    }
    let rows = reports.into_iter().map(|report| {
        let panic = report
            .last_panic
            .map_or_else(|| "none".into(), |panic| format!("{}: {}", panic.at, panic.message));
        let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
        [
            report.name,
            report.handled.to_string(),
            report.queue_depth.to_string(),
            ms(report.latency_p50_us),
            ms(report.latency_p99_us),
            report.restarts.to_string(),
            panic,
        ]
    });
    let heading = ["actor", "handled", "waiting", "p50", "p99", "restarts", "last panic"];
    Ok(writeln!(out, "{}", format_table(heading, rows.collect()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_upstream::health::{self, CircuitCallOutcome, OracleHealthConfig};

    #[test]
    fn table_shows_a_requested_wait_with_the_status() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model =
            health::CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        model.note_requested_wait(at, std::time::Duration::from_secs(61));
        let shown = format_statuses(vec![model.status()]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("healthy, not called until") && !shown.contains("circuit_open"), "{shown}");
    }

    #[test]
    fn table_shows_until_when_a_circuit_is_open() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let id = "model".parse().expect("an id");
        let mut model = health::CircuitBreaker::new(id, OracleHealthConfig::default());
        assert!(format_statuses(vec![model.status()]).contains("healthy"));
        for _ in 0..3 {
            let permit = model.permit(at, health::CallPurpose::Other).expect("the circuit is closed");
            model.report(at, permit, CircuitCallOutcome::Failure("a\u{1b}[2Jb\nc".into()));
        }
        let shown = |model: &health::CircuitBreaker| {
            format_statuses(vec![model.status()]).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let open = shown(&model);
        assert!(open.contains("circuit_open") && open.contains("10:00:30Z"), "{open}");
        assert!(open.contains("\\u{1b}[2Jb\\nc"), "{open}");
        model.open(at);
        assert!(
            !shown(&model).contains("10:00:30Z") && shown(&model).contains("closed"),
            "{}",
            shown(&model)
        );
    }
}
