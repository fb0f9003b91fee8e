//! The index of orders by application, state and time. The orders themselves are parts of their sessions.

use crate::order::{Order, OrderState};
use domain_base::application::ApplicationName;
use domain_base::row::{Index, IndexEntry};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The orders by application, state and time.
pub static ORDERS: Index = Index {
    name: "orders",
    session_of: |name| {
        // the application, the state, the time and the session
        let mut parts = name.splitn(4, SEPARATOR);
        let application: ApplicationName = parts.next()?.parse().ok()?;
        let local: SessionId = parts.nth(2)?.parse().ok()?;
        Some(local.in_application(&application))
    },
};
/// Separates the parts of a name. No application and no local session id contains this character.
const SEPARATOR: char = '/';

/// The sort key of an order: the time at which it was placed, in microseconds, then its application and session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderPosition {
    pub placed_at_us: i64,
    application: ApplicationName,
    pub session_id: SessionId,
}

impl OrderPosition {
    /// The position of the order of `session_id`.
    #[must_use]
    pub fn of(session_id: &SessionId, placed_at: Timestamp) -> Self {
        Self::at(session_id.clone(), placed_at.as_microsecond())
    }

    fn at(session_id: SessionId, placed_at_us: i64) -> Self {
        Self { placed_at_us, application: session_id.application(), session_id }
    }

    /// The position of the order with this name in the index, after its application and state.
    #[must_use]
    pub fn parse_name(name: &str, application: &ApplicationName) -> Option<Self> {
        let (at, local) = name.split_once(SEPARATOR)?;
        let session_id: SessionId = local.parse().ok()?;
        Some(Self::at(session_id.in_application(application), at.parse().ok()?))
    }

    /// The end of the names of those orders of `application` in the index that were placed before this one, after their application
    /// and state.
    #[must_use]
    pub fn names_end(&self, application: &ApplicationName) -> String {
        let Self { placed_at_us, .. } = self;
        match application.cmp(&self.application) {
            Ordering::Less => format!("{:020}", placed_at_us.saturating_add(1)),
            Ordering::Equal => format!("{placed_at_us:020}{SEPARATOR}{}", self.session_id.local()),
            Ordering::Greater => format!("{placed_at_us:020}"),
        }
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
        Ok(Self::at(session_id, placed_at_us))
    }
}

/// The entry of an order in [`ORDERS`].
pub(super) fn order_entry(session_id: &SessionId, order: &Order) -> IndexEntry {
    let position = OrderPosition::of(session_id, order.placed_at);
    let prefix = orders_prefix(&position.application, order.state);
    ORDERS.entry(format!("{prefix}{:020}{SEPARATOR}{}", position.placed_at_us, session_id.local()))
}

/// The beginning of the names of all orders of `application` in `state`.
#[must_use]
pub fn orders_prefix(application: &ApplicationName, state: OrderState) -> String {
    format!("{application}{SEPARATOR}{}{SEPARATOR}", state.into_str())
}
