//! Log lines for the events of verification.

use super::{field_text, format_peer};
use serde_json::Value;

/// The summary of an entry of the event `name`; `None` if the event is not about verification.
pub(crate) fn format_entry(name: &str, entry: &Value) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decision_is_printed_with_its_kind_stage_and_reasons() {
        let mut entry = json!({
            "execution_id": "v-1", "workflow_id": "census", "kind": "human_review",
            "reasons": ["same_tier", "escalation_threshold"], "inputs": {"stage": "first"},
        });
        let line = |entry: &Value| format_entry("verification_decided", entry).expect("a verification event");
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
            format_entry("source_asked", &call).as_deref(),
            Some("v-1 un-live unknown timeout timed_out cached 5000 ms")
        );
        let opened = json!({
            "review_id": "v-1", "review": {"workflow_id": "census", "axes": {"population": ["same_tier"]}},
        });
        assert_eq!(format_entry("review_opened", &opened).as_deref(), Some("v-1 census: population"));
        let resolved = json!({
            "review_id": "v-1", "resolution": {"reason": "new survey"}, "peer": {"uid": 1, "gid": 2, "pid": 3},
        });
        assert_eq!(
            format_entry("review_resolved", &resolved).as_deref(),
            Some("v-1 by uid 1 gid 2 pid 3: new survey")
        );
        assert_eq!(format_entry("service_started", &call), None);
    }
}
