//! The first page: what needs a person, and the state of the daemon with its metrics, read from their text (OpenMetrics).

use super::access::LoginEnd;
use super::chart::{BarRow, bars, format_number};
use super::forms::Fields;
use super::items::{InboxItem, ItemKind, read_items};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, card, group_digits, health_badge, icon, live, moment, moment_or_none, pairs,
    reason_in_words, short_moment, table, times_in_text,
};
use super::series;
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::console;
use crate::platform::status::{format_budgets, format_messages, format_witnesses, list_lost_rows};
use crate::verdict::divergence::format_variance;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::Checkpoint;
use domain_base::metric_samples::{MetricSample, parse_samples};
use domain_base::page::{ListPage, PageLimit};
use domain_base::series::SeriesRange;
use domain_base::service::ActorReport;
use domain_base::wording::format_count;
use domain_upstream::health::{OracleHealthLevel, OracleHealthStatus};
use domain_verdict::crosscheck::CrosscheckReason;
use domain_verdict::order::OrderStopCause;
use domain_verdict::outbox::{MessagesReport, OutboxReport};
use domain_verdict::webhook::WebhookOutage;
use domain_verdict::wire::OrderReport;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use oracled_domain::status::StatusReport;
use std::collections::BTreeMap;

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    if console.has_only_reviews {
        return Ok(Redirect::to("/inbox").into_response());
    }
    let range = series::read_range(&fields);
    let parts = render(&console, range).await?;
    let path = series::events_path(range);
    Ok(render_page(&console, Section::Overview, PageHead::titled("Overview"), &live(&path, &parts)).await)
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    fields: Fields,
) -> PageResult {
    let (shared, range) = (console.clone(), series::read_range(&fields));
    console::stream(&console, login, move || {
        let console = shared.clone();
        async move { render(&console, range).await }
    })
}

async fn render(console: &Console, range: SeriesRange) -> Result<Markup, PageError> {
    let options = &console.options;
    let get = async |path: &str| options.call_control(Method::GET, path, None).await;
    // before the status, so that it cannot have more entries
    let note = get("/v1/log/checkpoint").await?.body;
    let status: StatusReport = get("/v1/status").await?.json()?;
    let actors: Vec<ActorReport> = get("/v1/actors").await?.json()?;
    let oracles: Vec<OracleHealthStatus> = get("/v1/health/oracles").await?.json()?;
    let checkpoint = Checkpoint::read_unverified(&String::from_utf8_lossy(&note)).ok();
    let metrics = read_metrics(options).await?;
    let series = series::read(console, range).await?;
    let items = read_items(console).await?;
    let failed = read_failed(console).await?;
    let needs = find_needs(&status, &oracles, (&items, &failed), &metrics);
    Ok(html! {
        (render_readiness(&status, &needs))
        (render_needs(&needs, items.len()))
        (series::render(&series))
        div.grid2 { (render_judgments(&metrics)) (render_coherence(&metrics)) }
        (render_oracles(&oracles))
        div.grid2 { (render_log(&status, checkpoint.as_ref())) (render_store(&status, &metrics)) }
        (render_divergence(&metrics))
        (render_actors(&actors))
    })
}

/// Something that needs a person.
#[derive(Debug)]
struct Need {
    tone: Tone,
    title: String,
    /// Its consequence or its cause, in words.
    detail: String,
    since: Option<Timestamp>,
    path: String,
    verb: &'static str,
}

impl Need {
    fn new(
        tone: Tone,
        title: impl Into<String>,
        detail: impl Into<String>,
        path: &str,
        verb: &'static str,
    ) -> Self {
        Self { tone, title: title.into(), detail: detail.into(), since: None, path: path.to_owned(), verb }
    }
}

/// The needs, faults first. Otherwise: the daemon, upstreams that take no calls, orders that wait, the inbox, and warnings.
fn find_needs(
    status: &StatusReport,
    oracles: &[OracleHealthStatus],
    (items, failed): (&[InboxItem], &[OrderReport]),
    metrics: &Metrics,
) -> Vec<Need> {
    let mut needs = daemon_needs(status);
    needs.extend(oracles.iter().filter_map(oracle_need));
    let waiting = status.orders.as_ref().map_or(0, |orders| orders.queued);
    let oldest = metrics.sum("oracled_orders_oldest_age_seconds").filter(|age| *age >= 1.0);
    // an order that was just placed needs no person
    if waiting > 0 && oldest.is_some_and(|age| age >= WAITING_LEAST_S) {
        let detail = "The daemon attempts them again by itself.";
        let title = format!("{} for a model", format_count(waiting, "order waits", "orders wait"));
        let since =
            oldest.and_then(|age| Timestamp::now().checked_sub(SignedDuration::from_secs(age as i64)).ok());
        needs.push(Need {
            since,
            ..Need::new(Tone::Waiting, title, detail, "/orders?state=queued", "Show orders")
        });
    }
    needs.extend(failed_need(failed));
    needs.extend(status.outbox.iter().flat_map(outbox_needs));
    needs.extend(status.paused_endpoints.iter().filter_map(endpoint_need));
    needs.extend(kinds_of(items).into_iter().filter_map(|kind| inbox_need(kind, items)));
    // a fault comes before what waits, and what waits in the order of the inbox
    needs.sort_by_key(|need| need.tone != Tone::Refused);
    needs.extend(backup_need(status, Timestamp::now()));
    if let Some(lag) = &status.mirror_lag {
        needs.push(Need::new(
            Tone::Stale,
            "oracle_log.jsonl lags behind the log",
            lag,
            "#log",
            "Show the log",
        ));
    }
    if status.variance.escalated {
        let title = "Regenerated verdicts differ too often from the delivered ones";
        needs.push(Need::new(
            Tone::Diverged,
            title,
            format_variance(&status.variance),
            "#divergence",
            "Show them",
        ));
    }
    needs
}

/// The kinds of the items, in their order.
fn kinds_of(items: &[InboxItem]) -> Vec<ItemKind> {
    let mut kinds = Vec::new();
    for item in items {
        if !kinds.contains(&item.kind) {
            kinds.push(item.kind);
        }
    }
    kinds
}

/// Messages that wait for longer than a short failure of their receiver. Dead letters are in the inbox.
fn outbox_needs(outbox: &OutboxReport) -> Vec<Need> {
    let of = |name: &str, report: &MessagesReport, path: &str| {
        let since = report.waits_long_since(Timestamp::now())?;
        let title = format!("{name} wait in the outbox");
        let detail = "The daemon retries them automatically for a limited time.";
        Some(Need { since: Some(since), ..Need::new(Tone::Waiting, title, detail, path, "See the outbox") })
    };
    let all = [of("Mails", &outbox.mails, "#store"), of("Webhooks", &outbox.webhooks, "/webhooks")];
    all.into_iter().flatten().collect()
}

/// An endpoint of webhooks that is paused.
fn endpoint_need(outage: &WebhookOutage) -> Option<Need> {
    let title = format!("Webhooks to {} are paused", outage.receiver.describe());
    let detail = "They wait in the outbox. Correct the endpoint, and use oraclectl webhook resume.";
    Some(Need {
        since: Some(outage.paused_at?),
        ..Need::new(Tone::Waiting, title, detail, "/webhooks", "See the webhooks")
    })
}

fn backup_need(status: &StatusReport, now: Timestamp) -> Option<Need> {
    let since = status.backup_overdue_since(now)?;
    let last = status.last_backup_at.map(|at| at.strftime("The last one: %-d %B %Y, %H:%M UTC.").to_string());
    let last = last.unwrap_or_else(|| "No backup was taken.".to_owned());
    let detail = format!("{last} One is due every 2 days.");
    let need = Need::new(Tone::Stale, "Backup is overdue", detail, "#store", "See the store");
    Some(Need { since: Some(since), ..need })
}

/// The age of the oldest order from which waiting orders need a person, in seconds.
const WAITING_LEAST_S: f64 = 60.0;

fn daemon_needs(status: &StatusReport) -> Vec<Need> {
    let mut needs = Vec::new();
    if !status.ready {
        let reasons = status.reasons.join("; ");
        needs.push(Need::new(
            Tone::Refused,
            format!("Not ready: {reasons}"),
            "No verdict is accepted.",
            "#health",
            "See health",
        ));
    }
    let faults = [
        (status.journal_failure.clone(), "The journal rejects entries"),
        (status.segment_damage.clone(), "The segments are damaged, and are written again from their copies"),
        (status.copies_missing.clone(), "The copies of segments cannot be written"),
        ((!status.lost_rows.is_empty()).then(|| list_lost_rows(&status.lost_rows)), "Rows are lost"),
    ];
    for (fault, title) in faults {
        needs.extend(fault.map(|fault| Need::new(Tone::Refused, title, fault, "#log", "Show the log")));
    }
    needs
}

/// The orders that a limit has failed in the last day. They have ended, so they are not in the inbox, but a person can retry them.
async fn read_failed(console: &Console) -> Result<Vec<OrderReport>, PageError> {
    let path = format!("/v1/orders?state=failed&limit={}", <PageLimit>::MAX);
    let page: ListPage<OrderReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let since = Timestamp::now().checked_sub(SignedDuration::from_hours(24)).unwrap_or_default();
    let is_shown = |report: &OrderReport| {
        report.order.changed_at >= since && report.order.stop_cause != Some(OrderStopCause::Operator)
    };
    Ok(page.items.into_iter().filter(is_shown).collect())
}

fn failed_need(failed: &[OrderReport]) -> Option<Need> {
    let latest = failed.iter().max_by_key(|report| report.order.changed_at)?;
    let title = format!(
        "{} in the last 24 hours",
        format_count(failed.len(), "order has failed", "orders have failed")
    );
    let reason = latest.reason().map(|reason| reason_in_words(&reason));
    let detail = format!("The latest: {}", reason.unwrap_or_else(|| "no reason is known".into()));
    let need = Need::new(Tone::Waiting, title, detail, "/orders?state=failed", "Show orders");
    Some(Need { since: Some(latest.order.changed_at), ..need })
}

fn oracle_need(oracle: &OracleHealthStatus) -> Option<Need> {
    if let Some(until) = oracle.paused_until(Timestamp::now()) {
        let title =
            format!("{} is not called until {}", oracle.oracle_id, until.strftime("%-d %B, %H:%M UTC"));
        return Some(Need::new(Tone::Waiting, title, "It requested this wait.", "#health", "See health"));
    }
    let word = match oracle.status {
        OracleHealthLevel::Refusing => "refuses every call",
        OracleHealthLevel::CircuitOpen => "is not called: its circuit is open",
        OracleHealthLevel::Unhealthy => "fails",
        OracleHealthLevel::Healthy | OracleHealthLevel::Degraded => return None,
    };
    let error = oracle.last_error.clone().unwrap_or_else(|| "no error is known".to_owned());
    let need =
        Need::new(Tone::Refused, format!("{} {word}", oracle.oracle_id), error, "#health", "See health");
    Some(Need { since: oracle.circuit_opened_at.or(oracle.last_failure_at), ..need })
}

fn inbox_need(kind: ItemKind, items: &[InboxItem]) -> Option<Need> {
    let of_kind: Vec<_> = items.iter().filter(|item| item.kind == kind).collect();
    let oldest = of_kind.first()?;
    let (one, several) = kind.words();
    let titles: Vec<_> = of_kind.iter().take(3).map(|item| item.title.as_str()).collect();
    let more = of_kind.len().saturating_sub(titles.len());
    let detail = if more > 0 { format!("{}; and {more} more", titles.join("; ")) } else { titles.join("; ") };
    let path =
        if of_kind.len() == 1 { oldest.path.clone() } else { format!("/inbox?kind={}", kind.into_str()) };
    let title = format_count(of_kind.len(), &one.to_lowercase(), &several.to_lowercase());
    let since = of_kind.iter().map(|item| item.since).min();
    Some(Need { since, ..Need::new(kind.tone(), title, detail, &path, "Review") })
}

/// The state in words. It is green only while nothing is refused.
fn render_readiness(status: &StatusReport, needs: &[Need]) -> Markup {
    let worst = needs.iter().find(|need| need.tone == Tone::Refused);
    html! {
        p.sub {
            @match worst {
                Some(need) => (badge(Tone::Refused, &need.title)),
                None if needs.is_empty() => (badge(Tone::Ok, "Ready: it accepts verdicts")),
                None => (badge(Tone::Waiting, "Ready, with work for you")),
            }
            " " span.muted { "as of " (Timestamp::now().strftime("%H:%M UTC, %A %-d %B %Y")) ". Version " (status.version) ", serves since " (moment(status.started_at)) }
        }
    }
}

fn render_needs(needs: &[Need], in_inbox: usize) -> Markup {
    let is_alarm = needs.iter().any(|need| need.tone == Tone::Refused);
    let is_warning = !is_alarm && !needs.is_empty();
    html! {
        section.card.alarm[is_alarm].warn[is_warning] aria-labelledby="need" {
            header {
                (icon(if is_alarm { "alert" } else { "inbox" }))
                h2 #need { "What needs you" }
                @if !needs.is_empty() { span.count.refused[is_alarm].waiting[is_warning] { (needs.len()) } }
                span.right { a href="/inbox" { "Open the inbox (" (in_inbox) ")" } }
            }
            @if needs.is_empty() { div.empty { (icon("ok")) h3 { "Nothing" } p { "Faults and decisions appear here." } } }
            ul.todo {
                @for need in needs {
                    li.lead[need.tone == Tone::Refused] {
                        a.item data-row=(need.title) href=(need.path) {
                            span.mark.(need.tone.name()) { (icon(if need.tone == Tone::Refused { "alert" } else { need.tone.name() })) }
                            span { span.t { (need.title) } br; span.s { (need.detail) } }
                            span.age { @if let Some(since) = need.since { (age(since)) } }
                            span.go { (need.verb) }
                        }
                    }
                }
            }
        }
    }
}

/// Judged verdicts by ranges of their coherence.
fn coherence_rows(metrics: &Metrics) -> Vec<BarRow> {
    let buckets = metrics.buckets("oracled_coherence");
    let most = buckets.iter().map(|(_, count)| *count).fold(1.0, f64::max);
    let mut below: Option<String> = None;
    let mut rows = Vec::new();
    for (limit, count) in buckets {
        let limit = limit.parse::<f64>().ok().filter(|limit| limit.is_finite()).map(format_number);
        let name = match (&below, &limit) {
            (None, Some(limit)) => format!("up to {limit}"),
            (Some(below), Some(limit)) => format!("{below} to {limit}"),
            (Some(below), None) => format!("above {below}"),
            (None, None) => "all".to_owned(),
        };
        // the last range has no upper limit; the coherence is at most 1
        if limit.is_some() || count > 0.0 {
            rows.push(BarRow {
                name,
                parts: vec![(Tone::Info, count / most)],
                text: format_number(count),
                note: None,
            });
        }
        below = limit.or(below);
    }
    rows
}

fn render_coherence(metrics: &Metrics) -> Markup {
    let beside = html! { span.muted.small { "verdicts, since the start" } };
    card("Coherence of judged verdicts", &beside, &html! { div.body { (bars(&coherence_rows(metrics))) } })
}

fn render_judgments(metrics: &Metrics) -> Markup {
    let counts = metrics.sums_by("oracled_crosscheck_judgments_total", ["tier", "reason"]);
    let mut tiers: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for ([tier, reason], count) in &counts {
        let (approved, all) = tiers.entry(tier).or_default();
        *all += count;
        *approved += if reason == CrosscheckReason::Pass.into_str() { *count } else { 0.0 };
    }
    let judged = tiers.into_iter().filter(|(_, (_, all))| *all > 0.0);
    let rows = judged.map(|(tier, (approved, all))| BarRow {
        name: tier.to_owned(),
        parts: vec![(Tone::Ok, approved / all)],
        text: format!("{:.1} %", approved / all * 100.0),
        note: Some(format!("{} of {}", format_number(approved), format_number(all))),
    });
    let rows: Vec<_> = rows.collect();
    let beside = html! { span.muted.small { "% of judged verdicts by tier, since the start" } };
    let body = html! { div.body { @if rows.is_empty() { p.small.muted { "No verdict was judged yet." } } (bars(&rows)) } };
    card("Approved by the crosscheck", &beside, &body)
}

fn render_divergence(metrics: &Metrics) -> Markup {
    let counts = metrics.sums_by("oracled_regens_compared_total", ["original", "regenerated", "level"]);
    let rows: Vec<_> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|([original, regenerated, level], count)| {
            vec![html! { (original) " → " (regenerated) }, html! { (level) }, html! { (count) }]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            div #divergence { (card("Regenerated verdicts, since the start", &html! {}, &table("Regenerated verdicts", &["labels", "divergence", "#verdicts"], &rows))) }
        }
    }
}

fn render_oracles(oracles: &[OracleHealthStatus]) -> Markup {
    let row = |oracle: &OracleHealthStatus| {
        let latency = (oracle.latency_p50_ms, oracle.latency_p99_ms);
        vec![
            html! { b { (oracle.oracle_id) } },
            html! {
                @match oracle.paused_until(Timestamp::now()) {
                    Some(until) => { (badge(Tone::Waiting, "paused until")) " " (moment(until)) },
                    None => (health_badge(oracle.status)),
                }
            },
            html! { @if let Some(at) = oracle.circuit_opened_at { (moment(at)) } @else { "–" } },
            moment_or_none(oracle.last_success_at),
            html! { @if latency == (0, 0) { "–" } @else { (latency.0) " / " (latency.1) } },
            html! { (oracle.consecutive_failures) },
            html! { (oracle.last_error.as_deref().unwrap_or("none")) },
        ]
    };
    let heading =
        ["part", "state", "since", "last success", "#p50 / p99, ms", "#failures in a row", "last error"];
    let beside = html! { span.muted.small { "by real calls" } };
    html! { div #health { (card("Health", &beside, &table("Health", &heading, &oracles.iter().map(row).collect::<Vec<_>>()))) } }
}

fn render_log(status: &StatusReport, checkpoint: Option<&Checkpoint>) -> Markup {
    let body = html! {
        div.stats.two {
            div.stat { span.k { "Entries" } span.v { a href="/log" { (group_digits(&status.entries.to_string())) } } }
            div.stat {
                span.k { "Last checkpoint" }
                @if let Some(checkpoint) = checkpoint {
                    span.v { (group_digits(&checkpoint.size.to_string())) } span.d { "entries, root " code { (BASE64_STANDARD.encode(checkpoint.root)) } }
                } @else { span.v { "none" } }
            }
        }
        footer { span { "Witnesses: " (format_witnesses(&status.witnesses)) } }
    };
    html! { div #log { (card("Log", &html! {}, &body)) } }
}

fn render_store(status: &StatusReport, metrics: &Metrics) -> Markup {
    let messages = |number, report| times_in_text(&format_messages(number, report));
    let backup = html! { @match status.last_backup_at { Some(at) => (short_moment(at)), None => (badge(Tone::Waiting, "no backup yet")) } };
    let budgets =
        status.budgets.as_deref().map_or_else(|| "unknown: they cannot be read".into(), format_budgets);
    let free = metrics.sum("oracled_storage_free_bytes");
    let orders = status.orders.as_ref().map_or_else(
        || "unknown: they cannot be read".to_owned(),
        |orders| format!("{} queued, {} generating, {} held", orders.queued, orders.generating, orders.held),
    );
    let body = html! {
        div.stats.two {
            div.stat { span.k { "Verdicts" } span.v { (group_digits(&status.verdicts.to_string())) } span.d { (format_count(group_digits(&status.sessions.to_string()), "session", "sessions")) } }
            div.stat {
                span.k { "Disk" }
                span.v { (format_number(metrics.sum("oracled_storage_bytes").unwrap_or_default() / 1e9)) " " small { "GB" } }
                @if let Some(free) = free { span.d { (format_number(free / 1e9)) " GB free" } }
            }
        }
        div.body { (pairs([
            ("model", html! { (status.model) }),
            ("budgets", html! { (budgets) }),
            ("orders", html! { a href="/orders" { (orders) } }),
            ("mail", html! { (messages(status.mails, status.outbox.map(|all| all.mails))) }),
            ("webhooks", html! { a href="/webhooks" { (messages(status.webhooks, status.outbox.map(|all| all.webhooks))) } }),
            ("divergence", html! { (format_variance(&status.variance)) }),
            ("last backup", backup),
        ])) }
    };
    html! { div #store { (card("Store and queues", &html! {}, &body)) } }
}

fn render_actors(actors: &[ActorReport]) -> Markup {
    let row = |actor: &ActorReport| {
        let panic = actor.last_panic.as_ref();
        vec![
            html! { (actor.name) },
            html! { (group_digits(&actor.handled.to_string())) },
            html! { (actor.queue_depth) },
            html! { (actor.latency_p50_us) " / " (actor.latency_p99_us) },
            html! { (actor.restarts) },
            html! { @if let Some(panic) = panic { (moment(panic.at)) ": " (panic.message) } @else { "none" } },
        ]
    };
    let heading = ["actor", "#handled", "#waiting", "#p50 / p99, µs", "#restarts", "last panic"];
    card("Actors", &html! {}, &table("Actors", &heading, &actors.iter().map(row).collect::<Vec<_>>()))
}

/// The samples of one scrape.
struct Metrics(Vec<MetricSample>);

impl Metrics {
    fn parse(text: &str) -> Self {
        Self(parse_samples(text).collect())
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &MetricSample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The sum of the samples of `name`; `None` if there are none.
    fn sum(&self, name: &str) -> Option<f64> {
        self.named(name).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// The sums of the samples of `name`, by the values of `labels`.
    fn sums_by<const N: usize>(&self, name: &str, labels: [&str; N]) -> BTreeMap<[String; N], f64> {
        let mut sums = BTreeMap::new();
        for sample in self.named(name) {
            let values = labels.map(|label| sample.labels.get(label).unwrap_or_default().to_owned());
            *sums.entry(values).or_default() += sample.value;
        }
        sums
    }

    /// The buckets of a histogram: upper limits with the number of values in each, in order.
    fn buckets(&self, histogram: &str) -> Vec<(String, f64)> {
        let name = format!("{histogram}_bucket");
        let mut below = 0.0;
        let buckets = self.named(&name).filter_map(|sample| Some((sample.labels.get("le")?, sample.value)));
        buckets
            .map(|(limit, total)| {
                let own = total - below;
                below = total;
                (limit.to_owned(), own)
            })
            .collect()
    }
}

/// The daemon's metrics now.
async fn read_metrics(options: &GlobalOptions) -> Result<Metrics, CtlError> {
    let answer = options.call_routes(Method::GET, "/metrics", None).await?;
    Ok(Metrics::parse(&String::from_utf8_lossy(&answer.body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::inbox::InboxImportance;

    fn item(kind: ItemKind) -> InboxItem {
        InboxItem {
            kind,
            id: String::new(),
            title: String::new(),
            cause: String::new(),
            since: Timestamp::UNIX_EPOCH,
            importance: InboxImportance::Answer,
            sources: Vec::new(),
            path: format!("/{}", kind.into_str()),
        }
    }

    #[test]
    fn dead_letters_come_before_what_waits_and_the_rest_has_the_order_of_the_inbox() {
        let examples: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let status: StatusReport =
            serde_json::from_value(examples["read_status"]["200"].clone()).expect("a valid status");
        let kinds = [ItemKind::HeldRun, ItemKind::Dispute, ItemKind::DeadLetter];
        let items = kinds.map(item);
        let needs = find_needs(&status, &[], (&items, &[]), &Metrics::parse(""));
        let paths: Vec<_> = needs.iter().map(|need| need.path.as_str()).take(3).collect();
        let expected = [ItemKind::DeadLetter, ItemKind::HeldRun, ItemKind::Dispute];
        assert_eq!(paths, expected.map(|kind| format!("/{}", kind.into_str())));
    }

    #[test]
    fn kinds_have_the_order_of_their_first_items() {
        let items = [ItemKind::Dispute, ItemKind::HeldRun, ItemKind::Dispute, ItemKind::DeadLetter].map(item);
        assert_eq!(kinds_of(&items), [ItemKind::Dispute, ItemKind::HeldRun, ItemKind::DeadLetter]);
    }

    #[test]
    fn ranges_of_coherence_are_named_without_infinity() {
        let text = "oracled_coherence_bucket{le=\"0.5\"} 1\noracled_coherence_bucket{le=\"0.9740425724725061\"} 3\n\
                    oracled_coherence_bucket{le=\"+Inf\"} 3\n";
        let rows = coherence_rows(&Metrics::parse(text));
        let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.text.as_str())).collect();
        assert_eq!(rows, [("up to 0.5", "1"), ("0.5 to 0.974", "2")]);
    }

    #[test]
    fn buckets_have_their_own_counts() {
        let text = "h_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 5\n";
        let buckets = Metrics::parse(text).buckets("h");
        assert_eq!(buckets, [("0.1".to_owned(), 1.0), ("+Inf".to_owned(), 4.0)]);
    }

    fn oracle(status: &str) -> OracleHealthStatus {
        serde_json::from_value(serde_json::json!({
            "oracle_id": "openai", "status": status, "last_success_at": null, "last_failure_at": "2026-11-26T01:32:00Z",
            "consecutive_failures": 3, "latency_p50_ms": 0, "latency_p99_ms": 0, "circuit_opened_at": null, "retry_at": null,
            "held_open": false, "last_error": "HTTP 401",
        }))
        .expect("a valid status")
    }

    #[test]
    fn needs_are_red_with_a_fault_and_else_amber() {
        let need = |tone| Need::new(tone, "a", "b", "/", "See it");
        for (tones, class) in [
            (vec![], "card"),
            (vec![Tone::Held, Tone::Stale], "card warn"),
            (vec![Tone::Refused, Tone::Held], "card alarm"),
        ] {
            let needs: Vec<_> = tones.into_iter().map(need).collect();
            let page = render_needs(&needs, 0).into_string();
            assert!(page.contains(&format!("<section class=\"{class}\"")), "{page}");
        }
    }

    #[test]
    fn overdue_backup_needs_a_person() {
        let examples: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let status: StatusReport =
            serde_json::from_value(examples["read_status"]["200"].clone()).expect("a valid status");
        // the first verdict is of 2026-11-20T10:00:00Z
        let need = |now: &str| backup_need(&status, now.parse().expect("a time"));
        assert!(need("2026-11-22T10:00:00Z").is_none());
        let overdue = need("2026-11-22T10:00:01Z").expect("it is overdue");
        assert_eq!(
            (overdue.tone, overdue.since.map(|at| at.to_string())),
            (Tone::Stale, Some("2026-11-22T10:00:00Z".to_owned()))
        );
        for (last, text) in [
            (serde_json::Value::Null, "No backup was taken. One is due every 2 days."),
            (
                "2026-11-20T10:30:00Z".into(),
                "The last one: 20 November 2026, 10:30 UTC. One is due every 2 days.",
            ),
        ] {
            let mut status = examples["read_status"]["200"].clone();
            status["last_backup_at"] = last;
            let status: StatusReport = serde_json::from_value(status).expect("a valid status");
            let overdue = backup_need(&status, "2026-12-30T10:00:00Z".parse().expect("a time"));
            assert_eq!(overdue.expect("it is overdue").detail, text);
        }
    }

    #[test]
    fn upstream_without_calls_needs_a_person() {
        for (status, word) in
            [("refusing", "refuses"), ("circuit_open", "circuit is open"), ("unhealthy", "fails")]
        {
            let need = oracle_need(&oracle(status)).expect("it needs a person");
            assert!(
                need.title.contains(word) && need.tone == Tone::Refused && need.detail == "HTTP 401",
                "{need:?}"
            );
        }
        assert!(["healthy", "degraded"].iter().all(|status| oracle_need(&oracle(status)).is_none()));
        let later = Timestamp::now() + SignedDuration::from_hours(1);
        let paused = OracleHealthStatus { retry_at: Some(later), ..oracle("healthy") };
        assert!(oracle_need(&paused).is_some_and(|need| need.tone == Tone::Waiting));
        assert!(!render_oracles(&[paused]).into_string().contains("works"));
        let first = "2026-11-26T01:22:00Z".parse().expect("a time");
        let open = OracleHealthStatus { circuit_opened_at: Some(first), ..oracle("circuit_open") };
        let need = oracle_need(&open).expect("it needs a person");
        assert_eq!(
            need.since,
            Some(first),
            "since the first failure, not since the last call that was let through"
        );
    }
}
