//! The outbox: mails and webhooks to be sent, and dead letters.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use oracled_domain::base::row::Row;
use oracled_domain::verdict::mail::{MailKind, MailState};
use oracled_domain::verdict::webhook::WebhookState;
use oracled_domain::{MailId, OutboxMail, OutboxWebhook, SessionId, WebhookId};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The number of ids that are read at a time.
const AT_ONCE: usize = 512;

/// A message without its content.
#[derive(Deserialize)]
struct MessageRowHead<S> {
    standing: S,
}

impl TableReader {
    /// A mail with its revision. Its verdict is judged again when it is read. The text of a mail with the
    /// session's first verdict is compared with the SHA-256 in its session.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(OutboxMail, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((mail, revision)) = self.get::<OutboxMail>(mail_id)? else {
                return Ok(None);
            };
            let session_id = &mail.standing.session_id;
            let session = self.session(session_id)?;
            let seen = Some((revision, session.as_ref().map(|(_, revision)| *revision)));
            let expected_sha256 = session.and_then(|(session, _)| session.delivered_sha256);
            let expected_sha256 = expected_sha256.filter(|_| mail.standing.kind == MailKind::Verdict);
            let compared = expected_sha256
                .map_or(Ok(()), |promised| self.compare_text(session_id, &mail.delivery, &promised));
            match compared {
                Ok(()) => return Ok(Some((mail, revision))),
                // a commit between the two reads replaces both rows; rows that differ twice were never equal
                Err(error) if before == seen => return Err(error),
                Err(_) => before = seen,
            }
        }
    }

    /// The state of a mail, with its revision. The verdict is not read, so that a mail with a damaged verdict
    /// can be removed.
    pub fn mail_standing(&self, mail_id: &MailId) -> Result<Option<(MailState, u64)>, StoreError> {
        let row = self.head_of::<OutboxMail, _>(mail_id.as_str())?;
        Ok(row.map(|(MessageRowHead { standing }, revision)| (standing, revision)))
    }

    /// Passes the mails after `after` to `visit`, in the order of their ids. Stops if `visit` returns false.
    pub fn visit_mails(
        &self,
        after: Option<&MailId>,
        visit: impl FnMut(MailState) -> bool,
    ) -> Result<(), StoreError> {
        self.visit_messages::<OutboxMail, _>(after.map(MailId::as_str), visit)
    }

    /// A webhook with its revision.
    pub fn webhook(&self, webhook_id: &WebhookId) -> Result<Option<(OutboxWebhook, u64)>, StoreError> {
        self.get(webhook_id)
    }

    /// The state of a webhook with its revision, even if the rest of the webhook is damaged.
    pub fn webhook_standing(
        &self,
        webhook_id: &WebhookId,
    ) -> Result<Option<(WebhookState, u64)>, StoreError> {
        let row = self.head_of::<OutboxWebhook, _>(webhook_id.as_str())?;
        Ok(row.map(|(MessageRowHead { standing }, revision)| (standing, revision)))
    }

    /// Passes the webhooks after `after` to `visit`, in the order of their ids. Stops if `visit` returns false.
    pub fn visit_webhooks(
        &self,
        after: Option<&WebhookId>,
        visit: impl FnMut(WebhookState) -> bool,
    ) -> Result<(), StoreError> {
        self.visit_messages::<OutboxWebhook, _>(after.map(WebhookId::as_str), visit)
    }

    /// The webhooks of a session.
    pub fn webhooks_of(&self, session_id: &SessionId) -> Result<Vec<WebhookId>, StoreError> {
        let mut webhooks = Vec::new();
        self.visit_webhooks(None, |state| {
            if state.session_id.as_ref() == Some(session_id) {
                webhooks.push(state.webhook_id);
            }
            true
        })?;
        Ok(webhooks)
    }

    /// The standing in a row of type `R`, without its verdict or body.
    fn head_of<R: Row, S: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<(MessageRowHead<S>, u64)>, StoreError> {
        self.parse(R::TABLE, name, self.value(R::TABLE, name)?)
    }

    fn visit_messages<R: Row, S: DeserializeOwned>(
        &self,
        after: Option<&str>,
        mut visit: impl FnMut(S) -> bool,
    ) -> Result<(), StoreError> {
        let mut cursor = after.map(str::to_owned);
        loop {
            let names = self.names_after(R::TABLE.name, cursor.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(()) };
            cursor = Some(last.clone());
            for name in names {
                let standing = match self.head_of::<R, S>(&name) {
                    Ok(Some((MessageRowHead { standing }, _))) => standing,
                    // the message was sent meanwhile
                    Ok(None) => continue,
                    // it must not keep the others from being sent
                    Err(error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. })) => {
                        tracing::error!(%error, name, "a message of the outbox is damaged, and is skipped");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if !visit(standing) {
                    return Ok(());
                }
            }
        }
    }
}
