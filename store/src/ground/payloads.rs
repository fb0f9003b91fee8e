//! The payloads that can be read again, and the reasons why others cannot.

use crate::ground::tables::Store;
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, LoggedEvent};
use domain_ground::event::{PruneEntry, SourcePruned};
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::{CompletedRun, SourceState};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::slice;
use store_base::error::StoreError;
use store_facts::archive::{ArchiveWriter, ArchivedPayload};
use store_log::LogQuery;

/// The longest part of a raw record that is read as text, in bytes.
const RAW_TEXT_MAX_BYTES: u64 = 4096;

/// A run whose payload cannot be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadablePayload {
    pub run_id: Sha256Hex,
    /// The version of the source that the run read.
    pub version: String,
    /// The reason.
    pub why: String,
}

impl UnreadablePayload {
    fn new(completed: &CompletedRun, why: String) -> Self {
        Self { run_id: completed.run_id.clone(), version: completed.release.version.clone(), why }
    }
}

impl Store {
    /// The texts of raw records of one payload, each given by its offset and its length in bytes, and cut to 4,096 bytes. Empty if
    /// the payload was pruned or not kept.
    ///
    /// # Errors
    /// The payload is damaged or lost, or cannot be read.
    pub fn raw_texts(
        &self,
        oracle_id: &SourceId,
        raw_sha256: &Sha256Hex,
        places: impl IntoIterator<Item = (u64, u32)>,
    ) -> Result<Vec<String>, StoreError> {
        let Some(payload) = self.archived_payload(oracle_id, raw_sha256)? else { return Ok(Vec::new()) };
        let text = |(offset, len): (u64, u32)| {
            let bytes = payload.slice(offset, u64::from(len).min(RAW_TEXT_MAX_BYTES))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        places.into_iter().map(text).collect()
    }

    /// A payload of the archive; `None` if it was pruned or not kept.
    ///
    /// # Errors
    /// The payload is damaged or lost, or cannot be read.
    pub(super) fn archived_payload(
        &self,
        oracle_id: &SourceId,
        raw_sha256: &Sha256Hex,
    ) -> Result<Option<ArchivedPayload>, StoreError> {
        match self.files().archive(oracle_id, raw_sha256) {
            Ok(payload) => Ok(Some(payload)),
            // checked after the attempt: a retention may remove it meanwhile
            Err(_) if !self.files().has_archived(raw_sha256) && !self.must_have_payload(raw_sha256)? => {
                Ok(None)
            }
            Err(_) if self.files().is_shared() && !self.files().has_archived(raw_sha256) => {
                let is_its = |run: &IngestionRun| run.input.raw_sha256 == *raw_sha256;
                let size_bytes = self.runs()?.into_iter().find(is_its).map_or(0, |run| run.raw_bytes);
                Err(StoreError::FactsNotHere { oracle_id: oracle_id.to_string(), files: 1, size_bytes })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the archive must have a payload: a run needs it that is not pruned.
    fn must_have_payload(&self, raw_sha256: &Sha256Hex) -> Result<bool, StoreError> {
        for run in self.runs()?.iter().filter(|run| run.input.raw_sha256 == *raw_sha256) {
            if run.state.needs_payload(self.keeps_payload(run)?)
                && !is_pruned(&self.prunings(&run.oracle_id)?, raw_sha256)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the payloads of the held runs of a source completely. Returns each run, with the fault of a payload that is lost or
    /// damaged.
    ///
    /// # Errors
    /// The runs cannot be read.
    pub fn check_held_payloads(
        &self,
        oracle_id: &SourceId,
    ) -> Result<Vec<(IngestionRun, Option<String>)>, StoreError> {
        let is_held = |run: &IngestionRun| run.oracle_id == *oracle_id && run.state == RunState::Held;
        let check = |run: IngestionRun| {
            let read =
                self.files().archive(oracle_id, &run.input.raw_sha256).and_then(|payload| payload.verify());
            (run, read.err().map(|error| error.to_string()))
        };
        Ok(self.runs()?.into_iter().filter(is_held).map(check).collect())
    }

    /// Reads all archived payloads of the source `state` completely. Returns the runs whose payload is
    /// missing or damaged.
    ///
    /// # Errors
    /// The definitions or the log cannot be read.
    pub fn unreadable_payloads(&self, state: &SourceState) -> Result<Vec<UnreadablePayload>, StoreError> {
        let oracle_id = state.entry.oracle_id();
        let prunings = self.prunings(oracle_id)?;
        let mut faults: HashMap<&Sha256Hex, Option<String>> = HashMap::new();
        let mut unreadable = Vec::new();
        for completed in &state.completed {
            let raw_sha256 = &completed.raw_sha256;
            let read = || self.files().archive(oracle_id, raw_sha256).and_then(|payload| payload.verify());
            let fault =
                faults.entry(raw_sha256).or_insert_with(|| read().err().map(|error| error.to_string()));
            let Some(mut why) = fault.clone() else { continue };
            if !self.files().has_archived(raw_sha256)
                && let Some(let_go) = self.absence_reason(completed, &prunings)?
            {
                why = let_go.to_owned();
            }
            unreadable.push(UnreadablePayload::new(completed, why));
        }
        Ok(unreadable)
    }

    /// The runs of the source `state` whose payload is missing from the archive without a reason: it was
    /// neither pruned nor excluded by its pipeline.
    ///
    /// # Errors
    /// The definitions or the log cannot be read.
    pub fn lost_payloads(&self, state: &SourceState) -> Result<Vec<UnreadablePayload>, StoreError> {
        let prunings = self.prunings(state.entry.oracle_id())?;
        let mut lost = Vec::new();
        for completed in &state.completed {
            let is_there = self.files().has_archived(&completed.raw_sha256);
            if is_there || self.absence_reason(completed, &prunings)?.is_some() {
                continue;
            }
            let opened = self.files().archive(state.entry.oracle_id(), &completed.raw_sha256);
            lost.extend(opened.err().map(|error| UnreadablePayload::new(completed, error.to_string())));
        }
        Ok(lost)
    }

    /// Whether a run needs the payload: the run is in progress or held, or its pipeline keeps its payloads. Runs of the
    /// source `pruned` do not count.
    ///
    /// # Errors
    /// The runs cannot be read.
    pub fn is_payload_needed(
        &self,
        sha256: &Sha256Hex,
        pruned: Option<&SourceId>,
    ) -> Result<bool, StoreError> {
        let may_need = |run: &&IngestionRun| {
            run.input.raw_sha256 == *sha256 && pruned.is_none_or(|pruned| run.oracle_id != *pruned)
        };
        for run in self.runs()?.iter().filter(may_need) {
            if matches!(run.state, RunState::Running | RunState::Held) || self.keeps_payload(run)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins a payload of a source in the archive. It shares the chunks of the source's latest payloads.
    ///
    /// # Errors
    /// `Unavailable` if too little space is free, `Io` if the file cannot be created; the source cannot be read.
    pub fn archive_writer(&self, oracle_id: &SourceId) -> Result<ArchiveWriter, StoreError> {
        let source = self.source(oracle_id)?;
        let earlier = source.map(|(state, _)| state.latest_payloads()).unwrap_or_default();
        self.files().archive_writer(oracle_id, &earlier)
    }

    /// Removes those of the payloads that are not needed ([`Store::is_payload_needed`]). Returns the number of freed bytes.
    ///
    /// # Errors
    /// The runs cannot be read, or a file cannot be removed.
    pub fn remove_unneeded_payloads(
        &self,
        payloads: &[Sha256Hex],
        pruned: Option<&SourceId>,
    ) -> Result<u64, StoreError> {
        let mut unneeded = Vec::new();
        for sha256 in payloads {
            if self.files().has_archived(sha256) && !self.is_payload_needed(sha256, pruned)? {
                unneeded.push(sha256.clone());
            }
        }
        self.files().remove_archived(&unneeded)
    }

    /// Removes a payload unless it is needed, as [`Store::remove_unneeded_payloads`] does.
    ///
    /// # Errors
    /// The errors of [`Store::remove_unneeded_payloads`].
    pub fn remove_unneeded_payload(
        &self,
        sha256: &Sha256Hex,
        pruned: Option<&SourceId>,
    ) -> Result<u64, StoreError> {
        self.remove_unneeded_payloads(slice::from_ref(sha256), pruned)
    }

    /// Removes a payload whose run did not begin, unless another run needs it. Keeps a payload that was
    /// archived earlier.
    ///
    /// # Errors
    /// The runs cannot be read, or the file cannot be removed.
    pub fn remove_new_payload(&self, sha256: &Sha256Hex) -> Result<(), StoreError> {
        if self.files().is_marked(sha256.as_str()) {
            self.remove_unneeded_payload(sha256, None)?;
        }
        Ok(())
    }

    /// Removes the payload of a failed run, unless another run read the same payload.
    ///
    /// # Errors
    /// The runs cannot be read, or the file cannot be removed.
    pub fn remove_payload_of(&self, failed: &IngestionRun) -> Result<(), StoreError> {
        let sha256 = &failed.input.raw_sha256;
        let is_other = |run: &IngestionRun| run.input.raw_sha256 == *sha256 && run.run_id != failed.run_id;
        let is_failed = |run: &IngestionRun| run.run_id == failed.run_id && run.state == RunState::Failed;
        let runs = self.runs()?;
        if runs.iter().any(is_failed) && !runs.iter().any(is_other) {
            self.files().remove_archived(slice::from_ref(sha256))?;
        }
        Ok(())
    }

    /// The payloads that only failed, cancelled or discarded runs of the source `state` have read, if the run
    /// ended before `before`.
    ///
    /// # Errors
    /// The runs cannot be read.
    pub fn payloads_of_failures(
        &self,
        state: &SourceState,
        before: Timestamp,
    ) -> Result<Vec<Sha256Hex>, StoreError> {
        let visible: HashSet<_> = state.completed.iter().map(|completed| &completed.raw_sha256).collect();
        let came_to_nothing = |run: &IngestionRun| {
            run.oracle_id == *state.entry.oracle_id()
                && matches!(run.state, RunState::Failed | RunState::Cancelled | RunState::Discarded)
                && run.ended_at.is_some_and(|ended_at| ended_at < before)
                && !visible.contains(&run.input.raw_sha256)
        };
        let runs = self.runs()?.into_iter().filter(came_to_nothing);
        Ok(runs.map(|run| run.input.raw_sha256).collect())
    }

    /// The reason why a payload may be absent from the archive; `None` if it must be there.
    fn absence_reason(
        &self,
        CompletedRun { run_id, raw_sha256, .. }: &CompletedRun,
        prunings: &[(u64, PruneEntry)],
    ) -> Result<Option<&'static str>, StoreError> {
        let run = self.run(run_id)?.map(|(run, _)| run);
        let definition = run.map(|run| self.definition(&run.input.pipeline_sha256)).transpose()?.flatten();
        if definition.is_some_and(|definition| !definition.pipeline.audit.log_raw_input) {
            return Ok(Some("its payload was not kept, since its pipeline has `log_raw_input: false`"));
        }
        Ok(is_pruned(prunings, raw_sha256).then_some("its payload was pruned"))
    }

    /// The prunings of a source, each with the number of its log entry.
    pub(super) fn prunings(&self, oracle_id: &SourceId) -> Result<Vec<(u64, PruneEntry)>, StoreError> {
        let events = vec![SourcePruned::NAME.to_owned()];
        let lines = self.log(&LogQuery { events, limit: usize::MAX, ..LogQuery::default() })?;
        let mut prunings = Vec::new();
        for line in self.kept_entries()?.into_iter().chain(lines) {
            let LoggedEvent { event: SourcePruned(entry), .. } = self.parse_entry(&line)?;
            if entry.oracle_id == *oracle_id {
                prunings.push((line.seq, entry));
            }
        }
        Ok(prunings)
    }
}

pub(super) fn is_pruned(prunings: &[(u64, PruneEntry)], raw_sha256: &Sha256Hex) -> bool {
    prunings.iter().any(|(_, entry)| entry.payloads.contains(raw_sha256))
}
