//! The content of each event in words.

use super::{field_text, format_peer};
use domain_verdict::webhook::WebhookId;
use serde_json::Value;

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

/// The summary of an entry of the event `name`; `None` if it is not about orders, sessions, mails or webhooks.
/// The kind of a message; for a webhook with its id, by which its receiver knows it.
fn format_message(entry: &Value) -> String {
    let (kind, id) = (field_text(entry, "kind"), field_text(entry, "message_id"));
    if id.starts_with(WebhookId::PREFIX) { format!("{kind} {id}") } else { kind }
}

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
