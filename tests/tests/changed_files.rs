//! Changes in every kind of file of a state directory, a backup, an export and a bundle: `oraclectl verify-log` detects each
//! one without a daemon, and names the file.

use oracled_tests::ground::{approve, example_documents, ingest, register_all, started_run, wait_for_run};
use oracled_tests::old_state::register_days_ago;
use oracled_tests::{DaemonWorld, GOOD, copy_dir, eventually, post, submission};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Changes of each operation to each kind of file in the short version.
const FEW: usize = 1;
/// The same number in the long version.
const MANY: usize = 200;
const SESSIONS: Range<usize> = 0..120;
/// Sessions with entries that are dropped, so that the segments have a snapshot.
const OLD: usize = 600;
const SOURCE: &str = "samples";

/// A way to change a file.
#[derive(Debug, Clone, Copy)]
enum Operation {
    FlippedBit,
    /// Two lines of a text, or two parts of another file, are swapped.
    SwappedParts,
    DeletedBytes,
    InsertedBytes,
    Truncated,
}

const OPERATIONS: [Operation; 5] = [
    Operation::FlippedBit,
    Operation::SwappedParts,
    Operation::DeletedBytes,
    Operation::InsertedBytes,
    Operation::Truncated,
];

impl Operation {
    /// The content after a random change of this kind; `None` if it is the same as before.
    fn apply(self, before: &[u8], random: &mut fastrand::Rng) -> Option<Vec<u8>> {
        let mut after = before.to_vec();
        let at = random.usize(..before.len().max(1));
        match self {
            Self::FlippedBit => *after.get_mut(at)? ^= 1 << random.u8(..8),
            Self::SwappedParts => after = swap_parts(before, random)?,
            Self::DeletedBytes => drop(after.drain(at..before.len().min(at + random.usize(1..40)))),
            Self::InsertedBytes => {
                let inserted: Vec<u8> = (0..random.usize(1..40)).map(|_| random.u8(1..)).collect();
                after.splice(at..at, inserted);
            }
            Self::Truncated => after.truncate(at),
        }
        (after != before).then_some(after)
    }
}

fn swap_parts(before: &[u8], random: &mut fastrand::Rng) -> Option<Vec<u8>> {
    if let Ok(text) = str::from_utf8(before)
        && text.lines().count() > 1
    {
        let mut lines: Vec<_> = text.split_inclusive('\n').collect();
        let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
        lines.swap(one, other);
        return Some(lines.concat().into_bytes());
    }
    let mut parts: Vec<_> = before.chunks(8).map(<[u8]>::to_vec).collect();
    let (one, other) = (random.usize(..parts.len().max(1)), random.usize(..parts.len().max(1)));
    let _ = (parts.get(one)?, parts.get(other)?);
    parts.swap(one, other);
    Some(parts.concat())
}

/// The result of `oraclectl verify-log`.
#[derive(Debug, PartialEq)]
enum Verified {
    /// The log is as expected; the notes about files, each with the file's name.
    Accepted(Vec<Value>),
    /// The error.
    Refused(String),
}

/// The files of one verification, and its arguments.
struct Target {
    path: PathBuf,
    arguments: Vec<String>,
    /// An older copy of its files.
    older: Option<PathBuf>,
    /// Whether files can be added to it.
    is_dir: bool,
}

impl Target {
    fn verify(&self, world: &DaemonWorld) -> Verified {
        let mut arguments = vec!["verify-log", text(&self.path), "--json"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let output = world.ctl(&arguments);
        if output.status.success() {
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            return Verified::Accepted(report["notes"].as_array().cloned().unwrap_or_default());
        }
        assert!(matches!(output.status.code(), Some(1 | 5)), "{output:?}");
        Verified::Refused(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        if self.is_dir { files(&self.path) } else { BTreeMap::from([(String::new(), read(&self.path))]) }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    /// Applies each operation `count` times to each kind of file, and checks that each change is detected with its place. Returns
    /// the number of changes of each kind.
    fn check_all(&self, world: &DaemonWorld, count: usize) -> BTreeMap<String, usize> {
        let unchanged = self.verify(world);
        assert!(matches!(unchanged, Verified::Accepted(_)), "{unchanged:?}");
        let mut random = fastrand::Rng::with_seed(20);
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let all = self.files();
        for name in all.keys().filter(|name| !is_derived(name)) {
            kinds.entry(kind(name)).or_default().push(name.clone());
        }
        let (mut done, mut missed) = (BTreeMap::new(), Vec::new());
        for (kind, names) in kinds {
            for operation in OPERATIONS {
                for _ in 0..count {
                    let name = random.choice(&names).expect("a kind has files");
                    let Some(after) = operation.apply(&all[name], &mut random) else { continue };
                    let what = format!("{operation:?}");
                    missed.extend(self.check(world, name, &all[name], Some(&after), &unchanged, &what));
                    *done.entry(kind.clone()).or_default() += 1;
                }
            }
            for name in &names {
                let older = self.older.as_ref().and_then(|dir| fs::read(dir.join(name)).ok());
                for (after, what) in [(older, "older copy"), (None, "removed")] {
                    if after.is_none() && what != "removed" || after.as_ref() == Some(&all[name]) {
                        continue;
                    }
                    missed.extend(self.check(world, name, &all[name], after.as_deref(), &unchanged, what));
                    *done.entry(kind.clone()).or_default() += 1;
                }
            }
        }
        assert_eq!(self.verify(world), unchanged, "each change was undone");
        assert!(missed.is_empty(), "{} of {done:?}:\n{}", missed.len(), missed.join("\n"));
        done
    }

    /// Changes one file. Returns a description if the change is not detected with its place.
    fn check(
        &self,
        world: &DaemonWorld,
        name: &str,
        before: &[u8],
        after: Option<&[u8]>,
        unchanged: &Verified,
        what: &str,
    ) -> Option<String> {
        let path = self.path_of(name);
        match after {
            Some(after) => fs::write(&path, after),
            None => fs::remove_file(&path),
        }
        .expect("the file is changed");
        let found = self.verify(world);
        fs::write(&path, before).expect("the file is restored");
        let is_detected = match &found {
            Verified::Refused(error) => is_place_named(error, name),
            Verified::Accepted(notes) => {
                let Verified::Accepted(known) = unchanged else { unreachable!("it is whole") };
                let is_place = |note: &Value| {
                    note["file"] == name
                        // a damaged segment beside a whole copy
                        || note["file"] == "segments"
                            && is_place_named(note["note"].as_str().unwrap_or_default(), name)
                        || is_mirror(name) && is_mirror(note["file"].as_str().unwrap_or_default())
                };
                notes.iter().any(|note| !known.contains(note) && is_place(note))
            }
        };
        let is_harmless = || after.is_some_and(|after| is_without_effect(name, before, after));
        (!is_detected && !is_harmless()).then(|| format!("{name} ({what}): {found:?}"))
    }
}

/// Whether an error names the place of a change in this file.
fn is_place_named(error: &str, name: &str) -> bool {
    let file = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let segment = file.parse::<u64>().is_ok_and(|number| {
        // a missing or damaged end of a segment can be found at the start of the next one
        [number, number + 1].iter().any(|number| error.contains(&format!("segment {number}")))
    });
    // a changed entry is found as another tile over it
    let tile = name.starts_with("tile/") && error.contains("tile/");
    name.is_empty() || segment || tile || error.contains(name) || error.contains(file)
}

/// The changes that do not matter, in full: everything else must be detected.
fn is_without_effect(name: &str, before: &[u8], after: &[u8]) -> bool {
    // zstd has no checksum here: two files can have the same content, which is what is verified
    if name.starts_with("segments/") && name.ends_with(".zst") {
        return matches!((zstd::decode_all(before), zstd::decode_all(after)), (Ok(before), Ok(after)) if before == after);
    }
    // zeros after the last group of the last segment, which has space in reserve
    if name.starts_with("segments/") {
        let content = |bytes: &[u8]| bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        return before[..content(before)] == after[..content(after)];
    }
    // white space after a key
    if name.ends_with(".key") {
        return before.trim_ascii_end() == after.trim_ascii_end();
    }
    // white space between the members of a bundle
    if name.is_empty() {
        let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
        return parse(after).is_some_and(|after| Some(after) == parse(before));
    }
    false
}

/// Whether a file is `oracle_log.jsonl`, or was renamed from it. A missing one is found by the next one.
fn is_mirror(name: &str) -> bool {
    name.starts_with("oracle_log.jsonl")
}

/// Whether a file is recreated from others, so that its content is not verified.
fn is_derived(name: &str) -> bool {
    ["store/", "segments.copy/"].iter().any(|folder| name.starts_with(folder))
        || ["checks.json", "segments/spare", "series.json", "space_reserve"].contains(&name)
}

/// The kind of a file: its folder, and its name without digits of hashes and numbers.
fn kind(name: &str) -> String {
    name.split('/')
        .map(|part| part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
        .collect::<Vec<_>>()
        .join("/")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("valid UTF-8")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the file is readable")
}

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
                found.insert(name, read(&path));
            }
        }
    }
    found
}

/// Runs `oraclectl` while the daemon serves, and returns its output.
async fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let mut output = world.ctl_in_thread(arguments).await;
    // a retention has ended, and the daemon still removes its copies
    while String::from_utf8_lossy(&output.stderr).contains("(backup_in_progress)") {
        tokio::time::sleep(Duration::from_millis(50)).await;
        output = world.ctl_in_thread(arguments).await;
    }
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

/// A state directory with every kind of file, and what was made of it.
struct Changed {
    world: DaemonWorld,
    /// A copy of the state directory from before the last entries.
    older: PathBuf,
    key: String,
    /// A checkpoint after all entries.
    since: String,
    backup: PathBuf,
    older_backup: PathBuf,
    export: PathBuf,
    bundle: PathBuf,
}

/// Commits verdicts and a release of the source.
async fn fill(world: &DaemonWorld, sessions: Range<usize>, version: &str) {
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    if version == "20" {
        let (ontology, entry, pipeline) = example_documents(SOURCE);
        register_all(control, &ontology, &entry, &pipeline).await;
        approve(control, SOURCE).await;
    }
    let line = |n: usize| json!({"number": n, "name": format!("name {version} {n}")}).to_string() + "\n";
    let payload: String = (0..40).map(line).collect();
    let answer = ingest(control, SOURCE, version, &format!("20{version}-01-01"), payload).await;
    let run = wait_for_run(control, &started_run(&answer)).await;
    assert_eq!(run["state"], "completed", "{run}");
    for n in sessions {
        post(routes, &format!("/v1/verdicts/cs_{n}"), &submission(GOOD)).await;
    }
    assert!(daemon.stop().success());
}

impl Changed {
    async fn create() -> Self {
        let mut world = DaemonWorld::default();
        world.config.push_str("\n[retention]\nlog_days = 30\n");
        let old: Vec<_> = (0..OLD).map(|n| format!("old-{n}")).collect();
        register_days_ago(&world.state(), old.iter().map(|name| (name.as_str(), 40)));
        let half = SESSIONS.end / 2;
        fill(&world, SESSIONS.start..half, "20").await;
        let daemon = world.serve().await;
        printed(&world, &["retention"]).await;
        assert!(daemon.stop().success());
        let [older, older_backup, backup, export] =
            ["older", "older-backup", "backup", "export"].map(|name| world.path(name));
        copy_dir(&world.state(), &older);
        let daemon = world.serve().await;
        printed(&world, &["backup", text(&older_backup)]).await;
        assert!(daemon.stop().success());
        let mirror = world.state().join("oracle_log.jsonl");
        fs::rename(&mirror, mirror.with_extension("jsonl.1")).expect("the log is rotated");
        fill(&world, half..SESSIONS.end, "21").await;
        let daemon = world.serve().await;
        let is_compressed = || files(&world.state()).keys().any(|name| name.ends_with(".zst"));
        eventually("a segment is compressed", async || is_compressed()).await;
        printed(&world, &["backup", text(&backup)]).await;
        printed(&world, &["log", "export", text(&export)]).await;
        let bundle = world.path("bundle.json");
        fs::write(&bundle, printed(&world, &["log", "prove", "--session", "cs_1"]).await).expect("written");
        let key = printed(&world, &["log", "key"]).await.trim().to_owned();
        let since = world.path("checkpoint");
        fs::write(&since, printed(&world, &["log", "checkpoint"]).await).expect("written");
        assert!(daemon.stop().success());
        let since = text(&since).to_owned();
        Self { world, older, key, since, backup, older_backup, export, bundle }
    }

    fn target(&self, path: PathBuf, since: bool, older: Option<PathBuf>) -> Target {
        let mut arguments = vec!["--key".to_owned(), self.key.clone()];
        if since {
            arguments.extend(["--since".to_owned(), self.since.clone()]);
        }
        Target { is_dir: path.is_dir(), path, arguments, older }
    }

    fn state(&self) -> Target {
        self.target(self.world.state(), true, Some(self.older.clone()))
    }

    fn backup(&self) -> Target {
        self.target(self.backup.clone(), false, Some(self.older_backup.clone()))
    }
}

async fn run_campaign(count: usize) {
    let changed = Changed::create().await;
    let world = &changed.world;
    let targets = [
        ("state directory", changed.state()),
        ("backup", changed.backup()),
        ("export", changed.target(changed.export.clone(), false, None)),
        ("bundle", changed.target(changed.bundle.clone(), false, None)),
    ];
    for (name, target) in targets {
        let done = target.check_all(world, count);
        println!("{name}: {done:?}");
    }
    // an older copy of everything
    for older in [&changed.older, &changed.older_backup] {
        let found = changed.target(older.clone(), true, None).verify(world);
        assert!(matches!(&found, Verified::Refused(error) if error.contains("entries")), "{found:?}");
    }
}

#[tokio::test]
async fn changes_in_every_kind_of_file_are_detected() {
    run_campaign(FEW).await;
}

#[tokio::test]
#[ignore = "takes minutes: 200 changes of each operation to each kind of file"]
async fn many_changes_in_every_kind_of_file_are_detected() {
    run_campaign(MANY).await;
}
