//! The outbox: mails to be sent, and dead letters.

use crate::base::engine::Tables;
use crate::base::error::StoreError;
use crate::base::rows::Table;
use oracled_domain::verdict::mail::{MailKind, Standing};
use oracled_domain::{Mail, MailId};
use serde::Deserialize;

/// The number of mail ids that are read at a time.
const AT_ONCE: usize = 512;

/// A mail without its verdict.
#[derive(Deserialize)]
struct Head {
    standing: Standing,
}

impl Tables {
    /// A mail with its revision. Its verdict is judged again when it is read. The text of a mail with the session's first
    /// verdict is compared with the SHA-256 in its session.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(Mail, u64)>, StoreError> {
        let mut before = None;
        loop {
            let Some((mail, revision)) = self.read_row::<Mail>(Table::Outbox, mail_id.as_str())? else {
                return Ok(None);
            };
            let session_id = &mail.standing.session_id;
            let session = self.session(session_id)?;
            let seen = Some((revision, session.as_ref().map(|(_, revision)| *revision)));
            let promised = session.and_then(|(session, _)| session.delivered_sha256);
            let promised = promised.filter(|_| mail.standing.kind == MailKind::Verdict);
            let compared =
                promised.map_or(Ok(()), |promised| self.compare_text(session_id, &mail.delivery, &promised));
            match compared {
                Ok(()) => return Ok(Some((mail, revision))),
                // a commit between the two reads replaces both rows; rows that differ twice were never equal
                Err(error) if before == seen => return Err(error),
                Err(_) => before = seen,
            }
        }
    }

    /// The state of a mail, with its revision. The verdict is not read, so that a mail with a damaged verdict can be removed.
    pub fn mail_standing(&self, mail_id: &MailId) -> Result<Option<(Standing, u64)>, StoreError> {
        let row = self.read_row::<Head>(Table::Outbox, mail_id.as_str())?;
        Ok(row.map(|(Head { standing }, revision)| (standing, revision)))
    }

    /// Passes the mails after `after` to `visit`, in the order of their ids. Stops if `visit` returns false.
    pub fn visit_mails(
        &self,
        after: Option<&MailId>,
        mut visit: impl FnMut(Standing) -> bool,
    ) -> Result<(), StoreError> {
        let mut behind = after.map(|after| after.as_str().to_owned());
        loop {
            let names = self.names_behind(Table::Outbox, behind.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(()) };
            behind = Some(last.clone());
            for name in names {
                // the mail may have been sent meanwhile
                let Some((Head { standing }, _)) = self.read_row(Table::Outbox, &name)? else { continue };
                if !visit(standing) {
                    return Ok(());
                }
            }
        }
    }
}
