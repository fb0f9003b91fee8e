//! Proofs of entries of the log: made by the daemon, verified offline, and by programs that others wrote.

use crate::wording::{is_logged, stable, without_numbers};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{Checkpoint as LogCheckpoint, LogKey, LogSigner};
use domain_audit::leaf::leaf_of;
use hyper::Method;
use oracled_tests::generation::register_session;
use oracled_tests::{DaemonWorld, GOOD, call, copy_dir, document, error_line, eventually, get, log, problem};
use serde_json::{Value, json};
use signed_note::{Note, StandardVerifier, VerifierList};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, mem};
use tlog_tiles::{Checkpoint, Hash, check_record, check_tree, record_hash};

/// The output of a successful call of `oraclectl`.
fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

/// Writes a file of the test, and returns its path.
fn file(world: &DaemonWorld, name: &str, text: impl AsRef<[u8]>) -> String {
    fs::write(world.path(name), text).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

async fn deliver(world: &DaemonWorld, session: &str) {
    let verdict = file(world, "verdict.json", GOOD);
    let submitted = ["submit", session, &verdict, "--tier", "quick", "--query", "Sell honey?"];
    let output = world.ctl_in_thread(&submitted).await;
    assert!(output.status.success(), "{output:?}");
}

/// Whether `oraclectl verify-log` accepts a bundle; the exit status of a refusal is 1 or 5.
fn is_accepted(world: &DaemonWorld, bundle: &str, key: &str, more: &[&str]) -> bool {
    let output = world.ctl(&[&["verify-log", bundle, "--key", key], more].concat());
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 5)), "{output:?}");
    code == Some(0)
}

#[tokio::test]
async fn proved_entries_are_verified_offline_and_against_an_earlier_checkpoint() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&world, "cs_1").await;
    let key = printed(&world, &["log", "key"]);
    let earlier = file(&world, "earlier", printed(&world, &["log", "checkpoint"]));
    deliver(&world, "cs_2").await;
    let proved = printed(&world, &["log", "prove", "--session", "cs_1", "--since", &earlier]);
    let bundle = file(&world, "bundle.json", &proved);
    let later = file(&world, "later", printed(&world, &["log", "checkpoint"]));
    assert_eq!(world.ctl(&["log", "prove", "--seq", "9999"]).status.code(), Some(1));
    assert!(daemon.stop().success());

    let key = key.trim();
    let shown = printed(&world, &["verify-log", &bundle, "--key", key, "--since", &earlier, "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let events: Vec<_> = shown["entries"].as_array().expect("entries").iter().collect();
    assert!(events.iter().any(|entry| entry["event"] == "verdict_cached"), "{shown}");
    assert!(events.iter().all(|entry| entry["session_id"] == "cs_1"), "{shown}");
    let key_file = file(&world, "key", key);
    assert!(is_accepted(&world, &bundle, &key_file, &[]));
    assert!(!is_accepted(&world, &bundle, key, &["--since", &later]), "the bundle has no proof of it");

    // another daemon has another key, and its log does not continue this one
    let other = DaemonWorld::default();
    let daemon = other.serve().await;
    for session in ["cs_1", "cs_2", "cs_3"] {
        deliver(&other, session).await;
    }
    let other_key = printed(&other, &["log", "key"]);
    assert!(!is_accepted(&world, &bundle, other_key.trim(), &[]));
    let before_rotation = file(&other, "earlier", printed(&other, &["log", "checkpoint"]));
    let since = other.ctl(&["log", "prove", "--session", "cs_1", "--since", &earlier]);
    assert_eq!(since.status.code(), Some(1));
    assert!(daemon.stop().success());
    // a restart keeps the key, and another one is an entry
    let daemon = other.serve().await;
    assert_eq!(printed(&other, &["log", "key"]), other_key);
    let key_file = other.state().join("log.key");
    assert_eq!(fs::metadata(&key_file).expect("the key is there").permissions().mode() & 0o777, 0o600);
    assert!(daemon.stop().success());
    fs::remove_file(&key_file).expect("the key is removed");
    let daemon = other.serve().await;
    let starts = log(&mut daemon.control().await, "event=service_started").await;
    let keys: Vec<_> = starts.iter().map(|entry| entry["log_key"] == other_key.trim()).collect();
    assert_eq!(keys, [true, true, false], "{starts:?}");
    let warned = other.service_log();
    assert_eq!(warned.matches("the log has entries and had no key").count(), 1, "{warned}");
    let bundle = printed(&other, &["log", "prove", "--session", "cs_1", "--since", &before_rotation]);
    let bundle = file(&other, "bundle", bundle);
    let new_key = printed(&other, &["log", "key"]);
    let since = ["--since", &before_rotation];
    assert!(!is_accepted(&other, &bundle, new_key.trim(), &since), "the earlier key is missing");
    let both = [&since[..], &["--key", other_key.trim()]].concat();
    assert!(is_accepted(&other, &bundle, new_key.trim(), &both));
    fs::write(&key_file, "no key").expect("the key is damaged");
    assert!(daemon.stop().success());
    let damaged = error_line(other.command());
    fs::remove_file(&key_file).expect("the key is removed");
    fs::create_dir_all(key_file.with_extension("key.new").join("full")).expect("its temporary name is taken");
    let not_created = error_line(other.command());
    insta::assert_snapshot!("faults_of_the_file_with_the_log_key", stable(&other, &(damaged + &not_created)));
}

#[test]
fn check_config_refuses_an_unusable_credential_with_the_log_key() {
    let mut world = DaemonWorld::default();
    fs::create_dir(world.path("credentials")).expect("the folder is created");
    let credentials = world.path("credentials").to_str().expect("valid UTF-8").to_owned();
    world.variables.push(("CREDENTIALS_DIRECTORY".into(), credentials));
    file(&world, "credentials/oracled_log-key", "no key");
    let mut check = world.oracled(&["check-config", "--config"]);
    check.arg(world.config_file());
    for command in [check, world.command()] {
        let refused = error_line(command);
        insta::assert_snapshot!("unusable_credential_with_the_log_key", stable(&world, &refused));
        assert!(!world.state().join("oracle_log.jsonl").exists(), "no log was created");
    }
}

#[tokio::test]
async fn no_changed_bit_of_a_bundle_is_accepted() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&world, "cs_1").await;
    let key = printed(&world, &["log", "key"]);
    let proved = printed(&world, &["log", "prove", "--session", "cs_1"]);
    assert!(daemon.stop().success());
    assert!(is_accepted(&world, &file(&world, "bundle", &proved), key.trim(), &[]));
    let mut random = fastrand::Rng::with_seed(20);
    for _ in 0..200 {
        let mut changed = proved.clone().into_bytes();
        let at = random.usize(..changed.len() - 1);
        changed[at] ^= 1 << random.u8(..8);
        assert!(!is_accepted(&world, &file(&world, "bundle", &changed), key.trim(), &[]), "byte {at}");
    }
    let mut bundle: Value = serde_json::from_str(&proved).expect("JSON");
    bundle["entries"].as_array_mut().expect("entries").swap(0, 1);
    let lines: Vec<Value> =
        bundle["entries"].as_array().expect("entries").iter().map(|e| e["line"].clone()).collect();
    assert!(
        is_accepted(&world, &file(&world, "bundle", bundle.to_string()), key.trim(), &[]),
        "order is free"
    );
    bundle["entries"][0]["line"] = lines[1].clone();
    assert!(!is_accepted(&world, &file(&world, "bundle", bundle.to_string()), key.trim(), &[]));
}

#[tokio::test]
async fn log_of_a_state_directory_is_verified_offline_and_each_change_is_found() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&world, "cs_1").await;
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let since = file(&world, "earlier", printed(&world, &["log", "checkpoint"]));
    let earlier = key.parse::<LogKey>().expect("a key").verify(&fs::read_to_string(&since).expect("a note"));
    let earlier = earlier.expect("it is signed");
    deliver(&world, "cs_2").await;
    let state = world.state().to_str().expect("valid UTF-8").to_owned();
    // the daemon may run
    let verify = ["verify-log", &state, "--key", &key, "--since", &since, "--json"];
    let shown: Value = serde_json::from_str(&printed(&world, &verify)).expect("JSON");
    assert_eq!(shown["checkpoints"], json!([earlier.size]), "{shown}");
    assert!(daemon.stop().success());

    let entries =
        fs::read_to_string(world.state().join("oracle_log.jsonl")).expect("readable").lines().count();
    let shown: Value = serde_json::from_str(&printed(&world, &verify)).expect("JSON");
    assert_eq!((&shown["size"], &shown["lines"]), (&json!(entries), &json!(entries)), "{shown}");
    let alone = ["verify-log", &state, "--key", &key, "--json"];
    let shown: Value = serde_json::from_str(&printed(&world, &alone)).expect("JSON");
    assert_eq!(shown["checkpoints"], json!([]), "nothing was compared");

    let whole = world.path("whole");
    copy_dir(&world.state(), &whole);
    let restore = || {
        fs::remove_dir_all(world.state()).expect("the directory is removed");
        copy_dir(&whole, &world.state());
    };
    let refuse = |place: &str| {
        let output = world.ctl(&verify);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && error.contains(place), "{place}: {output:?}");
        restore();
    };
    let mirror = world.state().join("oracle_log.jsonl");
    let lines = fs::read_to_string(&mirror).expect("readable");
    fs::write(&mirror, lines.replace("\"cs_1\"", "\"cs_3\"")).expect("the write succeeds");
    refuse("oracle_log.jsonl, line 2");
    let mut swapped: Vec<_> = lines.lines().collect();
    swapped.swap(3, 4);
    fs::write(&mirror, swapped.join("\n") + "\n").expect("the write succeeds");
    refuse("oracle_log.jsonl, line 4");
    let files = ["segments", "segments.copy"].map(|folder| world.state().join(folder).join("0000000001"));
    let damage = |file: &Path| {
        let mut bytes = fs::read(file).expect("readable");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("it has groups");
        bytes[used / 2] ^= 1;
        fs::write(file, &bytes).expect("the write succeeds");
    };
    // a segment has a copy: its damage is a note
    damage(&files[0]);
    let shown: Value = serde_json::from_str(&printed(&world, &verify)).expect("JSON");
    assert!(shown["notes"].to_string().contains("segments.copy"), "{shown}");
    damage(&files[1]);
    refuse("segment 1");
    files.iter().for_each(|file| fs::remove_file(file).expect("the segment is removed"));
    refuse("segment 1 is missing");

    // a checkpoint of another log with the same key, and one of a longer log
    let another = LogCheckpoint { root: [7; 32], ..earlier.clone() };
    let longer = LogCheckpoint { size: 9999, ..earlier };
    for (checkpoint, place) in [(another, "entry"), (longer, "9999")] {
        let secret = fs::read_to_string(world.state().join("log.key")).expect("readable");
        let secret = BASE64_STANDARD.decode(secret.trim()).expect("Base64").try_into().expect("32 bytes");
        let signer = LogSigner::new(&checkpoint.origin, &secret);
        fs::write(&since, signer.sign(checkpoint.size, checkpoint.root)).expect("the write succeeds");
        refuse(place);
    }
    assert!(world.ctl(&alone).status.success(), "the directory is whole again");
}

fn hashes(proof: &Value) -> Vec<Hash> {
    let hash = |text: &Value| {
        let bytes = BASE64_STANDARD.decode(text.as_str().expect("a text")).expect("Base64");
        Hash(bytes.try_into().expect("32 bytes"))
    };
    proof["hashes"].as_array().expect("hashes").iter().map(hash).collect()
}

/// The checkpoint in a note that `signed_note` has verified.
fn checkpoint(note: &str, key: &str) -> Checkpoint {
    let verifier = StandardVerifier::new(key).expect("a key");
    let read = Note::from_bytes(note.as_bytes()).expect("a note");
    let (verified, _) = read.verify(&VerifierList::new(vec![Box::new(verifier)])).expect("it is signed");
    assert_eq!(verified.len(), 1);
    Checkpoint::from_bytes(read.text()).expect("a checkpoint")
}

#[tokio::test]
async fn implementation_of_others_accepts_checkpoints_and_proofs() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let status = document(&get(control, "/v1/status").await);
    let key = status["log_key"].as_str().expect("a key").to_owned();
    let mut seen: Vec<Checkpoint> = Vec::new();
    for round in 0..4 {
        for n in 0..100 {
            register_session(routes, &format!("cs_{round}_{n}"), None).await;
        }
        let note = call(control, Method::GET, "/v1/log/checkpoint", None).await;
        let now = checkpoint(str::from_utf8(&note.body).expect("valid UTF-8"), &key);
        for before in &seen {
            let path = format!("/v1/log/continuation?old_size={}&size={}", before.size(), now.size());
            let proof = hashes(&document(&get(control, &path).await));
            check_tree(&proof, now.size(), *now.hash(), before.size(), *before.hash()).expect("it continues");
        }
        let lines = call(control, Method::GET, "/v1/log?after=0&limit=10000", None).await;
        let lines = String::from_utf8(lines.body.to_vec()).expect("valid UTF-8");
        for (index, line) in lines.lines().take(now.size() as usize).enumerate().step_by(37) {
            let path = format!("/v1/log/proof?seq={}&size={}", index + 1, now.size());
            let proof = hashes(&document(&get(control, &path).await));
            let leaf = record_hash(leaf_of(line).expect("an entry").as_bytes());
            check_record(&proof, now.size(), *now.hash(), index as u64, leaf).expect("it is in the log");
        }
        seen.push(now);
    }
    assert!(seen.last().is_some_and(|last| last.size() > 256), "more than one tile");
    for path in [
        "proof?seq=0&size=1",
        "proof?seq=2&size=1",
        "proof?seq=1&size=99999",
        "continuation?old_size=2&size=1",
    ] {
        problem(&get(control, &format!("/v1/log/{path}")).await, 400, "invalid_request");
    }
    // the leaf has no query
    let line = log(control, "event=session_registered").await[0].clone();
    assert!(line["salts"]["query_preview"].is_string() && line["query_preview"].is_string(), "{line}");
    let leaf = leaf_of(&line_of(&world.state(), 2)).expect("an entry").into_owned();
    let leaf: Value = serde_json::from_str(&leaf).expect("JSON");
    assert_eq!(leaf["salts"], Value::Null);
    assert!(leaf["query_preview"]["sha256"].is_string() && leaf["caller"]["sha256"].is_string(), "{leaf}");
    assert_eq!(leaf["session_id"], json!("cs_0_0"));
}

/// A line of the mirror, counted from 1.
fn line_of(state: &Path, number: usize) -> String {
    let mirror = fs::read_to_string(state.join("oracle_log.jsonl")).expect("the mirror is readable");
    mirror.lines().nth(number - 1).expect("the line exists").to_owned()
}

/// The checkpoint that the daemon has handed out, verified, and its file.
fn handed_out(world: &DaemonWorld, key: &str) -> (LogCheckpoint, PathBuf) {
    let entries = fs::read_dir(world.path("checkpoints")).expect("the folder is readable");
    let files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // the others are those of the days
    let file = files.iter().min_by_key(|file| file.as_os_str().len()).expect("a checkpoint");
    let note = fs::read_to_string(file).expect("the file is readable");
    let key: LogKey = key.trim().parse().expect("a key");
    (key.verify(&note).expect("it is signed"), file.clone())
}

/// The parts of a state directory that decide its log.
#[tokio::test]
async fn older_or_different_log_than_that_of_the_last_checkpoint_is_refused() {
    let mut world = DaemonWorld::default();
    let dir = world.path("checkpoints");
    world.config = format!("[checkpoints]\ndir = '{}'\nevery_s = 1\n", dir.display());
    let no_folder = error_line(world.command());
    fs::create_dir(&dir).expect("the folder is created");

    let daemon = world.serve().await;
    let key = printed(&world, &["log", "key"]);
    eventually("the first checkpoint", async || fs::read_dir(&dir).expect("a folder").count() >= 2).await;
    assert!(daemon.stop().success());
    let (first, file) = handed_out(&world, &key);
    let older = world.path("older");
    copy_dir(&world.state(), &older);

    let daemon = world.serve().await;
    deliver(&world, "cs_1").await;
    assert!(daemon.stop().success());
    let (second, _) = handed_out(&world, &key);
    assert!(second.size >= first.size + 4, "the last entry is included: {first:?} {second:?}");
    let size = format!("size={}", second.size);
    assert!(is_logged(&world, "INFO", &["checkpoint", &size]), "{}", world.service_log());

    let newer = world.path("newer");
    fs::rename(world.state(), &newer).expect("the rename succeeds");
    copy_dir(&older, &world.state());
    let older_copy = error_line(world.command());

    // the older copy gets other entries
    let config = mem::take(&mut world.config);
    let daemon = world.serve().await;
    for session in ["cs_2", "cs_3", "cs_4"] {
        deliver(&world, session).await;
    }
    assert!(daemon.stop().success());
    world.config = config;
    let different = error_line(world.command());

    // a damaged checkpoint hides no other one
    fs::write(&file, "half a note").expect("the write succeeds");
    let without_place = |refusal: &str| refusal.split(" in ").next().map(str::to_owned);
    assert_eq!(without_place(&error_line(world.command())), without_place(&different));

    fs::remove_dir_all(world.state()).expect("the removal succeeds");
    fs::rename(&newer, world.state()).expect("the rename succeeds");
    assert!(world.serve().await.stop().success());
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(is_logged(&world, "ERROR", &[name]), "{}", world.service_log());
    assert!(handed_out(&world, &key).0.size > second.size, "it was replaced");

    let files = || fs::read_dir(&dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    for file in files() {
        fs::write(file, "half a note").expect("the write succeeds");
    }
    let refusal = error_line(world.command());
    assert!(refusal.contains(&file.display().to_string()), "{refusal}");
    let refusals = [no_folder, older_copy, different, refusal].concat();
    let log = name.split('.').next().expect("the name of the log");
    let refusals = without_numbers(&stable(&world, &refusals).replace(log, "LOG"));
    insta::assert_snapshot!("logs_that_do_not_continue_their_checkpoints", refusals);
    files().for_each(|file| fs::remove_file(file).expect("the removal succeeds"));
    assert!(world.serve().await.stop().success());
}

#[tokio::test]
async fn delivered_verdict_with_its_proof_is_verified_offline() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    deliver(&world, "cs_1").await;
    deliver(&world, "cs_2").await;
    let key = printed(&world, &["log", "key"]);
    let key = key.trim();
    let routes = &mut daemon.routes().await;
    let plain = get(routes, "/v1/verdicts/cs_1").await.body;
    let proved = get(routes, "/v1/verdicts/cs_1?proof=1").await;
    assert_eq!(proved.status, 200);
    let text = String::from_utf8(proved.body.to_vec()).expect("valid UTF-8");
    assert!(text.as_bytes().starts_with(plain.strip_suffix(b"}").expect("an object")), "{text}");
    let events = document(&proved)["proof"]["entries"].as_array().expect("entries").len();
    assert_eq!(events, 2);
    for query in ["proof=2", "proof=", "other=1"] {
        let refused = get(routes, &format!("/v1/verdicts/cs_1?{query}")).await;
        assert_eq!(refused.status, 400, "{query}: {}", document(&refused));
    }
    let printed_too = printed(&world, &["verdict", "cs_1", "--proof"]);
    assert!(printed_too.starts_with(&text[..plain.len() - 1]));
    let other = get(routes, "/v1/verdicts/cs_2?proof=1").await;
    assert!(daemon.stop().success());

    let whole = file(&world, "proved.json", &text);
    assert!(is_accepted(&world, &whole, key, &[]));
    assert!(is_accepted(&world, &file(&world, "printed.json", &printed_too), key, &[]));
    let changed = [
        // another text with the proof of this one
        text.replacen("GREEN", "AMBER", 1),
        text.replacen(r#""session_id":"cs_1""#, r#""session_id":"cs_2""#, 1),
        // the proof of another delivery
        format!(
            r#"{},"proof":{}}}"#,
            &text[..plain.len() - 1],
            serde_json::to_string(&document(&other)["proof"]).expect("plain data")
        ),
    ];
    for changed in changed {
        assert_ne!(changed, text);
        assert!(!is_accepted(&world, &file(&world, "changed.json", &changed), key, &[]), "{changed}");
    }
}

/// The files under `dir`.
fn files_under(dir: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(dir).expect("the folder is readable").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn export_follows_no_link_inside_its_folder() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let (dir, outside) = (world.path("export"), world.path("outside"));
    let export = ["log", "export", dir.to_str().expect("valid UTF-8")];
    for linked in ["tile", "tile/0"] {
        fs::create_dir_all(dir.join(linked).parent().expect("a folder")).expect("it is created");
        fs::create_dir_all(&outside).expect("it is created");
        symlink(&outside, dir.join(linked)).expect("a link");
        let refused = world.ctl(&export);
        assert_eq!(refused.status.code(), Some(5), "{refused:?}");
        assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0, "{linked}");
        fs::remove_dir_all(&dir).expect("it is removed");
    }
    // the folder itself may be a link
    symlink(&outside, &dir).expect("a link");
    printed(&world, &export);
    assert!(outside.join("checkpoint").is_file());
}

#[tokio::test]
async fn exported_log_is_verified_and_each_changed_file_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..150 {
        register_session(routes, &format!("first_{n}"), None).await;
    }
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let since = file(&world, "since", printed(&world, &["log", "checkpoint"]));
    let dir = world.path("export").to_str().expect("valid UTF-8").to_owned();
    printed(&world, &["log", "export", &dir]);
    printed(&world, &["verify-log", &dir, "--key", &key]);
    for n in 0..150 {
        register_session(routes, &format!("second_{n}"), None).await;
    }
    // the export adds entries, since it reads leaves
    let other_checkpoint = printed(&world, &["log", "checkpoint"]);
    let exported: Value =
        serde_json::from_str(&printed(&world, &["--json", "log", "export", &dir])).expect("JSON");
    assert_eq!(exported["files"], json!(5), "the full and the last tile, their leaves, and the level above");
    let verified = printed(&world, &["--json", "verify-log", &dir, "--key", &key, "--since", &since]);
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!((&verified["size"], &verified["continues"]), (&exported["size"], &json!(151)));
    for path in ["0/0", "8/000", "0/000.p/0", "entries/999", "x"] {
        problem(&get(control, &format!("/v1/log/tile/{path}")).await, 400, "invalid_request");
    }
    // the queries are not exported
    for path in files_under(Path::new(&dir)) {
        let content = fs::read(&path).expect("the file is readable");
        assert!(memchr::memmem::find(&content, oracled_tests::generation::QUERY.as_bytes()).is_none());
    }

    let mut random = fastrand::Rng::with_seed(20);
    assert!(daemon.stop().success());
    // the first export's last tiles, which the second one has made full
    let needed = |path: &PathBuf| !path.ends_with("000.p/151");
    for path in files_under(Path::new(&dir)).into_iter().filter(needed) {
        let whole = fs::read(&path).expect("the file is readable");
        for round in 0..12 {
            let mut changed = whole.clone();
            let at = random.usize(..changed.len());
            match round {
                0 => changed.truncate(at),
                1 => changed.clear(),
                _ => changed[at] ^= 1 << random.u8(..8),
            }
            fs::write(&path, &changed).expect("the write succeeds");
            let output = world.ctl(&["verify-log", &dir, "--key", &key]);
            assert_eq!(output.status.code(), Some(1), "{}, byte {at}: {output:?}", path.display());
        }
        fs::remove_file(&path).expect("the removal succeeds");
        assert_ne!(
            world.ctl(&["verify-log", &dir, "--key", &key]).status.code(),
            Some(0),
            "{}",
            path.display()
        );
        fs::write(&path, whole).expect("the write succeeds");
    }
    fs::write(Path::new(&dir).join("checkpoint"), other_checkpoint).expect("the write succeeds");
    printed(&world, &["verify-log", &dir, "--key", &key]);
}
