//! A look through the whole outbox, which is on disk and has no bound.

use super::head::Head;
use jiff::Timestamp;
use oracled_domain::verdict::mail::Standing;
use oracled_store::{Store, StoreError};

/// What there is in the outbox.
#[derive(Debug)]
pub(super) struct Survey {
    /// The mails that are due first.
    pub(super) head: Head,
    /// Dead letters.
    pub(super) dead: u64,
    /// Since when the oldest mail waits that is no dead letter.
    pub(super) oldest: Option<Timestamp>,
}

impl Survey {
    /// Goes through the outbox and keeps the `head_max` mails that are due first, as it looks at `now`. It blocks on
    /// the disk.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(super) fn of(store: &Store, head_max: usize, now: Timestamp) -> Result<Self, StoreError> {
        let mut survey = Self { head: Head::new(head_max), dead: 0, oldest: None };
        store.visit_mails(None, |standing| {
            survey.note(standing, now);
            true
        })?;
        Ok(survey)
    }

    fn note(&mut self, standing: Standing, now: Timestamp) {
        let Some(due) = standing.due_at(now) else {
            self.dead += 1;
            return;
        };
        self.oldest = Some(self.oldest.map_or(standing.queued_at, |oldest| oldest.min(standing.queued_at)));
        self.head.put(standing.mail_id, due);
    }
}
