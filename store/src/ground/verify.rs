//! Compares the records of a run with the payload that it read (RFC-0002, Provenance Invariants 2).

use super::statement::StoredStatement;
use super::view::SourceView;
use crate::ground::files::facts_owner;
use crate::ground::places::REJECT;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_ground::rejection::RejectedRecord;
use domain_ground::source_state::{CompletedRun, SourceCheckProgress};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read};
use std::ops::Bound;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;
use store_base::sorter::{RowSorter, SorterOutput};
use store_facts::archive::ArchiveReader;

/// The number of faults that are listed; further faults are only counted.
pub const FAULTS_MAX: usize = 100;
/// The memory for sorting the records of a run by their payload offset, in bytes.
const SORT_BYTES: usize = 32 << 20;
/// The size of the buffer for reading a payload, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PayloadCheckReport {
    /// Number of raw records that were compared with their digests.
    pub records: u64,
    /// Number of payload bytes that were read.
    pub payload_bytes: u64,
    /// The first [`FAULTS_MAX`] faults.
    pub faults: Vec<PayloadFault>,
    /// The number of all faults.
    pub fault_count: u64,
    /// Whether the payload is absent, since it was not archived or was pruned.
    pub no_payload: bool,
}

/// A difference that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFault {
    /// The number of the run.
    pub run: u32,
    /// The position of the record; `None` if the fault is in the payload as a whole.
    pub position: Option<u64>,
    /// The offset in the payload, in bytes.
    pub offset: u64,
    /// The description of the fault.
    pub what: String,
}

impl PayloadCheckReport {
    fn fault(&mut self, fault: PayloadFault) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

impl SourceView {
    /// A meter for a check of all files and of the runs with these numbers. It calls `proceed` at least every 256 KiB;
    /// `proceed` returns whether to continue.
    pub fn meter<'p>(
        &self,
        runs: &BTreeSet<u32>,
        proceed: &'p mut dyn FnMut(SourceCheckProgress) -> bool,
    ) -> CheckMeter<'p> {
        let oracle_id = self.state.entry.oracle_id();
        let runs = runs.iter().filter_map(|run| self.state.run(*run));
        let payloads = runs.filter_map(|run| self.files.archive(oracle_id, &run.raw_sha256).ok());
        let payload_bytes: u64 = payloads.map(|payload| payload.size_bytes()).sum();
        let file_bytes: u64 = self.state.sorted_files().map(|file| file.size_bytes).sum();
        CheckMeter::new(file_bytes + self.statement_bytes() + payload_bytes, proceed)
    }

    fn statement_bytes(&self) -> u64 {
        self.state.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Reads all sorted files of the source and compares them with their digests. Returns the number of their rows.
    ///
    /// # Errors
    /// `SourceFile` with the first file that does not match its digest; `Stopped` if `proceed` returned false.
    pub fn verify_files(&self, meter: &mut CheckMeter<'_>) -> Result<u64, StoreError> {
        let owner = facts_owner(&self.state);
        let mut rows = 0;
        for file in self.state.sorted_files() {
            let mut blocks_bytes = 0;
            self.files.verify_sorted(file, &owner, &mut |bytes| {
                blocks_bytes += bytes;
                meter.step(bytes)
            })?;
            // the index and the footer
            meter.step(file.size_bytes.saturating_sub(blocks_bytes))?;
            rows += file.rows;
        }
        Ok(rows)
    }

    /// Compares the payload of run number `run` with its digest, as [`SourceView::verify_runs`] does. Returns
    /// `None` if the run does not exist.
    ///
    /// # Errors
    /// The errors of [`SourceView::verify_runs`].
    pub fn verify_run(
        &self,
        run: u32,
        mut proceed: impl FnMut(SourceCheckProgress) -> bool,
    ) -> Result<Option<PayloadCheckReport>, StoreError> {
        let runs = BTreeSet::from([run]);
        let mut verified = self.verify_runs(&runs, &mut self.meter(&runs, &mut proceed))?;
        Ok(verified.remove(&run))
    }

    /// Compares the payloads of the runs with these numbers with their digests, and each raw record that the
    /// runs accepted or rejected with its own digest. The statements of the source are read once for all
    /// runs.
    ///
    /// # Errors
    /// The statements of the runs cannot be read; `Stopped` if `proceed` returned false. A damaged payload is
    /// part of the result, not an error.
    pub fn verify_runs(
        &self,
        runs: &BTreeSet<u32>,
        meter: &mut CheckMeter<'_>,
    ) -> Result<BTreeMap<u32, PayloadCheckReport>, StoreError> {
        let mut positions = self.sort_raw_positions(runs, meter)?.finish()?;
        positions.advance()?;
        let mut all = BTreeMap::new();
        for completed in runs.iter().filter_map(|run| self.state.run(*run)) {
            let run = completed.release.run;
            let verified = self.verify_raw_records(completed, &mut positions, meter)?;
            // skip records after a fault, which were not compared
            while self.next_raw_position(run, &mut positions)?.is_some() {
                meter.step(0)?;
            }
            all.insert(run, verified);
        }
        Ok(all)
    }

    /// The next raw record, if it belongs to run number `run`.
    fn next_raw_position(
        &self,
        run: u32,
        positions: &mut SorterOutput,
    ) -> Result<Option<RawRecordPosition>, StoreError> {
        let of_run = positions.current().filter(|(key, _)| key.starts_with(&run.to_be_bytes()));
        let Some((key, value)) = of_run else { return Ok(None) };
        let position = RawRecordPosition::read(key, value);
        let position = position.ok_or_else(|| self.corrupt("the position of a raw record cannot be read"))?;
        positions.advance()?;
        Ok(Some(position))
    }

    /// Compares the raw records of one run. `positions` are in the order of the payload.
    fn verify_raw_records(
        &self,
        completed: &CompletedRun,
        positions: &mut SorterOutput,
        meter: &mut CheckMeter<'_>,
    ) -> Result<PayloadCheckReport, StoreError> {
        let run = completed.release.run;
        let mut verified = PayloadCheckReport::default();
        if !self.files.has_archived(&completed.raw_sha256) {
            return Ok(PayloadCheckReport { no_payload: true, ..verified });
        }
        let mut payload = match self.files.archive(self.state.entry.oracle_id(), &completed.raw_sha256) {
            Ok(archive) => PayloadDigester::new(archive.reader()),
            Err(error) => {
                verified.fault(PayloadFault { run, position: None, offset: 0, what: error.to_string() });
                return Ok(verified);
            }
        };
        while let Some(position) = self.next_raw_position(run, positions)? {
            let fault =
                |what| PayloadFault { run, position: Some(position.position), offset: position.offset, what };
            match payload.digest(position.offset, position.len, meter) {
                Ok(digest) if digest == position.raw_hash => {}
                Ok(digest) => {
                    let expected_hash = &position.raw_hash;
                    verified.fault(fault(format!(
                        "its bytes have the digest {digest}, and should have {expected_hash}"
                    )));
                }
                Err(_) if meter.is_stopped() => return Err(StoreError::Stopped),
                Err(error) => {
                    verified.fault(fault(error.to_string()));
                    return Ok(verified);
                }
            }
            verified.records += 1;
        }
        let at_end = |what| PayloadFault { run, position: None, offset: 0, what };
        match payload.finish(meter) {
            Ok((sha256, size_bytes)) => {
                verified.payload_bytes = size_bytes;
                if sha256 != completed.raw_sha256 {
                    verified
                        .fault(at_end(format!("the payload's SHA-256 is {sha256}, which is not its name")));
                }
            }
            Err(_) if meter.is_stopped() => return Err(StoreError::Stopped),
            Err(error) => verified.fault(at_end(error.to_string())),
        }
        Ok(verified)
    }

    /// The offsets of the raw records of some runs, sorted by run and by offset.
    fn sort_raw_positions(
        &self,
        runs: &BTreeSet<u32>,
        meter: &mut CheckMeter<'_>,
    ) -> Result<RowSorter, StoreError> {
        let mut positions = RowSorter::new(&self.files.work_dir(), SORT_BYTES);
        let mut push = |run: u32, offset: u64, position: u64, len: u32, raw_hash: &Sha256Hex| {
            let key = [&run.to_be_bytes()[..], &offset.to_be_bytes(), &position.to_be_bytes()].concat();
            positions.push(&key, &[&len.to_be_bytes()[..], raw_hash.as_str().as_bytes()].concat())
        };
        let bytes_each =
            self.statement_bytes() / self.state.files.iter().map(|file| file.statements).sum::<u64>().max(1);
        let mut records = self.records(&[], Bound::Unbounded)?;
        while records.advance()? {
            meter.step(bytes_each * records.rows().len() as u64)?;
            let record = records.decode()?;
            // the payload offset of a rejected record is among the rejects
            let is_included = |statement: &&StoredStatement| {
                runs.contains(&statement.time.run) && statement.time.content.is_some()
            };
            for statement in record.statements.iter().filter(is_included) {
                let raw_hash = Sha256Hex::from_bytes(&statement.raw_hash);
                push(statement.time.run, statement.offset, statement.position, statement.len, &raw_hash)?;
            }
        }
        let owner = facts_owner(&self.state);
        for completed in runs.iter().filter_map(|run| self.state.run(*run)) {
            let run = completed.release.run;
            for row in self.files.open_sorted(&completed.rows, &owner)?.with_prefix(&[REJECT]) {
                let (_, json) = row?;
                let reject: RejectedRecord = serde_json::from_slice(&json)
                    .map_err(|error| self.corrupt(&format!("a reject of run {run}: {error}")))?;
                push(run, reject.offset, reject.position, reject.len, &reject.raw_hash)?;
                meter.step(0)?;
            }
        }
        Ok(positions)
    }
}

/// The position of a raw record in its payload, and its digest.
struct RawRecordPosition {
    offset: u64,
    position: u64,
    len: u32,
    raw_hash: Sha256Hex,
}

impl RawRecordPosition {
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let (_, key) = key.split_first_chunk::<4>()?;
        let (offset, position) = key.split_first_chunk()?;
        let (len, raw_hash) = value.split_first_chunk()?;
        Some(Self {
            offset: u64::from_be_bytes(*offset),
            position: u64::from_be_bytes(*position.first_chunk()?),
            len: u32::from_be_bytes(*len),
            raw_hash: str::from_utf8(raw_hash).ok()?.parse().ok()?,
        })
    }
}

/// Reads a payload once, from start to end.
struct PayloadDigester {
    reader: ArchiveReader,
    whole: Sha256Stream,
    at: u64,
    piece: Vec<u8>,
    /// The place of the last record, and its digest.
    last: Option<((u64, u32), Sha256Hex)>,
}

impl PayloadDigester {
    fn new(reader: ArchiveReader) -> Self {
        Self { reader, whole: Sha256Stream::default(), at: 0, piece: vec![0; PIECE_BYTES], last: None }
    }

    /// The digest of `len` bytes from `offset`, which must not be before the current position. The records of an unpivoted row
    /// have the same bytes.
    fn digest(&mut self, offset: u64, len: u32, meter: &mut CheckMeter<'_>) -> io::Result<Sha256Hex> {
        if let Some((place, digest)) = &self.last
            && *place == (offset, len)
        {
            return Ok(digest.clone());
        }
        let skipped = offset.checked_sub(self.at);
        let skipped = skipped.ok_or_else(|| io::Error::other("the record overlaps the one before it"))?;
        self.read(skipped, meter, |_| {})?;
        let mut digest = Sha256Stream::default();
        self.read(len.into(), meter, |bytes| digest.push(bytes))?;
        let digest = digest.finish();
        self.last = Some(((offset, len), digest.clone()));
        Ok(digest)
    }

    fn read(
        &mut self,
        mut len: u64,
        meter: &mut CheckMeter<'_>,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        while len > 0 {
            let most = usize::try_from(len).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let read = self.reader.read(self.piece.get_mut(..most).unwrap_or_default())?;
            let bytes = self.piece.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the payload ends within the record"));
            }
            self.whole.push(bytes);
            take(bytes);
            self.at += read as u64;
            len -= read as u64;
            meter.step(read as u64).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Reads the rest. Returns the digest of the whole payload, and its length.
    fn finish(mut self, meter: &mut CheckMeter<'_>) -> io::Result<(Sha256Hex, u64)> {
        loop {
            let read = self.reader.read(&mut self.piece)?;
            if read == 0 {
                return Ok((self.whole.finish(), self.at));
            }
            self.whole.push(self.piece.get(..read).unwrap_or_default());
            self.at += read as u64;
            meter.step(read as u64).map_err(io::Error::other)?;
        }
    }
}

/// The number of steps between two calls of `proceed`, at most.
const STEPS_MAX: u32 = 512;
/// The bytes after which `proceed` is called.
const BYTES_MAX: u64 = 256 * 1024;

/// Counts the bytes that a check reads, and asks the caller at intervals whether to continue.
pub struct CheckMeter<'p> {
    progress: SourceCheckProgress,
    proceed: &'p mut dyn FnMut(SourceCheckProgress) -> bool,
    /// Steps since the last call of `proceed`.
    steps: u32,
    /// Bytes since the last call of `proceed`.
    bytes: u64,
    is_stopped: bool,
}

impl<'p> CheckMeter<'p> {
    fn new(bytes: u64, proceed: &'p mut dyn FnMut(SourceCheckProgress) -> bool) -> Self {
        let progress = SourceCheckProgress { bytes_read: 0, bytes };
        Self { progress, proceed, steps: 0, bytes: 0, is_stopped: false }
    }

    /// Counts a step that read this number of bytes.
    ///
    /// # Errors
    /// `Stopped` if `proceed` returned false.
    pub(in crate::ground) fn step(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.progress.bytes_read += bytes;
        self.bytes += bytes;
        self.steps += 1;
        if self.steps < STEPS_MAX && self.bytes < BYTES_MAX {
            return Ok(());
        }
        (self.steps, self.bytes) = (0, 0);
        self.is_stopped = self.is_stopped || !(self.proceed)(self.progress);
        if self.is_stopped { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Whether the caller has stopped the check.
    const fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

#[cfg(test)]
mod tests;
