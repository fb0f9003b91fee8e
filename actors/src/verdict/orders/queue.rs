//! The open orders that are not in flight. Within an application they are taken in the order of arrival, and
//! applications take turns.

use jiff::{SignedDuration, Timestamp};
use oracled_domain::{ApplicationName, SessionId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

/// The shortest and the longest pause of an application. It is short, because a model may become available, and the clock
/// may be set back.
const PAUSE_MIN: SignedDuration = SignedDuration::from_millis(100);
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct OrderQueue {
    /// The orders of each application by the time at which they are due. No set is empty.
    applications: BTreeMap<ApplicationName, BTreeSet<(Timestamp, SessionId)>>,
    /// When each of them is due.
    due: HashMap<SessionId, Timestamp>,
    /// Applications whose orders no model may be called for until these times.
    paused: BTreeMap<ApplicationName, Timestamp>,
    /// The application whose order was taken last.
    last: Option<ApplicationName>,
    /// The application whose order was taken before.
    last_before: Option<ApplicationName>,
}

impl OrderQueue {
    /// Adds an order, or sets when it is due.
    pub(super) fn insert(&mut self, due: Timestamp, session_id: SessionId) {
        self.remove(&session_id);
        self.due.insert(session_id.clone(), due);
        self.applications.entry(session_id.application()).or_default().insert((due, session_id));
    }

    pub(super) fn remove(&mut self, session_id: &SessionId) {
        let Some(due) = self.due.remove(session_id) else { return };
        let application = session_id.application();
        if let Some(orders) = self.applications.get_mut(&application) {
            orders.remove(&(due, session_id.clone()));
            if orders.is_empty() {
                self.applications.remove(&application);
            }
        }
    }

    pub(super) fn contains(&self, session_id: &SessionId) -> bool {
        self.due.contains_key(session_id)
    }

    /// Takes the order that is due first, of the next application that has one.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, SessionId)> {
        let (application, orders) = self.next_due(now)?;
        let (due, session_id) = orders.first()?.clone();
        self.last_before = self.last.replace(application.clone());
        self.remove(&session_id);
        Some((due, session_id))
    }

    /// Puts back the order that was taken last, and takes no order of its application for the time `wait`. The application
    /// keeps its turn.
    pub(super) fn put_back(
        &mut self,
        (due, session_id): (Timestamp, SessionId),
        now: Timestamp,
        wait: SignedDuration,
    ) {
        let until = now.saturating_add(wait.clamp(PAUSE_MIN, PAUSE_MAX)).unwrap_or(Timestamp::MAX);
        self.paused.insert(session_id.application(), until);
        self.insert(due, session_id);
        self.last = self.last_before.clone();
    }

    /// Ends all pauses.
    pub(super) fn resume(&mut self) {
        self.paused.clear();
    }

    /// Whether an order of `application` would overtake no order that waits.
    pub(super) fn is_free(&self, application: &ApplicationName, now: Timestamp) -> bool {
        let own = self.applications.get(application).and_then(BTreeSet::first);
        self.next_due(now).is_none() && own.is_none_or(|(due, _)| *due > now)
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn len_of(&self, application: &ApplicationName) -> usize {
        self.applications.get(application).map_or(0, BTreeSet::len)
    }

    /// The orders of the first application after the last one, in a circle, whose first order is due.
    fn next_due(&self, now: Timestamp) -> Option<(&ApplicationName, &BTreeSet<(Timestamp, SessionId)>)> {
        let is_due = |(application, orders): &(&ApplicationName, &BTreeSet<(Timestamp, SessionId)>)| {
            let is_paused = self.paused.get(*application).is_some_and(|until| {
                // a later time was set before the clock was set back
                now < *until && until.duration_since(now) <= PAUSE_MAX
            });
            !is_paused && orders.first().is_some_and(|(due, _)| *due <= now)
        };
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.applications.range((after, Bound::Unbounded));
        let mut turns = later.chain(&self.applications);
        turns.find(is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a valid time")
    }

    fn queue(orders: &[(i64, &str)]) -> OrderQueue {
        let mut queue = OrderQueue::default();
        for (due, id) in orders {
            queue.insert(at(*due), id.parse().expect("a valid id"));
        }
        queue
    }

    fn taken(queue: &mut OrderQueue, now: i64) -> Vec<String> {
        std::iter::from_fn(|| queue.take_due(at(now))).map(|(_, id)| id.to_string()).collect()
    }

    #[test]
    fn applications_take_turns_and_orders_of_one_keep_their_order() {
        let flood = [(1, "a/1"), (2, "a/2"), (3, "a/3"), (4, "b/1"), (5, "b/2"), (6, "c"), (99, "c2")];
        let mut queue = queue(&flood);
        assert_eq!(queue.len(), 7);
        assert_eq!(taken(&mut queue, 10), ["a/1", "b/1", "c", "a/2", "b/2", "a/3"]);
        let c = ApplicationName::default();
        assert_eq!((queue.len(), queue.is_free(&c, at(10)), queue.is_free(&c, at(99))), (1, true, false));
    }

    /// Takes the order of `id`, and puts it back for 2 s.
    fn put_back(queue: &mut OrderQueue, now: i64, id: &str) {
        let taken = queue.take_due(at(now)).expect("an order is due");
        assert_eq!(taken.1.to_string(), id);
        queue.put_back(taken, at(now), SignedDuration::from_secs(60));
    }

    #[test]
    fn paused_application_leaves_its_turns_to_others_until_its_pause_is_over() {
        let mut queue = queue(&[(1, "a/1"), (2, "b/1"), (3, "b/2")]);
        let a: ApplicationName = "a".parse().expect("a valid name");
        put_back(&mut queue, 10, "a/1");
        assert_eq!(taken(&mut queue, 10), ["b/1", "b/2"]);
        assert!(!queue.is_free(&a, at(10)), "a new order may not overtake the paused one");
        assert_eq!(taken(&mut queue, 12), ["a/1"]);
        queue.insert(at(1), "a/2".parse().expect("a valid id"));
        put_back(&mut queue, 1000, "a/2");
        assert_eq!(taken(&mut queue, 20), ["a/2"], "the clock was set back");
        queue.insert(at(1), "a/3".parse().expect("a valid id"));
        put_back(&mut queue, 20, "a/3");
        queue.resume();
        assert_eq!(taken(&mut queue, 20), ["a/3"]);
    }

    #[test]
    fn application_whose_order_is_put_back_keeps_its_turn() {
        let mut queue = queue(&[(1, "a/1"), (2, "a/2"), (3, "a/3"), (4, "b/1")]);
        assert_eq!(queue.take_due(at(10)).expect("an order is due").1.to_string(), "a/1");
        // the model has one slot, which the order of the first application has
        put_back(&mut queue, 10, "b/1");
        put_back(&mut queue, 10, "a/2");
        queue.resume();
        assert_eq!(taken(&mut queue, 10), ["b/1", "a/2", "a/3"]);
    }

    #[test]
    fn order_counts_once_and_not_after_its_removal() {
        let mut queue = queue(&[(1, "a/1"), (2, "a/2")]);
        let a: ApplicationName = "a".parse().expect("a valid name");
        queue.insert(at(3), "a/2".parse().expect("a valid id"));
        assert_eq!(queue.len_of(&a), 2);
        queue.remove(&"a/1".parse().expect("a valid id"));
        assert_eq!((queue.len(), queue.len_of(&a)), (1, 1));
        assert_eq!(taken(&mut queue, 10), ["a/2"]);
    }
}
