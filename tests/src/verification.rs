//! Verification from outside: sources with a few values each, and a workflow over them.

use crate::ground::{approve, begun, ended, example, ingest, register_all, stopped};
use crate::{Daemon, World};
use domain::event::verification::WorkflowEntry;
use domain::verification::Workflow;
use domain::verification::workflow::RegisteredWorkflow;
use domain::{Event, Peer};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Record, Write};

/// A workflow over `oracles`, with these settings beside the simplest ones.
///
/// # Panics
/// Where the settings are no object.
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
    let settings = settings.as_object().cloned().expect("settings are fields");
    document.as_object_mut().expect("it is an object").extend(settings);
    document
}

/// Has each of `sources`, with its tier, say how many people lived in Aruba in 1960.
///
/// # Panics
/// Where one of them is not taken.
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
pub async fn offices(daemon: &Daemon<'_>, sources: &[(&str, &str, &str)]) {
    let control = &mut daemon.control().await;
    let ontology = example("ontologies/population.json");
    for (oracle_id, tier, population) in sources {
        let mut source = example("sources/world-bank-population.json");
        (source["oracle_id"], source["oracle_tier"]) = (json!(oracle_id), json!(tier));
        let mut pipeline = example("pipelines/world-bank-population.json");
        pipeline["pipeline"]["pipeline_id"] = json!(oracle_id);
        pipeline["pipeline"]["oracle_id"] = json!(oracle_id);
        register_all(control, &ontology, &source, &pipeline).await;
        let payload = format!("Country Name,Country Code,Year,Value\nAruba,ABW,1960,{population}\n");
        let run = ingest(control, oracle_id, "2026-03-06", "2026-03-06", payload).await;
        let run = ended(control, &begun(&run)).await;
        assert_eq!(run["counts"]["records"], 1, "{run}");
        approve(control, oracle_id).await;
    }
}

/// Registers workflows in a world that is not served yet.
///
/// # Panics
/// Where they are none.
pub fn registered(world: &World, workflows: &[Value]) {
    let (mut journal, _) = stopped(&world.state());
    for document in workflows {
        let workflow: Workflow = serde_json::from_value(document.clone()).expect("it is a workflow");
        let registered = json!({"workflow": workflow, "workflow_sha256": workflow.digest(),
            "registered_at": "2026-01-01T00:00:00Z", "registered_by": "0"});
        let registered: RegisteredWorkflow = serde_json::from_value(registered).expect("it is registered");
        let entry = WorkflowEntry {
            workflow_id: workflow.workflow_id.clone(),
            before_sha256: None,
            workflow_sha256: workflow.digest(),
            workflow: Box::new(workflow),
            peer: Peer { uid: 0, gid: 0, pid: None },
            timestamp: registered.registered_at,
        };
        let mut record = Record::from(Event::WorkflowRegistered(entry));
        record.writes.push(Write::PutWorkflow(Arc::new(registered)));
        let committed = journal.commit(&[record]).expect("the disk takes it");
        assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    }
}
