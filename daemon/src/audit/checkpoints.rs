//! Hands out signed checkpoints of the log, and compares the log with the last one at the start.

use crate::platform::config::CheckpointsSection;
use crate::platform::service::DaemonService;
use anyhow::{Context, bail};
use oracled_domain::audit::checkpoint::Checkpoint;
use oracled_store::Store;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

/// Compares the log with the checkpoint in the configured folder. A log that is shorter or different is an older or a changed copy.
///
/// # Errors
/// The log does not continue that of the checkpoint, or the folder or the checkpoint cannot be read.
pub(crate) fn check_log(section: &CheckpointsSection, store: &Store) -> anyhow::Result<()> {
    let Some(dir) = &section.dir else { return Ok(()) };
    if !dir.is_dir() {
        bail!("`checkpoints.dir` is {}, which is not a folder; create it, or mount its disk", dir.display());
    }
    let file = file_in(dir, store)?;
    let note = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), "no earlier checkpoint: the log is not compared with one");
            return Ok(());
        }
        note => note.with_context(|| format!("cannot read the checkpoint {}", file.display()))?,
    };
    let remedy = format!(
        "restore a newer copy of the state directory; if its entries are lost for good, move {} aside",
        file.display()
    );
    // the signature is not needed: who can write to the folder can also remove the checkpoint
    let earlier = Checkpoint::of_unverified_note(&note)
        .with_context(|| format!("the checkpoint {} is unreadable; {remedy}", file.display()))?;
    let entries = store.log_head().0;
    match store.log_root(earlier.size)? {
        Some(root) if root == earlier.root => Ok(()),
        Some(_) => bail!(
            "the first {} entries of the log are not those of the checkpoint in {}: an entry was changed, or the log is \
             another one; {remedy}",
            earlier.size,
            file.display()
        ),
        None => bail!(
            "the log has {entries} entries, and had {} at the checkpoint in {}: the state directory is an older copy; {remedy}",
            earlier.size,
            file.display()
        ),
    }
}

/// The file of the checkpoint in `dir`. Several daemons can use one folder.
fn file_in(dir: &Path, store: &Store) -> anyhow::Result<PathBuf> {
    Ok(dir.join(format!("{}.checkpoint", store.log_name()?.replace('/', "-"))))
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
        let mut ticks = interval(Duration::from_secs(service.config.checkpoints.every_s));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            let mut size = 0;
            loop {
                tokio::select! {
                    _ = ticks.tick() => size = hand_out(&service, size).await,
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
        hand_out(service, size).await;
    }
}

/// Hands out a checkpoint if the log has more than `last` entries. Returns the number of entries of the last checkpoint.
async fn hand_out(service: &Arc<DaemonService>, last: u64) -> u64 {
    let (size, root) = service.system.store.log_head();
    if size == last {
        return last;
    }
    let note = service.log_signer.sign(size, root);
    // as a string with escapes, so that the note is one line
    tracing::info!(size, note = ?note, "checkpoint of the log");
    let Some(dir) = service.config.checkpoints.dir.clone() else { return size };
    let store = service.system.store.clone();
    let written = spawn_blocking(move || write(&file_in(&dir, &store)?, &note)).await;
    match written.map_err(anyhow::Error::from).and_then(|written| written) {
        Ok(()) => size,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(error, "could not write the checkpoint of the log");
            last
        }
    }
}

fn write(file: &Path, note: &str) -> anyhow::Result<()> {
    let incomplete = file.with_extension("checkpoint.new");
    let written = File::create(&incomplete).and_then(|mut written| {
        written.write_all(note.as_bytes())?;
        written.sync_all()?;
        fs::rename(&incomplete, file)
    });
    written.with_context(|| format!("cannot write {}", file.display()))
}
