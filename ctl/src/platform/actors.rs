//! `oraclectl actors`.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_table, print_json};
use domain_base::actor_report::ActorReport;
use hyper::Method;
use std::io::Write;

/// Prints the state of each actor.
pub(crate) async fn run(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
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
