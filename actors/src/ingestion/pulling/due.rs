//! The pulls that are due by their pipelines' schedules, over restarts too.

use super::super::schedule::Schedule;
use super::super::{IngestionError, Shop};
use super::{Wanted, pull};
use domain::ground::id::PipelineId;
use domain::ground::pipeline::RegisteredPipeline;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use store::StoreError;

/// A pull that the daemon's end has cut short is due again so long after it began, unless its schedule has it earlier: a
/// daemon that is started over and over must not pull each time.
const CUT_SHORT_PAUSE: SignedDuration = SignedDuration::from_mins(15);

/// Begins the pulls that are due.
pub(in super::super) fn begin_due(shop: &Arc<Shop>) {
    let due = match shop.due() {
        Ok(due) => due,
        Err(error) => {
            tracing::error!(%error, "schedules cannot be read");
            return;
        }
    };
    for pipeline_id in due {
        let shop = Arc::clone(shop);
        actix_rt::spawn(async move {
            let wanted =
                Wanted { pipeline_id: pipeline_id.clone(), requested_by: "schedule".into(), peer: None };
            match pull(shop, wanted).await {
                Ok(outcome) => tracing::info!(%pipeline_id, ?outcome, "a scheduled pull has ended"),
                Err(IngestionError::Pulling(_)) => {
                    tracing::warn!(%pipeline_id, "a scheduled pull is left out: the one before goes on");
                }
                Err(error) => tracing::warn!(%pipeline_id, %error, "a scheduled pull has failed"),
            }
        });
    }
}

impl Shop {
    /// The pipelines whose schedules have come due since this was last asked. What was due while nobody asked is due once.
    fn due(&self) -> Result<Vec<PipelineId>, StoreError> {
        let now = self.clock.now();
        let mut known = self.pulls.due.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        let mut scheduled = HashMap::new();
        for registered in self.store.pipelines()? {
            let Some(definition) = self.store.definition(&registered.pipeline_sha256)? else { continue };
            let Some(text) = definition.pipeline.retrieval.schedule else { continue };
            let Ok(schedule) = Schedule::parse(&text) else { continue };
            let before = known.remove(&registered.pipeline_id).filter(|(known, _)| *known == text);
            let mut next = before.map_or_else(|| first_due(&schedule, &registered, now), |(_, next)| next);
            if next.is_some_and(|next| next <= now) {
                due.push(registered.pipeline_id.clone());
                next = schedule.next_after(now);
            }
            scheduled.insert(registered.pipeline_id, (text, next));
        }
        *known = scheduled;
        Ok(due)
    }
}

/// When a pipeline is due of which nothing is remembered at `now`: first after its last pull, or after it was registered as
/// it is, which begins its schedule anew.
fn first_due(schedule: &Schedule, registered: &RegisteredPipeline, now: Timestamp) -> Option<Timestamp> {
    let last = registered.last_pull.filter(|last| last.began_at > registered.registered_at);
    let since = last.map_or(registered.registered_at, |last| last.began_at);
    // what lies ahead was written down by a clock that has been put back since
    let next = schedule.next_after(since.min(now));
    let was_cut_short = last.is_some_and(|last| last.ended_at.is_none());
    let again = since.checked_add(CUT_SHORT_PAUSE).ok().filter(|_| was_cut_short);
    next.into_iter().chain(again).min()
}
