//! The audit log: the newest entries, and one entry with its proof.

use super::access::LoginEnd;
use super::layout::{PageError, PageResult, Section, live, page as render_page, pairs, session_link, table};
use super::{Console, ConsoleState};
use crate::audit::log::{SinceTime, prove_entry, summarize_entry};
use crate::base::options::encode_segment;
use crate::console;
use crate::console::layout::Fields;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use domain_audit::checkpoint::Checkpoint;
use domain_base::event::EntryMembers;
use domain_base::wording::format_count;
use hyper::Method;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};
use oracled_api::client::{ClientError, DaemonClient};
use oracled_domain::events::event_types;
use serde_json::Value;

/// Number of entries on the page.
const LIMIT: usize = 100;

pub(super) const ENTRY_HEADING: [&str; 6] = ["number", "time", "event", "session", "summary", "caller"];

/// The rows of log entries.
pub(super) fn entry_rows(entries: &[Value]) -> Vec<Vec<Markup>> {
    let row = |entry: &Value| {
        let entry = EntryMembers(entry);
        let (seq, session) = (entry.text("seq"), entry.text("session_id"));
        vec![
            html! { a href=(format!("/log/{seq}")) { (seq) } },
            html! { (entry.text("timestamp")) },
            html! { (entry.text("event")) },
            html! { @if !session.is_empty() { (session_link(&session)) } },
            html! { (summarize_entry(entry)) },
            html! { (entry.caller()) },
        ]
    };
    entries.iter().map(row).collect()
}

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let query = filter_query(&fields)?;
    let parts = render_entries(&console, &query).await?;
    let is_following = fields.filled("since").is_none() && fields.filled("after").is_none();
    let body = html! {
        (filter_form(&fields))
        // with a start, the page shows the first entries from there, which do not change
        @if is_following { (live(&format!("/events/log?{query}"), &parts)) } @else { (parts) }
    };
    Ok(render_page(&console, Section::Log, "Log", &body))
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, query) = (console.clone(), filter_query(&fields)?);
    console::stream(&console, login, move || {
        let (console, query) = (shared.clone(), query.clone());
        async move { render_entries(&console, &query).await }
    })
}

/// The query of the page as that of the daemon's route.
fn filter_query(fields: &Fields) -> Result<String, PageError> {
    let since = fields.parsed::<SinceTime>("since", "Since")?;
    let text = |name: &str| fields.filled(name).map(str::to_owned);
    let params = [
        ("session", text("session")),
        ("execution", text("execution")),
        ("request_id", text("request_id")),
        ("event", text("event")),
        ("since", since.map(|since| since.to_timestamp().to_string())),
        ("after", fields.parsed::<u64>("after", "After")?.map(|after| after.to_string())),
    ];
    let params =
        params.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(&value?))));
    Ok(params.collect::<Vec<_>>().join("&"))
}

fn filter_form(fields: &Fields) -> Markup {
    html! {
        form.filter method="get" action="/log" {
            (fields.input("session", "Session", ""))
            label {
                "Event"
                select name="event" {
                    option value="" { "any" }
                    @for name in event_types().map(|kind| kind.name) { option value=(name) selected[fields.text("event") == name] { (name) } }
                }
            }
            (fields.input("execution", "Verification", ""))
            (fields.input("request_id", "Request", ""))
            (fields.input("since", "Since", "2h, or 2026-11-20"))
            (fields.input("after", "After number", ""))
            button type="submit" { "Filter the entries" }
        }
    }
}

async fn render_entries(console: &Console, query: &str) -> Result<Markup, PageError> {
    let path = format!("/v1/log?limit={LIMIT}&{query}");
    let answer = console.options.call_control(Method::GET, path.trim_end_matches('&'), None).await?;
    let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    let entries: Vec<Value> =
        lines.map(serde_json::from_slice).collect::<Result<_, _>>().map_err(unreadable)?;
    let next = entries.last().filter(|_| entries.len() == LIMIT).map(|entry| EntryMembers(entry).text("seq"));
    let has_start = query.contains("since=") || query.contains("after=");
    Ok(html! {
        (table("Log entries", &ENTRY_HEADING, &entry_rows(&entries)))
        @if let Some(next) = next.filter(|_| has_start) {
            @let others = query.split('&').filter(|param| !param.starts_with("after=")).collect::<Vec<_>>().join("&");
            p { a href=(format!("/log?{others}&after={next}")) { "Next page" } }
        }
    })
}

pub(super) async fn entry(State(console): State<ConsoleState>, Path(seq): Path<u64>) -> PageResult {
    let mut daemon = DaemonClient::connect(&console.options.control_path()?).await?;
    let bundle = prove_entry(&mut daemon, seq).await?;
    let proved = bundle.entries.first().ok_or_else(|| PageError::input("the bundle has no entry"))?;
    let entry: Value = serde_json::from_str(&proved.line).unwrap_or_default();
    let members = EntryMembers(&entry);
    let checkpoint = Checkpoint::read_unverified(&bundle.checkpoint).ok();
    let rows = [
        ("event", html! { (members.text("event")) }),
        ("time", html! { (members.text("timestamp")) }),
        ("summary", html! { (summarize_entry(members)) }),
        (
            "proof",
            html! {
                "verified now: the tree of "
                @if let Some(checkpoint) = &checkpoint { (format_count(checkpoint.size, "entry", "entries")) }
                " has this entry; " (proved.proof.hashes.len()) " hashes"
            },
        ),
        (
            "bundle",
            html! {
                a href=(format!("/log/{seq}/bundle.json")) { "Download the entry with its proof" }
                ", then " code { "oraclectl verify-log entry-" (seq) ".json --key KEY" }
            },
        ),
    ];
    let body = html! {
        (pairs(rows))
        h2 { "Entry" }
        pre tabindex="0" { (serde_json::to_string_pretty(&entry).unwrap_or_default()) }
        h2 { "Checkpoint" }
        pre tabindex="0" { (bundle.checkpoint) }
        nav aria-label="Entries" {
            @if seq > 1 { a href=(format!("/log/{}", seq - 1)) { "Previous entry" } " " }
            a href=(format!("/log/{}", seq.saturating_add(1))) { "Next entry" }
        }
    };
    Ok(render_page(&console, Section::Log, &format!("Log entry {seq}"), &body))
}

pub(super) async fn bundle(State(console): State<ConsoleState>, Path(seq): Path<u64>) -> PageResult {
    let mut daemon = DaemonClient::connect(&console.options.control_path()?).await?;
    let bundle = prove_entry(&mut daemon, seq).await?;
    let body = serde_json::to_string_pretty(&bundle).map_err(std::io::Error::from)?;
    let name = format!("attachment; filename=\"entry-{seq}.json\"");
    Ok(([(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_DISPOSITION, name)], body).into_response())
}
