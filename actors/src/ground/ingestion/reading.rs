//! Reads a payload, record by record, on its own thread.

use super::coverage::Coverage;
use super::progress::Progress;
use super::slices::{Limits, Slice, SliceError, slices};
use crate::ground::registry::Ready;
use oracled_domain::ground::normalize::{MissingColumn, Normalized};
use oracled_domain::ground::rejection::{Reject, Rejection, Rule};
use oracled_domain::ground::run::RunPhase;
use oracled_domain::ground::run::{FileRef, RunCounts};
use oracled_domain::ground::timeline::{Release, Statement};
use oracled_domain::{Sha256Hex, Sha256Stream};
use oracled_store::StoreError;
use oracled_store::ground::files::Files;
use oracled_store::ground::staging::{Accepted, Staged, Staging};
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::SourceView;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The input of a reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) files: Files,
    pub(super) view: Arc<SourceView>,
    pub(super) ready: Ready,
    pub(super) release: Release,
    pub(super) progress: Arc<Progress>,
    pub(super) limits: Limits,
}

/// The outcome of a reading.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The files for the closing commit, and the pipeline that made them.
    Staged { staged: Box<Staged>, ready: Ready },
    /// The run had to end early.
    EndedEarly,
    /// The run failed, with this cause. Its rejects are kept.
    Failed { cause: String, counts: Box<RunCounts>, rows: Option<FileRef> },
    /// The disk is full. The payload is not kept, since it would use the remaining space.
    NoSpace { cause: String },
}

/// Why reading ends early.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Slice(#[from] SliceError),
    #[error(transparent)]
    Column(#[from] MissingColumn),
}

impl Reading {
    /// Reads the payload and writes the run's files.
    pub(super) fn run(self) -> Outcome {
        self.progress.enter(RunPhase::Reading);
        let run = &self.progress.run;
        let mut staging = match Staging::new(&self.files, &run.run_id, self.release.run) {
            Ok(staging) => staging,
            Err(error) => return unwritten(&error),
        };
        match self.stage(&mut staging) {
            Ok(true) => {}
            Ok(false) => return Outcome::EndedEarly,
            Err(Unread::Store(error @ StoreError::Unavailable { .. })) => return unwritten(&error),
            Err(error) => return failed(error.to_string(), staging),
        }
        if staging.counts().rejected == staging.counts().read {
            let cause = match staging.counts().read {
                0 => "the payload holds no records".to_owned(),
                read => none_was_taken(read),
            };
            return failed(cause, staging);
        }
        self.progress.enter(RunPhase::Merging);
        let proceed = |merged| {
            self.progress.merged.store(merged, Ordering::Relaxed);
            self.progress.ending().is_none()
        };
        match staging.finish(&self.view, &self.release, proceed) {
            Ok(Some(staged)) if staged.counts.records == 0 => {
                let cause = none_was_taken(staged.counts.read);
                let (counts, rows) = staged.rejects_only();
                Outcome::Failed { cause, counts: Box::new(counts), rows: Some(rows) }
            }
            Ok(Some(staged)) => Outcome::Staged { staged: Box::new(staged), ready: self.ready },
            Ok(None) => Outcome::EndedEarly,
            Err(error) => unwritten(&error),
        }
    }

    /// Reads every record. Returns whether it reached the end of the payload.
    fn stage(&self, staging: &mut Staging) -> Result<bool, Unread> {
        let run = &self.progress.run;
        let archive = self.files.archive(&run.oracle_id, &run.input.raw_sha256)?;
        let payload = Counted { inner: archive.reader(), progress: &self.progress };
        let slices = slices(&self.ready.definition.pipeline.retrieval.format, payload, self.limits)?;
        let mut coverage = Coverage::new(&self.ready.normalizer, slices.columns())?;
        for slice in slices {
            let slice = slice?;
            if slice.position % 256 == 0 && self.progress.ending().is_some() {
                return Ok(false);
            }
            self.take(slice, staging, &mut coverage)?;
            self.progress.read.store(staging.counts().read, Ordering::Relaxed);
            self.progress.rejected.store(staging.counts().rejected, Ordering::Relaxed);
        }
        let (axes, warnings) = coverage.into_parts();
        staging.describe(axes, warnings);
        Ok(true)
    }

    fn take(
        &self,
        slice: Slice,
        staging: &mut Staging,
        coverage: &mut Coverage<'_>,
    ) -> Result<(), StoreError> {
        let len = slice.len_bytes();
        let Slice { position, offset, bytes, record } = slice;
        let raw_hash = sha256(&bytes);
        if let Ok(raw) = &record {
            coverage.read(raw);
        }
        let normalized = match &record {
            Ok(raw) => self.ready.normalizer.normalize(raw),
            Err(bad) => Err(Rejection::new(Rule::Readable, None, bad.to_string())),
        };
        match normalized {
            Ok(normalized) => {
                coverage.took(&normalized.content);
                let Normalized { valid_from, valid_until, warnings, .. } = normalized;
                warnings.iter().for_each(|warning| staging.warn(warning));
                let time = Statement {
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
                staging.accept(&Accepted { key: &key, statement: &statement, index: &normalized.index })
            }
            Err(rejection) => {
                let raw_hash = Sha256Hex::from_bytes(&raw_hash);
                let identified = record.ok().and_then(|raw| self.ready.normalizer.identify(&raw));
                let key = identified.map(|(identity, id)| identity.record_key(&id));
                staging.reject(&Reject { position, offset, len, raw_hash, rejection }, key.as_deref())
            }
        }
    }
}

fn none_was_taken(read: u64) -> String {
    format!("none of {read} records was accepted; the rejects of the run have the reasons")
}

/// A run whose files could not be written.
fn unwritten(error: &StoreError) -> Outcome {
    let cause = error.to_string();
    match error {
        StoreError::Unavailable { .. } => Outcome::NoSpace { cause },
        _ => Outcome::Failed { cause, counts: Box::default(), rows: None },
    }
}

fn failed(cause: String, staging: Staging) -> Outcome {
    match staging.rejects_only() {
        Ok((counts, rows)) => Outcome::Failed { cause, counts: Box::new(counts), rows: Some(rows) },
        Err(error) => {
            let cause = format!("{cause}; and its rejects could not be stored: {error}");
            Outcome::Failed { cause, counts: Box::default(), rows: None }
        }
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut stream = Sha256Stream::default();
    stream.push(bytes);
    stream.finish_bytes()
}

/// Counts the bytes that were read.
struct Counted<'p, R> {
    inner: R,
    progress: &'p Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.progress.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
