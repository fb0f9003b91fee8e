//! Verbs for upstream systems: `oraclectl health`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_table, print_json};
use crate::base::program::examples;
use domain_base::text_form::visible_line;
use domain_upstream::health::{CircuitAction, OracleHealthLevel, OracleHealthStatus};
use domain_upstream::wire::{CircuitRequest, CircuitResponse, ProbeReport};
use hyper::Method;
use std::io::Write;

/// Show the health of the oracles (model, mail service, sources), or control one
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl health", "oraclectl health open gemini"]))]
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
        Some(ProbeReport { succeeded: Some(true), .. })
            if oracle.status == OracleHealthLevel::CircuitOpen =>
        {
            let id = &oracle.oracle_id;
            writeln!(
                out,
                "the probe succeeded; a probe does not close the circuit: use `oraclectl health close {id}`, or wait until calls \
                 succeed"
            )?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use domain_upstream::failure::RequestFailureKind;
    use domain_upstream::health::{self, CircuitCallOutcome, OracleHealthConfig};

    #[test]
    fn table_shows_a_requested_wait_with_the_status() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model =
            health::CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        model.note_requested_wait(at, std::time::Duration::from_secs(61));
        let shown = format_statuses(vec![model.status()]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("healthy, ") && shown.contains("2026-11-20T10:01:01Z"), "{shown}");
        assert!(!shown.contains("circuit_open"), "{shown}");
    }

    #[test]
    fn table_shows_until_when_a_circuit_is_open() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let id = "model".parse().expect("an id");
        let mut model = health::CircuitBreaker::new(id, OracleHealthConfig::default());
        assert!(format_statuses(vec![model.status()]).contains("healthy"));
        for _ in 0..3 {
            let permit = model.permit(at, health::CallPurpose::Other).expect("the circuit is closed");
            model.report(at, permit, CircuitCallOutcome::Failure(RequestFailureKind::Status(503)));
        }
        let shown = |model: &health::CircuitBreaker| {
            format_statuses(vec![model.status()]).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let open = shown(&model);
        assert!(open.contains("circuit_open") && open.contains("10:00:30Z"), "{open}");
        assert!(open.contains("HTTP status 503"), "{open}");
        let of_other_daemon =
            OracleHealthStatus { last_error: Some("a\u{1b}[2Jb\nc".into()), ..model.status() };
        let escaped = format_statuses(vec![of_other_daemon]);
        assert!(escaped.contains("\\u{1b}[2Jb\\nc"), "{escaped}");
        let probe = ProbeReport { succeeded: Some(true), error: None };
        let mut probed: Vec<u8> = Vec::new();
        show(&mut probed, CircuitResponse { oracle: model.status(), probe: Some(probe) })
            .expect("it is written");
        let probed = String::from_utf8(probed).expect("text");
        assert!(probed.contains("`oraclectl health close model`"), "{probed}");
        model.open(at);
        assert!(
            !shown(&model).contains("10:00:30Z") && shown(&model).contains("closed"),
            "{}",
            shown(&model)
        );
    }
}
