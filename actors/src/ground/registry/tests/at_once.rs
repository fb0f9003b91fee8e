//! Concurrent changes by two administrators: each is decided before the other one is committed.

use super::*;
use crate::verification::tests::support::{registration, source, workflow_over};
use crate::verification::tests::upstream::adapter_of;
use oracled_domain::verification::Workflow;
use oracled_domain::verification::adapter::Adapter;

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
    system.registry.register(registration, PEER).await.map(drop)
}

async fn registers_workflow(system: &ActorSystem, workflow: &Workflow) -> Result<(), RegistryError> {
    system.registry.register(workflow, PEER).await.map(drop)
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
            let source = after.decide(registry, PEER).expect("no workflow needs it");
            let over_it = workflow.decide(registry, PEER).expect("it still provides it");
            (after, workflow, source, over_it)
        };
        for oracle_id in ["office-a", "office-b"] {
            source(&system, oracle_id, json!({})).await;
        }
        let (after, _, source, over_it) = decide("office-a", "census");
        commits_one(&system, over_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(matches!(refused, Err(RegistryError::WorkflowKept { .. })), "{refused:?}");

        // a registered workflow that changes to another source
        let (after, workflow, source, over_it) = decide("office-b", "census");
        commits_one(&system, over_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(matches!(refused, Err(RegistryError::WorkflowKept { .. })), "{refused:?}");
        assert!(check_workflow(&system.store, &workflow).is_ok());

        let (_, workflow, source, over_it) = decide("office-a", "another");
        commits_one(&system, source, over_it).await;
        let refused = registers_workflow(&system, &workflow).await;
        assert!(matches!(refused, Err(RegistryError::Workflow(_))), "{refused:?}");
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
        let [one, other] = [&a, &b].map(|after| after.decide(registry, PEER).expect("another item exists"));
        commits_one(&system, one, other).await;
        let refused = registers_source(&system, &b).await;
        assert!(matches!(refused, Err(RegistryError::WorkflowKept { .. })), "{refused:?}");
        assert!(check_workflow(&system.store, &workflow).is_ok());
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
            let source = after.decide(registry, PEER).expect("it has no adapter");
            let of_it = adapter.decide(registry, PEER).expect("it still provides it");
            (after, adapter, source, of_it)
        };
        for oracle_id in ["live-a", "live-b"] {
            source(&system, oracle_id, live.clone()).await;
        }
        let (after, _, source, of_it) = decide("live-a");
        commits_one(&system, of_it, source).await;
        let refused = registers_source(&system, &after).await;
        assert!(matches!(refused, Err(RegistryError::AdapterKept(_))), "{refused:?}");

        let (_, adapter, source, of_it) = decide("live-b");
        commits_one(&system, source, of_it).await;
        let refused = system.registry.register(&adapter, PEER).await;
        assert!(matches!(refused, Err(RegistryError::Adapter(_))), "{refused:?}");
        assert!(system.store.registered::<Adapter>("live-b").expect("the document is readable").is_none());
    });
}
