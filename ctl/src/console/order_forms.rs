//! An order as a part of a page, with the forms that change it.

use super::layout::{pairs, reason_form, table};
use super::text::{moment, moment_or_none};
use crate::base::options::encode_segment;
use crate::base::output::format_user;
use maud::{Markup, html};
use oracled_domain::verdict::order::{OperatorAction, Order, OrderAttempt, OrderState};
use oracled_domain::verdict::order_wait::OrderWait;
use oracled_domain::verdict::policy::join_causes;

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

pub(super) fn render_order_state(state: OrderState) -> Markup {
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
