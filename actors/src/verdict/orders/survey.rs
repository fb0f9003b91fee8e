//! A survey of the orders that wait, for the metrics.

use super::OrdersActor;
use crate::platform::metrics::WAITING;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use jiff::Timestamp;
use oracled_domain::verdict::order::OrderState;
use oracled_store::{Store, StoreError};
use tokio::task::spawn_blocking;

/// The number of orders in each waiting state, and the time at which the oldest open one was placed.
#[derive(Debug, Default)]
struct OrderSurvey {
    counts: [u64; WAITING.len()],
    oldest: Option<Timestamp>,
}

impl OrderSurvey {
    /// Blocks on disk reads.
    fn read(store: &Store) -> Result<Self, StoreError> {
        let mut survey = Self::default();
        for (state, count) in WAITING.into_iter().zip(&mut survey.counts) {
            let (found, oldest) = store.count_orders(state)?;
            *count = found;
            if state != OrderState::Held {
                survey.oldest = survey.oldest.into_iter().chain(oldest).min();
            }
        }
        Ok(survey)
    }
}

impl OrdersActor {
    pub(super) fn survey(&mut self, ctx: &mut Context<Self>) {
        let store = self.desk.store().clone();
        let survey = spawn_blocking(move || OrderSurvey::read(&store)).into_actor(self);
        ctx.spawn(survey.map(|survey, orders, _| match survey {
            Ok(Ok(OrderSurvey { counts, oldest })) => {
                let age = oldest.map(|oldest| orders.desk.clock().now().duration_since(oldest));
                orders.desk.runner.metrics.orders.set_waiting(counts, age.unwrap_or_default());
            }
            Ok(Err(error)) => tracing::warn!(%error, "could not count the orders"),
            Err(panic) => tracing::error!(%panic, "the survey of orders failed"),
        }));
    }
}
