//! Which mails somebody has in hand: at most one attempt, or one administrator, a mail.

use oracled_domain::MailId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The mails that somebody has in hand. It outlives panics of the actor, since attempts do.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<MailId>>>);

/// A mail that nobody else has in hand, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) mail_id: MailId,
    of: InFlight,
}

impl InFlight {
    /// Takes a mail in hand, unless somebody has it.
    pub(super) fn take(&self, mail_id: MailId) -> Option<Taken> {
        self.mails().insert(mail_id.clone()).then(|| Taken { mail_id, of: self.clone() })
    }

    fn mails(&self) -> MutexGuard<'_, HashSet<MailId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.of.mails().remove(&self.mail_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_is_in_one_hand_until_it_is_let_go() {
        let in_flight = InFlight::default();
        let id: MailId = "mail:1".parse().expect("an id");
        let taken = in_flight.take(id.clone()).expect("nobody has it");
        assert!(in_flight.take(id.clone()).is_none());
        assert!(in_flight.take("mail:2".parse().expect("an id")).is_some(), "another is free");
        drop(taken);
        assert!(in_flight.take(id).is_some());
    }
}
