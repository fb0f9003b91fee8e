//! The wait that an oracle requests, for example when a quota is used up.

use super::OracleHealth;
use actix::{Context, Handler, Message};
use oracled_domain::OracleId;
use std::time::Duration;

/// Blocks all calls of an oracle that requested a wait.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ApplyRequestedWait {
    pub oracle_id: OracleId,
    /// How long no call is permitted.
    pub wait: Duration,
}

impl Handler<ApplyRequestedWait> for OracleHealth {
    type Result = ();

    fn handle(&mut self, ApplyRequestedWait { oracle_id, wait }: ApplyRequestedWait, _: &mut Context<Self>) {
        let now = self.clock.now();
        // a call has a lease, and a lease names an oracle that exists
        let Ok(watched) = self.oracle_at(&oracle_id, now) else { return };
        watched.health.note_requested_wait(now, wait);
        tracing::warn!(%oracle_id, wait_s = wait.as_secs(), "oracle requested a wait");
    }
}
