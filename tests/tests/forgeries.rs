//! Rows and backups that another program has forged: each is refused.

use crate::erased_ids::{Services, use_all_sessions};
use domain_audit::leaf::{ROWS, hide_values};
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonWorld, document, post};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The tables of the database whose rows entries name: those that the daemon of this test fills.
const TABLES: &[&str] = &[
    "definitions",
    "documents",
    "held",
    "runs",
    "sources",
    "subjects",
    "reviews",
    "rejecting_checks",
    "outbox",
    "regens",
    "sessions",
];
/// The lengths of the heads of a segment and of a group.
const HEAD_BYTES: usize = 44;
const GROUP_HEAD_BYTES: usize = 32;
/// The bytes before the lines in a row of the log: its revision, the number of its chunks, and a time.
const LOG_HEAD_BYTES: usize = 8 + 2 + 8;
/// The stored length of a removed row.
const REMOVED: u32 = u32::MAX;

type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// One group of records: the numbers of the entries before and after it, and its rows.
type Group = ([u8; 16], Rows);

/// The segments of a backup, whose rows can be changed.
#[derive(Clone)]
struct ForgedLog {
    /// Each file with its head, which ends with the checksum of the group before it, the entries up to it, and its own checksum.
    heads: Vec<(PathBuf, [u8; HEAD_BYTES])>,
    /// Each group with the number of its segment.
    groups: Vec<(usize, Group)>,
}

impl ForgedLog {
    fn read(backup: &Path) -> Self {
        let (mut heads, mut groups) = (Vec::new(), Vec::new());
        for (segment, path) in segments(backup).into_iter().enumerate() {
            let mut content = read_segment(&path);
            let mut rest = content.split_off(HEAD_BYTES);
            heads.push((path, content.try_into().expect("a head")));
            while rest.starts_with(b"grp1") {
                let length = u32::from_be_bytes(rest[8..12].try_into().expect("4 bytes")) as usize;
                let next = rest.split_off(GROUP_HEAD_BYTES + length);
                let entries = rest[16..GROUP_HEAD_BYTES].try_into().expect("16 bytes");
                groups.push((segment, (entries, read_rows(&rest[GROUP_HEAD_BYTES..]))));
                rest = next;
            }
        }
        Self { heads, groups }
    }

    /// The content of each segment, with right checksums.
    fn contents(&self) -> Vec<Vec<u8>> {
        let mut previous = [0; 4];
        let written = self.heads.iter().enumerate().map(|(segment, (_, head))| {
            let mut content = [&head[..28], &previous, &head[32..40]].concat();
            content.extend(crc32fast::hash(&content).to_be_bytes());
            for (_, (entries, rows)) in self.groups.iter().filter(|(of, _)| *of == segment) {
                let bytes = rows_bytes(rows);
                let length = u32::try_from(bytes.len()).expect("a short group").to_be_bytes();
                let covered = [&length[..], &previous, entries].concat();
                previous = crc32fast::hash(&[b"grp1", &covered[..], &bytes].concat()).to_be_bytes();
                content.extend([b"grp1", &previous[..], &covered, &bytes].concat());
            }
            content
        });
        written.collect()
    }

    fn write(&self) {
        for ((path, _), content) in self.heads.iter().zip(self.contents()) {
            let is_compressed = path.extension().is_some();
            let content =
                if is_compressed { zstd::encode_all(&*content, 1).expect("memory") } else { content };
            fs::write(path, content).expect("the write succeeds");
        }
    }

    /// The last version of each row of a table: the numbers of its group and of the row.
    fn last_rows(&self, table: &str) -> Vec<(usize, usize)> {
        let mut last = BTreeMap::new();
        for (group, (_, (_, rows))) in self.groups.iter().enumerate() {
            for (index, (key, value)) in rows.iter().enumerate() {
                if !is_of(key, table) || !key.ends_with(&[0, 0, 0]) {
                    continue;
                }
                if value.is_some() {
                    last.insert(key, (group, index));
                } else {
                    last.remove(key);
                }
            }
        }
        last.into_values().collect()
    }

    /// The versions of rows of a table that a later group has replaced or removed.
    fn replaced_rows(&self, table: &str) -> Vec<(usize, usize)> {
        let last = self.last_rows(table);
        let mut replaced = Vec::new();
        for (group, (_, (_, rows))) in self.groups.iter().enumerate() {
            let versions = rows.iter().enumerate().filter(|(_, (key, value))| {
                is_of(key, table) && key.ends_with(&[0, 0, 0]) && value.is_some()
            });
            replaced.extend(versions.map(|(index, _)| (group, index)).filter(|place| !last.contains(place)));
        }
        replaced
    }

    /// Hides the digests of rows in the entries, as an erasure does. No leaf changes.
    fn hide_digests(&mut self) {
        for (key, value) in self.groups.iter_mut().flat_map(|(_, (_, rows))| rows) {
            let Some((head, lines)) = value.as_ref().and_then(|value| value.split_at_checked(LOG_HEAD_BYTES))
            else {
                continue;
            };
            // long lines are compressed, or in several chunks
            if is_of(key, "log") && lines.starts_with(b"{") && lines.ends_with(b"\n") {
                let lines = str::from_utf8(lines).expect("lines of the log").lines();
                let hidden =
                    lines.map(|line| hide_values(line, |member| member == ROWS).expect("an entry") + "\n");
                *value = Some([head, hidden.collect::<String>().as_bytes()].concat());
            }
        }
    }

    /// Forges a row of the table. Returns a description.
    fn forge(&mut self, table: &str, is_replaced: bool, random: &mut fastrand::Rng) -> String {
        let rows = if is_replaced { self.replaced_rows(table) } else { self.last_rows(table) };
        let (group, index) = rows[random.usize(..rows.len())];
        let (key, value) = self.groups[group].1.1[index].clone();
        let value = value.expect("it is stored");
        let (_, (_, last)) = self.groups.last_mut().expect("a group");
        let mut other = key.clone();
        let kind = [
            "changed",
            "hidden",
            "hidden and removed",
            "removed",
            "removed later",
            "renamed",
            "added",
            "chunk",
            "no chunk",
        ][random.usize(..if is_replaced { 1 } else { 9 })];
        match kind {
            // a character of its JSON, after the heads of the row and of a bundle
            "changed" | "hidden" => {
                let places: Vec<_> =
                    (60..value.len()).filter(|at| value[*at].is_ascii_alphanumeric()).collect();
                let at = places[random.usize(..places.len())];
                let mut changed = value;
                changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
                self.groups[group].1.1[index].1 = Some(changed);
                if kind == "hidden" {
                    self.hide_digests();
                }
            }
            "removed" => drop(self.groups[group].1.1.remove(index)),
            "hidden and removed" => {
                self.groups[group].1.1.remove(index);
                self.hide_digests();
            }
            "removed later" => match last.iter_mut().find(|(stored, _)| *stored == key) {
                Some((_, stored)) => *stored = None,
                None => last.push((key.clone(), None)),
            },
            "renamed" | "added" => {
                let at = key.len() - 4;
                other[at] = if other[at] == b'7' { b'8' } else { b'7' };
                if kind == "renamed" {
                    self.groups[group].1.1[index].0 = other;
                } else {
                    self.groups[group].1.1.push((other, Some(value)));
                }
            }
            // a second part, without the first one
            "chunk" => {
                *other.last_mut().expect("a key") = 1;
                last.retain(|(stored, _)| *stored != key);
                last.push((other, Some(b"forged".to_vec())));
            }
            // the second part is removed, whether there is one or not
            "no chunk" => {
                *other.last_mut().expect("a key") = 1;
                last.retain(|(stored, _)| chunk_stem(stored) != chunk_stem(&key));
                last.push((other, None));
            }
            _ => unreachable!("{kind}"),
        }
        format!("{kind} {:?}", String::from_utf8_lossy(&key))
    }
}

/// Whether `key` is one of the table.
fn is_of(key: &[u8], table: &str) -> bool {
    key.strip_prefix(table.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// The key of a row without the number of the chunk.
fn chunk_stem(key: &[u8]) -> &[u8] {
    &key[..key.len() - 2]
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("segments")).expect("the folder is readable");
    let files = files.map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|file| !file.ends_with("spare")).collect();
    files.sort();
    files
}

/// The uncompressed content of a segment.
fn read_segment(path: &Path) -> Vec<u8> {
    let content = fs::read(path).expect("the segment is readable");
    if path.extension().is_some() {
        zstd::decode_all(&*content).expect("the segment is whole")
    } else {
        content
    }
}

fn read_rows(bytes: &[u8]) -> Rows {
    let (mut at, mut rows) = (0, Rows::new());
    let mut take = |length: usize| {
        at += length;
        bytes.get(at - length..at)
    };
    while let Some(key) = take(2) {
        let value = u32::from_be_bytes(take(4).expect("a length").try_into().expect("4 bytes"));
        let key = take(usize::from(u16::from_be_bytes([key[0], key[1]]))).expect("a key").to_vec();
        rows.push((key, (value != REMOVED).then(|| take(value as usize).expect("a value").to_vec())));
    }
    rows
}

fn rows_bytes(rows: &Rows) -> Vec<u8> {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort();
    let mut bytes = Vec::new();
    for (key, value) in sorted {
        let length =
            value.as_ref().map_or(REMOVED, |value| u32::try_from(value.len()).expect("a short value"));
        bytes.extend(u16::try_from(key.len()).expect("a short key").to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(key.iter().chain(value.iter().flatten()));
    }
    bytes
}

fn is_refused(world: &DaemonWorld, arguments: &[&str], what: &str) {
    let output = world.ctl(arguments);
    assert_eq!(output.status.code(), Some(1), "{what}: {output:?}");
}

/// Makes backups of a daemon that has rows of each kind, forges `count` of them, and lets a user verify and restore each.
async fn forge_backups(count: usize) {
    let services = Services::start().await;
    let world = services.create_world();
    let daemon = world.serve().await;
    use_all_sessions(&daemon, &world, &services).await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a", "office-b"], json!({}))).await;
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let envelope = document(&post(&mut daemon.routes().await, "/v1/verify", &question).await);
    assert_eq!(envelope["kind"], "human_review", "{envelope}");
    let key = String::from_utf8(world.ctl_in_thread(&["log", "key"]).await.stdout).expect("valid UTF-8");
    let (backup, key) = (world.path("backup"), key.trim());
    let (backup_text, state) = (backup.to_str().expect("valid UTF-8"), world.path("restored"));
    let restore = ["restore", backup_text, "--state-dir", state.to_str().expect("valid UTF-8"), "--key", key];
    let verify = ["verify-log", backup_text, "--key", key];
    assert!(world.ctl_in_thread(&["backup", backup_text]).await.status.success());
    assert!(daemon.stop().success());
    let kept: Vec<_> = ["manifest.json", "checkpoint", "watermark"].map(|name| backup.join(name)).into();
    let kept: Vec<_> = kept.into_iter().chain(segments(&backup)).collect();
    let kept: Vec<_> = kept.into_iter().map(|file| (fs::read(&file).expect("readable"), file)).collect();
    let manifest = &kept[0].0;
    let whole = ForgedLog::read(&backup);
    for ((path, _), content) in whole.heads.iter().zip(whole.contents()) {
        assert!(
            read_segment(path).starts_with(&content),
            "{path:?}: the forger writes what the daemon writes"
        );
    }
    let replaced = TABLES.iter().filter(|table| !whole.replaced_rows(table).is_empty());
    assert!(replaced.count() > 3);
    let tables: BTreeSet<_> = TABLES.iter().filter(|table| !whole.last_rows(table).is_empty()).collect();
    assert_eq!(tables.len(), TABLES.len(), "{tables:?}");
    let report = world.ctl(&[&verify[..], &["--json"]].concat());
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert!(report["rows"]["equal"].as_u64() > Some(30) && report["rows"]["unnamed"] == 0, "{report}");

    let mut random = fastrand::Rng::with_seed(47);
    for number in 0..count {
        let mut forged = whole.clone();
        let table = TABLES[number % TABLES.len()];
        let is_replaced = number / TABLES.len() == 1 && !whole.replaced_rows(table).is_empty();
        let what = forged.forge(table, is_replaced, &mut random);
        forged.write();
        // the digests of the manifest are those of the forged files, but its signature is not
        let mut adapted: Value = serde_json::from_slice(manifest).expect("JSON");
        for file in adapted["manifest"]["files"].as_array_mut().expect("the files") {
            let content = fs::read(backup.join(file["name"].as_str().expect("a name"))).expect("readable");
            file["bytes"] = json!(content.len());
            file["sha256"] = json!(domain_base::digest::Sha256Hex::of(&content));
        }
        fs::write(backup.join("manifest.json"), adapted.to_string()).expect("the write succeeds");
        is_refused(&world, &restore, &what);
        is_refused(&world, &verify, &what);
        assert!(!state.exists(), "{what}: it left something");
        // without the files that are signed, it is a state directory: the log names each row
        fs::remove_file(backup.join("manifest.json")).expect("the removal succeeds");
        fs::remove_file(backup.join("checkpoint")).expect("the removal succeeds");
        is_refused(&world, &verify, &what);
        for (content, file) in &kept {
            fs::write(file, content).expect("the write succeeds");
        }
    }
    assert!(world.ctl(&restore).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_row_of_each_kind_is_refused_in_a_backup_and_in_a_state_directory() {
    forge_backups(2 * TABLES.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn three_hundred_forged_backups_are_refused() {
    forge_backups(300).await;
}
