//! An envelope as text for people: its values with their evidence, the answers of the sources, the resolved
//! conflicts, and the next step.

use super::descriptions;
use crate::base::error::CtlError;
use crate::base::output::{format_pairs, format_requester, format_table};
use crate::base::output_style::OutputStyle;
use domain_base::visible::visible_line;
use domain_verification::envelope::{AxisEvidence, AxisOutcome, CandidateOutcome};
use domain_verification::{AxisReason, Envelope, EnvelopeKind};
use std::collections::BTreeMap;
use std::io::Write;

/// Prints an envelope, with each claim of the question under its axis.
pub(crate) fn show_envelope(
    out: &mut dyn Write,
    envelope: &Envelope,
    claims: &BTreeMap<String, String>,
    look: OutputStyle,
) -> Result<(), CtlError> {
    let is_verified = envelope.kind == EnvelopeKind::Authoritative;
    let meaning = if is_without_value(envelope) {
        descriptions::describe_no_value(&envelope.candidates)
    } else {
        descriptions::describe_kind(envelope.kind)
    };
    let kind = format!("{}: {meaning}", envelope.kind.into_str());
    writeln!(out, "{}", look.paint(&kind, is_verified))?;
    let head = [
        ("workflow", envelope.workflow.to_string()),
        ("subject", descriptions::format_identity(&envelope.thing)),
        ("as of", descriptions::format_times(envelope.point_in_time, envelope.known_at)),
        ("decided at", envelope.decided_at.to_string()),
        ("execution", envelope.execution_id.clone()),
    ];
    writeln!(out, "{}", format_pairs(&head))?;
    for (path, outcome) in &envelope.axes {
        show_axis(out, path, outcome, &envelope.candidates)?;
        if let Some(claim) = claims.get(path) {
            writeln!(out, "  claimed: {}", visible_line(claim))?;
        }
        for CandidateOutcome { oracle_id, deviations, .. } in &envelope.candidates {
            if let Some(jump) = deviations.get(path) {
                writeln!(out, "  {oracle_id}: {}", visible_line(jump))?;
            }
        }
    }
    let rows: Vec<_> = envelope.candidates.iter().map(candidate_row).collect();
    if !rows.is_empty() {
        writeln!(
            out,
            "\n{}",
            format_table(["source", "values", "counts as", "version", "as of", "outcome"], rows)
        )?;
    }
    if !envelope.steps.is_empty() {
        writeln!(out, "\nconflicts")?;
    }
    for step in &envelope.steps {
        writeln!(out, "  {}", descriptions::describe_step(step))?;
    }
    show_notes(out, envelope)?;
    show_next_step(out, envelope)
}

/// Whether all sources answered, and only their data has no value.
fn is_without_value(envelope: &Envelope) -> bool {
    envelope.kind == EnvelopeKind::Blocked && envelope.reasons.iter().eq([&AxisReason::NoValue])
}

/// Prints one axis: its value with the evidence, or the reasons why it has none.
fn show_axis(
    out: &mut dyn Write,
    path: &str,
    outcome: &AxisOutcome,
    candidates: &[CandidateOutcome],
) -> Result<(), CtlError> {
    let Some(value) = &outcome.value else {
        let difference = outcome.delta.as_ref().map(|delta| format!(", at most {delta} apart"));
        let kind = outcome.kind.into_str();
        writeln!(out, "{}: no value ({kind}){}", visible_line(path), difference.unwrap_or_default())?;
        if outcome.reasons.iter().eq([&AxisReason::NoValue]) {
            let why = descriptions::describe_no_value(candidates);
            writeln!(out, "  {why} ({})", AxisReason::NoValue.into_str())?;
            return Ok(());
        }
        for why in descriptions::describe_reasons(&outcome.reasons) {
            writeln!(out, "  {why}")?;
        }
        return Ok(());
    };
    let unit = outcome.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    writeln!(out, "{}", visible_line(&format!("{path}: {value}{unit}")))?;
    if let Some(definition) = &outcome.definition {
        writeln!(out, "  measured as: {}", visible_line(definition))?;
    }
    if let Some(basis) = outcome.basis {
        writeln!(out, "  {}", descriptions::describe_basis(basis))?;
    }
    for AxisEvidence { record, observed_at, stale } in &outcome.evidence {
        let version = record.source_version.as_ref().map(|version| format!(", version {version}"));
        let (oracle_id, tier, version) =
            (&record.oracle_id, record.oracle_tier.into_str(), version.unwrap_or_default());
        let cached = if *stale { ", from the cache" } else { "" };
        let (method, by) = (&record.verification_method, format_requester(&record.verifier_id));
        let line = format!("{oracle_id} ({tier}){version}, as of {observed_at}{cached}: {method} by {by}");
        writeln!(out, "  {}", visible_line(&line))?;
        writeln!(out, "    {}", visible_line(&record.source_locator))?;
    }
    Ok(())
}

/// The row of a source.
fn candidate_row(candidate: &CandidateOutcome) -> [String; 6] {
    let registered = candidate.registered_tier.map(|tier| tier.into_str());
    let counts_as = match (candidate.tier.map(|tier| tier.into_str()), registered) {
        (Some(tier), Some(registered)) if tier != registered => format!("{tier}, registered as {registered}"),
        (Some(tier), _) => tier.to_owned(),
        (None, _) => "-".into(),
    };
    let none = || "-".to_owned();
    let values = descriptions::format_values(&candidate.values);
    [
        candidate.oracle_id.to_string(),
        if values.is_empty() { none() } else { values },
        counts_as,
        candidate.record.as_ref().and_then(|record| record.source_version.clone()).unwrap_or_else(none),
        candidate.observed_at.map_or_else(none, |at| at.to_string()),
        descriptions::describe_outcome(candidate),
    ]
}

/// Prints further reasons, repeated queries, warnings, and the disclaimer.
fn show_notes(out: &mut dyn Write, envelope: &Envelope) -> Result<(), CtlError> {
    writeln!(out)?;
    let of_axes = |reason: &AxisReason| envelope.axes.values().any(|axis| axis.reasons.contains(reason));
    let others = envelope.reasons.iter().copied().filter(|reason| !of_axes(reason)).collect();
    for why in descriptions::describe_reasons(&others) {
        writeln!(out, "why: {why}")?;
    }
    for again in &envelope.reverify {
        let axes = again.axes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        writeln!(out, "to be queried again: {} for {}", again.oracle_id, visible_line(&axes))?;
    }
    for warning in &envelope.warnings {
        writeln!(out, "warning: {}", visible_line(warning))?;
    }
    if let Some(disclaimer) = &envelope.disclaimer {
        writeln!(out, "disclaimer: {}", visible_line(disclaimer))?;
    }
    Ok(writeln!(out, "envelope SHA-256: {}", envelope.sha256)?)
}

/// Prints the next step, unless it is to use the values.
fn show_next_step(out: &mut dyn Write, envelope: &Envelope) -> Result<(), CtlError> {
    if let Some(review_id) = &envelope.review_id {
        writeln!(out, "next: oraclectl review show {}", visible_line(review_id))?;
    }
    if !envelope.unspecified.is_empty() {
        let open = envelope.unspecified.join(", ");
        writeln!(out, "next: specify {} as AXIS=VALUE", visible_line(&open))?;
    }
    if let Some(retry) = &envelope.retry {
        writeln!(out, "next: {}", visible_line(&retry.advice))?;
    }
    if envelope.kind == EnvelopeKind::Provisional {
        writeln!(
            out,
            "next: oraclectl explain {}, once it is decided",
            visible_line(&envelope.execution_id)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn shown(changes: Json) -> String {
        let mut document = json!({
            "execution_id": "v-1", "kind": "human_review", "status": "unverified", "workflow": "census",
            "workflow_sha256": "0".repeat(64), "ontology": {"ontology_id": "population", "version": "1"},
            "where": {"area": "ABW"}, "decided_at": "2026-11-20T10:00:00Z", "reasons": ["deviation"],
            "axes": {"population": {"kind": "human_review", "standing": "escalated", "reasons": ["deviation"]}},
            "candidates": [], "steps": [], "warnings": [],
            "inputs_sha256": "0".repeat(64), "sha256": "0".repeat(64),
        });
        document.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
        let mut out = Vec::new();
        let document = serde_json::from_value(document).expect("a valid envelope");
        let claims = [("population".to_owned(), "5 by ann".to_owned())].into();
        show_envelope(&mut out, &document, &claims, OutputStyle::new(100, false))
            .expect("a write to memory succeeds");
        String::from_utf8(out).expect("the output is UTF-8")
    }

    #[test]
    fn deviating_value_is_shown_on_its_axis_with_the_claim_and_the_earlier_value() {
        let candidate = json!({"oracle_id": "office", "outcome": "answered", "stale": false, "contested": false,
            "late": false, "latency_ms": 5, "values": {"population": {"value": "9000"}},
            "deviations": {"population": "it was 54208 in v1 and is 9000; the difference exceeds 100"}});
        let text = shown(json!({"candidates": [candidate]}));
        let expected = "population: no value (human_review)\n  a value deviates too far from its source's baseline (deviation)\n  \
                      claimed: 5 by ann\n  office: it was 54208 in v1 and is 9000; the difference exceeds 100\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn missing_record_and_missing_value_have_different_texts() {
        let candidate = |outcome: &str| {
            json!({"oracle_id": "office", "outcome": outcome, "stale": false, "contested": false, "late": false,
                   "latency_ms": 0})
        };
        let axis = json!({"kind": "blocked", "standing": "unsettled", "reasons": ["no_value"]});
        let cases = [
            (vec![candidate("no_record"), candidate("no_record")], "no source has a record of the subject"),
            (
                vec![candidate("no_record"), candidate("answered")],
                "a source has a record of the subject, but no trusted source has a value",
            ),
            (
                vec![candidate("not_awaited")],
                "no trusted source has a usable value, and all expected sources answered",
            ),
        ];
        for (candidates, why) in cases {
            let changes = json!({"kind": "blocked", "reasons": ["no_value"], "candidates": candidates,
                                 "axes": {"population": axis}});
            let text = shown(changes);
            let on_axis = format!("population: no value (blocked)\n  {why} (no_value)\n");
            assert!(text.starts_with(&format!("blocked: {why}\n")) && text.contains(&on_axis), "{text}");
        }
    }

    #[test]
    fn next_step_is_the_retry_advice() {
        let advice = "no answer came from office: ask again in 5 seconds";
        let retry = json!({"after_ms": 5000, "oracles": ["office"], "advice": advice});
        let text = shown(json!({"kind": "blocked", "reasons": ["oracle_unreachable"], "retry": retry}));
        assert!(text.ends_with(&format!("next: {advice}\n")), "{text}");
    }
}
