//! Backups of a running daemon, and their restore.

use hyper::Method;
use hyper::body::Body;
use oracled_tests::generation::register_session;
use oracled_tests::ground::{example_documents, ingest, query_all, register_all, started_run, wait_for_run};
use oracled_tests::load::LoadConfig;
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, document, error_line, eventually, get, log, post, problem, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
    let (ontology, source, pipeline) = example_documents("world-bank");
    register_all(control, &ontology, &source, &pipeline).await;
    let payload = oracled_tests::ground::example("payload");
    let run = started_run(&ingest(control, "world-bank", "1", "2026-01-01", payload.to_string()).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
    query_all(&mut daemon.routes().await, "world-bank", &json!({"axes": []})).await
}
