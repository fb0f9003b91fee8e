//! One review: the candidates side by side with their origin, and the decisions.

use super::form_fields::{Fields, after_action, done_note};
use super::layout::{Section, moment, page as render_page, pairs, reason_form, scrolled};
use super::page_error::PageResult;
use super::review_form::{read_resolution, render_form};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::verification::review::show::{
    changed_lines, format_comment, format_dismissal, format_resolution, format_revocation, format_subject,
};
use crate::verification::review::{post, read_evidence, read_review};
use crate::verification::verify::descriptions::describe_reasons;
use axum::extract::{Path, State};
use domain_base::moment::format_span;
use domain_ground::id::SourceId;
use domain_verification::CandidateAnswer;
use domain_verification::review::{
    CommentRequest, DismissalRequest, ReviewCase, ReviewState, RevocationRequest,
};
use maud::{Markup, html};
use oracled_api::verification::{ReviewEvidence, ReviewSummary};
use serde::Serialize;

fn page_path(review_id: &str) -> String {
    format!("/reviews/{}", encode_segment(review_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let state = read_review(&console.options, &review_id).await?;
    let evidence = read_evidence(&console.options, &review_id).await?;
    let body = html! {
        (done_note(&fields))
        (render_question(&state))
        section aria-labelledby="answers" {
            h2 #answers { "Answers" }
            (render_candidates(&state.review, &evidence))
            @if !evidence.changed.is_empty() {
                div.alert role="status" { ul { @for line in changed_lines(&evidence) { li { (line) } } } }
            }
        }
        section aria-labelledby="decision" { h2 #decision { "Decision" } (render_decision(&state, &evidence)) }
        section aria-labelledby="comments" {
            h2 #comments { "Comments" }
            (pairs(state.comments.iter().map(format_comment).map(|(name, text)| (name, html! { (text) }))))
            form.action method="post" action=(format!("{}/comments", page_path(&review_id))) {
                label { "Comment" textarea name="text" required maxlength="4096" rows="3" {} }
                button type="submit" { "Add the comment" }
            }
        }
    };
    Ok(render_page(&console, Section::Reviews, &format!("Review {review_id}"), &body))
}

fn render_question(state: &ReviewState) -> Markup {
    let review = &state.review;
    let summary = ReviewSummary::from(state.clone());
    let silent = review.sources.iter().filter(|(oracle_id, _)| !review.candidates.contains_key(*oracle_id));
    html! {
        (pairs([
            ("workflow", html! { (review.workflow_id) }),
            ("subject", html! { (format_subject(&summary)) }),
            ("opened", moment(review.opened_at)),
            ("evidence", html! { "SHA-256 " code { (review.evidence_hash) } }),
        ]))
        @for (path, reasons) in &review.axes {
            p { strong { (path) } ": " (describe_reasons(reasons).join("; ")) }
            ul {
                @for (oracle_id, candidate) in &review.candidates {
                    @if let Some(jump) = candidate.deviations.get(path) { li { (oracle_id) ": " (jump) } }
                }
                @if let Some(claim) = review.claimed.get(path) {
                    li {
                        (claim.claimed_by) " claims " (claim.value)
                        @if claim.confirmed { ", and has confirmed the claim" }
                    }
                }
            }
        }
        ul { @for (oracle_id, outcome) in silent { li { (oracle_id) ": " (outcome.into_str()) } } }
    }
}

/// The answers as a table with one column for each source.
fn render_candidates(review: &ReviewCase, evidence: &ReviewEvidence) -> Markup {
    let candidates: Vec<_> = review.candidates.iter().collect();
    let rows = review.axes.keys().map(|path| {
        let cells = candidates.iter().map(|(_, candidate)| render_value(candidate, path, evidence)).collect();
        (path.as_str(), cells)
    });
    let of_each = |name, cell: fn(&CandidateAnswer) -> Markup| {
        (name, candidates.iter().map(|(_, candidate)| cell(candidate)).collect::<Vec<_>>())
    };
    let further = [
        of_each(
            "version",
            |candidate| html! { (candidate.record.source_version.as_deref().unwrap_or("none")) },
        ),
        of_each("as of", |candidate| moment(candidate.observed_at)),
        of_each("freshness", render_freshness),
        of_each("trust", |candidate| html! { (candidate.record.oracle_tier.into_str()) }),
        of_each("verified", |candidate| {
            html! { (candidate.record.verification_method) " by " (candidate.record.verifier_id) }
        }),
        ("raw record", candidates.iter().map(|(oracle_id, _)| render_raw(oracle_id, evidence)).collect()),
        of_each("provenance", render_provenance),
    ];
    if candidates.is_empty() {
        return html! { p { "No source has an answer." } };
    }
    let parts = html! {
        thead { tr { td {} @for (oracle_id, _) in &candidates { th scope="col" { (oracle_id) } } } }
        tbody {
            @for (name, cells) in rows.chain(further) {
                tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } }
            }
        }
    };
    scrolled("Answers of the sources", &parts)
}

fn render_value(candidate: &CandidateAnswer, path: &str, evidence: &ReviewEvidence) -> Markup {
    html! {
        @if let Some(stated) = candidate.values.get(path) {
            strong { (stated.value) }
            @if let Some(unit) = evidence.units.get(path) { " " (unit) }
            @if let Some(definition) = &stated.definition { " (defined as " (definition) ")" }
        } @else { "no value" }
    }
}

fn render_freshness(candidate: &CandidateAnswer) -> Markup {
    html! {
        ul {
            @for axis in &candidate.freshness {
                li {
                    (axis.axis) ": " (axis.age_seconds.map_or_else(|| "no release".into(), |age_s| format!("{} old", format_span(age_s))))
                    @if axis.stale { ", " strong { "stale" } }
                }
            }
        }
    }
}

fn render_raw(oracle_id: &SourceId, evidence: &ReviewEvidence) -> Markup {
    html! {
        @match evidence.raw_texts.get(oracle_id) {
            Some(text) => pre tabindex="0" { (text) },
            None => "none: the source is live, or its payload was pruned",
        }
    }
}

fn render_provenance(candidate: &CandidateAnswer) -> Markup {
    let record = &candidate.record;
    html! {
        details {
            summary { (record.source_locator) }
            ul { @for step in record.chain_of_custody.iter().flatten() { li { (step) } } }
            @if let Some(chain) = &candidate.provenance {
                (pairs([
                    ("record", html! { (chain.record_id) ", which the source calls " (chain.source_record_id) }),
                    ("pipeline", html! { (chain.ingestion_pipeline_id) }),
                    ("run", html! { code { (chain.ingestion_run_id) } }),
                    ("transformations", html! { (chain.transformations_applied.join(", ")) }),
                    ("raw record", html! { (chain.raw.len) " bytes from byte " (chain.raw.offset) " of payload " code { (chain.raw.raw_sha256) } }),
                    ("raw hash", html! { code { (chain.raw_hash) } }),
                ]))
            }
        }
    }
}

fn render_decision(state: &ReviewState, evidence: &ReviewEvidence) -> Markup {
    let path = page_path(&state.review.review_id);
    let resolved = state.resolved.iter().flat_map(format_resolution);
    let revoked = state.revoked.iter().flat_map(format_revocation);
    let dismissed = state.dismissed.iter().flat_map(format_dismissal);
    let decided = resolved.chain(revoked).chain(dismissed).map(|(name, text)| (name, html! { (text) }));
    html! {
        @if state.is_open() {
            (render_form(&state.review, evidence, &format!("{path}/resolve")))
            h3 { "Or dismiss the review" }
            (reason_form(&format!("{path}/dismiss"), "Dismiss the review", &html! {}))
        } @else {
            (pairs(decided))
            @if state.resolved.is_some() && state.revoked.is_none() {
                (reason_form(&format!("{path}/revoke"), "Revoke the resolution", &html! {}))
            }
        }
    }
}

/// Sends a decision or a comment, and shows the review again.
async fn send(
    console: &Console,
    review_id: &str,
    (verb, done): (&str, &str),
    request: &impl Serialize,
) -> PageResult {
    post(&console.options, review_id, verb, request).await?;
    Ok(after_action(&page_path(review_id), done))
}

pub(super) async fn resolve(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let state = read_review(&console.options, &review_id).await?;
    let resolution = read_resolution(&state.review, &fields)?;
    send(&console, &review_id, ("resolve", "resolved"), &resolution).await
}

pub(super) async fn revoke(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = RevocationRequest { reason: fields.required("reason", "Reason")? };
    send(&console, &review_id, ("revoke", "revoked"), &request).await
}

pub(super) async fn dismiss(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = DismissalRequest { reason: fields.required("reason", "Reason")? };
    send(&console, &review_id, ("dismiss", "dismissed"), &request).await
}

pub(super) async fn comment(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = CommentRequest { text: fields.required("text", "Comment")? };
    send(&console, &review_id, ("comments", "commented"), &request).await
}
