//! `oraclectl describe freshness_policy`.

use crate::base::error::CtlError;
use crate::base::output::{format_pairs, format_table};
use oracled_api::ground::FreshnessReport;
use oracled_domain::base::moment::format_span;
use oracled_domain::ground::freshness::AxisFreshness;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

pub(super) fn show(out: &mut dyn Write, report: &FreshnessReport) -> Result<(), CtlError> {
    let FreshnessReport { policy, is_default, invalidated_at, current_version, released_at, now } = report;
    let none = || "none".to_owned();
    let released = released_at.map(|at| format!(", released {at}")).unwrap_or_default();
    let shown = [
        ("source", policy.oracle_id.to_string()),
        ("policy", if *is_default { "the default" } else { "its own" }.into()),
        ("version", current_version.as_ref().map_or_else(none, |version| format!("{version}{released}"))),
        ("invalidated", invalidated_at.map_or_else(|| "no".into(), |at| at.to_string())),
        ("answer now", serialized_word(&now.answer)),
    ];
    out.write_all(format_pairs(&shown).as_bytes())?;
    let row = |axis: &AxisFreshness| {
        [
            axis.axis.clone(),
            axis.age_seconds.map_or_else(none, format_span),
            format_span(axis.max_age_seconds),
            if axis.stale { "stale" } else { "fresh" }.into(),
            serialized_word(&axis.stale_behavior),
        ]
    };
    let rows = now.axes.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", format_table(["axis", "age", "allowed", "now", "when stale"], rows))?)
}

/// The value as it is written in documents.
fn serialized_word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| Value::to_string(&value), str::to_owned)
}
