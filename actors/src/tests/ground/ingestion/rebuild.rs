use super::*;
use crate::testing::ground::{PEER, document, open_pipeline};
use domain_ground::axis::Axis;
use domain_ground::ontology::Ontology;
use domain_ground::source::SourceRegistration;
use domain_ground::source_state::SourceState;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const ORACLE_ID: &str = "world-bank-population";

fn oracle_id() -> SourceId {
    ORACLE_ID.parse().expect("a valid id")
}

fn state(system: &ActorSystem) -> SourceState {
    system.store.source(&oracle_id()).expect("the source is readable").expect("the source exists").0
}

/// The files of the source's data, after one bit of the first file was flipped.
fn damaged(world: &TestSystem) -> Vec<PathBuf> {
    let state = state(&world.system);
    let path = |sha256: &Sha256Hex| world.dir.join("ground/facts").join(format!("{sha256}.sorted"));
    let paths: Vec<_> = state.sorted_files().map(|file| path(&file.sha256)).collect();
    let mut bytes = fs::read(&paths[0]).expect("the file exists");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&paths[0], bytes).expect("the write succeeds");
    paths
}

fn export(system: &ActorSystem) -> Vec<u8> {
    let view = system.store.view(&oracle_id()).expect("the source opens").expect("the source exists");
    let mut lines = Vec::new();
    view.export(&mut lines).expect("the export is readable");
    lines
}

async fn rebuilt(system: &ActorSystem) -> Result<RebuildOutcome, IngestionError> {
    let rebuild = RebuildSource { oracle_id: oracle_id(), peer: PEER };
    system.ingestion.ask(rebuild).await.expect("the actor answers")
}

fn refused(rebuilt: Result<RebuildOutcome, IngestionError>) -> String {
    match rebuilt {
        Err(error @ IngestionError::NotRebuilt { .. }) => error.to_string(),
        other => panic!("it should be refused: {other:?}"),
    }
}

#[test]
fn damaged_files_are_rebuilt_from_payloads_after_later_registrations() {
    with_system(|world| async move {
        let system = &world.system;
        let pipeline_id = population(system).await;
        ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
        ingest_version(system, &pipeline_id, NEW, "2023-05-04").await;
        let (before, exported) = (state(system), export(system));
        let runs = system.store.runs().expect("the runs are readable");
        let nothing = rebuilt(system).await.expect("the rebuild succeeds");
        assert_eq!((nothing.runs, nothing.files.len()), (0, 0));

        // the source has another version of the ontology now, and provides fewer axes
        let mut ontology: Ontology =
            document(include_str!("../../../../../examples/ground-truth/ontologies/population.json"));
        ontology.version = "2".into();
        let name =
            ontology.axes.iter().find(|axis| axis.axis == "area_name").expect("the item exists").clone();
        ontology.axes.push(Axis { axis: "former_name".into(), ..name });
        let registered = system.registry.register(ontology, PEER).await;
        registered.expect("the registration succeeds");
        let mut registration: Box<SourceRegistration> =
            document(include_str!("../../../../../examples/ground-truth/sources/world-bank-population.json"));
        registration.ontology.version = "2".into();
        registration.axes_provided.retain(|axis| axis != "area_name");
        let registered = system.registry.register(*registration, PEER).await;
        registered.expect("the registration succeeds");

        let paths = damaged(&world);
        fs::remove_file(&paths[1]).expect("the file exists");
        let outcome = rebuilt(system).await.expect("the rebuild succeeds");
        assert_eq!((outcome.runs, outcome.prunings, outcome.files.len()), (2, 0, 2));
        assert!(export(system) == exported);
        let after = state(system);
        assert_eq!((&after.files, &after.completed), (&before.files, &before.completed));
        assert_eq!(system.store.runs().expect("the runs are readable"), runs);
        let entry = logged_events(&system.store).pop();
        assert_eq!(entry.as_deref(), Some("source_rebuilt"));
        let verify = VerifySourceFiles { oracle_id: oracle_id(), run_id: None, proceed: Arc::new(|_| true) };
        let verified =
            system.ingestion.ask(verify).await.expect("the actor answers").expect("the call succeeds");
        assert_eq!(verified.file_fault, None);
        assert!(verified.runs.iter().all(|run| run.fault_count == 0), "{verified:?}");
        assert_eq!(fs::read_dir(world.dir.join("ground/work")).expect("the directory exists").count(), 0);
    });
}

#[test]
fn rebuild_repeats_a_pruning_and_names_the_run_of_a_missing_payload() {
    with_system(|world| async move {
        let system = &world.system;
        let pipeline_id = population(system).await;
        let first = ingest_version(system, &pipeline_id, OLD, "2003-04-14").await;
        ingest_version(system, &pipeline_id, NEW, "2005-05-04").await;
        let prune = PruneSource { oracle_id: oracle_id(), before: None, peer: PEER };
        let pruned =
            system.ingestion.ask(prune).await.expect("the actor answers").expect("the prune succeeds");
        assert_eq!((pruned.versions, pruned.payloads.len()), (2, 0), "{pruned:?}");
        let exported = export(system);
        assert!(String::from_utf8_lossy(&exported).contains("\"record\":null"));
        damaged(&world);
        let outcome = rebuilt(system).await.expect("the rebuild succeeds");
        assert_eq!((outcome.runs, outcome.prunings, outcome.files.len()), (2, 1, 1));
        assert!(export(system) == exported);

        let entries = system.store.last_seq();
        let paths = damaged(&world);
        let damaged_bytes = fs::read(&paths[0]).expect("the file exists");
        let payload = world.dir.join("ground/raw").join(format!("{}.raw", first.input.raw_sha256));
        fs::remove_file(payload).expect("the file exists");
        let message = refused(rebuilt(system).await);
        let named = [first.run_id.as_str(), "2003-04-14", ORACLE_ID, first.input.raw_sha256.as_str()];
        assert!(named.iter().all(|name| message.contains(name)), "{message}");
        assert!(fs::read(&paths[0]).expect("the file exists") == damaged_bytes);
        assert_eq!(system.store.last_seq(), entries);
        let verify = VerifySourceFiles { oracle_id: oracle_id(), run_id: None, proceed: Arc::new(|_| true) };
        let verified =
            system.ingestion.ask(verify).await.expect("the actor answers").expect("the call succeeds");
        assert!(verified.file_fault.is_some());
        let lost = &verified.runs[0];
        assert_eq!((lost.fault_count, lost.has_payload), (1, true), "{lost:?}");
        // the remedy: to ingest the release again
        let fault = lost.faults[0].replace(&world.dir.display().to_string(), "DIR");
        insta::assert_snapshot!(
            "fault_of_a_run_without_its_payload",
            fault.replace(first.input.raw_sha256.as_str(), "SHA256")
        );

        // submitting the same bytes again restores the payload
        let begin = start_run_message(system, &pipeline_id, archived(system, OLD.as_bytes()), "2003-04-14");
        let begun = system.ingestion.ask(begin).await.expect("the actor answers").expect("the run starts");
        assert!(matches!(begun, StartRunOutcome::Unchanged(_)));
        assert_eq!(rebuilt(system).await.expect("the rebuild succeeds").files.len(), 1);
        assert!(export(system) == exported);
    });
}

#[test]
fn rebuild_fails_if_a_payload_was_not_kept() {
    with_system(|world| async move {
        let system = &world.system;
        population(system).await;
        let mut definition = open_pipeline();
        definition.pipeline.audit.log_raw_input = false;
        system.registry.register(*definition.clone(), PEER).await.expect("the registration succeeds");
        let pipeline_id = definition.pipeline.pipeline_id;
        let run = ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
        // the payload is removed after the run has become visible
        while system.store.files().has_archived(&run.input.raw_sha256) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        damaged(&world);
        let message = refused(rebuilt(system).await);
        assert!(message.contains("`log_raw_input: false`"), "{message}");
    });
}

#[test]
fn rebuild_excludes_runs_and_ends_when_it_is_cancelled() {
    with_system(|world| async move {
        let system = &world.system;
        let pipeline_id = population(system).await;
        let rows = |n: usize| format!("Aruba,{},{},{n}\n", code(n / 150), 1950 + n % 150);
        let many: String = (0..30_000).map(rows).collect();
        let payload = format!("Country Name,Country Code,Year,Value\n{many}");
        let run = ingest_version(system, &pipeline_id, &payload, "2020-04-14").await;
        let paths = damaged(&world);
        let damaged_bytes = fs::read(&paths[0]).expect("the file exists");
        let rebuilding = actix_rt::spawn({
            let ingestion = system.ingestion.clone();
            async move {
                let rebuild = RebuildSource { oracle_id: oracle_id(), peer: PEER };
                ingestion.ask(rebuild).await.expect("the actor answers")
            }
        });
        while system.ingestion.ask(ListRunProgress).await.expect("the actor answers").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let begin = start_run_message(system, &pipeline_id, archived(system, NEW.as_bytes()), "2023-05-04");
        let begun = system.ingestion.ask(begin).await.expect("the actor answers");
        assert!(matches!(begun, Err(IngestionError::Busy { .. })), "{begun:?}");
        let again = rebuilt(system).await;
        assert!(matches!(again, Err(IngestionError::Busy { .. })), "{again:?}");
        let cancel = CancelRun { run_id: run.run_id.clone(), peer: PEER };
        system.ingestion.ask(cancel).await.expect("the actor answers").expect("it goes on");
        let message = refused(rebuilding.await.expect("the task does not panic"));
        assert!(message.contains("cancelled"), "{message}");
        assert!(fs::read(&paths[0]).expect("the file exists") == damaged_bytes);
        assert_eq!(
            system.store.run(&run.run_id).expect("the run is readable").expect("the run exists").0,
            run
        );
        assert_eq!(rebuilt(system).await.expect("the rebuild is not stopped").files.len(), 1);
    });
}

#[test]
fn retention_reports_a_damaged_source_and_goes_on() {
    with_services(TestClock::new(), TestServices::default(), |world| async move {
        let system = &world.system;
        let pipeline_id = population(system).await;
        ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
        ingest_version(system, &pipeline_id, NEW, "2023-05-04").await;
        for path in damaged(&world) {
            fs::write(path, "damaged").expect("the write succeeds");
        }
        world.time.advance(20 * 366 * 86_400);
        let message = PruneOldContent { days: 365, peer: None, is_dry_run: false };
        let report = system.ingestion.ask(message).await.expect("the actor answers").expect("a report");
        assert_eq!((report.sources.len(), report.unpruned.len()), (0, 1), "{report:?}");
        assert_eq!(report.unpruned[0].oracle_id, oracle_id());
    });
}
