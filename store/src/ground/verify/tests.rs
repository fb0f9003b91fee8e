use super::*;
use crate::ground::testing::*;
use domain_ground::source_state::SourceCheck;
use std::fs;
use std::os::unix::fs::FileExt;

/// A run of many records, some of them rejected, with its payload in the archive.
fn world() -> (TestStore, TestRun) {
    let mut all: Vec<_> = (0..30_000).map(|year| test_statement("ABW", year, 1)).collect();
    all.push(test_statement("ABW", 7, 2));
    let reading = test_run("1", 100, true, all);
    let mut world = TestStore::new();
    world.ingest(&reading);
    world.archive(&reading);
    (world, reading)
}

#[test]
fn verify_run_accepts_an_intact_payload() {
    let (world, reading) = world();
    let verified = world.view().verify_run(1, |_| true).unwrap().expect("run 1 exists");
    let payload_bytes = reading.statements.iter().map(|whole_bytes| whole_bytes.raw().len() as u64).sum();
    assert_eq!(
        verified,
        PayloadCheckReport { records: 30_001, payload_bytes, ..PayloadCheckReport::default() }
    );
    assert_eq!(world.view().verify_run(2, |_| true).unwrap(), None);
}

#[test]
fn check_of_many_runs_reads_each_record_once() {
    const RUNS: u32 = 8;
    let mut world = TestStore::new();
    for run in 0..RUNS {
        let all = (0..4000).map(|year| test_statement("ABW", year, u64::from(run))).collect();
        let reading = test_run(&run.to_string(), i64::from(run), false, all);
        world.ingest(&reading);
        world.archive(&reading);
    }
    let (view, runs) = (world.view(), (1..=RUNS).collect());
    let mut last = SourceCheckProgress::default();
    let mut proceed = |progress: SourceCheckProgress| {
        assert!(progress.bytes_read >= last.bytes_read, "{last:?} {progress:?}");
        last = progress;
        true
    };
    let mut meter = view.meter(&runs, &mut proceed);
    view.verify_files(&mut meter).unwrap();
    let verified = view.verify_runs(&runs, &mut meter).unwrap();
    assert_eq!(verified.len(), RUNS as usize);
    for (run, verified) in verified {
        assert_eq!((verified.records, verified.fault_count), (4000, 0), "run {run}");
    }
    // each file is read twice, for its digest and for its records, and each payload once
    assert!(last.bytes_read <= last.bytes, "{last:?}");
    assert!(last.bytes_read > last.bytes * 9 / 10, "{last:?}");
}

#[test]
fn check_stops_at_each_callback_that_returns_false() {
    const RUNS: u32 = 3;
    let mut world = TestStore::new();
    for run in 0..RUNS {
        let all = (0..2500).map(|year| test_statement("ABW", year, u64::from(run))).collect();
        let reading = test_run(&run.to_string(), i64::from(run), false, all);
        world.ingest(&reading);
        world.archive(&reading);
    }
    let (view, runs) = (world.view(), (1..=RUNS).collect());
    let check = |proceed: &mut dyn FnMut(SourceCheckProgress) -> bool| {
        let mut meter = view.meter(&runs, proceed);
        view.verify_files(&mut meter).and_then(|_| view.verify_runs(&runs, &mut meter)).map(|_| ())
    };
    let mut steps = 0;
    check(&mut |_| {
        steps += 1;
        true
    })
    .unwrap();
    assert!(steps > 10, "{steps}");
    for stop_at in 1..=steps {
        let mut steps = 0;
        let ended = check(&mut |_| {
            steps += 1;
            steps < stop_at
        });
        assert!(matches!(ended, Err(StoreError::Stopped)), "{ended:?}");
        assert_eq!(steps, stop_at, "it is not called again");
    }
}

#[test]
fn sources_that_were_checked_longest_ago_are_checked_first() {
    let world = TestStore::new();
    let store = world.store();
    let unchecked = |since, now| store.unchecked_sources(at(since), at(now)).unwrap();
    assert_eq!(store.source_check(&oracle_id()), None);
    assert_eq!(unchecked(0, 100), [oracle_id()]);
    let check = SourceCheck { checked_at: at(50), fault_count: 3 };
    store.put_source_check(&oracle_id(), check).unwrap();
    assert_eq!(store.source_check(&oracle_id()), Some(check));
    assert!(unchecked(50, 100).is_empty());
    assert_eq!(unchecked(51, 100), [oracle_id()]);
    // the clock was set back after the check
    assert_eq!(unchecked(0, 49), [oracle_id()]);
}

#[test]
fn verify_run_reports_a_damaged_or_missing_payload() {
    let (world, reading) = world();
    let path = world.payload_path(&reading);
    let whole = fs::read(&path).unwrap();
    let damage = |at: u64| {
        fs::write(&path, &whole).unwrap();
        let byte = whole[at as usize] ^ 1;
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[byte], at).unwrap();
        world.view().verify_run(1, |_| true).unwrap().unwrap()
    };
    for at in [20, whole.len() as u64 / 2, whole.len() as u64 - 1] {
        let verified = damage(at);
        assert_eq!(verified.fault_count, 1, "byte {at}: {verified:?}");
        assert!(verified.faults[0].what.contains(reading.input().raw_sha256.as_str()), "{verified:?}");
    }
    fs::remove_file(&path).unwrap();
    assert!(world.view().verify_run(1, |_| true).unwrap().unwrap().no_payload);
}

#[test]
fn records_missing_from_the_payload_are_named_by_run_and_offset() {
    let (world, reading) = world();
    // another intact payload under this one's name
    let whole = world.dir.path().join("whole");
    fs::copy(world.payload_path(&reading), &whole).unwrap();
    let mut other = reading.clone();
    other.statements[20_000].people = 2;
    // in another store, so that it shares no chunk with this one
    let elsewhere = TestStore::new();
    elsewhere.archive(&other);
    let mut bytes = fs::read(elsewhere.payload_path(&other)).unwrap();
    fs::write(world.payload_path(&reading), &bytes).unwrap();
    let verified = world.view().verify_run(1, |_| true).unwrap().unwrap();
    assert_eq!((verified.records, verified.fault_count), (0, 1), "it is another file: {verified:?}");
    // a footer with the expected digest
    let footer = bytes.len() - 68;
    let whole_bytes = fs::read(whole).unwrap();
    bytes[footer + 8..footer + 40]
        .copy_from_slice(&whole_bytes[whole_bytes.len() - 60..whole_bytes.len() - 28]);
    let crc = crc32fast::hash(&bytes[footer..footer + 56]).to_be_bytes();
    bytes[footer + 56..footer + 60].copy_from_slice(&crc);
    fs::write(world.payload_path(&reading), &bytes).unwrap();
    let verified = world.view().verify_run(1, |_| true).unwrap().unwrap();
    assert_eq!((verified.records, verified.fault_count), (30_001, 2));
    let offset = reading.statements[..20_000].iter().map(|whole_bytes| whole_bytes.raw().len() as u64).sum();
    let PayloadFault { run, position, offset: at, what } = &verified.faults[0];
    assert_eq!((*run, *position, *at), (1, Some(20_000), offset));
    assert!(what.contains("digest"), "{what}");
    assert_eq!(verified.faults[1].position, None, "the whole payload has another digest");
}

#[test]
fn sorted_file_that_differs_from_the_committed_one_is_named() {
    let (mut world, _) = world();
    let view = world.view();
    let (file, own) = (&view.state.files[0], &view.state.completed[0].rows);
    assert_eq!(
        view.verify_files(&mut view.meter(&BTreeSet::new(), &mut |_| true)).unwrap(),
        file.rows + own.rows
    );
    let name = file.sha256.clone();
    fs::copy(world.facts_path(own), world.facts_path(file)).unwrap();
    drop(view);
    world.reopen();
    let error = world.store().view(&oracle_id()).expect_err("another file");
    assert!(error.to_string().contains(name.as_str()), "{error}");
}
