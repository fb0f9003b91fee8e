//! Why ingestion refuses what it is asked for.

use super::pull::PullError;
use super::pulling::REFRESH_PAUSE;
use crate::logger::CommitError;
use crate::registry::RegistryError;
use domain::Sha256Hex;
use domain::ground::id::{PipelineId, SourceId};
use domain::ground::run::RunState;
use jiff::Timestamp;
use store::StoreError;

/// Why a run has not begun, or is not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum IngestionError {
    /// Another run of the source goes on.
    #[error("run {run_id} of source {oracle_id} goes on; wait for it, or cancel it")]
    Busy {
        /// Whose.
        oracle_id: SourceId,
        /// Which.
        run_id: Sha256Hex,
    },
    /// The source's files are written anew.
    #[error("source {0} is being pruned or rebuilt; try again when that is done")]
    Upkeep(SourceId),
    /// What is to be pruned is to be kept.
    #[error(
        "what had ceased to hold before {before} is not pruned: the pipelines' `retention_days` keep what was there at {kept_until}"
    )]
    Retained {
        /// Up to when was to be pruned.
        before: Timestamp,
        /// Up to when may be.
        kept_until: Timestamp,
    },
    /// Its files cannot be made anew.
    #[error("source {oracle_id} was not rebuilt, and nothing has changed: {why}")]
    NotRebuilt {
        /// Which.
        oracle_id: SourceId,
        /// Why.
        why: String,
    },
    /// Something failed inside.
    #[error("{0}")]
    Inside(String),
    /// The pipeline's payload is handed in.
    #[error("pipeline {0} is not one that pulls: its payload is handed in")]
    NotPulled(PipelineId),
    /// No pipeline of the source pulls.
    #[error("no pipeline of source {0} pulls, so that there is nothing to refresh it by")]
    NoPull(SourceId),
    /// The source was pulled for a stale answer a moment ago, in vain.
    #[error(
        "source {oracle_id} had nothing new at {at}; for stale answers it is pulled once in {} s",
        REFRESH_PAUSE.as_secs()
    )]
    Resting {
        /// Which.
        oracle_id: SourceId,
        /// When.
        at: Timestamp,
    },
    /// Another pull of the pipeline goes on.
    #[error("pipeline {0} is being pulled; wait for what comes of that")]
    Pulling(PipelineId),
    /// The payload could not be pulled.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The payload could not be archived.
    #[error("{0}")]
    Archiving(String),
    /// No such run goes on.
    #[error("no run {0} goes on")]
    NotRunning(Sha256Hex),
    /// The version is none.
    #[error("`version` has 1 to 64 visible ASCII characters")]
    Version,
    /// The release lies ahead.
    #[error(
        "`released_at` is {released_at}, and now it is {now}: what is here has been released, so it is no more than a day \
         ahead of now; from when on records hold, `valid_time` of the pipeline says"
    )]
    Ahead {
        /// When it is said to be released.
        released_at: Timestamp,
        /// What time it is.
        now: Timestamp,
    },
    /// The version was read from something else.
    #[error(
        "version {version} was read from another payload, or as released at another time, by run {run_id} (released at \
         {released_at}); a new release has a version of its own, and `replace` puts this one in the place of that one"
    )]
    VersionKnown {
        /// Which.
        version: String,
        /// The run that has read it.
        run_id: Sha256Hex,
        /// When what it has read was released.
        released_at: Timestamp,
    },
    /// The same run has brought the same records, and they count no longer.
    #[error(
        "run {run_id} has brought these records as version {version} before, and run {by} has taken its place since; to \
         read them so again, register the pipeline with another `normalizer_id`, or hand them in as another version, of a \
         later `released_at`"
    )]
    Replaced {
        /// The run that would be begun.
        run_id: Sha256Hex,
        /// Of which version.
        version: String,
        /// The run that counts.
        by: Sha256Hex,
    },
    /// The run is not held.
    #[error("run {run_id} is {}: only a held run can be approved or discarded", .state.as_str())]
    NotHeld {
        /// Which run.
        run_id: Sha256Hex,
        /// Its state.
        state: RunState,
    },
    /// The run is not visible.
    #[error("run {0} is not in force: only a completed run that still counts can be undone")]
    NotCompleted(Sha256Hex),
    /// The run was undone.
    #[error("run {run_id} was undone by run {by}; to restore it, undo run {by}")]
    Undone {
        /// Which run.
        run_id: Sha256Hex,
        /// The run that says so.
        by: Sha256Hex,
    },
    /// The source was described otherwise while the run was about to begin.
    #[error("source {0} was just changed; try again")]
    Amended(SourceId),
    /// Two runs would have records of the same ids.
    #[error("run {0} begins with the digits of another one")]
    Collision(Sha256Hex),
    /// The pipeline cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What has happened could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
