//! Backups of a running daemon, and their restore.

use oracled_tests::ground::{
    approve, example_documents, ingest, query_all, register_all, started_run, wait_for_run,
};
use oracled_tests::load::LoadConfig;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, get, log, post, submission};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::sync::watch;

/// The files below `dir`, by their paths in it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).expect("the folder is readable") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).expect("it is below the folder").display().to_string();
                found.insert(name, fs::read(&path).expect("the file is readable"));
            }
        }
    }
    found
}

fn write(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    drop(fs::remove_dir_all(dir));
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is created");
        fs::write(path, content).expect("the write succeeds");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("valid UTF-8")
}

/// Backs up the daemon of the world, and returns the folder and the summary.
async fn back_up(world: &DaemonWorld, name: &str) -> (PathBuf, Value) {
    let dir = world.path(name);
    let output = world.ctl_in_thread(&["backup", text(&dir), "--json"]).await;
    assert!(output.status.success(), "{output:?}");
    (dir, serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn restore(world: &DaemonWorld, backup: &Path, state: &Path, more: &[&str]) -> Output {
    world.ctl(&[&["restore", text(backup), "--state-dir", text(state)], more].concat())
}

/// Ingests two records of a source, and returns what a query finds.
async fn ingest_records(daemon: &DaemonProcess<'_>) -> Vec<(Value, Value)> {
    let control = &mut daemon.control().await;
    let (ontology, source, pipeline) = example_documents("samples");
    register_all(control, &ontology, &source, &pipeline).await;
    let payload = "{\"number\": 1, \"size\": 2}\n{\"number\": 2, \"size\": 3}\n";
    let run = started_run(&ingest(control, "samples", "1", "2026-01-01", payload).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
    approve(control, "samples").await;
    query_samples(daemon).await
}

async fn query_samples(daemon: &DaemonProcess<'_>) -> Vec<(Value, Value)> {
    let records =
        query_all(&mut daemon.routes().await, "samples", &json!({"axes_requested": ["size"]})).await;
    assert_eq!(records.len(), 2);
    records
}

#[tokio::test]
async fn backup_under_load_is_restored_and_serves_the_same() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let verdict = document(&get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await);
    let facts = ingest_records(&daemon).await;
    let key = world.ctl(&["log", "key"]).stdout;
    let key = String::from_utf8(key).expect("valid UTF-8").trim().to_owned();
    let (stop, stopped) = watch::channel(false);
    let load = LoadConfig {
        routes: world.socket(),
        control: world.control_socket(),
        name: "load".into(),
        callers: 4,
        seed: 20,
    };
    let load = tokio::spawn(load.run(stopped));
    let (backup, summary) = back_up(&world, "backup").await;
    let taken = log(&mut daemon.control().await, "event=backup_taken&after=0").await;
    assert_eq!((taken.len(), &taken[0]["complete"]), (1, &json!(true)));
    assert_eq!(taken[0]["entries"], summary["entries"]);
    stop.send(true).expect("the load runs");
    load.await.expect("no answer is wrong");
    assert!(daemon.stop().success());

    assert!(world.ctl(&["verify-log", text(&backup), "--key", &key]).status.success());
    let restored = DaemonWorld::default();
    drop(fs::remove_dir_all(restored.state()));
    let output = restore(&world, &backup, &restored.state(), &["--key", &key]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(restore(&world, &backup, &restored.state(), &[]).status.code(), Some(5), "it is not empty");
    let daemon = restored.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(document(&get(routes, "/v1/verdicts/cs_1").await), verdict);
    assert_eq!(query_samples(&daemon).await, facts);
    let entries = summary["entries"].as_u64().expect("a number");
    let first = log(&mut daemon.control().await, &format!("after={}&limit=1", entries - 1)).await;
    assert_eq!(first[0]["seq"], entries);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn changed_backup_is_not_restored_and_leaves_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    ingest_records(&daemon).await;
    let (backup, _) = back_up(&world, "backup").await;
    let (earlier, _) = back_up(&world, "earlier").await;
    assert!(daemon.stop().success());
    let (whole, earlier) = (files(&backup), files(&earlier));
    let state = world.path("restored");
    let refused = |changed: &BTreeMap<String, Vec<u8>>, what: &str| {
        write(&backup, changed);
        let output = restore(&world, &backup, &state, &[]);
        assert_eq!(output.status.code(), Some(1), "{what}: {output:?}");
        assert!(!state.exists(), "{what}: it left something");
    };
    let mut random = fastrand::Rng::with_seed(20);
    for (name, content) in &whole {
        for _ in 0..3 {
            let mut changed = whole.clone();
            let bytes = changed.get_mut(name).expect("the file exists");
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u8(..8);
            refused(&changed, &format!("{name}, byte {at}"));
        }
        let mut changed = whole.clone();
        changed.insert(name.clone(), content[..content.len() / 2].to_vec());
        refused(&changed, &format!("{name} truncated"));
        changed.remove(name);
        refused(&changed, &format!("{name} missing"));
        let older = earlier.get(name).filter(|older| *older != content);
        if let Some(older) = older {
            changed.insert(name.clone(), older.clone());
            refused(&changed, &format!("{name} of another backup"));
        }
    }
    let mut changed = whole.clone();
    changed.insert("segments/0000000099".to_owned(), b"x".to_vec());
    refused(&changed, "a further file");
    write(&backup, &whole);
    assert!(restore(&world, &backup, &state, &[]).status.success());
}
