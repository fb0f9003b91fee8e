//! The steps of a repair of the segments for which the journal must not commit.

use super::{Logger, LoggerHandle, stopping, unavailable};
use actix::{Context, Handler, Message};
use oracled_store::{SegmentHealing, StoreError};

/// Begins to write damaged segments again from the database.
#[derive(Debug, Message)]
#[rtype(result = "Result<SegmentHealing, StoreError>")]
struct BeginHealing;

/// Replaces the segments, which had this damage, by those of a repair that is written.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
struct FinishHealing(SegmentHealing, String);

impl LoggerHandle {
    /// Begins to write damaged segments again from the database.
    ///
    /// # Errors
    /// As for `Journal::begin_healing`.
    pub async fn begin_healing(&self) -> Result<SegmentHealing, StoreError> {
        let begun = self.handle.ask(BeginHealing).await;
        begun.unwrap_or_else(|error| Err(unavailable(&error)))
    }

    /// Replaces the segments, which had the damage `damage`, by those of `healing`, and logs that.
    ///
    /// # Errors
    /// As for `Journal::finish_healing`.
    pub async fn finish_healing(&self, healing: SegmentHealing, damage: String) -> Result<(), StoreError> {
        let finished = self.handle.ask(FinishHealing(healing, damage)).await;
        finished.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}

impl Handler<BeginHealing> for Logger {
    type Result = Result<SegmentHealing, StoreError>;

    fn handle(&mut self, _: BeginHealing, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_healing()
    }
}

impl Handler<FinishHealing> for Logger {
    type Result = Result<(), StoreError>;

    fn handle(
        &mut self,
        FinishHealing(healing, damage): FinishHealing,
        _: &mut Context<Self>,
    ) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.finish_healing(healing)?;
        self.log_recovery(
            format!("the segments were written again from the database: {damage}"),
            self.clock.now(),
        );
        self.publish();
        Ok(())
    }
}
