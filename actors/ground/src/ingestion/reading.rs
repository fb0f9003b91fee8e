//! Reads a payload, record by record, on its own thread.

use crate::ingestion::RunTracker;
use crate::registry::PreparedPipeline;
use bytes::{Buf, Bytes};
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_base::text_form::is_blank;
use domain_ground::format::TextEncoding;
use domain_ground::format::payload_kind::START_BYTES;
use domain_ground::id::SourceId;
use domain_ground::normalize::{COLUMNS_MAX, DefinitionCoverage, MissingColumnError, NormalizerOutput};
use domain_ground::rejection::{RecordRejection, RecordRule, RejectedRecord};
use domain_ground::run::{RunCounts, RunPhase, SortedFileRef};
use domain_ground::source_state::SourceState;
use domain_ground::timeline::{RecordStatement, TimelineRun};
use oracled_store::ground::files::GroundFiles;
use oracled_store::ground::staging::{AcceptedRecord, RunStaging, StagedRun};
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use store_facts::archive::{ArchiveWriter, PayloadRef};
use store_facts::decoding::{DecodingError, PayloadEncoding, Utf8Check};
use store_facts::slices::{PayloadSlice, PayloadSliceError, SliceLimits, slice_payload};
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

/// The most bytes of raw records between two checks of the free space.
const UNCHECKED_BYTES_MAX: u64 = 1 << 20;

/// The input of a reading.
#[derive(Debug)]
pub(super) struct PayloadReader {
    pub(super) files: GroundFiles,
    pub(super) view: Arc<SourceView>,
    pub(super) ready: PreparedPipeline,
    pub(super) release: TimelineRun,
    pub(super) progress: Arc<RunTracker>,
    pub(super) limits: SliceLimits,
}

#[derive(Debug)]
pub(super) enum PayloadReadOutcome {
    /// The files for the closing commit, and the pipeline that made them.
    Staged {
        staged: Box<StagedRun>,
        ready: PreparedPipeline,
        /// The state of the source that the run has read.
        base: Box<SourceState>,
    },
    /// The run had to end early.
    EndedEarly,
    /// The run failed, with this cause. Its rejects are kept.
    Failed { cause: String, counts: Box<RunCounts>, rows: Option<SortedFileRef> },
    /// The disk is full. The payload is not kept, since it would use the remaining space.
    NoSpace { cause: String },
}

/// Why reading ends early.
#[derive(Debug, thiserror::Error)]
enum PayloadReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Slice(#[from] PayloadSliceError),
    #[error(transparent)]
    Column(#[from] MissingColumnError),
}

impl PayloadReader {
    /// Reads the payload and writes the run's files.
    pub(super) fn run(self) -> PayloadReadOutcome {
        self.progress.set_phase(RunPhase::Reading);
        let run = &self.progress.run;
        let mut staging = match RunStaging::new(&self.files, &run.run_id, self.release.run) {
            Ok(staging) => staging,
            Err(error) => return write_failure(&error),
        };
        match self.stage(&mut staging) {
            Ok(true) => {}
            Ok(false) => return PayloadReadOutcome::EndedEarly,
            Err(PayloadReadError::Store(error @ StoreError::Unavailable { .. })) => {
                return write_failure(&error);
            }
            Err(error) => return failed(self.explain(error.to_string()), staging),
        }
        if staging.counts().rejected == staging.counts().read {
            let cause = match staging.counts().read {
                0 => "the payload holds no records".to_owned(),
                read => format_no_accepted_records(read),
            };
            return failed(self.explain(cause), staging);
        }
        self.progress.set_phase(RunPhase::Merging);
        let proceed = |merged| {
            self.progress.merged.store(merged, Ordering::Relaxed);
            self.progress.stop_reason().is_none()
        };
        match staging.finish(&self.view, &self.release, proceed) {
            Ok(Some(staged)) if staged.counts.records == 0 => {
                let cause = self.explain(format_no_accepted_records(staged.counts.read));
                let (counts, rows) = staged.rejects_only();
                PayloadReadOutcome::Failed { cause, counts: Box::new(counts), rows: Some(rows) }
            }
            Ok(Some(staged)) => {
                let base = Box::new(self.view.state.clone());
                PayloadReadOutcome::Staged { staged: Box::new(staged), ready: self.ready, base }
            }
            Ok(None) => PayloadReadOutcome::EndedEarly,
            Err(error) => write_failure(&error),
        }
    }

    /// The cause of a failure, with the kind of the payload if that explains it.
    fn explain(&self, cause: String) -> String {
        let run = &self.progress.run;
        let mut start = Vec::new();
        if let Ok(archive) = self.files.archive(&run.oracle_id, &run.input.raw_sha256) {
            // the bytes before an error are enough
            drop(archive.reader().take(START_BYTES as u64).read_to_end(&mut start));
        }
        PayloadEncoding::of(&self.ready.definition.pipeline.retrieval).explain_failure(cause, &start)
    }

    /// Reads every record. Returns whether it reached the end of the payload.
    fn stage(&self, staging: &mut RunStaging) -> Result<bool, PayloadReadError> {
        let run = &self.progress.run;
        let archive = self.files.archive(&run.oracle_id, &run.input.raw_sha256)?;
        let last_byte = AtomicU8::default();
        let payload =
            CountingReader { inner: archive.reader(), progress: &self.progress, last_byte: &last_byte };
        let retrieval = &self.ready.definition.pipeline.retrieval;
        let (format, is_latin1) = (&retrieval.format, retrieval.encoding == TextEncoding::Latin1);
        let slices = slice_payload(format, payload, self.limits)?;
        let mut coverage =
            DefinitionCoverage::new(&self.ready.normalizer, slices.columns(), slices.unnamed_columns())?;
        let table = format.table();
        let has_rows = table.is_some_and(|table| table.unpivot.is_none());
        let header = slices.columns().filter(|columns| has_rows && columns.len() <= COLUMNS_MAX);
        let header = header.map(|columns| columns.iter().map(|name| stored_name(name)).collect::<Vec<_>>());
        let (mut digest, mut utf8) = (RawRecordDigest::default(), Utf8Check::default());
        let mut unchecked_bytes = 0;
        for slice in slices {
            let slice = slice?;
            unchecked_bytes += u64::from(slice.len_bytes());
            if slice.position % 256 == 0 || unchecked_bytes > UNCHECKED_BYTES_MAX {
                if self.progress.stop_reason().is_some() {
                    return Ok(false);
                }
                self.files.check_free_space()?;
                unchecked_bytes = 0;
            }
            if is_latin1 {
                utf8.note(&slice.bytes);
            }
            self.stage_slice(slice, staging, &mut coverage, &mut digest)?;
            self.progress.read.store(staging.counts().read, Ordering::Relaxed);
            self.progress.rejected.store(staging.counts().rejected, Ordering::Relaxed);
        }
        let counts = staging.counts_mut();
        coverage.store_in(counts);
        counts.header = header.filter(|_| !counts.columns.is_empty()).unwrap_or_default();
        counts.utf8_records = utf8.utf8_records();
        let is_open = !matches!(last_byte.load(Ordering::Relaxed), b'\n' | b'\r');
        counts.open_end = table.map(|_| is_open);
        Ok(true)
    }

    fn stage_slice(
        &self,
        slice: PayloadSlice,
        staging: &mut RunStaging,
        coverage: &mut DefinitionCoverage<'_>,
        digest: &mut RawRecordDigest,
    ) -> Result<(), StoreError> {
        let len = slice.len_bytes();
        let PayloadSlice { position, offset, bytes, record } = slice;
        let raw_hash = digest.of(&bytes);
        if let Ok(raw) = &record {
            coverage.note_raw_record(raw);
        }
        let normalized = match &record {
            Ok(raw) => self.ready.normalizer.normalize(raw),
            Err(bad) => Err(RecordRejection::new(RecordRule::Readable, None, bad.to_string())),
        };
        match normalized {
            Ok(normalized) => {
                coverage.note_filled_axes(&normalized.content);
                let NormalizerOutput { valid_from, valid_until, warnings, .. } = normalized;
                warnings.iter().for_each(|warning| staging.count_warning(warning));
                let time = RecordStatement {
                    run: self.release.run,
                    valid_from,
                    valid_until,
                    content: Some(sha256(&normalized.json)),
                };
                let statement = StoredStatement {
                    time,
                    position,
                    offset,
                    len,
                    raw_hash,
                    verified: warnings.is_empty(),
                    row: Some(normalized.row.into()),
                };
                let key = normalized.identity.record_key(&normalized.source_record_id);
                staging.accept(&AcceptedRecord { key: &key, statement: &statement, index: &normalized.index })
            }
            Err(rejection) => {
                let raw_hash = Sha256Hex::from_bytes(&raw_hash);
                let identified = record.ok().and_then(|raw| self.ready.normalizer.identify(&raw));
                let key = identified.map(|(identity, id)| identity.record_key(&id));
                staging.reject(&RejectedRecord { position, offset, len, raw_hash, rejection }, key.as_deref())
            }
        }
    }
}

/// The digest of the last raw record. All records of an unpivoted row have the same raw record.
#[derive(Default)]
struct RawRecordDigest {
    bytes: Bytes,
    sha256: [u8; 32],
}

impl RawRecordDigest {
    fn of(&mut self, bytes: &Bytes) -> [u8; 32] {
        // bytes at the same place are the same, since the last ones are kept
        let is_same = (self.bytes.as_ptr(), self.bytes.len()) == (bytes.as_ptr(), bytes.len());
        if !is_same || bytes.is_empty() {
            (self.bytes, self.sha256) = (bytes.clone(), sha256(bytes));
        }
        self.sha256
    }
}

/// The name of a column in a run. A blank one is empty, since `columns` limits only the length of the others.
fn stored_name(name: &str) -> String {
    if is_blank(name) { String::new() } else { name.to_owned() }
}

fn format_no_accepted_records(read: u64) -> String {
    format!("none of {read} records was accepted; the rejects of the run have the reasons")
}

/// A run whose files could not be written.
fn write_failure(error: &StoreError) -> PayloadReadOutcome {
    let cause = error.to_string();
    match error {
        StoreError::Unavailable { .. } => PayloadReadOutcome::NoSpace { cause },
        _ => PayloadReadOutcome::Failed { cause, counts: Box::default(), rows: None },
    }
}

fn failed(cause: String, staging: RunStaging) -> PayloadReadOutcome {
    match staging.rejects_only() {
        Ok((counts, rows)) => {
            PayloadReadOutcome::Failed { cause, counts: Box::new(counts), rows: Some(rows) }
        }
        Err(error) => {
            let cause = format!("{cause}; and its rejects could not be stored: {error}");
            PayloadReadOutcome::Failed { cause, counts: Box::default(), rows: None }
        }
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut stream = Sha256Stream::default();
    stream.push(bytes);
    stream.finish_bytes()
}

/// Counts the bytes that were read, and notes the last one.
struct CountingReader<'p, R> {
    inner: R,
    progress: &'p RunTracker,
    last_byte: &'p AtomicU8,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.progress.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        if let Some(last) = into.get(..read).and_then(<[u8]>::last) {
            self.last_byte.store(*last, Ordering::Relaxed);
        }
        Ok(read)
    }
}

/// The most pieces that wait to be written.
const PIECES_WAITING: usize = 4;
/// The number of bytes that are decoded at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Held while a payload is finished or removed. Between the end of archiving and the commit of its run, a payload looks
/// unneeded, and must not be removed.
pub static ARCHIVING: Mutex<()> = Mutex::const_new(());

/// A payload that is being archived. If this is dropped before [`PayloadArchiver::finish`], nothing is stored.
#[derive(Debug)]
pub struct PayloadArchiver {
    pieces: mpsc::Sender<ArchiverMessage>,
    written: JoinHandle<Result<PayloadRef, ArchiveError>>,
}

#[derive(Debug)]
enum ArchiverMessage {
    More(Bytes),
    End,
}

/// Why a payload is not in the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store could not write the payload.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payload has another compression or encoding than its pipeline names.
    #[error("{0}")]
    Undecodable(String),
    /// The decoded payload is too long.
    #[error(
        "the payload has more than {max_bytes} bytes after its decompression (`ingestion.max_payload_bytes`)"
    )]
    TooLarge {
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// An internal error.
    #[error("the payload could not be archived: {0}")]
    Inside(String),
}

impl PayloadArchiver {
    /// Begins to archive a payload of the source `oracle_id` with this encoding. The archive gets its plain text in UTF-8,
    /// at most `max_bytes`.
    #[must_use]
    pub fn begin(store: Store, oracle_id: SourceId, encoding: PayloadEncoding, max_bytes: u64) -> Self {
        let (pieces, arriving) = mpsc::channel(PIECES_WAITING);
        let written = spawn_blocking(move || {
            let mut writer = store.archive_writer(&oracle_id)?;
            let pieces = PieceReader { pieces: arriving, piece: Bytes::new(), is_at_end: false };
            let payload = encoding.decode(pieces).map_err(|error| ArchiveError::Inside(error.to_string()))?;
            copy(payload, &mut writer, max_bytes)?;
            Ok(writer.finish()?)
        });
        Self { pieces, written }
    }

    /// Passes on the next piece. Waits while the queue is full.
    ///
    /// # Errors
    /// An earlier piece could not be written; [`PayloadArchiver::finish`] returns the cause.
    pub async fn push(&self, piece: Bytes) -> io::Result<()> {
        let sent = self.pieces.send(ArchiverMessage::More(piece)).await;
        sent.map_err(|_| io::Error::other("the archive writer has stopped"))
    }

    /// Returns the payload once it is durable.
    ///
    /// # Errors
    /// The payload could not be decoded or written.
    pub async fn finish(self) -> Result<PayloadRef, ArchiveError> {
        let Self { pieces, written } = self;
        // if the writer has stopped, its result has the cause
        drop(pieces.send(ArchiverMessage::End).await);
        drop(pieces);
        written.await.map_err(|error| ArchiveError::Inside(error.to_string()))?
    }
}

/// Copies a decoded payload to the archive.
fn copy(mut payload: impl Read, archive: &mut ArchiveWriter, max_bytes: u64) -> Result<(), ArchiveError> {
    let (mut chunk, mut total_bytes) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let read = payload.read(&mut chunk).map_err(|error| {
            let is_encoding = error.get_ref().is_some_and(|source| source.is::<DecodingError>());
            if is_encoding {
                ArchiveError::Undecodable(error.to_string())
            } else {
                ArchiveError::Inside(error.to_string())
            }
        })?;
        total_bytes += read as u64;
        if total_bytes > max_bytes {
            return Err(ArchiveError::TooLarge { max_bytes });
        }
        if read == 0 {
            return Ok(());
        }
        archive.push(chunk.get(..read).unwrap_or_default())?;
    }
}

/// Reads the pieces of a payload as they arrive.
struct PieceReader {
    pieces: mpsc::Receiver<ArchiverMessage>,
    piece: Bytes,
    is_at_end: bool,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() && !self.is_at_end {
            match self.pieces.blocking_recv() {
                Some(ArchiverMessage::More(piece)) => self.piece = piece,
                Some(ArchiverMessage::End) => self.is_at_end = true,
                // the sender was dropped: the payload is not complete
                None => return Err(ErrorKind::ConnectionAborted.into()),
            }
        }
        let count = self.piece.remaining().min(into.len());
        self.piece.copy_to_slice(into.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}
