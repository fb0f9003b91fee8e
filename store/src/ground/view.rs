//! A source with its files open: what every reader of its records looks at.

pub mod records;

use super::files::Files;
use super::sorted::{Keys, Rows, SortedFile};
use super::state::{Completed, SourceState};
use super::statement::StoredStatement;
use crate::base::error::{FileKind, StoreError};
use crate::ground::view::records::Records;
use bytes::Bytes;
use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::provenance::{ProvenanceRecord, RawPlace, VerificationStatus};
use oracled_domain::ground::record::Content;
use oracled_domain::ground::row::Row;
use oracled_domain::ground::run::record_id;
use oracled_domain::ground::timeline::{End, Knowledge, Scope, Statement, Version};
use std::borrow::Cow;
use std::ops::{Bound, Range};

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
    pub(super) open: Vec<SortedFile>,
    pub(super) files: Files,
}

/// All that runs say of one source record, in the order of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// What it speaks of, and what the source knows it by: in the order of records.
    pub key: Vec<u8>,
    /// What they say.
    pub statements: Vec<StoredStatement>,
    /// For each, in which file it lies.
    pub(super) places: Vec<usize>,
}

impl Record {
    /// Removes all that it has.
    pub(super) fn clear(&mut self) {
        self.key.clear();
        self.statements.clear();
        self.places.clear();
    }

    /// What the order of time depends on, of each of its statements.
    pub fn times(&self) -> impl Iterator<Item = &Statement> {
        self.statements.iter().map(|stored| &stored.time)
    }
}

/// A version of a record that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The record's key.
    pub key: Vec<u8>,
    /// The statement that stands for it.
    pub statement: StoredStatement,
    /// The statement of the latest release with the same content, without the bytes of the content.
    pub latest: StoredStatement,
    /// Since when and until when it holds.
    pub version: Version,
    /// The run and the position of the record that has taken its place.
    pub superseded_by: Option<(u32, u64)>,
}

/// How the entries of an index begin that tell which records have had a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexKey(pub(super) Vec<u8>);

impl Found {
    /// What the source knows the record by.
    #[must_use]
    pub fn source_record_id(&self) -> String {
        source_record_id_in(&self.key).unwrap_or_default()
    }
}

impl SourceView {
    pub(super) fn new(
        state: SourceState,
        revision: u64,
        ontology: Ontology,
        files: &Files,
    ) -> Result<Self, StoreError> {
        let known = Knowledge::new(&state.releases(), Scope::default());
        let owner = state.owner(FileKind::Facts);
        let open = state.files.iter().map(|file| {
            let opened = files.open_sorted(file, &owner)?;
            Ok(opened.cached(&files.blocks, &file.sha256))
        });
        let open = open.collect::<Result<_, StoreError>>()?;
        Ok(Self { state, revision, ontology, known, open, files: files.clone() })
    }

    /// The releases that `scope` sees. The result for all releases is precomputed.
    #[must_use]
    pub fn knowledge(&self, scope: Scope) -> Cow<'_, Knowledge> {
        if self.state.completed.iter().all(|completed| scope.sees(&completed.release)) {
            return Cow::Borrowed(&self.known);
        }
        Cow::Owned(Knowledge::new(&self.state.releases(), scope))
    }

    /// How many files a lookup looks into.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.open.len()
    }

    /// The records whose keys begin with `prefix`, from `from` on or, where that is excluded, behind it.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn records(&self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Records<'_>, StoreError> {
        self.records_apart(prefix, from).begin()
    }

    /// The same before they have begun, for whoever asks for some of them.
    pub(super) fn records_apart(&self, prefix: &[u8], from: Bound<&[u8]>) -> Records<'_> {
        let whole = [&[STATEMENT], prefix].concat();
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) if key < prefix => Bound::Included(whole.clone()),
            Bound::Unbounded => Bound::Included(whole.clone()),
            Bound::Included(key) => Bound::Included(key_of(key, 0)),
            Bound::Excluded(key) => Bound::Excluded(key_of(key, u32::MAX)),
        };
        let start = start.as_ref().map(Vec::as_slice);
        let files = self.open.iter().enumerate();
        Records::new(self, files.map(|(place, file)| (place, file.with_prefix_from(&whole, start))))
    }

    /// The records in some of the files, before they have begun. A run reads each once: none of that is kept in memory.
    pub(super) fn records_once(&self, files: Range<usize>) -> Records<'_> {
        let files = self.open.iter().enumerate().take(files.end).skip(files.start);
        Records::new(self, files.map(|(place, file)| (place, file.uncached().with_prefix(&[STATEMENT]))))
    }

    /// The versions that hold at `time`, as far as `known` goes, of the records that speak of one thing: `identity` is its
    /// key. They come in the order of the records, one by one.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn lookup<'v>(
        &'v self,
        identity: &[u8],
        known: &'v Knowledge,
        time: Timestamp,
    ) -> Result<impl Iterator<Item = Result<Found, StoreError>> + use<'v>, StoreError> {
        let records = self.records(identity, Bound::Unbounded)?;
        Ok(records
            .filter_map(move |record| record.map(|record| Self::valid_at(&record, known, time)).transpose()))
    }

    /// The source version that rejected the record with this key, if no later release has or withdraws it.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn rejected(&self, identity: &[u8], known: &Knowledge) -> Result<Option<String>, StoreError> {
        for record in self.records(identity, Bound::Unbounded)? {
            let run = known.rejected_by(record?.times()).and_then(|run| self.state.run(run));
            if let Some(run) = run {
                return Ok(Some(run.release.version.clone()));
            }
        }
        Ok(None)
    }

    /// The entries of an index that begin with `value` and `prefix`: the keys of records that have had the value, after it, in
    /// their order, from `from` on or, where that is excluded, behind it.
    pub(super) fn indexed(&self, value: &IndexKey, prefix: &[u8], from: Bound<&[u8]>) -> Keys<Rows> {
        let whole = [value.0.as_slice(), prefix].concat();
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) if key < prefix => Bound::Included(whole.clone()),
            Bound::Unbounded => Bound::Included(whole.clone()),
            Bound::Included(key) | Bound::Excluded(key) => from.map(|_| [value.0.as_slice(), key].concat()),
        };
        let start = start.as_ref().map(Vec::as_slice);
        Keys::new(self.open.iter().map(|file| file.with_prefix_from(&whole, start)).collect())
    }

    /// In how many blocks of files the keys lie that [`SourceView::records`] reads, or, of `value`, the entries that
    /// [`SourceView::indexed`] reads.
    pub(super) fn blocks(&self, value: Option<&IndexKey>, prefix: &[u8]) -> usize {
        let begin = value.map_or(&[STATEMENT][..], |value| value.0.as_slice());
        let whole = [begin, prefix].concat();
        self.open.iter().map(|file| file.blocks_with_prefix(&whole)).sum()
    }

    /// The version of `record` that holds at `time`, as far as `known` goes.
    #[must_use]
    pub fn valid_at(record: &Record, known: &Knowledge, time: Timestamp) -> Option<Found> {
        let version = known.valid_at(record.times(), time)?;
        Found::of(&record.key, &record.statements, version)
    }

    /// All versions of `record`, as far as `known` goes.
    pub fn versions<'r>(record: &'r Record, known: &Knowledge) -> impl Iterator<Item = Found> + use<'r> {
        let versions = known.versions(record.times()).into_iter();
        versions.filter_map(move |version| Found::of(&record.key, &record.statements, version))
    }

    /// The id of the record that a run has read at `position`.
    #[must_use]
    pub fn record_id(&self, run: u32, position: u64) -> Option<String> {
        self.state.run(run).map(|completed| record_id(&completed.run_id, position))
    }

    /// What a statement says.
    ///
    /// # Errors
    /// `SourceFile` where it is no content. Nothing where it was pruned.
    pub fn content(&self, statement: &StoredStatement) -> Result<Option<Content>, StoreError> {
        let content = |row: &Row<'_>| {
            row.content(&self.ontology).ok_or_else(|| self.corrupt("a record's content cannot be read"))
        };
        self.row(statement)?.as_ref().map(content).transpose()
    }

    /// The row of a statement.
    pub(super) fn row<'s>(&self, statement: &'s StoredStatement) -> Result<Option<Row<'s>>, StoreError> {
        let read =
            |bytes: &'s Bytes| Row::read(bytes).ok_or_else(|| self.corrupt("a record's row cannot be read"));
        statement.row.as_ref().map(read).transpose()
    }

    /// The later source version that rejected the record of `version`, or a record that cannot be identified, and so
    /// does not confirm it.
    #[must_use]
    pub fn unconfirmed_by(&self, version: &Version) -> Option<String> {
        let completed = self.state.run(version.unconfirmed_by?)?;
        Some(completed.release.version.clone())
    }

    /// Where a version comes from.
    ///
    /// # Errors
    /// `SourceFile` where it names a run that there is not.
    pub fn provenance(&self, found: &Found) -> Result<ProvenanceRecord, StoreError> {
        let Found { key, statement, version, superseded_by, .. } = found;
        let run = statement.time.run;
        let completed =
            self.state.run(run).ok_or_else(|| self.corrupt(&format!("a statement of run {run}")))?;
        let Completed { run_id, pipeline_id, pipeline_sha256, raw_sha256, source_url, release, .. } =
            completed;
        let transformations = self.state.transformations.get(pipeline_sha256);
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
            normalized_hash: statement.time.content.as_ref().map(Sha256Hex::from_bytes),
            transformations_applied: transformations.cloned().unwrap_or_default(),
            valid_from: version.valid_from,
            valid_until: version.valid_until,
            superseded_by: superseded_by.and_then(|(run, position)| self.record_id(run, position)),
            unconfirmed_by: self.unconfirmed_by(version),
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
            pruned: statement.is_pruned(),
        })
    }

    /// That what its files hold, one of them, is not what a run has written.
    pub(super) fn corrupt(&self, detail: &str) -> StoreError {
        self.files.unreadable(&self.state.owner(FileKind::Facts), detail)
    }
}

impl Found {
    fn of(key: &[u8], statements: &[StoredStatement], version: Version) -> Option<Self> {
        let superseded_by = match version.ended_by {
            End::Superseded(by) => statements.get(by).map(|by| (by.time.run, by.position)),
            End::Open | End::Withdrawn(_) | End::Expired => None,
        };
        let statement = statements.get(version.statement)?.clone();
        let latest = statements.iter().find(|said| said.time.run == version.last_seen);
        let mut latest = latest.unwrap_or(&statement).clone();
        latest.row = latest.row.map(|_| Bytes::new());
        Some(Self { key: key.to_vec(), statement, latest, version, superseded_by })
    }
}

impl IndexKey {
    /// That of the value with these key bytes on the axis with this place in the ontology.
    #[must_use]
    pub fn new(axis: u16, value: &[u8]) -> Self {
        Self([&[INDEX], &axis.to_be_bytes()[..], value].concat())
    }
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
    let id = key.strip_suffix(&[0, 0])?.get(identity_in(key).len() + 1..)?;
    String::from_utf8(id.to_vec()).ok()
}

/// The key of the thing that a record speaks of, at the beginning of the record's key: up to the last 0 byte that is none of
/// the id. One of the id would stand before the highest byte, which is in no text.
pub(super) fn identity_in(key: &[u8]) -> &[u8] {
    let rest = key.strip_suffix(&[0, 0]).unwrap_or(key);
    let ends = |at: &usize| rest.get(*at) == Some(&0) && rest.get(at + 1) != Some(&u8::MAX);
    let end = (0..rest.len()).rev().find(ends).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}
