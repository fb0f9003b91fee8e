//! The files of sources, compared with the rows in the segments, without the database.

use super::files::{GroundFileKind, GroundFiles, list_files_in};
use super::tables::name_files;
use crate::base::row_batch::RowBatch;
use crate::base::rows;
use crate::ground::files::facts_owner;
use domain_base::digest::Sha256Hex;
use domain_base::row::Row;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::SourceState;
use oracled_domain::tables::tables;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;

/// The rows that name the files of sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceRows {
    /// Chunks by their keys.
    chunks: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The files of sources that were compared with their digests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifiedSourceFiles {
    /// The number of sorted files.
    pub sorted: u64,
    /// The number of archived payloads.
    pub payloads: u64,
    /// Files in the folders of sorted files and payloads that no row names.
    pub unnamed: Vec<PathBuf>,
    /// Payloads that are missing, and that no run needs.
    pub absent: Vec<PathBuf>,
}

impl SourceRows {
    /// Applies the changes of a group.
    pub(crate) fn apply(&mut self, batch: &RowBatch) {
        let tables = tables().filter(|table| table.names_files);
        for (key, value) in tables.flat_map(|table| batch.range(rows::all(table.name))) {
            match value {
                Some(value) => drop(self.chunks.insert(key.to_vec(), value.to_vec())),
                None => drop(self.chunks.remove(key)),
            }
        }
    }

    /// Reads the files in `state_dir` that the rows name, and compares them with their digests. The payloads in `pruned` may be
    /// missing.
    ///
    /// # Errors
    /// `SourceFile` with the first file that is missing or differs; `Corrupt` if a row cannot be read.
    pub(crate) fn verify_files(
        &self,
        state_dir: &Path,
        pruned: &HashSet<Sha256Hex>,
    ) -> Result<VerifiedSourceFiles, StoreError> {
        let files = GroundFiles::read_only(state_dir);
        let sources: Vec<SourceState> = self.table(state_dir)?;
        let runs: Vec<IngestionRun> = self.table(state_dir)?;
        let mut verified = VerifiedSourceFiles::default();
        for state in &sources {
            let owner = facts_owner(state);
            for file in state.sorted_files() {
                files.verify_sorted(file, &owner, &mut |_| Ok(()))?;
                verified.sorted += 1;
            }
        }
        for run in runs.iter().filter(|run| run.state != RunState::Completed) {
            let owner = FileOwner::new(&run.oracle_id, SourceFileKind::Rejects);
            if let Some(file) = &run.rows {
                files.verify_sorted(file, &owner, &mut |_| Ok(()))?;
                verified.sorted += 1;
            }
        }
        let mut read = HashSet::new();
        for run in &runs {
            let sha256 = &run.input.raw_sha256;
            if files.has_archived(sha256) || self.needs_payload(state_dir, run)? && !pruned.contains(sha256) {
                if read.insert(sha256) {
                    files.archive(&run.oracle_id, sha256)?.verify()?;
                }
            } else if !pruned.contains(sha256) {
                verified.absent.push(files.raw_path(sha256));
            }
        }
        verified.payloads = read.len() as u64;
        let named = name_files(&sources, &runs);
        for dir in [files.facts_dir.clone(), files.raw_dir()] {
            for (path, kind) in list_files_in(&dir)? {
                let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
                let is_committed = matches!(kind, GroundFileKind::Sorted | GroundFileKind::Payload);
                let is_needed = kind == GroundFileKind::Chunks;
                if !is_needed && (!is_committed || !named.contains(stem)) {
                    verified.unnamed.push(path);
                }
            }
        }
        Ok(verified)
    }

    /// Whether the payload of a run must be in the archive, unless it was pruned.
    fn needs_payload(&self, state_dir: &Path, run: &IngestionRun) -> Result<bool, StoreError> {
        let name = run.input.pipeline_sha256.as_str().as_bytes();
        let definition: Option<PipelineDefinition> = self.row(state_dir, name)?;
        let is_kept = definition.is_none_or(|definition| definition.pipeline.audit.log_raw_input);
        Ok(run.state.needs_payload(is_kept))
    }

    /// All rows of a table.
    fn table<R: Row>(&self, state_dir: &Path) -> Result<Vec<R>, StoreError> {
        let names = self.chunks.range(rows::all(R::TABLE.name)).filter_map(|(key, _)| rows::name(key));
        names.filter_map(|name| self.row(state_dir, name).transpose()).collect()
    }

    fn row<R: Row>(&self, state_dir: &Path, name: &[u8]) -> Result<Option<R>, StoreError> {
        let chunk = |number| self.chunks.get(&rows::chunk_key(R::TABLE.name, name, number));
        let Some(first) = chunk(0) else { return Ok(None) };
        let (_, chunks, start) = rows::split_head(state_dir, first)?;
        let rest: Option<Vec<_>> = (1..chunks).map(|number| chunk(number).map(Vec::as_slice)).collect();
        let corrupt = |fault: &dyn Display| StoreError::Corrupt {
            dir: state_dir.to_owned(),
            detail: format!("the row {} in table {}: {fault}", String::from_utf8_lossy(name), R::TABLE.name),
        };
        let rest = rest.ok_or_else(|| corrupt(&"a chunk is missing"))?;
        let value = [start, &rest.concat()].concat();
        serde_json::from_slice(&value).map(Some).map_err(|error| corrupt(&error))
    }
}
