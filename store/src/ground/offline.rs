//! The files of sources, compared with the rows in the segments, without the database.

use super::files::{GroundFileKind, GroundFiles, facts_owner, list_files_in, name_files};
use domain_base::digest::Sha256Hex;
use domain_base::event::LoggedEvent;
use domain_ground::event::SourcePruned;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::SourceState;
use oracled_domain::tables::tables;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;
use store_log::{
    CollectedRows, EntryContent, LogState, RowBatch, RowComparison, SegmentEntry, SegmentLog, kept_entries_in,
};

/// The files of sources according to the log, at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LoggedSources {
    /// The rows that name the files.
    pub(crate) rows: CollectedRows,
    /// The payloads that were pruned.
    pruned: HashSet<Sha256Hex>,
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

impl LoggedSources {
    /// Reads the log as [`SegmentLog::read_state`] does.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read_state`].
    pub(crate) fn read(
        log: &SegmentLog,
        compared: Option<&mut RowComparison>,
        mut visit: impl FnMut(SegmentEntry<'_>) -> bool,
        mut on_rows: impl FnMut(&RowBatch),
    ) -> Result<(LogState, Self), StoreError> {
        let (mut rows, mut pruned) = (CollectedRows::default(), HashSet::new());
        let mut kept: Vec<Sha256Hex> = Vec::new();
        let state = log.read_state(
            compared,
            |entry| {
                if let EntryContent::Line { line, .. } = &entry.content {
                    pruned.extend(pruned_payloads(line));
                }
                visit(entry)
            },
            |batch| {
                rows.apply(batch, tables().filter(|table| table.names_files));
                kept.extend(kept_entries_in(batch).flat_map(|line| pruned_payloads(&line)));
                on_rows(batch);
            },
        )?;
        pruned.extend(kept);
        Ok((state, Self { rows, pruned }))
    }

    /// Reads the files in `state_dir` that the rows name, and compares them with their digests. Pruned payloads may be missing.
    ///
    /// # Errors
    /// `SourceFile` with the first file that is missing or differs; `Corrupt` if a row cannot be read.
    pub(crate) fn verify_files(&self, state_dir: &Path) -> Result<VerifiedSourceFiles, StoreError> {
        let pruned = &self.pruned;
        let files = GroundFiles::read_only(state_dir);
        let sources: Vec<SourceState> = self.rows.all(state_dir)?;
        let runs: Vec<IngestionRun> = self.rows.all(state_dir)?;
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
        let definition: Option<PipelineDefinition> = self.rows.row(state_dir, name)?;
        let is_kept = definition.is_none_or(|definition| definition.pipeline.audit.log_raw_input);
        Ok(run.state.needs_payload(is_kept))
    }
}

/// The payloads that the entry with this line has pruned.
fn pruned_payloads(line: &str) -> Vec<Sha256Hex> {
    let pruned = LoggedEvent::<SourcePruned>::read(line).ok().flatten();
    pruned.map(|pruned| pruned.event.0.payloads).unwrap_or_default()
}
