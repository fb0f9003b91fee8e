//! Lists of orders. They are parts of their sessions.

use crate::base::engine::TableReader;
use crate::base::rows::{key, with_prefix};
use domain_base::application::ApplicationName;
use domain_verdict::order::OrderState;
use domain_verdict::order_position::{ORDERS, OrderPosition, orders_prefix};
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use store_base::error::StoreError;

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
            let names = self.names_after(ORDERS.name, after.as_deref(), 1)?;
            match names.first().and_then(|name| name.split_once('/')?.0.parse().ok()) {
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
        let prefix = orders_prefix(application, state);
        let names = self.names(with_prefix(ORDERS.name, &prefix), .., usize::MAX)?;
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
        let prefix = orders_prefix(application, state);
        let mut keys = with_prefix(ORDERS.name, &prefix);
        if let Some(before) = before {
            keys.end = key(ORDERS.name, &[prefix.as_bytes(), before.names_end(application).as_bytes()]);
        }
        let names = self.last_names(keys, most)?;
        let parse = |name: &String| OrderPosition::parse_name(name.strip_prefix(&prefix)?, application);
        Ok(names.iter().filter_map(parse).collect())
    }
}
