use crate::system::ActorSystem;
use crate::testing::ground::{PEER, document, ingest_version, open_pipeline, population};
use crate::testing::{TestSystem, logged_events, with_system};
use crate::tests::ground::ingestion::OLD;
use crate::tests::verification::support::source_id;
use actors_ground::registry::*;
use domain_base::document::{AnyDocument, Document};
use domain_base::event::AuditEvent;
use domain_ground::event::{IngestionStarted, RunEntry};
use domain_ground::freshness::FreshnessPolicy;
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source::{SourceRegistration, SourceRegistrationError};
use oracled_domain::documents::DocumentKind;
use oracled_store::{JournalRecord, RowExpectation, RowWrite};
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
    let registered = system.registry.register(ontology, PEER).await;
    registered.expect("the registration succeeds");
    let source = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
    let mut registration: Box<SourceRegistration> = document(source);
    registration.ontology.version = version.into();
    system.registry.register(*registration, PEER).await
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
            system.registry.register(policy, PEER).await
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
        let (ontology, source) = (AnyDocument::from(ontology), AnyDocument::from(source));
        let pipeline = AnyDocument::from(*open_pipeline());
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
        let with_a_fault = [in_order[0].clone(), in_order[1].clone(), AnyDocument::from(*broken)];
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
        assert_eq!(registered(&[AnyDocument::from(*other)], true).await, [Ok(before)]);
    });
}

#[test]
fn second_pipeline_of_a_snapshot_source_is_refused() {
    with_system(|TestSystem { system, .. }| async move {
        let first = population(&system).await;
        let mut second = open_pipeline();
        second.pipeline.pipeline_id = "other".parse().expect("a valid id");
        let refused = system.registry.register(*second.clone(), PEER).await;
        assert!(
            matches!(&refused, Err(RegistryError::SecondPipeline { pipeline_id, .. }) if *pipeline_id == first),
            "{refused:?}"
        );
        assert!(
            system.registry.register(*open_pipeline(), PEER).await.is_ok(),
            "its own pipeline may change"
        );
        // two pipelines of a source whose releases are changes do not withdraw records
        let source = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
        let mut registration: Box<SourceRegistration> = document(source);
        registration.snapshot = false;
        assert!(
            system.registry.register(*registration.clone(), PEER).await.is_ok(),
            "there are no records yet"
        );
        assert!(system.registry.register(*second, PEER).await.is_ok());
        registration.snapshot = true;
        let refused = system.registry.register(*registration, PEER).await;
        assert!(matches!(refused, Err(RegistryError::SecondPipeline { .. })), "{refused:?}");
    });
}

#[test]
fn kinds_with_checks_are_all_kinds_in_the_order_of_their_dependencies() {
    with_system(|TestSystem { system, .. }| async move {
        let checked: Vec<_> = system.registry.kinds().map(|registration| registration.kind.name).collect();
        assert_eq!(checked, DocumentKind::names());
    });
}

#[test]
fn source_and_its_policy_are_registered_documents_and_in_its_state() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let oracle_id = source_id("world-bank-population");
        let (state, _) = system.store.source(&oracle_id).expect("readable").expect("it is registered");
        let mut policy = policy_of(
            &state,
            &system.registry.context.ontology(&state.entry.registration.ontology).expect("it is registered"),
        );
        policy.default_max_age_seconds = 60;
        system.registry.register(policy.clone(), PEER).await.expect("the registration succeeds");

        let (state, _) = system.store.source(&oracle_id).expect("readable").expect("it is registered");
        let documents = [
            (SourceRegistration::TYPE, oracle_id.as_str(), state.entry.registration.to_json()),
            (FreshnessPolicy::TYPE, oracle_id.as_str(), policy.to_json()),
            (PipelineDefinition::TYPE, pipeline_id.as_str(), open_pipeline().to_json()),
        ];
        for (kind, document_id, content) in documents {
            let found = system.registry.find(kind, document_id).expect("readable");
            let (summary, document) = found.expect("it is registered");
            assert_eq!(document, content, "{kind}");
            assert_eq!(summary.registered.map(|(_, by)| by), Some(PEER.uid.to_string()), "{kind}");
            assert_eq!(system.registry.list(kind).expect("readable").len(), 1, "{kind}");
        }
        assert_eq!(state.policy, Some(policy));
    });
}

#[test]
fn definition_of_a_run_outlives_its_registration() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let first = open_pipeline().digest();
        let stored = |sha256| system.store.definition(sha256).expect("readable").is_some();
        assert!(!stored(&first), "no run has used it");
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let mut other = open_pipeline();
        other.pipeline.storage.retention_days += 1;
        system.registry.register(*other.clone(), PEER).await.expect("the registration succeeds");
        assert!(stored(&first) && !stored(&other.digest()));
    });
}
