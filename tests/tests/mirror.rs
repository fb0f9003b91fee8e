//! `oracle_log.jsonl` is compared with the log, and written again if it differs.

use oracled_tests::generation::read_metric;
use oracled_tests::{
    DaemonWorld, GOOD, at, eventually, get, is_no_read, lines, log, post, read_whole_log, submission,
};
use serde_json::{Value, json};
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
    let seq = repaired["damaged_seq"].as_u64().expect("a number");
    let offset: usize = edited.split_inclusive('\n').take(seq as usize - 1).map(str::len).sum();
    assert!(edited.lines().nth(seq as usize - 1).expect("a line").contains("AMBER"), "{repaired}");
    assert_eq!(repaired["offset"], json!(offset));
    eventually("the mirror is complete", async || {
        let mirrored = lines(world.mirror().as_bytes());
        mirrored.into_iter().filter(is_no_read).eq(read_whole_log(control).await)
    })
    .await;
    assert!(!world.mirror().contains("AMBER"), "{}", world.mirror());
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
        let mirrored = lines(world.mirror().as_bytes());
        mirrored.into_iter().filter(is_no_read).eq(read_whole_log(control).await)
    })
    .await;
}

/// A stopped world with a verification in its log, whose entry is near the end.
async fn world_with_a_verification() -> DaemonWorld {
    let mut world = DaemonWorld::default();
    let state = world.state();
    let walked = world.oracled(&["dev", "--exit", "--state-dir", state.to_str().expect("UTF-8")]).output();
    assert!(walked.expect("the program starts").status.success());
    // the state of `oracled dev` is that of the test mode
    world.flags.push("--test-mode".to_owned());
    let daemon = world.serve().await;
    let question =
        json!({"workflow": "dev-1-census", "where": {"area": "SRB", "year": 2015}, "axes": ["population"]});
    let answer = post(&mut daemon.routes().await, "/v1/verify", &question).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(daemon.stop().success());
    world
}

/// The numbers of the verifications in these lines, and of those without their inputs.
fn verifications(entries: &[Value]) -> (Vec<u64>, Vec<u64>) {
    let decided = entries.iter().filter(|entry| entry["event"] == "verification_decided");
    let seq = |entry: &&Value| entry["seq"].as_u64().expect("a number");
    let is_hidden = |entry: &&Value| entry["inputs"]["sha256"].is_string();
    (
        decided.clone().map(|entry| seq(&entry)).collect(),
        decided.filter(is_hidden).map(|entry| seq(&entry)).collect(),
    )
}

#[tokio::test]
async fn mirror_has_the_hash_of_the_inputs_and_may_have_the_inputs() {
    let world = world_with_a_verification().await;
    let (all, hidden) = verifications(&lines(world.mirror().as_bytes()));
    assert!(!all.is_empty() && hidden == all, "{hidden:?} of {all:?}");
    let daemon = world.serve().await;
    let whole = read_whole_log(&mut daemon.control().await).await;
    assert_eq!(verifications(&whole), (all, Vec::new()));
    let logged = world.ctl_in_thread(&["log", "--json", "--after", "0", "--limit", "10000"]).await.stdout;
    let key = String::from_utf8(world.ctl_in_thread(&["log", "key"]).await.stdout).expect("UTF-8");
    assert!(daemon.stop().success());
    // the lines of the log itself, as an operator writes them, and those of the stop
    let logged = String::from_utf8(logged).expect("UTF-8");
    let stopped: String = world.mirror().split_inclusive('\n').skip(logged.lines().count()).collect();
    fs::write(world.state().join("oracle_log.jsonl"), logged + &stopped).expect("the mirror is written");
    let verify =
        ["verify-log", world.state().to_str().expect("UTF-8"), "--key", key.trim()].map(str::to_owned);
    let verify: Vec<_> = verify.iter().map(String::as_str).collect();
    assert!(world.ctl(&verify).status.success());
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    eventually("the mirror is checked", async || {
        !log(control, "event=service_started&after=0").await.is_empty()
            && world.mirror().lines().count() > whole.len()
    })
    .await;
    assert_eq!(log(control, "event=mirror_repaired").await, Vec::<Value>::new());
    assert!(daemon.stop().success());
    assert!(world.ctl(&verify).status.success());
}

#[tokio::test]
async fn inputs_that_only_a_damaged_segment_had_are_reported_as_lost() {
    let world = world_with_a_verification().await;
    fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
    for folder in ["segments", "segments.copy"] {
        let files = fs::read_dir(world.state().join(folder)).expect("the folder exists");
        let names =
            files.map(|file| file.expect("an entry").path()).filter(|path| path.extension().is_none());
        let last = names
            .filter(|path| path.file_name().is_some_and(|name| name != "spare"))
            .max()
            .expect("a segment");
        let mut bytes = fs::read(&last).expect("it is readable");
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("it has groups");
        // the group before that of the stop is the verification
        let at = (0..end).rev().filter(|at| bytes[*at..].starts_with(b"grp1")).nth(1).expect("a group");
        bytes[at + 40] ^= 1;
        fs::write(&last, bytes).expect("it is damaged");
    }
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (_, hidden) = verifications(&read_whole_log(control).await);
    let lost = at(&get(control, "/v1/status").await, "/lost_rows");
    let lost: Vec<_> = lost.as_array().expect("a list").iter().map(|lost| lost["row"].clone()).collect();
    assert_eq!(hidden.len(), 1);
    assert!(lost.contains(&json!(format!("log/{}", hidden[0]))), "{lost:?}");
    let recovered = &log(control, "event=storage_recovered&after=0").await[0];
    let reported = recovered["lost_rows"].as_array().expect("a list");
    assert!(reported.iter().any(|lost| lost["entry"] == json!(hidden[0])), "{recovered}");
}
