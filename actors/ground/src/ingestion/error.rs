//! Errors of ingestion.

use crate::pull::PullError;
use crate::registry::RegistryError;
use actors_audit::logger::CommitError;
use domain_base::digest::Sha256Hex;
use domain_base::wording::excerpt;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::run::RunState;
use jiff::{SignedDuration, Timestamp};
use oracled_store::StoreError;

/// The shortest time between two pulls of a source for stale answers, if the first pull found nothing new.
/// The number of queries does not matter.
pub(super) const REFRESH_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The most held runs of one source. Each keeps its payload on the disk.
pub(super) const HELD_MAX: usize = 16;

/// Why ingestion refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum IngestionError {
    /// This host is one of a cluster without objects.
    #[error(
        "`cluster.objects` is not set, so the other hosts of the cluster would not get the files of the source; set it on all hosts, and \
         restart them"
    )]
    InCluster,
    /// Another host of the cluster works on the source.
    #[error(
        "another host of the cluster works on source {0}; wait for its run (`oraclectl ingest list`), or try again"
    )]
    OtherHost(SourceId),
    /// Another host has changed the files of the source while this one worked on them.
    #[error(
        "another host of the cluster has changed source {0} meanwhile, and nothing was changed here; try again"
    )]
    SourceChanged(SourceId),
    /// Another run of the source is in progress.
    #[error(
        "run {run_id} of source {oracle_id} is in progress; wait for it (`oraclectl ingest show {run_id}`), or cancel it \
         (`oraclectl ingest cancel {run_id}`)"
    )]
    Busy {
        oracle_id: SourceId,
        /// The run in progress.
        run_id: Sha256Hex,
    },
    /// The source's files are being rewritten.
    #[error("source {0} is being pruned or rebuilt; try again when that is done")]
    Upkeep(SourceId),
    /// The retention of a pipeline still covers what would be pruned.
    #[error(
        "cannot prune records that ended before {before}: `retention_days` of a pipeline keeps all after {kept_until}"
    )]
    Retained {
        /// The requested limit.
        before: Timestamp,
        /// The latest limit that `retention_days` allows.
        kept_until: Timestamp,
    },
    /// The source's files cannot be rebuilt.
    #[error("source {oracle_id} was not rebuilt, and nothing has changed: {why}")]
    NotRebuilt {
        oracle_id: SourceId,
        /// The cause.
        why: String,
    },
    /// An internal error.
    #[error("{0}")]
    Inside(String),
    /// The pipeline's payloads are uploaded.
    #[error("pipeline {0} does not pull; submit its payload with `oraclectl ingest run`")]
    NotPulled(PipelineId),
    /// No pipeline of the source pulls.
    #[error("no pipeline of source {0} pulls, so it cannot be refreshed")]
    NoPull(SourceId),
    /// A recent pull for a stale answer brought nothing new.
    #[error(
        "source {oracle_id} had nothing new at {at}; a stale answer causes at most one pull in {} s",
        REFRESH_PAUSE.as_secs()
    )]
    Resting {
        oracle_id: SourceId,
        /// The time of that pull.
        at: Timestamp,
    },
    /// Another pull of the pipeline is in progress.
    #[error("pipeline {0} is being pulled; wait until that pull has ended")]
    Pulling(PipelineId),
    /// The payload could not be pulled.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The payload could not be archived.
    #[error("{0}")]
    Archiving(String),
    /// The payload is not compressed or encoded as its pipeline names it.
    #[error("{0}")]
    Undecodable(String),
    /// The decoded payload is too long.
    #[error("{0}")]
    PayloadTooLarge(String),
    /// The run does not exist.
    #[error("no run has the id {0}")]
    RunUnknown(Sha256Hex),
    /// Too many runs of the source are held.
    #[error(
        "source {oracle_id} has {} held runs (limit {HELD_MAX}); approve or discard one first: {}",
        held.len(),
        held.iter().map(Sha256Hex::as_str).collect::<Vec<_>>().join(", ")
    )]
    TooManyHeld {
        oracle_id: SourceId,
        /// Its held runs.
        held: Vec<Sha256Hex>,
    },
    /// The run is not in progress.
    #[error("run {0} is not in progress")]
    NotRunning(Sha256Hex),
    /// The version is invalid.
    #[error("`version` is `{0}` (1 to 64 visible ASCII characters allowed)")]
    Version(String),
    /// The release date is in the future.
    #[error(
        "`released_at` ({released_at}) is more than 24 h in the future (it is {now}); use the pipeline's `valid_time` \
         for records that take effect later"
    )]
    Ahead {
        /// The submitted release date.
        released_at: Timestamp,
        /// The current time.
        now: Timestamp,
    },
    /// The version was read from another payload.
    #[error(
        "version {version} was already read by run {run_id}, from another payload or with another release date \
         ({released_at}); submit a new release under its own version, or submit this payload with `replace` (oraclectl: \
         `--replace`)"
    )]
    VersionKnown {
        version: String,
        /// The run that read it.
        run_id: Sha256Hex,
        /// The release date of that run.
        released_at: Timestamp,
    },
    /// Another run has read the version of a held run since.
    #[error(
        "run {run_id} cannot be approved: run {by} has read version {version} since, from another payload or with another \
         release date ({released_at}); discard run {run_id} (`oraclectl ingest discard {run_id}`). If its payload is the \
         right one nevertheless, submit it again after that, with `replace` (`oraclectl ingest run … --replace`)"
    )]
    VersionTaken {
        /// The held run.
        run_id: Sha256Hex,
        version: String,
        /// The run that read the version.
        by: Sha256Hex,
        /// The release date of that run.
        released_at: Timestamp,
    },
    /// The same run was completed before, and another run has replaced it since.
    #[error(
        "run {run_id} already read these records as version {version}, and run {by} has replaced it since; to read \
         them again, register the pipeline with another `normalizer_id`, or submit them as another version with a \
         later `released_at`"
    )]
    Replaced {
        /// The requested run.
        run_id: Sha256Hex,
        version: String,
        /// The run that counts now.
        by: Sha256Hex,
    },
    /// The run is not held.
    #[error(
        "run {run_id} is {}: only a held run can be approved or discarded{}",
        .state.into_str(), after_decision(*.state, .run_id, .undone_by.as_ref())
    )]
    NotHeld {
        run_id: Sha256Hex,
        state: RunState,
        /// The run that undid it, if one did.
        undone_by: Option<Sha256Hex>,
    },
    /// The changes of the held run are not those that the operator has seen.
    #[error("{}", describe_outdated(.run_id, .by.as_ref()))]
    Outdated {
        run_id: Sha256Hex,
        /// The latest run that was completed since it was read.
        by: Option<Sha256Hex>,
    },
    /// The run is not completed.
    #[error(
        "run {run_id} is {} and has changed no answer, so there is nothing to undo{}",
        .state.into_str(), if *.state == RunState::Held { "; discard it with `oraclectl ingest discard`" } else { "" }
    )]
    NotCompleted { run_id: Sha256Hex, state: RunState },
    /// Another run has read the version of the run since.
    #[error(
        "run {run_id} does not count: run {by} has read version {version} since; undo run {by} first, so that run {run_id} \
         counts again"
    )]
    NotCounting {
        run_id: Sha256Hex,
        version: String,
        /// The run that counts now.
        by: Sha256Hex,
    },
    /// The run was undone.
    #[error(
        "run {run_id} was undone by run {by} and has no effect; to give it effect again, undo run {by} (`oraclectl \
         ingest undo {by}`)"
    )]
    Undone {
        run_id: Sha256Hex,
        /// The run that undid it.
        by: Sha256Hex,
    },
    /// An undo would bring back records without their content.
    #[error(
        "undoing run {run_id} would bring back {records} records whose content was pruned; submit the correct release as a new version instead"
    )]
    ContentPruned {
        run_id: Sha256Hex,
        /// The number of these records.
        records: u64,
    },
    /// The source's registration changed while the run was being prepared.
    #[error("source {0} or its pipeline was just changed; try again")]
    Amended(SourceId),
    /// Records of two runs would have the same ids.
    #[error("the id of run {0} begins with the same digits as the id of another run")]
    Collision(Sha256Hex),
    /// The pipeline cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The remedy for a run that is no longer held.
fn after_decision(state: RunState, run_id: &Sha256Hex, undone_by: Option<&Sha256Hex>) -> String {
    match (state, undone_by) {
        (_, Some(by)) => format!("; it was undone by run {by}. To give it effect again, undo run {by}"),
        (RunState::Completed, None) => {
            format!("; to take its records back, undo it with `oraclectl ingest undo {run_id}`")
        }
        _ => String::new(),
    }
}

/// The change since the operator looked at a held run.
fn describe_outdated(run_id: &Sha256Hex, by: Option<&Sha256Hex>) -> String {
    let since = by.map_or_else(
        || "no run of the source was completed since run".to_owned(),
        |by| format!("the data in force has changed: run {by} of the source was completed since held run"),
    );
    format!("{since} {run_id} was read; look at it again before you decide")
}

impl IngestionError {
    #[must_use]
    pub fn invalid_version(given: &str) -> Self {
        Self::Version(excerpt(given))
    }
}
