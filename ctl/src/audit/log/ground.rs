//! Log lines for the events of the ground-truth layer.

use super::{field_text, format_peer};
use serde_json::Value;

/// The summary of an entry of the event `name`; `None` if the event is not about sources and their facts.
pub(crate) fn format_entry(name: &str, entry: &Value) -> Option<String> {
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
    fn ended_run_is_printed_with_its_state_and_counts() {
        let entry = json!({
            "event": "ingestion_ended", "oracle_id": "cnf", "version": "2015", "state": "completed",
            "counts": {"records": 16, "rejected": 2},
        });
        let line = format_entry("ingestion_ended", &entry).expect("a ground-truth event");
        assert_eq!(line.trim_end(), "cnf 2015 completed: 16 records, 2 rejected");
        assert_eq!(format_entry("service_started", &entry), None);
    }
}
