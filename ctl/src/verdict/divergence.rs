//! `oraclectl divergence`.

use crate::audit::log::SinceTime;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, format_table, print_json};
use crate::base::program::examples;
use domain_verdict::divergence::{DivergenceLevel, DivergenceTable, OriginalLabel, RegenVariance};
use domain_verdict::label::VerdictLabel;
use domain_verdict::wire::DivergenceResponse;
use hyper::Method;
use std::io::Write;

/// Show how often regenerated verdicts differ from the delivered ones
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl divergence --since 30d"]))]
pub(crate) struct DivergenceArgs {
    /// Only regenerations since a time (2026-11-20T10:00:00Z), or of the last period (15m, 2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
}

impl DivergenceArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let since =
            self.since.map(|since| format!("?since={}", encode_segment(&since.to_timestamp().to_string())));
        let path = format!("/v1/divergence{}", since.unwrap_or_default());
        let divergences: DivergenceResponse = options.call_control(Method::GET, &path, None).await?.json()?;
        if options.json {
            return print_json(out, &divergences);
        }
        let DivergenceResponse { table: all, variance } = divergences;
        let at = |level: Option<DivergenceLevel>| all.at(level).to_string();
        let below = [
            ("the same", at(Some(DivergenceLevel::None))),
            ("minor", at(Some(DivergenceLevel::Minor))),
            ("significant", at(Some(DivergenceLevel::Significant))),
            ("not compared", at(None)),
            ("watch", format_variance(&variance)),
        ];
        Ok(write!(out, "{}\n{}", format_divergences(&all), format_pairs(&below))?)
    }
}

/// One row per first verdict, one column per regenerated verdict.
pub(crate) fn format_divergences(all: &DivergenceTable) -> String {
    let [green, amber, red, null] = VerdictLabel::ALL.map(<&str>::from);
    let row = |original: Option<VerdictLabel>| {
        let original = OriginalLabel(original);
        let count = |regenerated: VerdictLabel| {
            let cell = all
                .cells
                .iter()
                .find(|cell| (cell.original_verdict, cell.regen_verdict) == (original, regenerated));
            cell.map_or(0, |cell| cell.count).to_string()
        };
        let [green, amber, red, null] = VerdictLabel::ALL.map(count);
        [original.as_str().to_owned(), green, amber, red, null]
    };
    let rows = VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(row).collect();
    format_table(["first \\ again", green, amber, red, null], rows)
}

pub(crate) fn format_variance(variance: &RegenVariance) -> String {
    let RegenVariance { regens, diverged, rate, escalated } = variance;
    let alarm = if *escalated { ": INFRASTRUCTURE VARIANCE" } else { "" };
    format!("{diverged} of the last {regens} regenerated verdicts ({:.1} %){alarm}", rate * 100.0)
}
