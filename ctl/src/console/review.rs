//! One dispute: the candidates side by side with their origin, and the decisions. And the list of all reviews.

use super::access::LoginEnd;
use super::chart::{ChartFrame, step_chart};
use super::done;
use super::facts::subject_path;
use super::forms::{Draft, Fields, action_button, after_action, reason_field, same_page};
use super::history::{history_path, read_line};
use super::items::{Difference, Neighbors, value_text, value_with_unit};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page, with_fault};
use super::other_years;
use super::parts::{
    Tone, age, badge, capitalized, card, cut, day, decided, freshness_badge, group_digits, group_in_text,
    icon, live, moment, next_link, pairs, scrolled, second, table, times_in_text, unit_of, user, words,
};
use super::resolve::{key_of, outside_candidates, read_resolution, resolve_fields};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::console;
use crate::verification::review::{
    format_axes, format_dismissal, format_resolution, format_revocation, format_state, format_subject,
    format_values, post, read_evidence, read_review,
};
use crate::verification::verify::describe_reasons;
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::page::ListPage;
use domain_ground::id::SourceId;
use domain_ground::value::AxisValue;
use domain_verification::CandidateAnswer;
use domain_verification::review::{
    CommentRequest, DismissalRequest, REASON_MAX_BYTES, ReviewCase, ReviewState, RevocationRequest,
};
use domain_verification::wire::{ReviewEvidence, ReviewSummary, ReviewedSourceAnswer};
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value as Json;

fn page_path(review_id: &str) -> String {
    format!("/reviews/{}", encode_segment(review_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    show(&console, &review_id, &fields, &Draft::default()).await
}

async fn show(console: &Console, review_id: &str, fields: &Fields, draft: &Draft) -> PageResult {
    let state = read_review(&console.options, review_id).await?;
    let evidence = read_evidence(&console.options, review_id).await?;
    let neighbors = Neighbors::read(console, &page_path(review_id)).await;
    let history = render_history(console, &state.review, &evidence).await;
    let others = other_years::render(console, &state.review, state.is_open()).await;
    let changed = changed_note(&evidence);
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        (live(&format!("/events{}?seen={}", page_path(review_id), decisions(&state)), &html! {}))
        @if !evidence.changed.is_empty() { div role="status" { (super::parts::message(Tone::Waiting, &changed)) } }
        div.split {
            div { (render_candidates(&state, &evidence)) (history) (others) (render_comments(&state)) }
            div { (render_decision(&state, &evidence, &neighbors, draft)) (render_question(&state)) }
        }
    };
    let head = PageHead {
        title: evidence.title.clone(),
        crumbs: Some(neighbors.crumbs()),
        sub: Some(render_causes(&state)),
        actions: Some(neighbors.actions()),
    };
    Ok(render_page(console, Section::Inbox, head, &body).await)
}

/// The present answers of the sources that have changed since the review was opened.
fn changed_note(evidence: &ReviewEvidence) -> Markup {
    let value = |(path, value): (&String, &AxisValue)| {
        format!("{} {}", words(path), value_text(&value.to_string(), evidence.units.get(path)))
    };
    html! {
        ul {
            @for (oracle_id, answer) in &evidence.changed {
                @let values = answer.values.iter().map(value).collect::<Vec<_>>().join(", ");
                li {
                    "Changed since the review was opened: " (oracle_id)
                    @match &answer.version {
                        None => " has no answer now.",
                        Some(_) if values.is_empty() => " has no value now.",
                        Some(version) => { " has " (values) " now, of release " (version) "." },
                    }
                }
            }
        }
    }
}

/// The number of decisions about a review.
fn decisions(state: &ReviewState) -> usize {
    [state.resolved.is_some(), state.revoked.is_some(), state.dismissed.is_some()]
        .into_iter()
        .filter(|is_made| *is_made)
        .count()
}

/// Reports the decision that another person makes while the page of the review is open.
pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let (shared, seen) = (console.clone(), fields.parsed::<usize>("seen", "seen")?.unwrap_or_default());
    console::stream(&console, login, move || {
        let (console, review_id) = (shared.clone(), review_id.clone());
        async move {
            let state = read_review(&console.options, &review_id).await?;
            if decisions(&state) <= seen {
                return Ok::<_, PageError>(html! {});
            }
            let facts = decided_facts(&state);
            Ok(decided(&html! {
                strong { (capitalized_sentence(&times_in_text(&format_state(&ReviewSummary::from(state))))) ". " }
                @for (name, text) in facts { (name) ": " (text) ". " }
                a href=(page_path(&review_id)) { "Show the decision" }
            }))
        }
    })
}

/// The decisions about a review, with names.
fn decided_facts(state: &ReviewState) -> Vec<(&'static str, String)> {
    let resolved = state.resolved.iter().flat_map(format_resolution);
    let revoked = state.revoked.iter().flat_map(format_revocation);
    let dismissed = state.dismissed.iter().flat_map(format_dismissal);
    let facts = resolved.chain(revoked).chain(dismissed);
    let shown = |name: &str, text: String| match name {
        "decided" => group_in_text(&text),
        "reason" => text,
        _ => times_in_text(&text),
    };
    facts.map(|(name, text)| (name, shown(name, text))).collect()
}

/// Why a reviewer must decide, or the decision.
fn render_causes(state: &ReviewState) -> Markup {
    let review = &state.review;
    html! {
        @if !state.is_open() {
            (badge(Tone::Neutral, "closed"))
            span { (capitalized_sentence(&times_in_text(&format_state(&ReviewSummary::from(state.clone()))))) ". It was opened because:" }
        }
        @for (path, reasons) in &review.axes {
            span { @if review.axes.len() > 1 { (words(path)) ": " } (capitalized_sentence(&describe_reasons(reasons).join("; "))) "." }
            @for (oracle_id, candidate) in &review.candidates {
                @if let Some(jump) = candidate.deviations.get(path) { span { (oracle_id) ": " (group_in_text(&jump.to_string())) "." } }
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
fn render_candidates(state: &ReviewState, evidence: &ReviewEvidence) -> Markup {
    let review = &state.review;
    let paths: Vec<_> = review.axes.keys().collect();
    match paths.as_slice() {
        _ if review.candidates.is_empty() => {
            card("Answers", &html! {}, &html! { div.body { p { "No source has an answer." } } })
        }
        [path] => render_versus(review, evidence, path, state.is_open()),
        _ => card("Answers of the sources", &html! {}, &answer_table(review, evidence)),
    }
}

/// The tones of the lines and keys of candidates, in their order.
const TONES: [Tone; 4] = [Tone::Info, Tone::Diverged, Tone::Stale, Tone::Neutral];

fn tone_of(place: usize) -> Tone {
    TONES.get(place % TONES.len()).copied().unwrap_or(Tone::Neutral)
}

fn render_versus(review: &ReviewCase, evidence: &ReviewEvidence, path: &str, is_open: bool) -> Markup {
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
        html! { @if let Some((oracle_id, candidate)) = candidates.get(place) { (render_candidate(review, (oracle_id, candidate), evidence, (path, place), is_open)) } }
    };
    html! {
        section.card aria-label="Candidates" {
            @match difference {
                Some(difference) => div.versus {
                    (cand(0))
                    div.delta {
                        (icon("diverged"))
                        b { (difference.size) }
                        span { @if let Some(unit) = unit { (unit_of(&difference.size, unit)) " " } "apart" }
                        b { (difference.percent()) }
                        span.hide-s { "of the larger value" }
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
    is_open: bool,
) -> Markup {
    let stated = candidate.values.get(path);
    let record = &candidate.record;
    let key = key_of(review, path, oracle_id).filter(|_| is_open);
    html! {
        div.cand {
            p.who {
                svg.key.(tone_of(place).name()).dash[place % 2 == 1] viewBox="0 0 22 10" aria-hidden="true" { line x1="0" x2="22" y1="5" y2="5" {} }
                (oracle_id)
                @if let Some(key) = key { kbd aria-hidden="true" { (key) } }
            }
            @match stated {
                Some(stated) => {
                    p.val { (value_with_unit(&stated.value.to_string(), evidence.units.get(path))) }
                    @if let Some(definition) = &stated.definition { p.small { "defined as " (definition) } }
                },
                None => p.val { "no value" },
            }
            @if let Some(answer) = evidence.changed.get(oracle_id) { p.chips { (badge(Tone::Stale, changed_word(answer))) } }
            @else { p.chips { @for axis in candidate.freshness.iter().filter(|axis| review.axes.contains_key(&axis.axis) || path.starts_with(&axis.axis)) { (freshness_badge(axis.stale, axis.age_seconds, axis.max_age_seconds)) } } }
            (render_raw(oracle_id, evidence, stated.map(|stated| stated.value.to_string())))
            (pairs([
                ("release", html! { (record.source_version.as_deref().unwrap_or("none")) " (" (day(candidate.observed_at)) ")" }),
                ("source", html! { a href=(format!("/sources/{}", encode_segment(oracle_id.as_str()))) { (oracle_id) } }),
                ("trust", html! { (record.oracle_tier.into_str()) }),
                ("history", html! { a href=(history_path(oracle_id, path, &review.subject)) { "of this value" } }),
            ]))
            (render_provenance(candidate))
        }
    }
}

/// The change since the review was opened, beside the value of then.
fn changed_word(answer: &ReviewedSourceAnswer) -> &'static str {
    if answer.version.is_some() { "replaced by a later release" } else { "has no answer now" }
}

/// Number of characters of a raw record that are shown before the value, and after it.
const RAW_CONTEXT: usize = 90;

/// The raw record around the value, which is marked where its digits stand as they are.
fn render_raw(oracle_id: &SourceId, evidence: &ReviewEvidence, value: Option<String>) -> Markup {
    let Some(text) = evidence.raw_texts.get(oracle_id) else {
        return html! { p.xs.muted { "No raw record: the source is live, or its payload was pruned." } };
    };
    let parts = value.filter(|value| !value.is_empty()).and_then(|value| {
        let (before, after) = text.rsplit_once(value.as_str())?;
        Some((before, value, after))
    });
    let start = |text: &str| text.char_indices().rev().take(RAW_CONTEXT).last().map_or(0, |(at, _)| at);
    html! {
        pre.raw tabindex="0" {
            @match &parts {
                Some((before, value, after)) => {
                    @let at = start(before);
                    @if at > 0 { "…" } (before.get(at..).unwrap_or_default()) mark { (value) } (cut(after, RAW_CONTEXT))
                },
                None => (cut(text, 2 * RAW_CONTEXT)),
            }
        }
        @if text.chars().count() > 2 * RAW_CONTEXT { details { summary { "Whole raw record" } pre.raw.wrap tabindex="0" { (text) } } }
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
            |candidate| html! { @for axis in &candidate.freshness { (axis.axis) " " (freshness_badge(axis.stale, axis.age_seconds, axis.max_age_seconds)) " " } },
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
                    ("record", html! { a href=(subject_path(&candidate.record.oracle_id, &candidate.subject)) { (chain.record_id) } ", which the source calls " (chain.source_record_id) }),
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
            @let unit = evidence.units.get(*path).map(|unit| unit_of("", unit)).unwrap_or_default();
            @let title = format!("{}, as each source has it", capitalized(path));
            @let id = format!("history-{path}");
            @let frame = ChartFrame { id: &id, title: &title, unit: &unit, span: (first, now), time_name: "valid from", bands: &[], buckets: None };
            section.card aria-label=(title) { div.body { (step_chart(&frame, lines)) } }
        }
    }
}

fn render_comments(state: &ReviewState) -> Markup {
    let count = html! { span.count.neutral { (state.comments.len()) } };
    let comments = html! {
        @for comment in &state.comments {
            p.small {
                b { (user(&comment.author_id, comment.author_name.as_deref())) } ", " (second(comment.commented_at)) ": " (comment.text)
            }
        }
        @if state.comments.is_empty() { p.small.muted { "none" } }
    };
    html! { div #comments { (card("Comments", &count, &html! { div.body { (comments) } })) } }
}

fn render_decision(
    state: &ReviewState,
    evidence: &ReviewEvidence,
    neighbors: &Neighbors,
    draft: &Draft,
) -> Markup {
    let path = page_path(&state.review.review_id);
    let summary = ReviewSummary::from(state.clone());
    let beside = if state.is_open() {
        badge(Tone::Diverged, html! { "open, " (age(state.review.opened_at)) })
    } else {
        badge(Tone::Neutral, "closed")
    };
    let decided = decided_facts(state).into_iter().map(|(name, text)| (name, html! { (text) }));
    let may_revoke = state.resolved.is_some() && state.revoked.is_none();
    html! {
        form.card.decide #decide method="post" action=(format!("{path}/comments")) aria-label="Decide" {
            header { h2 { "Decide" } span.right { (beside) } }
            div.body {
                @if !state.is_open() { p { (capitalized_sentence(&times_in_text(&format_state(&summary)))) } (pairs(decided)) }
                (reason_field("Why?", REASON_MAX_BYTES, draft, &format!("{path} {}", decisions(state))))
                (draft.confirmation())
                @if state.is_open() {
                    (resolve_fields(&state.review, evidence, &format!("{path}/resolve"), draft))
                }
                div.acts {
                    @if state.is_open() {
                        hr;
                        (action_button("plain", &html! { "Dismiss, keep the conflict" }, "x", ("action", "dismiss"), &format!("{path}/dismiss")))
                        p.note { "The next verification decides again." }
                    }
                    @if may_revoke {
                        (action_button("danger", &html! { "Revoke the resolution" }, "z", ("action", "revoke"), &format!("{path}/revoke")))
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

/// Sends a decision or a comment. If it fails, the page is shown again with what was entered.
async fn send(
    console: &Console,
    review_id: &str,
    (verb, done): (&str, &str),
    request: Result<impl Serialize, PageError>,
    fields: Fields,
) -> PageResult {
    let sent = match request {
        Ok(request) => post(&console.options, review_id, verb, &request).await.map_err(PageError::from),
        Err(error) => Err(error),
    };
    match sent {
        // after a comment, the item still waits, so its page stays
        Ok(_) if verb == "comments" => Ok(same_page(&page_path(review_id), done)),
        Ok(_) => Ok(after_action(&page_path(review_id), done, &fields)),
        Err(error) => {
            let draft = Draft::failed(error, fields)?;
            draft.with_status(show(console, review_id, &Fields::default(), &draft).await)
        }
    }
}

pub(super) async fn resolve(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let state = read_review(&console.options, &review_id).await?;
    let resolution = read_resolution(&state.review, &fields);
    if let Ok(resolution) = &resolution
        && resolution.own_value
        && let Some(token) = resolution.values.values().map(Json::to_string).reduce(|all, value| all + &value)
        && fields.text("confirmed") != token
    {
        let evidence = read_evidence(&console.options, &review_id).await?;
        if let Some(question) = outside_candidates(&state.review, &evidence, resolution) {
            let draft = Draft::to_confirm(&question, &token, fields);
            return draft.with_status(show(&console, &review_id, &Fields::default(), &draft).await);
        }
    }
    send(&console, &review_id, ("resolve", "resolved"), resolution, fields).await
}

pub(super) async fn revoke(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = fields.required("reason", "Reason").map(|reason| RevocationRequest { reason });
    send(&console, &review_id, ("revoke", "revoked"), request, fields).await
}

pub(super) async fn dismiss(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = fields.required("reason", "Reason").map(|reason| DismissalRequest { reason });
    send(&console, &review_id, ("dismiss", "dismissed"), request, fields).await
}

pub(super) async fn comment(
    State(console): State<ConsoleState>,
    Path(review_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let request = fields.required("reason", "Reason").map(|text| CommentRequest { text });
    send(&console, &review_id, ("comments", "commented"), request, fields).await
}

/// Number of reviews on a page.
const LIMIT: usize = 50;

pub(super) async fn list_page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let query = filter_query(&fields);
    let (parts, fault) = PageError::beside_form(render_queue(&console, &query).await)?;
    let body = html! {
        (filter_form(&fields, fault.is_some()))
        @match &fault { Some(error) => (error.render()), None => (live(&format!("/events/reviews?{query}"), &parts)) }
    };
    let head = PageHead::below("/inbox", "Inbox", "Reviews");
    Ok(with_fault(render_page(&console, Section::Inbox, head, &body).await, fault.as_ref()))
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

fn filter_form(fields: &Fields, has_fault: bool) -> Markup {
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
        details.more open[has_fault] {
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
        html! { span title=(format_axes(review)) { (words(&format_axes(review))) } },
        html! { (format_values(review)) },
        html! { (times_in_text(&format_state(review))) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_without_an_answer_has_no_later_release() {
        let word = |version: Option<&str>| {
            let answer = ReviewedSourceAnswer { version: version.map(str::to_owned), values: [].into() };
            changed_word(&answer)
        };
        insta::assert_snapshot!("words_for_changes", [word(Some("2026-05-01")), word(None)].join("\n"));
    }
}
