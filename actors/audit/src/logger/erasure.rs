//! The steps of an erasure for which the journal must not commit.

use super::{Logger, LoggerHandle, stopping, unavailable};
use actix::{Context, Handler, Message};
use oracled_store::{Erasure, ErasureStep, Journal, RemovalPlan, StoreError};

/// Begins to erase the data of a plan.
#[derive(Debug, Message)]
#[rtype(result = "Result<Erasure, StoreError>")]
struct BeginErasure(RemovalPlan);

/// Replaces the database and `oracle_log.jsonl` by those of a prepared erasure. Returns the erasure, and the next step.
#[derive(Debug, Message)]
#[rtype(result = "Result<(Erasure, ErasureStep), StoreError>")]
struct FinishErasure(Erasure);

impl LoggerHandle {
    /// Begins to erase the data of a plan.
    ///
    /// # Errors
    /// As for `Journal::begin_erasure`.
    pub async fn begin_erasure(&self, plan: RemovalPlan) -> Result<Erasure, StoreError> {
        self.handle.ask(BeginErasure(plan)).await.unwrap_or_else(|error| Err(unavailable(&error)))
    }

    /// Finishes a prepared erasure. Returns it, and the next step.
    ///
    /// # Errors
    /// As for `Journal::finish_erasure`.
    pub async fn finish_erasure(&self, erasure: Erasure) -> Result<(Erasure, ErasureStep), StoreError> {
        self.handle.ask(FinishErasure(erasure)).await.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}

impl Handler<BeginErasure> for Logger {
    type Result = Result<Erasure, StoreError>;

    fn handle(&mut self, BeginErasure(plan): BeginErasure, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_erasure(plan)
    }
}

impl Handler<FinishErasure> for Logger {
    type Result = Result<(Erasure, ErasureStep), StoreError>;

    fn handle(&mut self, FinishErasure(mut erasure): FinishErasure, _: &mut Context<Self>) -> Self::Result {
        let finished = self.journal.as_mut().ok_or_else(stopping)?.finish_erasure(&mut erasure);
        if let Some(cause) = self.journal.as_ref().and_then(Journal::failure).map(String::from) {
            self.note_failure(&StoreError::Unavailable { cause });
            self.publish();
        }
        Ok((erasure, finished?))
    }
}
