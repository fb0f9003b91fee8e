//! The checks of adapters, of workflows, and of the sources that they need.

use super::support::{registration, source, workflow_over};
use super::upstream::adapter_of;
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use crate::testing::{TestSystem, with_system};
use actors_audit::logger::CommitError;
use actors_ground::registry::{DocumentChecks, DocumentFault, RegistryError, SourceChecks};
use actors_verification::documents::{AdapterChecks, WorkflowChecks, read_status};
use domain_ground::source::SourceRegistration;
use domain_verification::Workflow;
use domain_verification::adapter::Adapter;
use domain_verification::workflow::CAN_DECIDE;
use oracled_store::JournalRecord;
use serde_json::{Value as Json, json};

fn fault_of(refused: &Result<(), RegistryError>) -> Option<DocumentFault> {
    match refused {
        Err(RegistryError::Document { fault, .. }) => Some(*fault),
        _ => None,
    }
}

/// Commits one decision, and checks that the other one, made over the same rows, is then stale.
async fn commits_one(system: &ActorSystem, one: Option<JournalRecord>, other: Option<JournalRecord>) {
    let (Some(one), Some(other)) = (one, other) else { panic!("both change it") };
    system.log.commit(one).await.expect("nothing has changed");
    let late = system.log.commit(other).await;
    assert!(matches!(late, Err(CommitError::Stale(_))), "{late:?}");
}

async fn registers_source(
    system: &ActorSystem,
    registration: &SourceRegistration,
) -> Result<(), RegistryError> {
    system.registry.register(registration.clone(), PEER).await.map(drop)
}

async fn registers_workflow(system: &ActorSystem, workflow: &Workflow) -> Result<(), RegistryError> {
    system.registry.register(workflow.clone(), PEER).await.map(drop)
}

/// Checks that the sources still fit the workflow; none of them is approved.
fn assert_works(system: &ActorSystem, workflow: &Workflow) {
    let status = read_status(&system.store, workflow).expect("the store is readable");
    assert!(status == CAN_DECIDE || status.starts_with("cannot use all"), "{status}");
}

/// A source that does not provide the axis `population`.
fn without_people(oracle_id: &str, mut settings: Json) -> SourceRegistration {
    settings["axes_provided"] = json!(["area", "area_name", "year"]);
    registration(oracle_id, settings)
}

#[test]
fn workflow_and_a_source_dropping_its_axis_are_serialized() {
    with_system(|TestSystem { system, .. }| async move {
        let registry = &system.registry;
        let decide = |oracle_id, workflow_id: &str| {
            let after = without_people(oracle_id, json!({}));
            let workflow = workflow_over(&[oracle_id], json!({"workflow_id": workflow_id}));
            let source = SourceChecks::decide(&after, registry, PEER).expect("no workflow needs it");
            let over_it = WorkflowChecks::decide(&workflow, registry, PEER).expect("it still provides it");
            (after, workflow, source, over_it)
        };
        for oracle_id in ["office-a", "office-b"] {
            source(&system, oracle_id, json!({})).await;
        }
        let (after, _, source, over_it) = decide("office-a", "census");
        commits_one(&system, over_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(fault_of(&refused) == Some(DocumentFault::Fixed), "{refused:?}");

        // a registered workflow that changes to another source
        let (after, workflow, source, over_it) = decide("office-b", "census");
        commits_one(&system, over_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(fault_of(&refused) == Some(DocumentFault::Fixed), "{refused:?}");
        assert_works(&system, &workflow);

        let (_, workflow, source, over_it) = decide("office-a", "another");
        commits_one(&system, source, over_it).await;
        let refused = registers_workflow(&system, &workflow).await;
        assert!(fault_of(&refused) == Some(DocumentFault::Invalid), "{refused:?}");
    });
}

#[test]
fn only_one_of_two_concurrent_losses_of_trust_is_committed() {
    with_system(|TestSystem { system, .. }| async move {
        let registry = &system.registry;
        for oracle_id in ["office-a", "office-b"] {
            source(&system, oracle_id, json!({})).await;
        }
        let workflow = workflow_over(&["office-a", "office-b"], json!({}));
        registers_workflow(&system, &workflow).await.expect("the call succeeds");
        let [a, b] =
            ["office-a", "office-b"].map(|id| registration(id, json!({"oracle_tier": "unverified"})));
        let [one, other] =
            [&a, &b].map(|after| SourceChecks::decide(after, registry, PEER).expect("another item exists"));
        commits_one(&system, one, other).await;
        let refused = registers_source(&system, &b).await;
        assert!(fault_of(&refused) == Some(DocumentFault::Fixed), "{refused:?}");
        assert_works(&system, &workflow);
    });
}

#[test]
fn adapter_and_a_source_dropping_what_it_reads_are_serialized() {
    with_system(|TestSystem { system, .. }| async move {
        let registry = &system.registry;
        let live = json!({"adapter_id": "http"});
        let decide = |oracle_id| {
            let (after, adapter) =
                (without_people(oracle_id, live.clone()), adapter_of(oracle_id, json!({})));
            let source = SourceChecks::decide(&after, registry, PEER).expect("it has no adapter");
            let of_it = AdapterChecks::decide(&adapter, registry, PEER).expect("it still provides it");
            (after, adapter, source, of_it)
        };
        for oracle_id in ["live-a", "live-b"] {
            source(&system, oracle_id, live.clone()).await;
        }
        let (after, _, source, of_it) = decide("live-a");
        commits_one(&system, of_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(fault_of(&refused) == Some(DocumentFault::Invalid), "{refused:?}");

        let (_, adapter, source, of_it) = decide("live-b");
        commits_one(&system, source, of_it).await;
        let refused = system.registry.register(adapter, PEER).await.map(drop);
        assert!(fault_of(&refused) == Some(DocumentFault::Invalid), "{refused:?}");
        assert!(system.store.registered::<Adapter>("live-b").expect("the document is readable").is_none());
    });
}
