//! Random histories of releases, replacements, undos and rejects: queries and exports are compared with a plain model.

use super::*;
use crate::RowWrite;
use crate::ground::query::ScanBudget;
use crate::ground::staging::{AcceptedRecord, RunStaging};
use crate::ground::statement::StoredStatement;
use crate::ground::testing::histories::{
    AnswerRecord, DAYS, HistoryStep, RECORDS, ReadRecord, SourceHistory, VersionReading,
};
use crate::ground::view::SourceView;
use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use domain_ground::rejection::{RecordRejection, RecordRule, RejectedRecord};
use domain_ground::source_state::{CompletedRun, SourceState};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;

/// The histories that share a store.
const HISTORIES_IN_STORE: u64 = 100;

/// The time at which a step becomes known.
fn known_at(step: usize) -> jiff::Timestamp {
    at(1_000_000 + i64::try_from(step).expect("the number is small"))
}

fn read_view(world: &TestStore, oracle_id: &SourceId) -> Arc<SourceView> {
    world.store().view(oracle_id).expect("the read succeeds").expect("the source exists")
}

fn stage_reading(staging: &mut RunStaging, reading: &VersionReading, run: u32) {
    let rejected = |position: u64| RejectedRecord {
        position,
        offset: position,
        len: 1,
        raw_hash: Sha256Hex::of(b"raw"),
        rejection: RecordRejection::new(RecordRule::Check, None, "a reason"),
    };
    let mut position = 0;
    let mut accept = |staging: &mut RunStaging, record: &ReadRecord, value: u8| {
        let test_statement = test_statement("ABW", record.id.into(), value.into());
        let row = test_statement.content().to_row(test_statement.content().to_json().len(), &ontology());
        let time = RecordStatement {
            valid_from: record.from.map(at),
            valid_until: record.until.map(at),
            ..test_statement.statement(run)
        };
        let statement = StoredStatement {
            time,
            position,
            offset: position,
            len: 1,
            raw_hash: [value; 32],
            verified: true,
            row: row.map(Into::into),
        };
        let accepted = AcceptedRecord { key: &test_statement.key(), statement: &statement, index: &[] };
        staging.accept(&accepted).expect("the write succeeds");
        position += 1;
    };
    for record in &reading.records {
        match record.value {
            Some(value) => accept(staging, record, value),
            // two ways in which a record with an identity is rejected
            None if run.is_multiple_of(2) => {
                accept(staging, record, 0);
                accept(staging, record, 1);
            }
            None => {
                let key = test_statement("ABW", record.id.into(), 0).key();
                staging
                    .reject(&rejected(100 + u64::from(record.id)), Some(&key))
                    .expect("the write succeeds");
            }
        }
    }
    if reading.has_unidentified {
        staging.reject(&rejected(200), None).expect("the write succeeds");
    }
}

/// Ingests the next step of a history.
fn ingest_step(world: &mut TestStore, oracle_id: &SourceId, history: &SourceHistory, step: usize) {
    let before = read_view(world, oracle_id);
    let run = before.state.next_number();
    let run_id = Sha256Hex::of(format!("{oracle_id}/{run}").as_bytes());
    let mut staging = RunStaging::new(world.store().files(), &run_id, run).expect("the write succeeds");
    let release = match &history.steps[step] {
        HistoryStep::Read(reading) => {
            stage_reading(&mut staging, reading, run);
            TimelineRun {
                run,
                version: reading.version.to_string(),
                released_at: at(reading.released),
                ingested_at: known_at(step),
                snapshot: history.snapshot,
                has_unidentified: reading.has_unidentified,
                undoes: None,
            }
        }
        HistoryStep::Undo(undone) => TimelineRun {
            run,
            ingested_at: known_at(step),
            has_unidentified: false,
            undoes: Some(u32::try_from(undone + 1).expect("the number is small")),
            ..before.state.completed[*undone].release.clone()
        },
    };
    let staged = staging.finish(&before, &release, |_| true).expect("the write succeeds");
    let staged = staged.expect("the caller does not stop it");
    let completed = CompletedRun {
        run_id,
        pipeline_id: "people".parse().expect("a valid id"),
        pipeline_sha256: Sha256Hex::of(b"pipeline"),
        raw_sha256: Sha256Hex::of(b"raw"),
        source_url: None,
        release,
        invalidation_count: 0,
        records: staged.counts.records,
        stated: staged.stated,
        rows: staged.rows.clone(),
    };
    let state = before.state.clone().with_completed(completed, Vec::new(), staged.statements.clone());
    world.commit(vec![RowWrite::put::<SourceState>(&state)]);
    staged.keep_files();
    world.store().remove_replaced(&before.state).expect("the source is read");
}

/// The answer of the store to a question about `day` that sees the first `known` steps.
fn answer(view: &SourceView, known: usize, day: i64) -> Vec<AnswerRecord> {
    let known = known_at(known).checked_sub(jiff::SignedDuration::from_micros(1)).expect("a valid time");
    let all = query(&view.ontology, &[]);
    let page =
        view.query(&all, at(day), Some(known), None, ScanBudget::UNLIMITED).expect("the read succeeds");
    let records = page.found.iter().map(|hit| {
        let version = &hit.found.version;
        let (_, id, value) = summarize_content(&hit.content);
        let seen = &view.state.run(version.last_seen).expect("the run exists").release.version;
        AnswerRecord {
            id: u8::try_from(id).expect("the number is small"),
            value: u8::try_from(value).expect("the number is small"),
            from: version.valid_from.as_second(),
            until: version.valid_until.map(jiff::Timestamp::as_second),
            seen: seen.parse().expect("a number"),
            unconfirmed: view.unconfirmed_by(version).map(|version| version.parse().expect("a number")),
        }
    });
    records.collect()
}

/// A line of an export: its periods of valid time and of system time, and the record.
struct ExportedRecord {
    valid: (jiff::Timestamp, Option<jiff::Timestamp>),
    known: (jiff::Timestamp, Option<jiff::Timestamp>),
    record: BriefRecord,
}

/// The id and the value of a record, and the version that could not confirm it.
type BriefRecord = (u8, u8, Option<u8>);

fn export(view: &SourceView) -> Vec<ExportedRecord> {
    let mut lines = Vec::new();
    view.export(&mut lines).expect("a write to memory succeeds");
    let exported = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let line: serde_json::Value = serde_json::from_slice(line).expect("valid JSON");
        let time = |name: &str| line[name].as_str().map(|time| time.parse().expect("a valid time"));
        let period = |from, until| (time(from).expect("a beginning"), time(until));
        let axis =
            |axis: &str| line["record"]["axes"][axis].as_str().expect("a value").parse().expect("a number");
        let unconfirmed = line["provenance"]["unconfirmed_by"].as_str();
        let unconfirmed = unconfirmed.map(|version| version.parse().expect("a number"));
        ExportedRecord {
            valid: period("valid_from", "valid_until"),
            known: period("known_from", "known_until"),
            record: (axis("year"), axis("people"), unconfirmed),
        }
    });
    exported.collect()
}

/// The records of an export that were in force on `day`, by the first `known` steps.
fn select_exported(exported: &[ExportedRecord], known: usize, day: i64) -> Vec<BriefRecord> {
    let known = known_at(known).checked_sub(jiff::SignedDuration::from_micros(1)).expect("a valid time");
    let contains = |(from, until): (jiff::Timestamp, Option<jiff::Timestamp>), time| {
        from <= time && until.is_none_or(|until| time < until)
    };
    let in_force =
        exported.iter().filter(|line| contains(line.valid, at(day)) && contains(line.known, known));
    in_force.map(|line| line.record).collect()
}

/// The interval of each record, by its run and its position.
type RecordIntervals = BTreeMap<(u32, u64), (jiff::Timestamp, Option<jiff::Timestamp>)>;

/// The intervals by the changes of the runs up to `known`: the last change of a record has its interval.
fn replay_changes(view: &SourceView, known: usize) -> RecordIntervals {
    let mut intervals = BTreeMap::new();
    for run in 1..=u32::try_from(known).expect("the number is small") {
        for (_, change) in view.changes(run, None, 1_000).expect("the read succeeds") {
            let record = (change.run, change.position);
            match change.valid_from {
                Some(from) => intervals.insert(record, (from, change.valid_until)),
                None => intervals.remove(&record),
            };
        }
    }
    intervals
}

/// Compares the changes of the first `known` steps with the records that are valid on each day by their releases, and with the
/// answers about the days since the last release.
fn compare_replay(view: &SourceView, history: &SourceHistory, known: usize) {
    let intervals = replay_changes(view, known);
    let releases: Vec<_> = view.state.releases().into_iter().take(known).collect();
    let visible = VisibleReleases::new(&releases, ReleaseScope::default());
    for day in 0..=DAYS + 5 {
        let mut replayed = intervals.clone();
        replayed.retain(|_, (from, until)| *from <= at(day) && until.is_none_or(|until| at(day) < until));
        let records = view.records(&[], Bound::Unbounded).expect("the read succeeds");
        let valid = records.filter_map(|record| {
            let found = SourceView::valid_at(&record.expect("the read succeeds"), &visible, at(day))?;
            let place = (found.statement.time.run, found.statement.position);
            Some((place, (found.version.valid_from, found.version.valid_until)))
        });
        assert_eq!(replayed, valid.collect::<RecordIntervals>(), "day {day}, {known} steps of {history:#?}");
        if day >= DAYS {
            let seconds = |time: jiff::Timestamp| time.as_second();
            let mut replayed: Vec<_> =
                replayed.values().map(|(from, until)| (seconds(*from), until.map(seconds))).collect();
            let answers = answer(view, known, day);
            let mut answered: Vec<_> = answers.iter().map(|record| (record.from, record.until)).collect();
            replayed.sort_unstable();
            answered.sort_unstable();
            assert_eq!(replayed, answered, "day {day}, {known} steps of {history:#?}");
        }
    }
}

/// Compares the answers and the exports of the store with the answers of the model for the histories with these seeds. Returns the number of
/// questions.
fn compare_histories(seeds: Range<u64>) -> u64 {
    let (mut world, mut questions) = (TestStore::new(), 0);
    for seed in seeds {
        if seed.is_multiple_of(HISTORIES_IN_STORE) {
            world = TestStore::new();
        }
        let history = SourceHistory::random(&mut fastrand::Rng::with_seed(seed));
        let oracle_id: SourceId = format!("history-{seed}").parse().expect("a valid id");
        world.register(&oracle_id);
        for step in 0..history.steps.len() {
            ingest_step(&mut world, &oracle_id, &history, step);
        }
        let view = read_view(&world, &oracle_id);
        let exported = export(&view);
        for known in 0..=history.steps.len() {
            compare_replay(&view, &history, known);
            for day in 0..=DAYS + 5 {
                let (found, expected) = (answer(&view, known, day), history.answer(known, day));
                assert_eq!(found, expected, "seed {seed}, day {day}, {known} steps of {history:#?}");
                let brief = expected.iter().map(|record| (record.id, record.value, record.unconfirmed));
                let (found, expected) = (select_exported(&exported, known, day), brief.collect::<Vec<_>>());
                assert_eq!(found, expected, "export: seed {seed}, day {day}, {known} steps of {history:#?}");
                questions += 1;
            }
        }
    }
    questions
}

#[test]
fn answers_and_exports_agree_with_model_of_random_histories() {
    let questions = compare_histories(0..50);
    assert!(questions > 50 * 3 * u64::from(RECORDS), "{questions}");
}

/// The full size: `cargo test -p oracled-store --lib -- --ignored --nocapture ten_thousand_histories`.
#[test]
#[ignore = "takes minutes"]
fn answers_and_exports_agree_with_model_of_ten_thousand_histories() {
    const HISTORIES: u64 = 10_000;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    let questions: u64 = thread::scope(|scope| {
        let parts = (0..threads).map(|part| {
            let seeds = HISTORIES * part / threads..HISTORIES * (part + 1) / threads;
            scope.spawn(|| compare_histories(seeds))
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join().expect("no difference")).sum()
    });
    println!("{HISTORIES} histories, {questions} questions, 0 differences");
}
