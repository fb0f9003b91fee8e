//! The orders, and the search for a session.

use super::ConsoleState;
use super::form_fields::{Fields, done_note};
use super::layout::{
    PageResult, Section, moment, moment_or_none, next_link, page as render_page, pairs, reason_form,
    session_link, table,
};
use crate::base::options::encode_segment;
use crate::base::output::format_user;
use axum::extract::State;
use domain_base::page::ListPage;
use domain_verdict::order::{OperatorAction, Order, OrderAttempt, OrderState, OrderWait};
use domain_verdict::policy::join_causes;
use domain_verdict::wire::OrderReport;
use hyper::Method;
use maud::{Markup, html};
use strum::VariantArray;

/// Number of orders on a page.
const LIMIT: usize = 50;

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
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
pub(super) fn render_order(session_id: &str, order: &Order, waiting_for: Option<&OrderWait>) -> Markup {
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
