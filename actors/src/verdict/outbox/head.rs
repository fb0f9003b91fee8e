//! The head of the outbox: the messages that are due first, up to a limit.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The messages that are due first, each with its due time. Messages that are due after the horizon are only on disk.
#[derive(Debug)]
pub(crate) struct OutboxHead<I> {
    bound: usize,
    by_due: BTreeSet<(Timestamp, I)>,
    due: BTreeMap<I, Timestamp>,
    /// The head contains all messages that are due up to this time. `None`: it contains the whole outbox.
    horizon: Option<Timestamp>,
}

impl<I: Ord + Clone> OutboxHead<I> {
    /// Creates an empty head for at most `bound` messages.
    pub(crate) const fn new(bound: usize) -> Self {
        Self { bound, by_due: BTreeSet::new(), due: BTreeMap::new(), horizon: None }
    }

    /// Adds or replaces a message. A message that is due after the horizon is left out.
    pub(crate) fn put(&mut self, id: I, due: Timestamp) {
        self.remove(&id);
        if self.horizon.is_some_and(|horizon| due > horizon) {
            return;
        }
        self.by_due.insert((due, id.clone()));
        self.due.insert(id, due);
        if self.due.len() > self.bound
            && let Some((latest, id)) = self.by_due.pop_last()
        {
            self.due.remove(&id);
            self.horizon = Some(latest);
        }
    }

    /// Removes a message.
    pub(crate) fn remove(&mut self, id: &I) {
        if let Some((id, due)) = self.due.remove_entry(id) {
            self.by_due.remove(&(due, id));
        }
    }

    /// Removes and returns the message that is due first, if it is due at `now`.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<I> {
        let (due, _) = self.by_due.first()?;
        if *due > now {
            return None;
        }
        let (_, id) = self.by_due.pop_first()?;
        self.due.remove(&id);
        Some(id)
    }

    /// Adds the messages of `older` that are not in this head.
    pub(crate) fn merge_older(&mut self, older: Self) {
        for (id, due) in older.due {
            if !self.due.contains_key(&id) {
                self.put(id, due);
            }
        }
    }

    /// Whether more messages are on disk, and at least half of the head is free.
    pub(crate) fn is_running_low(&self) -> bool {
        self.horizon.is_some() && self.due.len() <= self.bound / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_domain::MailId;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
    }

    fn id(n: i64) -> MailId {
        format!("mail:{n:05}").parse().expect("a valid id")
    }

    #[test]
    fn take_due_returns_mails_in_due_order_and_not_early() {
        let mut head = OutboxHead::new(10);
        for n in [3, 1, 2] {
            head.put(id(n), at(n));
        }
        head.put(id(1), at(5));
        let mut taken = |second| head.take_due(at(second));
        assert_eq!((taken(1), taken(2), taken(2)), (None, Some(id(2)), None));
        assert_eq!((taken(9), taken(9), taken(9)), (Some(id(3)), Some(id(1)), None));
    }

    #[test]
    fn full_head_keeps_the_earliest_mails() {
        let mut head = OutboxHead::new(10);
        for n in (0..12).rev() {
            head.put(id(n), at(n));
        }
        assert_eq!(head.due.len(), 10);
        // 10 and 11 are only on disk: mails due at the same time or later must not overtake them
        head.put(id(50), at(11));
        assert!(!head.due.contains_key(&id(50)) && !head.is_running_low());
        for n in 0..5 {
            assert_eq!(head.take_due(at(99)), Some(id(n)));
        }
        assert!(head.is_running_low());
        head.put(id(60), at(0));
        assert_eq!((head.take_due(at(99)), head.by_due.len()), (Some(id(60)), head.due.len()));
    }

    #[test]
    fn keep_prefers_the_survey_over_mails_added_during_it() {
        let (mut older, mut survey) = (OutboxHead::new(10), OutboxHead::new(10));
        older.put(id(1), at(1));
        older.put(id(2), at(2));
        survey.put(id(2), at(7));
        survey.merge_older(older);
        assert_eq!((survey.take_due(at(3)), survey.take_due(at(3))), (Some(id(1)), None));
        assert_eq!(survey.take_due(at(7)), Some(id(2)));
    }

    #[test]
    fn removed_mail_is_not_returned() {
        let mut head = OutboxHead::new(10);
        head.put(id(1), at(1));
        head.remove(&id(1));
        head.remove(&id(2));
        assert_eq!((head.take_due(at(9)), head.is_running_low()), (None, false));
    }
}
