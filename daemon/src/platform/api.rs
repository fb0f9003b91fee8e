//! Routes of the whole daemon.

pub mod front;
pub mod health;
pub(crate) mod held;
pub mod metrics;
pub mod oracles;
pub mod request;
