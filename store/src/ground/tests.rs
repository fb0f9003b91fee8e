//! Tests of ingestion into a source's files, and of queries over them.

use super::staging::RunChangeEntry;
use super::testing::*;
use crate::{SourceFileKind, StoreError};
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::SourceState;
use domain_ground::timeline::{
    RecordStatement, ReleaseScope, TimelineRun, VersionChangeKind, VisibleReleases,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

mod histories;

fn three_releases() -> [TestRun; 3] {
    [
        test_run(
            "2020",
            100,
            true,
            vec![test_statement("ABW", 1, 10), test_statement("FRA", 1, 20), test_statement("ZWE", 1, 30)],
        ),
        test_run(
            "2021",
            200,
            true,
            vec![test_statement("ABW", 1, 11), test_statement("ABW", 2, 12), test_statement("ZWE", 1, 30)],
        ),
        test_run("2022", 300, true, vec![test_statement("ABW", 1, 11), test_statement("FRA", 1, 21)]),
    ]
}

fn sorted_records(reading: &TestRun) -> Vec<(String, u32, u64)> {
    let mut all: Vec<_> = reading
        .statements
        .iter()
        .map(|stated| (stated.key(), summarize_content(&stated.content())))
        .collect();
    all.sort();
    all.into_iter().map(|(_, brief)| brief).collect()
}

#[test]
fn queries_return_each_release_for_any_order_of_ingestion() {
    let releases = three_releases();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut world = TestStore::new();
        for release in order {
            world.ingest(&releases[release]);
        }
        for release in &releases {
            assert_eq!(
                world.records_in_force(release.released_s, None),
                sorted_records(release),
                "{order:?}"
            );
            assert_eq!(
                world.records_in_force(release.released_s + 99, None),
                sorted_records(release),
                "{order:?}"
            );
        }
        assert_eq!(world.records_in_force(99, None), []);
    }
}

#[test]
fn query_by_known_at_uses_only_runs_known_then() {
    let releases = three_releases();
    let mut world = TestStore::new();
    world.ingest(&releases[0]);
    world.ingest(&releases[2]);
    // the middle release is ingested last, and the first one is read again with another value
    world.ingest(&releases[1]);
    world.ingest(&test_run("2020", 100, true, vec![test_statement("ABW", 1, 9)]));
    let known = |run: i64| Some(1_000_000 + run);
    assert_eq!(world.records_in_force(250, known(0)), []);
    assert_eq!(world.records_in_force(250, known(1)), sorted_records(&releases[0]));
    assert_eq!(world.records_in_force(250, known(2)), sorted_records(&releases[0]));
    assert_eq!(world.records_in_force(250, known(3)), sorted_records(&releases[1]));
    assert_eq!(world.records_in_force(150, known(3)), sorted_records(&releases[0]));
    assert_eq!(world.records_in_force(150, None), [("ABW".to_owned(), 1, 9)]);
}

#[test]
fn provenance_reports_supersession_and_withdrawal() {
    let mut world = TestStore::new();
    three_releases().iter().for_each(|release| drop(world.ingest(release)));
    let view = world.view();
    let record = |stated: &TestStatement| {
        let records = view.records(&stated.key(), Bound::Unbounded).unwrap();
        records.map(|record| record.unwrap()).next().unwrap()
    };
    let chain = |stated: &TestStatement| {
        let found = super::view::SourceView::versions(&record(stated), &view.known).collect::<Vec<_>>();
        let reported = found.iter().map(|found| view.provenance(found).unwrap());
        let seconds = |time: jiff::Timestamp| time.as_second();
        reported
            .map(|reported| {
                (seconds(reported.valid_from), reported.valid_until.map(seconds), reported.superseded_by)
            })
            .collect::<Vec<_>>()
    };
    let id = |run, position| view.record_id(run, position);
    assert_eq!(chain(&test_statement("ABW", 1, 0)), [(100, Some(200), id(2, 0)), (200, None, None)]);
    assert_eq!(chain(&test_statement("ABW", 2, 0)), [(200, Some(300), None)]);
    assert_eq!(chain(&test_statement("FRA", 1, 0)), [(100, Some(200), None), (300, None, None)]);
    assert_eq!(chain(&test_statement("ZWE", 1, 0)), [(100, Some(300), None)]);
    let identity = test_statement("ABW", 2, 0).content().identity(&view.ontology).unwrap().key();
    let found = view.lookup(&identity, &view.known, at(250)).unwrap();
    let reported = view.provenance(&found.last().unwrap().unwrap()).unwrap();
    assert_eq!((reported.source_record_id.as_str(), reported.source_version.as_str()), ("ABW/2", "2021"));
}

#[test]
fn equal_duplicates_collapse_and_different_ones_are_all_rejected() {
    let mut world = TestStore::new();
    let records = vec![
        test_statement("ABW", 1, 1),
        test_statement("FRA", 1, 2),
        test_statement("ABW", 1, 1),
        test_statement("ZWE", 1, 3),
        test_statement("FRA", 1, 4),
        test_statement("FRA", 1, 2),
    ];
    let counts = world.ingest(&test_run("1", 100, true, records));
    assert_eq!((counts.read, counts.records, counts.collapsed, counts.rejected), (6, 2, 1, 3));
    assert_eq!(world.records_in_force(100, None), [("ABW".into(), 1, 1), ("ZWE".into(), 1, 3)]);
    let run = world.store().runs().unwrap().remove(0);
    let rejects = world.store().rejects(&run, None, 10).unwrap();
    assert_eq!(rejects.iter().map(|reject| reject.position).collect::<Vec<_>>(), [1, 4, 5]);
    let reason = "3 records have the same key and different values: 2, 5, 6";
    assert!(rejects.iter().all(|reject| reject.rejection.reason == reason), "{rejects:?}");
    let page = world.store().rejects(&run, Some(1), 1).unwrap();
    assert_eq!(page, rejects[1..2]);
}

#[test]
fn record_is_none_at_positions_that_were_collapsed_or_rejected() {
    let mut world = TestStore::new();
    let records = vec![
        test_statement("ABW", 1, 1),
        test_statement("FRA", 1, 2),
        test_statement("ABW", 1, 1),
        test_statement("FRA", 1, 4),
    ];
    world.ingest(&test_run("1", 100, true, records));
    let found = (0..5).map(|position| world.view().record(1, position).unwrap().is_some());
    assert_eq!(found.collect::<Vec<_>>(), [true, false, false, false, false]);
}

#[test]
fn ingest_handles_one_key_two_hundred_thousand_times() {
    const TIMES: u64 = 200_000;
    let mut same = test_run("1", 100, true, vec![test_statement("ABW", 1, 1); TIMES as usize]);
    let mut world = TestStore::new();
    let counts = world.ingest(&same);
    assert_eq!((counts.records, counts.collapsed, counts.rejected), (1, TIMES - 1, 0));
    same.version = "2".into();
    same.statements.push(test_statement("ABW", 1, 2));
    same.statements.push(test_statement("FRA", 1, 2));
    let counts = world.ingest(&same);
    assert_eq!((counts.read, counts.records, counts.rejected), (TIMES + 2, 1, TIMES + 1));
    let run = world.store().run(&same.input().run_id()).unwrap().unwrap().0;
    let last = world.store().rejects(&run, Some(TIMES - 2), 10).unwrap();
    assert_eq!(last.iter().map(|reject| reject.position).collect::<Vec<_>>(), [TIMES - 1, TIMES]);
}

#[test]
fn changes_of_a_run_are_paged_by_ordinal() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.ingest(&releases[0]);
    let counts = world.ingest(&releases[1]);
    let reported: BTreeMap<&str, u64> =
        counts.changes.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(reported, BTreeMap::from([("became_valid", 2), ("superseded", 1), ("withdrawn", 1)]));
    let view = world.view();
    let all = view.changes(2, None, 10).unwrap();
    assert_eq!(all.iter().map(|(ordinal, _)| *ordinal).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(view.changes(2, Some(1), 1).unwrap(), all[2..3]);
    let (_, superseded) = &all[0];
    assert_eq!((superseded.kind.into_str(), superseded.source_record_id.as_str()), ("superseded", "ABW/1"));
    assert_eq!((superseded.run, superseded.position, superseded.superseded_by), (1, 0, Some((2, 0))));
    assert_eq!(superseded.valid_until, Some(at(200)));
    assert_eq!(view.changes(9, None, 10).unwrap(), []);
}

#[test]
fn record_is_found_by_run_and_position() {
    let mut world = TestStore::new();
    three_releases().iter().for_each(|release| drop(world.ingest(release)));
    let view = world.view();
    let record = view.record(1, 2).unwrap().expect("ZWE was read there");
    assert_eq!(record.key, test_statement("ZWE", 1, 0).key());
    assert_eq!(record.statements.len(), 2);
    assert_eq!(view.record(3, 2).unwrap(), None);
    assert_eq!(view.record(4, 0).unwrap(), None);
}

#[test]
fn same_runs_make_the_same_files_in_every_store() {
    let names = || {
        let mut world = TestStore::new();
        three_releases().iter().for_each(|release| drop(world.ingest(release)));
        let mut export = Vec::new();
        world.view().export(&mut export).unwrap();
        (world.file_names(), export)
    };
    let (files, export) = names();
    assert_eq!(files.len(), 4, "one file of statements is left, and the rows of three runs: {files:?}");
    assert_eq!(names(), (files, export));
}

#[test]
fn dropped_or_stopped_run_leaves_no_files() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.ingest(&releases[0]);
    let before = world.file_names();
    drop(world.staging(&releases[1]));
    let release = world.release(&releases[1]);
    let mut steps = 0;
    let many = test_run("2021", 200, true, (0..5000).map(|year| test_statement("ABW", year, 1)).collect());
    let stopped = world.staging(&many).finish(&world.view(), &release, |_| {
        steps += 1;
        false
    });
    assert!(stopped.unwrap().is_none() && steps == 1);
    let staged = world.staged(&releases[1]).unwrap();
    assert_eq!(world.file_names().len(), before.len() + 2);
    drop(staged);
    assert_eq!(world.file_names(), before);
    let work = fs::read_dir(world.dir.path().join("ground/work")).unwrap();
    assert_eq!(work.count(), 0);
}

#[test]
fn opening_removes_only_files_without_a_reference() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.ingest(&releases[0]);
    let before = world.file_names();
    world.archive(&releases[0]);
    world.archive(&releases[1]);
    // as after a kill between writing the files and the commit
    let release = world.release(&releases[1]);
    let rows = world.view().state.completed[0].rows.clone();
    let mut run = world.run_of(&releases[1], &release, &domain_ground::run::RunCounts::default(), &rows);
    (run.state, run.rows, run.input.raw_sha256) = (RunState::Running, None, releases[0].input().raw_sha256);
    world.commit(vec![crate::RowWrite::put::<IngestionRun>(&run)]);
    world.staged(&releases[1]).unwrap().keep_files();
    assert_eq!(world.file_names().len(), before.len() + 2);
    let foreign = world.dir.path().join("ground/facts/lost+found");
    fs::create_dir(&foreign).unwrap();
    world.reopen();
    fs::remove_dir(&foreign).expect("the directory exists");
    assert_eq!(world.file_names(), before);
    assert_eq!(world.records_in_force(100, None), sorted_records(&releases[0]));
    let archived = |release: &TestRun| world.store().files().has_archived(&release.input().raw_sha256);
    assert!(archived(&releases[0]) && !archived(&releases[1]));
}

#[test]
fn missing_or_flipped_file_is_named_and_affects_no_other_source() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.ingest(&releases[0]);
    let other = "other".parse().unwrap();
    world.register(&other);
    let name = world.view().state.files[0].sha256.to_string();
    let path = world.dir.path().join("ground/facts").join(format!("{name}.sorted"));
    let whole = fs::read(&path).unwrap();
    for at in [0, whole.len() as u64 / 2, whole.len() as u64 - 1] {
        let byte = whole[at as usize] ^ 1;
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[byte], at).unwrap();
        world.reopen();
        let read = world.store().view(&oracle_id()).and_then(|view| {
            let view = view.expect("the value exists");
            view.records(&[], Bound::Unbounded)?.collect::<Result<Vec<_>, _>>()
        });
        let error = read.expect_err("one bit differs");
        assert!(
            matches!(error, StoreError::SourceFile { .. }) && error.to_string().contains(&name),
            "{error}"
        );
        fs::write(&path, &whole).unwrap();
    }
    fs::remove_file(&path).unwrap();
    world.reopen();
    let error = world.store().view(&oracle_id()).expect_err("its file is missing");
    assert!(matches!(error, StoreError::SourceFile { .. }), "{error}");
    let parts = [format!("{name}.sorted "), "`oraclectl".to_owned()];
    assert!(parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    assert!(world.store().view(&other).unwrap().is_some());
}

#[test]
fn file_that_is_missing_or_has_another_length_is_found_at_once() {
    let mut world = TestStore::new();
    world.ingest(&three_releases()[0]);
    let failed = test_run("bad", 900, true, vec![test_statement("FRA", 1, 1)]);
    let (counts, rows) = world.staging(&failed).rejects_only().unwrap();
    let mut run = world.run_of(&failed, &world.release(&failed), &counts, &rows);
    run.state = RunState::Failed;
    world.commit(vec![crate::RowWrite::put::<IngestionRun>(&run)]);
    assert_eq!(world.store().file_faults().unwrap().len(), 0);
    let state = world.view().state.clone();
    let facts = world.facts_path(&state.files[0]);
    let whole = fs::read(&facts).unwrap();
    fs::write(&facts, &whole[..100]).unwrap();
    fs::remove_file(world.facts_path(&state.completed[0].rows)).unwrap();
    fs::remove_file(world.facts_path(&rows)).unwrap();
    let reported = world.store().file_faults().unwrap().into_iter().map(|fault| match fault {
        StoreError::SourceFile { kind, path, .. } => (kind, path),
        other => panic!("it should be a file of a source: {other}"),
    });
    let completed = world.facts_path(&state.completed[0].rows);
    assert_eq!(
        reported.collect::<Vec<_>>(),
        [
            (SourceFileKind::Facts, facts),
            (SourceFileKind::Facts, completed),
            (SourceFileKind::Rejects, world.facts_path(&rows)),
        ]
    );
    assert_eq!(world.store().files().faults(&state).len(), 2);
}

#[test]
fn backup_is_refused_while_a_file_of_a_source_is_missing() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.archive(&releases[0]);
    world.ingest(&releases[0]);
    let verified = |world: &mut TestStore| world.journal().begin_backup().and_then(|backup| backup.verify());
    verified(&mut world).expect("nothing is missing");
    let path = world.facts_path(&world.view().state.files[0]);
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = verified(&mut world).expect_err("a file is missing");
    assert!(matches!(&error, StoreError::SourceFile { path: named, .. } if *named == path), "{error}");
    fs::write(&path, whole).unwrap();
    verified(&mut world).expect("nothing is missing");
}

#[test]
fn reader_keeps_reading_files_that_were_merged_away() {
    let mut world = TestStore::new();
    let releases = three_releases();
    world.ingest(&releases[0]);
    let old = world.view();
    let mut half_read = old.records(&[], Bound::Unbounded).unwrap();
    let first = half_read.next().unwrap().unwrap();
    world.ingest(&releases[1]);
    assert!(!Arc::ptr_eq(&old, &world.view()));
    assert!(Arc::ptr_eq(&world.view(), &world.view()));
    assert!(!world.file_names().contains(&format!("{}.sorted", old.state.files[0].sha256)));
    assert_eq!(first.key, test_statement("ABW", 1, 0).key());
    assert_eq!(half_read.collect::<Result<Vec<_>, _>>().unwrap().len(), 2);
    assert_eq!(old.records(&[], Bound::Unbounded).unwrap().count(), 3);
    assert_eq!(world.view().records(&[], Bound::Unbounded).unwrap().count(), 4);
}

#[test]
fn block_cache_is_filled_by_lookups_and_not_by_scans_or_runs() {
    const YEARS: u32 = 2000;
    let mut world = TestStore::new();
    world.ingest(&test_run("1", 100, false, (0..YEARS).map(|year| test_statement("ABW", year, 1)).collect()));
    assert_eq!(world.records_in_force(100, None).len(), YEARS as usize);
    // the run has so few records that each is looked up in the existing file
    let mut few =
        test_run("2", 200, false, (0..100).map(|step| test_statement("ABW", step * 20, 2)).collect());
    world.ingest(&few);
    assert_eq!(world.view().file_count(), 2);
    let cached = |world: &TestStore| world.store().files().blocks.bytes();
    assert!(cached(&world) <= 4096, "the block that the scan began with: {}", cached(&world));

    let look_up = |world: &TestStore| {
        let view = world.view();
        for year in (0..YEARS).step_by(7) {
            let identity = test_statement("ABW", year, 1).content().identity(&ontology()).unwrap().key();
            let mut found = view.lookup(&identity, &view.known, at(150)).unwrap();
            assert_eq!(found.next().unwrap().unwrap().statement.time.run, 1);
        }
    };
    look_up(&world);
    let before = cached(&world);
    assert!(before > 50 * 4096, "{before}");
    let registered = world.view().state.clone();
    world.commit(vec![crate::RowWrite::put::<SourceState>(&registered)]);
    look_up(&world);
    assert_eq!(cached(&world), before, "the reopened files use the same blocks");
    few.version = "3".into();
    world.ingest(&few);
    assert_eq!(cached(&world), before, "a merge caches no block");
}

#[test]
fn runs_with_equal_content_share_no_files() {
    let mut world = TestStore::new();
    let empty = test_run("1", 100, false, Vec::new());
    world.ingest(&empty);
    world.ingest(&test_run("2", 200, false, Vec::new()));
    let view = world.view();
    let rows: Vec<_> = view.state.completed.iter().map(|completed| &completed.rows.sha256).collect();
    assert_ne!(rows[0], rows[1]);
    // runs without statements have only their own files
    assert_eq!(world.file_names().len(), 2);
}

/// Small runs over few keys, so that their records overlap.
fn readings() -> impl Strategy<Value = Vec<TestRun>> {
    let stated =
        (0_u32..6, 0_u64..3, proptest::option::weighted(0.2, 0_i64..8)).prop_map(|(year, people, from)| {
            let from = from.map(|step| step * 50);
            TestStatement { from, ..test_statement("ABW", year, people) }
        });
    let reading = (0_i64..5, any::<bool>(), vec(stated, 0..8)).prop_map(|(version, snapshot, mut stated)| {
        stated.sort_by_key(|stated| stated.year);
        stated.dedup_by_key(|stated| stated.year);
        test_run(&format!("v{version}"), version * 100, snapshot, stated)
    });
    vec(reading, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn files_match_a_plain_list_of_statements(readings in readings()) {
        let mut world = TestStore::new();
        let mut releases: Vec<TimelineRun> = Vec::new();
        let mut model = BTreeMap::<Vec<u8>, Vec<(RecordStatement, TestStatement)>>::new();
        // enough records that a small run looks its records up instead of scanning all
        let base = (0..400).filter(|year| *year != 3).map(|year| test_statement("ABW", year, 1)).collect();
        let base = test_run("base", 0, false, base);
        for (number, reading) in (1..).zip(std::iter::once(&base).chain(&readings)) {
            releases.push(world.release(reading));
            world.ingest(reading);
            for stated in &reading.statements {
                model.entry(stated.key()).or_default().push((stated.statement(number), stated.clone()));
            }
            let (before, after) = releases.split_at(releases.len() - 1);
            let (before, after) = (VisibleReleases::new(before, ReleaseScope::default()), [before, after].concat());
            let after = VisibleReleases::new(&after, ReleaseScope::default());
            let mut changed = 0;
            for reported in model.values() {
                let times: Vec<_> = reported.iter().map(|(statement, _)| *statement).collect();
                changed += domain_ground::timeline::changes(&times, &before, &after).len();
            }
            let reported = world.view().changes(number, None, usize::MAX).unwrap();
            prop_assert_eq!(reported.len(), changed);
        }
        world.reopen();
        for known_run in [None, Some(1), Some(releases.len() as i64 / 2)] {
            let known_s = known_run.map(|run| 1_000_000 + run);
            for second in (0..500).step_by(50) {
                let scope = ReleaseScope { known_at: known_s.map(at), released_by: Some(at(second)) };
                let known = VisibleReleases::new(&releases, scope);
                let holds = model.values().filter_map(|reported| {
                    let times: Vec<_> = reported.iter().map(|(statement, _)| *statement).collect();
                    let version = known.valid_at(&times, at(second))?;
                    Some(summarize_content(&reported[version.statement].1.content()))
                });
                let holds: Vec<_> = holds.collect();
                prop_assert_eq!(&world.records_in_force(second, known_s), &holds);
                let view = world.view();
                for stated in (0..6).map(|year| test_statement("ABW", year, 0)) {
                    let identity = stated.content().identity(&ontology()).expect("the identity is complete").key();
                    let found = view.lookup(&identity, &known, at(second)).unwrap();
                    let found = found.map(|found| view.content(&found.unwrap().statement).unwrap());
                    let found: Vec<_> = found.map(|content| summarize_content(&content.expect("it is not pruned"))).collect();
                    let expected = holds.iter().filter(|(_, year, _)| *year == stated.year).cloned();
                    prop_assert_eq!(found, expected.collect::<Vec<_>>());
                }
            }
        }
    }
}

/// Replaces the file at the first path, possibly by the file at the second path.
type FactsTamper = fn(&std::path::Path, &std::path::Path);

#[test]
fn whole_but_wrong_file_is_an_error_when_opened() {
    let ways: [(&str, FactsTamper); 5] = [
        ("another file of the store", |path, other| {
            fs::copy(other, path).unwrap();
        }),
        ("deleted", |path, _| fs::remove_file(path).unwrap()),
        ("cut", |path, _| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("grown", |path, _| fs::write(path, [fs::read(path).unwrap(), b"more".to_vec()].concat()).unwrap()),
        ("grown by a whole file", |path, other| {
            fs::write(path, [fs::read(path).unwrap(), fs::read(other).unwrap()].concat()).unwrap();
        }),
    ];
    let mut world = TestStore::new();
    let [older, newer, _] = three_releases();
    for release in [&older, &newer] {
        world.ingest(release);
        world.archive(release);
    }
    let state = world.view().state.clone();
    let [first, second] = [&state.completed[0].rows, &state.completed[1].rows];
    let facts = world.facts_path(&state.files[0]);
    let aside = world.dir.path().join("aside");
    // a file of another kind, and a file of another source with as many rows and bytes
    let mut foreign = TestStore::new();
    foreign.ingest(&test_run("2020", 100, true, vec![test_statement("ABW", 1, 99)]));
    let others = [world.facts_path(first), foreign.facts_path(&foreign.view().state.files[0])];
    for ((what, tamper), other) in ways.iter().flat_map(|way| others.iter().map(move |other| (way, other))) {
        fs::copy(&facts, &aside).unwrap();
        tamper(&facts, other);
        world.reopen();
        let error = world.store().view(&oracle_id()).expect_err(what);
        assert!(matches!(error, StoreError::SourceFile { .. }), "{what}: {error}");
        assert_eq!(world.store().file_faults().unwrap().len(), 1, "{what}");
        fs::rename(&aside, &facts).unwrap();

        fs::copy(world.facts_path(second), &aside).unwrap();
        tamper(&world.facts_path(second), other);
        world.reopen();
        let error = world.view().changes(2, None, 100).expect_err(what);
        assert!(matches!(error, StoreError::SourceFile { .. }), "{what}: {error}");
        assert_eq!(world.store().file_faults().unwrap().len(), 1, "{what}");
        fs::rename(&aside, world.facts_path(second)).unwrap();

        let payload = world.payload_path(&newer);
        fs::copy(&payload, &aside).unwrap();
        tamper(&payload, &world.payload_path(&older));
        let error = world.store().files().archive(&oracle_id(), &newer.input().raw_sha256).expect_err(what);
        assert!(matches!(error, StoreError::SourceFile { .. }), "{what}: {error}");
        fs::rename(&aside, &payload).unwrap();
    }
    world.reopen();
    assert_eq!(world.records_in_force(200, None), sorted_records(&newer));
}

/// Copies the database, the mark and the log of a closed store.
fn copy_database(from: &std::path::Path, to: &std::path::Path) {
    for dir in ["store", "segments", "segments.copy"] {
        fs::create_dir_all(to.join(dir)).unwrap();
        for entry in fs::read_dir(from.join(dir)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(dir).join(entry.file_name())).unwrap();
            }
        }
    }
    for file in ["watermark", "oracle_log.jsonl"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

fn remove_database(dir: &std::path::Path) {
    for removed in ["store", "segments", "segments.copy"] {
        fs::remove_dir_all(dir.join(removed)).unwrap();
    }
    for file in ["watermark", "oracle_log.jsonl"] {
        fs::remove_file(dir.join(file)).unwrap();
    }
}

#[test]
fn new_or_older_store_is_refused_and_deletes_no_ground_files() {
    let mut world = TestStore::new();
    let (none, older, newer) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let releases = three_releases();
    world.close();
    copy_database(world.dir.path(), none.path());
    world.reopen();
    world.ingest(&releases[0]);
    world.archive(&releases[0]);
    world.close();
    copy_database(world.dir.path(), older.path());
    world.reopen();
    world.ingest(&releases[1]);
    world.archive(&releases[1]);
    world.close();
    copy_database(world.dir.path(), newer.path());
    let before = (world.file_names(), world.payload_path(&releases[0]), world.payload_path(&releases[1]));
    for (what, state) in [("no store", None), ("before the first run", Some(&none)), ("older", Some(&older))]
    {
        remove_database(world.dir.path());
        if let Some(state) = state {
            copy_database(state.path(), world.dir.path());
        }
        let error = world.try_reopen().expect_err(what);
        assert!(matches!(error, StoreError::Short { .. }), "{what}: {error}");
        assert_eq!(world.file_names(), before.0, "{what}");
        assert!(before.1.exists() && before.2.exists(), "{what}");
        if state.is_none() {
            assert!(!world.dir.path().join("store").exists(), "no empty store is left");
            copy_database(newer.path(), world.dir.path());
        }
    }
    remove_database(world.dir.path());
    copy_database(newer.path(), world.dir.path());
    world.reopen();
    assert_eq!(world.records_in_force(200, None), sorted_records(&releases[1]));
}

#[test]
fn opening_keeps_payloads_unknown_to_an_older_store() {
    let mut world = TestStore::new();
    let older = tempfile::tempdir().unwrap();
    let [first, second, third] = three_releases();
    world.ingest(&first);
    let rows = world.view().state.completed[0].rows.clone();
    world.close();
    copy_database(world.dir.path(), older.path());
    world.reopen();
    // a run that failed has no file but its payload
    world.archive(&second);
    let release = world.release(&second);
    let mut run = world.run_of(&second, &release, &domain_ground::run::RunCounts::default(), &rows);
    (run.state, run.rows) = (RunState::Failed, None);
    world.commit(vec![crate::RowWrite::put::<IngestionRun>(&run)]);
    world.close();
    remove_database(world.dir.path());
    fs::create_dir(world.dir.path().join("store")).unwrap();
    copy_database(older.path(), world.dir.path());
    // as after a kill between archiving a payload and the commit that names it
    world.reopen();
    world.archive(&third);
    // archiving a known payload again creates no mark
    world.archive(&second);
    for _ in 0..2 {
        world.reopen();
        assert!(world.payload_path(&second).exists() && !world.payload_path(&third).exists());
        let names = fs::read_dir(world.dir.path().join("ground/raw")).unwrap();
        assert_eq!(names.count(), 1);
    }
}

#[test]
fn unnamed_facts_are_kept_while_named_ones_are_missing() {
    let mut world = TestStore::new();
    let [first, _, _] = three_releases();
    world.ingest(&first);
    let named = world.view().state.files[0].sha256.clone();
    world.close();
    // an older database finds a file like this after a later prune
    let facts = world.dir.path().join("ground/facts");
    let newer = facts.join(format!("{}.sorted", "7".repeat(64)));
    fs::rename(facts.join(format!("{named}.sorted")), &newer).unwrap();
    world.reopen();
    assert!(newer.exists());
}

#[test]
fn change_has_the_interval_of_its_own_record() {
    let mut world = TestStore::new();
    let [first, second] = [7, 8].map(|people| test_statement("ABW", 1960, people));
    let ingest = |world: &mut TestStore, version, released_s, statement: &TestStatement| {
        let release = test_run(version, released_s, true, vec![statement.clone()]);
        world.archive(&release);
        world.ingest(&release);
    };
    ingest(&mut world, "3", 300, &first);
    // an older release with the same content arrives later
    ingest(&mut world, "1", 100, &first);
    let changes = world.view().changes(2, None, 10).unwrap();
    let [(_, moved), (_, new)] = &changes[..] else { panic!("two changes: {changes:?}") };
    assert_eq!((moved.kind, moved.run, moved.superseded_by), (VersionChangeKind::Moved, 1, Some((2, 0))));
    assert_eq!((moved.valid_from, moved.valid_until), (None, None));
    assert_eq!((new.kind, new.run, new.superseded_by), (VersionChangeKind::BecameValid, 2, None));
    assert_eq!((new.valid_from, new.valid_until), (Some(at(100)), None));

    // the second record has the content of the last one now, and the first one ends earlier
    ingest(&mut world, "5", 500, &second);
    ingest(&mut world, "4", 400, &second);
    let (run, _) = world.store().run(&world.view().state.completed[3].run_id).unwrap().unwrap();
    let changes = world.store().run_changes(&run, None, 10).unwrap();
    let shown = changes.iter().map(|change| {
        let RunChangeEntry { kind, run, valid_from, valid_until, superseded_by, .. } = &change.entry;
        (*kind, *run, *valid_from, *valid_until, superseded_by.map(|(run, _)| run))
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            (VersionChangeKind::Moved, 2, Some(at(100)), Some(at(400)), Some(4)),
            (VersionChangeKind::Moved, 3, None, None, Some(4)),
            (VersionChangeKind::BecameValid, 4, Some(at(400)), None, None),
        ]
    );
    let texts = changes.iter().map(|change| (change.before.clone(), change.after.clone()));
    let [first, second] = [first, second].map(|statement| String::from_utf8(statement.raw()).ok());
    let expected = [(first.clone(), first), (second.clone(), second.clone()), (None, second)];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}
