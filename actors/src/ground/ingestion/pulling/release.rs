//! The version of a pulled payload.
//!
//! A payload that differs from the source's last payload is a new release, even if the source had the same
//! payload earlier. Only the latest run of a version counts. If a source returns to earlier content, that
//! content must therefore not get its former version again.

use super::super::{IngestContext, IngestionError};
use crate::ground::registry::PreparedPipeline;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::Sha256Hex;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::run::IngestionRun;
use oracled_domain::ground::source_state::{CompletedRun, SourceState};
use oracled_domain::ground::timeline::{ReleaseScope, VisibleReleases};

/// The state of a source that a pull needs.
pub(super) struct PullSourceState {
    source: SourceState,
    /// The run that read the data of this pipeline that is now in force.
    current: Option<IngestionRun>,
    /// The latest attempt of the pipeline that is not visible.
    invisible_attempt: Option<IngestionRun>,
}

/// The version and release date of a payload.
pub(super) struct PayloadVersion {
    pub(super) version: String,
    pub(super) released_at: Timestamp,
}

impl IngestContext {
    /// The state of a pipeline's source as of `now`.
    pub(super) fn read_pull_source_state(
        &self,
        ready: &PreparedPipeline,
        now: Timestamp,
    ) -> Result<PullSourceState, IngestionError> {
        let pipeline = &ready.definition.pipeline;
        let (source, _) = self.commit_context().source(&pipeline.oracle_id)?;
        let present = source.present(now);
        let known = VisibleReleases::new(&source.releases(), ReleaseScope::default());
        let is_meant = |completed: &&CompletedRun| {
            let release = &completed.release;
            completed.pipeline_id == pipeline.pipeline_id
                && release.released_at <= present
                && known.is_counted(release.run)
        };
        let order =
            |completed: &&CompletedRun| (completed.release.released_at, completed.release.version.clone());
        let current = source.completed.iter().filter(is_meant).max_by_key(order);
        let current = match current {
            Some(completed) => self.store.run(&completed.run_id)?.map(|(run, _)| run),
            None => None,
        };
        let invisible_attempt = self.find_invisible_attempt(&source, &pipeline.pipeline_id)?;
        Ok(PullSourceState { source, current, invisible_attempt })
    }

    fn find_invisible_attempt(
        &self,
        source: &SourceState,
        pipeline_id: &PipelineId,
    ) -> Result<Option<IngestionRun>, IngestionError> {
        for run_id in source.attempts.iter().rev() {
            let run = self.store.run(run_id)?.map(|(run, _)| run);
            if let Some(run) = run.filter(|run| run.pipeline_id == *pipeline_id) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

impl PullSourceState {
    /// The number of invalidations of the source.
    pub(super) const fn invalidation_count(&self) -> u64 {
        self.source.invalidation_count
    }

    /// The run that read the data in force exactly as `ready` would read it.
    pub(super) fn read_by(&self, ready: &PreparedPipeline) -> Option<&IngestionRun> {
        let ontology = &self.source.entry.registration.ontology;
        let reads = |run: &&IngestionRun| {
            run.input.pipeline_sha256 == ready.sha256 && run.input.ontology == *ontology
        };
        self.current.as_ref().filter(reads)
    }

    /// The version and release date of the payload with the digest `raw`, which was requested at `retrieved_at`.
    ///
    /// A known payload keeps its version, even if another definition reads it now, or if its last run failed. Otherwise
    /// the release date is `modified`, the date that the source reports, if that is newer than all known releases.
    /// Otherwise it is the time of the pull.
    pub(super) fn version_of_payload(
        &self,
        raw: &Sha256Hex,
        modified: Option<Timestamp>,
        retrieved_at: Timestamp,
    ) -> PayloadVersion {
        let retrieved_at = self.source.present(retrieved_at);
        let completed = self.source.completed.iter().map(|completed| &completed.release);
        let brought: Vec<_> = completed.filter(|release| release.undoes.is_none()).collect();
        let releases = || brought.iter().copied();
        let by_then = releases().map(|release| release.released_at).filter(|at| *at <= retrieved_at);
        let newest = by_then.max();
        let is_newest = |at: Timestamp| at <= retrieved_at && newest.is_none_or(|newest| newest < at);
        let attempt = self.invisible_attempt.as_ref().filter(|run| is_newest(run.input.released_at));
        let known = self.current.iter().chain(attempt).find(|run| run.input.raw_sha256 == *raw);
        if let Some(run) = known {
            return PayloadVersion { version: run.input.version.clone(), released_at: run.input.released_at };
        }
        let is_taken = |at: Timestamp| {
            let text = at.to_string();
            releases().any(|release| release.released_at == at || release.version == text)
        };
        let modified = modified.filter(|modified| is_newest(*modified) && !is_taken(*modified));
        let mut released_at = modified.unwrap_or(retrieved_at);
        // the clock may not have advanced since the last release
        while is_taken(released_at)
            && let Ok(next) = released_at.checked_add(SignedDuration::from_micros(1))
        {
            released_at = next;
        }
        PayloadVersion { version: released_at.to_string(), released_at }
    }
}
