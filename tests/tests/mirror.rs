//! `oracle_log.jsonl` is compared with the log, and written again if it differs.

use oracled_tests::generation::read_metric;
use oracled_tests::{DaemonWorld, GOOD, eventually, lines, log, post, read_whole_log, submission};
use serde_json::json;
use std::fs;

#[tokio::test]
async fn edited_mirror_is_kept_aside_and_written_again() {
    let world = DaemonWorld::default();
    let path = world.state().join("oracle_log.jsonl");
    {
        let daemon = world.serve().await;
        let routes = &mut daemon.routes().await;
        for session in ["cs_1", "cs_2"] {
            let path = format!("/v1/verdicts/{session}");
            assert_eq!(post(routes, &path, &submission(GOOD)).await.status, 201);
        }
    }
    let edited = world.mirror().replacen("GREEN", "AMBER", 1);
    fs::write(&path, &edited).expect("the mirror is edited");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    eventually("the repair is logged", async || log(control, "event=mirror_repaired").await.len() == 1).await;
    let repaired = &log(control, "event=mirror_repaired").await[0];
    let before = world.mirror();
    let seq = repaired["damaged_seq"].as_u64().expect("a number");
    let offset: usize = edited.split_inclusive('\n').take(seq as usize - 1).map(str::len).sum();
    assert!(edited.lines().nth(seq as usize - 1).expect("a line").contains("AMBER"), "{repaired}");
    assert_eq!(repaired["offset"], json!(offset));
    eventually("the mirror is complete", async || {
        lines(world.mirror().as_bytes()) == read_whole_log(control).await
    })
    .await;
    assert!(!before.contains("AMBER"), "{before}");
    let aside = fs::read_to_string(world.state().join("oracle_log.jsonl.foreign-1")).expect("it is kept");
    assert!(aside.starts_with(&edited));
    let routes = &mut daemon.routes().await;
    assert!((read_metric(routes, "oracled_mirror_repairs_total").await - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn mirror_without_its_last_lines_is_completed_with_an_entry() {
    let world = DaemonWorld::default();
    {
        let daemon = world.serve().await;
        let routes = &mut daemon.routes().await;
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
        // a kill could leave lines unsynced, and their loss is not a fault
        assert!(daemon.stop().success());
    }
    let kept: String = world.mirror().split_inclusive('\n').take(1).collect();
    fs::write(world.state().join("oracle_log.jsonl"), &kept).expect("the mirror is cut");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    eventually("the repair is logged", async || log(control, "event=mirror_repaired").await.len() == 1).await;
    let repaired = &log(control, "event=mirror_repaired").await[0];
    assert_eq!((&repaired["damaged_seq"], &repaired["offset"]), (&json!(2), &json!(kept.len())));
    eventually("the mirror is complete", async || {
        lines(world.mirror().as_bytes()) == read_whole_log(control).await
    })
    .await;
}
