//! The outbox: mails that are to be sent, and dead letters.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::{self, Table, key};
use domain::mail::Standing;
use domain::{Mail, MailId};
use serde::Deserialize;

/// So many names of mails are read at a time.
const AT_ONCE: usize = 512;

/// A mail without its verdict.
#[derive(Deserialize)]
struct Head {
    standing: Standing,
}

impl Store {
    /// A mail with its revision; its verdict is judged anew on its way out of the store.
    pub fn mail(&self, mail_id: &MailId) -> Result<Option<(Mail, u64)>, StoreError> {
        self.read_row(Table::Outbox, mail_id.as_str())
    }

    /// Goes through the mails behind `after` in the order of their ids, hands each to `visit`, and ends where that
    /// says so by `false`.
    pub fn visit_mails(
        &self,
        after: Option<&MailId>,
        mut visit: impl FnMut(Standing) -> bool,
    ) -> Result<(), StoreError> {
        let mut behind = after.map(|after| after.as_str().to_owned());
        loop {
            let names = self.mail_names(behind.as_deref())?;
            let Some(last) = names.last() else { return Ok(()) };
            behind = Some(last.clone());
            for name in names {
                // it may have been sent meanwhile
                let Some((Head { standing }, _)) = self.read_row(Table::Outbox, &name)? else { continue };
                if !visit(standing) {
                    return Ok(());
                }
            }
        }
    }

    /// The names of the next rows behind that called `behind`.
    fn mail_names(&self, behind: Option<&str>) -> Result<Vec<String>, StoreError> {
        let from = behind.map_or_else(
            || key(Table::Outbox, &[]),
            // a name is followed by a 0 byte: this is behind all of its chunks
            |behind| key(Table::Outbox, &[behind.as_bytes(), &[1]]),
        );
        self.read(|db, _| {
            let mut names = Vec::new();
            for head in rows::heads(db, self.dir(), from..vec![Table::Outbox as u8 + 1]) {
                let (key, _) = head?;
                if let Some(name) = rows::name(&key) {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
                if names.len() == AT_ONCE {
                    break;
                }
            }
            Ok(names)
        })
    }
}
