//! Shared by all actors: supervision, doors, the clock, metrics.

pub mod caller;
pub mod clock;
pub(crate) mod door;
pub(crate) mod guardian;
pub mod metrics;
pub(crate) mod vitals;
