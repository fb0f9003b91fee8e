//! The daily removal of data that are older than configured.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use oracled_actors::ground::ingestion::PruneOldContent;
use oracled_actors::verdict::erasure::RetentionDays;
use oracled_api::verdict::retention::PayloadRetention;
use oracled_domain::PeerCredentials;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The time from the start to the first run.
const FIRST_AFTER: Duration = Duration::from_secs(5 * 60);
/// The time between the end of a run and the next one.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The task that removes old data.
#[derive(Debug)]
pub(crate) struct RetentionTask(Option<JoinHandle<()>>);

impl RetentionTask {
    /// Starts the task if a kind of data is not kept forever.
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        let days = service.config.retention.to_days();
        let is_configured =
            days != RetentionDays::default() || service.config.retention.payloads_days.is_some();
        Self(is_configured.then(|| tokio::spawn(run_daily(Arc::clone(service), days))))
    }

    /// Starts no further run. A run in progress ends with `ErasureService::stop`, and continues after the next start.
    pub(crate) fn stop(self) {
        if let Self(Some(task)) = self {
            task.abort();
        }
    }
}

/// Prunes the content of sources that is older than configured. `None` if it is kept forever.
pub(crate) async fn prune_old_content(
    service: &DaemonService,
    peer: Option<PeerCredentials>,
    is_dry_run: bool,
) -> Result<Option<PayloadRetention>, Problem> {
    let Some(days) = service.config.retention.payloads_days else { return Ok(None) };
    let report = service.system.ingestion.ask(PruneOldContent { days, peer, is_dry_run }).await??;
    Ok(Some(PayloadRetention { days, report }))
}

async fn run_daily(service: Arc<DaemonService>, days: RetentionDays) {
    let mut pause = FIRST_AFTER;
    loop {
        sleep(pause).await;
        pause = EVERY;
        let (erasure, log_key) = (service.system.erasure.clone(), service.log_signer.key().clone());
        // a task of its own, which the stop of this one does not cut off
        let run = tokio::spawn(async move {
            let turn = erasure.wait_for_turn().await;
            erasure.apply_retention(turn, days, None, &log_key).await
        });
        match run.await {
            Ok(Ok(applied)) => {
                tracing::info!(due = ?applied.due, unread_files = ?applied.unread_files, "retention applied");
            }
            Ok(Err(error)) => tracing::error!(%error, "could not remove old data"),
            Err(error) => tracing::error!(%error, "the removal of old data panicked; report this as a bug"),
        }
        match prune_old_content(&service, None, false).await {
            Ok(pruned) => tracing::info!(?pruned, "old content of sources was pruned"),
            Err(problem) => tracing::error!("could not prune old content of sources: {problem}"),
        }
    }
}
