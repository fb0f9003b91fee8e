use super::block::BLOCK_BYTES;
use super::*;
use crate::index::put_piece;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use store_base::error::SourceFileKind;
use store_base::ordered_rows::{MAX_ROW_BYTES, MergedKeys, RowMerge, RowSource, SortedRow};
use tempfile::{TempDir, TempPath};

type TestRowMap = BTreeMap<Vec<u8>, Vec<u8>>;

fn write(path: &Path, rows: &TestRowMap) -> SortedFileSummary {
    let mut writer = SortedWriter::create(path).expect("the file is created");
    for (key, value) in rows {
        writer.push(key, value).expect("the write succeeds");
    }
    writer.finish().expect("the write succeeds")
}

fn written(rows: &TestRowMap) -> (TempDir, PathBuf, SortedFileSummary) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rows");
    let summary = write(&path, rows);
    (dir, path, summary)
}

/// `rows` rows of about 150 bytes.
fn plain(rows: u32) -> TestRowMap {
    let row = |n: u32| (format!("record/{n:08}").into_bytes(), format!("{n:0135}").into_bytes());
    (0..rows).map(row).collect()
}

fn all(rows: SortedRowRange) -> Vec<SortedRow> {
    rows.collect::<Result<_, _>>().expect("the read succeeds")
}

fn pairs<'r>(rows: impl IntoIterator<Item = (&'r Vec<u8>, &'r Vec<u8>)>) -> Vec<SortedRow> {
    rows.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn open(path: &Path) -> Result<SortedFile, StoreError> {
    SortedFile::open(path, &owner())
}

fn owner() -> FileOwner {
    FileOwner::new(&"people".parse().expect("a valid id"), SourceFileKind::Facts)
}

fn damage(error: StoreError) -> String {
    match error {
        StoreError::SourceFile { kind: SourceFileKind::Facts, .. } => error.to_string(),
        other => panic!("it should be damage: {other}"),
    }
}

/// Keys of few different letters, so that many share a prefix, and values of which some are longer than a block.
fn rows() -> impl Strategy<Value = TestRowMap> {
    let key = vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)], 0..12);
    let value = prop_oneof![9 => vec(any::<u8>(), 0..300), 1 => vec(any::<u8>(), 3000..6000)];
    btree_map(key, value, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sorted_file_returns_all_written_rows(rows in rows(), others in vec(vec(0_u8..=0xff, 0..6), 0..20)) {
        let (_dir, path, summary) = written(&rows);
        let file = open(&path).expect("the file opens");
        prop_assert_eq!((file.summary().rows, summary.rows), (rows.len() as u64, rows.len() as u64));
        prop_assert_eq!(all(file.with_prefix(b"")), pairs(&rows));
        for key in rows.keys().chain(&others) {
            prop_assert_eq!(file.get(key).expect("the entry is readable"), rows.get(key).cloned(), "{:?}", key);
        }
        let bytes = fs::read(&path).expect("the file is readable");
        let before_footer = &bytes[..bytes.len() - FOOTER_BYTES as usize];
        prop_assert_eq!(summary.size_bytes, bytes.len() as u64);
        prop_assert_eq!(&summary.sha256, &Sha256Hex::of(before_footer));
        prop_assert_eq!(file.verify(&mut |_| Ok(())).expect("the file is intact"), summary);
    }

    #[test]
    fn range_has_the_same_rows_as_a_map(
        rows in rows(),
        from in vec(prop_oneof![Just(b'a'), Just(0xff)], 0..5),
        to in vec(prop_oneof![Just(b'b'), Just(0xff)], 0..5),
    ) {
        let (_dir, path, _) = written(&rows);
        let file = open(&path).expect("the file opens");
        let (from, to) = (from.as_slice(), to.as_slice());
        let within = |is_included: &dyn Fn(&[u8]) -> bool| pairs(rows.iter().filter(|(key, _)| is_included(key)));
        for prefix in [from, to, &[0xff, 0xff], &[]] {
            prop_assert_eq!(all(file.with_prefix(prefix)), within(&|key| key.starts_with(prefix)));
            let start = [prefix, to].concat();
            let rows_from = |bound| all(file.with_prefix_from(prefix, bound));
            let expected = within(&|key| key.starts_with(prefix) && key >= start.as_slice());
            prop_assert_eq!(rows_from(Bound::Included(start.as_slice())), expected);
            let expected = within(&|key| key.starts_with(prefix) && key > start.as_slice());
            prop_assert_eq!(rows_from(Bound::Excluded(start.as_slice())), expected);
        }
    }

    #[test]
    fn seek_returns_the_same_rows_as_a_map(
        rows in rows(),
        mut sought in vec(vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)], 0..4), 1..20),
        steps in 0..3_usize,
    ) {
        let (_dir, path, _) = written(&rows);
        let mut read = SortedFile::open(&path, &owner()).expect("the file opens").with_prefix(b"");
        sought.sort();
        let mut left = pairs(&rows).into_iter().peekable();
        prop_assert_eq!(read.current(), None);
        for key in sought {
            read.seek(&key).expect("the read succeeds");
            while left.next_if(|(next, _)| *next < key).is_some() {}
            for _ in 0..steps {
                prop_assert_eq!(read.current(), left.peek().map(|(key, value)| (&key[..], &value[..])));
                read.advance().expect("the read succeeds");
                left.next();
            }
            prop_assert_eq!(read.current(), left.peek().map(|(key, value)| (&key[..], &value[..])));
        }
    }

    #[test]
    fn verify_reports_any_flipped_bit_with_its_file(rows in rows(), position in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (_dir, path, _) = written(&rows);
        let mut bytes = fs::read(&path).expect("the file is readable");
        let at = position.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).expect("the write succeeds");
        let verified = open(&path).and_then(|file| file.verify(&mut |_| Ok(())));
        let detail = damage(verified.expect_err("the data is damaged"));
        prop_assert!(detail.contains(&path.display().to_string()), "{}", detail);
    }

    #[test]
    fn index_finds_the_same_block_as_a_linear_search(
        begin in vec(any::<u8>(), 0..3),
        keys in btree_set(vec(prop_oneof![Just(0), Just(b'a'), Just(0xff)], 0..12), 0..100),
        others in vec(vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)], 0..12), 20),
    ) {
        let with_begin = |key: &Vec<u8>| [begin.as_slice(), key].concat();
        let mut bytes = Vec::new();
        for key in &keys {
            put_piece(&mut bytes, &with_begin(key), b"block").expect("the text is short");
        }
        let index = FileIndex::read(bytes, 5 * keys.len() as u64).expect("a valid index");
        for key in others.iter().cloned().chain(others.iter().chain(&keys).map(with_begin)) {
            let expected = keys.iter().filter(|first| with_begin(first) <= key).count().checked_sub(1);
            prop_assert_eq!(index.block_of(&key), expected, "{:?}", key);
        }
    }

    #[test]
    fn open_detects_a_truncated_file(rows in rows(), position in any::<prop::sample::Index>()) {
        let (_dir, path, _) = written(&rows);
        let len = fs::metadata(&path).expect("the file exists").len();
        let file = OpenOptions::new().write(true).open(&path).expect("the file opens");
        file.set_len(position.index(len as usize) as u64).expect("the truncation succeeds");
        damage(open(&path).expect_err("the file opens"));
    }

    #[test]
    fn block_and_index_parse_any_bytes_without_a_panic(bytes in vec(any::<u8>(), 0..64)) {
        let mut block = BlockRows::default();
        block.begin(bytes.clone().into());
        while let Ok(true) = block.advance() {}
        if let Some(index) = FileIndex::read(bytes, 40) {
            prop_assert!(!index.piece_positions().is_empty());
        }
    }

    #[test]
    fn merge_has_all_rows_in_the_order_of_keys_and_sources(sources in vec(rows(), 0..5)) {
        let mut expected = Vec::new();
        for (source, rows) in sources.iter().enumerate() {
            expected.extend(rows.iter().map(|(key, value)| (key.clone(), source, value.clone())));
        }
        expected.sort();
        let files: Vec<_> = sources.iter().map(written).collect();
        let rows = |path: &PathBuf| open(path).expect("the file opens").with_prefix(b"");
        let mut merge = RowMerge::new(files.iter().map(|(_, path, _)| rows(path)).collect());
        let mut merged = Vec::new();
        merge.advance().expect("the read succeeds");
        while let Some((key, value)) = merge.current() {
            merged.push((key.to_vec(), value.to_vec()));
            merge.advance().expect("the read succeeds");
        }
        let in_order: Vec<_> =
            expected.iter().map(|(key, _, value)| (key.clone(), value.clone())).collect();
        prop_assert_eq!(merged, in_order);
        let mut keys = MergedKeys::new(files.iter().map(|(_, path, _)| rows(path)).collect());
        for key in expected.iter().map(|(key, ..)| key).collect::<BTreeSet<_>>() {
            prop_assert_eq!(keys.advance().expect("the read succeeds"), Some(key.as_slice()));
        }
        prop_assert_eq!(keys.advance().expect("the read succeeds"), None);
    }
}

#[test]
fn verify_detects_each_flipped_bit_of_a_short_file() {
    let (_dir, path, _) = written(&plain(1));
    let whole = fs::read(&path).expect("the file is readable");
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).expect("the write succeeds");
        let verified = open(&path).and_then(|file| file.verify(&mut |_| Ok(())));
        damage(verified.expect_err("the data is damaged"));
    }
}

#[test]
fn damaged_block_is_reported_by_offset_and_others_are_readable() {
    let rows = plain(1000);
    let (_dir, path, _) = written(&rows);
    let mut bytes = fs::read(&path).expect("the file is readable");
    bytes[2 * BLOCK_BYTES] ^= 1;
    fs::write(&path, &bytes).expect("the write succeeds");
    let file = open(&path).expect("index and footer are whole");
    let refused: Vec<_> = rows.keys().filter_map(|key| file.get(key).err()).collect();
    assert!((1..=40).contains(&refused.len()), "one block is damaged: {}", refused.len());
    let detail = damage(file.verify(&mut |_| Ok(())).expect_err("the data is damaged"));
    let at: usize = detail
        .split("byte ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .expect("an offset")
        .parse()
        .expect("a number");
    assert!((at..at + BLOCK_BYTES).contains(&(2 * BLOCK_BYTES)), "{detail}");
    let mut read = file.with_prefix(b"");
    let before = read.by_ref().take_while(Result::is_ok).count();
    assert!((20..100).contains(&before), "{before}");
    assert!(read.next().is_none(), "rows end after an error");
}

#[test]
fn repeated_lookups_use_the_cache_within_its_limit() {
    const CACHE_BYTES: usize = 64 * 1024;
    let rows = plain(2000);
    let (_dir, path, summary) = written(&rows);
    let cache = BlockCache::new(CACHE_BYTES as u64);
    let cached = |sha256| open(&path).expect("the file opens").cached(&cache, sha256);
    let (file, again, other) =
        (cached(&summary.sha256), cached(&summary.sha256), cached(&Sha256Hex::of(b"other")));
    for (key, value) in &rows {
        assert_eq!(file.get(key).expect("the entry is readable").as_ref(), Some(value));
        assert_eq!(all(file.with_prefix(key)), [(key.clone(), value.clone())]);
        assert!((1..=CACHE_BYTES).contains(&cache.bytes()), "{}", cache.bytes());
    }
    assert_eq!(all(file.with_prefix(b"")), pairs(&rows));
    let (key, value) = rows.first_key_value().expect("a row");
    file.get(key).expect("the entry is readable");
    fs::write(&path, b"").expect("the truncation succeeds");
    for file in [&file, &again] {
        assert_eq!(file.get(key).expect("it is in memory").as_ref(), Some(value));
    }
    damage(other.get(key).expect_err("another file's blocks are not this one's"));
    damage(file.uncached().get(key).expect_err("it bypasses the cache"));
    damage(file.verify(&mut |_| Ok(())).expect_err("it bypasses the cache"));
}

#[test]
fn same_rows_give_the_same_bytes_and_a_swapped_file_is_detected() {
    let (_one, path, summary) = written(&plain(500));
    let (_other, other, again) = written(&plain(500));
    assert_eq!(
        fs::read(&path).expect("the file is readable"),
        fs::read(&other).expect("the file is readable")
    );
    assert_eq!(summary, again);
    let file = open(&path).expect("the file opens");
    fs::remove_file(&path).expect("the removal succeeds");
    write(&path, &plain(499));
    assert_ne!(file.verify(&mut |_| Ok(())).expect("the file is intact"), summary);
}

#[test]
fn writer_rejects_keys_out_of_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rows");
    let mut writer = SortedWriter::create(&path).expect("the file is created");
    writer.push(b"", b"the least key is one").expect("the write succeeds");
    writer.push(b"b", &[0; 5000]).expect("the write succeeds");
    for key in [b"a", b"b"] {
        let refused = writer.push(key, b"").expect_err("it is not greater");
        assert!(matches!(refused, StoreError::OutOfOrder { row: 3, .. }), "{refused}");
    }
    writer.push(b"c", b"").expect("the write succeeds");
    assert_eq!(writer.finish().expect("the write succeeds").rows, 3);
}

#[test]
fn writer_accepts_the_longest_row_and_rejects_longer_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rows");
    let key = vec![b'k'; MAX_KEY_BYTES];
    let value = vec![b'v'; MAX_ROW_BYTES - MAX_KEY_BYTES];
    let mut writer = SortedWriter::create(&path).expect("the file is created");
    for (key, value) in [([&key, b"k".as_slice()].concat(), vec![]), (vec![], vec![0; MAX_ROW_BYTES + 1])] {
        let refused = writer.push(&key, &value).expect_err("the value is too long");
        assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
    }
    writer.push(&key, &value).expect("the write succeeds");
    writer.finish().expect("the write succeeds");
    let file = open(&path).expect("the file opens");
    assert_eq!(file.get(&key).expect("the entry is readable"), Some(value));
    file.verify(&mut |_| Ok(())).expect("the file is intact");
}

#[test]
fn writer_never_overwrites_and_removes_an_unfinished_file() {
    let (dir, path, _) = written(&plain(1));
    let refused = SortedWriter::create(&path).expect_err("the file exists");
    assert!(
        matches!(&refused, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
    );
    let unfinished = dir.path().join("unfinished");
    let mut writer = SortedWriter::create(&unfinished).expect("the file is created");
    writer.push(b"key", b"value").expect("the write succeeds");
    assert!(unfinished.exists());
    drop(writer);
    assert!(!unfinished.exists() && path.exists());
}

#[test]
fn open_rejects_a_file_of_another_version() {
    let (_dir, path, _) = written(&TestRowMap::new());
    fs::write(&path, SealedFormat { version: FORMAT.version + 1, ..FORMAT }.footer(0, &[0; 32], b""))
        .expect("the write succeeds");
    let refused = open(&path).expect_err("the file is newer");
    assert!(matches!(refused, StoreError::Newer { found, known, .. } if found > known), "{refused}");
}

#[test]
fn sorted_writer_reports_a_full_disk_as_unavailable() {
    let dir = tempfile::tempdir().expect("a directory");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("the file opens");
    let path = TempPath::try_from_path(dir.path().join("rows")).expect("a path");
    let mut writer = SortedWriter::with_file(path, full);
    writer.push(b"key", b"value").expect("the write succeeds");
    let refused = writer.finish().expect_err("there is no room");
    let StoreError::Unavailable { cause } = refused else { panic!("{refused}") };
    insta::assert_snapshot!(cause.replace(&dir.path().display().to_string(), "DIR"));
}

#[test]
fn open_rejects_a_path_that_is_not_a_regular_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = SortedFile::open(dir.path(), &owner()).expect_err("a folder");
    insta::assert_snapshot!(error.to_string().replace(&dir.path().display().to_string(), "DIR"));
}

#[test]
fn seek_within_blocks_that_were_read_ahead_returns_the_same_rows_as_a_map() {
    let rows = plain(2000);
    let (_dir, path, _) = written(&rows);
    let file = open(&path).expect("the file opens");
    let all: Vec<_> = rows.keys().collect();
    for steps in [30, 100, 300] {
        for distance in [1, 20, 60, 200, 900] {
            let mut range = file.with_prefix(b"");
            let passed: Vec<_> = range.by_ref().take(steps).map(|row| row.expect("a row").0).collect();
            assert!(passed.iter().eq(all[..steps].iter().copied()));
            let key = all[steps - 1 + distance];
            range.seek(key).expect("the read succeeds");
            assert_eq!(range.current().map(|(key, _)| key.to_vec()).as_ref(), Some(key));
            let rest = range.map(|row| row.expect("a row"));
            assert!(rest.eq(pairs(rows.range(key.clone()..).skip(1))), "{steps} rows, then {distance} more");
        }
    }
}

#[test]
fn damage_ahead_of_the_range_is_reported_only_when_it_is_reached() {
    let rows = plain(2000);
    let (_dir, path, summary) = written(&rows);
    let file = open(&path).expect("the file opens");
    // the end of the file is lost after it was opened
    let shorter = OpenOptions::new().write(true).open(&path).expect("the file opens");
    shorter.set_len(summary.size_bytes / 2).expect("the file is cut");
    let read: Vec<_> = file.with_prefix(b"").map_while(Result::ok).collect();
    assert!(read.len() > 900 && read == pairs(rows.iter().take(read.len())), "{} rows", read.len());
    let error = file.with_prefix(b"").find_map(Result::err).expect("the end is missing");
    let fault = damage(error).replace(&path.display().to_string(), "FILE").replace(char::is_numeric, "N");
    insta::assert_snapshot!(fault);
}
