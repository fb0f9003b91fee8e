//! Hands out signed checkpoints of the log, and compares the log with earlier ones at the start.

mod folder;

use crate::audit::config::CheckpointsSection;
use crate::platform::service::DaemonService;
use actors_upstream::web::witness::SignedCheckpoint;
use actors_upstream::witnesses::{ConflictingWitness, Witnesses};
use anyhow::bail;
use domain_audit::checkpoint::LogSigner;
use folder::CheckpointFolder;
use oracled_store::{Journal, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Time before a start asks a witness again that reported a conflict.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Compares the log with the checkpoints in the configured folder. If a tile of its tree is damaged, the database is rebuilt
/// first.
///
/// # Errors
/// The log does not continue that of a checkpoint, or the folder or a checkpoint cannot be read.
pub(crate) fn check_or_repair(
    section: &CheckpointsSection,
    journal: &mut Journal,
    store: &Store,
) -> anyhow::Result<()> {
    let Some(dir) = &section.dir else { return Ok(()) };
    let folder = CheckpointFolder::new(dir, store)?;
    match folder.check_log(store) {
        Err(error) if !journal.repair_now()? => Err(error),
        Err(_) => folder.check_log(store),
        checked => checked,
    }
}

/// Compares the log with those that the witnesses have seen. A witness that does not answer is asked again with the next
/// checkpoint.
///
/// # Errors
/// The log does not continue those of `checkpoints.stop_at_conflicts` witnesses.
pub(crate) async fn check_witnesses(
    witnesses: &Witnesses,
    signer: &LogSigner,
    store: &Store,
) -> anyhow::Result<()> {
    let (size, root) = store.log_head();
    let checkpoint = SignedCheckpoint { size, note: signer.sign(size, root) };
    witnesses.submit(store, checkpoint.clone()).await;
    if witnesses.has_unconfirmed_conflict() {
        sleep(REPEAT_PAUSE).await;
        witnesses.submit(store, checkpoint).await;
    }
    let Some(ConflictingWitness { name, conflict }) = witnesses.stopping_conflict() else { return Ok(()) };
    bail!(
        "the log conflicts with the witness {name}: {conflict}; restore a newer copy of the state directory; if its entries are \
         lost for good, remove `checkpoints.witnesses.{name}` from the configuration"
    )
}

/// The task that hands out checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointTask {
    task: JoinHandle<u64>,
    stop: watch::Sender<bool>,
}

impl CheckpointTask {
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let service = Arc::clone(service);
        let mut ticks = interval(Duration::from_secs(service.section::<CheckpointsSection>().every_s));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            let mut size = 0;
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => return size,
                }
                let checkpoint = newest_checkpoint(&service);
                size = hand_out(&service, &checkpoint, size).await;
                tokio::select! {
                    () = have_cosigned(&service, checkpoint) => {}
                    _ = stopped.changed() => return size,
                }
            }
        });
        Self { task, stop }
    }

    /// Ends the task, and hands out the checkpoint of the whole log. Call this after the last entry.
    pub(crate) async fn stop(self, service: &Arc<DaemonService>) {
        self.stop.send_replace(true);
        let size = self.task.await.unwrap_or_default();
        let checkpoint = newest_checkpoint(service);
        hand_out(service, &checkpoint, size).await;
        have_cosigned(service, checkpoint).await;
    }
}

fn newest_checkpoint(service: &DaemonService) -> SignedCheckpoint {
    let (size, root) = service.system.store.log_head();
    SignedCheckpoint { size, note: service.log_signer.sign(size, root) }
}

/// Hands out a checkpoint to the service log and the folder if the log has more than `last` entries. Returns the number of
/// entries of the last checkpoint.
async fn hand_out(service: &Arc<DaemonService>, checkpoint: &SignedCheckpoint, last: u64) -> u64 {
    let SignedCheckpoint { size, note } = checkpoint;
    if *size == last {
        return last;
    }
    // as a string with escapes, so that the note is one line
    tracing::info!(size, note = ?note, "checkpoint of the log");
    if write(service, note.clone()).await { *size } else { last }
}

/// Has a checkpoint cosigned by the witnesses. They also get one that they know: its new cosignature shows that they know no
/// later one.
async fn have_cosigned(service: &Arc<DaemonService>, checkpoint: SignedCheckpoint) {
    let is_known = service.witnesses.cosigned().is_some_and(|cosigned| cosigned.size == checkpoint.size);
    let cosigned = service.witnesses.submit(&service.system.store, checkpoint).await;
    if service.witnesses.has_unconfirmed_conflict() {
        tracing::warn!("a witness reports a conflict; it is asked again with the next checkpoint");
    }
    let stops_work = service.witnesses.stopping_conflict().is_some();
    for ConflictingWitness { name, conflict } in service.witnesses.conflicts() {
        tracing::error!(
            witness = name,
            conflict,
            stops_work,
            "the log does not continue that of the witness"
        );
    }
    let Some(SignedCheckpoint { size, note }) = cosigned else { return };
    if !is_known {
        tracing::info!(size, note = ?note, "cosigned checkpoint of the log");
    }
    write(service, note).await;
}

/// Writes a checkpoint to the folder, if there is one. Returns whether it was written.
async fn write(service: &Arc<DaemonService>, note: String) -> bool {
    let Some(dir) = service.section::<CheckpointsSection>().dir.clone() else { return true };
    let (store, now) = (service.system.store.clone(), service.system.clock.now());
    let written = spawn_blocking(move || CheckpointFolder::new(&dir, &store)?.write(&note, now)).await;
    match written.map_err(anyhow::Error::from).and_then(|written| written) {
        Ok(()) => true,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(error, "could not write the checkpoint of the log");
            false
        }
    }
}
