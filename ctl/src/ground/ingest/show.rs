//! Runs as text for people and rows for programs.

use crate::base::error::CtlError;
use crate::base::output::{format_pairs, format_requester, short_run_id};
use domain_base::decimal::Decimal;
use domain_base::visible::visible_line;
use domain_ground::axis_effect::AxisEffect;
use domain_ground::rejection::RecordRule;
use domain_ground::run::{
    AxisCoverage, IngestionRun, ReleaseEffect, RunDecision, RunProgress, RunState, RunWarning,
};
use oracled_api::ground::RunReport;
use std::collections::BTreeMap;
use std::io::Write;

/// Columns for people.
pub(crate) const HEADING: [&str; 7] =
    ["run", "source", "version", "state", "started at", "records", "rejected"];

/// Columns for programs.
pub(crate) const COLUMNS: [&str; 12] = [
    "run_id",
    "oracle_id",
    "pipeline_id",
    "version",
    "released_at",
    "state",
    "started_at",
    "ended_at",
    "read",
    "records",
    "rejected",
    "undone_by",
];

/// The state of a run: its phase while it is in progress, and whether another run undid it.
pub(crate) fn state_word(RunReport { run, progress, undone_by }: &RunReport) -> &'static str {
    match (progress, undone_by) {
        (Some(progress), _) => progress.phase.into(),
        (None, Some(_)) => "undone",
        (None, None) => run.state.into_str(),
    }
}

/// The row of a run for people.
pub(crate) fn short_row(report: &RunReport) -> [String; 7] {
    let RunReport { run, progress, .. } = report;
    let state = state_word(report);
    let rejected = progress.as_ref().map_or(run.counts.rejected, |progress| progress.rejected);
    [
        short_run_id(&run.run_id),
        run.oracle_id.to_string(),
        run.input.version.clone(),
        state.to_owned(),
        run.started_at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        run.counts.records.to_string(),
        rejected.to_string(),
    ]
}

/// The row of a run for programs.
pub(crate) fn row(RunReport { run, undone_by, .. }: &RunReport) -> [String; 12] {
    [
        run.run_id.to_string(),
        run.oracle_id.to_string(),
        run.pipeline_id.to_string(),
        run.input.version.clone(),
        run.input.released_at.to_string(),
        run.state.into_str().to_owned(),
        run.started_at.to_string(),
        run.ended_at.map(|at| at.to_string()).unwrap_or_default(),
        run.counts.read.to_string(),
        run.counts.records.to_string(),
        run.counts.rejected.to_string(),
        undone_by.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

/// Why a run failed or is held, if its gates do not say it: an approval may have failed since.
pub(crate) fn cause_beside_gates(run: &IngestionRun) -> Option<String> {
    let of_gates: Vec<_> = run.breaches.iter().map(ToString::to_string).collect();
    run.cause.clone().filter(|cause| *cause != of_gates.join("; "))
}

/// The progress of a run, in words.
fn format_progress(progress: &RunProgress) -> String {
    let RunProgress { bytes_read, bytes, read, rejected, merged, .. } = progress;
    let doing: &str = progress.phase.into();
    format!("{doing}: {bytes_read} of {bytes} bytes, {read} records, {rejected} rejected, {merged} merged")
}

/// Prints a run with its counts, warnings and decisions.
pub(crate) fn show(
    out: &mut dyn Write,
    RunReport { run, progress, undone_by }: &RunReport,
) -> Result<(), CtlError> {
    let IngestionRun { run_id, oracle_id, pipeline_id, input, counts, .. } = run;
    let mut shown = vec![
        ("run", run_id.to_string()),
        ("state", progress.as_ref().map_or_else(|| run.state.into_str().to_owned(), format_progress)),
        ("source", format!("{oracle_id}, version {} of {}", input.version, input.released_at)),
        ("pipeline", pipeline_id.to_string()),
        ("payload", format!("{} bytes, {}", run.raw_bytes, input.raw_sha256)),
        ("requested by", format_requester(&run.requested_by)),
        ("started", run.started_at.to_string()),
    ];
    shown.extend(run.source_url.clone().map(|url| ("pulled from", url)));
    if let Some(ended_at) = run.ended_at {
        shown.extend([
            ("ended", ended_at.to_string()),
            ("read", counts.read.to_string()),
            ("records", counts.records.to_string()),
            ("collapsed", counts.collapsed.to_string()),
            ("rejected", format_total(counts.rejected, format_rule_counts(&counts.rejected_by_rule))),
        ]);
        let warnings = counts.warnings_by_rule.values().sum::<u64>() + counts.warnings.len() as u64;
        let of_run = counts.warnings.iter().map(|warning| warning.into_str().to_owned());
        let parts = format_rule_counts(&counts.warnings_by_rule).into_iter().chain(of_run).collect();
        shown.push(("warnings", format_total(warnings, parts)));
        shown.extend(counts.warnings.iter().map(|warning| {
            let label = match warning {
                RunWarning::ColumnsAppeared { .. } => "new columns",
                RunWarning::ColumnsDisappeared { .. } => "lost columns",
                RunWarning::UnmatchedPath { .. }
                | RunWarning::UnnamedColumns { .. }
                | RunWarning::MixedScripts { .. } => "warning",
            };
            (label, visible_line(&warning.to_string()).into_owned())
        }));
        shown.extend(counts.axes.iter().map(|(axis, fill)| ("axis", format_coverage(axis, fill))));
        shown
            .extend(counts.axis_effects.iter().map(|(axis, effect)| ("values", format_effect(axis, effect))));
        let changes: u64 = counts.changes.values().sum();
        let parts = counts.changes.iter().map(|(change, count)| format!("{change} {count}")).collect();
        shown.push(("changes", format_total(changes, parts)));
        if let Some(ReleaseEffect { in_force, withdrawn, changed }) = counts.effect {
            let effect = format!("{in_force} before it; {withdrawn} withdrawn, {changed} changed");
            shown.push(("in force", effect));
        }
        if (run.snapshot || run.replace) && counts.unidentified > 0 {
            let note = format!(
                "rejected records without a readable identity: {}, so this run withdraws nothing",
                counts.unidentified
            );
            shown.push(("note", note));
        }
    }
    shown.extend(run.undoes.as_ref().map(|undone| ("undoes", format!("run {}", undone.run_id))));
    shown.extend(undone_by.as_ref().map(|by| ("undone by", format!("run {by}"))));
    shown.extend(run.breaches.iter().map(|breach| ("gate", breach.to_string())));
    if let Some(RunDecision { decided_by, decided_at, reason }) = &run.decision {
        shown.push(("decision", format!("by {} at {decided_at}: {reason}", format_requester(decided_by))));
    }
    shown.extend(cause_beside_gates(run).map(|cause| ("cause", cause)));
    if matches!(run.state, RunState::Failed | RunState::Held) && counts.rejected > 0 {
        shown.push(("next", format!("oraclectl rejects {run_id}")));
    }
    if run.state == RunState::Held {
        shown.push(("next", format!("oraclectl ingest changes {run_id}")));
        let command = |verb: &str| ("next", format!("oraclectl ingest {verb} {run_id} --reason …"));
        shown.extend(["approve", "discard"].map(command));
    }
    Ok(out.write_all(format_pairs(&shown).as_bytes())?)
}

/// The number and the share of records with a value for an axis.
pub(in crate::ground) fn format_coverage(
    axis: &str,
    AxisCoverage { records, share }: &AxisCoverage,
) -> String {
    let percent = share.checked_mul(&Decimal::from(100)).unwrap_or_else(|_| share.clone());
    format!("{axis} {percent} %, {records} records")
}

/// The effect of a release on the values of an axis.
fn format_effect(axis: &str, AxisEffect { filled, unfilled, changed, .. }: &AxisEffect) -> String {
    format!("{axis} {filled} in force before it; {changed} changed, of which {unfilled} are now empty")
}

fn format_rule_counts(counts: &BTreeMap<RecordRule, u64>) -> Vec<String> {
    counts.iter().map(|(rule, count)| format!("{} {count}", rule.into_str())).collect()
}

fn format_total(total: u64, parts: Vec<String>) -> String {
    if parts.is_empty() { total.to_string() } else { format!("{total}: {}", parts.join(", ")) }
}
