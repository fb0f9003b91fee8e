//! A source with its files open: what every reader of its records looks at.

use super::files::Files;
use super::sorted::{Merge, Rows, SortedFile};
use super::state::{Completed, SourceState};
use super::statement::StoredStatement;
use crate::error::StoreError;
use domain::Sha256Hex;
use domain::ground::ontology::Ontology;
use domain::ground::provenance::{ProvenanceRecord, RawPlace, VerificationStatus};
use domain::ground::record::Content;
use domain::ground::run::record_id;
use domain::ground::timeline::{End, Knowledge, Statement, Version};
use jiff::Timestamp;
use std::ops::Bound;
use std::path::PathBuf;

/// What begins the key of a statement.
pub(super) const STATEMENT: u8 = b's';
/// What begins the key of an entry of an index.
pub(super) const INDEX: u8 = b'x';
/// A statement's key ends with the run's number.
const RUN_BYTES: usize = 4;

/// A source with its files open. It is as it was when it was made, whatever is ingested meanwhile.
#[derive(Debug)]
pub struct SourceView {
    /// What the database keeps of it.
    pub state: SourceState,
    /// Its revision.
    pub revision: u64,
    /// The ontology that its records are of.
    pub ontology: Ontology,
    /// All that is known.
    pub known: Knowledge,
    pub(super) files: Vec<SortedFile>,
    dir: PathBuf,
}

/// All that runs say of one source record, in the order of the runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it speaks of, and what the source knows it by: in the order of records.
    pub key: Vec<u8>,
    /// What they say.
    pub statements: Vec<StoredStatement>,
    /// For each, in which file it lies.
    pub(super) places: Vec<usize>,
}

/// A version of a record that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The record's key.
    pub key: Vec<u8>,
    /// The statement that stands for it.
    pub statement: StoredStatement,
    /// Since when and until when it holds.
    pub version: Version,
    /// The run and the position of the record that has taken its place.
    pub superseded_by: Option<(u32, u64)>,
}

impl SourceView {
    pub(super) fn new(
        state: SourceState,
        revision: u64,
        ontology: Ontology,
        files: &Files,
    ) -> Result<Self, StoreError> {
        let known = Knowledge::new(&state.releases(), None);
        let open = state.files.iter().map(|file| files.open_sorted(file)).collect::<Result<_, _>>()?;
        Ok(Self { state, revision, ontology, known, files: open, dir: files.work_dir() })
    }

    /// What is known, or was at `known_at`.
    #[must_use]
    pub fn knowledge(&self, known_at: Option<Timestamp>) -> Knowledge {
        known_at.map_or_else(|| self.known.clone(), |_| Knowledge::new(&self.state.releases(), known_at))
    }

    /// How many files a lookup looks into.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The records whose keys begin with `prefix`, from `from` on or, where that is excluded, behind it.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn records(&self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Records<'_>, StoreError> {
        let whole = [&[STATEMENT], prefix].concat();
        let start = match from {
            Bound::Unbounded => Bound::Included(whole.clone()),
            Bound::Included(key) => Bound::Included(key_of(key, 0)),
            Bound::Excluded(key) => Bound::Excluded(key_of(key, u32::MAX)),
        };
        let rows =
            self.files.iter().map(|file| file.with_prefix_from(&whole, start.as_ref().map(Vec::as_slice)));
        Ok(Records { view: self, rows: Merge::new(rows.collect())?, next: None })
    }

    /// The keys of records that have had the value with these key bytes on the axis with this place, in their order.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn indexed(&self, axis: u16, value: &[u8]) -> Result<Indexed, StoreError> {
        let prefix = [&[INDEX], &axis.to_be_bytes()[..], value].concat();
        let rows = self.files.iter().map(|file| file.with_prefix(&prefix)).collect();
        Ok(Indexed { rows: Merge::new(rows)?, prefix_bytes: prefix.len(), last: Vec::new() })
    }

    /// The version of `record` that holds at `time`, as far as `known` goes.
    #[must_use]
    pub fn valid_at(&self, record: Record, known: &Knowledge, time: Timestamp) -> Option<Found> {
        let times: Vec<Statement> = record.statements.iter().map(|stored| stored.time).collect();
        let version = known.valid_at(&times, time)?;
        found(record, version)
    }

    /// All versions of `record`, as far as `known` goes.
    #[must_use]
    pub fn versions(&self, record: &Record, known: &Knowledge) -> Vec<Found> {
        let times: Vec<Statement> = record.statements.iter().map(|stored| stored.time).collect();
        known.versions(&times).into_iter().filter_map(|version| found(record.clone(), version)).collect()
    }

    /// The id of the record that a run has read at `position`.
    #[must_use]
    pub fn record_id(&self, run: u32, position: u64) -> Option<String> {
        self.state.run(run).map(|completed| record_id(&completed.run_id, position))
    }

    /// What a statement says.
    ///
    /// # Errors
    /// `Corrupt` where it is no content. Nothing where it was pruned.
    pub fn content(&self, statement: &StoredStatement) -> Result<Option<Content>, StoreError> {
        let read = |json: &Vec<u8>| {
            serde_json::from_slice(json).map_err(|error| self.corrupt(format!("a record's content: {error}")))
        };
        statement.content.as_ref().map(read).transpose()
    }

    /// Where a version comes from.
    ///
    /// # Errors
    /// `Corrupt` where it names a run that there is not.
    pub fn provenance(&self, found: &Found) -> Result<ProvenanceRecord, StoreError> {
        let Found { key, statement, version, superseded_by } = found;
        let run = statement.time.run;
        let completed =
            self.state.run(run).ok_or_else(|| self.corrupt(format!("a statement of run {run}")))?;
        let Completed { run_id, pipeline_id, raw_sha256, source_url, transformations, release, .. } =
            completed;
        Ok(ProvenanceRecord {
            record_id: record_id(run_id, statement.position),
            oracle_id: self.state.entry.oracle_id().clone(),
            source_version: release.version.clone(),
            source_record_id: source_record_id_in(key).unwrap_or_default(),
            source_url: source_url.clone(),
            ingested_at: release.ingested_at,
            ingestion_pipeline_id: pipeline_id.clone(),
            ingestion_run_id: run_id.clone(),
            raw_hash: Sha256Hex::from_bytes(&statement.raw_hash),
            normalized_hash: Some(Sha256Hex::from_bytes(&statement.time.content)),
            transformations_applied: transformations.clone(),
            valid_from: version.valid_from,
            valid_until: version.valid_until,
            superseded_by: superseded_by.and_then(|(run, position)| self.record_id(run, position)),
            verification_status: if statement.verified {
                VerificationStatus::AutoVerified
            } else {
                VerificationStatus::Unverified
            },
            verified_by: statement.verified.then(|| pipeline_id.to_string()),
            verified_at: statement.verified.then_some(release.ingested_at),
            raw: RawPlace {
                raw_sha256: raw_sha256.clone(),
                position: statement.position,
                offset: statement.offset,
                len: statement.len,
            },
        })
    }

    pub(super) fn corrupt(&self, detail: String) -> StoreError {
        let id = self.state.entry.oracle_id();
        StoreError::Corrupt { dir: self.dir.clone(), detail: format!("source {id}: {detail}") }
    }
}

fn found(mut record: Record, version: Version) -> Option<Found> {
    let superseded_by = match version.ended_by {
        End::Superseded(by) => record.statements.get(by).map(|by| (by.time.run, by.position)),
        End::Open | End::Withdrawn(_) | End::Expired => None,
    };
    if version.statement >= record.statements.len() {
        return None;
    }
    let statement = record.statements.swap_remove(version.statement);
    Some(Found { key: record.key, statement, version, superseded_by })
}

/// The key of what `run` says of the record with this key.
pub(super) fn key_of(record_key: &[u8], run: u32) -> Vec<u8> {
    [&[STATEMENT], record_key, &run.to_be_bytes()[..]].concat()
}

/// The record's key and the run's number in the key of a statement.
pub(super) fn split_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (record_key, run) = key.strip_prefix(&[STATEMENT])?.split_last_chunk::<RUN_BYTES>()?;
    Some((record_key, u32::from_be_bytes(*run)))
}

/// The id of a source record at the end of its key.
pub(super) fn source_record_id_in(key: &[u8]) -> Option<String> {
    // no id holds a 0 byte: control characters are escaped in it
    let id = key.strip_suffix(&[0, 0])?;
    let begin = id.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
    String::from_utf8(id.get(begin..)?.to_vec()).ok()
}

/// Records in the order of their keys. They end with the first error.
#[derive(Debug)]
pub struct Records<'v> {
    view: &'v SourceView,
    rows: Merge<Rows>,
    /// The first statement of the next record, which was read to see that the last one has ended.
    next: Option<Told>,
}

/// A statement with its record's key, and in which file it lies.
type Told = (Vec<u8>, StoredStatement, usize);

impl Records<'_> {
    fn read(&mut self) -> Option<Result<Told, StoreError>> {
        if let Some(next) = self.next.take() {
            return Some(Ok(next));
        }
        let row = match self.rows.next()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let read =
            split_key(&row.key).and_then(|(key, run)| Some((key, StoredStatement::read(run, &row.value)?)));
        let read = read.map(|(key, statement)| (key.to_vec(), statement, row.source));
        Some(read.ok_or_else(|| self.view.corrupt("a statement cannot be read".into())))
    }

    fn record(&mut self) -> Option<Result<Record, StoreError>> {
        let (key, first, place) = match self.read()? {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        let mut record = Record { key, statements: vec![first], places: vec![place] };
        loop {
            match self.read() {
                None => return Some(Ok(record)),
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok((key, statement, place))) if key == record.key => {
                    record.statements.push(statement);
                    record.places.push(place);
                }
                Some(Ok(next)) => {
                    self.next = Some(next);
                    return Some(Ok(record));
                }
            }
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.record()
    }
}

/// Keys of records out of an index, each once.
#[derive(Debug)]
pub struct Indexed {
    rows: Merge<Rows>,
    prefix_bytes: usize,
    last: Vec<u8>,
}

impl Iterator for Indexed {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let key = row.key.get(self.prefix_bytes..).unwrap_or_default();
            if key != self.last {
                self.last = key.to_vec();
                return Some(Ok(self.last.clone()));
            }
        }
    }
}
