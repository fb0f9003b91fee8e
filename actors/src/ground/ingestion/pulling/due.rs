//! The pulls that are due by the schedules of their pipelines. Due pulls survive a restart.

use super::super::{IngestionError, Shop};
use super::{Wanted, pull};
use crate::ground::schedule::Schedule;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::Sha256Hex;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::RegisteredPipeline;
use oracled_store::StoreError;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A pull that was interrupted by the end of the daemon is due again this long after it began, unless its schedule has an
/// earlier time. Without the pause, a daemon that restarts in a loop would pull at each start.
const CUT_SHORT_PAUSE: SignedDuration = SignedDuration::from_mins(15);

/// A pipeline's schedule. Definitions may be long, so each is read only once for its schedule.
#[derive(Debug)]
pub(super) struct Scheduled {
    /// The digest of the definition.
    pipeline_sha256: Sha256Hex,
    /// The schedule with its text, if the definition has one.
    schedule: Option<(String, Schedule)>,
    /// When the pipeline is due next.
    next: Option<Timestamp>,
}

/// Begins the pulls that are due. While the daemon drains or stops, the pulls stay due.
pub(in super::super) fn begin_due(shop: &Arc<Shop>) {
    if shop.draining.load(Ordering::Relaxed) || shop.flights.is_stopping() {
        return;
    }
    let due = match shop.due() {
        Ok(due) => due,
        Err(error) => {
            tracing::error!(%error, "could not read the schedules");
            return;
        }
    };
    for pipeline_id in due {
        let shop = Arc::clone(shop);
        actix_rt::spawn(async move {
            let wanted =
                Wanted { pipeline_id: pipeline_id.clone(), requested_by: "schedule".into(), peer: None };
            match pull(shop, wanted).await {
                Ok(outcome) => tracing::info!(%pipeline_id, ?outcome, "scheduled pull ended"),
                Err(IngestionError::Pulling(_)) => {
                    tracing::warn!(%pipeline_id, "scheduled pull skipped: the previous pull is still in progress");
                }
                Err(error) => tracing::warn!(%pipeline_id, %error, "scheduled pull failed"),
            }
        });
    }
}

impl Shop {
    /// The pipelines whose schedules have come due since the last call. Several missed times count as one.
    fn due(&self) -> Result<Vec<PipelineId>, StoreError> {
        let now = self.clock.now();
        let mut known = self.pulls.due.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        let mut scheduled = HashMap::new();
        for registered in self.store.pipelines()? {
            let before = known.remove(&registered.pipeline_id);
            let is_as_before = |before: &Scheduled| before.pipeline_sha256 == registered.pipeline_sha256;
            let mut pipeline = match before {
                Some(before) if is_as_before(&before) => before,
                before => match self.scheduled(&registered, before, now)? {
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
    fn scheduled(
        &self,
        registered: &RegisteredPipeline,
        before: Option<Scheduled>,
        now: Timestamp,
    ) -> Result<Option<Scheduled>, StoreError> {
        let pipeline_sha256 = registered.pipeline_sha256.clone();
        let Some(definition) = self.store.definition(&pipeline_sha256)? else { return Ok(None) };
        let text = definition.pipeline.retrieval.schedule;
        let schedule = text.and_then(|text| Schedule::parse(&text).ok().map(|schedule| (text, schedule)));
        let next = schedule.as_ref().and_then(|(text, schedule)| {
            let is_same =
                |before: &Scheduled| before.schedule.as_ref().is_some_and(|(known, _)| known == text);
            let before = before.filter(is_same);
            before.map_or_else(|| first_due(schedule, registered, now), |before| before.next)
        });
        Ok(Some(Scheduled { pipeline_sha256, schedule, next }))
    }
}

/// The first due time at `now` of a pipeline without a remembered schedule. The schedule counts from the last pull, or
/// from a later registration.
fn first_due(schedule: &Schedule, registered: &RegisteredPipeline, now: Timestamp) -> Option<Timestamp> {
    let last = registered.last_pull.filter(|last| last.began_at > registered.registered_at);
    let since = last.map_or(registered.registered_at, |last| last.began_at);
    // a time in the future was recorded before the clock was set back
    let next = schedule.next_after(since.min(now));
    let was_cut_short = last.is_some_and(|last| last.ended_at.is_none());
    let again = since.checked_add(CUT_SHORT_PAUSE).ok().filter(|_| was_cut_short);
    next.into_iter().chain(again).min()
}
