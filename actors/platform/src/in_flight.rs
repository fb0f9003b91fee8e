//! Items in flight: at most one attempt, or one administrator's action, at a time for each.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// The set of items in flight. It outlives panics of its actor, because attempts do.
#[derive(Debug)]
pub struct InFlight<I> {
    ids: Arc<watch::Sender<HashSet<I>>>,
    /// Whether no further attempt may start.
    is_stopped: Arc<AtomicBool>,
}

/// Exclusive access to an item, until this is dropped.
#[derive(Debug)]
pub struct InFlightClaim<I: Eq + Hash> {
    pub id: I,
    in_flight: InFlight<I>,
}

impl<I> Default for InFlight<I> {
    fn default() -> Self {
        Self { ids: Arc::new(watch::channel(HashSet::new()).0), is_stopped: Arc::default() }
    }
}

impl<I> Clone for InFlight<I> {
    fn clone(&self) -> Self {
        Self { ids: Arc::clone(&self.ids), is_stopped: Arc::clone(&self.is_stopped) }
    }
}

impl<I: Eq + Hash + Clone> InFlight<I> {
    /// Marks an item as in flight. `None` if it already is.
    pub fn claim(&self, id: I) -> Option<InFlightClaim<I>> {
        self.claim_below(id, usize::MAX)
    }

    /// Marks an item as in flight. `None` if it already is, or if `most` items are.
    pub fn claim_below(&self, id: I, most: usize) -> Option<InFlightClaim<I>> {
        let claimed = self.ids.send_if_modified(|ids| ids.len() < most && ids.insert(id.clone()));
        claimed.then(|| InFlightClaim { id, in_flight: self.clone() })
    }

    /// Waits until an item is no longer in flight, and then marks it as in flight.
    pub async fn claim_when_free(&self, id: I) -> InFlightClaim<I> {
        let mut changes = self.ids.subscribe();
        loop {
            if let Some(claim) = self.claim(id.clone()) {
                return claim;
            }
            // the sender is in `self`, so the channel stays open
            drop(changes.wait_for(|ids| !ids.contains(&id)).await);
        }
    }

    pub fn contains(&self, id: &I) -> bool {
        self.ids.borrow().contains(id)
    }

    /// The number of items in flight for which `counts` returns true.
    pub fn count(&self, counts: impl Fn(&I) -> bool) -> usize {
        self.ids.borrow().iter().filter(|id| counts(id)).count()
    }

    /// Lets no further attempt start.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub async fn wait_until_empty(self) {
        // the sender is in `self`, so the channel stays open
        drop(self.ids.subscribe().wait_for(HashSet::is_empty).await);
    }
}

impl<I: Eq + Hash> Drop for InFlightClaim<I> {
    fn drop(&mut self) {
        self.in_flight.ids.send_modify(|ids| {
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
        assert!(in_flight.claim_below("2", 1).is_none() && in_flight.claim_below("2", 2).is_some());
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
