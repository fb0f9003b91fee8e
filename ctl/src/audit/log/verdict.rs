//! Log lines for the events of orders, sessions, mails and webhooks.

use super::{field_text, format_peer};
use serde_json::Value;

/// The summary of an entry of the event `name`; `None` if the event is none of these.
pub(crate) fn format_entry(name: &str, entry: &Value) -> Option<String> {
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
        "mail_queued" => text("kind"),
        "mail_sent" => format!("{} at attempt {}", text("kind"), text("attempt")),
        "mail_failed" => {
            let (kind, attempt, cause) = (text("kind"), text("attempt"), text("cause"));
            format!("{kind} at attempt {attempt}: {cause}; {}", next_attempt("dead"))
        }
        "mail_requeued" | "mail_dropped" => format!("{} by {}", text("mail_id"), format_peer(entry)),
        "webhook_queued" => format!("{} {}", text("kind"), text("webhook_id")),
        "webhook_sent" => format!("{} {} at attempt {}", text("kind"), text("webhook_id"), text("attempt")),
        "webhook_failed" => {
            let (kind, id, attempt) = (text("kind"), text("webhook_id"), text("attempt"));
            format!("{kind} {id} at attempt {attempt}: {}; {}", text("cause"), next_attempt("dead"))
        }
        "webhook_requeued" | "webhook_dropped" => {
            format!("{} {} by {}", text("kind"), text("webhook_id"), format_peer(entry))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(entry: &Value) -> String {
        let line = format_entry(&field_text(entry, "event"), entry).expect("an event of this module");
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
            "event": "webhook_failed", "webhook_id": "msg_1", "kind": "order.held", "attempt": 4, "cause": "status 500",
            "next_attempt_at": null,
        });
        assert_eq!(line(&failed), "order.held msg_1 at attempt 4: status 500; dead");
    }
}
