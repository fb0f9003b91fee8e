use super::*;
use crate::documents::{DocumentEntry, DocumentRegistered};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::EventKind;
use domain_ground::event::{
    ConfirmationCause, ConfirmationEntry, IngestionEnded, IngestionStarted, InvalidationCause,
    InvalidationEntry, PruneEntry, PullEnded, PullEndedEntry, PullFailed, PullFailedEntry, PullStarted,
    PullStartedEntry, QueryEntry, RebuildEntry, RunEntry, SourceChange, SourceChanged, SourceConfirmed,
    SourceEntry, SourceInvalidated, SourcePruned, SourceQueried, SourceReadKind, SourceReadOutcome,
    SourceRebuilt,
};
use domain_ground::freshness::FreshnessPolicy;
use domain_ground::ontology::OntologyRef;
use domain_ground::rejection::RecordRule;
use domain_ground::run::{IngestionRun, RunCounts, RunInput, RunState, SortedFileRef};
use domain_ground::source::{SourceRegistryEntry, UpdateFrequency};

fn source(timestamp: Timestamp) -> SourceRegistryEntry {
    let document = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
    SourceRegistryEntry::new(
        serde_json::from_str(document).expect("a valid registration"),
        "0".into(),
        timestamp,
    )
}

fn run(timestamp: Timestamp) -> IngestionRun {
    let sha256 = Sha256Hex::of(b"");
    let input = RunInput {
        ontology: OntologyRef { ontology_id: "population".parse().expect("a valid id"), version: "1".into() },
        pipeline_sha256: sha256.clone(),
        raw_sha256: sha256.clone(),
        released_at: timestamp,
        version: "2020".into(),
    };
    IngestionRun {
        run_id: input.run_id(),
        oracle_id: "world-bank-population".parse().expect("a valid id"),
        number: 1,
        pipeline_id: "world-bank-population".parse().expect("a valid id"),
        input,
        snapshot: true,
        replace: false,
        undoes: None,
        raw_bytes: 7,
        source_url: None,
        retrieved_at: None,
        invalidation_count: 0,
        requested_by: "0".into(),
        state: RunState::Completed,
        started_at: timestamp,
        ended_at: Some(timestamp),
        counts: RunCounts {
            read: 3,
            records: 1,
            rejected: 2,
            rejected_by_rule: [(RecordRule::Schema, 2)].into(),
            ..RunCounts::default()
        },
        rows: Some(SortedFileRef { sha256, size_bytes: 1, rows: 3, statements: 0 }),
        cause: None,
        breaches: Vec::new(),
        decision: None,
    }
}

fn pull_events(run: &IngestionRun) -> [EventKind; 3] {
    let (pipeline_id, requested_by) = (run.pipeline_id.clone(), "schedule".to_owned());
    let begun = PullStartedEntry { pipeline_id, requested_by, peer: None };
    let PullStartedEntry { pipeline_id, requested_by, peer, .. } = begun.clone();
    let run_id = Some(run.run_id.clone());
    let ended = PullEndedEntry { pipeline_id, requested_by, run_id, peer };
    let PullStartedEntry { pipeline_id, requested_by, peer, .. } = begun.clone();
    let failed = PullFailedEntry { pipeline_id, requested_by, cause: "status 502".into(), peer };
    [PullStarted(begun).into(), PullEnded(ended).into(), PullFailed(failed).into()]
}

fn query_events(timestamp: Timestamp) -> SourceQueried {
    SourceQueried(QueryEntry {
        read: SourceReadKind::Query,
        oracle_id: Some("world-bank-population".parse().expect("a valid id")),
        query_id: None,
        request_sha256: Sha256Hex::of_canonical_json(&["population"]),
        point_in_time: None,
        known_at: Some(timestamp),
        outcome: SourceReadOutcome::Answered,
        data_version: Some("2020".into()),
        records_returned: 1,
        freshness: None,
        latency_ms: 0.5,
    })
}

pub(super) fn all(peer: PeerCredentials, timestamp: Timestamp) -> Vec<EventKind> {
    let sha256 = Sha256Hex::of(b"");
    let source = source(timestamp);
    let oracle_id = source.oracle_id().clone();
    let policy = FreshnessPolicy::default_for(oracle_id.clone(), UpdateFrequency::Annual, &[]);
    let run = Box::new(run(timestamp));
    let [pull_started, pull_ended, pull_failed] = pull_events(&run);
    let queried = query_events(timestamp);
    kinds![
        DocumentRegistered(DocumentEntry::new(Some(&policy), &policy, peer)),
        SourceChanged(SourceEntry {
            oracle_id: oracle_id.clone(),
            change: SourceChange::Approved,
            before: Box::new(source.clone()),
            after: Box::new(source.approve()),
            peer,
        }),
        SourceInvalidated(InvalidationEntry {
            oracle_id: oracle_id.clone(),
            trigger: InvalidationCause::Manual,
            detail: String::new(),
            peer: Some(peer),
        }),
        SourceConfirmed(ConfirmationEntry {
            oracle_id: oracle_id.clone(),
            invalidated_at: timestamp,
            confirmed_by: ConfirmationCause::Pull,
            detail: String::new(),
            peer: None,
        }),
        pull_started,
        pull_ended,
        pull_failed,
        IngestionStarted(RunEntry { run: run.clone(), peer: Some(peer) }),
        IngestionEnded(RunEntry { run, peer: None }),
        SourcePruned(PruneEntry {
            oracle_id: oracle_id.clone(),
            before: timestamp,
            versions: 4,
            payloads: vec![sha256.clone()],
            peer: Some(peer),
        }),
        SourceRebuilt(RebuildEntry { oracle_id, runs: 2, prunings: 1, files: vec![sha256], peer }),
        queried,
    ]
}
