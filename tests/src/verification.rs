//! Helpers for verification: sources with a few values each, and a workflow over them.

use crate::DaemonProcess;
use crate::ground::{
    approve, example, ingest, open_pipeline, put_document, register_all, started_run, wait_for_run,
};
use oracled_api::client::DaemonClient;
use serde_json::{Value, json};
use std::ops::Range;

/// A minimal workflow over `oracles`; `settings` are added or replace fields.
///
/// # Panics
/// Panics if `settings` is not an object.
#[must_use]
pub fn workflow(workflow_id: &str, oracles: &[&str], settings: Value) -> Value {
    let mut document = json!({
        "workflow_id": workflow_id, "domain": "population",
        "ontology": {"ontology_id": "population", "version": "1"},
        "axes": ["population"], "oracles": oracles,
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"},
    });
    let settings = settings.as_object().cloned().expect("settings are an object");
    document.as_object_mut().expect("an object").extend(settings);
    document
}

/// Registers `sources` (id, tier, population of Aruba in 1960) and ingests one release of each.
///
/// # Panics
/// Panics if one of them is rejected.
#[allow(clippy::indexing_slicing, reason = "a missing element fails the test")]
pub async fn register_offices(daemon: &DaemonProcess<'_>, sources: &[(&str, &str, &str)]) {
    let control = &mut daemon.control().await;
    let ontology = example("ontologies/population.json");
    for (oracle_id, tier, population) in sources {
        let mut source = example("sources/world-bank-population.json");
        (source["oracle_id"], source["oracle_tier"]) = (json!(oracle_id), json!(tier));
        let mut pipeline = open_pipeline("world-bank-population");
        pipeline["pipeline"]["pipeline_id"] = json!(oracle_id);
        pipeline["pipeline"]["oracle_id"] = json!(oracle_id);
        register_all(control, &ontology, &source, &pipeline).await;
        let payload = format!("Country Name,Country Code,Year,Value\nAruba,ABW,1960,{population}\n");
        let run = ingest(control, oracle_id, "2026-03-06", "2026-03-06", payload).await;
        let run = wait_for_run(control, &started_run(&run)).await;
        assert_eq!(run["counts"]["records"], 1, "{run}");
        approve(control, oracle_id).await;
    }
}

/// Ingests one more release of each of `sources`, with the same population in all of `years`.
///
/// # Panics
/// Panics if one of them is rejected.
#[allow(clippy::indexing_slicing, reason = "a missing element fails the test")]
pub async fn several_years(daemon: &DaemonProcess<'_>, sources: &[(&str, &str)], years: Range<u16>) {
    let control = &mut daemon.control().await;
    for (oracle_id, population) in sources {
        let rows = years.clone().map(|year| format!("Aruba,ABW,{year},{population}\n"));
        let payload = format!("Country Name,Country Code,Year,Value\n{}", rows.collect::<String>());
        let run = ingest(control, oracle_id, "2026-03-07", "2026-03-07", payload).await;
        assert_eq!(wait_for_run(control, &started_run(&run)).await["state"], "completed");
    }
}

/// Registers a workflow over sources that are registered.
///
/// # Panics
/// Panics if it is rejected.
pub async fn register(control: &mut DaemonClient, workflow: &Value) {
    let workflow_id = workflow.get("workflow_id").and_then(Value::as_str).expect("the workflow has an id");
    let answer = put_document(control, &format!("/v1/documents/workflow/{workflow_id}"), workflow).await;
    assert_eq!(answer.status, 200, "{}", crate::document(&answer));
}
