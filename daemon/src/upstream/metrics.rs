//! The metrics of circuits.

use crate::platform::problem::Problem;
use crate::platform::scraped_metrics::MetricsText;
use crate::platform::service::DaemonService;
use actors_upstream::oracle_health::ListHealthStatuses;
use domain_upstream::health::{OracleHealthLevel, OracleHealthStatus};
use std::sync::Arc;
use std::time::Duration;

/// Reads the health of each oracle.
pub(crate) async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let oracles = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let mut text = MetricsText::default();
    write_oracle_gauges(&mut text, &oracles);
    Ok(text)
}

fn write_oracle_gauges(text: &mut MetricsText, oracles: &[OracleHealthStatus]) {
    let states = oracles.iter().flat_map(|oracle| {
        OracleHealthLevel::ALL.into_iter().map(move |status| {
            let (id, name) = (&oracle.oracle_id, status.into_str());
            (format!("oracle=\"{id}\",status=\"{name}\""), u64::from(status == oracle.status))
        })
    });
    let help = "state of an oracle's circuit: 1 for its current status, else 0";
    text.gauges("oracle_circuit_state", help, states);
    let each = |read: fn(&OracleHealthStatus) -> f64| {
        oracles.iter().map(move |oracle| (format!("oracle=\"{}\"", oracle.oracle_id), read(oracle)))
    };
    text.gauges(
        "oracle_consecutive_failures",
        "failures since the last success",
        each(|oracle| oracle.consecutive_failures.into()),
    );
    text.gauges(
        "oracle_latency_p50_seconds",
        "median time to an answer",
        each(|oracle| Duration::from_millis(oracle.latency_p50_ms).as_secs_f64()),
    );
    text.gauges(
        "oracle_latency_p99_seconds",
        "99th percentile of the time to an answer",
        each(|oracle| Duration::from_millis(oracle.latency_p99_ms).as_secs_f64()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_upstream::health::{CallPurpose, CircuitBreaker, CircuitCallOutcome, OracleHealthConfig};

    #[test]
    fn circuit_gauge_is_1_for_the_current_status_only() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model = CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        for outcome in [
            CircuitCallOutcome::Success { latency_ms: Some(120) },
            CircuitCallOutcome::Failure("status 500".into()),
        ] {
            let permit = model.permit(at, CallPurpose::Other).expect("the circuit is closed");
            model.report(at, permit, outcome);
        }
        let mut text = MetricsText::default();
        write_oracle_gauges(&mut text, &[model.status()]);
        let samples: Vec<_> = text.as_str().lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"oracled_oracle_circuit_state{oracle="model",status="healthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="degraded"} 1"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="unhealthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="circuit_open"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="refusing"} 0"#,
                r#"oracled_oracle_consecutive_failures{oracle="model"} 1"#,
                r#"oracled_oracle_latency_p50_seconds{oracle="model"} 0.12"#,
                r#"oracled_oracle_latency_p99_seconds{oracle="model"} 0.12"#,
            ]
        );
    }
}
