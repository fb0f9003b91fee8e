//! The mails in flight: at most one attempt or one administrator's action at a time for each mail.

use oracled_domain::MailId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The set of mails in flight. It outlives panics of the actor, because attempts do.
#[derive(Debug, Clone, Default)]
pub(super) struct MailsInFlight(Arc<Mutex<HashSet<MailId>>>);

/// Exclusive access to a mail, until this is dropped.
#[derive(Debug)]
pub(super) struct MailClaim {
    pub(super) mail_id: MailId,
    mails: MailsInFlight,
}

impl MailsInFlight {
    /// Marks a mail as in flight. `None` if it already is.
    pub(super) fn claim_mail(&self, mail_id: MailId) -> Option<MailClaim> {
        self.mails().insert(mail_id.clone()).then(|| MailClaim { mail_id, mails: self.clone() })
    }

    fn mails(&self) -> MutexGuard<'_, HashSet<MailId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MailClaim {
    fn drop(&mut self) {
        self.mails.mails().remove(&self.mail_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_taken_by_one_holder_until_dropped() {
        let in_flight = MailsInFlight::default();
        let id: MailId = "mail:1".parse().expect("a valid id");
        let taken = in_flight.claim_mail(id.clone()).expect("the mail is free");
        assert!(in_flight.claim_mail(id.clone()).is_none());
        assert!(in_flight.claim_mail("mail:2".parse().expect("a valid id")).is_some(), "another is free");
        drop(taken);
        assert!(in_flight.claim_mail(id).is_some());
    }
}
