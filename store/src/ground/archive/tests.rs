use super::*;
use crate::base::error::{SourceFileKind, StoreError};
use crate::ground::index::put_piece;
use crate::ground::sealed::FileOwner;
use oracled_domain::Sha256Stream;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Read;
use tempfile::{NamedTempFile, TempDir, TempPath};
use zstd::bulk::Compressor;

fn archive(payload: &[u8], piece_bytes: usize) -> (TempDir, PayloadRef) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = ArchiveWriter::create(dir.path()).expect("the file is created");
    for piece in payload.chunks(piece_bytes) {
        writer.push(piece).expect("the write succeeds");
    }
    let archived = writer.finish().expect("the write succeeds");
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

fn owner() -> FileOwner {
    FileOwner::new(&"people".parse().expect("a valid id"), SourceFileKind::Payload)
}

fn damage(error: StoreError) -> String {
    match error {
        StoreError::SourceFile { .. } => error.to_string(),
        other => panic!("it should be damage: {other}"),
    }
}

/// Text like a table's, with `size_bytes` bytes and no repetition.
fn table(size_bytes: usize) -> Vec<u8> {
    let lines =
        (0_u64..).flat_map(|n| format!("{n},{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes());
    lines.take(size_bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn archive_returns_payloads_and_slices_unchanged(
        size in prop_oneof![0..2000_usize, Just(FRAME_BYTES), Just(2 * FRAME_BYTES), FRAME_BYTES..4 * FRAME_BYTES],
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
    fn verify_reports_any_flipped_bit_with_its_file(size in 0..2 * FRAME_BYTES, position in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (dir, archived) = archive(&table(size), FRAME_BYTES);
        let path = path(dir.path(), &archived.sha256);
        let mut bytes = fs::read(&path).expect("the file is readable");
        let at = position.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).expect("the write succeeds");
        let detail = damage(open(&dir, &archived).and_then(|archive| archive.verify()).expect_err("the data is damaged"));
        let named = format!("source people: the archived payload {} is damaged at byte ", path.display());
        prop_assert!(detail.starts_with(&named) && detail.contains("; ingest the release again"), "{}", detail);
    }

    #[test]
    fn open_detects_a_truncated_payload(size in 0..2 * FRAME_BYTES, position in any::<prop::sample::Index>()) {
        let (dir, archived) = archive(&table(size), FRAME_BYTES);
        let file = OpenOptions::new().write(true).open(path(dir.path(), &archived.sha256)).expect("the file opens");
        let len = file.metadata().expect("the file exists").len();
        file.set_len(position.index(len as usize) as u64).expect("the truncation succeeds");
        damage(open(&dir, &archived).expect_err("the file opens"));
    }
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
fn damaged_frame_is_reported_and_other_frames_are_readable() {
    let payload = table(3 * FRAME_BYTES);
    let (dir, archived) = archive(&payload, FRAME_BYTES);
    let path = path(dir.path(), &archived.sha256);
    let mut bytes = fs::read(&path).expect("the file is readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("the write succeeds");
    let archive = open(&dir, &archived).expect("index and footer are whole");
    let frame_bytes = FRAME_BYTES as u64;
    assert_eq!(archive.slice(0, 10).expect("the range is readable"), payload[..10]);
    assert_eq!(
        archive.slice(2 * frame_bytes, 10).expect("the range is readable"),
        payload[2 * FRAME_BYTES..][..10]
    );
    let named = damage(archive.slice(frame_bytes + 5, 10).expect_err("the data is damaged"));
    assert_eq!(named, damage(archive.verify().expect_err("the data is damaged")));
    assert!(named.contains("the checksum of"), "{named}");
    let mut read = Vec::new();
    let error = archive.reader().read_to_end(&mut read).expect_err("the data is damaged");
    assert_eq!(read, payload[..FRAME_BYTES]);
    assert!(error.get_ref().is_some_and(|inner| inner.is::<StoreError>()), "{error:?}");
}

#[test]
fn archive_file_is_decompressed_by_plain_zstd() {
    let payload = table(2 * FRAME_BYTES + 1);
    let (dir, archived) = archive(&payload, FRAME_BYTES);
    let file = fs::File::open(path(dir.path(), &archived.sha256)).expect("the file opens");
    assert!(zstd::decode_all(file).expect("the data decompresses") == payload);
}

#[test]
fn writer_keeps_a_repeated_payload_and_removes_a_dropped_one() {
    let payload = table(FRAME_BYTES + 1);
    let (dir, archived) = archive(&payload, FRAME_BYTES);
    let before = fs::read(path(dir.path(), &archived.sha256)).expect("the file is readable");
    let mut writer = ArchiveWriter::create(dir.path()).expect("the file is created");
    writer.push(&payload).expect("the write succeeds");
    assert_eq!(writer.finish().expect("the write succeeds"), archived);
    let mut dropped = ArchiveWriter::create(dir.path()).expect("the file is created");
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
    assert!(detail.contains("is another file"), "{detail}");
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

/// The checksums are valid, so that zstd decompresses the frame.
#[test]
fn slice_rejects_a_decompression_bomb() {
    let dir = tempfile::tempdir().expect("a directory");
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("the compression succeeds");
    let mut index = Vec::new();
    put_piece(&mut index, b"", &bomb).expect("the text is short");
    let sha256 = Sha256Hex::of(b"");
    let footer = FORMAT.footer(FRAME_BYTES as u64, &Sha256Stream::default().finish_bytes(), &index);
    let file = [bomb.as_slice(), &skippable_head(index.len()), &index, &footer].concat();
    fs::write(path(dir.path(), &sha256), file).expect("the write succeeds");
    let archive = ArchivedPayload::open(dir.path(), &sha256, &owner()).expect("the file opens");
    let detail = damage(archive.slice(0, 1).expect_err("the payload is too large"));
    assert!(detail.contains("does not decompress"), "{detail}");
}

#[test]
fn archive_writer_reports_a_full_disk_as_unavailable() {
    let dir = tempfile::tempdir().expect("a directory");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("the file opens");
    let path = TempPath::try_from_path(dir.path().join("payload")).expect("a path");
    let compressor = Compressor::new(0).expect("the compressor is created");
    let mut writer = ArchiveWriter::with_file(dir.path(), NamedTempFile::from_parts(full, path), compressor);
    let refused = writer.push(&table(FRAME_BYTES)).expect_err("there is no room");
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
}
