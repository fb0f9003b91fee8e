//! Reviews as text for people.

use super::super::verify::words;
use crate::base::error::CtlError;
use crate::base::output::{by_whom, on_one_line, pairs, shortened, table};
use jiff::Timestamp;
use oracled_api::verification::ReviewSummary;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verification::review::{Dismissed, Resolved, ReviewState, Revoked};
use oracled_domain::verification::{Candidate, Review};
use std::collections::BTreeSet;
use std::io::Write;

/// Maximum length of a review's values in a list, in characters.
const VALUES_MAX_CHARS: usize = 60;

/// Reviews as a table.
pub(crate) fn page(reviews: &[ReviewSummary]) -> String {
    if reviews.is_empty() {
        return "no reviews".into();
    }
    let row = |review: &ReviewSummary| {
        [
            review.review_id.clone(),
            review.workflow_id.to_string(),
            about(review),
            axes(review),
            shortened(&values(review), VALUES_MAX_CHARS),
            review.opened_at.to_string(),
            stands(review),
        ]
    };
    table(
        ["review", "workflow", "entity", "to decide", "values", "opened at", "state"],
        reviews.iter().map(row).collect(),
    )
}

/// The state of a review, in words.
fn stands(review: &ReviewSummary) -> String {
    let told = |what: &str, by: &Option<String>, at: Option<Timestamp>| {
        by.as_ref().zip(at).map(|(by, at)| format!("{what} at {at} by {}", by_whom(by)))
    };
    let resolved = told("resolved", &review.resolved_by, review.resolved_at);
    let revoked = review.revoked_at.map(|at| format!(", revoked at {at}")).unwrap_or_default();
    let dismissed = told("dismissed", &review.dismissed_by, review.dismissed_at);
    resolved.map(|resolved| resolved + &revoked).or(dismissed).unwrap_or_else(|| "open".into())
}

/// A review on one line.
pub(crate) fn line(review: &ReviewSummary) -> String {
    let (id, workflow) = (&review.review_id, &review.workflow_id);
    let values = shortened(&values(review), VALUES_MAX_CHARS);
    format!("{} {id} {workflow}: {}: {}: {values}", review.opened_at, about(review), axes(review))
}

fn about(review: &ReviewSummary) -> String {
    let is_past = review.point_in_time.is_some() || review.known_at.is_some();
    let at = if is_past {
        format!(", as of {}", words::as_of(review.point_in_time, review.known_at))
    } else {
        String::new()
    };
    format!("{}{at}", words::thing(&review.thing))
}

/// The answered and claimed values of the axes to decide, each value once.
fn values(review: &ReviewSummary) -> String {
    let of_axis = |path: &String| {
        let stated = review.said.values().filter_map(|values| values.get(path));
        let mut told: Vec<_> = stated.map(|stated| stated.value.to_string()).collect();
        told.sort_unstable();
        told.dedup();
        told.extend(review.claimed.get(path).map(|claim| format!("claimed {}", claim.value)));
        told.join(", ")
    };
    let told: Vec<_> = review.axes.keys().map(of_axis).filter(|told| !told.is_empty()).collect();
    if told.is_empty() { "-".into() } else { told.join("; ") }
}

fn axes(review: &ReviewSummary) -> String {
    let axis = |(path, reasons): (&String, &BTreeSet<oracled_domain::verification::Reason>)| {
        let reasons: Vec<_> = reasons.iter().map(|reason| reason.into_str()).collect();
        format!("{path} ({})", reasons.join(", "))
    };
    review.axes.iter().map(axis).collect::<Vec<_>>().join(", ")
}

/// Prints a review with all that a reviewer needs for a decision.
pub(crate) fn review(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    let review = &state.review;
    let head = [
        ("review", review.review_id.clone()),
        ("workflow", review.workflow_id.to_string()),
        ("entity", words::thing(&review.thing)),
        ("as of", words::as_of(review.point_in_time, review.known_at)),
        ("opened at", review.opened_at.to_string()),
        ("evidence", format!("SHA-256 {}", review.evidence_hash)),
    ];
    writeln!(out, "{}", pairs(&head))?;
    for (path, reasons) in &review.axes {
        writeln!(out, "{}", on_one_line(path))?;
        for why in words::reasons(reasons) {
            writeln!(out, "  {why}")?;
        }
        for (oracle_id, candidate) in &review.candidates {
            if let Some(jump) = candidate.deviations.get(path) {
                writeln!(out, "  {oracle_id}: {}", on_one_line(jump))?;
            }
        }
        if let Some(claim) = review.claimed.get(path) {
            let confirmed = if claim.confirmed { ", and has confirmed the claim" } else { "" };
            let told = format!("{} claims {}{confirmed}", claim.claimed_by, claim.value);
            writeln!(out, "  {}", on_one_line(&told))?;
        }
    }
    if !review.candidates.is_empty() {
        let rows = review.candidates.iter().map(said).collect();
        writeln!(out, "\n{}", table(["source", "values", "version", "as of", "verified", "trust"], rows))?;
        writeln!(out, "\norigin of the answers")?;
        for candidate in review.candidates.iter().map(provenance) {
            writeln!(out, "  {}", on_one_line(&candidate))?;
        }
    }
    let silent = review.sources.iter().filter(|(oracle_id, _)| !review.candidates.contains_key(*oracle_id));
    for (oracle_id, outcome) in silent {
        writeln!(out, "{oracle_id}: {}", outcome.into_str())?;
    }
    writeln!(out)?;
    if state.is_open() {
        writeln!(out, "next: {}", on_one_line(&how_to_resolve(review)))?;
    }
    state.resolved.as_ref().map_or(Ok(()), |resolved| decided(out, resolved))?;
    state.revoked.as_ref().map_or(Ok(()), |revoked| taken_back(out, revoked))?;
    state.dismissed.as_ref().map_or(Ok(()), |dismissed| closed(out, dismissed))
}

/// The row of a source's answer.
fn said((oracle_id, candidate): (&SourceId, &Candidate)) -> [String; 6] {
    let record = &candidate.record;
    [
        oracle_id.to_string(),
        words::said(&candidate.values),
        record.source_version.clone().unwrap_or_else(|| "-".into()),
        candidate.observed_at.to_string(),
        format!("{} by {}", record.verification_method, record.verifier_id),
        record.oracle_tier.into_str().to_owned(),
    ]
}

fn provenance((oracle_id, candidate): (&SourceId, &Candidate)) -> String {
    let record = &candidate.record;
    let hash = record.evidence_hash.as_ref().map(|hash| format!(", SHA-256 {hash}")).unwrap_or_default();
    let further = candidate.provenance.as_ref();
    let further = further.map(|chain| format!("; oraclectl provenance {}", chain.record_id));
    format!("{oracle_id}: {}{hash}{}", record.source_locator, further.unwrap_or_default())
}

fn how_to_resolve(review: &Review) -> String {
    let values: Vec<_> = review.axes.keys().map(|path| format!("{path}=VALUE")).collect();
    let asking = review.axes.keys().filter(|path| review.asks_for_definition(path));
    let definitions: String = asking.map(|path| format!(" --definition {path}=TEXT")).collect();
    format!(
        "oraclectl review resolve {} {}{definitions} --reason \"…\" --valid-for 90d",
        review.review_id,
        values.join(" ")
    )
}

/// Prints a review that was just resolved.
pub(crate) fn resolved(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is resolved", state.review.review_id)?;
    state.resolved.as_ref().map_or(Ok(()), |resolved| decided(out, resolved))
}

/// Prints a review whose resolution was just revoked.
pub(crate) fn revoked(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "the resolution of review {} is revoked", state.review.review_id)?;
    state.revoked.as_ref().map_or(Ok(()), |revoked| taken_back(out, revoked))
}

/// Prints a review that was just dismissed.
pub(crate) fn dismissed(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is dismissed", state.review.review_id)?;
    state.dismissed.as_ref().map_or(Ok(()), |dismissed| closed(out, dismissed))
}

fn closed(
    out: &mut dyn Write,
    Dismissed { reason, verifier_id, dismissed_at }: &Dismissed,
) -> Result<(), CtlError> {
    let shown =
        [("dismissed", format!("by {} at {dismissed_at}", by_whom(verifier_id))), ("reason", reason.clone())];
    Ok(out.write_all(pairs(&shown).as_bytes())?)
}

fn taken_back(
    out: &mut dyn Write,
    Revoked { reason, verifier_id, revoked_at }: &Revoked,
) -> Result<(), CtlError> {
    let shown =
        [("revoked", format!("by {} at {revoked_at}", by_whom(verifier_id))), ("reason", reason.clone())];
    Ok(out.write_all(pairs(&shown).as_bytes())?)
}

fn decided(
    out: &mut dyn Write,
    Resolved { resolution, verifier_id, resolved_at, .. }: &Resolved,
) -> Result<(), CtlError> {
    let validity = std::time::Duration::from_secs(resolution.valid_for_seconds);
    let until = resolved_at.saturating_add(validity).unwrap_or(Timestamp::MAX);
    let values = resolution.values.iter().map(|(path, value)| {
        let definition = resolution.definitions.get(path).map(|definition| match definition.trim() {
            "" => " (by the axis's own definition)".to_owned(),
            definition => format!(" (defined as {definition})"),
        });
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    let shown = [
        ("decided", values.collect::<Vec<_>>().join(", ")),
        ("by", format!("{} at {resolved_at}", by_whom(verifier_id))),
        ("reason", resolution.reason.clone()),
        ("valid until", until.to_string()),
    ];
    Ok(out.write_all(pairs(&shown).as_bytes())?)
}
