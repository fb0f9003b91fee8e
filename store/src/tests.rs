//! The copy of a whole state directory, with the files of facts.

use crate::testing::{fill, open, whole_log};
use crate::{SegmentLog, StoreBackup, is_backed_up};
use domain_base::digest::Sha256Hex;
use std::fs;
use std::io::Read as _;
use std::path::Path;

fn copy_to(backup: &StoreBackup, dir: &Path) {
    for file in backup.files() {
        let path = dir.join(&file.name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is created");
        let mut bytes = Vec::new();
        backup.open(file).expect("the file opens").read_to_end(&mut bytes).expect("the read succeeds");
        assert_eq!(bytes.len() as u64, file.bytes, "{}", file.name);
        fs::write(path, bytes).expect("the write succeeds");
    }
}

#[test]
fn backup_has_the_store_of_its_commit_whatever_is_written_or_removed_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let facts = dir.path().join(format!("ground/facts/{}.sorted", Sha256Hex::of(b"x")));
    fs::write(&facts, "facts").expect("the write succeeds");
    fs::write(dir.path().join("log.key"), "key").expect("the write succeeds");
    fs::write(dir.path().join("held.key"), "another key").expect("the write succeeds");
    for n in 0..40 {
        fill(&mut journal, n * 3..n * 3 + 3);
    }
    let (log, counts, head) = (whole_log(&store), journal.counts(), store.log_head());
    let backup = journal.begin_backup().expect("the backup begins");
    assert_eq!((backup.entries, backup.root), head);
    for n in 0..200 {
        fill(&mut journal, 1000 + n * 3..1003 + n * 3);
    }
    backup.verify().expect("no file is damaged");
    drop((journal, store));

    let copy = tempfile::tempdir().expect("a directory");
    copy_to(&backup, copy.path());
    let names: Vec<_> = backup.files().iter().map(|file| file.name.as_str()).collect();
    // a file that no commit names yet, the database, the mirror and the keys are left out
    let is_needed = |name: &&str| name.starts_with("segments/") || *name == "watermark";
    assert!(names.iter().all(|name| is_needed(name) && is_backed_up(name)), "{names:?}");
    let tree = SegmentLog::open(copy.path()).and_then(|log| log.read(|_| true)).expect("the log is whole");
    assert_eq!((tree.size(), tree.root()), head);
    let (mut journal, store) = open(copy.path());
    assert!(whole_log(&store) == log && journal.counts() == counts, "another log");
    // the mirror is written again in parts
    for _ in 0..log.len() {
        journal.sync_pending_work();
    }
    drop(journal);
    let mirror = fs::read_to_string(copy.path().join("oracle_log.jsonl")).expect("the mirror is read");
    let lines: Vec<_> = whole_log(&store).into_iter().map(|line| line.json).collect();
    assert_eq!(mirror.lines().map(String::from).collect::<Vec<_>>(), lines);
}

#[test]
fn links_of_a_backup_are_removed_after_it_and_by_the_next_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let linked = || fs::read_dir(dir.path().join("ground/work")).expect("the folder is readable").count();
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 0..3);
    let backup = journal.begin_backup().expect("the backup begins");
    assert_eq!(linked(), 1);
    drop(backup);
    assert_eq!(linked(), 0);
    // a kill
    std::mem::forget(journal.begin_backup().expect("the backup begins"));
    drop((journal, store));
    assert_eq!(linked(), 1);
    drop(open(dir.path()));
    assert_eq!(linked(), 0);
}

#[test]
fn only_names_of_files_of_a_backup_are_known() {
    let digest = Sha256Hex::of(b"x");
    for name in [
        "watermark",
        "segments/0000000001",
        "segments/0000000001.zst",
        "segments/snapshot-0000000007/0000000001.zst",
        &format!("ground/facts/{digest}.sorted"),
        &format!("ground/raw/{digest}.raw"),
        &format!("ground/raw/{digest}.chunks"),
    ] {
        assert!(is_backed_up(name), "{name}");
    }
    for name in [
        "",
        "store/db",
        "checks.json",
        "log.key",
        "held.key",
        "oracle_log.jsonl",
        "restoring",
        "space_reserve",
        "watermark/x",
        "segments/spare",
        "segments/1",
        "segments/0000000001.new",
        "segments/0000000001.zst.zst",
        "segments//0000000001",
        "segments/../0000000001",
        "segments/snapshot-7/0000000001",
        "segments/snapshot-0000000007/x/0000000001",
        "ground/facts/x.sorted",
        &format!("ground/facts/{digest}.raw"),
        &format!("ground/raw/{digest}.sorted"),
        &format!("ground/facts/x/{digest}.sorted"),
        &format!("ground/raw/../{digest}.raw"),
    ] {
        assert!(!is_backed_up(name), "{name}");
    }
}
