//! A survey of the orders that wait, for the metrics and the status.

use super::OrderWork;
use crate::order_metrics::WAITING;
use actors_platform::work::Work;
use domain_base::application::ApplicationName;
use domain_verdict::order::OrderState;
use jiff::Timestamp;
use oracled_store::{Store, StoreError};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Interval between two surveys.
const SURVEY_PERIOD: Duration = Duration::from_secs(10);

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

impl OrderWork {
    /// Counts the orders that wait for the metrics, for as long as the daemon runs.
    pub async fn survey_waiting(self) {
        loop {
            let store = self.store().clone();
            match spawn_blocking(move || OrderSurvey::read(&store)).await {
                Ok(Ok(OrderSurvey { counts, oldest })) => {
                    let age = oldest.map(|oldest| self.clock().now().duration_since(oldest));
                    self.metrics.set_waiting(counts, age.unwrap_or_default());
                }
                Ok(Err(error)) => tracing::warn!(%error, "could not count the orders"),
                Err(panic) => tracing::error!(%panic, "the survey of orders failed"),
            }
            sleep(SURVEY_PERIOD).await;
        }
    }
}
