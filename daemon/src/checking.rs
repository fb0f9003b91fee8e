//! The check of the whole store, beside the service.

use crate::service::Service;
use actors::clock::monotonic;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use store::{Store, StoreError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// The pause before a check that could not be made is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The time between the end of a check and the next one.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// A check pauses for so many times as long as it has worked: it takes a tenth of one core.
const PAUSE_FACTOR: u32 = 9;
/// The longest pause of a check. A stop waits for it.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time that a stop waits for a check: a read of a disk that hangs must not hold it.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The files of sources that are logged one by one.
const FAULTS_LOGGED: usize = 100;

/// A check that is under way.
#[derive(Debug)]
pub(crate) struct Checking {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Checking {
    /// Starts to check the store: first what is left of the last check, then all of it once a day. A store that has lost
    /// something must not go on being served.
    #[must_use]
    pub(crate) fn start(service: &Arc<Service>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let service = Arc::clone(service);
        let task = tokio::spawn(async move {
            let Some(damage) = check(&service, stopped).await else { return };
            tracing::error!(damage, "the store cannot be trusted");
            service.system.log.doubt().await;
            service.note_damage(damage);
        });
        Self { task, stop }
    }

    /// Ends the check, and notes where the next one continues.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if timeout(STOP_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the check of the store does not end");
        }
    }
}

/// Checks until damage is found, or the daemon stops.
async fn check(service: &Arc<Service>, mut stopped: watch::Receiver<bool>) -> Option<String> {
    loop {
        let (store, told) = (service.system.store.clone(), stopped.clone());
        let pause = match spawn_blocking(move || slowly(&store, &told)).await {
            Ok(Ok(false)) => return None,
            Ok(Ok(true)) => {
                log_file_faults(service).await;
                CHECK_EVERY
            }
            // that is no finding: the store is being reopened, or the disk is full
            Ok(Err(StoreError::Unavailable { .. } | StoreError::Io { .. })) => RETRY_PAUSE,
            Ok(Err(error)) => return Some(error.to_string()),
            Err(panic) => return Some(panic.to_string()),
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.changed() => return None,
        }
        let store = service.system.store.clone();
        if pause == CHECK_EVERY
            && let Ok(Err(error)) = spawn_blocking(move || store.audit_again()).await
        {
            tracing::warn!(%error, "the next check of the store covers only what is new");
        }
    }
}

/// Checks the store with pauses; whether it came to the end.
fn slowly(store: &Store, stopped: &watch::Receiver<bool>) -> Result<bool, StoreError> {
    let mut began = monotonic();
    store.audit(|_| {
        thread::sleep((began.elapsed() * PAUSE_FACTOR).min(LONGEST_PAUSE));
        began = monotonic();
        !*stopped.borrow()
    })
}

/// Logs the files of sources that are missing, cut or other files: they keep neither other sources nor verdicts from being
/// served.
async fn log_file_faults(service: &Arc<Service>) {
    let store = service.system.store.clone();
    let found = spawn_blocking(move || store.file_faults()).await;
    let faults = match found {
        Ok(Ok(faults)) => faults,
        Ok(Err(error)) => return tracing::error!(%error, "could not check the files of sources"),
        Err(error) => return tracing::error!(%error, "could not check the files of sources"),
    };
    for fault in faults.iter().take(FAULTS_LOGGED) {
        tracing::error!("{fault}");
    }
    if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_LOGGED) {
        tracing::error!(more, "more files of sources are missing, cut or other files");
    }
}
