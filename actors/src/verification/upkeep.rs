//! The schedule of the verification: it resumes pending decisions and deletes expired answers of live sources.

use super::{Verification, Verifier, VerifyError, pending};
use actix::{Actor, AsyncContext, Context, Supervised};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::audit::event::verification::KeptRemovedEntry;
use oracled_domain::verification::adapter::Ready;
use oracled_domain::verification::{Candidate, KeptAnswer, KeptKey};
use oracled_domain::{Event, EventKind};
use oracled_store::{Expect, Record, RowKey, StoreError, Write};
use std::sync::Arc;
use std::time::Duration;

/// The time between two passes over kept answers and pending decisions.
const PASS_EVERY: Duration = Duration::from_secs(3600);
/// Number of cached answers that are checked and deleted in one commit.
const PAGE: usize = 256;

/// The actor that runs the schedule.
#[derive(Debug)]
pub struct VerificationUpkeep {
    verification: Verification,
}

impl VerificationUpkeep {
    pub(crate) const fn new(verification: Verification) -> Self {
        Self { verification }
    }
}

impl Actor for VerificationUpkeep {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(PASS_EVERY, |upkeep, _| {
            pending::take_up(&upkeep.verification.verifier);
            let verifier = Arc::clone(&upkeep.verification.verifier);
            tokio::spawn(async move { verifier.let_go().await });
        });
        self.verification.verifier.expect_all();
        pending::take_up(&self.verification.verifier);
    }
}

impl Supervised for VerificationUpkeep {}

crate::platform::door::asked_through_a_door!(VerificationUpkeep);

impl Verifier {
    /// Deletes expired cached answers. An answer that is replaced meanwhile is left to the next pass.
    pub(super) async fn let_go(&self) {
        if let Err(error) = self.sweep().await {
            tracing::warn!(%error, "could not delete expired answers of live sources");
        }
    }

    async fn sweep(&self) -> Result<(), VerifyError> {
        let mut after: Option<KeptKey> = None;
        loop {
            let page = self.store.kept_page(after.as_ref(), PAGE)?;
            let now = self.clock.now();
            let mut record = Record::default();
            for (key, answer, revision) in page.kept {
                if !self.counts(&key, &answer, now)? {
                    let (row, revision) = (RowKey::Kept(key.clone()), Some(revision));
                    record.expect.push(Expect { row, revision });
                    record.writes.push(Write::RemoveKept(key));
                }
            }
            if !record.writes.is_empty() {
                let entry = KeptRemovedEntry { count: record.writes.len() as u64 };
                record.events.push(Event::new(now, None, EventKind::KeptAnswersRemoved(entry)));
                self.doors.log.commit(record).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether an answer may still be served, or still guards against replays of older answers.
    fn counts(&self, key: &KeptKey, answer: &KeptAnswer, now: Timestamp) -> Result<bool, StoreError> {
        let Some(view) = self.store.view(&key.oracle_id)? else { return Ok(false) };
        // if the adapter is invalid for now, no answer of its source is deleted
        let Ok(Some(adapter)) = self.adapter(&view) else { return Ok(true) };
        // an answer from a later time is used again once the clock, which was set back, has caught up
        let is_ahead = |candidate: &Candidate| candidate.record.retrieved_at > now;
        let is_ahead = answer.candidate.as_ref().is_some_and(is_ahead);
        Ok(is_ahead || adapter.is_kept(answer, now) || guards(&adapter, answer, now))
    }
}

/// Whether an answer that was issued before `answer` would be accepted again if `answer` were deleted.
fn guards(adapter: &Ready, answer: &KeptAnswer, now: Timestamp) -> bool {
    let age_s = adapter.adapter().max_issue_age_seconds.and_then(|age_s| i64::try_from(age_s).ok());
    let limit = age_s.map(SignedDuration::from_secs);
    answer.issued_at.zip(limit).is_some_and(|(issued_at, limit)| now.duration_since(issued_at) <= limit)
}
