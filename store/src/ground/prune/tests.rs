use crate::ground::query::ScanBudget;
use crate::ground::testing::*;
use std::fs;

fn releases() -> [TestRun; 3] {
    [
        test_run(
            "1",
            100,
            true,
            vec![test_statement("ABW", 1, 1), test_statement("FRA", 1, 1), test_statement("ZWE", 1, 1)],
        ),
        test_run(
            "2",
            200,
            true,
            vec![test_statement("ABW", 1, 2), test_statement("FRA", 1, 1), test_statement("ZWE", 1, 1)],
        ),
        test_run("3", 300, true, vec![test_statement("ABW", 1, 3), test_statement("FRA", 1, 1)]),
    ]
}

fn world() -> TestStore {
    let mut world = TestStore::new();
    for release in releases() {
        world.ingest(&release);
        world.archive(&release);
    }
    world
}

fn query_counts_at(world: &TestStore, second: i64) -> (usize, u64) {
    let ontology = ontology();
    let answered =
        world.view().query(&query(&ontology, &[]), at(second), None, None, ScanBudget::UNLIMITED).unwrap();
    (answered.found.len(), answered.pruned)
}

#[test]
fn prune_removes_only_content_that_ceased_to_hold() {
    let mut world = world();
    let holds: Vec<_> = [200, 300, 999].map(|second| world.records_in_force(second, None)).into();
    let export = world.export();
    assert_eq!(world.prune(200), (1, Vec::new()));
    assert_eq!(query_counts_at(&world, 100), (2, 1));
    assert_eq!(holds, [200, 300, 999].map(|second| world.records_in_force(second, None)));
    // a statement keeps its content if a later release repeats it, although the earlier statement was the first
    let first = releases()[0].input().raw_sha256;
    assert_eq!(world.prune(300), (3, Vec::new()));
    assert_eq!(world.records_in_force(300, None), holds[1]);
    assert_eq!(query_counts_at(&world, 200), (1, 2));
    assert_eq!(world.prune(300), (0, Vec::new()));
    assert!(world.store().files().has_archived(&first));
    // provenance and digests stay
    let after = world.export();
    let lines = |bytes: &[u8]| -> Vec<serde_json::Value> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    };
    let mut provenance: Vec<_> = lines(&after).iter().map(|line| line["provenance"].clone()).collect();
    let pruned = provenance.iter_mut().map(|stored| stored.as_object_mut().unwrap().remove("pruned"));
    let pruned: Vec<_> = pruned.map(|pruned| pruned.is_some()).collect();
    let before: Vec<_> = lines(&export).iter().map(|line| line["provenance"].clone()).collect();
    assert_eq!(provenance, before);
    let gone: Vec<_> = lines(&after).iter().map(|line| line["record"].is_null()).collect();
    // ABW: two versions, each before and after the end of its validity was known, and the version in force; FRA; ZWE
    assert_eq!(gone, [true, true, true, true, false, false, true, true]);
    assert_eq!(pruned, gone);
}

#[test]
fn pruned_content_is_answered_once_another_run_states_it_again() {
    let run = |version: &str, second, people| {
        test_run(version, second, false, vec![test_statement("ABW", 1, people)])
    };
    let mut world = TestStore::new();
    world.ingest(&run("1", 100, 1));
    world.ingest(&run("2", 200, 2));
    assert_eq!(world.prune(250).0, 1);
    assert_eq!(query_counts_at(&world, 150), (0, 1));
    // the correction of the second version has the content of the first one, so both are one version
    world.ingest(&run("2", 200, 1));
    for second in [150, 250] {
        assert_eq!(query_counts_at(&world, second), (1, 0), "{second}");
        assert_eq!(world.records_in_force(second, None), [("ABW".to_owned(), 1, 1)]);
    }
    let export = String::from_utf8(world.export()).unwrap();
    assert!(!export.contains("\"record\":null"), "{export}");
    world.ingest(&run("3", 300, 3));
    // 1 of the first run has no row of its own
    assert_eq!(world.prune(350).0, 2);
    assert_eq!(query_counts_at(&world, 250), (0, 1));
}

#[test]
fn release_that_brings_back_pruned_content_is_counted() {
    let people = |country: &str, people| test_statement(country, 1, people);
    let run = |version: &str, second, statements| test_run(version, second, false, statements);
    let mut world = TestStore::new();
    world.ingest(&run("1", 100, vec![people("ABW", 1), people("FRA", 1)]));
    world.ingest(&run("2", 200, vec![people("ABW", 2), people("FRA", 2)]));
    assert_eq!(world.prune(250).0, 2);
    let pruned = |world: &TestStore, reading: &TestRun| world.staged(reading).unwrap().pruned;
    assert_eq!(pruned(&world, &run("2", 200, vec![people("ABW", 9)])), 1);
    assert_eq!(pruned(&world, &run("2", 200, vec![people("ABW", 9), people("FRA", 9)])), 0);
    assert_eq!(pruned(&world, &run("2", 200, vec![people("ABW", 9), people("FRA", 1)])), 0);
    assert_eq!(pruned(&world, &run("3", 300, vec![people("ABW", 9)])), 0);
    // a later version is in force now, and the pruned one would be in force before it
    world.ingest(&run("3", 300, vec![people("ABW", 3), people("FRA", 3)]));
    assert_eq!(pruned(&world, &run("2", 200, vec![people("ABW", 9)])), 1);
    assert_eq!(world.prune(300).0, 2);
    assert_eq!(pruned(&world, &run("2", 200, vec![people("ABW", 9)])), 0, "both contents are pruned");
}

#[test]
fn prune_lists_payloads_without_remaining_content() {
    let mut world = world();
    world.ingest(&test_run("4", 400, true, vec![test_statement("FRA", 1, 9)]));
    world.reopen();
    let (statements, unneeded) = world.prune(400);
    assert_eq!(statements, 8);
    assert_eq!(unneeded.len(), 3);
    for sha256 in &unneeded {
        assert!(world.store().remove_unneeded_payload(sha256, Some(&oracle_id())).unwrap() > 0);
        assert!(!world.store().files().has_archived(sha256));
        assert_eq!(world.store().remove_unneeded_payload(sha256, Some(&oracle_id())).unwrap(), 0);
    }
    let shared = &unneeded[0];
    world.archive(&releases()[0]);
    world.archive(&releases()[1]);
    world.archive(&releases()[2]);
    let another = "another".parse().unwrap();
    assert_eq!(world.store().remove_unneeded_payload(shared, Some(&another)).unwrap(), 0);
    assert!(world.store().files().has_archived(shared), "it is of a run of another source");
}

#[test]
fn dropped_pruning_leaves_no_files() {
    let world = world();
    let before = world.file_names();
    let pruned = world.view().prune(at(300), |_| true).unwrap().unwrap();
    assert!(pruned.freed_bytes > 0 && world.file_names().len() == before.len() + 1);
    drop(pruned);
    assert_eq!(world.file_names(), before);
    assert_eq!(fs::read_dir(world.dir.path().join("ground/work")).unwrap().count(), 0);
}
