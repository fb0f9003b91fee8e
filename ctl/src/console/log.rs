//! The audit log: the newest entries first, one line each, and one entry with its proof.

use super::access::LoginEnd;
use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page, with_fault};
use super::parts::{Tone, badge, card, group_digits, icon, live, pairs, session_link, times_in_text};
use super::timeline::format_duration;
use super::{Console, ConsoleState};
use crate::audit::log::{SinceTime, prove_entry, summarize_entry};
use crate::base::options::{encode_segment, response_lines, within_limit};
use crate::console;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use domain_audit::checkpoint::Checkpoint;
use domain_base::event::{EntryMembers, EventClass, EventType};
use domain_base::moment::Moment;
use domain_base::wording::format_count;
use hyper::Method;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use jiff::Timestamp;
use maud::{Markup, html};
use oracled_api::client::{ClientError, DaemonClient, ResponseLines};
use oracled_domain::events::{event_type, event_types};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// Number of entries on the page.
const LIMIT: usize = 100;
/// How long a rendering waits for entries of the followed log.
const ARRIVAL: Duration = Duration::from_millis(200);
/// The same while none has arrived.
const FIRST_ARRIVAL: Duration = Duration::from_secs(2);
/// A time without an event that the list of a session states, in seconds.
const QUIET_S: i64 = 600;
/// The parameter of the page that shows routine events.
const ROUTINE_SHOWN: &str = "routine=shown";

fn time_of(entry: EntryMembers<'_>) -> Option<Timestamp> {
    entry.text("timestamp").parse().ok().map(|Moment(at)| at)
}

/// An icon, if the specification gives the entry a severity.
fn severity_icon(entry: EntryMembers<'_>) -> Markup {
    let severity = entry.text("severity");
    html! {
        @if severity.is_empty() { span {} } @else { span.refused.fg title=(severity) { (icon("alert")) span.sr { (severity) } } }
    }
}

/// The entries of a session in their order, with times without an event between them.
pub(super) fn event_list(entries: &[Value]) -> Markup {
    let mut last: Option<Timestamp> = None;
    html! {
        ul.events {
            @for entry in entries.iter().map(EntryMembers) {
                @let at = time_of(entry);
                @let quiet = at.zip(last).map(|(at, last)| at.duration_since(last).as_secs()).filter(|seconds| *seconds > QUIET_S);
                @if let Some(seconds) = quiet { li.gap { (format_duration(seconds as f64)) " without events" } }
                @let seq = entry.text("seq");
                li {
                    time datetime=(entry.text("timestamp")) title=(entry.text("timestamp")) { (clock(at)) }
                    (severity_icon(entry))
                    span { b { (entry.text("event")) } " " (times_in_text(&summarize_entry(entry))) @let caller = entry.caller(); @if !caller.is_empty() { " " span.muted { (caller) } } }
                    a.du href=(format!("/log/{seq}")) { (seq) }
                }
                @let () = last = at.or(last);
            }
        }
    }
}

fn clock(at: Option<Timestamp>) -> String {
    at.map(|at| at.strftime("%H:%M:%S%.3f").to_string()).unwrap_or_default()
}

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let (selected, fault) = PageError::beside_form(select_entries(&console, &fields).await)?;
    let is_following = fields.filled("since").is_none() && fields.filled("after").is_none();
    let body = html! {
        (filter_chips(&fields, fault.is_some()))
        @if let Some(error) = &fault { (error.render()) }
        @if let Some((query, parts)) = &selected {
            // with a start, the page shows the first entries from there, which do not change
            @if is_following { (live(&format!("/events/log?{query}"), parts)) } @else { (parts) }
        }
        p.keys {
            span { kbd { "j" } kbd { "k" } "move" }
            span { kbd { "Enter" } "open or close" }
            span { kbd { "f" } "newest entries" }
            span { kbd { "←" } kbd { "→" } "page" }
        }
    };
    let sub = html! {
        @if !is_following { (badge(Tone::Neutral, "part of the log, not updated")) }
        @else if fault.is_none() { (badge(Tone::Ok, "newest entries")) }
        span { "Newest first, UTC" }
    };
    let actions =
        html! { a.btn.slim data-key="f" href="/log" { "Newest entries " kbd aria-hidden="true" { "f" } } };
    let head = PageHead { sub: Some(sub), actions: Some(actions), ..PageHead::titled("Log") };
    Ok(with_fault(render_page(&console, Section::Log, head, &body).await, fault.as_ref()))
}

/// The query that the fields select, and its entries.
async fn select_entries(console: &Console, fields: &Fields) -> Result<Option<(String, Markup)>, PageError> {
    let query = filter_query(fields)?;
    let parts = render_entries(&query, &read_entries(console, &daemon_query(&query), LIMIT).await?);
    Ok(Some((query, parts)))
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, query) = (console.clone(), filter_query(&fields)?);
    let followed = Arc::new(Mutex::new(FollowedLog::default()));
    console::stream(&console, login, move || {
        let (console, query, followed) = (shared.clone(), query.clone(), Arc::clone(&followed));
        async move {
            let mut followed = followed.lock().await;
            let entries = followed.read(&console, &query).await?;
            Ok::<_, PageError>(render_entries(&query, entries))
        }
    })
}

/// The newest entries that a query selects. One request follows the log as long as the page is open, since the log has an entry of each
/// read.
#[derive(Default)]
struct FollowedLog {
    /// The connection and the lines of its answer; `None` before the first read, and after the answer has ended.
    answer: Option<(DaemonClient, ResponseLines)>,
    /// At most [`LIMIT`], the newest first.
    entries: VecDeque<Value>,
}

impl FollowedLog {
    /// The entries, with those that have arrived since the last call.
    async fn read(&mut self, console: &Console, query: &str) -> Result<&[Value], PageError> {
        if self.answer.is_none() {
            self.entries.clear();
            self.answer = Some(follow_entries(console, query).await?);
        }
        let mut until = Instant::now() + if self.entries.is_empty() { FIRST_ARRIVAL } else { ARRIVAL };
        while Instant::now() < until
            && let Some((_, lines)) = &mut self.answer
            && let Ok(line) = timeout_at(until, lines.next_line()).await
        {
            let Ok(Some(line)) = line else {
                self.answer = None;
                line?;
                break;
            };
            let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
            self.entries.push_front(serde_json::from_slice(&line).map_err(unreadable)?);
            self.entries.truncate(LIMIT);
            until = until.min(Instant::now() + ARRIVAL);
        }
        Ok(self.entries.make_contiguous())
    }
}

async fn follow_entries(console: &Console, query: &str) -> Result<(DaemonClient, ResponseLines), PageError> {
    let control = console.options.control_path()?;
    let path = format!("/v1/log/follow?limit={LIMIT}&{}", daemon_query(query));
    let request = async {
        let mut daemon = DaemonClient::connect(&control).await?;
        let answer = daemon.open(Method::GET, path.trim_end_matches('&'), None).await?;
        Ok::<_, ClientError>((daemon, answer))
    };
    let (daemon, answer) = within_limit(request).await?;
    Ok((daemon, response_lines(answer).await?))
}

/// The parameters of the page that select entries.
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
        ("routine", text("routine").filter(|choice| choice == "shown")),
    ];
    let params =
        params.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(&value?))));
    Ok(params.collect::<Vec<_>>().join("&"))
}

fn params(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|param| !param.is_empty())
}

/// Whether the page shows entries from a start on, and not the newest ones.
fn has_start(query: &str) -> bool {
    params(query).any(|param| param.starts_with("since=") || param.starts_with("after="))
}

fn is_routine(kind: &EventType) -> bool {
    kind.class == EventClass::Routine
}

/// The names of the events that `is_named` selects.
fn event_names(is_named: fn(&EventType) -> bool) -> Vec<&'static str> {
    event_types().filter(|kind| is_named(kind)).map(|kind| kind.name).collect()
}

fn hides_routine(query: &str) -> bool {
    let named = ["event=", "execution=", "request_id=", ROUTINE_SHOWN];
    !params(query).any(|param| named.iter().any(|name| param.starts_with(name)))
}

/// The query of the daemon's route. It leaves out routine among the newest entries. From a start on, the page does, so that its numbers
/// have no gaps.
fn daemon_query(query: &str) -> String {
    let mut all: Vec<_> = params(query).filter(|param| *param != ROUTINE_SHOWN).map(str::to_owned).collect();
    if hides_routine(query) && !has_start(query) {
        all.push(format!("event={}", event_names(|kind| !is_routine(kind)).join(",")));
    }
    all.join("&")
}

/// The parameters of the page with their labels.
const FILTERS: [(&str, &str); 7] = [
    ("session", "session"),
    ("event", "event"),
    ("execution", "verification"),
    ("request_id", "request"),
    ("since", "since"),
    ("after", "after number"),
    ("routine", "routine"),
];

/// The filters as chips, and the form behind "+ filter", which is open after a fault in its fields.
fn filter_chips(fields: &Fields, has_fault: bool) -> Markup {
    let without = |name: &str| {
        let others = FILTERS.iter().filter(|(other, _)| *other != name);
        let params =
            others.filter_map(|(name, _)| Some(format!("{name}={}", encode_segment(fields.filled(name)?))));
        format!("/log?{}", params.collect::<Vec<_>>().join("&"))
    };
    let field = |name: &str, label: &str, hint: &str| {
        html! { label.f { (label) input type="text" name=(name) value=(fields.text(name)) placeholder=(hint) autocomplete="off"; } }
    };
    html! {
        div.chips {
            @for (name, label) in FILTERS {
                @if let Some(value) = fields.filled(name) {
                    a.chip.on href=(without(name)) { (label) " " (value) " " span.x aria-hidden="true" { "×" } span.sr { " remove the filter" } }
                }
            }
            @if fields.filled("routine").is_none() && ["event", "execution", "request_id"].iter().all(|name| fields.filled(name).is_none()) {
                a.chip.on href=(format!("{}&{ROUTINE_SHOWN}", without("routine"))) title=(event_names(is_routine).join(", ")) { "routine hidden " span.x aria-hidden="true" { "×" } span.sr { " show it" } }
            }
            @for span in ["15m", "2h", "24h"] {
                @if fields.filled("since").is_none() { a.chip href=(format!("{}&since={span}", without("since"))) { "last " (span) } }
            }
        }
        details.more open[has_fault] {
            summary { "+ filter" }
            form.fields method="get" action="/log" {
                (field("session", "Session", ""))
                label.f {
                    "Event"
                    select name="event" {
                        option value="" { "any" }
                        @for name in event_types().map(|kind| kind.name) { option value=(name) selected[fields.text("event") == name] { (name) } }
                    }
                }
                (field("execution", "Verification", ""))
                (field("request_id", "Request", ""))
                (field("since", "Since", "2h, or 2026-11-20"))
                (field("after", "After number", ""))
                button.btn type="submit" { "Filter the entries" }
            }
        }
    }
}

/// The entries that a query selects, the newest first.
pub(super) async fn read_entries(
    console: &Console,
    query: &str,
    limit: usize,
) -> Result<Vec<Value>, PageError> {
    let path = format!("/v1/log?limit={limit}&{query}");
    let answer = console.options.call_control(Method::GET, path.trim_end_matches('&'), None).await?;
    let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    let mut entries: Vec<Value> =
        lines.map(serde_json::from_slice).collect::<Result<_, _>>().map_err(unreadable)?;
    entries.reverse();
    Ok(entries)
}

fn render_entries(query: &str, entries: &[Value]) -> Markup {
    let hides = hides_routine(query);
    let is_shown =
        |entry: &&Value| !hides || !event_type(&EntryMembers(entry).text("event")).is_some_and(is_routine);
    let shown: Vec<_> = entries.iter().filter(is_shown).collect();
    html! {
        section.card aria-label="Log entries" {
            @if shown.is_empty() { (no_entry(query, entries.len())) }
            (entry_list(&shown))
            (render_pager(query, entries, shown.len()))
        }
    }
}

/// Why no entry is shown: none matches, or all are routine. The daemon leaves out routine among the newest entries, so its number is
/// not known then.
fn no_entry(query: &str, hidden: usize) -> Markup {
    let separator = if query.is_empty() { "" } else { "&" };
    let with_routine = format!("/log?{query}{separator}{ROUTINE_SHOWN}");
    html! {
        div.empty {
            @if hidden > 0 { h3 { (hidden_text(hidden as u64)) } p { a href=(with_routine) { "Show them" } } }
            @else {
                h3 { "No entry matches" }
                @if hides_routine(query) && !has_start(query) { p { "Routine entries are hidden. " a href=(with_routine) { "Show them" } } }
                @else { p { a href="/log" { "Show the newest entries" } } }
            }
        }
    }
}

fn hidden_text(hidden: u64) -> String {
    let number = group_digits(&hidden.to_string());
    format!("{} hidden", format_count(number, "routine entry is", "routine entries are"))
}

/// The entries, one line each. A line opens in place.
fn entry_list(entries: &[&Value]) -> Markup {
    let mut last_day = String::new();
    html! {
        ul.log {
            @for entry in entries.iter().copied().map(EntryMembers) {
                @let at = time_of(entry);
                @let day = at.map(|at| at.strftime("%A, %-d %B %Y").to_string()).unwrap_or_default();
                @if day != last_day { li.day { (day) } }
                @let () = last_day = day;
                li { (entry_line(entry, at)) }
            }
        }
    }
}

fn entry_line(entry: EntryMembers<'_>, at: Option<Timestamp>) -> Markup {
    let (seq, session) = (entry.text("seq"), entry.text("session_id"));
    let (event, caller) = (entry.text("event"), entry.caller());
    html! {
        details {
            summary data-row=(seq) {
                time datetime=(entry.text("timestamp")) { (clock(at)) }
                (severity_icon(entry))
                span.ev-n { (event) }
                span.m { (times_in_text(&summarize_entry(entry))) }
                span.sub title=(session) { (session) }
                span.seq { (seq) }
            }
            div.entry {
                div {
                    (pairs([
                        ("entry", html! { a href=(format!("/log/{seq}")) { (seq) ", with its proof" } }),
                        ("time", html! { (times_in_text(&entry.text("timestamp"))) }),
                        ("event", html! { a href=(format!("/log?event={event}")) { "only " (event) } }),
                        ("session", html! { @if session.is_empty() { "none" } @else { (session_link(&session)) ", " a href=(format!("/log?session={}", encode_segment(&session))) { "its entries" } } }),
                        ("caller", html! { (if caller.is_empty() { "none" } else { caller.as_str() }) }),
                        ("summary", html! { (times_in_text(&summarize_entry(entry))) }),
                    ]))
                }
                pre.raw.wrap tabindex="0" { (serde_json::to_string_pretty(entry.0).unwrap_or_default()) }
            }
        }
    }
}

/// The pages before and after this one. Without a filter, the numbers of entries have no gaps, so the page before is known.
fn render_pager(query: &str, newest_first: &[Value], shown: usize) -> Markup {
    let seq =
        |entry: Option<&Value>| entry.and_then(|entry| EntryMembers(entry).text("seq").parse::<u64>().ok());
    let (newest, oldest) = (seq(newest_first.first()), seq(newest_first.last()));
    let others: Vec<_> = params(query).filter(|param| !param.starts_with("after=")).collect();
    let has_filter = others.iter().any(|param| *param != ROUTINE_SHOWN);
    let has_start = has_start(query);
    let path = |after: u64| {
        let params: Vec<_> =
            others.iter().map(|param| (*param).to_owned()).chain([format!("after={after}")]).collect();
        format!("/log?{}", params.join("&"))
    };
    let newer = newest.filter(|_| has_start && newest_first.len() == LIMIT);
    let older = oldest.filter(|oldest| *oldest > 1 && !has_filter);
    // without a filter, each missing number is that of a hidden entry
    let span = newest.zip(oldest).map(|(newest, oldest)| newest.saturating_sub(oldest) + 1);
    let hidden = span.filter(|_| !has_filter).map_or(0, |span| span.saturating_sub(shown as u64));
    html! {
        div.pager {
            span {
                (format_count(shown, "entry", "entries"))
                @if let Some((newest, oldest)) = newest.zip(oldest) { ", numbers " (oldest) " to " (newest) }
                @if hidden > 0 { "; " (hidden_text(hidden)) }
            }
            span.right {
                @if let Some(newest) = newer { a.btn.slim rel="prev" data-key="ArrowLeft" href=(path(newest)) { "Newer" } }
                @if let Some(oldest) = older { a.btn.slim rel="next" data-key="ArrowRight" href=(path(oldest.saturating_sub(LIMIT as u64 + 1))) { "Older" } }
                @else if has_filter && !has_start { a.btn.slim data-key="ArrowRight" href=(path(0)) { "From the first" } }
            }
        }
    }
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
        ("time", html! { (times_in_text(&members.text("timestamp"))) }),
        ("summary", html! { (times_in_text(&summarize_entry(members))) }),
        (
            "proof",
            html! {
                "verified now: the tree of "
                @if let Some(checkpoint) = &checkpoint { (format_count(checkpoint.size, "entry", "entries")) }
                " has this entry; " (format_count(proved.proof.hashes.len(), "hash", "hashes"))
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
    let raw = |text: &str| html! { div.body { pre.raw.wrap tabindex="0" { (text) } } };
    let json = serde_json::to_string_pretty(&entry).unwrap_or_default();
    let body = html! {
        (card("Proof", &badge(Tone::Ok, "verified now"), &html! { div.body { (pairs(rows)) } }))
        (card("Entry", &html! {}, &raw(&json)))
        (card("Checkpoint", &html! {}, &raw(&bundle.checkpoint)))
    };
    let actions = html! {
        @if seq > 1 { a.btn.slim rel="prev" data-key="ArrowLeft" href=(format!("/log/{}", seq - 1)) { "Previous entry" } }
        a.btn.slim rel="next" data-key="ArrowRight" href=(format!("/log/{}", seq.saturating_add(1))) { "Next entry" }
    };
    let head =
        PageHead { actions: Some(actions), ..PageHead::below("/log", "Log", format!("Log entry {seq}")) };
    Ok(render_page(&console, Section::Log, head, &body).await)
}

pub(super) async fn bundle(State(console): State<ConsoleState>, Path(seq): Path<u64>) -> PageResult {
    let mut daemon = DaemonClient::connect(&console.options.control_path()?).await?;
    let bundle = prove_entry(&mut daemon, seq).await?;
    let body = serde_json::to_string_pretty(&bundle).map_err(std::io::Error::from)?;
    let name = format!("attachment; filename=\"entry-{seq}.json\"");
    Ok(([(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_DISPOSITION, name)], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(seq: u64, event: &str) -> Value {
        json!({"seq": seq, "event": event, "timestamp": "2026-11-20T10:00:00Z"})
    }

    #[test]
    fn routine_is_hidden_unless_it_is_asked_for() {
        let newest = daemon_query("session=cs_1");
        assert!(newest.starts_with("session=cs_1&event=") && newest.contains("order_placed"), "{newest}");
        assert!(!newest.contains("operator_read"), "{newest}");
        for (query, expected) in [
            ("event=operator_read", "event=operator_read"),
            ("execution=e&routine=shown", "execution=e"),
            ("routine=shown", ""),
            // the page hides it
            ("after=7", "after=7"),
        ] {
            assert_eq!(daemon_query(query), expected);
        }
    }

    #[test]
    fn page_with_only_hidden_entries_says_so_and_leads_to_them() {
        let hidden: Vec<_> = (1..=100).map(|seq| entry(seq, "operator_read")).collect();
        let heading = |page: &str| {
            let (_, rest) = page.split_once("<h3>").expect("a heading");
            rest.split_once("</h3>").expect("its end").0.to_owned()
        };
        let page = render_entries("after=0", &hidden).into_string();
        assert_eq!(page.matches("<h3>").count(), 1, "{page}");
        assert!(page.contains("href=\"/log?after=0&amp;routine=shown\""), "{page}");
        let none = |query: &str| render_entries(query, &[]).into_string();
        assert!(!none("after=0").contains("hidden"), "{}", none("after=0"));
        assert!(none("session=cs_1").contains("href=\"/log?session=cs_1&amp;routine=shown\""));
        let headings = [heading(&page), heading(&none("after=0")), hidden_text(1234)];
        insta::assert_snapshot!("headings_without_an_entry", headings.join("\n"));
    }

    #[test]
    fn pager_has_the_number_of_hidden_entries_and_leads_on_without_gaps() {
        let entries = [entry(9, "order_placed"), entry(8, "operator_read"), entry(7, "order_placed")];
        let page = render_entries("after=6", &entries).into_string();
        let (_, pager) = page.split_once("<div class=\"pager\"><span>").expect("a pager");
        let (pager, _) = pager.split_once("</span>").expect("its end");
        insta::assert_snapshot!("pager_with_a_hidden_entry", pager);
        assert!(!page.contains("data-row=\"8\"") && page.contains("href=\"/log?after=0\""), "{page}");
        let all = render_entries("after=6&routine=shown", &entries).into_string();
        assert!(all.contains("data-row=\"8\"") && !all.contains("hidden"), "{all}");
        assert!(all.contains("href=\"/log?routine=shown&amp;after=0\""), "{all}");
        // the list of a session lacks other numbers, too
        let [first, _, last] = entries;
        let filtered = render_entries("session=cs_1", &[first, last]).into_string();
        assert!(!filtered.contains("hidden"), "{filtered}");
    }
}
