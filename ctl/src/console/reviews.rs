//! The queue of reviews.

use super::access::LoginEnd;
use super::form_fields::Fields;
use super::layout::{Section, live, moment, next_link, page as render_page, table};
use super::page_error::{PageError, PageResult};
use super::{Console, ConsoleState, events};
use crate::base::options::encode_segment;
use crate::verification::review::show::{format_axes, format_state, format_subject, format_values};
use axum::Extension;
use axum::extract::State;
use hyper::Method;
use maud::{Markup, html};
use oracled_api::base::page::ListPage;
use oracled_api::verification::ReviewSummary;

/// Number of reviews on a page.
const LIMIT: usize = 50;

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let query = filter_query(&fields);
    let parts = render_queue(&console, &query).await?;
    let body = html! {
        (filter_form(&fields))
        (live(&format!("/events/reviews?{query}"), &parts))
    };
    Ok(render_page(&console, Section::Reviews, "Reviews", &body))
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, query) = (console.clone(), filter_query(&fields));
    events::stream(&console, login, move || {
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
