//! One review: the candidates side by side with their origin, and the decisions.

use super::access::LoginEnd;
use super::layout::{
    PageError, PageResult, Section, live, moment, next_link, page as render_page, pairs, reason_form,
    scrolled, table,
};
use super::{Console, ConsoleState};
use crate::audit::log::parse_duration;
use crate::base::options::encode_segment;
use crate::console;
use crate::console::layout::{Fields, after_action, done_note};
use crate::verification::review::{
    changed_lines, format_axes, format_comment, format_dismissal, format_resolution, format_revocation,
    format_state, format_subject, format_values, post, read_evidence, read_review,
};
use crate::verification::verify::describe_reasons;
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::decimal::{Decimal, Rounding};
use domain_base::moment::format_span;
use domain_base::page::ListPage;
use domain_base::text_form::visible_json;
use domain_ground::id::SourceId;
use domain_verification::CandidateAnswer;
use domain_verification::review::{
    CommentRequest, DismissalRequest, ReviewCase, ReviewResolution, ReviewState, RevocationRequest,
};
use domain_verification::wire::{ReviewEvidence, ReviewSummary};
use hyper::Method;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

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

/// The field with the choice for an axis begins with this.
const CHOICE: &str = "choice:";

/// The choice of a reviewer for an axis. The value of a radio button is its JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "take", rename_all = "snake_case")]
enum AxisChoice {
    /// The value of a candidate or a claim.
    Offered { value: String, definition: Option<String> },
    /// The mean of the candidates.
    Mean,
    /// The value in the field beside it.
    Own,
}

/// The candidates' values on an axis and the claimed one, each with the sources that have it.
fn offered(review: &ReviewCase, path: &str) -> BTreeMap<AxisChoice, Vec<String>> {
    let claim = review.claimed.get(path);
    // without a definition, the daemon takes that of the candidates, but a claim has the axis's own
    let is_claim_other = claim.is_some() && review.definitions_of(path).iter().any(|name| !name.is_empty());
    let is_named = review.is_definition_required(path) || is_claim_other;
    let choice = |value: String, definition: Option<&String>| AxisChoice::Offered {
        value,
        definition: is_named.then(|| definition.cloned().unwrap_or_default()),
    };
    let mut offered: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (oracle_id, candidate) in &review.candidates {
        let Some(stated) = candidate.values.get(path) else { continue };
        let choice = choice(stated.value.to_string(), stated.definition.as_ref());
        offered.entry(choice).or_default().push(oracle_id.to_string());
    }
    if let Some(claim) = claim {
        let sources = offered.entry(choice(claim.value.to_string(), None)).or_default();
        sources.push(format!("claimed by {}", claim.claimed_by));
    }
    offered
}

/// The mean of the candidates' values on an axis, rounded to their longest fraction. `None` unless there are several numbers of one
/// definition.
fn mean(review: &ReviewCase, path: &str) -> Option<Decimal> {
    let values = review.candidates.values().filter_map(|candidate| candidate.values.get(path));
    let values: Vec<Decimal> =
        values.map(|stated| stated.value.to_string().parse().ok()).collect::<Option<_>>()?;
    let is_mixed = review.is_definition_required(path) || values.len() < 2;
    let places = values.iter().map(Decimal::places).max().filter(|_| !is_mixed)?;
    let sum = values.iter().try_fold(Decimal::from(0), |sum, value| sum.checked_add(value)).ok()?;
    let count = Decimal::from(i64::try_from(values.len()).ok()?);
    sum.div_rounded(&count, places.max(0), Rounding::HalfEven).ok()
}

pub(super) fn render_form(review: &ReviewCase, evidence: &ReviewEvidence, action: &str) -> Markup {
    html! {
        form.action method="post" action=(action) {
            @for path in review.axes.keys() { (render_axis(review, evidence, path)) }
            label { "Valid for" input name="valid_for" value="90d" required size="6" autocomplete="off"; }
            label { "Reason" textarea name="reason" required maxlength="4096" rows="3" {} }
            button type="submit" { "Resolve the review" }
        }
    }
}

fn render_axis(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Markup {
    let name = format!("{CHOICE}{path}");
    // the values come back exactly, since JSON has escapes for hidden characters
    let json =
        |choice: &AxisChoice| visible_json(&serde_json::to_string(choice).unwrap_or_default()).into_owned();
    let unit = evidence.units.get(path).map(|unit| format!(" {unit}")).unwrap_or_default();
    let definitions = review.definitions_of(path);
    let own_definition =
        |definition: &str| if definition.is_empty() { "the axis's own" } else { definition }.to_owned();
    html! {
        fieldset {
            legend { "Value of " (path) }
            @for (choice, sources) in offered(review, path) {
                @if let AxisChoice::Offered { value, definition } = &choice {
                    label.check {
                        input type="radio" name=(name) value=(json(&choice)) required;
                        span {
                            strong { (value) (unit) }
                            @if let Some(definition) = definition { " (definition: " (own_definition(definition)) ")" }
                            " – " (sources.join(", "))
                        }
                    }
                }
            }
            @if let Some(mean) = mean(review, path) {
                label.check {
                    input type="radio" name=(name) value=(json(&AxisChoice::Mean)) required;
                    span { strong { (mean) (unit) } " – the mean of the sources" }
                }
            }
            div.own {
                label.check {
                    input type="radio" name=(name) value=(json(&AxisChoice::Own)) required;
                    span { "Own value" }
                }
                label { "Own value of " (path) input name=(format!("own:{path}")) autocomplete="off"; }
                @if review.is_definition_required(path) {
                    label {
                        "Its definition"
                        select name=(format!("definition:{path}")) {
                            @for definition in definitions {
                                option value=(definition) { (own_definition(definition)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The resolution in the fields of the form.
///
/// # Errors
/// A field is missing or invalid.
fn read_resolution(review: &ReviewCase, fields: &Fields) -> Result<ReviewResolution, PageError> {
    let mut resolution = ReviewResolution {
        values: BTreeMap::new(),
        definitions: BTreeMap::new(),
        own_value: false,
        reason: fields.required("reason", "Reason")?,
        valid_for_seconds: 0,
    };
    let valid_for = parse_duration(&fields.required("valid_for", "Valid for")?).map_err(PageError::input)?;
    // the daemon rejects a validity out of range, with the allowed range
    resolution.valid_for_seconds = u64::try_from(valid_for.as_secs()).unwrap_or(0);
    let given: BTreeSet<_> = fields.with_prefix(CHOICE).map(|(path, _)| path).collect();
    for (path, choice) in fields.with_prefix(CHOICE) {
        let choice = serde_json::from_str(choice);
        let (value, definition) =
            match choice.map_err(|_| PageError::input(format!("choose a value of {path}")))? {
                AxisChoice::Offered { value, definition } => (value, definition),
                AxisChoice::Mean => {
                    resolution.own_value = true;
                    let mean = mean(review, path);
                    let mean =
                        mean.ok_or_else(|| PageError::input(format!("the values of {path} have no mean")))?;
                    (mean.to_string(), None)
                }
                AxisChoice::Own => {
                    resolution.own_value = true;
                    let definition = fields.text(&format!("definition:{path}")).to_owned();
                    let value = fields.required(&format!("own:{path}"), &format!("Own value of {path}"))?;
                    (value, review.is_definition_required(path).then_some(definition))
                }
            };
        resolution.values.insert(path.to_owned(), Json::String(value));
        resolution.definitions.extend(definition.map(|definition| (path.to_owned(), definition)));
    }
    match review.axes.keys().find(|path| !given.contains(path.as_str())) {
        Some(path) => Err(PageError::input(format!("choose a value of {path}"))),
        None => Ok(resolution),
    }
}

/// Number of reviews on a page.
const LIMIT: usize = 50;

pub(super) async fn list_page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let query = filter_query(&fields);
    let parts = render_queue(&console, &query).await?;
    let body = html! {
        (filter_form(&fields))
        (live(&format!("/events/reviews?{query}"), &parts))
    };
    Ok(render_page(&console, Section::Reviews, "Reviews", &body))
}

pub(super) async fn list_events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, query) = (console.clone(), filter_query(&fields));
    console::stream(&console, login, move || {
        let (console, query) = (shared.clone(), query.clone());
        async move { render_queue(&console, &query).await }
    })
}

/// The query of the page as that of the daemon's route.
fn filter_query(fields: &Fields) -> String {
    let mut query = format!("open={}", fields.text("all").is_empty());
    for name in ["workflow", "after"] {
        if let Some(value) = fields.filled(name) {
            query.push_str(&format!("&{name}={}", encode_segment(value)));
        }
    }
    if fields.filled("all").is_some() {
        query.push_str("&all=true");
    }
    query
}

fn filter_form(fields: &Fields) -> Markup {
    html! {
        form.filter method="get" action="/reviews" {
            label { "Workflow" input name="workflow" value=(fields.text("workflow")) autocomplete="off"; }
            label.check { input type="checkbox" name="all" value="true" checked[fields.filled("all").is_some()]; "Closed ones too" }
            button type="submit" { "Filter the reviews" }
        }
    }
}

async fn render_queue(console: &Console, query: &str) -> Result<Markup, PageError> {
    let wanted = query.replace("&all=true", "");
    let path = format!("/v1/reviews?limit={LIMIT}&{wanted}");
    let answer = console.options.call_for_reviewer(Method::GET, &path, None).await?;
    let ListPage::<ReviewSummary> { items, next } = answer.json()?;
    let rows: Vec<_> = items.iter().map(row).collect();
    let heading = ["review", "opened", "workflow", "subject", "to decide", "values", "state"];
    Ok(html! {
        (table("Reviews, the newest first", &heading, &rows))
        (next_link(&format!("/reviews?{}", query.trim_start_matches("open=true")), next.as_deref()))
    })
}

fn row(review: &ReviewSummary) -> Vec<Markup> {
    let id = &review.review_id;
    vec![
        html! { a href=(format!("/reviews/{}", encode_segment(id))) { (id) } },
        moment(review.opened_at),
        html! { (review.workflow_id) },
        html! { (format_subject(review)) },
        html! { (format_axes(review)) },
        html! { (format_values(review)) },
        html! { (format_state(review)) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A review with the values and definitions of candidates on the axis `height`, and the claimed value.
    fn review(stated: &[(&str, Option<&str>)], claimed: &str) -> ReviewCase {
        let at = "2026-11-20T10:00:00Z";
        let candidates: serde_json::Map<_, _> = stated
            .iter()
            .enumerate()
            .map(|(number, (value, definition))| {
                let mut height = json!({"value": value});
                if let Some(definition) = definition {
                    height["definition"] = json!(definition);
                }
                let oracle_id = format!("office-{number}");
                let record = json!({
                    "oracle_id": oracle_id, "oracle_tier": "primary", "source_locator": "urn:a", "retrieved_at": at,
                    "verified_at": at, "verification_method": "checksum", "verifier_id": "oracled",
                });
                let candidate = json!({
                    "where": {"tower": "a"}, "values": {"height": height}, "record": record, "observed_at": at, "freshness": [],
                });
                (oracle_id, candidate)
            })
            .collect();
        let sha256 = "0".repeat(64);
        serde_json::from_value(json!({
            "review_id": "v-1", "workflow_id": "towers", "ontology": {"ontology_id": "towers", "version": "1"},
            "where": {"tower": "a"}, "axes": {"height": ["require_human"]}, "sources": {}, "candidates": candidates,
            "claimed": {"height": {"value": claimed, "claimed_by": "ann", "confirmed": false}},
            "evidence_hash": sha256, "envelope_sha256": sha256, "opened_at": at,
        }))
        .expect("a valid review")
    }

    #[test]
    fn claim_is_offered_under_the_own_definition_of_the_axis() {
        let roof = Some("to the roof");
        for (stated, claimed, expected) in [
            // one definition, which is the axis's own
            (vec![("7", None), ("8", None)], "7", vec![("7", None, 2), ("8", None, 1)]),
            (vec![("7", None)], "9", vec![("7", None, 1), ("9", None, 1)]),
            // one definition, which is another
            (vec![("7", roof)], "7", vec![("7", Some(""), 1), ("7", roof, 1)]),
            // several definitions
            (vec![("7", None), ("8", roof)], "7", vec![("7", Some(""), 2), ("8", roof, 1)]),
            (
                vec![("7", None), ("8", roof)],
                "8",
                vec![("7", Some(""), 1), ("8", Some(""), 1), ("8", roof, 1)],
            ),
        ] {
            let offered = offered(&review(&stated, claimed), "height");
            let expected = expected.into_iter().map(|(value, definition, count)| {
                let definition = definition.map(str::to_owned);
                (AxisChoice::Offered { value: value.to_owned(), definition }, count)
            });
            let counts: Vec<_> =
                offered.into_iter().map(|(choice, sources)| (choice, sources.len())).collect();
            assert_eq!(counts, expected.collect::<Vec<_>>(), "{stated:?}, {claimed}");
        }
    }
}
