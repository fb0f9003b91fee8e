//! The outbox: mails and webhooks to be sent, and dead letters.

use crate::base::engine::TableReader;
use crate::base::rows::with_prefix;
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::mail::{MailId, MailKind, OutboxMail};
use domain_verdict::outbox::{MessageChannel, MessageId, MessageState, OutboxMessage, StoredMessageHead};
use domain_verdict::webhook::WebhookId;
use store_base::error::StoreError;

/// The number of ids that are read at a time.
const AT_ONCE: usize = 512;

impl TableReader {
    /// A message with its revision. The verdict of a mail is judged again when it is read. The text of a mail with the session's
    /// first verdict is compared with the SHA-256 in its session.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn message(&self, id: &MessageId) -> Result<Option<(OutboxMessage, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((message, revision)) = self.get::<OutboxMessage>(id)? else { return Ok(None) };
            let OutboxMessage::Mail(mail) = &message else { return Ok(Some((message, revision))) };
            let session_id = &mail.standing.session_id;
            let session = self.session(session_id)?;
            let seen = Some((revision, session.as_ref().map(|(_, revision)| *revision)));
            let expected_sha256 = session.and_then(|(session, _)| session.delivered_sha256);
            let expected_sha256 = expected_sha256.filter(|_| mail.standing.kind == MailKind::Verdict);
            let compared = expected_sha256
                .map_or(Ok(()), |promised| self.compare_text(session_id, &mail.delivery, &promised));
            match compared {
                Ok(()) => return Ok(Some((message, revision))),
                // a commit between the two reads replaces both rows; rows that differ twice were never equal
                Err(error) if before == seen => return Err(error),
                Err(_) => before = seen,
            }
        }
    }

    /// A mail with its revision, as [`Self::message`].
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(OutboxMail, u64)>, StoreError> {
        let message = self.message(&mail_id.clone().into())?;
        Ok(message.and_then(|(message, revision)| match message {
            OutboxMessage::Mail(mail) => Some((mail, revision)),
            OutboxMessage::Webhook(_) => None,
        }))
    }

    /// The state of a message with its revision. Its content is not read, so that a damaged message can be removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn message_state(&self, id: &MessageId) -> Result<Option<(MessageState, u64)>, StoreError> {
        self.message_head(&id.to_string())
    }

    /// Passes the states of the messages after `after` to `visit`, in the order of their ids; `only` those of a channel. Stops if
    /// `visit` returns false.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn visit_messages(
        &self,
        only: Option<MessageChannel>,
        after: Option<&MessageId>,
        mut visit: impl FnMut(MessageState) -> bool,
    ) -> Result<(), StoreError> {
        let mut cursor = after.map(ToString::to_string);
        if only == Some(MessageChannel::Webhook)
            && cursor.as_deref().is_none_or(|after| after < WebhookId::PREFIX)
        {
            // their ids follow one another: those of mails before them are not read
            cursor = Some(WebhookId::PREFIX.to_owned());
        }
        loop {
            let names = self.names_after(OutboxMessage::TABLE.name, cursor.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(()) };
            cursor = Some(last.clone());
            let is_meant =
                |name: &String| only.is_none() || name.parse().ok().map(|id: MessageId| id.channel()) == only;
            if only == Some(MessageChannel::Webhook)
                && !names.iter().any(|name| name.starts_with(WebhookId::PREFIX))
            {
                return Ok(());
            }
            for name in names.into_iter().filter(is_meant) {
                let state = match self.message_head(&name) {
                    Ok(Some((state, _))) => state,
                    // the message was sent meanwhile
                    Ok(None) => continue,
                    // it must not keep the others from being sent
                    Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                        tracing::error!(%error, name, "a message of the outbox is damaged, and is skipped");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if !visit(state) {
                    return Ok(());
                }
            }
        }
    }

    /// The number of webhooks in the outbox.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn count_webhooks(&self) -> Result<u64, StoreError> {
        let names = with_prefix(OutboxMessage::TABLE.name, WebhookId::PREFIX);
        Ok(self.names(names, .., usize::MAX)?.len() as u64)
    }

    /// The webhooks of a session.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn webhooks_of(&self, session_id: &SessionId) -> Result<Vec<MessageId>, StoreError> {
        let mut webhooks = Vec::new();
        self.visit_messages(Some(MessageChannel::Webhook), None, |state| {
            if state.session_id() == Some(session_id) {
                webhooks.push(state.entry().message_id);
            }
            true
        })?;
        Ok(webhooks)
    }

    fn message_head(&self, name: &str) -> Result<Option<(MessageState, u64)>, StoreError> {
        let table = OutboxMessage::TABLE;
        let head = self.parse::<StoredMessageHead>(table, name, self.value(table, name)?)?;
        Ok(head.map(|(head, revision)| (head.into(), revision)))
    }
}
