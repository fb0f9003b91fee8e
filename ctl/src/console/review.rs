//! One dispute: the candidates side by side with their origin, and the decisions. And the list of all reviews.

use super::access::LoginEnd;
use super::chart::{ChartFrame, step_chart};
use super::forms::{Fields, action_button, after_action, done_note, reason_field};
use super::history::read_line;
use super::items::{Difference, Neighbors, value_with_unit};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, capitalized, card, day, group_digits, icon, live, moment, next_link, pairs, scrolled,
    table, unit_word, words,
};
use super::{Console, ConsoleState};
use crate::audit::log::parse_duration;
use crate::base::options::encode_segment;
use crate::console;
use crate::verification::review::{
    changed_lines, format_axes, format_comment, format_dismissal, format_resolution, format_revocation,
    format_state, format_subject, format_values, post, read_evidence, read_review,
};
use crate::verification::verify::describe_reasons;
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::moment::format_span;
use domain_base::page::ListPage;
use domain_base::text_form::visible_json;
use domain_ground::id::SourceId;
use domain_verification::CandidateAnswer;
use domain_verification::review::{
    CommentRequest, DismissalRequest, REASON_MAX_BYTES, ReviewCase, ReviewResolution, ReviewState,
    RevocationRequest,
};
use domain_verification::wire::{ReviewEvidence, ReviewSummary};
use hyper::Method;
use jiff::Timestamp;
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
    let neighbors = Neighbors::read(&console, &page_path(&review_id)).await;
    let history = render_history(&console, &state.review, &evidence).await;
    let changed = html! { ul { @for line in changed_lines(&evidence) { li { (line) } } } };
    let body = html! {
        (done_note(&fields))
        @if !evidence.changed.is_empty() { div role="status" { (super::parts::message(Tone::Waiting, &changed)) } }
        div.split {
            div { (render_candidates(&state.review, &evidence)) (history) (render_comments(&state)) }
            div { (render_decision(&state, &evidence, &neighbors)) (render_question(&state)) }
        }
    };
    let head = PageHead {
        title: evidence.title.clone(),
        crumbs: Some(neighbors.crumbs()),
        sub: Some(render_causes(&state.review)),
        actions: Some(neighbors.actions()),
    };
    Ok(render_page(&console, Section::Inbox, head, &body).await)
}

/// Why a reviewer must decide.
fn render_causes(review: &ReviewCase) -> Markup {
    html! {
        @for (path, reasons) in &review.axes {
            span { @if review.axes.len() > 1 { (words(path)) ": " } (capitalized_sentence(&describe_reasons(reasons).join("; "))) "." }
            @for (oracle_id, candidate) in &review.candidates {
                @if let Some(jump) = candidate.deviations.get(path) { span { (oracle_id) ": " (jump) "." } }
            }
            @if let Some(claim) = review.claimed.get(path) {
                span { (claim.claimed_by) " claims " (group_digits(&claim.value.to_string())) @if claim.confirmed { ", and has confirmed the claim" } "." }
            }
        }
    }
}

fn capitalized_sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn render_question(state: &ReviewState) -> Markup {
    let review = &state.review;
    let summary = ReviewSummary::from(state.clone());
    let silent = review.sources.iter().filter(|(oracle_id, _)| !review.candidates.contains_key(*oracle_id));
    let silent: Vec<_> = silent.collect();
    let mut rows = vec![
        ("workflow", html! { (review.workflow_id) }),
        ("subject", html! { (format_subject(&summary)) }),
        ("review", html! { code { (review.review_id) } }),
        ("opened", moment(review.opened_at)),
        ("evidence", html! { "SHA-256 " code { (review.evidence_hash) } }),
    ];
    if !silent.is_empty() {
        let outcomes = html! { ul { @for (oracle_id, outcome) in silent { li { (oracle_id) ": " (words(outcome.into_str())) } } } };
        rows.push(("no answer", outcomes));
    }
    card("Question", &html! {}, &html! { div.body { (pairs(rows)) } })
}

/// The answers: side by side for one axis, and as a table for several.
fn render_candidates(review: &ReviewCase, evidence: &ReviewEvidence) -> Markup {
    let paths: Vec<_> = review.axes.keys().collect();
    match paths.as_slice() {
        _ if review.candidates.is_empty() => {
            card("Answers", &html! {}, &html! { div.body { p { "No source has an answer." } } })
        }
        [path] => render_versus(review, evidence, path),
        _ => card("Answers of the sources", &html! {}, &answer_table(review, evidence)),
    }
}

/// The tones of the lines and keys of candidates, in their order.
const TONES: [Tone; 4] = [Tone::Info, Tone::Diverged, Tone::Stale, Tone::Neutral];

fn tone_of(place: usize) -> Tone {
    TONES.get(place % TONES.len()).copied().unwrap_or(Tone::Neutral)
}

fn render_versus(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Markup {
    let candidates: Vec<_> = review.candidates.iter().collect();
    let value = |candidate: &CandidateAnswer| Some(candidate.values.get(path)?.value.to_string());
    let difference = match candidates.as_slice() {
        [(_, first), (_, second)] => {
            value(first).zip(value(second)).and_then(|(first, second)| Difference::of(&first, &second))
        }
        _ => None,
    };
    let unit = evidence.units.get(path);
    let cand = |place: usize| {
        html! { @if let Some((oracle_id, candidate)) = candidates.get(place) { (render_candidate(review, (oracle_id, candidate), evidence, (path, place))) } }
    };
    html! {
        section.card aria-label="Candidates" {
            @match difference {
                Some(difference) => div.versus {
                    (cand(0))
                    div.delta {
                        (icon("diverged"))
                        b { (difference.size) }
                        span { @if let Some(unit) = unit { (unit_word(unit)) " " } "apart" }
                        b { (difference.percent()) }
                        span.hide-s { "of the lower value" }
                    }
                    (cand(1))
                },
                None => div.versus.many { @for place in 0..candidates.len() { (cand(place)) } },
            }
        }
    }
}

fn render_candidate(
    review: &ReviewCase,
    (oracle_id, candidate): (&SourceId, &CandidateAnswer),
    evidence: &ReviewEvidence,
    (path, place): (&str, usize),
) -> Markup {
    let stated = candidate.values.get(path);
    let record = &candidate.record;
    html! {
        div.cand {
            p.who {
                svg.key.(tone_of(place).name()).dash[place % 2 == 1] viewBox="0 0 22 10" aria-hidden="true" { line x1="0" x2="22" y1="5" y2="5" {} }
                (oracle_id)
            }
            @match stated {
                Some(stated) => {
                    p.val { (value_with_unit(&stated.value.to_string(), evidence.units.get(path))) }
                    @if let Some(definition) = &stated.definition { p.small { "defined as " (definition) } }
                },
                None => p.val { "no value" },
            }
            p.chips { @for axis in candidate.freshness.iter().filter(|axis| review.axes.contains_key(&axis.axis) || path.starts_with(&axis.axis)) { (freshness_badge(axis.stale, axis.age_seconds)) } }
            (render_raw(oracle_id, evidence, stated.map(|stated| stated.value.to_string())))
            (pairs([
                ("release", html! { (record.source_version.as_deref().unwrap_or("none")) " (" (day(candidate.observed_at)) ")" }),
                ("source", html! { a href=(format!("/sources/{}", encode_segment(oracle_id.as_str()))) { (oracle_id) } }),
                ("trust", html! { (record.oracle_tier.into_str()) }),
            ]))
            (render_provenance(candidate))
        }
    }
}

fn freshness_badge(is_stale: bool, age_seconds: Option<u64>) -> Markup {
    let age =
        age_seconds.map_or_else(|| "no release".to_owned(), |age_s| format!("{} old", format_span(age_s)));
    if is_stale {
        badge(Tone::Stale, format!("stale, {age}"))
    } else {
        badge(Tone::Ok, format!("fresh, {age}"))
    }
}

/// The raw record, with the value marked where its digits stand as they are.
fn render_raw(oracle_id: &SourceId, evidence: &ReviewEvidence, value: Option<String>) -> Markup {
    let Some(text) = evidence.raw_texts.get(oracle_id) else {
        return html! { p.xs.muted { "No raw record: the source is live, or its payload was pruned." } };
    };
    let parts = value.filter(|value| !value.is_empty()).and_then(|value| {
        let (before, after) = text.rsplit_once(value.as_str())?;
        Some((before, value, after))
    });
    html! {
        pre.raw tabindex="0" {
            @match parts { Some((before, value, after)) => { (before) mark { (value) } (after) }, None => (text) }
        }
    }
}

/// The answers as a table with one column for each source.
fn answer_table(review: &ReviewCase, evidence: &ReviewEvidence) -> Markup {
    let candidates: Vec<_> = review.candidates.iter().collect();
    let rows = review.axes.keys().map(|path| {
        let cells = candidates.iter().map(|(_, candidate)| render_value(candidate, path, evidence)).collect();
        (words(path), cells)
    });
    let of_each = |name: &str, cell: fn(&CandidateAnswer) -> Markup| {
        (name.to_owned(), candidates.iter().map(|(_, candidate)| cell(candidate)).collect::<Vec<_>>())
    };
    let raw = candidates.iter().map(|(oracle_id, _)| render_raw(oracle_id, evidence, None)).collect();
    let further = [
        of_each(
            "release",
            |candidate| html! { (candidate.record.source_version.as_deref().unwrap_or("none")) " (" (day(candidate.observed_at)) ")" },
        ),
        of_each(
            "freshness",
            |candidate| html! { @for axis in &candidate.freshness { (axis.axis) " " (freshness_badge(axis.stale, axis.age_seconds)) " " } },
        ),
        of_each("trust", |candidate| html! { (candidate.record.oracle_tier.into_str()) }),
        ("raw record".to_owned(), raw),
        of_each("origin", render_provenance),
    ];
    let parts = html! {
        thead { tr { td {} @for (oracle_id, _) in &candidates { th scope="col" { a href=(format!("/sources/{}", encode_segment(oracle_id.as_str()))) { (oracle_id) } } } } }
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
            strong { (value_with_unit(&stated.value.to_string(), evidence.units.get(path))) }
            @if let Some(definition) = &stated.definition { " (defined as " (definition) ")" }
        } @else { "no value" }
    }
}

fn render_provenance(candidate: &CandidateAnswer) -> Markup {
    let record = &candidate.record;
    html! {
        details {
            summary { "Record and origin" }
            p.xs.breakall { (record.source_locator) }
            ul.xs { @for step in record.chain_of_custody.iter().flatten() { li { (step) } } }
            p.xs { "Verified by " (record.verification_method) " by " (record.verifier_id) }
            @if let Some(chain) = &candidate.provenance {
                (pairs([
                    ("record", html! { (chain.record_id) ", which the source calls " (chain.source_record_id) }),
                    ("pipeline", html! { (chain.ingestion_pipeline_id) }),
                    ("run", html! { a href=(format!("/runs/{}", chain.ingestion_run_id)) { (chain.ingestion_run_id) } }),
                    ("changed by", html! { (chain.transformations_applied.join(", ")) }),
                    ("raw record", html! { (chain.raw.len) " bytes from byte " (chain.raw.offset) " of payload " code { (chain.raw.raw_sha256) } }),
                    ("raw hash", html! { code { (chain.raw_hash) } }),
                ]))
            }
        }
    }
}

/// The history of the value as each source has it, if its values are numbers. Reviewers have no access to histories.
async fn render_history(console: &Console, review: &ReviewCase, evidence: &ReviewEvidence) -> Markup {
    if console.has_only_reviews {
        return html! {};
    }
    let mut charts = Vec::new();
    for path in review.axes.keys() {
        let mut lines = Vec::new();
        for (place, oracle_id) in review.candidates.keys().enumerate() {
            // a live source has no history
            if let Ok(mut line) = read_line(console, oracle_id, path, &review.subject).await {
                (line.tone, line.is_dashed) = (tone_of(place), place % 2 == 1);
                lines.push(line);
            }
        }
        if lines.iter().any(|line| line.points.iter().any(|(_, value)| value.is_some())) {
            charts.push((path, lines));
        }
    }
    let now = Timestamp::now().as_second();
    html! {
        @for (path, lines) in &charts {
            @let first = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).min().unwrap_or(now);
            @let unit = evidence.units.get(*path).map(|unit| unit_word(unit)).unwrap_or_default();
            @let title = format!("{}, as each source has it", capitalized(path));
            @let id = format!("history-{path}");
            @let frame = ChartFrame { id: &id, title: &title, unit: &unit, span: (first, now), time_name: "valid from", bands: &[], is_stack: false };
            section.card aria-label=(title) { div.body { (step_chart(&frame, lines)) } }
        }
    }
}

fn render_comments(state: &ReviewState) -> Markup {
    let count = html! { span.count.neutral { (state.comments.len()) } };
    let comments = html! {
        @for (name, text) in state.comments.iter().map(format_comment) { p.small { b { (name) } ": " (text) } }
        @if state.comments.is_empty() { p.small.muted { "none" } }
    };
    card("Comments", &count, &html! { div.body { (comments) } })
}

fn render_decision(state: &ReviewState, evidence: &ReviewEvidence, neighbors: &Neighbors) -> Markup {
    let path = page_path(&state.review.review_id);
    let summary = ReviewSummary::from(state.clone());
    let beside = if state.is_open() {
        badge(Tone::Diverged, html! { "open, " (age(state.review.opened_at)) })
    } else {
        badge(Tone::Neutral, "closed")
    };
    let resolved = state.resolved.iter().flat_map(format_resolution);
    let revoked = state.revoked.iter().flat_map(format_revocation);
    let dismissed = state.dismissed.iter().flat_map(format_dismissal);
    let decided = resolved.chain(revoked).chain(dismissed).map(|(name, text)| (name, html! { (text) }));
    let may_revoke = state.resolved.is_some() && state.revoked.is_none();
    html! {
        form.card.decide #decide method="post" action=(format!("{path}/comments")) aria-label="Decide" {
            header { h2 { "Decide" } span.right { (beside) } }
            div.body {
                @if !state.is_open() { p { (capitalized_sentence(&format_state(&summary))) } (pairs(decided)) }
                (reason_field("Why?", REASON_MAX_BYTES))
                @if state.is_open() {
                    (resolve_fields(&state.review, evidence, &format!("{path}/resolve")))
                }
                div.acts {
                    @if state.is_open() {
                        hr;
                        (action_button("plain", &html! { "Dismiss, keep the conflict" }, "x", ("action", "dismiss"), &format!("{path}/dismiss")))
                        p.note { "The next verification decides again." }
                    }
                    @if may_revoke {
                        (action_button("danger", &html! { "Revoke the resolution" }, "v", ("action", "revoke"), &format!("{path}/revoke")))
                        p.note { "The next verification decides again." }
                    }
                    (action_button("plain", &html! { "Comment only" }, "c", ("action", "comment"), &format!("{path}/comments")))
                }
                (neighbors.next_field())
            }
            (neighbors.footer())
        }
    }
}

/// Sends a decision or a comment, and shows the review again.
async fn send(
    console: &Console,
    review_id: &str,
    (verb, done): (&str, &str),
    request: &impl Serialize,
    fields: &Fields,
) -> PageResult {
    post(&console.options, review_id, verb, request).await?;
    Ok(after_action(&page_path(review_id), done, fields))
}

pub(super) async fn resolve(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let state = read_review(&console.options, &review_id).await?;
    let resolution = read_resolution(&state.review, &fields)?;
    send(&console, &review_id, ("resolve", "resolved"), &resolution, &fields).await
}

pub(super) async fn revoke(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = RevocationRequest { reason: fields.required("reason", "Reason")? };
    send(&console, &review_id, ("revoke", "revoked"), &request, &fields).await
}

pub(super) async fn dismiss(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = DismissalRequest { reason: fields.required("reason", "Reason")? };
    send(&console, &review_id, ("dismiss", "dismissed"), &request, &fields).await
}

pub(super) async fn comment(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = CommentRequest { text: fields.required("reason", "Reason")? };
    // the item still waits, so its page stays
    send(&console, &review_id, ("comments", "commented"), &request, &Fields::default()).await
}

/// The field with the choice for an axis begins with this.
const CHOICE: &str = "choice:";

/// The choice of a reviewer for an axis. The value of a radio button is its JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "take", rename_all = "snake_case")]
enum AxisChoice {
    /// The value of a candidate or a claim.
    Offered { value: String, definition: Option<String> },
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

/// The fields and buttons that resolve a review: a button for each value of one axis, or a choice for each of several axes.
fn resolve_fields(review: &ReviewCase, evidence: &ReviewEvidence, action: &str) -> Markup {
    let paths: Vec<_> = review.axes.keys().collect();
    let valid_for = html! {
        label.f { "Valid for" input type="text" name="valid_for" value="90d" required autocomplete="off"; span.hint { "such as 90d, 12h, 30m" } }
    };
    html! {
        (valid_for)
        div.acts {
            @if let [path] = paths.as_slice() {
                @let offered = offered(review, path);
                @let own_key = (offered.len() + 1).to_string();
                @for (number, (choice, sources)) in offered.into_iter().enumerate() {
                    @let text = html! { "Use " (choice_text(&choice, evidence.units.get(*path))) " " span.muted { (sources.join(", ")) } };
                    (action_button("plain", &text, &(number + 1).to_string(), (&format!("{CHOICE}{path}"), &choice_json(&choice)), action))
                }
                (own_value(review, evidence, path, (&own_key, action)))
            } @else {
                @for path in &paths { (render_axis(review, evidence, path)) }
                (action_button("plain", &html! { "Use the chosen values" }, "1", ("action", "resolve"), action))
            }
        }
    }
}

/// The JSON of a choice. Its values come back exactly, since JSON has escapes for hidden characters.
fn choice_json(choice: &AxisChoice) -> String {
    visible_json(&serde_json::to_string(choice).unwrap_or_default()).into_owned()
}

fn choice_text(choice: &AxisChoice, unit: Option<&String>) -> Markup {
    html! {
        @if let AxisChoice::Offered { value, definition } = choice {
            b { (value_with_unit(value, unit)) }
            @if let Some(definition) = definition { " (definition: " (own_definition(definition)) ")" }
        }
    }
}

fn own_definition(definition: &str) -> &str {
    if definition.is_empty() { "the axis's own" } else { definition }
}

fn own_value(
    review: &ReviewCase,
    evidence: &ReviewEvidence,
    path: &str,
    (key, action): (&str, &str),
) -> Markup {
    let id = format!("own-{path}");
    html! {
        details.own {
            summary { "Use another value " kbd { (key) } }
            (own_fields(review, evidence, path))
            button.btn type="submit" formaction=(action) name=(format!("{CHOICE}{path}")) value=(choice_json(&AxisChoice::Own)) data-key=(key) data-focus=(id) { "Use this value" }
        }
    }
}

fn own_fields(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Markup {
    let unit = evidence.units.get(path).map(|unit| format!(", {}", unit_word(unit))).unwrap_or_default();
    html! {
        label.f { "Value of " (words(path)) (unit) input #(format!("own-{path}")) type="text" name=(format!("own:{path}")) autocomplete="off"; }
        @if review.is_definition_required(path) {
            label.f {
                "Its definition"
                select name=(format!("definition:{path}")) {
                    @for definition in review.definitions_of(path) {
                        option value=(definition) { (own_definition(definition)) }
                    }
                }
            }
        }
    }
}

fn render_axis(review: &ReviewCase, evidence: &ReviewEvidence, path: &str) -> Markup {
    let name = format!("{CHOICE}{path}");
    html! {
        fieldset.pick {
            legend.f { "Value of " (words(path)) }
            @for (choice, sources) in offered(review, path) {
                label {
                    input type="radio" name=(name) value=(choice_json(&choice));
                    span { (choice_text(&choice, evidence.units.get(path))) " " span.muted { (sources.join(", ")) } }
                }
            }
            label {
                input type="radio" name=(name) value=(choice_json(&AxisChoice::Own));
                span { "Another value" }
            }
            (own_fields(review, evidence, path))
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
    Ok(render_page(&console, Section::Inbox, PageHead::below("/inbox", "Inbox", "Reviews"), &body).await)
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
    let has_all = fields.filled("all").is_some();
    let workflow = fields.filled("workflow");
    let path = |all: bool, workflow: Option<&str>| {
        let all = all.then(|| "all=true".to_owned());
        let workflow = workflow.map(|id| format!("workflow={}", encode_segment(id)));
        format!("/reviews?{}", all.into_iter().chain(workflow).collect::<Vec<_>>().join("&"))
    };
    html! {
        div.chips {
            a.chip href=(path(false, workflow)) aria-current=[(!has_all).then_some("true")] { "Open" }
            a.chip href=(path(true, workflow)) aria-current=[has_all.then_some("true")] { "All" }
            @if let Some(id) = workflow { a.chip.on href=(path(has_all, None)) { "workflow " (id) span.x aria-hidden="true" { "×" } span.sr { "remove the filter" } } }
        }
        details.more {
            summary { "Filter by workflow" }
            form.fields method="get" action="/reviews" {
                label.f { "Workflow" input type="text" name="workflow" value=(fields.text("workflow")) autocomplete="off"; }
                @if has_all { input type="hidden" name="all" value="true"; }
                button.btn type="submit" { "Filter the reviews" }
            }
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
    let parts = html! {
        (table("Reviews, the newest first", &heading, &rows))
        (next_link(&format!("/reviews?{}", query.trim_start_matches("open=true")), next.as_deref()))
    };
    Ok(card("Reviews, the newest first", &html! {}, &parts))
}

fn row(review: &ReviewSummary) -> Vec<Markup> {
    let id = &review.review_id;
    vec![
        html! { a data-row href=(page_path(id)) { (id) } },
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
