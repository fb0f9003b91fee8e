//! The files of sources on the hosts of a cluster: uploaded before the commit that names them, fetched by each host that lacks them,
//! and removed when no row names them any longer.

use super::source_claims::{ClaimHolder, SourceClaim};
use super::{IngestContext, IngestionError, RunTracker};
use crate::ingestion::reading::ARCHIVING;
use crate::ingestion::upkeep::run_while_archiving_waits;
use actors_audit::logger::CommitError;
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, SortedFileRef};
use oracled_store::StoreError;
use oracled_store::ground::objects::MissingFile;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use store_facts::objects::SharedObjects;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The pauses before missing files are fetched again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The time between two checks whether the missing files of a source have come.
pub(crate) const FETCH_POLL: Duration = Duration::from_millis(50);

/// The files of sources that other hosts have made, and that this host lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingFilesReport {
    pub files: u64,
    /// Their length, in bytes.
    pub size_bytes: u64,
    /// Why a file could not be fetched.
    pub failure: Option<String>,
}

/// The objects that all hosts of a cluster share, and what this host lacks of them.
#[derive(Debug)]
pub(super) struct SharedFiles {
    pub(super) objects: Option<Arc<dyn SharedObjects>>,
    /// Changes when rows have changed that name files.
    changed: watch::Sender<()>,
    sorted: watch::Sender<MissingFilesReport>,
    payloads: watch::Sender<MissingFilesReport>,
}

impl SharedFiles {
    pub(super) fn new(objects: Option<Arc<dyn SharedObjects>>) -> Self {
        let (changed, sorted, payloads) = Default::default();
        Self { objects, changed, sorted, payloads }
    }

    /// Notes that rows have changed that name files.
    pub(super) fn note_changed(&self) {
        self.changed.send_replace(());
    }

    /// Reports the files that this host lacks.
    pub(super) fn report(&self) -> MissingFilesReport {
        let (sorted, payloads) = (self.sorted.borrow(), self.payloads.borrow());
        MissingFilesReport {
            files: sorted.files + payloads.files,
            size_bytes: sorted.size_bytes + payloads.size_bytes,
            failure: sorted.failure.clone().or_else(|| payloads.failure.clone()),
        }
    }
}

/// Runs `work`, which uses the network, on a thread of its own. A stop of the daemon does not wait for it.
async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, IngestionError> {
    let (done, is_done) = oneshot::channel();
    let begun = thread::Builder::new().name("objects-call".to_owned()).spawn(move || drop(done.send(work())));
    begun.map_err(|error| IngestionError::Inside(error.to_string()))?;
    let ended = is_done.await.map_err(|_| IngestionError::Inside("a transfer of a file panicked".into()))?;
    Ok(ended?)
}

/// A kind of files that are fetched one after the other. Payloads have a task of their own: no query waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchedKind {
    Sorted,
    Payloads,
}

/// Begins to fetch the files that this host lacks, and to remove those that no row names, whenever rows change.
pub(super) fn follow_files(context: &Arc<IngestContext>) {
    let Some(objects) = &context.shared.objects else { return };
    for kind in [FetchedKind::Sorted, FetchedKind::Payloads] {
        tokio::spawn(follow(Arc::clone(context), Arc::clone(objects), kind));
    }
}

async fn follow(context: Arc<IngestContext>, objects: Arc<dyn SharedObjects>, kind: FetchedKind) {
    let (mut pause, mut changes) = (FIRST_PAUSE, context.shared.changed.subscribe());
    loop {
        changes.mark_unchanged();
        let fetched = context.fetch_missing(&objects, kind).await;
        // also if a file cannot be fetched: those that are removed are named no longer
        if let Err(error) = context.remove_replaced(kind).await {
            tracing::warn!(%error, "could not remove files of sources that other hosts have replaced");
        }
        match fetched {
            Ok(true) => {
                pause = FIRST_PAUSE;
                // the context has the sender
                drop(changes.changed().await);
            }
            failed => {
                if let Err(error) = failed {
                    tracing::error!(%error, "could not read which files of sources are missing");
                }
                drop(timeout(pause, changes.changed()).await);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl IngestContext {
    /// Checks that files of sources may be written: in a cluster, the other hosts must get them.
    pub(super) fn check_sharing(&self) -> Result<(), IngestionError> {
        let is_refused = self.turn.host().is_some() && self.shared.objects.is_none();
        if is_refused { Err(IngestionError::InCluster) } else { Ok(()) }
    }

    /// Claims a source on this host, and in its cluster.
    pub(super) async fn claim_source(
        &self,
        oracle_id: &SourceId,
        holder: ClaimHolder,
    ) -> Result<SourceClaim, IngestionError> {
        let mut claim = self.claims.claim_for(oracle_id, holder)?;
        self.take_lease(&mut claim, oracle_id).await?;
        Ok(claim)
    }

    /// Takes the lease of the source of a claim: only one host works on a source at a time.
    pub(super) async fn take_lease(
        &self,
        claim: &mut SourceClaim,
        oracle_id: &SourceId,
    ) -> Result<(), IngestionError> {
        let taken = self.turn.take_lease(format!("source/{oracle_id}")).await;
        let lease = taken.map_err(|cause| IngestionError::Commit(CommitError::Unavailable(cause)))?;
        claim.lease = Some(lease.ok_or_else(|| IngestionError::OtherHost(oracle_id.clone()))?);
        Ok(())
    }

    /// Uploads new files, before the commit that names them. Those that `replace` damaged objects are always sent.
    pub(super) async fn upload_files(
        &self,
        oracle_id: &SourceId,
        files: Vec<SortedFileRef>,
        replace: bool,
    ) -> Result<(), IngestionError> {
        let Some(objects) = self.shared.objects.clone() else { return Ok(()) };
        let (store, oracle_id) = (self.store.clone(), oracle_id.clone());
        run_on_thread(move || store.upload_sorted(&*objects, &oracle_id, &files, replace)).await
    }

    /// Uploads the files of a run, unless the run must end early.
    pub(super) async fn upload_run_files(
        &self,
        progress: &RunTracker,
        files: Vec<SortedFileRef>,
    ) -> Result<(), IngestionError> {
        if self.shared.objects.is_none() {
            return Ok(());
        }
        tokio::select! {
            uploaded = self.upload_files(&progress.run.oracle_id, files, false) => uploaded,
            _ = progress.wait_for_stop() => Err(StoreError::Stopped.into()),
        }
    }

    /// Uploads a payload, before the commit of the beginning of its run.
    pub(super) async fn upload_payload(&self, progress: &RunTracker) -> Result<(), IngestionError> {
        let Some(objects) = self.shared.objects.clone() else { return Ok(()) };
        let (store, run) = (self.store.clone(), progress.run.clone());
        let upload = move || store.upload_payload(&*objects, &run.oracle_id, &run.input.raw_sha256);
        tokio::select! {
            uploaded = run_on_thread(upload) => uploaded,
            _ = progress.wait_for_stop() => Err(StoreError::Stopped.into()),
        }
    }

    /// Uploads again what was lost of the objects of a source, until the daemon stops. This host has just compared its files with their
    /// digests.
    pub(super) async fn upload_lost_objects(&self, oracle_id: &SourceId) {
        let Some(objects) = self.shared.objects.clone() else { return };
        let (store, lost) = (self.store.clone(), oracle_id.clone());
        let uploaded = tokio::select! {
            uploaded = run_on_thread(move || store.upload_lost(&*objects, &lost)) => uploaded,
            () = self.claims.wait_for_stop() => Err(StoreError::Stopped.into()),
        };
        if let Err(error) = uploaded {
            tracing::warn!(%oracle_id, %error, "could not upload lost objects of a source; its next check tries again");
        }
    }

    /// Fetches the payload of a run that another host has begun, if this host lacks it.
    pub(super) async fn fetch_payload(&self, run: &IngestionRun) -> Result<(), IngestionError> {
        let missing = self.store.missing_payload(run);
        let Some((objects, missing)) = self.shared.objects.clone().zip(missing) else { return Ok(()) };
        self.fetch(&objects, missing).await
    }

    async fn fetch(
        &self,
        objects: &Arc<dyn SharedObjects>,
        missing: MissingFile,
    ) -> Result<(), IngestionError> {
        let (store, objects) = (self.store.clone(), Arc::clone(objects));
        let fetched = run_on_thread(move || store.fetch_file(&*objects, &missing)).await?;
        if !fetched.is_payload() {
            return run_on_thread(move || fetched.put_in_place()).await;
        }
        let archiving_guard = ARCHIVING.lock().await;
        run_while_archiving_waits(archiving_guard, move || fetched.put_in_place()).await
    }

    async fn read_missing(&self, kind: FetchedKind) -> Result<Vec<MissingFile>, IngestionError> {
        let store = self.store.clone();
        let read = move || match kind {
            FetchedKind::Sorted => store.missing_sorted(),
            FetchedKind::Payloads => store.missing_payloads(),
        };
        let missing = spawn_blocking(read).await;
        Ok(missing.map_err(|error| IngestionError::Inside(error.to_string()))??)
    }

    /// Fetches the files that this host lacks. Returns whether it has all.
    async fn fetch_missing(
        &self,
        objects: &Arc<dyn SharedObjects>,
        kind: FetchedKind,
    ) -> Result<bool, IngestionError> {
        let reported = match kind {
            FetchedKind::Sorted => &self.shared.sorted,
            FetchedKind::Payloads => &self.shared.payloads,
        };
        let missing = self.read_missing(kind).await?;
        let mut report = MissingFilesReport {
            files: missing.len() as u64,
            size_bytes: missing.iter().map(|file| file.size_bytes).sum(),
            failure: None,
        };
        let earlier = reported.borrow().failure.clone();
        if report.files > 0 && earlier.is_none() {
            let MissingFilesReport { files, size_bytes, .. } = report;
            tracing::info!(files, size_bytes, "files of sources are fetched");
        }
        report.failure.clone_from(&earlier);
        reported.send_replace(report.clone());
        let mut failure = None;
        for file in missing {
            let size_bytes = file.size_bytes;
            match self.fetch(objects, file).await {
                Ok(()) => {
                    report.files -= 1;
                    report.size_bytes -= size_bytes;
                    reported.send_replace(report.clone());
                }
                Err(error) => failure = failure.or(Some(error.to_string())),
            }
        }
        if failure.is_some() && failure != earlier {
            tracing::warn!(
                files = report.files,
                failure,
                "files of sources cannot be fetched now; trying again"
            );
        }
        let has_all = failure.is_none();
        reported.send_replace(MissingFilesReport { failure, ..report });
        Ok(has_all)
    }

    /// Removes the files that other hosts have replaced or pruned.
    async fn remove_replaced(&self, kind: FetchedKind) -> Result<(), IngestionError> {
        if kind == FetchedKind::Payloads {
            let store = self.store.clone();
            let archiving_guard = ARCHIVING.lock().await;
            return run_while_archiving_waits(archiving_guard, move || store.remove_replaced_payloads())
                .await;
        }
        let (store, claims) = (self.store.clone(), Arc::clone(&self.claims));
        let removed = spawn_blocking(move || {
            let replaced = store.list_replaced_files()?;
            // a run in progress has files that no row names yet
            claims.run_if_unclaimed(|| store.remove_replaced_files(&replaced)).unwrap_or(Ok(()))
        });
        Ok(removed.await.map_err(|error| IngestionError::Inside(error.to_string()))??)
    }

    /// Whether a file of this source is on its way to this host.
    pub(super) fn lacks_files(error: &IngestionError) -> bool {
        use StoreError::{FactsNotHere, Object, ObjectDamaged};
        matches!(error, IngestionError::Store(FactsNotHere { .. } | Object { .. } | ObjectDamaged { .. }))
    }
}
