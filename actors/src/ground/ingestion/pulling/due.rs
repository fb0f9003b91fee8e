//! The pulls that are due by the schedules of their pipelines. Due pulls survive a restart.

use super::super::{IngestContext, IngestionError};
use super::{RequestedPull, pull};
use crate::ground::schedule::PullSchedule;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::Sha256Hex;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::RegisteredPipeline;
use oracled_store::StoreError;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A pull that was interrupted by the end of the daemon is due again this long after it began, unless its
/// schedule has an earlier time. Without the pause, a daemon that restarts in a loop would pull at each
/// start.
const INTERRUPTED_PULL_PAUSE: SignedDuration = SignedDuration::from_mins(15);

/// A pipeline's schedule. Definitions may be long, so each is read only once for its schedule.
#[derive(Debug)]
pub(super) struct PipelineSchedule {
    /// The digest of the definition.
    pipeline_sha256: Sha256Hex,
    /// The schedule with its text, if the definition has one.
    schedule: Option<(String, PullSchedule)>,
    /// When the pipeline is due next.
    next: Option<Timestamp>,
}

/// Begins the pulls that are due. While the daemon drains or stops, the pulls stay due.
pub(in super::super) fn begin_due(context: &Arc<IngestContext>) {
    if context.draining.load(Ordering::Relaxed) || context.claims.is_stopping() {
        return;
    }
    let due = match context.take_due_pipelines() {
        Ok(due) => due,
        Err(error) => {
            tracing::error!(%error, "could not read the schedules");
            return;
        }
    };
    for pipeline_id in due {
        let context = Arc::clone(context);
        actix_rt::spawn(async move {
            let request = RequestedPull {
                pipeline_id: pipeline_id.clone(),
                requested_by: "schedule".into(),
                peer: None,
                force: false,
            };
            match pull(context, request).await {
                Ok(outcome) => tracing::info!(%pipeline_id, ?outcome, "scheduled pull ended"),
                Err(IngestionError::Pulling(_)) => {
                    tracing::warn!(%pipeline_id, "scheduled pull skipped: the previous pull is still in progress");
                }
                Err(error) => tracing::warn!(%pipeline_id, %error, "scheduled pull failed"),
            }
        });
    }
}

impl IngestContext {
    /// The pipelines whose schedules have come due since the last call. Several missed times count as one.
    fn take_due_pipelines(&self) -> Result<Vec<PipelineId>, StoreError> {
        let now = self.clock.now();
        let mut known = self.pulls.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        let mut scheduled = HashMap::new();
        for registered in self.store.pipelines()? {
            let before = known.remove(&registered.pipeline_id);
            let is_as_before =
                |before: &PipelineSchedule| before.pipeline_sha256 == registered.pipeline_sha256;
            let mut pipeline = match before {
                Some(before) if is_as_before(&before) => before,
                before => match self.read_pipeline_schedule(&registered, before, now)? {
                    Some(pipeline) => pipeline,
                    None => continue,
                },
            };
            if let Some((_, schedule)) = &pipeline.schedule {
                let next = schedule.next_after(now);
                if pipeline.next.is_some_and(|next| next <= now) {
                    due.push(registered.pipeline_id.clone());
                    pipeline.next = next;
                } else if pipeline.next > next {
                    // the clock was set back
                    pipeline.next = next;
                }
            }
            scheduled.insert(registered.pipeline_id, pipeline);
        }
        *known = scheduled;
        Ok(due)
    }

    /// The schedule of a registered pipeline. If the schedule is the same as `before`, its next time is kept.
    fn read_pipeline_schedule(
        &self,
        registered: &RegisteredPipeline,
        before: Option<PipelineSchedule>,
        now: Timestamp,
    ) -> Result<Option<PipelineSchedule>, StoreError> {
        let pipeline_sha256 = registered.pipeline_sha256.clone();
        let Some(definition) = self.store.definition(&pipeline_sha256)? else { return Ok(None) };
        let text = definition.pipeline.retrieval.schedule;
        let schedule = text.and_then(|text| PullSchedule::parse(&text).ok().map(|schedule| (text, schedule)));
        let next = schedule.as_ref().and_then(|(text, schedule)| {
            let is_same =
                |before: &PipelineSchedule| before.schedule.as_ref().is_some_and(|(known, _)| known == text);
            let before = before.filter(is_same);
            before.map_or_else(|| first_due(schedule, registered, now), |before| before.next)
        });
        Ok(Some(PipelineSchedule { pipeline_sha256, schedule, next }))
    }
}

/// The first due time at `now` of a pipeline without a remembered schedule. The schedule counts from the last pull, or
/// from a later registration.
fn first_due(schedule: &PullSchedule, registered: &RegisteredPipeline, now: Timestamp) -> Option<Timestamp> {
    let last = registered.last_pull.filter(|last| last.began_at > registered.registered_at);
    let since = last.map_or(registered.registered_at, |last| last.began_at);
    // a time in the future was recorded before the clock was set back
    let next = schedule.next_after(since.min(now));
    let was_cut_short = last.is_some_and(|last| last.ended_at.is_none());
    let again = since.checked_add(INTERRUPTED_PULL_PAUSE).ok().filter(|_| was_cut_short);
    next.into_iter().chain(again).min()
}
