//! The index of orders by application, state and time. The orders themselves are parts of their sessions.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::{TableId, key};
use jiff::Timestamp;
use oracled_domain::verdict::order::OrderState;
use oracled_domain::{ApplicationName, SessionId, SessionRecord};
use serde::Deserialize;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

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
    fn parse_name(name: &str, application: &ApplicationName) -> Option<Self> {
        let (at, local) = name.split_once(SEPARATOR)?;
        let session_id: SessionId = local.parse().ok()?;
        Some(Self::at(session_id.in_application(application), at.parse().ok()?))
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
        Ok(Self::at(session_id, placed_at_us))
    }
}

/// Selects the orders to read.
#[derive(Debug, Clone, Default)]
pub struct OrderQuery {
    /// Only orders of this application.
    pub application: Option<ApplicationName>,
    /// Only orders in this state.
    pub state: Option<OrderState>,
    /// Only orders that were placed before this one.
    pub before: Option<OrderPosition>,
    /// The highest number of orders to return.
    pub limit: usize,
}

/// The name of an order in the index.
pub(crate) fn order_name(state: OrderState, position: &OrderPosition) -> String {
    let OrderPosition { placed_at_us, application, session_id } = position;
    let prefix = prefix_of(application, state);
    format!("{prefix}{placed_at_us:020}{SEPARATOR}{}", session_id.local())
}

/// The beginning of the names of all orders of `application` in `state`.
fn prefix_of(application: &ApplicationName, state: OrderState) -> String {
    format!("{application}{SEPARATOR}{}{SEPARATOR}", state.into_str())
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

/// Every application with every state.
fn pairs<'a>(
    applications: &'a [ApplicationName],
    states: &'a [OrderState],
) -> impl Iterator<Item = (&'a ApplicationName, OrderState)> {
    applications.iter().flat_map(|application| states.iter().map(move |state| (application, *state)))
}

impl TableReader {
    /// The sessions whose orders match `query`, the order placed last first, without their checks.
    ///
    /// # Errors
    /// A session cannot be read.
    pub fn orders(&self, query: &OrderQuery) -> Result<Vec<SessionRecord>, StoreError> {
        let states = query.state.as_ref().map_or(OrderState::ALL, std::slice::from_ref);
        let applications = match &query.application {
            Some(application) => vec![application.clone()],
            None => self.applications_with_orders()?,
        };
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        // an order that changed its state meanwhile is skipped, and another one is read instead
        while found.len() < query.limit {
            let most = query.limit - found.len();
            let mut positions = Vec::new();
            for (application, state) in pairs(&applications, states) {
                positions.extend(self.order_positions(application, state, before.as_ref(), most)?);
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

    /// The applications that have orders.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn applications_with_orders(&self) -> Result<Vec<ApplicationName>, StoreError> {
        let mut found: Vec<ApplicationName> = Vec::new();
        loop {
            // the character after the separator: the names of the last application are before it
            let after = found.last().map(|last| format!("{last}0"));
            let names = self.names_after(TableId::Orders, after.as_deref(), 1)?;
            match names.first().and_then(|name| name.split_once(SEPARATOR)?.0.parse().ok()) {
                Some(application) => found.push(application),
                None => return Ok(found),
            }
        }
    }

    /// The number of orders of `application` in `state`, and the time at which the oldest of them was placed.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn count_orders(
        &self,
        application: &ApplicationName,
        state: OrderState,
    ) -> Result<(u64, Option<Timestamp>), StoreError> {
        let prefix = prefix_of(application, state);
        let keys = |end: &[u8]| key(TableId::Orders, &[prefix.as_bytes(), end]);
        let names = self.names(TableId::Orders, keys(&[])..keys(&[u8::MAX]), .., usize::MAX)?;
        let position = |name: &String| OrderPosition::parse_name(name.strip_prefix(&prefix)?, application);
        let oldest = names.first().and_then(position);
        let placed_at = oldest.and_then(|oldest| Timestamp::from_microsecond(oldest.placed_at_us).ok());
        Ok((names.len() as u64, placed_at))
    }

    /// The positions of the last `most` orders of `application` in `state` before `before`, the last one first.
    fn order_positions(
        &self,
        application: &ApplicationName,
        state: OrderState,
        before: Option<&OrderPosition>,
        most: usize,
    ) -> Result<Vec<OrderPosition>, StoreError> {
        let prefix = prefix_of(application, state);
        let keys = |end: &[u8]| key(TableId::Orders, &[prefix.as_bytes(), end]);
        let to = match before {
            None => keys(&[u8::MAX]),
            // among orders of the same microsecond, the application comes first
            Some(before) => keys(
                match application.cmp(&before.application) {
                    Ordering::Less => format!("{:020}", before.placed_at_us.saturating_add(1)),
                    Ordering::Equal => {
                        format!("{:020}{SEPARATOR}{}", before.placed_at_us, before.session_id.local())
                    }
                    Ordering::Greater => format!("{:020}", before.placed_at_us),
                }
                .as_bytes(),
            ),
        };
        let names = self.last_names(keys(&[])..to, most)?;
        let parse = |name: &String| OrderPosition::parse_name(name.strip_prefix(&prefix)?, application);
        Ok(names.iter().filter_map(parse).collect())
    }
}
