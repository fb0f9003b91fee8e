//! The orders, the search, and one session with everything that happened to it in the order of time.

use super::catalog::read_sources;
use super::delivery::{divergence_note, read_session};
use super::done;
use super::forms::{Draft, Fields, after_action, reason_form};
use super::items::{Neighbors, held_path};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page, with_fault};
use super::log::event_list;
use super::opinions::{opinions_row, render_opinions};
use super::parts::{
    Tone, badge, card, cut, due, free_text, moment, next_link, order_badge, order_reason, pairs, short_id,
    short_moment, table, table_card, user, words,
};
use super::verdict::{changed_since, decided_page, decision_form, read_action, show_held, watch_order};
use super::{Console, ConsoleState, holds, session_timeline, several_orders};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::verdict::erasure::describe_erased;
use crate::verdict::orders::{change, name_model, order_path};
use crate::verification::review::read_review;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};
use domain_base::digest::Sha256Hex;
use domain_base::moment::Moment;
use domain_base::page::ListPage;
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::format_count;
use domain_ground::wire::SourceSummary;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::mail::MailState;
use domain_verdict::order::{OperatorAction, Order, OrderAction, OrderAttempt, OrderState, OrderWait};
use domain_verdict::policy::join_causes;
use domain_verdict::wire::{ErasureRequest, ErasureResponse, OrderReport, SessionPage};
use hyper::{Method, StatusCode};
use maud::{Markup, html};
use strum::VariantArray;

/// Opens what a search names: the entry with a number, a source, a review, or a session.
pub(super) async fn find(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let wanted = fields.required("q", "Find")?;
    match find_item(&console, &wanted).await? {
        Found::At(path) => Ok(Redirect::to(&path).into_response()),
        // the log has an entry of each read, so the page is shown with what was read
        Found::Session(page) => {
            show_session(&console, &wanted, &page, &Fields::default(), &Draft::default()).await
        }
        Found::Nothing(sources) => show_nothing(&console, &wanted, &sources).await,
    }
}

/// The result of a search.
enum Found {
    /// The item with a page at this path.
    At(String),
    Session(Box<SessionPage>),
    /// No session. These are the sources.
    Nothing(Vec<SourceSummary>),
}

async fn find_item(console: &Console, wanted: &str) -> Result<Found, PageError> {
    let encoded = encode_segment(wanted);
    if read_review(&console.options, wanted).await.is_ok() {
        return Ok(Found::At(format!("/reviews/{encoded}")));
    }
    if console.has_only_reviews {
        return Ok(Found::At(page_path(wanted)));
    }
    if wanted.parse::<u64>().is_ok() {
        return Ok(Found::At(format!("/log/{encoded}")));
    }
    let sources = read_sources(console).await;
    let is_wanted = |source: &SourceSummary| source.entry.oracle_id().as_str() == wanted;
    if sources.as_ref().is_ok_and(|sources| sources.iter().any(is_wanted)) {
        return Ok(Found::At(format!("/sources/{encoded}")));
    }
    match read_session(console, wanted).await {
        Ok(page) => Ok(Found::Session(Box::new(page))),
        Err(error) if is_of_nothing(error.status()) => Ok(Found::Nothing(sources?)),
        Err(error) => Err(error),
    }
}

/// Whether the status of a session means that there is none: unknown, or not the id of one. A busy daemon has not looked.
fn is_of_nothing(status: StatusCode) -> bool {
    [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST].contains(&status)
}

/// The page after a search for something that has no page: what can be found, and where facts are.
async fn show_nothing(console: &Console, wanted: &str, sources: &[SourceSummary]) -> PageResult {
    let body = html! {
        div.body {
            p { "No session, source or review has the id " b { (wanted) } ", and it is not the number of a log entry." }
            @if !sources.is_empty() {
                p { "For facts, choose a source and filter its records:" }
                ul.chips {
                    @for source in sources {
                        @let id = source.entry.oracle_id().as_str();
                        li { a.chip href=(format!("/sources/{}/query", encode_segment(id))) { (id) } }
                    }
                }
            }
        }
    };
    let head = PageHead::titled("Nothing found");
    let mut page = render_page(console, Section::Orders, head, &card("Find", &html! {}, &body)).await;
    *page.status_mut() = StatusCode::NOT_FOUND;
    Ok(page)
}

fn page_path(session_id: &str) -> String {
    format!("/sessions/{}", encode_segment(session_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    show(&console, &session_id, &fields, &Draft::default()).await
}

async fn show(console: &Console, session_id: &str, fields: &Fields, draft: &Draft) -> PageResult {
    if !console.has_only_reviews {
        let page = read_session(console, session_id).await?;
        return show_session(console, session_id, &page, fields, draft).await;
    }
    let report: OrderReport =
        match console.options.call_for_reviewer(Method::GET, &order_path(session_id), None).await {
            Ok(answer) => answer.json()?,
            Err(CtlError::Problem { status: 404, .. }) => {
                return decided_page(console, session_id, fields, draft).await;
            }
            Err(error) => return Err(error.with_application_hint(session_id).into()),
        };
    let neighbors = Neighbors::read(console, &page_path(session_id)).await;
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        div.split {
            div { (render_order(&report.order, report.waiting_for.as_ref())) }
            div { (render_actions(session_id, (&report.order, None), &neighbors, draft)) }
        }
    };
    let sub = html! { (order_badge(report.order.state)) span { (report.tier) } };
    let head = PageHead { sub: Some(sub), ..PageHead::below("/orders", "Orders", session_id) };
    Ok(render_page(console, Section::Orders, head, &body).await)
}

/// The page of a session that was read.
async fn show_session(
    console: &Console,
    session_id: &str,
    page: &SessionPage,
    fields: &Fields,
    draft: &Draft,
) -> PageResult {
    let neighbors = Neighbors::read(console, &page_path(session_id)).await;
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        (render_session(session_id, page, &neighbors, draft))
    };
    Ok(render_page(console, Section::Orders, session_head(session_id, page), &body).await)
}

fn session_head(session_id: &str, page: &SessionPage) -> PageHead {
    let query = cut(&page.session.query, 80);
    let costs: Vec<_> = page.costs.iter().map(ToString::to_string).collect();
    let sub = html! {
        @if let Some(order) = &page.order { (order_badge(order.state)) }
        span { (page.session.tier) }
        @if let Some(order) = &page.order { span { "placed " (order.placed_at.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
        @if !costs.is_empty() { span { "cost " (costs.join(" + ")) } }
    };
    let read = page.session.cached_sha256.is_some().then(|| {
        html! { a.btn.slim href=(format!("{}/verdict", page_path(session_id))) { "Read the verdict" } }
    });
    PageHead {
        title: if query.is_empty() { session_id.to_owned() } else { query },
        crumbs: Some(
            html! { a href="/orders" { "Orders" } " › " span title=(session_id) { (short_id(session_id)) } },
        ),
        sub: Some(sub),
        actions: read,
    }
}

fn render_session(session_id: &str, page: &SessionPage, neighbors: &Neighbors, draft: &Draft) -> Markup {
    let SessionPage { session, order, waiting_for, legal_hold, mails, history, has_older_entries, .. } = page;
    let digest = |sha256: &Option<Sha256Hex>| {
        html! {
            @if let Some(sha256) = sha256 { code { (sha256) } } @else { "none" }
        }
    };
    let rows = [
        ("session", html! { (session_id) }),
        ("query", html! { (session.query) }),
        ("mail to", html! { (session.customer_email.clone().map_or_else(|| "none".into(), String::from)) }),
        ("first verdict", html! { (session.original_verdict.as_str()) }),
        ("delivered", html! { "SHA-256 " (digest(&session.delivered_sha256)) }),
        ("cached", html! { "SHA-256 " (digest(&session.cached_sha256)) }),
        (
            "legal hold",
            html! { @match legal_hold { Some(hold) => { "since " (moment(hold.placed_at)) ": " (hold.reason) }, None => "none" } },
        ),
    ];
    let entries = format_count(history.len(), "entry", "entries");
    let older = html! {
        @if *has_older_entries {
            div.pager { a href=(format!("/log?session={}&after=0", encode_segment(session_id))) { "Older entries" } }
        }
    };
    let compare = html! { @if session.cached_sha256.is_some() { a href=(format!("{}/verdict", page_path(session_id))) { "Compare" } } };
    html! {
        (divergence_note(history, &compare))
        (session_timeline::render(order.as_ref(), history))
        div.split {
            div {
                (card("Events", &html! { span.muted.small { (entries) ", the oldest first, UTC" } }, &html! { (older) (event_list(history)) }))
                @if let Some(order) = order { (render_order(order, waiting_for.as_ref())) }
                @if !mails.is_empty() { (render_mails(mails)) }
            }
            div {
                @match order.as_ref().filter(|order| !order.state.has_ended() || order.allows(OrderAction::Retry)) {
                    Some(order) => (render_actions(session_id, (order, legal_hold.as_ref()), neighbors, draft)),
                    None => (draft.kept_reason()),
                }
                (card("Session", &html! {}, &html! { div.body { (pairs(rows)) } }))
                (render_erasure(session_id, legal_hold.as_ref()))
            }
        }
    }
}

fn render_erasure(session_id: &str, hold: Option<&LegalHold>) -> Markup {
    if let Some(hold) = hold {
        let body = html! {
            div.body {
                p.small { "The session is on " a href=(holds::PATH) { "legal hold" } " since " (moment(hold.placed_at)) ", so it cannot be erased: " (hold.reason) }
            }
        };
        return card("Erasure", &badge(Tone::Held, "on hold"), &body);
    }
    let form = reason_form(
        &format!("{}/erase", page_path(session_id)),
        "Erase the session",
        &html! {
            label.f { "Repeat the id of the session" input type="text" name="repeated" required autocomplete="off"; }
        },
    );
    let body = html! {
        div.body {
            p.small {
                "It removes the session with its order, verdict, facts and mails, and the values of its log entries, from all files. It \
                 cannot be undone. Export the data first: " code { "oraclectl export --session " (session_id) }
            }
            details { summary { "Erase…" } (form) }
        }
    };
    card("Erasure", &html! {}, &body)
}

fn render_mails(mails: &[MailState]) -> Markup {
    let row = |mail: &MailState| {
        vec![
            html! { span title=(mail.mail_id) { (short_id(mail.mail_id.as_str())) } },
            html! { (mail.tries.attempts) },
            html! { @if mail.tries.next_attempt_at.is_none() { a href="/inbox?kind=dead_letter" { "dead letter" } } @else { (due(mail.tries.next_attempt_at)) } },
            free_text(mail.tries.last_error.as_ref().map_or("none", UpstreamText::reveal)),
        ]
    };
    let rows: Vec<_> = mails.iter().map(row).collect();
    table_card("Mails that are not sent yet", &["mail", "#attempts", "next attempt", "last error"], &rows)
}

pub(super) async fn change_order(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    match try_change(&console, &session_id, &fields).await {
        Ok(done) => {
            // for reviewers, only held orders exist
            let page = if console.has_only_reviews { "/orders".to_owned() } else { page_path(&session_id) };
            Ok(after_action(&page, done, &fields))
        }
        Err(error) => {
            let is_conflict = error.status() == StatusCode::CONFLICT;
            let (seen, is_held_page) = (fields.text("changed_at").to_owned(), fields.text("page") == "held");
            let mut draft = Draft::failed(error, fields)?;
            if is_conflict {
                draft = draft.because(changed_since(&console, &session_id, &seen).await);
            }
            let none = Fields::default();
            draft.with_status(if is_held_page {
                show_held(&console, &session_id, &none, &draft).await
            } else {
                show(&console, &session_id, &none, &draft).await
            })
        }
    }
}

async fn try_change(console: &Console, session_id: &str, fields: &Fields) -> Result<&'static str, PageError> {
    let (action, done) = read_action(fields)?;
    let reason = fields.required("reason", "Reason")?;
    let Moment(changed_at) = fields
        .text("changed_at")
        .parse()
        .map_err(|_| PageError::input("`changed_at` is not a time; reload the page"))?;
    change(&console.options, session_id, action, &reason, Some(changed_at)).await?;
    Ok(done)
}

pub(super) async fn erase(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    if fields.text("repeated") != session_id {
        let repeated = fields.text("repeated");
        return Err(PageError::input(format!(
            "the repeated id is `{repeated}`; to erase the session, enter {session_id}"
        )));
    }
    let request = ErasureRequest {
        session_id: Some(session_id.clone()),
        customer_email: None,
        reason: fields.required("reason", "Reason")?,
    };
    let erased: ErasureResponse = console.options.run_on_control("/v1/erasures", &request).await?.json()?;
    let log = format!("/log?session={}", encode_segment(&session_id));
    let body = html! {
        div.body {
            ul { @for text in describe_erased(&erased) { li { (text) } } }
            p { a href=(log) { "Log entries of the session" } }
        }
    };
    let head = PageHead::below("/orders", "Orders", format!("Session {session_id}"));
    Ok(render_page(&console, Section::Orders, head, &card("Erased", &html! {}, &body)).await)
}

/// Number of orders on a page.
const LIMIT: usize = 50;

pub(super) async fn list_page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let filter = order_filter(fields.filled("state"), fields.filled("application"));
    let (listed, fault) = PageError::beside_form(read_orders(&console, &filter, &fields).await)?;
    let (items, next) = listed.map(|page| (page.items, page.next)).unwrap_or_default();
    let rows: Vec<_> = items.iter().map(row).collect();
    let heading = ["session", "state", "tier", "placed", "#attempts", "next attempt", "reason"];
    let path = format!("/orders?{}", filter.trim_start_matches('&'));
    let parts =
        html! { (table("Orders, the latest first", &heading, &rows)) (next_link(&path, next.as_deref())) };
    let body = html! {
        (done::note(&console, &fields).await)
        @if !console.has_only_reviews { (filter_chips(&fields, fault.is_some())) }
        @match &fault { Some(error) => (error.render()), None => (card("Orders, the latest first", &html! {}, &parts)) }
    };
    let title = if console.has_only_reviews { "Held orders" } else { "Orders and sessions" };
    let several = html! {
        a.btn.slim href=(several_orders::PATH) { "Decide several orders" }
        @if !console.has_only_reviews { a.btn.slim href=(holds::PATH) { "Legal holds" } }
    };
    let head = PageHead { actions: Some(several), ..PageHead::titled(title) };
    Ok(with_fault(render_page(&console, Section::Orders, head, &body).await, fault.as_ref()))
}

async fn read_orders(
    console: &Console,
    filter: &str,
    fields: &Fields,
) -> Result<Option<ListPage<OrderReport>>, PageError> {
    let after =
        fields.filled("after").map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let path = format!("/v1/orders?limit={LIMIT}{filter}{after}");
    Ok(Some(console.options.call_for_reviewer(Method::GET, &path, None).await?.json()?))
}

/// The filter of the daemon's route and of the page; it begins with `&`, if it is not empty.
fn order_filter(state: Option<&str>, application: Option<&str>) -> String {
    let params = [("state", state), ("application", application)].into_iter();
    params.filter_map(|(name, value)| Some(format!("&{name}={}", encode_segment(value?)))).collect()
}

fn filter_chips(fields: &Fields, has_fault: bool) -> Markup {
    let application = fields.filled("application");
    let chip = |state: Option<&str>| {
        let path = format!("/orders?{}", order_filter(state, application).trim_start_matches('&'));
        let is_on = fields.filled("state") == state;
        html! { a.chip href=(path) aria-current=[is_on.then_some("true")] { (state.unwrap_or("all")) } }
    };
    html! {
        nav.chips aria-label="State" {
            (chip(None))
            @for state in OrderState::VARIANTS { (chip(Some(state.into_str()))) }
            @if let Some(name) = application {
                a.chip.on href=(format!("/orders?{}", order_filter(fields.filled("state"), None).trim_start_matches('&'))) {
                    "application " (name) " " span.x aria-hidden="true" { "×" } span.sr { " remove the filter" }
                }
            }
        }
        details.more open[has_fault] {
            summary { "+ filter" }
            form.fields method="get" action="/orders" {
                label.f { "Application" input type="text" name="application" value=(fields.text("application")) autocomplete="off"; }
                @if let Some(state) = fields.filled("state") { input type="hidden" name="state" value=(state); }
                button.btn type="submit" { "Filter the orders" }
            }
        }
    }
}

fn row(report: &OrderReport) -> Vec<Markup> {
    let order = &report.order;
    let id = report.session_id.as_str();
    vec![
        html! { a data-row href=(page_path(id)) title=(id) { (short_id(id)) } },
        order_badge(order.state),
        html! { (report.tier) },
        short_moment(order.placed_at),
        html! { (order.attempts) },
        due(order.next_attempt_at),
        order_reason(report.reason()),
    ]
}

/// The state of an order with its attempts.
fn render_order(order: &Order, waiting_for: Option<&OrderWait>) -> Markup {
    let mut rows = vec![
        ("placed", moment(order.placed_at)),
        ("changed", moment(order.changed_at)),
        ("attempts", html! { (order.attempts) }),
        ("next attempt", due(order.next_attempt_at)),
    ];
    if let Some(OrderWait { detail, until, .. }) = waiting_for {
        let until = html! { @if let Some(until) = until { ", until " (moment(*until)) } };
        rows.push(("waits for", html! { (detail) (until) }));
    }
    if let Some(cause) = order.stop_cause {
        let causes = join_causes(&order.policy_causes);
        rows.push((
            "stopped by",
            html! { (words(cause.into_str())) @if !causes.is_empty() { ": " (causes) } },
        ));
    }
    if let Some(OperatorAction { action, at, uid, user_name, reason }) = &order.operator_action {
        let by = user(&uid.to_string(), user_name.as_deref());
        rows.push(("operator", html! { (action.into_str()) " by " (by) ", " (moment(*at)) ": " (reason) }));
    }
    let attempts: Vec<_> = order.last_attempts.iter().map(|attempt| attempt_row(order, attempt)).collect();
    rows.extend(opinions_row(order));
    let body = html! {
        div.body { (pairs(rows)) }
        @if !attempts.is_empty() {
            (table("Attempts", &["attempt", "started", "model", "outcome", "cost", "error"], &attempts))
        }
        (render_opinions(order))
    };
    card("Order", &order_badge(order.state), &body)
}

fn attempt_row(order: &Order, attempt: &OrderAttempt) -> Vec<Markup> {
    vec![
        html! { (attempt.attempt) @if attempt.is_last { " (last)" } },
        short_moment(attempt.started_at),
        html! { (name_model(attempt)) },
        html! { (words(order.outcome_of(attempt))) },
        html! { @if let Some(cost) = &attempt.cost { (cost) } @else { "unknown" } },
        free_text(attempt.cause.as_ref().map_or("none", UpstreamText::reveal)),
    ]
}

/// The form with the actions that the state of the order allows. A held verdict is decided on its own page.
fn render_actions(
    session_id: &str,
    (order, hold): (&Order, Option<&LegalHold>),
    neighbors: &Neighbors,
    draft: &Draft,
) -> Markup {
    html! {
        (watch_order(session_id, order))
        @if order.is_held_by_policy() {
            @let body = html! {
                div.body {
                    p.small { "The log names you as its reader." }
                    a.btn href=(held_path(session_id)) { "Read the held verdict" }
                }
            };
            (card("Held verdict", &badge(Tone::Held, "held by the policy"), &body))
        }
        (decision_form(session_id, (order, hold), neighbors, draft))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_verdict::order::OrderStopCause;
    use serde_json::json;

    #[test]
    fn search_that_a_busy_daemon_refuses_has_not_found_nothing() {
        for (status, expected) in [(404, true), (400, true), (408, false), (429, false), (503, false)] {
            assert_eq!(is_of_nothing(StatusCode::from_u16(status).expect("a status")), expected, "{status}");
        }
    }

    #[test]
    fn order_shows_its_stop_and_the_outcomes_of_attempts_in_words() {
        let at = "2026-11-20T10:00:00Z";
        let attempt = serde_json::from_value(json!({
            "attempt": 1, "started_at": at, "ended_at": at, "outcome": "refused_by_rules",
            "generation": {"model": "m", "candidateCount": 1},
        }));
        let at = at.parse().expect("a time");
        let mut order = Order::placed(at).stopped(OrderStopCause::GenerationsUsedUp, false, at);
        order.last_attempts.push(attempt.expect("a valid attempt"));
        let shown = render_order(&order, None).into_string();
        let codes = [OrderStopCause::GenerationsUsedUp.into_str(), "refused_by_rules"];
        assert!(codes.iter().all(|code| shown.contains(&words(code))), "{shown}");
    }
}
