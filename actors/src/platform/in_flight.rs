//! The messages in flight: at most one attempt or one administrator's action at a time for each.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The set of messages in flight. It outlives panics of the actor, because attempts do.
#[derive(Debug, Clone)]
pub(crate) struct InFlight<I>(Arc<Mutex<HashSet<I>>>);

/// Exclusive access to a message, until this is dropped.
#[derive(Debug)]
pub(crate) struct MessageClaim<I: Eq + Hash> {
    pub(crate) id: I,
    in_flight: InFlight<I>,
}

impl<I> Default for InFlight<I> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<I: Eq + Hash + Clone> InFlight<I> {
    /// Marks a message as in flight. `None` if it already is.
    pub(crate) fn claim(&self, id: I) -> Option<MessageClaim<I>> {
        self.ids().insert(id.clone()).then(|| MessageClaim { id, in_flight: self.clone() })
    }
}

impl<I> InFlight<I> {
    fn ids(&self) -> MutexGuard<'_, HashSet<I>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Eq + Hash> Drop for MessageClaim<I> {
    fn drop(&mut self) {
        self.in_flight.ids().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_domain::MailId;

    #[test]
    fn mail_is_taken_by_one_holder_until_dropped() {
        let in_flight = InFlight::default();
        let id: MailId = "mail:1".parse().expect("a valid id");
        let taken = in_flight.claim(id.clone()).expect("the mail is free");
        assert!(in_flight.claim(id.clone()).is_none());
        assert!(in_flight.claim("mail:2".parse().expect("a valid id")).is_some(), "another is free");
        drop(taken);
        assert!(in_flight.claim(id).is_some());
    }
}
