//! Routes of the whole daemon.

pub(crate) mod batch;
pub mod front;
pub mod health;
mod lent_body;
pub mod metrics;
pub mod oracles;
pub(crate) mod piece_writer;
pub mod request;
pub(crate) mod reserved_body;
