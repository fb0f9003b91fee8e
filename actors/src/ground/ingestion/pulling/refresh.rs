//! Refreshes: a source is pulled because an answer was stale.

use super::super::error::REFRESH_PAUSE;
use super::super::{IngestContext, IngestionError};
use super::{RequestedPull, pull};
use crate::platform::caller::run_as_current_caller;
use jiff::Timestamp;
use oracled_domain::ground::id::{PipelineId, SourceId};
use oracled_domain::ground::run::RunState;
use std::sync::{Arc, PoisonError};
use tokio::sync::watch;

#[derive(Debug)]
pub(super) enum SourceRefreshState {
    /// A refresh is in progress; the channel reports its end.
    InProgress(watch::Receiver<bool>),
    /// The last refresh brought nothing.
    NothingNew { invalidation_count: u64, ended_at: Timestamp },
}

/// Pulls the current payload of a source and waits for the end, unless a refresh is in progress or a recent one brought
/// nothing. The caller checks whether there is anything new.
pub(in super::super) async fn refresh(
    context: Arc<IngestContext>,
    oracle_id: SourceId,
) -> Result<(), IngestionError> {
    let pipeline_id = context.pulled_pipeline(&oracle_id)?;
    let (source, _) = context.commit_context().source(&oracle_id)?;
    let now = context.clock.now();
    let (sender, mut ended) = {
        let mut refreshing = context.pulls.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshing.get(&oracle_id) {
            // if the sender is gone, the refresh has ended without a report
            Some(SourceRefreshState::InProgress(ended)) if ended.has_changed().is_ok() => {
                (None, ended.clone())
            }
            // the source may have something new if it was invalidated since that refresh began
            Some(SourceRefreshState::NothingNew { invalidation_count, ended_at })
                if is_in_refresh_pause(*ended_at, now)
                    && source.invalidation_count == *invalidation_count =>
            {
                return Err(IngestionError::Resting { oracle_id, at: *ended_at });
            }
            Some(_) | None => {
                let (sender, ended) = watch::channel(false);
                refreshing.insert(oracle_id.clone(), SourceRefreshState::InProgress(ended.clone()));
                (Some(sender), ended)
            }
        }
    };
    if let Some(sender) = sender {
        // a separate task on this thread: the caller may stop waiting
        actix_rt::spawn(run_as_current_caller(async move {
            let failed_or_held = context.pull_for(&oracle_id, pipeline_id).await;
            let now =
                context.commit_context().source(&oracle_id).map_or_else(|_| source.clone(), |(now, _)| now);
            let mut refreshing = context.pulls.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
            refreshing.remove(&oracle_id);
            if now.completed.len() == source.completed.len() {
                // a failed run invalidates its source itself
                let invalidation_count =
                    if failed_or_held { now.invalidation_count } else { source.invalidation_count };
                let ended_at = context.clock.now();
                refreshing.insert(oracle_id, SourceRefreshState::NothingNew { invalidation_count, ended_at });
            }
            sender.send_replace(true);
        }));
    }
    // a closed channel also means that the refresh has ended
    drop(ended.wait_for(|ended| *ended).await);
    Ok(())
}

/// Whether a source that had nothing new at `at` is not pulled at `now`. If the clock was set back, it is pulled.
fn is_in_refresh_pause(at: Timestamp, now: Timestamp) -> bool {
    at <= now && now.duration_since(at) < REFRESH_PAUSE
}

impl IngestContext {
    /// Pulls a pipeline for stale answers of its source, or waits for the pull in progress. Then waits for
    /// the runs that follow. Returns whether its run failed or is held.
    async fn pull_for(self: &Arc<Self>, oracle_id: &SourceId, pipeline_id: PipelineId) -> bool {
        let request = RequestedPull { pipeline_id, requested_by: "refresh".into(), peer: None, force: false };
        let mut begun = None;
        match pull(Arc::clone(self), request).await {
            Ok(outcome) => begun = outcome.run().map(|run| run.run_id.clone()),
            Err(IngestionError::Pulling(pipeline_id)) => self.pulls.wait_for_pull(&pipeline_id).await,
            Err(error) => tracing::warn!(%oracle_id, %error, "refresh failed"),
        }
        self.claims.wait_until_no_run(oracle_id).await;
        let run = begun.and_then(|run_id| self.store.run(&run_id).ok().flatten());
        run.is_some_and(|(run, _)| matches!(run.state, RunState::Failed | RunState::Held))
    }

    fn pulled_pipeline(&self, oracle_id: &SourceId) -> Result<PipelineId, IngestionError> {
        for registered in self.store.pipelines()?.into_iter().filter(|known| known.oracle_id == *oracle_id) {
            let definition = self.store.definition(&registered.pipeline_sha256)?;
            if definition.is_some_and(|definition| definition.pipeline.retrieval.method.is_pull()) {
                return Ok(registered.pipeline_id);
            }
        }
        Err(IngestionError::NoPull(oracle_id.clone()))
    }
}
