//! Items in flight: at most one attempt, or one administrator's action, at a time for each.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;
use tokio::sync::watch;

/// The set of items in flight. It outlives panics of its actor, because attempts do.
#[derive(Debug, Clone)]
pub(crate) struct InFlight<I>(Arc<watch::Sender<HashSet<I>>>);

/// Exclusive access to an item, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightClaim<I: Eq + Hash> {
    pub(crate) id: I,
    in_flight: InFlight<I>,
}

impl<I> Default for InFlight<I> {
    fn default() -> Self {
        Self(Arc::new(watch::channel(HashSet::new()).0))
    }
}

impl<I: Eq + Hash + Clone> InFlight<I> {
    /// Marks an item as in flight. `None` if it already is.
    pub(crate) fn claim(&self, id: I) -> Option<InFlightClaim<I>> {
        let claimed = self.0.send_if_modified(|ids| ids.insert(id.clone()));
        claimed.then(|| InFlightClaim { id, in_flight: self.clone() })
    }

    /// Waits until an item is no longer in flight, and then marks it as in flight.
    pub(crate) async fn claim_when_free(&self, id: I) -> InFlightClaim<I> {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(claim) = self.claim(id.clone()) {
                return claim;
            }
            // the sender is in `self`, so the channel stays open
            drop(changes.wait_for(|ids| !ids.contains(&id)).await);
        }
    }

    pub(crate) fn contains(&self, id: &I) -> bool {
        self.0.borrow().contains(id)
    }

    /// The number of items in flight for which `counts` returns true.
    pub(crate) fn count(&self, counts: impl Fn(&I) -> bool) -> usize {
        self.0.borrow().iter().filter(|id| counts(id)).count()
    }

    pub(crate) async fn wait_until_empty(self) {
        // the sender is in `self`, so the channel stays open
        drop(self.0.subscribe().wait_for(HashSet::is_empty).await);
    }
}

impl<I: Eq + Hash> Drop for InFlightClaim<I> {
    fn drop(&mut self) {
        self.in_flight.0.send_modify(|ids| {
            ids.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_is_taken_by_one_holder_until_dropped() {
        let in_flight = InFlight::default();
        let taken = in_flight.claim("1").expect("the item is free");
        assert!(in_flight.claim("1").is_none());
        assert!(in_flight.claim("2").is_some(), "another is free");
        assert_eq!(in_flight.count(|_| true), 1);
        drop(taken);
        assert!(in_flight.claim("1").is_some());
    }

    #[tokio::test]
    async fn wait_until_empty_ends_when_the_last_claim_is_dropped() {
        let in_flight = InFlight::default();
        let taken = in_flight.claim("1").expect("the item is free");
        let waiting = tokio::spawn(in_flight.clone().wait_until_empty());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(taken);
        waiting.await.expect("the wait ends");
    }
}
