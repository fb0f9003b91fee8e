//! The index of orders by state and time. The orders themselves are parts of their sessions.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::{TableId, key};
use jiff::Timestamp;
use oracled_domain::verdict::order::OrderState;
use oracled_domain::{SessionId, SessionRecord};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// Separates the parts of a name. No session id contains this character.
const SEPARATOR: char = '/';

/// The sort key of an order: the time at which it was placed, in microseconds, then its session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderPosition {
    pub placed_at_us: i64,
    pub session_id: SessionId,
}

impl OrderPosition {
    /// The position of the order of `session_id`.
    #[must_use]
    pub fn of(session_id: &SessionId, placed_at: Timestamp) -> Self {
        Self { placed_at_us: placed_at.as_microsecond(), session_id: session_id.clone() }
    }

    /// The position of the order in the JSON of a stored session; `None` if it has none, or is damaged.
    pub(crate) fn read(json: &[u8]) -> Option<Self> {
        let SessionHead { session_id, order } = serde_json::from_slice(json).ok()?;
        Some(Self::of(&session_id, order?.placed_at))
    }
}

impl fmt::Display for OrderPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}{SEPARATOR}{}", self.placed_at_us, self.session_id)
    }
}

/// A text is not the position of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is not a position in a list of orders; allowed: the `next` of the previous page")]
pub struct OrderPositionError;

impl FromStr for OrderPosition {
    type Err = OrderPositionError;

    fn from_str(text: &str) -> Result<Self, OrderPositionError> {
        let (at, session_id) = text.split_once(SEPARATOR).ok_or(OrderPositionError)?;
        let placed_at_us = at.parse().map_err(|_| OrderPositionError)?;
        let session_id = session_id.parse().map_err(|_| OrderPositionError)?;
        Ok(Self { placed_at_us, session_id })
    }
}

/// Selects the orders to read.
#[derive(Debug, Clone, Default)]
pub struct OrderQuery {
    /// Only orders in this state.
    pub state: Option<OrderState>,
    /// Only orders that were placed before this one.
    pub before: Option<OrderPosition>,
    /// The highest number of orders to return.
    pub limit: usize,
}

/// The name of an order in the index.
pub(crate) fn order_name(state: OrderState, position: &OrderPosition) -> String {
    format!("{}{position}", prefix_of(state))
}

/// The beginning of the names of all orders in `state`.
fn prefix_of(state: OrderState) -> String {
    format!("{}{SEPARATOR}", state.into_str())
}

/// The part of a stored session that has the position of its order.
#[derive(Deserialize)]
struct SessionHead {
    session_id: SessionId,
    order: Option<OrderHead>,
}

#[derive(Deserialize)]
struct OrderHead {
    placed_at: Timestamp,
}

impl TableReader {
    /// The sessions whose orders match `query`, the order placed last first, without their checks.
    ///
    /// # Errors
    /// A session cannot be read.
    pub fn orders(&self, query: &OrderQuery) -> Result<Vec<SessionRecord>, StoreError> {
        let states = query.state.as_ref().map_or(OrderState::ALL, std::slice::from_ref);
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        // an order that changed its state meanwhile is skipped, and another one is read instead
        while found.len() < query.limit {
            let most = query.limit - found.len();
            let mut positions = Vec::new();
            for state in states {
                positions.extend(self.order_positions(*state, before.as_ref(), most)?);
            }
            positions.sort_unstable_by(|a, b| b.cmp(a));
            positions.dedup();
            positions.truncate(most);
            let Some(last) = positions.last() else { break };
            before = Some(last.clone());
            for position in &positions {
                let session = match self.session(&position.session_id) {
                    // one damaged session must not hide the others
                    Err(StoreError::Corrupt { .. }) => None,
                    read => read?.map(|(session, _)| session),
                };
                let matches = |session: &SessionRecord| {
                    session.order.as_ref().is_some_and(|order| states.contains(&order.state))
                };
                // the facts of a session can take a megabyte
                found.extend(session.filter(matches).map(|session| SessionRecord { check: None, ..session }));
            }
        }
        Ok(found)
    }

    /// The number of orders in `state`, and the time at which the oldest of them was placed.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn count_orders(&self, state: OrderState) -> Result<(u64, Option<Timestamp>), StoreError> {
        let prefix = prefix_of(state);
        let keys = |end: &[u8]| key(TableId::Orders, &[prefix.as_bytes(), end]);
        let names = self.names(TableId::Orders, keys(&[])..keys(&[u8::MAX]), .., usize::MAX)?;
        let oldest = names.first().and_then(|name| name.strip_prefix(&prefix)?.parse::<OrderPosition>().ok());
        let placed_at = oldest.and_then(|oldest| Timestamp::from_microsecond(oldest.placed_at_us).ok());
        Ok((names.len() as u64, placed_at))
    }

    /// The positions of the last `most` orders in `state` before `before`, the last one first.
    fn order_positions(
        &self,
        state: OrderState,
        before: Option<&OrderPosition>,
        most: usize,
    ) -> Result<Vec<OrderPosition>, StoreError> {
        let prefix = prefix_of(state);
        let keys = |end: &[u8]| key(TableId::Orders, &[prefix.as_bytes(), end]);
        let to = before.map_or_else(|| keys(&[u8::MAX]), |before| keys(before.to_string().as_bytes()));
        let names = self.last_names(keys(&[])..to, most)?;
        let parse = |name: &String| name.strip_prefix(&prefix).and_then(|position| position.parse().ok());
        Ok(names.iter().filter_map(parse).collect())
    }
}
