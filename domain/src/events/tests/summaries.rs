//! The summaries of entries.

use super::{all, event_type};
use domain_base::event::EntryMembers;
use serde_json::{Value, json};

/// The event and the summary of an entry.
fn line(entry: &Value) -> String {
    let entry = EntryMembers(entry);
    let kind = event_type(&entry.text("event")).expect("a known event");
    format!("{}: {}", kind.name, (kind.summary)(entry).split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn summary_of_every_event_matches_its_snapshot() {
    let entries = all().into_iter().map(|event| serde_json::to_value(event).expect("the value serializes"));
    let lines: Vec<_> = entries.map(|entry| line(&entry)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn summary_depends_on_the_members_of_the_entry() {
    let peer = json!({"uid": 1, "gid": 2, "pid": 3});
    let hidden = json!({"sha256": "ab"});
    let entries = [
        json!({"event": "oracle_health_changed", "oracle_id": "model", "from": "healthy", "to": "degraded", "cause": "status 500"}),
        json!({"event": "oracle_health_changed", "oracle_id": "model", "from": "healthy", "to": "degraded", "cause": "status 500", "peer": peer}),
        json!({"event": "rules_evaluated", "verdict": "FAIL", "rules": [
            {"rule": "RULE-PREC-001", "verdict": "PASS"},
            {"rule": "RULE-PREC-003", "verdict": "FAIL"},
            {"rule": "RULE-CONT-001", "verdict": "ERROR"},
        ]}),
        json!({"event": "rules_evaluated", "case_id": "page 7", "verdict": "PASS", "rules": []}),
        json!({"event": "order_attempted", "attempt": 2, "generation": {"settings": {"model": "m-1"}}}),
        json!({"event": "order_attempted", "attempt": 2, "generation": {"settings": {"model": "m-1"}}, "is_last": true}),
        json!({"event": "order_attempted", "attempt": 2, "generation": hidden}),
        json!({"event": "order_attempt_failed", "attempt": 2, "outcome": "model_timeout", "cause": "no answer within 9 s", "next_attempt_at": "2026-11-20T10:00:00Z"}),
        json!({"event": "order_attempt_failed", "attempt": 2, "outcome": "model_timeout", "cause": hidden, "next_attempt_at": null}),
        json!({"event": "order_stopped", "state": "failed", "cause": "generations", "attempts": 3, "reason": null, "peer": null}),
        json!({"event": "session_corrected", "original_verdict": {"before": "GREEN", "after": "GREEN"}, "address_changed": true, "peer": peer}),
        json!({"event": "session_corrected", "original_verdict": {"before": "GREEN", "after": "RED"}, "address_changed": true, "peer": peer}),
        json!({"event": "retention_started", "peer": peer}),
        json!({"event": "regen_divergence_check", "original_verdict": "GREEN", "regen_verdict": "RED", "divergence_level": "top"}),
        json!({"event": "verification_decided", "execution_id": "v-1", "workflow_id": "census", "kind": "human_review",
            "reasons": ["same_tier", "escalation_threshold"], "inputs": {"stage": "delayed"}}),
        json!({"event": "source_asked", "execution_id": "v-1", "oracle_id": "un-live", "oracle_version": "unknown", "status": "timeout",
            "error_code": "timed_out", "stale_data_used": true, "latency_ms": 5000}),
        json!({"event": "review_opened", "review_id": "v-1", "review": hidden}),
        json!({"event": "ingestion_ended", "oracle_id": "cnf", "version": "2015", "state": "failed",
            "counts": {"records": 1, "rejected": 0}, "cause": "the disk is full"}),
        json!({"event": "tmm_crosscheck", "flags": hidden}),
        json!({"event": "service_started"}),
    ];
    insta::assert_snapshot!(entries.iter().map(line).collect::<Vec<_>>().join("\n"));
}
