//! Code that all actors share: supervision, doors, the clock, metrics.

pub mod caller;
pub mod clock;
pub(crate) mod door;
pub(crate) mod guardian;
pub mod metrics;
pub(crate) mod vitals;
