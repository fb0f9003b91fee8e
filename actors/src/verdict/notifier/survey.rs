//! A survey of the whole outbox, which is on disk and has no limit.

use crate::verdict::outbox_head::OutboxHead;
use jiff::Timestamp;
use oracled_domain::MailId;
use oracled_domain::verdict::mail::MailState;
use oracled_store::{Store, StoreError};

/// The result of a survey.
#[derive(Debug)]
pub(super) struct OutboxSurvey {
    /// The mails that are due first.
    pub(super) head: OutboxHead<MailId>,
    /// Number of dead letters.
    pub(super) dead: u64,
    /// When the oldest mail that is not a dead letter was queued.
    pub(super) oldest: Option<Timestamp>,
}

impl OutboxSurvey {
    /// Reads the outbox as of `now`, and keeps the `head_max` mails that are due first. Blocks on disk reads.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn read_outbox(store: &Store, head_max: usize, now: Timestamp) -> Result<Self, StoreError> {
        let mut survey = Self { head: OutboxHead::new(head_max), dead: 0, oldest: None };
        store.visit_mails(None, |standing| {
            survey.add_mail(standing, now);
            true
        })?;
        Ok(survey)
    }

    fn add_mail(&mut self, standing: MailState, now: Timestamp) {
        let Some(due) = standing.due_at(now) else {
            self.dead += 1;
            return;
        };
        self.oldest = Some(self.oldest.map_or(standing.queued_at, |oldest| oldest.min(standing.queued_at)));
        self.head.put(standing.mail_id, due);
    }
}
