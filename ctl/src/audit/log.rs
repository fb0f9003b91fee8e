//! `oraclectl log`.

use super::prove::LogVerb;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser, response_lines};
use domain_base::moment::{Date, Moment};
use domain_base::visible::{visible_json, visible_line};
use domain_verdict::webhook::WebhookId;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use oracled_api::audit::LogLimit;
use oracled_api::base::client::{ClientError, DaemonClient};
use oracled_domain::events::event_types;
use serde_json::Value;
use std::io::Write;
use std::str::FromStr;

/// Show the audit log: the newest entries, or the selected ones; or prove entries
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    verb: Option<LogVerb>,
    /// Keep running and print each new entry as it is written
    #[arg(short, long)]
    follow: bool,
    /// Only entries of this session; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: Option<String>,
    /// Only entries of the verification with this execution id
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    execution: Option<String>,
    /// Only entries caused by the request with this X-Request-Id
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    request: Option<String>,
    /// Only entries of this event
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(event_types().map(|kind| kind.name)))]
    event: Option<String>,
    /// Only entries since a time (2026-11-20T10:00:00Z) or a day (in UTC), or of the last period (90s, 15m, 2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<SinceTime>,
    /// Only entries after the entry with this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Maximum number of entries [default: the newest 100; with --since or --after, the first 10000]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(LogLimit::MAX))]
    limit: Option<usize>,
}

/// The text for a value that was erased or withheld.
const HIDDEN: &str = "hidden";

/// A time, or a duration before now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SinceTime {
    At(Timestamp),
    Ago(SignedDuration),
}

impl FromStr for SinceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(at) = Date::read(text).as_ref().and_then(Date::moment) {
            return Ok(Self::At(at));
        }
        let allowed = "a time such as 2026-11-20T10:00:00Z, a day such as 2026-11-20, or a period such as 90s, 15m, 2h, 7d";
        parse_duration(text).map(Self::Ago).map_err(|_| format!("`{text}` is not {allowed}"))
    }
}

/// Parses a duration such as 90s, 15m, 2h, 7d.
pub(crate) fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<i64>().ok());
    let days = days.and_then(|days| days.checked_mul(24)).map(SignedDuration::from_hours);
    let invalid = |_| format!("`{text}` is not a duration in days, hours or minutes; use 90d, 12h or 30m");
    days.map_or_else(|| text.parse::<SignedDuration>().map_err(invalid), Ok)
}

impl SinceTime {
    pub(crate) fn to_timestamp(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => Timestamp::now().saturating_sub(ago).unwrap_or(Timestamp::MIN),
        }
    }
}

impl LogArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        if let Some(verb) = &self.verb {
            return verb.run(options, out).await;
        }
        let path = self.request_path();
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let response = client.open(Method::GET, &path, None).await?;
        let mut lines = response_lines(response).await?;
        let mut is_empty = true;
        while let Some(line) = lines.next_line().await? {
            print_entry(&line, options.json, out)?;
            out.flush()?;
            is_empty = false;
        }
        if is_empty && !options.json && !self.follow {
            writeln!(out, "no entries")?;
        }
        Ok(())
    }

    fn request_path(&self) -> String {
        // with a start, all entries from there; otherwise the newest
        let from_there = (self.since.is_some() || self.after.is_some()).then_some(LogLimit::MAX);
        let limit = self.limit.or(from_there);
        let params = [
            ("session", self.session.clone()),
            ("execution", self.execution.clone()),
            ("request_id", self.request.clone()),
            ("event", self.event.clone()),
            ("since", self.since.map(|since| since.to_timestamp().to_string())),
            ("after", self.after.map(|after| after.to_string())),
            ("limit", limit.map(|limit| limit.to_string())),
        ];
        let params: Vec<_> = params
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(&value?))))
            .collect();
        format!("/v1/log{}?{}", if self.follow { "/follow" } else { "" }, params.join("&"))
    }
}

fn print_entry(line: &[u8], json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
    if json {
        return Ok(out.write_all(visible_json(&String::from_utf8_lossy(line)).as_bytes())?);
    }
    let entry: Value =
        serde_json::from_slice(line).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    Ok(writeln!(out, "{}", format_entry(&entry))?)
}

/// The peer that gave the order; a signal has no peer.
fn format_peer(entry: &Value) -> String {
    let Some(peer) = entry.get("peer").filter(|peer| peer.is_object()) else { return "a signal".into() };
    let id = |name: &str| peer.get(name).map_or_else(|| "?".into(), Value::to_string);
    format!("uid {} gid {} pid {}", id("uid"), id("gid"), id("pid"))
}

/// The process and the request that caused the entry.
pub(crate) fn format_caller(entry: &Value) -> String {
    let Some(caller) = entry.get("caller") else { return String::new() };
    if is_hidden(caller) {
        return format!("[caller {HIDDEN}]");
    }
    let text = |name: &str| field_text(caller, name);
    let trace = caller.get("trace_id").map(|_| format!(" trace {}", text("trace_id"))).unwrap_or_default();
    format!("[uid {} pid {} request {}{trace}]", text("uid"), text("pid"), text("request_id"))
}

pub(crate) fn field_text(entry: &Value, name: &str) -> String {
    match entry.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(hidden) if is_hidden(hidden) => HIDDEN.to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Whether a value was erased or withheld, and has its hash in its place.
fn is_hidden(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.len() == 1 && members.contains_key("sha256"))
}

/// A time with exactly three decimal places, so that the next column is aligned.
fn format_timestamp(timestamp: String) -> String {
    timestamp.parse().map_or(timestamp, |Moment(at)| format!("{at:.3}"))
}

/// One line: number, time, event, session, a summary of the entry, and the caller.
pub(crate) fn format_entry(entry: &Value) -> String {
    let text = |name: &str| field_text(entry, name);
    let what = summarize_entry(entry);
    let (seq, at) = (text("seq"), format_timestamp(text("timestamp")));
    let line = format!("{seq} {at} {} {} {what} {}", text("event"), text("session_id"), format_caller(entry));
    visible_line(&line.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// The content of an entry in words, without its number, time, event, session and caller.
pub(crate) fn summarize_entry(entry: &Value) -> String {
    let text = |name: &str| field_text(entry, name);
    match text("event").as_str() {
        "tmm_crosscheck" => {
            let flags = entry.get("flags").and_then(Value::as_array).into_iter().flatten();
            let flags: Vec<_> = flags.filter_map(Value::as_str).collect();
            let decided = if text("approved") == "true" { "approved" } else { "rejected" };
            let score = entry.get("coherence_score").and_then(Value::as_f64).unwrap_or_default();
            let (tier, path, reason) = (text("tier"), text("path"), text("crosscheck_reason"));
            format!(
                "{decided} {path} {tier} {} C={score:.4} {reason} {}",
                text("verdict_label"),
                flags.join(",")
            )
        }
        "rules_evaluated" => {
            let rules = entry.get("rules").and_then(Value::as_array).into_iter().flatten();
            let against = rules.filter(|rule| field_text(rule, "verdict") != "PASS");
            let against =
                against.map(|rule| format!("{} {}", field_text(rule, "rule"), field_text(rule, "verdict")));
            let against: Vec<_> = against.collect();
            format!("{} {} {} {}", text("case_id"), text("path"), text("verdict"), against.join(", "))
        }
        "verdict_cached" => format!("{} {} {}", text("path"), text("tier"), text("verdict_label")),
        "regen_attempted" => text("tier"),
        "oracle_interaction" => format_interaction(entry),
        "regen_divergence_check" => {
            let level = text("divergence_level");
            let level = if level.is_empty() { "not compared" } else { &level };
            format!("{} -> {} {level}", text("original_verdict"), text("regen_verdict"))
        }
        "infrastructure_variance" => {
            format!("{} of {} regenerated verdicts differ", text("diverged"), text("regens"))
        }
        "daily_budget_reached" => {
            let of_what = format!("{} {}", text("currency"), text("application"));
            format!("{}: {} of {} {}", text("day"), text("costs"), text("budget"), of_what.trim_end())
        }
        "control_action" => format!("{} {} by {}", text("action"), text("detail"), format_peer(entry)),
        "oracle_health_changed" => {
            let (oracle_id, from, to, cause) = (text("oracle_id"), text("from"), text("to"), text("cause"));
            let by =
                if text("peer").is_empty() { String::new() } else { format!(": {}", format_peer(entry)) };
            format!("{oracle_id} {from} → {to}: {cause}{by}")
        }
        "crosscheck_error" => format!("{} {}", text("path"), text("cause")),
        "store_upgraded" => format!("from schema version {} to {}", text("from_schema"), text("to_schema")),
        "mirror_repaired" => format!("from entry {}, at byte {}", text("damaged_seq"), text("offset")),
        "storage_recovered" => {
            format!(
                "failed at {}: {}; {} entries in the service log",
                text("failed_at"),
                text("cause"),
                text("fallback_entries")
            )
        }
        name => format_verdict_event(name, entry)
            .or_else(|| format_ground_event(name, entry))
            .or_else(|| format_verification_event(name, entry))
            .unwrap_or_else(|| text("version")),
    }
}

/// The outcome of a request to the model.
fn format_interaction(entry: &Value) -> String {
    let text = |name: &str| field_text(entry, name);
    let (path, attempt, status) = (text("path"), text("attempt"), text("status"));
    let why = [text("error_code"), text("finish_reason")].join(" ");
    format!("{path} {} request {attempt} {status} {why} {} ms", text("oracle_version"), text("latency_ms"))
}

/// The kind of a message; for a webhook with its id, by which its receiver knows it.
fn format_message(entry: &Value) -> String {
    let (kind, id) = (field_text(entry, "kind"), field_text(entry, "message_id"));
    if id.starts_with(WebhookId::PREFIX) { format!("{kind} {id}") } else { kind }
}

/// The summary of an entry of the event `name`; `None` if it is not about orders, sessions, mails or webhooks.
fn format_verdict_event(name: &str, entry: &Value) -> Option<String> {
    let text = |name: &str| field_text(entry, name);
    let by_peer = || format!("by {}: {}", format_peer(entry), text("reason"));
    let ended = |how: String| {
        let end = format!("{how} after {} attempts", text("attempts"));
        if text("reason").is_empty() { end } else { format!("{end} {}", by_peer()) }
    };
    let next_attempt = |none: &str| match text("next_attempt_at") {
        at if at.is_empty() => none.to_owned(),
        at => format!("again at {at}"),
    };
    Some(match name {
        "policy_applied" => {
            let causes = entry.get("causes").and_then(Value::as_array).into_iter().flatten();
            let causes: Vec<_> = causes.filter_map(Value::as_str).collect();
            format!("{} {}: {}", text("action"), text("path"), causes.join(", "))
        }
        "order_placed" => text("tier"),
        "order_attempted" => {
            let setting = |name: &str| entry.pointer(&format!("/generation/settings/{name}"));
            let model = setting("model").and_then(Value::as_str).unwrap_or_default();
            let last = if entry.get("is_last") == Some(&Value::Bool(true)) { "last " } else { "" };
            format!("{last}attempt {} {model}", text("attempt"))
        }
        "order_attempt_failed" => {
            let (attempt, outcome, cause) = (text("attempt"), text("outcome"), text("cause"));
            format!("attempt {attempt} {outcome}: {cause}; {}", next_attempt("no further attempt"))
        }
        "order_stopped" => ended(format!("{} {}", text("state"), text("cause"))),
        "order_cancelled" => ended(text("from")),
        "order_retried" | "order_released" => by_peer(),
        "held_verdict_read" | "session_exported" | "session_removed" | "verdict_purged" => {
            format!("by {}", format_peer(entry))
        }
        "erasure_started" | "session_erased" | "retention_started" | "sessions_expired"
        | "retention_applied" => format_removal(name, entry),
        "order_delivered" => format!("{} after {} attempts", text("path"), text("attempts")),
        "session_registered" => format!("{} original {}", text("tier"), text("original_verdict")),
        "session_looked_up" => {
            let (oracle_id, status, outcome) = (text("oracle_id"), text("status"), text("outcome"));
            format!("{oracle_id} {status} {outcome} {} {} ms", text("error_code"), text("latency_ms"))
        }
        "session_corrected" => format_correction(entry),
        "message_queued" => format_message(entry),
        "message_sent" => format!("{} at attempt {}", format_message(entry), text("attempt")),
        "message_failed" => {
            let (message, attempt, cause) = (format_message(entry), text("attempt"), text("cause"));
            format!("{message} at attempt {attempt}: {cause}; {}", next_attempt("dead"))
        }
        "message_requeued" | "message_dropped" => {
            format!("{} by {}", text("message_id"), format_peer(entry))
        }
        _ => return None,
    })
}

/// The summary of an entry about the correction of a session.
fn format_correction(entry: &Value) -> String {
    let label = |when: &str| entry.pointer(&format!("/original_verdict/{when}")).and_then(Value::as_str);
    let (before, after) = (label("before").unwrap_or("?"), label("after").unwrap_or("?"));
    let is_new_address = entry.get("address_changed").and_then(Value::as_bool) == Some(true);
    let owner = field_text(entry, "owner_uid");
    let changes = [
        (before != after).then(|| format!("original {before} → {after}")),
        is_new_address.then(|| "address".to_owned()),
        (!owner.is_empty()).then(|| format!("owner uid {owner}")),
    ];
    format!("{} by {}", changes.into_iter().flatten().collect::<Vec<_>>().join(", "), format_peer(entry))
}

/// The summary of an entry about an erasure or a retention.
fn format_removal(name: &str, entry: &Value) -> String {
    let list = |member: &str| entry.get(member).and_then(Value::as_array).into_iter().flatten();
    let by_peer = || format!("by {}: {}", format_peer(entry), field_text(entry, "reason"));
    match name {
        "session_erased" => {
            let data: Vec<_> = list("data").filter_map(Value::as_str).collect();
            format!("{} {}", data.join(", "), by_peer())
        }
        "retention_started" if entry.get("peer").is_some_and(Value::is_object) => {
            format!("by {}", format_peer(entry))
        }
        "retention_started" => "daily run".to_owned(),
        "sessions_expired" => format!("{} sessions", list("session_ids").count()),
        "retention_applied" => format!("{} sessions removed", field_text(entry, "sessions")),
        _ => by_peer(),
    }
}

/// The summary of an entry of the event `name`; `None` if the event is not about verification.
fn format_verification_event(name: &str, entry: &Value) -> Option<String> {
    let text = |name: &str| field_text(entry, name);
    let inside = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Some(match name {
        "source_asked" => {
            let (execution_id, oracle_id, status) = (text("execution_id"), text("oracle_id"), text("status"));
            let (version, why, ms) = (text("oracle_version"), text("error_code"), text("latency_ms"));
            let stale = if text("stale_data_used") == "true" { "cached" } else { "" };
            format!("{execution_id} {oracle_id} {version} {status} {why} {stale} {ms} ms")
        }
        "verification_decided" => {
            let reasons = entry.get("reasons").and_then(Value::as_array).into_iter().flatten();
            let reasons = reasons.filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
            let afterwards = if inside("/inputs/stage") == "delayed" { "afterwards" } else { "" };
            let (execution_id, workflow_id) = (text("execution_id"), text("workflow_id"));
            format!("{execution_id} {workflow_id} {} {afterwards} {reasons}", text("kind"))
        }
        "review_opened" => {
            let axes = entry.pointer("/review/axes").and_then(Value::as_object).into_iter().flatten();
            let axes = axes.map(|(axis, _)| axis.as_str()).collect::<Vec<_>>().join(", ");
            format!("{} {}: {axes}", text("review_id"), inside("/review/workflow_id"))
        }
        "review_resolved" => {
            format!("{} by {}: {}", text("review_id"), format_peer(entry), inside("/resolution/reason"))
        }
        "review_revoked" | "review_dismissed" => {
            format!("{} by {}: {}", text("review_id"), format_peer(entry), text("reason"))
        }
        "review_commented" => {
            format!("{} by {}: {}", text("review_id"), format_peer(entry), text("text"))
        }
        _ => return None,
    })
}

/// The summary of an entry of the event `name`; `None` if the event is not about sources and their facts.
fn format_ground_event(name: &str, entry: &Value) -> Option<String> {
    let text = |name: &str| field_text(entry, name);
    Some(match name {
        "document_registered" => {
            format!("{} {} by {}", text("kind"), text("document_id"), format_peer(entry))
        }
        "source_changed" => format!("{} {} by {}", text("oracle_id"), text("change"), format_peer(entry)),
        "source_invalidated" => {
            format!("{} by {}: {}", text("oracle_id"), text("trigger"), text("detail"))
        }
        "source_confirmed" => {
            format!("{} by {}: {}", text("oracle_id"), text("confirmed_by"), text("detail"))
        }
        "ingestion_started" => format!("{} {}", text("oracle_id"), text("version")),
        "ingestion_ended" => {
            let count = |name: &str| entry.pointer(name).map_or_else(|| "?".into(), Value::to_string);
            let (records, rejected) = (count("/counts/records"), count("/counts/rejected"));
            let (oracle_id, version, state) = (text("oracle_id"), text("version"), text("state"));
            let cause = text("cause");
            format!(
                "{oracle_id} {version} {state}: {}, {rejected} rejected {cause}",
                format_records(&records)
            )
        }
        "pull_started" => format!("{} for {}", text("pipeline_id"), text("requested_by")),
        "pull_ended" => {
            let run_id = entry.get("run_id").and_then(Value::as_str);
            let outcome = run_id.map_or_else(|| "nothing new".to_owned(), |run_id| format!("run {run_id}"));
            format!("{} for {}: {outcome}", text("pipeline_id"), text("requested_by"))
        }
        "pull_failed" => {
            format!("{} for {}: {}", text("pipeline_id"), text("requested_by"), text("cause"))
        }
        "source_pruned" => {
            format!("{} before {}: {} versions", text("oracle_id"), text("before"), text("versions"))
        }
        "source_rebuilt" => {
            let files = entry.get("files").and_then(Value::as_array).map_or(0, Vec::len);
            format!(
                "{} by {}: {files} files out of {} runs",
                text("oracle_id"),
                format_peer(entry),
                text("runs")
            )
        }
        "source_queried" => {
            let (read, oracle_id, version) = (text("read"), text("oracle_id"), text("data_version"));
            let (outcome, records) = (text("outcome"), text("records_returned"));
            format!(
                "{read} {oracle_id} {version} {outcome}: {} {}",
                format_records(&records),
                text("freshness")
            )
        }
        _ => return None,
    })
}

fn format_records(number: &str) -> String {
    format!("{number} {}", if number == "1" { "record" } else { "records" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn health_change_is_printed_on_one_line_with_its_cause() {
        let mut entry = json!({
            "seq": 7,
            "event": "oracle_health_changed",
            "oracle_id": "model",
            "from": "healthy",
            "to": "degraded",
            "cause": "a failure: status\n500",
            "consecutive_failures": 1,
            "peer": null,
            "timestamp": "2026-11-20T10:00:00Z",
        });
        let line = "7 2026-11-20T10:00:00.000Z oracle_health_changed model healthy → degraded: a failure: status 500";
        assert_eq!(format_entry(&entry), line);
        entry["peer"] = json!({"uid": 1, "gid": 2, "pid": 3});
        assert_eq!(format_entry(&entry), format!("{line}: uid 1 gid 2 pid 3"));
    }

    #[test]
    fn erased_values_are_printed_as_hidden() {
        let entry = json!({
            "seq": 7,
            "event": "order_attempt_failed",
            "attempt": 1,
            "outcome": "failed",
            "cause": {"sha256": "ab"},
            "next_attempt_at": null,
            "session_id": "cs_1",
            "timestamp": "2026-11-20T10:00:00Z",
            "caller": {"sha256": "cd"},
        });
        assert_eq!(
            format_entry(&entry),
            "7 2026-11-20T10:00:00.000Z order_attempt_failed cs_1 attempt 1 failed: hidden; no further attempt [caller hidden]"
        );
    }

    #[test]
    fn since_takes_a_time_a_day_or_a_period() {
        let at = |text: &str| text.parse::<SinceTime>().map(|since| since.to_timestamp().to_string());
        assert_eq!(at("2026-11-20").as_deref(), Ok("2026-11-20T00:00:00Z"));
        assert_eq!(at("2026-11-20T10:00:00Z").as_deref(), Ok("2026-11-20T10:00:00Z"));
        assert!(matches!("90s".parse(), Ok(SinceTime::Ago(ago)) if ago == SignedDuration::from_secs(90)));
        for wrong in ["2026-11-31", "soon", "90", ""] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_evaluation_is_printed_with_its_case_id() {
        let mut entry = json!({
            "seq": 12,
            "event": "rules_evaluated",
            "verdict": "FAIL",
            "rules": [
                {"rule": "RULE-PREC-001", "verdict": "PASS"},
                {"rule": "RULE-PREC-003", "verdict": "FAIL"},
                {"rule": "RULE-CONT-001", "verdict": "ERROR"},
            ],
            "timestamp": "2026-11-20T10:00:00.25Z",
        });
        let head = "12 2026-11-20T10:00:00.250Z rules_evaluated";
        let verdicts = "FAIL RULE-PREC-003 FAIL, RULE-CONT-001 ERROR";
        assert_eq!(format_entry(&entry), format!("{head} {verdicts}"));
        entry["case_id"] = json!("page\n7");
        assert_eq!(format_entry(&entry), format!("{head} page 7 {verdicts}"));
    }

    #[test]
    fn timestamps_get_milliseconds_and_other_text_is_unchanged() {
        for (given, shown) in [
            ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000Z"),
            ("2026-11-20T10:00:00.1Z", "2026-11-20T10:00:00.100Z"),
            ("2026-11-20T10:00:00.123456789Z", "2026-11-20T10:00:00.123Z"),
            ("soon", "soon"),
        ] {
            assert_eq!(format_timestamp(given.to_owned()), shown);
        }
    }

    fn line(entry: &Value) -> String {
        let line = format_verdict_event(&field_text(entry, "event"), entry).expect("an event of this module");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn order_is_printed_with_its_model_causes_and_operator() {
        let peer = json!({"uid": 1, "gid": 2, "pid": 3});
        let attempted =
            json!({"event": "order_attempted", "attempt": 2, "generation": {"settings": {"model": "m-1"}}});
        assert_eq!(line(&attempted), "attempt 2 m-1");
        let mut last = attempted.clone();
        last["is_last"] = json!(true);
        assert_eq!(line(&last), "last attempt 2 m-1");
        let mut failed = json!({
            "event": "order_attempt_failed", "attempt": 2, "outcome": "model_timeout", "cause": "no answer within 9 s",
            "next_attempt_at": "2026-11-20T10:00:00Z",
        });
        let start = "attempt 2 model_timeout: no answer within 9 s";
        assert_eq!(line(&failed), format!("{start}; again at 2026-11-20T10:00:00Z"));
        failed["next_attempt_at"] = Value::Null;
        assert_eq!(line(&failed), format!("{start}; no further attempt"));
        let mut stopped = json!({
            "event": "order_stopped", "state": "failed", "cause": "generations", "attempts": 3, "reason": null, "peer": null,
        });
        assert_eq!(line(&stopped), "failed generations after 3 attempts");
        (stopped["reason"], stopped["peer"]) = (json!("refunded"), peer);
        assert_eq!(line(&stopped), "failed generations after 3 attempts by uid 1 gid 2 pid 3: refunded");
    }

    #[test]
    fn correction_is_printed_with_what_it_changed() {
        let mut corrected = json!({
            "event": "session_corrected", "original_verdict": {"before": "GREEN", "after": "GREEN"},
            "address_changed": true, "peer": {"uid": 1, "gid": 2, "pid": 3},
        });
        assert_eq!(line(&corrected), "address by uid 1 gid 2 pid 3");
        corrected["original_verdict"]["after"] = json!("RED");
        assert_eq!(line(&corrected), "original GREEN → RED, address by uid 1 gid 2 pid 3");
    }

    #[test]
    fn policy_and_webhook_are_printed_with_their_causes() {
        let applied = json!({
            "event": "policy_applied", "action": "hold", "causes": ["verdict_conflict", "coherence_min:0.99"],
            "path": "generate",
        });
        assert_eq!(line(&applied), "hold generate: verdict_conflict, coherence_min:0.99");
        let failed = json!({
            "event": "message_failed", "message_id": "msg_1", "kind": "order.held", "attempt": 4, "cause": "status 500",
            "next_attempt_at": null,
        });
        assert_eq!(line(&failed), "order.held msg_1 at attempt 4: status 500; dead");
    }

    #[test]
    fn decision_is_printed_with_its_kind_stage_and_reasons() {
        let mut entry = json!({
            "execution_id": "v-1", "workflow_id": "census", "kind": "human_review",
            "reasons": ["same_tier", "escalation_threshold"], "inputs": {"stage": "first"},
        });
        let line = |entry: &Value| {
            format_verification_event("verification_decided", entry).expect("a verification event")
        };
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(line(&entry)), "v-1 census human_review same_tier, escalation_threshold");
        entry["inputs"]["stage"] = json!("delayed");
        assert!(words(line(&entry)).contains("human_review afterwards same_tier"));
    }

    #[test]
    fn source_call_and_review_are_printed_on_one_line_each() {
        let call = json!({
            "execution_id": "v-1", "oracle_id": "un-live", "oracle_version": "unknown", "status": "timeout",
            "error_code": "timed_out", "stale_data_used": true, "latency_ms": 5000,
        });
        assert_eq!(
            format_verification_event("source_asked", &call).as_deref(),
            Some("v-1 un-live unknown timeout timed_out cached 5000 ms")
        );
        let opened = json!({
            "review_id": "v-1", "review": {"workflow_id": "census", "axes": {"population": ["same_tier"]}},
        });
        assert_eq!(
            format_verification_event("review_opened", &opened).as_deref(),
            Some("v-1 census: population")
        );
        let resolved = json!({
            "review_id": "v-1", "resolution": {"reason": "new survey"}, "peer": {"uid": 1, "gid": 2, "pid": 3},
        });
        assert_eq!(
            format_verification_event("review_resolved", &resolved).as_deref(),
            Some("v-1 by uid 1 gid 2 pid 3: new survey")
        );
        assert_eq!(format_verification_event("service_started", &call), None);
    }

    #[test]
    fn ended_run_is_printed_with_its_state_and_counts() {
        let entry = json!({
            "event": "ingestion_ended", "oracle_id": "cnf", "version": "2015", "state": "completed",
            "counts": {"records": 16, "rejected": 2},
        });
        let line = format_ground_event("ingestion_ended", &entry).expect("a ground-truth event");
        assert_eq!(line.trim_end(), "cnf 2015 completed: 16 records, 2 rejected");
        assert_eq!(format_ground_event("service_started", &entry), None);
    }
}
