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
