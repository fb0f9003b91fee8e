//! The actors of oracled: who holds which state, who tells whom, and who starts again after a panic.
//!
//! An actor's handler checks, asks `domain` for the decision, commits through the logger and replies. Each has a
//! file of its own; [`system`] wires them, bottom-up, and nothing else does.

pub mod cache;
pub mod caller;
pub mod clock;
pub mod crosscheck;
mod door;
pub mod fact_sources;
pub mod fallback;
mod guardian;
pub mod ingestion;
pub mod logger;
pub mod metrics;
pub mod notifier;
pub mod oracle_health;
pub mod queries;
pub mod rate_limiter;
pub mod regen;
pub mod registry;
pub mod rules;
pub mod system;
pub mod upstream;
pub mod verification;
mod vitals;

#[cfg(test)]
mod testing;

pub use clock::Clock;
pub use door::{Door, NoAnswer};
pub use guardian::Supervision;
pub use system::System;
pub use vitals::{ActorReport, Panic};

/// Makes the actor that gets it panic, for tests of supervision; release builds have no such message.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy)]
pub struct InjectPanic;

#[cfg(debug_assertions)]
impl actix::Message for InjectPanic {
    type Result = ();
}
