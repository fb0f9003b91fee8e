use super::*;
use crate::ground::testing::*;
use crate::{ErasureStep, LogQuery, RemovalPlan};
use std::fs;
use std::path::Path;

/// Releases of which the first is so large that the later ones get separate files.
fn releases() -> [TestRun; 4] {
    let years = |people: u64| (0..400).map(move |year| test_statement("ABW", year, people));
    let few = |people: u64| vec![test_statement("ABW", 3, people), test_statement("FRA", 1, people)];
    let mut twice = few(4);
    twice.extend([test_statement("ZWE", 1, 4), test_statement("ZWE", 1, 5)]);
    [
        test_run("1", 100, true, years(1).collect()),
        test_run("2", 200, false, few(2)),
        test_run("3", 300, false, few(3)),
        test_run("4", 400, false, twice),
    ]
}

/// A source that was pruned once between two runs, and once after the last one.
fn world() -> TestStore {
    world_pruned([None, None, Some(300), Some(400)])
}

fn world_pruned(after: [Option<i64>; 4]) -> TestStore {
    let mut world = TestStore::new();
    for (release, pruned_before) in releases().iter().zip(after) {
        world.ingest(release);
        world.archive(release);
        if let Some(before) = pruned_before {
            assert!(world.prune(before).0 > 0);
        }
    }
    world
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Repeats each step, and reads `releases` for the runs.
fn rebuilt(world: &TestStore, releases: &[TestRun]) -> Result<Vec<SortedFileRef>, RebuildError> {
    let mut rebuilding = world.store().start_rebuild(&oracle_id())?.expect("the registration succeeds");
    let damaged = rebuilding.damaged();
    for step in world.store().rebuild_steps(rebuilding.committed())? {
        match step {
            RebuildStep::Run(completed) => {
                let release = &completed.release;
                let reading = releases.iter().find(|reading| reading.version == release.version).unwrap();
                let run = (&completed.run_id, release.run);
                let staging = world.staging_in(rebuilding.temporary_files(), run, reading);
                let staged = staging.finish(&*rebuilding.view()?, release, |_| true)?;
                rebuilding.add(&completed, staged.expect("the caller does not stop it"))?;
            }
            RebuildStep::Prune(before) => assert!(rebuilding.prune(before, |_| true)?),
        }
    }
    rebuilding.finish(&damaged)?;
    Ok(damaged)
}

fn work(world: &TestStore) -> usize {
    fs::read_dir(world.dir.path().join("ground/work")).unwrap().count()
}

#[test]
fn rebuild_recreates_damaged_and_missing_files() {
    for after in [[None, None, Some(300), Some(400)], [None, Some(200), Some(300), None]] {
        rebuild_writes_identical_files(world_pruned(after));
    }
}

fn rebuild_writes_identical_files(mut world: TestStore) {
    let (state, export, names) = (world.view().state.clone(), world.export(), world.file_names());
    let is_pruned_last = world
        .store()
        .rebuild_steps(&state)
        .unwrap()
        .last()
        .is_some_and(|step| matches!(step, RebuildStep::Prune(_)));
    assert_eq!(state.files.len() > 1, !is_pruned_last, "{:?}", state.files);
    let changes = world.view().changes(3, None, 100).unwrap();
    assert_eq!(rebuilt(&world, &releases()).unwrap(), []);
    let files: Vec<_> = state.sorted_files().cloned().collect();
    for (number, file) in files.iter().enumerate() {
        let (path, other) = (world.facts_path(file), &files[(number + 1) % files.len()]);
        flip(&path);
        fs::remove_file(world.facts_path(other)).unwrap();
        world.reopen();
        let mut rebuilt_files = rebuilt(&world, &releases()).unwrap();
        rebuilt_files.sort_by_key(|one| *one != *file);
        assert_eq!(rebuilt_files, [file.clone(), other.clone()]);
        assert_eq!((&world.view().state, world.file_names()), (&state, names.clone()));
        assert!(world.export() == export);
        assert_eq!(world.view().changes(3, None, 100).unwrap(), changes);
        let view = world.view();
        view.verify_files(&mut view.meter(&Default::default(), &mut |_| true)).unwrap();
        assert_eq!(work(&world), 0);
    }
}

#[test]
fn steps_list_prunings_in_order_with_the_runs() {
    let world = world();
    let steps = world.store().rebuild_steps(&world.view().state).unwrap();
    let reported = steps.iter().map(|step| match step {
        RebuildStep::Run(completed) => format!("run {}", completed.release.run),
        RebuildStep::Prune(before) => format!("prune {}", before.as_second()),
    });
    let expected = ["run 1", "run 2", "run 3", "prune 300", "run 4", "prune 400"];
    assert_eq!(reported.collect::<Vec<_>>(), expected);
    let pruned = String::from_utf8(world.export()).unwrap();
    assert!(pruned.contains("\"record\":null"));
}

#[test]
fn rebuild_from_another_payload_changes_nothing() {
    let world = world();
    let file = world.view().state.files[0].clone();
    flip(&world.facts_path(&file));
    let damaged = fs::read(world.facts_path(&file)).unwrap();
    let names = world.file_names();
    for (release, message) in [(0, "the rebuild of source worldbank gives"), (3, "run ")] {
        let mut others = releases();
        // only the source's own files show another content of the same records
        others[release].statements.truncate(if release == 3 { 1 } else { 400 });
        others[release].statements[0].people += 1;
        let refused = rebuilt(&world, &others).expect_err("another payload").to_string();
        assert!(refused.starts_with(message) && refused.contains("from a backup"), "{refused}");
        assert_eq!((world.file_names(), work(&world)), (names.clone(), 0));
        assert!(fs::read(world.facts_path(&file)).unwrap() == damaged);
    }
}

#[test]
fn unreadable_payloads_are_listed_with_their_reason() {
    let world = world();
    let ask = || world.store().unreadable_payloads(&world.view().state).unwrap();
    assert_eq!(ask(), []);
    let [first, second, _, fourth] = releases();
    flip(&world.payload_path(&first));
    for gone in [&second, &fourth] {
        fs::remove_file(world.payload_path(gone)).unwrap();
    }
    let unreadable = ask();
    let reported: Vec<_> = unreadable.iter().map(|run| (run.version.as_str(), run.why.as_str())).collect();
    let [("1", damaged), ("2", pruned), ("4", missing)] = reported[..] else { panic!("{reported:?}") };
    assert!(damaged.contains("is damaged at byte"), "{damaged}");
    assert_eq!(pruned, "its payload was pruned");
    assert!(missing.contains("is missing; ingest the release again"), "{missing}");
    assert_eq!(unreadable[0].run_id, first.input().run_id());
}

#[test]
fn rebuild_repeats_prunings_whose_entries_were_dropped() {
    let mut world = world();
    let steps = |world: &TestStore| world.store().rebuild_steps(&world.view().state).expect("readable");
    let before = steps(&world);
    assert!(before.iter().any(|step| matches!(step, RebuildStep::Prune(_))));
    // twice, so that the second snapshot takes the entries from the first one
    for _ in 0..2 {
        for _ in 0..600 {
            world.commit(Vec::new());
        }
        let last = world.store().droppable_up_to(world.store().last_seq()).expect("readable");
        let plan = RemovalPlan { log_from: Some(last + 1), ..RemovalPlan::default() };
        let mut erasure = world.journal().begin_erasure(plan).expect("the journal accepts writes");
        erasure.rewrite_segments(&|| true).expect("the segments are whole");
        while world.journal().finish_erasure(&mut erasure).expect("the disk is writable")
            != ErasureStep::Finished
        {
            erasure.prepare(&|| true).expect("the disk is writable");
        }
        assert_eq!(steps(&world), before);
    }
    let query = LogQuery { events: vec!["source_pruned".into()], limit: 1, ..LogQuery::default() };
    assert_eq!(world.store().log(&query).expect("readable"), [], "the entries were dropped");
    world.close();
    fs::remove_dir_all(world.dir.path().join("store")).expect("the database is removed");
    world.reopen();
    assert_eq!(steps(&world), before);
    for file in world.view().state.files.clone() {
        flip(&world.facts_path(&file));
    }
    rebuilt(&world, &releases()).expect("the payloads are there");
}
