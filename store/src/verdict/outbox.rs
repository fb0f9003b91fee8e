//! The outbox: mails to be sent, and dead letters.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::TableId;
use oracled_domain::verdict::mail::{MailKind, MailState};
use oracled_domain::{MailId, OutboxMail};
use serde::Deserialize;

/// The number of mail ids that are read at a time.
const AT_ONCE: usize = 512;

/// A mail without its verdict.
#[derive(Deserialize)]
struct MailRowHead {
    standing: MailState,
}

impl TableReader {
    /// A mail with its revision. Its verdict is judged again when it is read. The text of a mail with the
    /// session's first verdict is compared with the SHA-256 in its session.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(OutboxMail, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((mail, revision)) = self.read_row::<OutboxMail>(TableId::Outbox, mail_id.as_str())?
            else {
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
        let row = self.read_row::<MailRowHead>(TableId::Outbox, mail_id.as_str())?;
        Ok(row.map(|(MailRowHead { standing }, revision)| (standing, revision)))
    }

    /// Passes the mails after `after` to `visit`, in the order of their ids. Stops if `visit` returns false.
    pub fn visit_mails(
        &self,
        after: Option<&MailId>,
        mut visit: impl FnMut(MailState) -> bool,
    ) -> Result<(), StoreError> {
        let mut cursor = after.map(|after| after.as_str().to_owned());
        loop {
            let names = self.names_after(TableId::Outbox, cursor.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(()) };
            cursor = Some(last.clone());
            for name in names {
                // the mail may have been sent meanwhile
                let Some((MailRowHead { standing }, _)) = self.read_row(TableId::Outbox, &name)? else {
                    continue;
                };
                if !visit(standing) {
                    return Ok(());
                }
            }
        }
    }
}
