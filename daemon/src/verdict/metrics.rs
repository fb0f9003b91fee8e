//! The metrics of stored and regenerated verdicts, and of budgets.

use crate::platform::problem::Problem;
use crate::platform::scraped_metrics::MetricsText;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::regen::ReadVariance;
use domain_base::decimal::Decimal;
use domain_base::row::Row;
use domain_verdict::cost::DailyBudget;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::session::SessionRecord;
use std::sync::Arc;

/// Reads the number of verdicts and sessions, whether regenerated verdicts differ too often, and the daily budgets. The budget of all calls has no label.
pub(crate) async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let mut text = MetricsText::default();
    let counts = service.journal_report().counts;
    text.gauge("cached_verdicts", "verdicts in the store", counts.of(VerdictDelivery::TABLE.name));
    text.gauge("sessions", "sessions in the store", counts.of(SessionRecord::TABLE.name));
    match service.system.regen.ask(ReadVariance).await {
        Ok(variance) => {
            let help = "whether regenerated verdicts differ too often";
            text.gauge("infrastructure_variance", help, u64::from(variance.escalated));
        }
        Err(error) => tracing::warn!(%error, "the metrics lack the divergence of regenerated verdicts"),
    }
    let reading = Arc::clone(service);
    let budgets = run_blocking(move || reading.system.daily_budgets()).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the daily budgets");
        Vec::new()
    });
    if budgets.is_empty() {
        return Ok(text);
    }
    let each = |read: fn(&DailyBudget) -> &Decimal| {
        budgets.iter().map(move |budget| {
            let label = budget.application.as_ref().map(|name| format!("application=\"{name}\""));
            (label.unwrap_or_default(), read(budget))
        })
    };
    text.gauges("daily_budget", "budget for model calls of a UTC day", each(|budget| &budget.daily));
    text.gauges(
        "daily_costs",
        "costs of the current UTC day that count toward the budget",
        each(|budget| &budget.costs_of_today),
    );
    Ok(text)
}
