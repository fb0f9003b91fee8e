mod cutting;

use super::*;
use crate::file_end::FileOwner;
use domain_base::digest::Sha256Stream;
use file::ChunkTable;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Read;
use store_base::error::{SourceFileKind, StoreError};
use tempfile::{NamedTempFile, TempDir, TempPath};

/// More bytes than a chunk at the start of a payload has.
const LONG: usize = 64 * 1024;

fn archive_in(dir: &TempDir, payload: &[u8], piece_bytes: usize, earlier: &[&PayloadRef]) -> PayloadRef {
    let writer = ArchiveWriter::create(dir.path(), owner()).expect("the file is created");
    let mut writer = earlier.iter().fold(writer, |writer, earlier| writer.after(&earlier.sha256));
    for piece in payload.chunks(piece_bytes) {
        writer.push(piece).expect("the write succeeds");
    }
    writer.finish().expect("the write succeeds")
}

fn archive(payload: &[u8], piece_bytes: usize) -> (TempDir, PayloadRef) {
    let dir = tempfile::tempdir().expect("a directory");
    let archived = archive_in(&dir, payload, piece_bytes, &[]);
    (dir, archived)
}

fn open(dir: &TempDir, archived: &PayloadRef) -> Result<ArchivedPayload, StoreError> {
    ArchivedPayload::open(dir.path(), &archived.sha256, &owner())
}

fn read(archive: &ArchivedPayload) -> Vec<u8> {
    let mut payload = Vec::new();
    archive.reader().read_to_end(&mut payload).expect("the read succeeds");
    payload
}

fn is_whole(dir: &TempDir, archived: &PayloadRef) -> bool {
    open(dir, archived).and_then(|archive| archive.verify()).is_ok()
}

fn size_bytes(dir: &TempDir) -> u64 {
    let entries = fs::read_dir(dir.path()).expect("the directory is readable");
    entries.map(|entry| entry.expect("an entry").metadata().expect("its size").len()).sum()
}

fn remove(dir: &TempDir, archived: &[&PayloadRef]) -> u64 {
    let payloads: Vec<_> = archived.iter().map(|archived| archived.sha256.clone()).collect();
    let planned = remove_payloads(dir.path(), &payloads, true).expect("the archive is readable");
    assert_eq!(remove_payloads(dir.path(), &payloads, false).expect("the removal succeeds"), planned);
    planned
}

fn flip(path: &Path, place: usize) {
    let mut bytes = fs::read(path).expect("the file is readable");
    bytes[place] ^= 1;
    fs::write(path, &bytes).expect("the write succeeds");
}

fn owner() -> FileOwner {
    FileOwner::new(&"people".parse().expect("a valid id"), SourceFileKind::Payload)
}

fn damage(error: StoreError) -> String {
    match error {
        StoreError::SourceFile { kind: SourceFileKind::Payload, .. } => error.to_string(),
        other => panic!("it should be damage: {other}"),
    }
}

/// A fault without the folder and the digest in the name of the file.
fn without_names(dir: &TempDir, fault: &str, sha256: &Sha256Hex) -> String {
    fault.replace(&dir.path().display().to_string(), "DIR").replace(sha256.as_str(), "SHA256")
}

/// Text like a table's, with `size_bytes` bytes and no repetition.
fn table(size_bytes: usize) -> Vec<u8> {
    let lines =
        (0_u64..).flat_map(|n| format!("{n},{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes());
    lines.take(size_bytes).collect()
}

/// Releases of a table that gains a line at its beginning.
fn releases(count: usize, size_bytes: usize) -> Vec<Vec<u8>> {
    let mut payload = table(size_bytes);
    let next = |day| {
        payload.splice(0..0, format!("day {day}\n").into_bytes());
        payload.clone()
    };
    (0..count).map(next).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn archive_returns_payloads_and_slices_unchanged(
        size in prop_oneof![0..2000_usize, Just(LONG), Just(2 * LONG), LONG..16 * LONG],
        piece_bytes in 1000..700_000_usize,
        ends in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 8),
    ) {
        let payload = table(size);
        let (dir, archived) = archive(&payload, piece_bytes);
        prop_assert_eq!(&archived, &PayloadRef { sha256: Sha256Hex::of(&payload), size_bytes: size as u64 });
        let archive = open(&dir, &archived).expect("the file opens");
        prop_assert_eq!(archive.size_bytes(), size as u64);
        prop_assert!(read(&archive) == payload);
        for (one, other) in ends {
            let (one, other) = (one.index(size + 1), other.index(size + 1));
            let (from, to) = (one.min(other), one.max(other));
            let slice = archive.slice(from as u64, (to - from) as u64).expect("the range is readable");
            prop_assert!(slice == payload[from..to]);
        }
        archive.verify().expect("the file is intact");
    }

    #[test]
    fn verify_reports_any_flipped_bit_with_its_file(size in 0..8 * LONG, position in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (dir, archived) = archive(&table(size), LONG);
        let path = path(dir.path(), &archived.sha256);
        let mut bytes = fs::read(&path).expect("the file is readable");
        let at = position.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).expect("the write succeeds");
        let detail = damage(open(&dir, &archived).and_then(|archive| archive.verify()).expect_err("the data is damaged"));
        prop_assert!(detail.contains(&path.display().to_string()), "{}", detail);
    }

    #[test]
    fn open_detects_a_truncated_payload(size in 0..8 * LONG, position in any::<prop::sample::Index>()) {
        let (dir, archived) = archive(&table(size), LONG);
        let file = OpenOptions::new().write(true).open(path(dir.path(), &archived.sha256)).expect("the file opens");
        let len = file.metadata().expect("the file exists").len();
        file.set_len(position.index(len as usize) as u64).expect("the truncation succeeds");
        damage(open(&dir, &archived).expect_err("the file opens"));
    }

    #[test]
    fn payloads_stay_whole_while_others_are_added_and_removed(
        steps in vec((any::<prop::sample::Index>(), any::<bool>()), 1..24),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let payloads = releases(8, 4 * LONG);
        let mut archived: Vec<Option<PayloadRef>> = vec![None; payloads.len()];
        for (at, is_added) in steps {
            let at = at.index(payloads.len());
            if is_added {
                let earlier: Vec<_> = archived.iter().flatten().cloned().collect();
                archived[at] = Some(archive_in(&dir, &payloads[at], LONG, &earlier.iter().collect::<Vec<_>>()));
            } else if let Some(gone) = archived[at].take() {
                remove(&dir, &[&gone]);
                prop_assert!(open(&dir, &gone).is_err());
            }
            for (payload, archived) in payloads.iter().zip(&archived) {
                if let Some(archived) = archived {
                    prop_assert!(read(&open(&dir, archived).expect("it opens")) == *payload);
                }
            }
        }
        let rest: Vec<_> = archived.iter().flatten().collect();
        remove(&dir, &rest);
        let marks = |name: &OsStr| is_unfinished(Path::new(name));
        let left = fs::read_dir(dir.path()).expect("readable").map(|entry| entry.expect("an entry").file_name());
        prop_assert_eq!(left.filter(|name| !marks(name)).count(), 0, "no chunk outlives its last payload");
    }
}

#[test]
fn archived_release_costs_what_it_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(30, 16 * LONG);
    let first = archive_in(&dir, &payloads[0], LONG, &[]);
    let first_bytes = size_bytes(&dir);
    let mut last = first;
    for payload in &payloads[1..] {
        last = archive_in(&dir, payload, LONG, &[&last]);
    }
    let later_bytes = size_bytes(&dir) - first_bytes;
    assert!(later_bytes < first_bytes, "29 releases cost {later_bytes} bytes, the first one {first_bytes}");
    assert!(read(&open(&dir, &last).expect("it opens")) == payloads[29]);
}

#[test]
fn damaged_chunk_is_reported_by_each_payload_that_needs_it_and_stored_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(3, 4 * LONG);
    let first = archive_in(&dir, &payloads[0], LONG, &[]);
    let second = archive_in(&dir, &payloads[1], LONG, &[&first]);
    let path = path(dir.path(), &first.sha256);
    // the chunks are at the start of the file, and the second payload shares all but the first one
    let place = fs::metadata(&path).expect("the file exists").len() / 2;
    flip(&path, place as usize);
    for archived in [&first, &second] {
        let detail = damage(open(&dir, archived).and_then(|archive| archive.verify()).expect_err("damaged"));
        assert!(
            detail.contains(archived.sha256.as_str()) && detail.contains(first.sha256.as_str()),
            "{detail}"
        );
    }
    // the next release does not rely on the damaged chunk
    let third = archive_in(&dir, &payloads[2], LONG, &[&second, &first]);
    assert!(is_whole(&dir, &third) && !is_whole(&dir, &second));
    // the first release is ingested again
    assert_eq!(archive_in(&dir, &payloads[0], LONG, &[&first]), first);
    assert!(is_whole(&dir, &first) && is_whole(&dir, &second) && is_whole(&dir, &third));
}

#[test]
fn repaired_payload_is_whole_if_its_chunks_were_those_of_a_removed_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(2, 4 * LONG);
    let removed = archive_in(&dir, &payloads[0], LONG, &[]);
    let damaged = archive_in(&dir, &payloads[1], LONG, &[&removed]);
    remove(&dir, &[&removed]);
    assert!(is_whole(&dir, &damaged));
    // its own chunk is at the start of its file
    flip(&path(dir.path(), &damaged.sha256), 0);
    assert!(!is_whole(&dir, &damaged));
    assert_eq!(archive_in(&dir, &payloads[1], LONG, &[&damaged]), damaged);
    assert!(is_whole(&dir, &damaged));
    assert!(!chunks_path(dir.path(), &removed.sha256).exists(), "no payload needs them now");
}

#[test]
fn removal_fails_without_a_change_if_a_file_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(2, 4 * LONG);
    let first = archive_in(&dir, &payloads[0], LONG, &[]);
    let second = archive_in(&dir, &payloads[1], LONG, &[&first]);
    // a link to itself can be neither read nor found missing
    let unreadable = chunks_path(dir.path(), &first.sha256);
    std::os::unix::fs::symlink(&unreadable, &unreadable).expect("the link is created");
    let refused = remove_payloads(dir.path(), std::slice::from_ref(&first.sha256), false);
    assert!(matches!(refused, Err(StoreError::Io { .. })), "{refused:?}");
    fs::remove_file(&unreadable).expect("the link exists");
    assert!(is_whole(&dir, &first) && is_whole(&dir, &second));
}

#[test]
fn missing_chunk_is_damage_of_the_payload_that_needs_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(2, 4 * LONG);
    let first = archive_in(&dir, &payloads[0], LONG, &[]);
    let second = archive_in(&dir, &payloads[1], LONG, &[&first]);
    fs::remove_file(path(dir.path(), &first.sha256)).expect("the file exists");
    let detail = damage(open(&dir, &second).expect_err("a chunk is missing"));
    insta::assert_snapshot!(without_names(&dir, &detail, &second.sha256));
}

#[test]
fn writer_keeps_chunks_of_a_payload_that_is_removed_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let payloads = releases(2, 4 * LONG);
    let first = archive_in(&dir, &payloads[0], LONG, &[]);
    let writer = ArchiveWriter::create(dir.path(), owner()).expect("the file is created");
    let mut writer = writer.after(&first.sha256);
    writer.push(&payloads[1]).expect("the write succeeds");
    remove(&dir, &[&first]);
    let second = writer.finish().expect("the write succeeds");
    assert!(read(&open(&dir, &second).expect("it opens")) == payloads[1]);
}

#[test]
fn verify_detects_each_flipped_bit_of_a_short_payload() {
    let (dir, archived) = archive(b"a short payload", 15);
    let path = path(dir.path(), &archived.sha256);
    let whole = fs::read(&path).expect("the file is readable");
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).expect("the write succeeds");
        let verified = open(&dir, &archived).and_then(|archive| archive.verify());
        damage(verified.expect_err("the data is damaged"));
    }
}

#[test]
fn damaged_chunk_is_reported_and_other_chunks_are_readable() {
    let payload = table(8 * LONG);
    let (dir, archived) = archive(&payload, LONG);
    let path = path(dir.path(), &archived.sha256);
    flip(&path, fs::metadata(&path).expect("the file exists").len() as usize / 2);
    let archive = open(&dir, &archived).expect("index and footer are whole");
    let last = payload.len() - 10;
    assert_eq!(archive.slice(0, 10).expect("the range is readable"), payload[..10]);
    assert_eq!(archive.slice(last as u64, 10).expect("the range is readable"), payload[last..]);
    let named = damage(archive.verify().expect_err("the data is damaged"));
    let (_, fault) = named.split_once(" at byte ").expect("the position of the fault");
    let fault = fault.trim_start_matches(char::is_numeric);
    insta::assert_snapshot!(fault.replace(char::is_numeric, "N"));
    let mut read = Vec::new();
    let error = archive.reader().read_to_end(&mut read).expect_err("the data is damaged");
    assert!(!read.is_empty() && payload.starts_with(&read));
    assert!(error.get_ref().is_some_and(|inner| inner.is::<StoreError>()), "{error:?}");
    assert_eq!(named, damage(archive.slice(read.len() as u64, 10).expect_err("the data is damaged")));
}

#[test]
fn file_of_a_first_payload_is_decompressed_by_plain_zstd() {
    let payload = table(8 * LONG + 1);
    let (dir, archived) = archive(&payload, LONG);
    let file = fs::File::open(path(dir.path(), &archived.sha256)).expect("the file opens");
    assert!(zstd::decode_all(file).expect("the data decompresses") == payload);
}

#[test]
fn writer_keeps_a_repeated_payload_and_removes_a_dropped_one() {
    let payload = table(LONG + 1);
    let (dir, archived) = archive(&payload, LONG);
    let before = fs::read(path(dir.path(), &archived.sha256)).expect("the file is readable");
    let create = || ArchiveWriter::create(dir.path(), owner()).expect("the file is created");
    for mut writer in [create(), create().after(&archived.sha256)] {
        writer.push(&payload).expect("the write succeeds");
        assert_eq!(writer.finish().expect("the write succeeds"), archived);
    }
    let mut dropped = create();
    dropped.push(&payload).expect("the write succeeds");
    drop(dropped);
    let entries = fs::read_dir(dir.path())
        .expect("the directory is readable")
        .map(|entry| entry.expect("an entry").path());
    let (payload, mark) =
        (path(dir.path(), &archived.sha256), mark_path(dir.path(), archived.sha256.as_str()));
    assert_eq!(entries.collect::<BTreeSet<_>>(), [payload.clone(), mark].into());
    assert_eq!(fs::read(&payload).expect("the file is readable"), before);
}

#[test]
fn open_rejects_a_renamed_payload() {
    let (dir, archived) = archive(b"one", 1);
    let other = Sha256Hex::of(b"other");
    fs::rename(path(dir.path(), &archived.sha256), path(dir.path(), &other)).expect("the rename succeeds");
    let detail = damage(ArchivedPayload::open(dir.path(), &other, &owner()).expect_err("it is another"));
    insta::assert_snapshot!(without_names(&dir, &detail, &other));
}

#[test]
fn slice_rejects_ranges_beyond_the_end_and_above_the_limit() {
    let (dir, archived) = archive(b"short", 5);
    let archive = open(&dir, &archived).expect("the file opens");
    for (at, len) in [(0, 6), (5, 1), (6, 0), (u64::MAX, 1)] {
        damage(archive.slice(at, len).expect_err("it is beyond the end"));
    }
    assert_eq!(archive.slice(5, 0).expect("the range is readable"), b"");
    let refused = archive.slice(0, MAX_SLICE_BYTES + 1).expect_err("the value is too long");
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
}

/// The checksums are valid, so that zstd decompresses the chunk.
#[test]
fn slice_rejects_a_decompression_bomb() {
    let dir = tempfile::tempdir().expect("a directory");
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("the compression succeeds");
    let sha256 = Sha256Hex::of(b"");
    let mut chunks = ChunkTable::default();
    chunks.add([7; 16], CHUNK_MAX_BYTES, &bomb, 0);
    chunks.list.push(file::ListedChunk { file: 0, digest: [7; 16] });
    let index = chunks.to_bytes().expect("the list is short");
    let footer = FORMAT.footer(CHUNK_MAX_BYTES as u64, &Sha256Stream::default().finish_bytes(), &index);
    let file = [bomb.as_slice(), &skippable_head(index.len()), &index, &footer].concat();
    fs::write(path(dir.path(), &sha256), file).expect("the write succeeds");
    let archive = ArchivedPayload::open(dir.path(), &sha256, &owner()).expect("the file opens");
    let detail = damage(archive.slice(0, 1).expect_err("the payload is too large"));
    insta::assert_snapshot!(without_names(&dir, &detail, &sha256));
}

#[test]
fn archive_writer_reports_a_full_disk_as_unavailable() {
    let dir = tempfile::tempdir().expect("a directory");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("the file opens");
    let path = TempPath::try_from_path(dir.path().join("payload")).expect("a path");
    let file = NamedTempFile::from_parts(full, path);
    let mut writer = ArchiveWriter::with_file(dir.path(), owner(), file).expect("a compressor");
    let refused = writer.push(&table(2 * LONG)).expect_err("there is no room");
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
}
