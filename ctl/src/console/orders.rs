//! The orders, and the search for a session.

use super::form::{Fields, done_note};
use super::layout::{Section, next_link, page as render_page, table};
use super::order_forms::render_order_state;
use super::page_error::PageResult;
use super::state::ConsoleState;
use super::text::{moment, moment_or_none, session_link};
use crate::base::options::encode_segment;
use axum::extract::State;
use hyper::Method;
use maud::{Markup, html};
use oracled_api::base::page::ListPage;
use oracled_api::verdict::orders::OrderReport;
use oracled_domain::verdict::order::OrderState;
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
