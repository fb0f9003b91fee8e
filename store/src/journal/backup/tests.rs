use super::*;
use crate::SegmentLog;
use crate::journal::tests::{assert_mirror_is_whole, fill, open, whole_log};
use oracled_domain::Sha256Hex;

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
    let elsewhere = tempfile::tempdir().expect("a directory");
    let linked = elsewhere.path().join("a name that is longer or shorter than the key");
    fs::write(&linked, "another key").expect("the write succeeds");
    std::os::unix::fs::symlink(&linked, dir.path().join("held.key")).expect("a link");
    for n in 0..40 {
        fill(&mut journal, n * 3..n * 3 + 3);
    }
    let (log, counts, head) = (whole_log(&store), journal.counts(), store.log_head());
    let backup = journal.begin_backup().expect("the backup begins");
    assert_eq!((backup.entries, backup.root), head);
    for n in 0..200 {
        fill(&mut journal, 1000 + n * 3..1003 + n * 3);
    }
    drop((journal, store));

    let copy = tempfile::tempdir().expect("a directory");
    copy_to(&backup, copy.path());
    for (name, key) in [("log.key", "key"), ("held.key", "another key")] {
        assert_eq!(fs::read_to_string(copy.path().join(name)).expect("readable"), key);
    }
    let names: Vec<_> = backup.files().iter().map(|file| file.name.as_str()).collect();
    // a file that no commit names yet, the database and the mirror are left out
    let is_needed =
        |name: &&str| name.starts_with("segments/") || ["log.key", "held.key", "watermark"].contains(name);
    assert!(names.iter().all(is_needed), "{names:?}");
    let tree = SegmentLog::open(copy.path()).and_then(|log| log.read(|_| true)).expect("the log is whole");
    assert_eq!((tree.size(), tree.root()), head);
    let (mut journal, store) = open(copy.path());
    assert!(whole_log(&store) == log && journal.counts() == counts, "another log");
    // the mirror is written again in parts
    for _ in 0..log.len() {
        journal.sync_pending_work();
    }
    drop(journal);
    assert_mirror_is_whole(copy.path(), &store);
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
fn journal_that_rejects_writes_begins_no_backup() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = open(dir.path());
    fill(&mut journal, 0..3);
    journal.rebuild("damage".to_owned());
    assert!(matches!(journal.begin_backup(), Err(StoreError::Unavailable { .. })));
    journal.recover().expect("the database is rebuilt");
    assert_eq!(journal.begin_backup().expect("the backup begins").entries, 6);
}
