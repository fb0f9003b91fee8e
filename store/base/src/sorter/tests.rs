use super::*;
use crate::ordered_rows::SortedRow;
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

fn sort(dir: &Path, memory_bytes: usize, rows: &[SortedRow]) -> Vec<SortedRow> {
    let mut sorter = RowSorter::new(dir, memory_bytes);
    for (key, value) in rows {
        sorter.push(key, value).expect("the write succeeds");
    }
    all(sorter.finish().expect("the sort succeeds")).expect("the read succeeds")
}

fn all(mut rows: impl RowSource) -> Result<Vec<SortedRow>, StoreError> {
    let mut all = Vec::new();
    loop {
        rows.advance()?;
        let Some((key, value)) = rows.current() else { return Ok(all) };
        all.push((key.to_vec(), value.to_vec()));
    }
}

fn held(key: &[u8], value: &[u8]) -> MemoryRows {
    let mut sorter = RowSorter::new(Path::new(""), 0);
    sorter.push(key, value).expect("the write succeeds");
    sorter.held
}

/// Rows whose values contain the order of insertion.
fn numbered(keys: impl IntoIterator<Item = Vec<u8>>) -> Vec<SortedRow> {
    let value = |n: usize| format!("{n}{}", "x".repeat(n % 50)).into_bytes();
    keys.into_iter().enumerate().map(|(n, key)| (key, value(n))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_are_in_key_order_and_stable_under_any_memory_bound(
        keys in vec(vec(0..4_u8, 0..4), 0..1500),
        memory_bytes in prop_oneof![0..2000_usize, Just(1 << 20)],
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let rows = numbered(keys);
        let sorted = sort(dir.path(), memory_bytes, &rows);
        let mut expected = rows;
        // a stable sort
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        prop_assert_eq!(sorted, expected);
    }
}

#[test]
fn sorter_limits_its_memory_and_its_pieces() {
    const MEMORY_BYTES: usize = 2000;
    let dir = tempfile::tempdir().expect("a directory");
    let mut sorter = RowSorter::new(dir.path(), MEMORY_BYTES);
    let mut most_pieces = 0;
    for n in 0..20_000_u32 {
        sorter.push(&n.wrapping_mul(0x9e37_79b1).to_be_bytes(), &[0; 20]).expect("the write succeeds");
        let held = sorter.held.bytes.len() + sorter.held.positions.len() * ROW_POSITION_BYTES;
        assert!(held <= MEMORY_BYTES && sorter.held.bytes.capacity() <= MEMORY_BYTES, "{held}");
        assert!(sorter.held.positions.capacity() * size_of::<RowPosition>() <= MEMORY_BYTES);
        most_pieces = most_pieces.max(sorter.pieces.len());
    }
    // more than 700 pieces were written, and fewer than 16 of each level remain
    assert!((FAN_IN..3 * FAN_IN).contains(&most_pieces), "{most_pieces}");
    let sorted = all(sorter.finish().expect("the sort succeeds")).expect("the read succeeds");
    assert!(sorted.len() == 20_000 && sorted.is_sorted());
}

#[test]
fn sorter_accepts_a_row_longer_than_its_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rows = numbered([b"c".to_vec(), b"a".to_vec()]);
    rows.push((b"b".to_vec(), vec![7; 100_000]));
    let sorted = sort(dir.path(), 100, &rows);
    assert_eq!(sorted, [rows[1].clone(), rows[2].clone(), rows[0].clone()]);
}

#[test]
fn spilled_pieces_have_no_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let entries = || fs::read_dir(dir.path()).expect("the directory is readable").count();
    let mut sorter = RowSorter::new(dir.path(), 100);
    for (key, value) in numbered((0..100_u8).rev().map(|n| vec![n])) {
        sorter.push(&key, &value).expect("the write succeeds");
        assert_eq!(entries(), 0);
    }
    assert!(!sorter.pieces.is_empty(), "it was spilled");
    let mut sorted = sorter.finish().expect("the sort succeeds");
    sorted.advance().expect("the read succeeds");
    assert!(sorted.current().is_some());
    assert_eq!(entries(), 0);
}

#[test]
fn piece_reports_a_full_disk_as_unavailable() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("the file opens");
    let refused = SortPiece::write_to(Path::new("/dev"), full, &mut held(b"key", b"value"));
    let refused = refused.expect_err("there is no room");
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
}

#[test]
fn piece_detects_a_flipped_bit_on_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    for at in 0..40 {
        let file = tempfile::tempfile_in(dir.path()).expect("a file");
        let again = file.try_clone().expect("the file is open");
        let mut rows = held(b"a key", b"and a value of some bytes");
        let rows = SortPiece::write_to(dir.path(), file, &mut rows).expect("the write succeeds").rows();
        let mut byte = [0];
        if again.read_at(&mut byte, at).expect("the read succeeds") == 0 {
            assert!(at > 30, "the whole piece was tested");
            return;
        }
        again.write_all_at(&[byte[0] ^ 0x10], at).expect("the write succeeds");
        let read = all(rows);
        assert!(matches!(read, Err(StoreError::Io { .. })), "byte {at}: {read:?}");
    }
}
