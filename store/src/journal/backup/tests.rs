use super::*;
use crate::SegmentLog;
use crate::journal::tests::{assert_mirror_is_whole, fill, open, whole_log};
use domain_base::digest::Sha256Hex;

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
    assert!(names.iter().all(|name| is_needed(name) && StoreBackup::has_name(name)), "{names:?}");
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
fn backup_of_a_state_with_any_flipped_bit_is_refused_and_names_the_segment() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = open(dir.path());
    for n in 0..40 {
        fill(&mut journal, n * 3..n * 3 + 3);
    }
    let mut random = fastrand::Rng::with_seed(47);
    let backup = journal.begin_backup().expect("the backup begins");
    let segments: Vec<_> = backup.files().iter().filter(|file| file.name.starts_with("segments/")).collect();
    assert!(segments.len() > 2, "{segments:?}");
    for file in segments {
        for _ in 0..10 {
            let path = backup.dir.path().join(&file.name);
            let whole = fs::read(&path).expect("the file is readable");
            // a sealed segment that is not compressed yet ends with zeros, which no group has
            let used =
                whole.iter().take(file.bytes as usize).rposition(|byte| *byte != 0).expect("it has groups");
            let at = random.usize(..=used);
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << random.u8(..8);
            fs::write(&path, damaged).expect("the write succeeds");
            let verified = backup.verify();
            fs::write(&path, whole).expect("the write succeeds");
            let Err(error) = verified else {
                // some bits of a compressed file have no effect on its content
                assert!(file.name.ends_with(".zst"), "{}, byte {at}", file.name);
                continue;
            };
            let text = error.to_string();
            // the version of the format in a head has no checksum of its own
            let is_of_version = matches!(error, StoreError::Newer { .. } | StoreError::Older { .. });
            assert!(
                is_of_version || text.contains("segment ") && !text.contains(BACKUP_PREFIX),
                "{}, byte {at}: {text}",
                file.name
            );
        }
    }
    backup.verify().expect("no file is damaged");
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
        assert!(StoreBackup::has_name(name), "{name}");
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
        assert!(!StoreBackup::has_name(name), "{name}");
    }
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
