//! Reviews as text for people.

use super::super::verify::descriptions;
use super::QueueEntry;
use crate::base::error::CtlError;
use crate::base::output::{format_pairs, format_table, format_user, shorten_line};
use domain_base::visible::visible_line;
use domain_ground::id::SourceId;
use domain_verification::review::{
    DismissalRecord, ResolutionRecord, ReviewComment, ReviewState, RevocationRecord,
};
use domain_verification::{AxisReason, CandidateAnswer, ReviewCase};
use jiff::Timestamp;
use oracled_api::verdict::orders::OrderReport;
use oracled_api::verification::{ReviewEvidence, ReviewSummary, ReviewedSourceAnswer};
use std::collections::BTreeSet;
use std::io::Write;

/// Maximum length of a review's values in a list, in characters.
const VALUES_MAX_CHARS: usize = 60;
/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 500;

/// The queue as a table.
pub(super) fn format_queue(queue: &[QueueEntry]) -> String {
    if queue.is_empty() {
        return "no reviews".into();
    }
    let row = |entry: &QueueEntry| match entry {
        QueueEntry::Verification(review) => [
            "verification".into(),
            review.review_id.clone(),
            review.workflow_id.to_string(),
            format_subject(review),
            format_axes(review),
            shorten_line(&format_values(review), VALUES_MAX_CHARS),
            review.opened_at.to_string(),
            format_state(review),
        ],
        QueueEntry::Order(report) => order_row(report),
    };
    format_table(
        ["kind", "id", "workflow", "subject", "to decide", "values or reason", "opened at", "state"],
        queue.iter().map(row).collect(),
    )
}

/// The row of a held order, with the commands that decide it.
fn order_row(report: &OrderReport) -> [String; 8] {
    let OrderReport { session_id, tier, order, .. } = report;
    let commands =
        if order.is_held_by_policy() { "release, retry, fail, cancel" } else { "retry, fail, cancel" };
    [
        "order".into(),
        session_id.to_string(),
        "-".into(),
        format!("{tier} verdict"),
        format!("oraclectl order: {commands}"),
        shorten_line(&order.reason().unwrap_or_else(|| "-".into()), VALUES_MAX_CHARS),
        order.changed_at.to_string(),
        "held".into(),
    ]
}

/// The state of a review, in words.
pub(crate) fn format_state(review: &ReviewSummary) -> String {
    let event = |what: &str, by: &Option<String>, name: &Option<String>, at: Option<Timestamp>| {
        let by = by.as_ref().map(|by| format_user(by, name.as_deref()));
        by.zip(at).map(|(by, at)| format!("{what} at {at} by {by}"))
    };
    let resolved = event("resolved", &review.resolved_by, &review.resolved_by_name, review.resolved_at);
    let revoked = review.revoked_at.map(|at| format!(", revoked at {at}")).unwrap_or_default();
    let dismissed = event("dismissed", &review.dismissed_by, &review.dismissed_by_name, review.dismissed_at);
    resolved.map(|resolved| resolved + &revoked).or(dismissed).unwrap_or_else(|| "open".into())
}

/// A review on one line.
pub(crate) fn format_line(review: &ReviewSummary) -> String {
    let (id, workflow) = (&review.review_id, &review.workflow_id);
    let values = shorten_line(&format_values(review), VALUES_MAX_CHARS);
    format!(
        "{} {id} {workflow}: {}: {}: {values}",
        review.opened_at,
        format_subject(review),
        format_axes(review)
    )
}

pub(crate) fn format_subject(review: &ReviewSummary) -> String {
    let is_past = review.point_in_time.is_some() || review.known_at.is_some();
    let at = if is_past {
        format!(", as of {}", descriptions::format_times(review.point_in_time, review.known_at))
    } else {
        String::new()
    };
    format!("{}{at}", descriptions::format_identity(&review.thing))
}

/// The answered and claimed values of the axes to decide, each value once.
pub(crate) fn format_values(review: &ReviewSummary) -> String {
    let of_axis = |path: &String| {
        let stated = review.values.values().filter_map(|values| values.get(path));
        let mut values: Vec<_> = stated.map(|stated| stated.value.to_string()).collect();
        values.sort_unstable();
        values.dedup();
        values.extend(review.claimed.get(path).map(|claim| format!("claimed {}", claim.value)));
        values.join(", ")
    };
    let axes: Vec<_> = review.axes.keys().map(of_axis).filter(|values| !values.is_empty()).collect();
    if axes.is_empty() { "-".into() } else { axes.join("; ") }
}

pub(crate) fn format_axes(review: &ReviewSummary) -> String {
    let axis = |(path, reasons): (&String, &BTreeSet<AxisReason>)| {
        let reasons: Vec<_> = reasons.iter().map(|reason| reason.into_str()).collect();
        format!("{path} ({})", reasons.join(", "))
    };
    review.axes.iter().map(axis).collect::<Vec<_>>().join(", ")
}

/// Prints a review with all that a reviewer needs for a decision.
pub(crate) fn show_review(
    out: &mut dyn Write,
    state: &ReviewState,
    evidence: &ReviewEvidence,
) -> Result<(), CtlError> {
    let review = &state.review;
    let head = [
        ("review", review.review_id.clone()),
        ("workflow", review.workflow_id.to_string()),
        ("subject", descriptions::format_identity(&review.thing)),
        ("as of", descriptions::format_times(review.point_in_time, review.known_at)),
        ("opened at", review.opened_at.to_string()),
        ("evidence", format!("SHA-256 {}", review.evidence_hash)),
    ];
    writeln!(out, "{}", format_pairs(&head))?;
    for (path, reasons) in &review.axes {
        writeln!(out, "{}", visible_line(path))?;
        for why in descriptions::describe_reasons(reasons) {
            writeln!(out, "  {why}")?;
        }
        for (oracle_id, candidate) in &review.candidates {
            if let Some(jump) = candidate.deviations.get(path) {
                writeln!(out, "  {oracle_id}: {}", visible_line(jump))?;
            }
        }
        if let Some(claim) = review.claimed.get(path) {
            let confirmed = if claim.confirmed { ", and has confirmed the claim" } else { "" };
            let line = format!("{} claims {}{confirmed}", claim.claimed_by, claim.value);
            writeln!(out, "  {}", visible_line(&line))?;
        }
    }
    if !review.candidates.is_empty() {
        let rows = review.candidates.iter().map(answer_row).collect();
        writeln!(
            out,
            "\n{}",
            format_table(["source", "values", "version", "as of", "verified", "trust"], rows)
        )?;
        writeln!(out, "\norigin of the answers")?;
        for candidate in review.candidates.iter().map(format_provenance) {
            writeln!(out, "  {}", visible_line(&candidate))?;
        }
        for (oracle_id, text) in &evidence.raw_texts {
            writeln!(out, "  raw record of {oracle_id}: {}", shorten_line(text, RAW_MAX_CHARS))?;
        }
        for line in changed_lines(evidence) {
            writeln!(out, "{}", visible_line(&line))?;
        }
    }
    let silent = review.sources.iter().filter(|(oracle_id, _)| !review.candidates.contains_key(*oracle_id));
    for (oracle_id, outcome) in silent {
        writeln!(out, "{oracle_id}: {}", outcome.into_str())?;
    }
    writeln!(out)?;
    if state.is_open() {
        writeln!(out, "next: {}", visible_line(&resolve_command(review)))?;
    }
    let resolved = state.resolved.iter().flat_map(format_resolution);
    let revoked = state.revoked.iter().flat_map(format_revocation);
    let dismissed = state.dismissed.iter().flat_map(format_dismissal);
    let comments = state.comments.iter().map(format_comment);
    let decisions: Vec<_> = resolved.chain(revoked).chain(dismissed).chain(comments).collect();
    Ok(out.write_all(format_pairs(&decisions).as_bytes())?)
}

/// The sources whose answers have changed since the review was opened.
pub(crate) fn changed_lines(evidence: &ReviewEvidence) -> Vec<String> {
    let line = |(oracle_id, answer): (&SourceId, &ReviewedSourceAnswer)| {
        let Some(version) = &answer.version else {
            return format!("changed since: {oracle_id} has no record of the subject now");
        };
        let values = answer.values.iter().map(|(path, value)| format!("{path} {value}"));
        let values = values.collect::<Vec<_>>().join(", ");
        let values = if values.is_empty() { "no value".to_owned() } else { values };
        format!("changed since: {oracle_id} has {values} now (version {version})")
    };
    evidence.changed.iter().map(line).collect()
}

/// The row of a source's answer.
fn answer_row((oracle_id, candidate): (&SourceId, &CandidateAnswer)) -> [String; 6] {
    let record = &candidate.record;
    [
        oracle_id.to_string(),
        descriptions::format_values(&candidate.values),
        record.source_version.clone().unwrap_or_else(|| "-".into()),
        candidate.observed_at.to_string(),
        format!("{} by {}", record.verification_method, record.verifier_id),
        record.oracle_tier.into_str().to_owned(),
    ]
}

fn format_provenance((oracle_id, candidate): (&SourceId, &CandidateAnswer)) -> String {
    let record = &candidate.record;
    let hash = record.evidence_hash.as_ref().map(|hash| format!(", SHA-256 {hash}")).unwrap_or_default();
    let further = candidate.provenance.as_ref();
    let further = further.map(|chain| format!("; oraclectl provenance {}", chain.record_id));
    format!("{oracle_id}: {}{hash}{}", record.source_locator, further.unwrap_or_default())
}

fn resolve_command(review: &ReviewCase) -> String {
    let values: Vec<_> = review.axes.keys().map(|path| format!("{path}=VALUE")).collect();
    let paths = review.axes.keys().filter(|path| review.is_definition_required(path));
    let definitions: String = paths.map(|path| format!(" --definition {path}=TEXT")).collect();
    format!(
        "oraclectl review resolve {} {}{definitions} --reason \"…\" --valid-for 90d",
        review.review_id,
        values.join(" ")
    )
}

/// Prints a review that was just resolved.
pub(crate) fn show_resolved(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is resolved", state.review.review_id)?;
    let resolved: Vec<_> = state.resolved.iter().flat_map(format_resolution).collect();
    Ok(out.write_all(format_pairs(&resolved).as_bytes())?)
}

/// Prints a review whose resolution was just revoked.
pub(crate) fn show_revoked(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "the resolution of review {} is revoked", state.review.review_id)?;
    let revoked: Vec<_> = state.revoked.iter().flat_map(format_revocation).collect();
    Ok(out.write_all(format_pairs(&revoked).as_bytes())?)
}

/// Prints a review that was just dismissed.
pub(crate) fn show_dismissed(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "review {} is dismissed", state.review.review_id)?;
    let dismissed: Vec<_> = state.dismissed.iter().flat_map(format_dismissal).collect();
    Ok(out.write_all(format_pairs(&dismissed).as_bytes())?)
}

/// Prints the comment that was just stored.
pub(crate) fn show_commented(out: &mut dyn Write, state: &ReviewState) -> Result<(), CtlError> {
    writeln!(out, "the comment on review {} is stored", state.review.review_id)?;
    let last: Vec<_> = state.comments.last().map(format_comment).into_iter().collect();
    Ok(out.write_all(format_pairs(&last).as_bytes())?)
}

pub(crate) fn format_comment(
    ReviewComment { text, author_id, author_name, commented_at }: &ReviewComment,
) -> (&'static str, String) {
    let by = format_user(author_id, author_name.as_deref());
    ("comment", format!("by {by} at {commented_at}: {text}"))
}

pub(crate) fn format_dismissal(
    DismissalRecord { reason, verifier_id, verifier_name, dismissed_at }: &DismissalRecord,
) -> [(&'static str, String); 2] {
    [
        ("dismissed", format!("by {} at {dismissed_at}", format_user(verifier_id, verifier_name.as_deref()))),
        ("reason", reason.clone()),
    ]
}

pub(crate) fn format_revocation(
    RevocationRecord { reason, verifier_id, verifier_name, revoked_at }: &RevocationRecord,
) -> [(&'static str, String); 2] {
    let by = format_user(verifier_id, verifier_name.as_deref());
    [("revoked", format!("by {by} at {revoked_at}")), ("reason", reason.clone())]
}

pub(crate) fn format_resolution(
    ResolutionRecord { resolution, verifier_id, verifier_name, resolved_at, .. }: &ResolutionRecord,
) -> [(&'static str, String); 4] {
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
    [
        ("decided", values.collect::<Vec<_>>().join(", ")),
        ("by", format!("{} at {resolved_at}", format_user(verifier_id, verifier_name.as_deref()))),
        ("reason", resolution.reason.clone()),
        ("valid until", until.to_string()),
    ]
}
