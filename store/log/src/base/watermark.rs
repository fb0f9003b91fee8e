//! The high-water mark: the counts of the committed data, stored outside the database and compared with it at
//! every start.
//!
//! A lost end of the segments, or a flipped bit in sled, is not visible in itself. So a small separate file stores the number
//! of log entries and of rows. It has two slots that are written alternately, each with a checksum, so that a torn write
//! leaves the other slot intact. It is written after every commit and synced from time to time. After a power
//! cut it may therefore lag. A lag makes the comparison slightly weaker, but never causes a false alarm.

use crate::base::schema::{self, schema};
use domain_audit::log_tree::LogTree;
use oracled_domain::tables;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io, thread};
use store_base::disk::DATABASE_DIR;
use store_base::error::StoreError;
use store_base::files::{StateFile, rename, sync_dir};

/// The file of the mark in the state directory.
pub(crate) const WATERMARK_FILE: &str = "watermark";
const MAGIC: &[u8; 8] = b"oracledW";
/// The bytes of a slot for the counts, with zeros after them.
pub(crate) const COUNTS_BYTES: usize = 1024;
/// The numbers of a slot besides its counts.
const NUMBERS: usize = 8;
/// Magic, schema, generation, counts, numbers, checksum.
const SLOT_BYTES: usize = 8 + 4 + 8 + COUNTS_BYTES + 8 * NUMBERS + 4;
/// Attempts to read the file of a mark, which a daemon may write meanwhile, and the pause after each.
const VERIFY_ATTEMPTS: u32 = 5;
const VERIFY_PAUSE: Duration = Duration::from_millis(20);
/// The distance of the slots: no block of the disk holds both.
const SLOT_STRIDE_BYTES: u64 = 4096;

/// The number of rows in a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreCounts {
    /// Entries in the log. They are numbered from 1 without gaps, so this is also the number of the last one.
    pub entries: u64,
    /// The rows of each table and index that is not empty, by its name.
    pub rows: BTreeMap<&'static str, u64>,
}

impl StoreCounts {
    /// The tables, the indexes and the sums, whose rows are counted.
    pub(crate) fn tables() -> impl Iterator<Item = &'static str> {
        let indexes = tables::indexes().map(|index| index.name);
        let sums = tables::sums().map(|sum| sum.name);
        tables::tables().map(|table| table.name).chain(indexes).chain(sums)
    }

    /// The number of rows of a table or an index.
    #[must_use]
    pub fn of(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or_default()
    }

    /// Whether `table`, a table of the database, has no row. Bundles are counted by the tables in them, so theirs is unknown.
    pub(crate) fn is_empty(&self, table: &str) -> bool {
        self.of(table) == 0 && tables::table(table).is_some_and(|table| table.bundle.is_none())
    }

    /// Adds `change` to the number of rows of a table or an index.
    pub(crate) fn change(&mut self, table: &'static str, change: i64) {
        debug_assert!(Self::tables().any(|known| known == table), "{table} is in the tables of its feature");
        let count = self.rows.entry(table).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            self.rows.remove(table);
        }
    }

    /// The length of the stored form (2 bytes), and the stored form: the entries, and each name with its length and its count.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.entries.to_be_bytes().to_vec();
        for (table, count) in &self.rows {
            bytes.push(u8::try_from(table.len()).expect("a table has a short name"));
            bytes.extend_from_slice(table.as_bytes());
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        let length = u16::try_from(bytes.len()).expect("a store has few tables");
        [&length.to_be_bytes()[..], &bytes].concat()
    }

    /// Parses the counts at the start of `bytes`, and returns the bytes after them; `None` if they are malformed. Tables that only an
    /// earlier schema has are left out.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (bytes, after) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let (entries, mut bytes) = bytes.split_first_chunk()?;
        let mut rows = BTreeMap::new();
        while let Some((length, rest)) = bytes.split_first() {
            let (table, rest) = rest.split_at_checked(usize::from(*length))?;
            let table = Self::tables().find(|known| known.as_bytes() == table);
            let (count, rest) = rest.split_first_chunk()?;
            rows.extend(table.map(|table| (table, u64::from_be_bytes(*count))));
            bytes = rest;
        }
        Some((Self { entries: u64::from_be_bytes(*entries), rows }, after))
    }
}

impl fmt::Display for StoreCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return f.write_str("no rows");
        }
        for (index, (table, count)) in self.rows.iter().enumerate() {
            write!(f, "{}{table}: {count}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The file of the mark.
#[derive(Debug)]
pub(crate) struct Watermark {
    file: StateFile,
    next_slot: u64,
    /// The number of the last write; the other slot has a lower one.
    generation: u64,
    /// The schema version of the last write.
    schema: u32,
    /// The values to write next.
    pub(crate) now: WatermarkValues,
    dirty: bool,
}

/// The content of the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatermarkValues {
    pub(crate) counts: StoreCounts,
    /// The last entry known to be synced in `oracle_log.jsonl`.
    pub(crate) mirrored: u64,
    /// The first entry in `oracle_log.jsonl`.
    pub(crate) mirror_first: u64,
    /// The snapshot that the database was last opened with.
    pub(crate) snapshot: SnapshotId,
    /// The id of the store that the mark belongs to.
    pub(crate) store_id: u64,
    /// The last entry up to which an opening found the log complete; 0 if the database is damaged.
    pub(crate) walked: u64,
    /// The last entry in the database when it was synced, if nothing was written to it since; otherwise 0.
    pub(crate) synced: u64,
    /// The start of the system during which the database was last written.
    pub(crate) boot_id: u64,
    /// A checksum of the Merkle tree of the log; 0 if it is unknown. Entries that only `oracle_log.jsonl` still has must give it.
    pub(crate) tree_check: u64,
}

impl Watermark {
    /// Opens the mark in `dir`; `None` if the file does not exist. A file with a fault that [`Watermark::verify_file`] reports is written again.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(WATERMARK_FILE);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let file = match StateFile::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let MarkSlot { generation, schema, slot, values: now } = read_slots(dir, file.reader())?;
        // the mark of an earlier schema is written again after the upgrade
        if schema == schema::schema() && first_fault(&fs::read(&path).map_err(io)?).is_some() {
            return Self::write_new(dir, now).map(Some);
        }
        Ok(Some(Self { file, next_slot: 1 - slot, generation, schema, now, dirty: false }))
    }

    /// The values of the mark in `dir`, which is not changed; `None` if the file does not exist.
    pub(crate) fn values_in(dir: &Path) -> Result<Option<WatermarkValues>, StoreError> {
        match File::open(dir.join(WATERMARK_FILE)) {
            Ok(file) => read_slots(dir, &file).map(|slot| Some(slot.values)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Io { path: dir.join(WATERMARK_FILE), source }),
        }
    }

    /// Checks every byte of the mark in `dir`: its slots are those of two successive writes, and all other bytes are 0. A daemon can
    /// write a slot meanwhile, so a fault must be there at each of several attempts.
    ///
    /// # Errors
    /// `Corrupt` if a byte was changed, `Short` if the file is missing, `Io` if it cannot be read.
    pub(crate) fn verify_file(dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(WATERMARK_FILE);
        let mut fault = None;
        for _ in 0..VERIFY_ATTEMPTS {
            let bytes = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let detail = format!("its high-water mark, the file {WATERMARK_FILE}, is missing");
                    return Err(StoreError::Short { dir: dir.to_owned(), detail });
                }
                read => read.map_err(|source| StoreError::Io { path: path.clone(), source })?,
            };
            fault = first_fault(&bytes);
            if fault.is_none() {
                return Ok(());
            }
            thread::sleep(VERIFY_PAUSE);
        }
        let at = fault.unwrap_or_default();
        let detail =
            format!("its high-water mark, the file {WATERMARK_FILE}, was changed or is torn at byte {at}");
        Err(StoreError::Corrupt { dir: dir.to_owned(), detail })
    }

    /// Creates the mark of a store with these `counts` in `dir`, durably. Its database and `oracle_log.jsonl` count as missing.
    pub(crate) fn create(dir: &Path, store_id: u64, counts: StoreCounts) -> Result<Self, StoreError> {
        Self::write_new(dir, WatermarkValues::of_new(store_id, counts))
    }

    /// Writes the file of a mark with these values, durably.
    fn write_new(dir: &Path, now: WatermarkValues) -> Result<Self, StoreError> {
        let path = dir.join(WATERMARK_FILE);
        let io = |source| StoreError::Io { path: path.clone(), source };
        // under another name until it is complete: a partial mark would look damaged
        let piece = dir.join(format!("{WATERMARK_FILE}.new"));
        let file = StateFile::create(&piece).map_err(io)?;
        let mut mark = Self { file, next_slot: 0, generation: 0, schema: schema(), now, dirty: true };
        mark.write_synced().and_then(|()| rename(&piece, &path)).map_err(io)?;
        sync_dir(dir)?;
        Ok(mark)
    }

    /// The content of the file that [`Watermark::create`] creates.
    pub(crate) fn new_file(store_id: u64, counts: StoreCounts) -> Vec<u8> {
        WatermarkValues::of_new(store_id, counts).to_slot(1)
    }

    /// Whether an earlier schema version wrote the mark.
    pub(crate) const fn is_older(&self) -> bool {
        self.schema < schema::SCHEMA
    }

    /// Writes the current values to the next slot.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        self.generation += 1;
        self.schema = schema();
        let bytes = self.now.to_slot(self.generation);
        self.file.write_all_at(&bytes, self.next_slot * SLOT_STRIDE_BYTES)?;
        self.next_slot = 1 - self.next_slot;
        self.dirty = true;
        Ok(())
    }

    /// Writes the current values, and syncs the file.
    pub(crate) fn write_synced(&mut self) -> io::Result<()> {
        self.write()?;
        self.sync()
    }

    /// Syncs the file.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// A slot that was read.
struct MarkSlot {
    generation: u64,
    schema: u32,
    /// Its number: 0 or 1.
    slot: u64,
    values: WatermarkValues,
}

/// Reads the later slot of the mark in `dir`.
fn read_slots(dir: &Path, file: &File) -> Result<MarkSlot, StoreError> {
    let io = |source| StoreError::Io { path: dir.join(WATERMARK_FILE), source };
    let mut best: Option<MarkSlot> = None;
    let mut other_schema = None;
    for slot in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        let read = file.read_at(&mut bytes, slot * SLOT_STRIDE_BYTES).map_err(io)?;
        let bytes = bytes.get(..read).unwrap_or_default();
        // another version has another layout, so its checksum cannot be checked here
        other_schema = other_schema.max(schema_of(bytes).filter(|found| *found != schema()));
        if let Some((generation, values)) = decode(bytes)
            && best.as_ref().is_none_or(|best| generation > best.generation)
        {
            let schema = schema_of(bytes).unwrap_or_default();
            best = Some(MarkSlot { generation, schema, slot, values });
        }
    }
    if best.is_none()
        && let Some(found) = other_schema
    {
        schema::check(&dir.join(WATERMARK_FILE), found)?;
    }
    best.ok_or_else(|| {
        let detail = format!("its high-water mark, the file {WATERMARK_FILE}, is unreadable");
        StoreError::Corrupt { dir: dir.to_owned(), detail }
    })
}

impl WatermarkValues {
    /// The values for a copy of a store, or a new one. Its database and `oracle_log.jsonl` count as missing.
    fn of_new(store_id: u64, counts: StoreCounts) -> Self {
        Self {
            counts,
            mirrored: 0,
            mirror_first: 1,
            snapshot: SnapshotId::default(),
            store_id,
            walked: 1,
            synced: 0,
            boot_id: 0,
            tree_check: 0,
        }
    }

    /// Notes the counts and the Merkle tree of the log after a commit.
    pub(crate) fn set_log(&mut self, counts: StoreCounts, tree: &LogTree) {
        (self.counts, self.tree_check) = (counts, Self::check_of(tree));
    }

    /// Whether `tree` can be the tree of the log: it has another size than the mark, or its checksum.
    pub(crate) fn agrees_with(&self, tree: &LogTree) -> bool {
        self.tree_check == 0 || tree.size() != self.counts.entries || self.tree_check == Self::check_of(tree)
    }

    fn check_of(tree: &LogTree) -> u64 {
        1 << 32 | u64::from(crc32fast::hash(&tree.to_bytes()))
    }

    /// The bytes of a slot, with those up to the next one, so that damage of these is mended, too.
    fn to_slot(&self, generation: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT_STRIDE_BYTES as usize);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&schema().to_be_bytes());
        bytes.extend_from_slice(&generation.to_be_bytes());
        bytes.extend_from_slice(&self.to_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes.resize(SLOT_STRIDE_BYTES as usize, 0);
        bytes
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self { counts, mirrored, mirror_first, snapshot, store_id, walked, synced, boot_id, tree_check } =
            self;
        let numbers =
            [*mirrored, *mirror_first, snapshot.0, *store_id, *walked, *synced, *boot_id, *tree_check];
        let mut bytes = counts.to_bytes();
        assert!(bytes.len() <= COUNTS_BYTES, "the counts of all tables fit into a slot");
        bytes.resize(COUNTS_BYTES, 0);
        bytes.extend_from_slice(numbers.map(u64::to_be_bytes).as_flattened());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (counts, numbers) = bytes.split_at_checked(COUNTS_BYTES)?;
        let numbers: [[u8; 8]; NUMBERS] = numbers.as_chunks().0.try_into().ok()?;
        let [mirrored, mirror_first, snapshot, store_id, walked, synced, boot_id, tree_check] =
            numbers.map(u64::from_be_bytes);
        let (counts, zeros) = StoreCounts::from_bytes(counts)?;
        let snapshot = SnapshotId(snapshot);
        zeros.iter().all(|byte| *byte == 0).then_some(())?;
        Some(Self { counts, mirrored, mirror_first, snapshot, store_id, walked, synced, boot_id, tree_check })
    }
}

/// The position of the first slot that is damaged or missing, or of the first other byte that is not 0.
fn first_fault(bytes: &[u8]) -> Option<usize> {
    let mut generations = Vec::new();
    for (start, part) in
        (0..).step_by(SLOT_STRIDE_BYTES as usize).zip(bytes.chunks(SLOT_STRIDE_BYTES as usize))
    {
        let Some((generation, _)) = decode(part).filter(|_| start <= SLOT_STRIDE_BYTES as usize) else {
            return Some(start);
        };
        generations.push(generation);
        let mut rest = part.iter().skip(SLOT_BYTES);
        if let Some(at) = rest.position(|byte| *byte != 0) {
            return Some(start + SLOT_BYTES + at);
        }
        // an earlier version writes no bytes after the last slot
        if ![SLOT_BYTES, SLOT_STRIDE_BYTES as usize].contains(&part.len()) {
            return Some(start + part.len());
        }
    }
    // the first write has only the first slot
    let is_next = match generations.as_slice() {
        [one, other] => one.abs_diff(*other) == 1,
        only => only == [1],
    };
    (!is_next).then_some(bytes.len())
}

/// The schema version of a slot; its offset is the same in every layout.
fn schema_of(bytes: &[u8]) -> Option<u32> {
    let (schema, _) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    Some(u32::from_be_bytes(*schema))
}

/// The generation and the values of a slot.
fn decode(bytes: &[u8]) -> Option<(u64, WatermarkValues)> {
    schema::check(Path::new(""), schema_of(bytes)?).ok()?;
    let bytes = bytes.get(..SLOT_BYTES)?;
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    let (generation, values) = content.get(MAGIC.len() + 4..)?.split_first_chunk()?;
    let values = WatermarkValues::from_bytes(values)?;
    (crc32fast::hash(content) == u32::from_be_bytes(*checksum))
        .then_some((u64::from_be_bytes(*generation), values))
}

/// The identity of a snapshot file: its length and checksum; 0 if there is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SnapshotId(pub(crate) u64);

impl SnapshotId {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self((content.len() as u64) << 32 | u64::from(crc32fast::hash(content)))
    }
}

/// The snapshot with which sled would begin in the store in `state_dir`.
pub(crate) fn snapshot_in(state_dir: &Path) -> SnapshotId {
    let newest = snapshots(&state_dir.join(DATABASE_DIR)).ok().and_then(|mut found| found.pop());
    newest
        .and_then(|path| fs::read(path).ok())
        .map_or_else(SnapshotId::default, |content| SnapshotId::of(&content))
}

/// sled's snapshots of its page table, the newest one last. sled begins with the newest.
pub(crate) fn snapshots(database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(database)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b"snap.") && !name.as_encoded_bytes().ends_with(b".generating")
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_a_check_reports_is_mended_by_an_opening_or_by_two_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(WATERMARK_FILE);
        let mut mark = Watermark::create(dir.path(), 7, StoreCounts::default()).expect("it is written");
        mark.write().expect("it is written");
        let whole = fs::read(&path).expect("readable");
        let stride = SLOT_STRIDE_BYTES as usize;
        for at in [
            0,
            20,
            SLOT_BYTES,
            stride - 1,
            stride,
            stride + 500,
            stride + SLOT_BYTES,
            2 * stride - 1,
            2 * stride,
        ] {
            let mut damaged = whole.clone();
            damaged.resize(whole.len().max(at + 1), 0);
            damaged[at] ^= 1;
            // a cut file is damaged, too
            if at == 2 * stride - 1 {
                damaged.truncate(at);
            }
            fs::write(&path, &damaged).expect("the write succeeds");
            assert!(Watermark::verify_file(dir.path()).is_err(), "{at}");
            let opened = Watermark::open(dir.path()).expect("one slot is whole").expect("it exists");
            assert_eq!((opened.now.store_id, opened.now.walked), (7, 1), "{at}");
            Watermark::verify_file(dir.path()).expect("it is mended");

            // no opening while it runs: two writes cover all bytes of the slots
            fs::write(&path, &whole).expect("the write succeeds");
            let mut open = Watermark::open(dir.path()).expect("it is whole").expect("it exists");
            fs::write(&path, &damaged[..damaged.len().min(2 * stride)]).expect("the write succeeds");
            open.write().and_then(|()| open.write()).expect("it is written");
            Watermark::verify_file(dir.path()).expect("it is mended");
        }
    }
}
