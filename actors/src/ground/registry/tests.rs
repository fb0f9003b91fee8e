use super::*;
use crate::ground::ingestion::tests::OLD;
use crate::system::ActorSystem;
use crate::testing::ground::{PEER, document, ingest_version, open_pipeline, population};
use crate::testing::{TestSystem, logged_events, with_system};
use crate::verification::tests::support::{registration, source, source_id, workflow_over};
use crate::verification::tests::upstream::adapter_of;
use oracled_domain::AuditEvent;
use oracled_domain::documents::AnyDocument;
use oracled_domain::ground::event::IngestionStarted;
use oracled_domain::ground::event::RunEntry;
use oracled_domain::ground::run::{IngestionRun, RunState};
use oracled_domain::ground::source::SourceRegistration;
use oracled_domain::verification::Workflow;
use oracled_domain::verification::adapter::Adapter;
use oracled_store::JournalRecord;
use oracled_store::{RowExpectation, RowWrite};
use serde_json::{Value as Json, json};

/// Registers another version of the population ontology, and the source with that version.
async fn registered_by(
    system: &ActorSystem,
    version: &str,
    change: impl FnOnce(&mut Json),
) -> Result<DocumentChange, RegistryError> {
    let mut ontology: Json =
        document(include_str!("../../../../examples/ground-truth/ontologies/population.json"));
    ontology["version"] = json!(version);
    change(&mut ontology);
    let ontology: Ontology = document(&ontology.to_string());
    let registered = system.registry.register(&ontology, PEER).await;
    registered.expect("the registration succeeds");
    let source = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
    let mut registration: Box<SourceRegistration> = document(source);
    registration.ontology.version = version.into();
    system.registry.register(&*registration, PEER).await
}

#[test]
fn source_with_records_rejects_an_ontology_that_changes_their_meaning() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let thousands = |ontology: &mut Json| ontology["axes"][3]["unit"] = json!("10*3.{person}");
        assert!(registered_by(&system, "thousands", thousands).await.is_ok(), "there are no records yet");
        assert!(registered_by(&system, "1.1", |_| {}).await.is_ok());
        assert!(registered_by(&system, "1", |_| {}).await.is_ok());
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let refused = registered_by(&system, "thousands", thousands).await;
        assert!(
            matches!(refused, Err(RegistryError::Source(SourceRegistrationError::Ontology { .. }))),
            "{refused:?}"
        );
        let described = |ontology: &mut Json| ontology["axes"][3]["description"] = json!("Residents");
        assert!(registered_by(&system, "2", described).await.is_ok());
    });
}

#[test]
fn running_run_counts_as_records_of_the_source() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        // a payload with only a header brings no records
        let failed =
            ingest_version(&system, &pipeline_id, "Country Name,Country Code,Year,Value\n", "2020-04-14")
                .await;
        assert_eq!(failed.state, RunState::Failed);
        let more = |ontology: &mut Json| ontology["axes"].as_array_mut().expect("a list").swap(2, 3);
        assert!(registered_by(&system, "2", more).await.is_ok(), "it has ended");
        let (run, revision) =
            system.store.run(&failed.run_id).expect("the run is readable").expect("the run exists");
        let goes_on = IngestionRun { state: RunState::Running, ..run };
        let run = Box::new(goes_on.clone());
        let entry = RunEntry { run, peer: Some(PEER) };
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<IngestionRun>(&failed.run_id, Some(revision))],
            events: vec![AuditEvent::new(failed.started_at, None, IngestionStarted(entry))],
            writes: vec![RowWrite::put::<IngestionRun>(&goes_on)],
            ..JournalRecord::default()
        };
        system.log.commit(record).await.expect("the commit succeeds");
        let refused = registered_by(&system, "1", |_| {}).await;
        assert!(
            matches!(refused, Err(RegistryError::Source(SourceRegistrationError::Ontology { .. }))),
            "{refused:?}"
        );
    });
}

#[test]
fn policy_must_be_valid_with_a_new_ontology_of_its_source() {
    with_system(|TestSystem { system, .. }| async move {
        population(&system).await;
        let set = async |max_age_seconds: u64| {
            let policy = json!({
                "oracle_id": "world-bank-population", "axis_freshness": {}, "default_max_age_seconds": max_age_seconds,
                "default_stale_behavior": "serve_stale_silent", "invalidation_triggers": [],
            });
            let policy: FreshnessPolicy = document(&policy.to_string());
            system.registry.register(&policy, PEER).await
        };
        assert!(set(3600).await.is_ok());
        let bounded = |ontology: &mut Json| {
            ontology["axes"][3]["state_sensitive"] = json!(true);
            ontology["axes"][3]["max_ttl_seconds"] = json!(60);
        };
        let refused = registered_by(&system, "2", bounded).await;
        assert!(matches!(refused, Err(RegistryError::PolicyKept(_))), "{refused:?}");
        assert!(set(60).await.is_ok());
        assert!(registered_by(&system, "2", bounded).await.is_ok());
    });
}

#[test]
fn documents_are_registered_together_in_one_commit_or_not_at_all() {
    with_system(|TestSystem { system, .. }| async move {
        let ontology: Ontology =
            document(include_str!("../../../../examples/ground-truth/ontologies/population.json"));
        let source: SourceRegistration =
            document(include_str!("../../../../examples/ground-truth/sources/world-bank-population.json"));
        let (ontology, source) = (AnyDocument::Ontology(ontology.into()), AnyDocument::Source(source.into()));
        let pipeline = AnyDocument::Pipeline(open_pipeline());
        let in_order = [ontology, source, pipeline];
        let before = logged_events(&system.store).len();
        let registered = async |documents: &[AnyDocument], dry_run: bool| {
            let changes =
                system.registry.register_all(documents, dry_run, PEER).await.expect("the decision succeeds");
            changes.into_iter().map(|change| change.map_err(|error| error.to_string())).collect::<Vec<_>>()
        };
        let created = || Ok(DocumentChange::Created);
        assert_eq!(registered(&in_order, true).await, [created(), created(), created()]);
        // without the ontology nothing else can be registered
        assert!(registered(&in_order[1..], false).await.iter().all(Result::is_err));
        let mut broken = open_pipeline();
        broken.pipeline.oracle_id = source_id("nowhere");
        let with_a_fault = [in_order[0].clone(), in_order[1].clone(), AnyDocument::Pipeline(broken)];
        assert!(registered(&with_a_fault, false).await[2].is_err());
        assert_eq!(logged_events(&system.store).len(), before, "nothing was committed");
        assert!(system.store.sources().expect("the sources are readable").is_empty());

        assert_eq!(registered(&in_order, false).await, [created(), created(), created()]);
        assert_eq!(logged_events(&system.store).len(), before + 3);
        let unchanged = || Ok(DocumentChange::Unchanged);
        assert_eq!(registered(&in_order, false).await, [unchanged(), unchanged(), unchanged()]);
        let mut other = open_pipeline();
        other.pipeline.audit.log_raw_input = false;
        let before = DocumentChange::Changed(in_order[2].to_json().into());
        assert_eq!(registered(&[AnyDocument::Pipeline(other)], true).await, [Ok(before)]);
    });
}

#[test]
fn second_pipeline_of_a_snapshot_source_is_refused() {
    with_system(|TestSystem { system, .. }| async move {
        let first = population(&system).await;
        let mut second = open_pipeline();
        second.pipeline.pipeline_id = "other".parse().expect("a valid id");
        let refused = system.registry.register(&*second, PEER).await;
        assert!(
            matches!(&refused, Err(RegistryError::SecondPipeline { pipeline_id, .. }) if *pipeline_id == first),
            "{refused:?}"
        );
        assert!(
            system.registry.register(&*open_pipeline(), PEER).await.is_ok(),
            "its own pipeline may change"
        );
        // two pipelines of a source whose releases are changes do not withdraw records
        let source = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
        let mut registration: Box<SourceRegistration> = document(source);
        registration.snapshot = false;
        assert!(system.registry.register(&*registration, PEER).await.is_ok(), "there are no records yet");
        assert!(system.registry.register(&*second, PEER).await.is_ok());
        registration.snapshot = true;
        let refused = system.registry.register(&*registration, PEER).await;
        assert!(matches!(refused, Err(RegistryError::SecondPipeline { .. })), "{refused:?}");
    });
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
