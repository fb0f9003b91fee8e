//! `oraclectl costs`.

use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, format_table, print_json};
use domain_verdict::cost::{CostSum, DailyBudget, ModelCost};
use domain_verdict::wire::CostsResponse;
use hyper::Method;
use std::io::Write;

/// Show the costs of the models by UTC day, application, model and tier
#[derive(Debug, clap::Args)]
pub(crate) struct CostsArgs {
    /// Only days since a time (2026-11-20, 2026-11-20T10:00:00Z), or of the last period (2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
    /// Only days up to a time, in the same forms
    #[arg(long, value_name = "TIME")]
    until: Option<SinceTime>,
}

impl CostsArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let bound = |name: &str, bound: Option<SinceTime>| {
            bound.map(|time| format!("{name}={}", encode_segment(&time.to_timestamp().to_string())))
        };
        let bounds: Vec<_> =
            [bound("since", self.since), bound("until", self.until)].into_iter().flatten().collect();
        let path = format!("/v1/costs?{}", bounds.join("&"));
        let costs: CostsResponse = options.call_control(Method::GET, &path, None).await?.json()?;
        if options.json {
            return print_json(out, &costs);
        }
        if costs.costs.is_empty() {
            writeln!(
                out,
                "no costs on these days; calls have costs if the model has `input_price` and `output_price`"
            )?;
        } else {
            writeln!(out, "{}", format_costs(&costs.costs))?;
            write!(out, "{}", format_pairs(&totals(&costs.costs)))?;
        }
        Ok(write!(out, "{}", format_budgets(&costs.budgets))?)
    }
}

/// One row for each sum.
fn format_costs(costs: &[CostSum]) -> String {
    let row = |sum: &CostSum| {
        [
            sum.day.to_string(),
            sum.application.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            sum.model.clone(),
            sum.tier.to_string(),
            sum.calls.to_string(),
            sum.prompt_tokens.to_string(),
            sum.output_tokens.to_string(),
            sum.cost.to_string(),
        ]
    };
    let heads = ["day", "application", "model", "tier", "calls", "prompt tokens", "output tokens", "cost"];
    format_table(heads, costs.iter().map(row).collect())
}

/// The total of each currency.
fn totals(costs: &[CostSum]) -> Vec<(&'static str, String)> {
    let totals = ModelCost::sum_by_currency(costs.iter().map(|sum| sum.cost.clone()));
    totals.iter().map(|total| ("total", total.to_string())).collect()
}

/// One line for each budget.
fn format_budgets(budgets: &[DailyBudget]) -> String {
    let line = |budget: &DailyBudget| {
        let DailyBudget { application, daily, currency, costs_of_today, resets_at } = budget;
        let of = application.as_ref().map(|name| format!(" for `{name}`")).unwrap_or_default();
        let until = resets_at.map(|at| format!("; no verdict is generated{of} until {at}"));
        let until = until.unwrap_or_else(|| of.clone());
        ("budget", format!("{costs_of_today} of {daily} {currency} today{until}"))
    };
    format_pairs(&budgets.iter().map(line).collect::<Vec<_>>())
}
