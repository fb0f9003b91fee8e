//! A survey of the orders that wait, for the metrics and the status.

use super::OrdersActor;
use crate::verdict::order_metrics::WAITING;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use jiff::Timestamp;
use oracled_domain::ApplicationName;
use oracled_domain::verdict::order::OrderState;
use oracled_store::{Store, StoreError};
use tokio::task::spawn_blocking;

/// The orders that wait.
#[derive(Debug, Default)]
pub struct OrderSurvey {
    counts: Vec<(ApplicationName, OrderState, u64)>,
    /// The time at which the oldest open order was placed.
    oldest: Option<Timestamp>,
}

impl OrderSurvey {
    /// Blocks on disk reads.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let mut survey = Self::default();
        for application in store.applications_with_orders()? {
            for state in WAITING {
                let (count, oldest) = store.count_orders(&application, state)?;
                survey.counts.push((application.clone(), state, count));
                if state != OrderState::Held {
                    survey.oldest = survey.oldest.into_iter().chain(oldest).min();
                }
            }
        }
        Ok(survey)
    }

    /// The number of orders in `state`, which is one of those that wait.
    #[must_use]
    pub fn count(&self, state: OrderState) -> u64 {
        self.counts.iter().filter(|(_, counted, _)| *counted == state).map(|(.., count)| count).sum()
    }
}

impl OrdersActor {
    pub(super) fn survey(&mut self, ctx: &mut Context<Self>) {
        let store = self.desk.store().clone();
        let survey = spawn_blocking(move || OrderSurvey::read(&store)).into_actor(self);
        ctx.spawn(survey.map(|survey, orders, _| match survey {
            Ok(Ok(OrderSurvey { counts, oldest })) => {
                let age = oldest.map(|oldest| orders.desk.clock().now().duration_since(oldest));
                orders.desk.metrics.set_waiting(counts, age.unwrap_or_default());
            }
            Ok(Err(error)) => tracing::warn!(%error, "could not count the orders"),
            Err(panic) => tracing::error!(%panic, "the survey of orders failed"),
        }));
    }
}
