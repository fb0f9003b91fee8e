//! Backups of a running daemon, and their restore.

use crate::wording::{stable, without_numbers};
use oracled_tests::ground::{
    approve, example_documents, ingest, query_all, register_all, started_run, wait_for_run,
};
use oracled_tests::load::LoadConfig;
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, document, eventually, get, log, post, problem, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::sync::watch;

/// The files below `dir`, by their paths in it.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
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

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("valid UTF-8")
}

/// Backs up the daemon of the world, and returns the folder and the summary.
pub(crate) async fn back_up(world: &DaemonWorld, name: &str) -> (PathBuf, Value) {
    let dir = world.path(name);
    let output = world.ctl_in_thread(&["backup", text(&dir), "--json"]).await;
    assert!(output.status.success(), "{output:?}");
    (dir, serde_json::from_slice(&output.stdout).expect("JSON"))
}

pub(crate) fn restore(world: &DaemonWorld, backup: &Path, state: &Path, key: &str, more: &[&str]) -> Output {
    world.ctl(&[&["restore", text(backup), "--state-dir", text(state), "--key", key], more].concat())
}

/// The public key of the log of the running daemon.
pub(crate) fn public_key(world: &DaemonWorld) -> String {
    let key = world.ctl(&["log", "key"]).stdout;
    String::from_utf8(key).expect("valid UTF-8").trim().to_owned()
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
    let key = public_key(&world);
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
    let status = document(&get(&mut daemon.control().await, "/v1/status").await);
    assert_eq!(status["last_backup_at"], taken[0]["timestamp"]);
    stop.send(true).expect("the load runs");
    load.await.expect("no answer is wrong");
    assert!(daemon.stop().success());

    assert!(world.ctl(&["verify-log", text(&backup), "--key", &key]).status.success());
    let restored = DaemonWorld::default();
    drop(fs::remove_dir_all(restored.state()));
    let private = world.state().join("log.key");
    let more = ["--log-key", text(&private), "--json"];
    let output = restore(&world, &backup, &restored.state(), &key, &more);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["has_log_key"], &report["lost_held_verdicts"]), (&json!(true), &json!([])));
    assert_eq!(fs::read(restored.state().join("log.key")).ok(), fs::read(&private).ok());
    assert_eq!(
        restore(&world, &backup, &restored.state(), &key, &[]).status.code(),
        Some(5),
        "it is not empty"
    );
    let daemon = restored.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(document(&get(routes, "/v1/verdicts/cs_1").await), verdict);
    assert_eq!(query_samples(&daemon).await, facts);
    let entries = summary["entries"].as_u64().expect("a number");
    let first = log(&mut daemon.control().await, &format!("after={}&limit=1", entries - 1)).await;
    assert_eq!(first[0]["seq"], entries);
    let replaced = log(&mut daemon.control().await, "event=log_key_replaced&after=0").await;
    assert!(replaced.is_empty(), "the key is the same: {replaced:?}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn backup_has_no_private_key_and_a_restore_without_it_logs_the_new_key() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let key = public_key(&world);
    let (backup, _) = back_up(&world, "backup").await;
    assert!(daemon.stop().success());
    let secret = fs::read_to_string(world.state().join("log.key")).expect("the key is readable");
    for (name, content) in files(&backup) {
        assert!(!name.ends_with(".key"), "{name}");
        let has_secret = content.windows(secret.trim().len()).any(|bytes| bytes == secret.trim().as_bytes());
        assert!(!has_secret, "{name} has the private key");
    }
    let restored = DaemonWorld::default();
    drop(fs::remove_dir_all(restored.state()));
    let output = world.ctl(&["restore", text(&backup), "--state-dir", text(&restored.state())]);
    assert_eq!(output.status.code(), Some(2), "the public key is required: {output:?}");
    let other = world.path("other.key");
    fs::write(&other, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").expect("the write succeeds");
    let output = restore(&world, &backup, &restored.state(), &key, &["--log-key", text(&other)]);
    assert_eq!(output.status.code(), Some(1), "the key is another one: {output:?}");
    assert!(!restored.state().exists());
    assert!(restore(&world, &backup, &restored.state(), &key, &[]).status.success());
    assert!(!restored.state().join("log.key").exists());
    let daemon = restored.serve().await;
    let new = public_key(&restored);
    let replaced = log(&mut daemon.control().await, "event=log_key_replaced&after=0").await;
    assert_eq!((&replaced[0]["before"], &replaced[0]["after"]), (&json!(key), &json!(new)));
    assert!(daemon.stop().success());
    drop(restored.serve().await);
    let (directory, keys) = (restored.state(), ["--key", key.as_str(), "--key", new.as_str()]);
    let output = restored.ctl(&[&["verify-log", text(&directory)], &keys[..]].concat());
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn upgraded_state_is_refused_by_an_earlier_version_whose_backup_still_serves() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let (backup, _) = back_up(&world, "before").await;
    let key = public_key(&world);
    assert!(daemon.stop().success());
    // as a later version writes it
    let mark = world.state().join("watermark");
    let mut bytes = fs::read(&mark).expect("the file is readable");
    for slot in bytes.chunks_mut(4096) {
        let schema = slot[8..12].try_into().map(u32::from_be_bytes).expect("four bytes");
        slot[8..12].copy_from_slice(&(schema + 1).to_be_bytes());
    }
    fs::write(&mark, bytes).expect("the write succeeds");
    let upgraded = files(&world.state());
    let output = world.run_until_exit();
    assert!(!output.status.success(), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    insta::assert_snapshot!("store_of_a_newer_version", without_numbers(&stable(&world, &error)));
    assert_eq!(files(&world.state()), upgraded, "nothing was changed");

    fs::rename(world.state(), world.path("newer")).expect("the folder is moved");
    assert!(restore(&world, &backup, &world.state(), &key, &[]).status.success());
    let daemon = world.serve().await;
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await.status, 200);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn backup_of_a_damaged_state_fails_and_leaves_no_folder() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    ingest_records(&daemon).await;
    let large = submission(&json!({"verdict": "GREEN", "summary": "large ".repeat(20_000)}).to_string());
    for n in 0..3 {
        let path = format!("/v1/verdicts/cs_{n}");
        assert_eq!(post(&mut daemon.routes().await, &path, &large).await.status, 201);
    }
    eventually("the first segment is compressed", async || {
        world.state().join("segments/0000000001.zst").exists()
    })
    .await;
    let (good, _) = back_up(&world, "good").await;
    let named = |start: &str, end: &str| {
        let names: Vec<String> = files(&world.state()).into_keys().collect();
        let found = names.iter().rfind(|name| name.starts_with(start) && name.ends_with(end));
        found.unwrap_or_else(|| panic!("no {start}…{end} in {names:?}")).clone()
    };
    let assert_refused = async |name: &str, code: &str| {
        let failed = world.path("failed");
        let output = world.ctl_in_thread(&["backup", text(&failed)]).await;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name}: {output:?}");
        assert!(message.contains(code), "{name}: {message}");
        let shown = if name.starts_with("segments/") { "segment " } else { name };
        assert!(message.contains(shown) && message.contains("backup"), "{name}: {message}");
        assert!(!failed.exists(), "{name}: it left something");
    };
    let cases = [
        (named("ground/raw/", ".raw"), false),
        (named("ground/facts/", ".sorted"), false),
        (named("ground/raw/", ".raw"), true),
    ];
    for (name, is_deleted) in cases {
        let path = world.state().join(&name);
        let whole = fs::read(&path).expect("the file is readable");
        if is_deleted {
            fs::remove_file(&path).expect("the file is removed");
        } else {
            flip_bit(&path, 60);
        }
        assert_refused(&name, "source_damaged").await;
        fs::write(&path, &whole).expect("the write succeeds");
    }
    let key = public_key(&world);
    for (n, (is_active, is_deleted)) in [(false, false), (true, false), (false, true)].into_iter().enumerate()
    {
        let name = if is_active { active_segment(&world) } else { named("segments/0000000001", ".zst") };
        let path = world.state().join(&name);
        if is_deleted {
            fs::remove_file(&path).expect("the file is removed");
        } else {
            flip_bit(&path, 60);
        }
        let repaired = format!("repaired-{n}");
        back_up(&world, &repaired).await;
        let events = log(&mut daemon.control().await, "event=storage_recovered&after=0").await;
        assert_eq!(events.len(), n + 1, "{events:?}");
        let restored = world.path(&format!("restored-{n}"));
        assert!(restore(&world, &world.path(&repaired), &restored, &key, &[]).status.success());
    }
    let name = named("segments/0000000001", ".zst");
    for folder in ["segments", "segments.copy"] {
        flip_bit(&world.state().join(folder).join("0000000001.zst"), 60);
    }
    assert_refused(&name, "state_damaged").await;
    assert!(restore(&world, &good, &world.path("restored"), &key, &[]).status.success());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn daemon_starts_with_damaged_segments_and_writes_them_again() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for n in 0..5 {
        assert_eq!(
            post(&mut daemon.routes().await, &format!("/v1/verdicts/cs_{n}"), &submission(GOOD)).await.status,
            201
        );
    }
    let key = public_key(&world);
    assert!(daemon.stop().success());
    let active = world.state().join(active_segment(&world));
    for (n, damage) in ["flip", "cut", "deleted", "all deleted"].into_iter().enumerate() {
        let active = if n == 0 { active.clone() } else { world.state().join(active_segment(&world)) };
        match damage {
            "flip" => flip_bit(&active, 100),
            "cut" => fs::write(&active, &fs::read(&active).expect("it is readable")[..60])
                .expect("the write succeeds"),
            "deleted" => fs::remove_file(&active).expect("the removal succeeds"),
            _ => fs::remove_dir_all(world.state().join("segments")).expect("the removal succeeds"),
        }
        let daemon = world.serve().await;
        for n in 0..5 {
            let read = get(&mut daemon.routes().await, &format!("/v1/verdicts/cs_{n}")).await;
            assert_eq!(read.status, 200, "{damage}");
        }
        eventually("the segments are written again", async || {
            world.ctl_in_thread(&["verify-log", text(&world.state()), "--key", &key]).await.status.success()
        })
        .await;
        assert!(daemon.stop().success(), "{damage}");
        fs::remove_dir_all(world.state().join("store")).expect("the removal succeeds");
        let daemon = world.serve().await;
        assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_4").await.status, 200, "{damage}");
        assert!(daemon.stop().success(), "{damage}");
    }
}

/// The name of the segment to which the daemon appends.
fn active_segment(world: &DaemonWorld) -> String {
    let mut names = files(&world.state()).into_keys();
    let is_plain = |name: &String| {
        name.strip_prefix("segments/").is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    names.rfind(is_plain).expect("a segment is active")
}

/// Changes one bit in place: a copy of the file has other bytes than the one that the daemon has open.
fn flip_bit(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(path).expect("the file opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("the file is long enough");
    file.write_all_at(&[byte[0] ^ 4], at).expect("the write succeeds");
}

#[tokio::test]
async fn changed_backup_is_not_restored_and_leaves_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    ingest_records(&daemon).await;
    let (backup, _) = back_up(&world, "backup").await;
    let (earlier, _) = back_up(&world, "earlier").await;
    let key = public_key(&world);
    assert!(daemon.stop().success());
    let (whole, earlier) = (files(&backup), files(&earlier));
    let state = world.path("restored");
    let refused = |changed: &BTreeMap<String, Vec<u8>>, what: &str| {
        write(&backup, changed);
        let output = restore(&world, &backup, &state, &key, &[]);
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
    assert!(restore(&world, &backup, &state, &key, &[]).status.success());
}

#[tokio::test]
async fn row_that_no_copy_has_is_reported_and_everything_else_is_served() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for n in 0..10 {
        let path = format!("/v1/verdicts/cs_{n}");
        assert_eq!(post(&mut daemon.routes().await, &path, &submission(GOOD)).await.status, 201);
    }
    let key = public_key(&world);
    assert!(daemon.stop().success());
    fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
    let segment = world.state().join(active_segment(&world));
    let content = fs::read(&segment).expect("the segment is readable");
    let at =
        content.windows(12).position(|bytes| bytes == b"verdicts/cs_").expect("an entry names a verdict");
    flip_bit(&segment, at as u64);
    let copy = active_segment(&world).replace("segments/", "segments.copy/");
    flip_bit(&world.state().join(copy), at as u64);

    // the first entry that names a verdict is that of cs_0
    let check = async |daemon: &DaemonProcess<'_>| {
        let routes = &mut daemon.routes().await;
        problem(&get(routes, "/v1/verdicts/cs_0").await, 500, "record_damaged");
        let again = post(routes, "/v1/verdicts/cs_0", &submission(GOOD)).await;
        problem(&again, 500, "record_damaged");
        for n in 1..10 {
            assert_eq!(get(routes, &format!("/v1/verdicts/cs_{n}")).await.status, 200, "{n}");
        }
        let status = document(&get(&mut daemon.control().await, "/v1/status").await);
        let lost = status["lost_rows"].as_array().expect("the lost rows").clone();
        let rows: Vec<_> = lost.iter().map(|lost| lost["row"].as_str().expect("a name")).collect();
        assert_eq!(rows, ["sessions/cs_0", "verdicts/cs_0"], "{status}");
        lost
    };
    let daemon = world.serve().await;
    let lost = check(&daemon).await;
    eventually("the segments are written again", async || {
        document(&get(&mut daemon.control().await, "/v1/status").await)["segment_damage"].is_null()
    })
    .await;
    let recovered = log(&mut daemon.control().await, "event=storage_recovered&after=0").await;
    let with_losses: Vec<_> = recovered.iter().filter(|entry| entry["lost_rows"].is_array()).collect();
    assert_eq!((with_losses.len(), &with_losses[0]["lost_rows"]), (1, &json!(lost)), "{recovered:?}");
    assert_eq!(with_losses[0]["session_id"], "cs_0", "an erasure concerns the entry");
    let (backup, made) = back_up(&world, "backup").await;
    assert_eq!(made["lost_rows"], 2, "{made}");
    let report = world.ctl_in_thread(&["verify-log", text(&backup), "--key", &key, "--json"]).await;
    assert!(report.status.success(), "{report:?}");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["rows"]["lost"], json!(["sessions/cs_0", "verdicts/cs_0"]), "{report}");

    let restored = DaemonWorld::default();
    drop(fs::remove_dir_all(restored.state()));
    let output = restore(&world, &backup, &restored.state(), &key, &[]);
    assert!(output.status.success(), "{output:?}");
    let other = restored.serve().await;
    assert_eq!(check(&other).await, lost);
    assert!(other.stop().success());

    let erased = world.ctl_in_thread(&["erase", "--session", "cs_0", "--reason", "lost"]).await;
    assert!(erased.status.success(), "{erased:?}");
    assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_0").await.status, 404);
    eventually("no row is lost", async || {
        document(&get(&mut daemon.control().await, "/v1/status").await)["lost_rows"] == json!([])
    })
    .await;
    assert!(daemon.stop().success());
    let verified = world.ctl(&["verify-log", text(&world.state()), "--key", &key]);
    assert!(verified.status.success(), "{verified:?}");
}

#[tokio::test]
async fn sealed_segment_that_is_damaged_like_its_copy_costs_only_its_rows() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for n in 0..150 {
        let path = format!("/v1/verdicts/cs_{n}");
        assert_eq!(post(&mut daemon.routes().await, &path, &submission(GOOD)).await.status, 201);
    }
    assert!(daemon.stop().success());
    for folder in ["segments", "segments.copy"] {
        let path = world.state().join(folder).join("0000000002.zst");
        let middle = fs::metadata(&path).expect("it is sealed and compressed").len() / 2;
        flip_bit(&path, middle);
    }
    for _ in 0..2 {
        let daemon = world.serve().await;
        let (mut served, mut lost) = (0, 0);
        for n in 0..150 {
            let read = get(&mut daemon.routes().await, &format!("/v1/verdicts/cs_{n}")).await;
            match read.status.as_u16() {
                200 => served += 1,
                _ => {
                    problem(&read, 500, "record_damaged");
                    lost += 1;
                }
            }
        }
        assert!(lost > 0 && served > 50, "{served} served, {lost} lost");
        let status = document(&get(&mut daemon.control().await, "/v1/status").await);
        assert!(status["lost_rows"].as_array().is_some_and(|rows| rows.len() >= lost), "{status}");
        let ready = document(&get(&mut daemon.routes().await, "/readyz").await);
        assert!(ready["degraded"].to_string().contains("rows_lost: "), "{ready}");
        assert!(daemon.stop().success());
    }
}
