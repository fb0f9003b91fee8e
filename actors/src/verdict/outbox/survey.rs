//! A survey of the whole outbox, which is on disk and has no limit.

use super::channel::{IdOf, OutboxChannel, OutboxState, ReceiverOf};
use super::head::OutboxHead;
use jiff::Timestamp;
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;

/// The result of a survey.
#[derive(Debug)]
pub(super) struct OutboxSurvey<C: OutboxChannel> {
    /// The messages of each receiver that are due first.
    pub(super) heads: BTreeMap<ReceiverOf<C>, OutboxHead<IdOf<C>>>,
    /// Number of dead letters.
    pub(super) dead: u64,
    /// When the oldest message that is not a dead letter was queued.
    pub(super) oldest: Option<Timestamp>,
}

impl<C: OutboxChannel> OutboxSurvey<C> {
    /// Reads the outbox as of `now`, and keeps the `head_max` messages of each receiver that are due first. Blocks on disk
    /// reads.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn read_outbox(store: &Store, head_max: usize, now: Timestamp) -> Result<Self, StoreError> {
        let mut survey = Self { heads: BTreeMap::new(), dead: 0, oldest: None };
        C::visit(store, None, |state| {
            survey.add(&state, head_max, now);
            true
        })?;
        Ok(survey)
    }

    fn add(&mut self, state: &C::State, head_max: usize, now: Timestamp) {
        let Some(due) = state.due_at(now) else {
            self.dead += 1;
            return;
        };
        let queued_at = state.queued_at();
        self.oldest = Some(self.oldest.map_or(queued_at, |oldest| oldest.min(queued_at)));
        let head = self.heads.entry(state.receiver()).or_insert_with(|| OutboxHead::new(head_max));
        head.put(state.id().clone(), due);
    }
}
