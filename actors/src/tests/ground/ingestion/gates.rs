//! Releases that break a gate, and the operators' decisions about them.

use super::*;
use crate::testing::ground::{approve_source, gallery_pipeline, register_pipeline};
use domain_ground::query::{OracleQuery, QueryAnswer, QueryRequest};
use domain_ground::run::GateBreach;
use domain_ground::timeline::{ReleaseScope, VersionChangeKind};

/// The source, approved, with the gallery's gates and one release of 100 records.
async fn pipeline_with_hundred_records(system: &ActorSystem) -> PipelineId {
    population(system).await;
    let pipeline_id = register_pipeline(system, gallery_pipeline()).await;
    let run = ingest_version(system, &pipeline_id, &rows(0..100, "1"), "2020-04-14").await;
    assert_eq!(run.state, RunState::Completed, "{run:?}");
    approve_source(system, &run.oracle_id).await;
    pipeline_id
}

/// A payload with one record for each of these years, each with this value.
fn rows(years: std::ops::Range<u32>, value: &str) -> String {
    let rows = years.map(|year| format!("Aruba,ABW,{},{value}\n", 1900 + year));
    format!("Country Name,Country Code,Year,Value\n{}", rows.collect::<String>())
}

async fn all(system: &ActorSystem, known_at: Option<Timestamp>) -> QueryAnswer {
    let request = QueryRequest {
        axes_requested: vec!["population".into()],
        include_provenance: true,
        max_results: Some(1000),
        known_at,
        ..QueryRequest::default()
    };
    let oracle_id = "world-bank-population".parse().expect("a valid id");
    let query = OracleQuery { query_id: Some("q".into()), oracle_id, request };
    crate::tests::ground::queries::ask(system, query).await.expect("the actor answers")
}

fn state(system: &ActorSystem) -> domain_ground::source_state::SourceState {
    let oracle_id = "world-bank-population".parse().expect("a valid id");
    system.store.source(&oracle_id).expect("the source is readable").expect("the source exists").0
}

pub(super) fn approval(run: &IngestionRun) -> ApproveRun {
    let reason = "checked against the publisher's notes".to_owned();
    ApproveRun { run_id: run.run_id.clone(), reason, outdated_by: None, peer: PEER }
}

async fn approve(system: &ActorSystem, run: &IngestionRun) -> Result<IngestionRun, IngestionError> {
    let run = system.ingestion.ask(approval(run)).await.expect("the actor answers")?;
    Ok(wait_for_run(system, StartRunOutcome::Started(Box::new(run))).await)
}

async fn discard(system: &ActorSystem, run: &IngestionRun) -> Result<IngestionRun, IngestionError> {
    let discard = DiscardRun { run_id: run.run_id.clone(), reason: "a broken export".into(), peer: PEER };
    system.ingestion.ask(discard).await.expect("the actor answers")
}

async fn undo(system: &ActorSystem, run: &IngestionRun) -> Result<IngestionRun, IngestionError> {
    let undo = UndoRun { run_id: run.run_id.clone(), reason: "the publisher withdrew it".into(), peer: PEER };
    system.ingestion.ask(undo).await.expect("the actor answers")
}

#[test]
fn release_that_breaks_gates_is_held_and_changes_no_answer() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let before = all(&system, None).await;
        // half of the rows are missing, and three of the others cannot be read
        let payload = rows(0..50, "2").replacen(",2\n", ",\"2,0\"\n", 3);
        let run = ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        assert_eq!(run.state, RunState::Held, "{run:?}");
        let gates: Vec<_> = run.breaches.iter().map(std::mem::discriminant).collect();
        let ratio = || domain_base::decimal::Decimal::from(0);
        let expected = [
            GateBreach::MaxRejectedRatio { rejected: 3, read: 50, allowed: ratio() },
            GateBreach::MaxWithdrawnRatio { withdrawn: 50, in_force: 100, allowed: ratio() },
        ];
        assert_eq!(gates, expected.each_ref().map(std::mem::discriminant));
        assert_eq!(run.counts.effect.map(|effect| (effect.in_force, effect.withdrawn)), Some((100, 50)));
        let rejects = system.store.rejects(&run, None, 10).expect("the rejects are readable");
        assert_eq!(rejects.len(), 3, "its rejects can be read");
        assert_eq!(all(&system, None).await.response.records, before.response.records);
        assert_eq!(state(&system).held, std::slice::from_ref(&run.run_id));

        let again = ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        assert_eq!((again.run_id, again.state), (run.run_id, RunState::Held), "it is held once");
        assert_eq!(state(&system).held.len(), 1);
    });
}

#[test]
fn held_run_becomes_visible_only_when_it_is_approved() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        let run = approve(&system, &held).await.expect("the run is held");
        assert_eq!((run.state, run.run_id.clone()), (RunState::Completed, held.run_id.clone()), "{run:?}");
        assert_eq!(run.breaches, held.breaches, "the approved breaches stay readable");
        let decision = run.decision.expect("an operator has decided");
        assert_eq!(
            (decision.decided_by.as_str(), decision.reason.as_str()),
            ("7", "checked against the publisher's notes")
        );
        assert_eq!(all(&system, None).await.response.records.len(), 50);
        assert!(state(&system).held.is_empty());
        let before = logged_events(&system.store).len();
        let again = approve(&system, &held).await.expect("the same operator has approved it");
        assert_eq!((again.run_id, again.state), (held.run_id.clone(), RunState::Completed));
        assert_eq!(logged_events(&system.store).len(), before, "a repeated approval is not logged");
        let other = ApproveRun { peer: PeerCredentials { uid: 8, ..PEER }, ..approval(&held) };
        let other = system.ingestion.ask(other).await.expect("the actor answers");
        assert!(matches!(other, Err(IngestionError::NotHeld { .. })), "{other:?}");
        let discarded = discard(&system, &held).await;
        assert!(matches!(discarded, Err(IngestionError::NotHeld { .. })), "{discarded:?}");
    });
}

#[test]
fn held_run_whose_comparison_is_outdated_is_approved_only_by_who_knows_that() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        assert_eq!(state(&system).run_since(&held), None);
        let later = ingest_version(&system, &pipeline_id, &rows(0..101, "1"), "2023-05-05").await;
        assert_eq!(later.state, RunState::Completed, "{later:?}");
        assert_eq!(state(&system).run_since(&later), None, "it is not held");
        let refused = approve(&system, &held).await;
        let Err(IngestionError::Outdated { by: Some(by), .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(by, later.run_id);
        assert_eq!(state(&system).held, std::slice::from_ref(&held.run_id));
        let known =
            |run: &IngestionRun| ApproveRun { outdated_by: Some(run.run_id.clone()), ..approval(&held) };
        let other = system.ingestion.ask(known(&held)).await.expect("the actor answers");
        assert!(matches!(other, Err(IngestionError::Outdated { .. })), "{other:?}");
        let run = system.ingestion.ask(known(&later)).await.expect("the actor answers");
        let run = StartRunOutcome::Started(Box::new(run.expect("the run is held")));
        assert_eq!(wait_for_run(&system, run).await.state, RunState::Completed);
    });
}

#[test]
fn discarded_run_stays_invisible_and_can_be_submitted_again() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        let run = discard(&system, &held).await.expect("the run is held");
        assert_eq!(run.state, RunState::Discarded);
        assert!(state(&system).held.is_empty());
        assert_eq!(all(&system, None).await.response.records.len(), 100);
        let again = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        assert_eq!(again.state, RunState::Held, "an operator submits it once more");
        let right = ingest_version(&system, &pipeline_id, &rows(0..100, "2"), "2023-05-05").await;
        assert_eq!(right.state, RunState::Completed, "another version is not kept back");
    });
}

#[test]
fn rejected_record_keeps_its_former_value_unconfirmed() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let payload = rows(0..100, "2").replacen(",2\n", ",\"2,0\"\n", 1);
        let run = ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        assert_eq!((run.state, run.counts.rejected, run.counts.unidentified), (RunState::Completed, 1, 0));
        let answer = all(&system, None).await.response;
        assert_eq!(answer.records.len(), 100);
        let stored = &answer.records[0];
        assert_eq!(
            (stored.values()["population"].to_string().as_str(), stored.unconfirmed_by.as_deref()),
            ("1", Some("2023-05-04"))
        );
        let provenance = &answer.provenance.expect("the request included it")[0];
        assert_eq!(
            (provenance.source_version.as_str(), provenance.unconfirmed_by.as_deref()),
            ("2020-04-14", Some("2023-05-04"))
        );
        assert_eq!(answer.records[1].values()["population"].to_string(), "2");
        assert!(answer.records[1..].iter().all(|record| record.unconfirmed_by.is_none()));
        // its age counts from the last release that confirmed it
        let as_of = answer.query_metadata.freshness.data_as_of.map(|at| at.to_string());
        assert_eq!(as_of.as_deref(), Some("2023-05-04T00:00:00Z"));
        assert!(!answer.warnings.is_empty());
        let confirmed = ingest_version(&system, &pipeline_id, &rows(0..100, "2"), "2024-05-04").await;
        assert_eq!(confirmed.state, RunState::Completed);
        assert!(
            all(&system, None).await.response.records.iter().all(|record| record.unconfirmed_by.is_none())
        );
    });
}

#[test]
fn snapshot_with_unidentified_rejects_withdraws_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        // one row has lost its year; another one is missing
        let more: String = (100..140).map(|year| format!("Aruba,ABW,{},1\n", 1900 + year)).collect();
        let payload = rows(0..99, "1").replacen("ABW,1900", "ABW,19O0", 1) + &more;
        let run = ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        assert_eq!((run.state, run.counts.unidentified), (RunState::Completed, 1), "{run:?}");
        assert_eq!(run.counts.changes.get(VersionChangeKind::Withdrawn.into_str()), None);
        let answer = all(&system, None).await.response;
        let [_, warning] = &answer.warnings[..] else { panic!("{:?}", answer.warnings) };
        insta::assert_snapshot!("warning_on_a_record_without_an_identity", warning);
        let records = answer.records;
        assert_eq!(records.len(), 140);
        let unconfirmed = records.iter().filter(|record| record.unconfirmed_by.is_some()).count();
        assert_eq!(unconfirmed, 2);
    });
}

#[test]
fn truncated_snapshot_with_a_torn_record_is_held() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        // the year of the last record is cut off
        let payload = rows(0..199, "1").replacen("ABW,2098,1", "ABW,20", 1);
        let whole = ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        assert_eq!(whole.state, RunState::Completed, "nothing in force is missing: {whole:?}");
        let payload = rows(0..150, "1").replacen("ABW,2049,1", "ABW,20", 1);
        let torn = ingest_version(&system, &pipeline_id, &payload, "2023-05-05").await;
        assert_eq!((torn.state, torn.counts.unidentified), (RunState::Held, 1), "{torn:?}");
        let allowed = "0.05".parse().expect("a number");
        assert_eq!(torn.breaches, [GateBreach::Unconfirmed { unconfirmed: 49, in_force: 198, allowed }]);
    });
}

#[test]
fn known_payload_under_a_new_version_is_held() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let run = ingest_version(&system, &pipeline_id, &rows(0..100, "1"), "2023-05-04").await;
        assert_eq!(run.breaches, [GateBreach::SamePayload { version: "2020-04-14".into() }]);
        assert_eq!(run.state, RunState::Held);
    });
}

#[test]
fn undo_hides_a_run_only_from_later_questions() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let before = all(&system, None).await.response.records;
        time.advance(60);
        let bad = ingest_version(&system, &pipeline_id, &rows(0..98, "2"), "2023-05-04").await;
        assert_eq!(bad.state, RunState::Completed, "{bad:?}");
        let with_it = all(&system, None).await.response;
        let known = time.clock().now();
        time.advance(60);
        let undone = undo(&system, &bad).await.expect("the undo succeeds");
        assert_eq!(undone.counts.changes.get(VersionChangeKind::Undone.into_str()), Some(&98), "{undone:?}");
        let now = all(&system, None).await.response;
        assert_eq!((&now.records, now.query_metadata.data_version.as_str()), (&before, "2020-04-14"));
        assert_eq!(state(&system).entry.current_version, "2020-04-14");
        let then = all(&system, Some(known)).await.response;
        assert_eq!(then.records, with_it.records, "an earlier `known_at` still sees it");
        let twice = undo(&system, &bad).await;
        assert!(matches!(twice, Err(IngestionError::Undone { .. })), "{twice:?}");
        let discarded = discard(&system, &bad).await.expect_err("the run is completed");
        assert!(
            matches!(&discarded, IngestionError::NotHeld { undone_by: Some(by), .. } if *by == undone.run_id),
            "{discarded}"
        );
        let begin = start_run_message(
            &system,
            &pipeline_id,
            archived(&system, rows(0..98, "2").as_bytes()),
            "2023-05-04",
        );
        let same = system.ingestion.ask(begin).await.expect("the actor answers");
        assert!(matches!(same, Err(IngestionError::Undone { .. })), "{same:?}");
        let feed = system.queries.changes(None, None, 1000).await.expect("the changes are readable");
        assert_eq!(feed.changes.iter().filter(|change| change.kind == VersionChangeKind::Undone).count(), 98);
        let record_id = with_it.records[0].record_id.clone();
        let record = system.queries.record(&record_id).await.expect("the record exists");
        assert_eq!(record.standing, domain_ground::query::RecordStatus::Undone);

        time.advance(60);
        undo(&system, &undone).await.expect("an undo can be undone");
        assert_eq!(all(&system, None).await.response.records, with_it.records);
        assert_eq!(state(&system).entry.current_version, "2023-05-04");
    });
}

#[test]
fn undone_payload_is_held_when_it_comes_again() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let bad = ingest_version(&system, &pipeline_id, &rows(0..98, "2"), "2023-05-04").await;
        undo(&system, &bad).await.expect("the undo succeeds");
        let begin = start_run_message(
            &system,
            &pipeline_id,
            archived(&system, rows(0..98, "2").as_bytes()),
            "2023-06-01",
        );
        let pulled = StartRun { source_url: Some("https://example.org/x.csv".into()), peer: None, ..begin };
        let begun = system.ingestion.ask(pulled).await.expect("the actor answers").expect("the run starts");
        let run = wait_for_run(&system, begun).await;
        assert_eq!(run.breaches, [GateBreach::SamePayload { version: "2023-05-04".into() }]);
        let right = ingest_version(&system, &pipeline_id, &rows(0..99, "2"), "2023-05-04").await;
        assert_eq!(right.state, RunState::Completed, "the version can be brought by another payload");
        let payload = archived(&system, rows(0..98, "2").as_bytes());
        let same = start_run_message(&system, &pipeline_id, payload, "2023-05-04");
        let same = system.ingestion.ask(same).await.expect("the actor answers");
        assert!(matches!(&same, Err(IngestionError::Replaced { by, .. }) if *by == right.run_id), "{same:?}");
    });
}

#[test]
fn later_release_does_not_change_what_an_earlier_one_ended() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let (trigger, detail) = (InvalidationCause::Manual, String::new());
        let oracle_id = "world-bank-population".parse().expect("a valid id");
        system
            .registry
            .invalidate(SourceInvalidation { oracle_id, trigger, detail, peer: PEER })
            .await
            .expect("it is stale");
        time.advance(20 * 86_400);
        // the later release comes first
        ingest_version(&system, &pipeline_id, &rows(0..100, "2"), "2026-12-05").await;
        ingest_version(&system, &pipeline_id, &rows(0..99, "2"), "2026-12-01").await;
        let at = |text: &str| text.parse().expect("a valid time");
        let about = |past| {
            state(&system)
                .invalidated_at(Some(past), ReleaseScope { known_at: None, released_by: Some(past) })
        };
        assert!(about(at("2026-11-25T00:00:00Z")).is_some());
        assert_eq!(about(at("2026-12-02T00:00:00Z")), None);
        assert_eq!(about(at("2026-12-06T00:00:00Z")), None);
    });
}

#[test]
fn undo_of_the_run_that_ended_an_invalidation_restores_it() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        time.advance(60);
        let (trigger, detail) = (InvalidationCause::Manual, String::new());
        let oracle_id = "world-bank-population".parse().expect("a valid id");
        system
            .registry
            .invalidate(SourceInvalidation { oracle_id, trigger, detail, peer: PEER })
            .await
            .expect("it is stale");
        time.advance(60);
        let bad = ingest_version(&system, &pipeline_id, &rows(0..98, "2"), "2023-05-04").await;
        assert_eq!(state(&system).stale_since(), None);
        let known = time.clock().now();
        undo(&system, &bad).await.expect("the undo succeeds");
        let undone = state(&system);
        assert!(undone.stale_since().is_some());
        time.advance(60);
        let right = ingest_version(&system, &pipeline_id, &rows(0..99, "2"), "2023-05-04").await;
        assert_eq!(right.state, RunState::Completed, "{right:?}");
        let now = state(&system);
        assert_eq!(now.stale_since(), None);
        assert_eq!(now.invalidated_at(None, ReleaseScope::default()), None);
        let then = ReleaseScope { known_at: Some(known), ..ReleaseScope::default() };
        assert_eq!(now.invalidated_at(Some(known), then), None, "the bad run had ended it by then");
    });
}

#[test]
fn changed_release_date_is_gated_at_the_former_date_too() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let begin = StartRun {
            replace: true,
            ..start_run_message(
                &system,
                &pipeline_id,
                archived(&system, rows(0..10, "1").as_bytes()),
                "2020-04-14",
            )
        };
        let begin = StartRun { released_at: "2019-01-01T00:00:00Z".parse().expect("a valid time"), ..begin };
        let begun = system.ingestion.ask(begin).await.expect("the actor answers").expect("the run starts");
        let run = wait_for_run(&system, begun).await;
        let effect = run.counts.effect.map(|effect| (effect.in_force, effect.withdrawn));
        assert_eq!((run.state, effect), (RunState::Held, Some((100, 90))), "{run:?}");
    });
}

#[test]
fn ontology_of_a_source_with_a_held_or_undone_run_stays() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let first = state(&system).completed[0].run_id.clone();
        let run = system.store.run(&first).expect("the run is readable").expect("the run exists").0;
        undo(&system, &run).await.expect("the undo succeeds");
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, ""), "2023-05-04").await;
        assert_eq!(held.state, RunState::Failed, "{held:?}");
        let mut registration = state(&system).entry.registration;
        registration.snapshot = !registration.snapshot;
        let refused = system.registry.register(registration, PEER).await;
        assert!(refused.is_err(), "{refused:?}");
    });
}

#[test]
fn discard_is_dated_when_it_is_decided() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        time.advance(3600);
        let run = discard(&system, &held).await.expect("the run is held");
        assert!(run.ended_at >= Some(time.clock().now()), "{run:?}");
    });
}

#[test]
fn approval_that_is_cut_short_leaves_the_run_held() {
    with_system(|TestSystem { system, dir, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        let payload = dir.join(format!("ground/raw/{}.raw", held.input.raw_sha256));
        let away = payload.with_extension("away");
        std::fs::rename(&payload, &away).expect("the rename succeeds");
        let run = approve(&system, &held).await.expect("the run is held");
        assert_eq!((run.state, run.decision.is_none()), (RunState::Held, true), "{run:?}");
        assert_eq!(run.breaches, held.breaches);
        // the rejects and the changes of the held run stay
        assert_eq!((&run.counts, &run.rows, run.number), (&held.counts, &held.rows, held.number));
        let changes = system.store.run_changes(&run, None, 1);
        assert!(changes.is_err(), "the payload is missing: {changes:?}");
        std::fs::rename(&away, &payload).expect("the rename succeeds");
        assert!(!system.store.run_changes(&run, None, 1).expect("the payload is back").is_empty());
        let run = approve(&system, &held).await.expect("the run is held");
        assert_eq!(run.state, RunState::Completed, "{run:?}");
    });
}

#[test]
fn undo_that_would_bring_back_pruned_content_is_refused() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let run = ingest_version(&system, &pipeline_id, &rows(0..100, "2"), "2023-05-04").await;
        assert_eq!(run.state, RunState::Completed, "{run:?}");
        time.advance(20 * 366 * 86_400);
        let prune = PruneSource { oracle_id: run.oracle_id.clone(), before: None, peer: PEER };
        system.ingestion.ask(prune).await.expect("the actor answers").expect("the prune succeeds");
        let before = all(&system, None).await.response.records;
        let refused = undo(&system, &run).await;
        assert!(matches!(refused, Err(IngestionError::ContentPruned { records: 100, .. })), "{refused:?}");
        assert_eq!(all(&system, None).await.response.records, before);
    });
}

#[test]
fn refused_undo_names_the_state_of_the_run_or_the_run_that_counts() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let first = ingest_version(&system, &pipeline_id, &rows(0..98, "2"), "2023-05-04").await;
        let second = ingest_replacement(&system, &pipeline_id, &rows(0..99, "2"), "2023-05-04").await;
        let refused = undo(&system, &first).await.expect_err("another run counts");
        assert!(
            matches!(&refused, IngestionError::NotCounting { by, .. } if *by == second.run_id),
            "{refused}"
        );
        undo(&system, &second).await.expect("it counts");
        undo(&system, &first).await.expect("it counts again");
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2024-01-01").await;
        let refused = undo(&system, &held).await.expect_err("it is held");
        assert!(matches!(refused, IngestionError::NotCompleted { state: RunState::Held, .. }), "{refused}");
        assert!(refused.to_string().contains("`oraclectl ingest discard`"), "{refused}");
    });
}

#[test]
fn approve_discard_and_undo_of_an_unknown_run_name_its_id() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let held = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        let unknown = IngestionRun { run_id: Sha256Hex::of(b"no run"), ..held };
        for refused in [
            approve(&system, &unknown).await,
            discard(&system, &unknown).await,
            undo(&system, &unknown).await,
        ] {
            let Err(IngestionError::RunUnknown(run_id)) = refused else { panic!("{refused:?}") };
            assert_eq!(run_id, unknown.run_id);
        }
    });
}

#[test]
fn upload_beyond_16_held_runs_of_a_source_is_refused() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let mut runs = Vec::new();
        for value in 2..18 {
            let run =
                ingest_version(&system, &pipeline_id, &rows(0..50, &value.to_string()), "2023-05-04").await;
            assert_eq!(run.state, RunState::Held, "{run:?}");
            runs.push(run);
        }
        let again = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        assert_eq!(again.run_id, runs[0].run_id, "a held payload is still unchanged");
        let payload = archived(&system, rows(0..50, "18").as_bytes());
        let begin = start_run_message(&system, &pipeline_id, payload, "2023-05-04");
        let refused = system.ingestion.ask(begin).await.expect("the actor answers");
        let Err(IngestionError::TooManyHeld { held, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(held, runs.iter().map(|run| run.run_id.clone()).collect::<Vec<_>>());
        discard(&system, &runs[3]).await.expect("the run is held");
        let next = ingest_version(&system, &pipeline_id, &rows(0..50, "18"), "2023-05-04").await;
        assert_eq!(next.state, RunState::Held);
    });
}

#[test]
fn source_check_finds_missing_rejects_of_held_run() {
    with_system(|TestSystem { system, dir, .. }| async move {
        let pipeline_id = pipeline_with_hundred_records(&system).await;
        let run = ingest_version(&system, &pipeline_id, &rows(0..50, "2"), "2023-05-04").await;
        assert_eq!(run.state, RunState::Held, "{run:?}");
        let verified = async |run_id: Option<&Sha256Hex>| {
            let oracle_id = run.oracle_id.clone();
            let verify =
                VerifySourceFiles { oracle_id, run_id: run_id.cloned(), proceed: Arc::new(|_| true) };
            system.ingestion.ask(verify).await.expect("the actor answers").expect("the call succeeds")
        };
        assert_eq!(verified(None).await.file_fault, None);
        let rows = run.rows.as_ref().expect("its rejects are kept");
        std::fs::remove_file(dir.join("ground/facts").join(format!("{}.sorted", rows.sha256)))
            .expect("the file exists");
        for run_id in [None, Some(&run.run_id)] {
            let fault = verified(run_id).await.file_fault.expect("it is missing");
            assert!(fault.contains(rows.sha256.as_str()), "{fault}");
        }
        let visible = system.store.runs().expect("the runs are readable");
        let visible =
            visible.iter().find(|run| run.state == RunState::Completed).expect("a value is present");
        assert_eq!(verified(Some(&visible.run_id)).await.file_fault, None);
    });
}
