//! A backup of each schema version, kept in the repository. Each later version must restore it, and then answer as the version that
//! wrote it. It is of the state directory that `oracled dev` makes, which uses all features.

use crate::backup::{back_up, files, public_key, restore, text};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oracled_domain::documents::DocumentKind;
use oracled_store::SCHEMA;
use oracled_tests::{DaemonProcess, DaemonWorld, at, get, lines, read_whole_log};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The characters in a line of base64.
const LINE_CHARS: usize = 120;

/// Bytes as text: compressed by zstd, in lines of base64.
#[derive(Serialize, Deserialize)]
struct PackedBytes(Vec<String>);

impl PackedBytes {
    fn pack(content: &[u8]) -> Self {
        let digits = BASE64_STANDARD.encode(zstd::encode_all(content, 19).expect("memory can be read"));
        let lines = digits.as_bytes().chunks(LINE_CHARS);
        Self(lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect())
    }

    fn unpack(&self) -> Vec<u8> {
        let compressed = BASE64_STANDARD.decode(self.0.concat()).expect("base64");
        zstd::decode_all(compressed.as_slice()).expect("zstd")
    }
}

/// A backup, and what the version that wrote it answers about its data.
#[derive(Serialize, Deserialize)]
struct StoredBackup {
    /// The public key of its log.
    key: String,
    /// The files by their paths.
    files: BTreeMap<String, PackedBytes>,
    /// The [`StoredAnswers`].
    answers: PackedBytes,
}

#[derive(Serialize, Deserialize)]
struct StoredAnswers {
    log: Vec<Value>,
    /// The status and the body of each answer on the control socket, by the path of the request.
    answers: BTreeMap<String, (u16, Value)>,
}

fn stored_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stored/backups")
}

/// Where the backup of this schema version is kept.
fn stored_path(schema: u32) -> PathBuf {
    stored_dir().join(format!("schema-{schema}.json"))
}

/// The different texts of this member in the log.
fn texts_of(log: &[Value], member: &str) -> BTreeSet<String> {
    log.iter().filter_map(|entry| Some(entry.get(member)?.as_str()?.to_owned())).collect()
}

/// Reads the documents, and the sessions, runs, sources, decisions and reviews in `log`. The answers are the same at any time.
async fn read_answers(daemon: &DaemonProcess<'_>, log: &[Value]) -> BTreeMap<String, (u16, Value)> {
    let control = &mut daemon.control().await;
    let mut paths = Vec::new();
    for (member, templates) in [
        ("session_id", &["/v1/sessions/{}/export"][..]),
        ("run_id", &["/v1/runs/{}", "/v1/runs/{}/changes", "/v1/runs/{}/rejects"]),
        ("oracle_id", &["/v1/sources/{}/export"]),
        ("execution_id", &["/v1/executions/{}"]),
        ("review_id", &["/v1/reviews/{}"]),
    ] {
        for id in texts_of(log, member) {
            paths.extend(templates.iter().map(|template| template.replace("{}", &id)));
        }
    }
    for kind in DocumentKind::names() {
        let listed = at(&get(control, &format!("/v1/documents/{kind}")).await, "/items");
        let ids = listed.as_array().expect("a list").iter().filter_map(|item| item["document_id"].as_str());
        paths.extend(ids.map(|id| format!("/v1/documents/{kind}/{id}")));
    }
    let mut answers = BTreeMap::new();
    for path in paths {
        let answer = get(control, &path).await;
        let body = answer.json().unwrap_or_else(|_| json!(lines(&answer.body)));
        answers.insert(path, (answer.status.as_u16(), body));
    }
    answers
}

/// Whether an answer has everything that an earlier one had. A later version can add members.
fn has_all(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            before.iter().all(|(name, value)| now.get(name).is_some_and(|now| has_all(now, value)))
        }
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, before)| has_all(now, before))
        }
        _ => now == before,
    }
}

#[tokio::test]
async fn stored_backup_of_each_schema_is_restored_and_answers_as_before() {
    assert!(stored_path(SCHEMA).exists(), "no backup of schema {SCHEMA} is kept; see CONTRIBUTING.md");
    let mut old_verifications = 0;
    for file in fs::read_dir(stored_dir()).expect("the folder exists") {
        let path = file.expect("the system reports it").path();
        let name = path.display();
        let stored: StoredBackup =
            serde_json::from_slice(&fs::read(&path).expect("it is readable")).expect("JSON");
        let before: StoredAnswers = serde_json::from_slice(&stored.answers.unpack()).expect("JSON");
        assert!(
            before.log.len() > 50
                && before.answers.values().filter(|(status, _)| *status == 200).count() > 20
        );
        let world = DaemonWorld::default();
        let backup = world.path("backup");
        for (name, content) in &stored.files {
            let path = backup.join(name);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("it is created");
            fs::write(path, content.unpack()).expect("the file is written");
        }
        let restored = restore(&world, &backup, &world.state(), &stored.key, &[]);
        assert!(restored.status.success(), "{name}: {restored:?}");
        let daemon = world.serve().await;
        let log = read_whole_log(&mut daemon.control().await).await;
        assert_eq!(log[..before.log.len()], before.log, "{name}");
        let answers = read_answers(&daemon, &before.log).await;
        for (request, (status, answer)) in &before.answers {
            let (now, document) = answers.get(request).expect("it is answered");
            assert!(now == status && has_all(document, answer), "{name}: {request}: {now} {document}");
        }
        // the owner of a verification of an earlier version is its caller
        let is_old = |entry: &&Value| {
            entry["event"] == "verification_decided" && entry["inputs"].get("owner").is_none()
        };
        for entry in before.log.iter().filter(is_old) {
            let (caller, id) = (&entry["caller"], entry["execution_id"].as_str().expect("an id"));
            let read = get(&mut daemon.routes().await, &format!("/v1/verify/{id}")).await;
            let uid = json!(nix::unistd::geteuid().as_raw());
            let is_own = caller["application"] == "default" && caller["uid"] == uid;
            assert_eq!(read.status.is_success(), is_own, "{name}: {id}");
            old_verifications += 1;
        }
        let key = public_key(&world);
        assert!(daemon.stop().success());
        let verified = world.ctl(&["verify-log", text(&world.state()), "--key", &key, "--replay"]);
        assert!(verified.status.success(), "{name}: {verified:?}");
    }
    assert!(old_verifications > 0, "the first backup has verifications without owners");
}

/// Keeps a backup of the present schema. To replace one, delete its file first.
#[tokio::test]
#[ignore = "writes to the repository"]
async fn stored_backup_of_the_present_schema_is_written() {
    let path = stored_path(SCHEMA);
    assert!(!path.exists(), "{} exists", path.display());
    let world = DaemonWorld::default();
    let walked = world.oracled(&["dev", "--exit", "--state-dir", text(&world.state())]).output();
    let walked = walked.expect("the program starts");
    assert!(walked.status.success(), "{walked:?}");
    let daemon = world.serve().await;
    let log = read_whole_log(&mut daemon.control().await).await;
    let answers = StoredAnswers { answers: read_answers(&daemon, &log).await, log };
    let key = public_key(&world);
    let (backup, _) = back_up(&world, "backup").await;
    let packed = |(name, content): (String, Vec<u8>)| (name, PackedBytes::pack(&content));
    let files = files(&backup).into_iter().map(packed).collect();
    let answers = serde_json::to_vec(&answers).expect("plain data with string keys");
    let stored = StoredBackup { key, files, answers: PackedBytes::pack(&answers) };
    assert!(daemon.stop().success());
    fs::create_dir_all(stored_dir()).expect("the folder is created");
    let mut json = serde_json::to_string_pretty(&stored).expect("plain data with string keys");
    json.push('\n');
    fs::write(path, json).expect("the file is written");
}
