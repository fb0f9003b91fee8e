//! A segment and its copy that are both damaged, in different places: together they have everything.

use super::*;
use crate::journal::erasure::{ErasureStep, tests::files_with};
use crate::journal::tests::copy_dir;
use domain_audit::leaf::leaf_of;
use memchr::memmem::find_iter;

/// The magic number of a compressed frame.
const FRAME: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// The starts of the parts of a file that are damaged apart from each other: its frames and their table, or the groups of the last segment.
fn parts_of(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).expect("the file is readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut starts: Vec<_> = if path.extension().is_some() {
        let table = bytes.len() - 17 - 8 * find_iter(&bytes, FRAME).count();
        find_iter(&bytes, FRAME).chain([table]).collect()
    } else {
        [0].into_iter().chain(find_iter(&bytes, b"grp1")).collect()
    };
    starts.push(used);
    starts
}

fn flip(random: &mut fastrand::Rng, path: &Path, part: Range<usize>) -> usize {
    let mut bytes = fs::read(path).expect("the file is readable");
    let at = random.usize(part);
    bytes[at] ^= 1 << random.u8(..8);
    fs::write(path, bytes).expect("the write succeeds");
    at
}

/// Flips a bit in a segment, or in a part of the snapshot, and one in another part of its copy.
fn flip_both(random: &mut fastrand::Rng, dir: &Path) -> String {
    let mut files = files_in(&dir.join("segments"));
    files.retain(|path| !path.ends_with("spare") && parts_of(path).len() > 2);
    let own = random.choice(&files).expect("there are files").clone();
    let name = own.strip_prefix(dir.join("segments")).expect("it is below the folder").to_owned();
    let other = dir.join("segments.copy").join(&name);
    let starts = [parts_of(&own), parts_of(&other)];
    assert_eq!(starts[0], starts[1], "{}", name.display());
    let count = starts[0].len() - 1;
    let first = random.usize(..count);
    let second = (first + random.usize(1..count)) % count;
    let part = |number: usize| starts[0][number]..starts[0][number + 1];
    let flipped = [flip(random, &own, part(first)), flip(random, &other, part(second))];
    format!("{}: {flipped:?} in the parts {first} and {second}", name.display())
}

/// Flips a bit in the head or a group of the last segment, and another bit in the same one of its copy.
fn flip_one_group(random: &mut fastrand::Rng, dir: &Path) -> String {
    let mut files = files_in(&dir.join("segments"));
    files.retain(|path| !path.ends_with("spare") && path.extension().is_none() && parts_of(path).len() > 2);
    let own = files.pop().expect("the last segment has groups");
    let other = dir.join("segments.copy").join(own.file_name().expect("a file has a name"));
    let starts = parts_of(&own);
    let number = random.usize(..starts.len() - 1);
    let (start, end) = (starts[number], starts[number + 1]);
    let middle = start.midpoint(end);
    let mut parts = [start..middle - 10, middle + 10..end];
    random.shuffle(&mut parts);
    let [first, second] = parts;
    let flipped = [flip(random, &own, first), flip(random, &other, second)];
    format!("{}: {flipped:?} in the part {number}", own.display())
}

/// A store with a snapshot in place of its first segments, and some segments after it.
fn with_snapshot() -> TempDir {
    let (dir, _older) = filled();
    let (mut journal, store) = open(dir.path());
    let plan = RemovalPlan { log_from: Some(101), ..RemovalPlan::default() };
    erase(&mut journal, plan);
    drop((journal, store));
    for n in 40..50 {
        let (mut journal, _) = open(dir.path());
        fill(&mut journal, n * 10..n * 10 + 10);
    }
    dir
}

pub(super) fn erase(journal: &mut Journal, plan: RemovalPlan) {
    let mut erasure = journal.begin_erasure(plan).expect("the journal accepts writes");
    erasure.rewrite_segments(&|| true).expect("the segments are readable");
    while journal.finish_erasure(&mut erasure).expect("the journal accepts writes") != ErasureStep::Finished {
        erasure.prepare(&|| true).expect("the disk is writable");
    }
    erasure.finish().expect("the disk is writable");
}

fn check_pairs(cases: usize, flip: fn(&mut fastrand::Rng, &Path) -> String) {
    let stores = [filled().0, with_snapshot()];
    let rows = stores.each_ref().map(|store| rows_of(store.path()));
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for n in 0..cases {
        let (damaged, rows) = (copy_of(stores[n % 2].path()), &rows[n % 2]);
        let has_database = n / 2 % 2 == 0;
        let what = format!("seed {seed}, case {n}, {}", flip(&mut random, damaged.path()));
        if !has_database {
            fs::remove_dir_all(damaged.path().join("store")).expect("the removal succeeds");
        }
        let (mut journal, store) =
            open_with(options(damaged.path())).unwrap_or_else(|error| panic!("{what}: {error}"));
        store.audit_all().unwrap_or_else(|error| panic!("{what}: {error}"));
        visit_rows(&store, |_| Ok(())).unwrap_or_else(|error| panic!("{what}: {error}"));
        heal(&mut journal);
        assert_eq!((store.segment_damage(), journal.lost_rows()), (None, Vec::new()), "{what}");
        assert!(store.check_segments(|| true).expect(&what), "{what}");
        drop((journal, store));
        assert!(rows_of(damaged.path()) == *rows, "{what}: other rows");
        assert_rebuilt(damaged.path(), rows, &what);
        assert!(!damaged.path().join(KEPT_DIR).exists(), "{what}");
    }
}

#[test]
fn damages_in_different_frames_of_a_segment_and_its_copy_lose_nothing() {
    check_pairs(32, flip_both);
}

#[test]
#[ignore = "takes minutes"]
fn damages_in_different_frames_of_a_segment_and_its_copy_lose_nothing_in_500_stores() {
    check_pairs(500, flip_both);
}

#[test]
fn damages_at_different_bytes_of_one_group_and_its_copy_lose_nothing() {
    check_pairs(16, flip_one_group);
}

#[test]
#[ignore = "takes minutes"]
fn damages_at_different_bytes_of_one_group_and_its_copy_lose_nothing_in_500_stores() {
    check_pairs(500, flip_one_group);
}

/// An erasure ends after it has replaced all copies and some segments, and a bit of one file flips: the next erasure removes everything
/// that it must, and nothing else is lost.
fn check_erasures(cases: usize) {
    let erased = [5, 105, 255];
    let (dir, _older) = filled();
    let (mut journal, store) = open(dir.path());
    for n in erased {
        let record = JournalRecord {
            writes: vec![
                RowWrite::remove::<SessionRecord>(&id(n)),
                RowWrite::remove::<VerdictDelivery>(&id(n)),
            ],
            ..JournalRecord::from(AuditEvent::new(at(99), None, ServiceStopped {}))
        };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("it is not stale");
    }
    // the last segment has no group
    journal.segments.seal().expect("the next segment begins");
    let up_to = journal.counts().entries;
    let plan = || RemovalPlan { sessions: erased.map(|n| (id(n), up_to)).into(), ..RemovalPlan::default() };
    drop((journal, store));
    drop(open(dir.path()));
    let done = copy_of(dir.path());
    let (mut journal, store) = open(done.path());
    erase(&mut journal, plan());
    let leaves = |store: &TableReader| -> Vec<_> {
        whole_log(store).iter().map(|line| leaf_of(&line.json).expect("an entry").into_owned()).collect()
    };
    let expected = leaves(&store);
    drop((journal, store));
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for n in 0..cases {
        let damaged = copy_of(dir.path());
        let files = files_in(&damaged.path().join("segments"));
        let compressed: Vec<_> = files.iter().filter(|path| path.extension().is_some()).collect();
        let copy_at = |path: &Path| {
            damaged.path().join("segments.copy").join(path.file_name().expect("a file has a name"))
        };
        copy_dir(&done.path().join("segments.copy"), &damaged.path().join("segments.copy"));
        let replaced = random.usize(..=compressed.len());
        for path in compressed.iter().take(replaced) {
            fs::copy(copy_at(path), path).expect("the copy succeeds");
        }
        let own = *random.choice(&compressed).expect("a compressed segment");
        let file = if random.bool() { own.clone() } else { copy_at(own) };
        let length = fs::metadata(&file).expect("the file exists").len() as usize;
        let at = flip(&mut random, &file, 0..length);
        let what = format!("seed {seed}, case {n}, {replaced} replaced, byte {at} of {}", file.display());
        let (mut journal, store) =
            open_with(options(damaged.path())).unwrap_or_else(|error| panic!("{what}: {error}"));
        if n % 2 == 0 {
            heal(&mut journal);
        }
        erase(&mut journal, plan());
        heal(&mut journal);
        for session in erased {
            let text = format!("Question {session}?");
            assert_eq!(files_with(damaged.path(), &text), Vec::<PathBuf>::new(), "{what}");
        }
        assert_eq!(leaves(&store), expected, "{what}");
        for session in (0..400).filter(|session| !erased.contains(session)) {
            let found =
                store.get::<VerdictDelivery>(&id(session)).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(found.is_some(), "{what}: session {session}");
        }
        assert_eq!(journal.lost_rows(), [], "{what}");
        assert!(store.check_segments(|| true).expect(&what), "{what}");
    }
}

#[test]
fn damage_between_the_files_of_an_erasure_brings_nothing_back_and_loses_nothing() {
    check_erasures(12);
}

#[test]
#[ignore = "takes minutes"]
fn damage_between_the_files_of_an_erasure_brings_nothing_back_and_loses_nothing_in_300_stores() {
    check_erasures(300);
}
