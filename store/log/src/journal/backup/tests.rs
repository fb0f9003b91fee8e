use super::*;
use crate::journal::tests::{fill, open};

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
fn journal_that_rejects_writes_begins_no_backup() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, _store) = open(dir.path());
    fill(&mut journal, 0..3);
    journal.rebuild("damage".to_owned());
    assert!(matches!(journal.begin_backup(), Err(StoreError::Unavailable { .. })));
    journal.recover().expect("the database is rebuilt");
    assert_eq!(journal.begin_backup().expect("the backup begins").entries, 6);
}
