//! The orders, the search for a session, and one session with everything that happened to it in the order of time.

use super::ConsoleState;
use super::layout::{
    PageError, PageResult, Section, moment, moment_or_none, page as render_page, pairs, reason_form, table,
};
use super::log::{ENTRY_HEADING, entry_rows};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::format_user;
use crate::console::layout::{Fields, after_action, done_note, next_link, session_link};
use crate::verdict::erasure::describe_erased;
use crate::verdict::orders::{change, order_path};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};
use domain_base::digest::Sha256Hex;
use domain_base::moment::Moment;
use domain_base::page::ListPage;
use domain_verdict::mail::MailState;
use domain_verdict::order::{OperatorAction, Order, OrderAction, OrderAttempt, OrderState, OrderWait};
use domain_verdict::policy::join_causes;
use domain_verdict::wire::{ErasureRequest, ErasureResponse, HeldVerdictReport, OrderReport, SessionPage};
use hyper::Method;
use maud::{Markup, html};
use strum::VariantArray;

/// Opens the session of a search.
pub(super) async fn find(fields: Fields) -> PageResult {
    let session_id = fields.required("id", "Session")?;
    Ok(Redirect::to(&page_path(&session_id)).into_response())
}

fn page_path(session_id: &str) -> String {
    format!("/sessions/{}", encode_segment(session_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let with_hint = |error: CtlError| PageError(error.with_application_hint(&session_id));
    let body = if console.has_only_reviews {
        let answer = console.options.call_for_reviewer(Method::GET, &order_path(&session_id), None).await;
        let OrderReport { tier, order, waiting_for, .. } = answer.map_err(with_hint)?.json()?;
        html! { p { "Tier: " (tier) } (render_order(&session_id, &order, waiting_for.as_ref())) }
    } else {
        let path = format!("/v1/sessions/{}", encode_segment(&session_id));
        let answer = console.options.call_control(Method::GET, &path, None).await;
        render_session(&session_id, &answer.map_err(with_hint)?.json()?)
    };
    let body = html! { (done_note(&fields)) (body) };
    Ok(render_page(&console, Section::Orders, &format!("Session {session_id}"), &body))
}

fn render_session(session_id: &str, page: &SessionPage) -> Markup {
    let SessionPage { session, order, waiting_for, mails, costs, history, has_older_entries } = page;
    let digest = |sha256: &Option<Sha256Hex>| {
        html! {
            @if let Some(sha256) = sha256 { code { (sha256) } } @else { "none" }
        }
    };
    let costs: Vec<_> = costs.iter().map(ToString::to_string).collect();
    let rows = [
        ("tier", html! { (session.tier) }),
        ("query", html! { (session.query) }),
        ("mail to", html! { (session.customer_email.clone().map_or_else(|| "none".into(), String::from)) }),
        ("first verdict", html! { (session.original_verdict.as_str()) }),
        ("delivered SHA-256", digest(&session.delivered_sha256)),
        ("cached SHA-256", digest(&session.cached_sha256)),
        ("costs", html! { (if costs.is_empty() { "none".to_owned() } else { costs.join(" + ") }) }),
    ];
    html! {
        (pairs(rows))
        @if let Some(order) = order {
            section aria-labelledby="order" {
                h2 #order { "Order" }
                (render_order(session_id, order, waiting_for.as_ref()))
            }
        }
        @if !mails.is_empty() { (render_mails(mails)) }
        section aria-labelledby="history" {
            h2 #history { "History" }
            @if *has_older_entries {
                p { a href=(format!("/log?session={}&after=0", encode_segment(session_id))) { "Older entries" } }
            }
            (table("Log entries, the oldest first", &ENTRY_HEADING, &entry_rows(history)))
        }
        section aria-labelledby="erasure" {
            h2 #erasure { "Erasure" }
            p {
                "It removes the session with its order, verdict, facts and mails, and the values of its log entries, from all files. It \
                 cannot be undone. Export the data first: " code { "oraclectl export --session " (session_id) }
            }
            (reason_form(&format!("{}/erase", page_path(session_id)), "Erase the session", &html! {
                label { "Repeat the id of the session" input name="repeated" required autocomplete="off"; }
            }))
        }
    }
}

fn render_mails(mails: &[MailState]) -> Markup {
    let row = |mail: &MailState| {
        vec![
            html! { (mail.mail_id) },
            html! { (mail.tries.attempts) },
            moment_or_none(mail.tries.next_attempt_at),
            html! { (mail.tries.last_error.as_deref().unwrap_or("none")) },
        ]
    };
    table(
        "Mails that are not sent yet",
        &["mail", "attempts", "next attempt", "last error"],
        &mails.iter().map(row).collect::<Vec<_>>(),
    )
}

pub(super) async fn change_order(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let (action, done) = match fields.text("action") {
        "release" => (OrderAction::Release, "released"),
        "retry" => (OrderAction::Retry, "retried"),
        "fail" => (OrderAction::Fail, "failed"),
        "cancel" => (OrderAction::Cancel, "cancelled"),
        other => {
            return Err(PageError::input(format!(
                "`{other}` is not an action; allowed: release, retry, fail, cancel"
            )));
        }
    };
    let reason = fields.required("reason", "Reason")?;
    let Moment(changed_at) = fields
        .text("changed_at")
        .parse()
        .map_err(|_| PageError::input("`changed_at` is not a time; reload the page"))?;
    change(&console.options, &session_id, action, &reason, Some(changed_at)).await?;
    // for reviewers, only held orders exist
    let page = if console.has_only_reviews { "/orders".to_owned() } else { page_path(&session_id) };
    Ok(after_action(&page, done))
}

pub(super) async fn held_verdict(
    State(console): State<ConsoleState>,
    Path(session_id): Path<String>,
) -> PageResult {
    let path = format!("{}/verdict", order_path(&session_id));
    let answer = console.options.call_for_reviewer(Method::GET, &path, None).await?;
    let held: HeldVerdictReport = answer.json()?;
    let verdict: serde_json::Value = serde_json::from_str(held.verdict.get()).unwrap_or_default();
    let rows = [
        ("query", html! { (held.query.as_str()) }),
        ("held", moment(held.held_at)),
        ("path", html! { (held.path.into_str()) }),
        ("causes", html! { (join_causes(&held.causes)) }),
        ("coherence", html! { (held.decision.coherence_score) }),
    ];
    let body = html! {
        (pairs(rows))
        pre tabindex="0" { (serde_json::to_string_pretty(&verdict).unwrap_or_default()) }
        p { a href=(page_path(&session_id)) { "Back to the session" } }
    };
    Ok(render_page(&console, Section::Orders, &format!("Held verdict of session {session_id}"), &body))
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
    let body = html! {
        ul { @for text in describe_erased(&erased) { li { (text) } } }
        p { a href=(format!("/log?session={}", encode_segment(&session_id))) { "Log entries of the session" } }
    };
    Ok(render_page(&console, Section::Orders, &format!("Session {session_id}"), &body))
}

/// Number of orders on a page.
const LIMIT: usize = 50;

pub(super) async fn list_page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let mut filter = String::new();
    for name in ["state", "application"] {
        if let Some(value) = fields.filled(name) {
            filter.push_str(&format!("&{name}={}", encode_segment(value)));
        }
    }
    let after =
        fields.filled("after").map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let path = format!("/v1/orders?limit={LIMIT}{filter}{after}");
    let answer = console.options.call_for_reviewer(Method::GET, &path, None).await?;
    let ListPage::<OrderReport> { items, next } = answer.json()?;
    let rows: Vec<_> = items.iter().map(row).collect();
    let heading = ["session", "state", "tier", "placed", "attempts", "next attempt", "reason"];
    let body = html! {
        (done_note(&fields))
        @if !console.has_only_reviews { (search_form()) (filter_form(&fields)) }
        (table("Orders, the latest first", &heading, &rows))
        (next_link(&format!("/orders?{}", filter.trim_start_matches('&')), next.as_deref()))
    };
    let title = if console.has_only_reviews { "Held orders" } else { "Orders and sessions" };
    Ok(render_page(&console, Section::Orders, title, &body))
}

fn search_form() -> Markup {
    html! {
        form.filter method="get" action="/sessions" role="search" {
            label { "Session" input name="id" required placeholder="cs_1, or shop/cs_1" autocomplete="off"; }
            button type="submit" { "Open the session" }
        }
    }
}

fn filter_form(fields: &Fields) -> Markup {
    html! {
        form.filter method="get" action="/orders" {
            label {
                "State"
                select name="state" {
                    option value="" { "any" }
                    @for state in OrderState::VARIANTS {
                        option value=(state.into_str()) selected[fields.text("state") == state.into_str()] { (state.into_str()) }
                    }
                }
            }
            label { "Application" input name="application" value=(fields.text("application")) autocomplete="off"; }
            button type="submit" { "Filter the orders" }
        }
    }
}

fn row(report: &OrderReport) -> Vec<Markup> {
    let order = &report.order;
    vec![
        session_link(report.session_id.as_str()),
        render_order_state(order.state),
        html! { (report.tier) },
        moment(order.placed_at),
        html! { (order.attempts) },
        moment_or_none(order.next_attempt_at),
        html! { (report.reason().unwrap_or_else(|| "none".into())) },
    ]
}

/// The state of an order with its attempts, and the forms for the actions that its state allows.
fn render_order(session_id: &str, order: &Order, waiting_for: Option<&OrderWait>) -> Markup {
    let mut rows = vec![
        ("state", render_order_state(order.state)),
        ("placed", moment(order.placed_at)),
        ("changed", moment(order.changed_at)),
        ("attempts", html! { (order.attempts) }),
        ("next attempt", moment_or_none(order.next_attempt_at)),
    ];
    if let Some(OrderWait { detail, until, .. }) = waiting_for {
        let until = html! { @if let Some(until) = until { ", until " (moment(*until)) } };
        rows.push(("waits for", html! { (detail) (until) }));
    }
    if let Some(cause) = order.stop_cause {
        let causes = join_causes(&order.policy_causes);
        rows.push(("stopped by", html! { (cause.into_str()) @if !causes.is_empty() { ": " (causes) } }));
    }
    if let Some(OperatorAction { action, at, uid, user_name, reason }) = &order.operator_action {
        let by = format_user(&uid.to_string(), user_name.as_deref());
        rows.push(("operator", html! { (action.into_str()) " by " (by) ", " (moment(*at)) ": " (reason) }));
    }
    let attempts: Vec<_> = order.last_attempts.iter().map(attempt_row).collect();
    html! {
        (pairs(rows))
        @if !attempts.is_empty() {
            (table("Attempts", &["attempt", "started", "model", "outcome", "cost", "error"], &attempts))
        }
        (render_actions(session_id, order))
    }
}

fn render_order_state(state: OrderState) -> Markup {
    html! { span.status data-status=(state.into_str()) { (state.into_str()) } }
}

fn attempt_row(attempt: &OrderAttempt) -> Vec<Markup> {
    vec![
        html! { (attempt.attempt) @if attempt.is_last { " (last)" } },
        moment(attempt.started_at),
        html! { (attempt.generation.model) },
        html! { (attempt.outcome.map_or("in progress", |outcome| outcome.into_str())) },
        html! { @if let Some(cost) = &attempt.cost { (cost) } @else { "unknown" } },
        html! { (attempt.cause.as_deref().unwrap_or("none")) },
    ]
}

fn render_actions(session_id: &str, order: &Order) -> Markup {
    let path = format!("/sessions/{}/order", encode_segment(session_id));
    // the daemon refuses the action if the order has changed since this page
    let form = |action: &str, name: &str| {
        let fields = html! {
            input type="hidden" name="action" value=(action);
            input type="hidden" name="changed_at" value=(order.changed_at);
        };
        reason_form(&path, name, &fields)
    };
    let may_retry = matches!(order.state, OrderState::Held | OrderState::Failed | OrderState::Queued);
    let may_fail = matches!(order.state, OrderState::Held | OrderState::Queued);
    html! {
        @if order.is_held_by_policy() {
            p { a href=(format!("/sessions/{}/held", encode_segment(session_id))) { "Read the held verdict" } "; the log names you as its reader." }
            (form("release", "Release the held verdict"))
        }
        @if may_retry { (form("retry", "Retry the order")) }
        @if may_fail { (form("fail", "Fail the order")) }
        @if !order.state.has_ended() { (form("cancel", "Cancel the order for good")) }
    }
}
