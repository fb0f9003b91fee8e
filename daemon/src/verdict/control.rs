//! Handlers of verdicts and sessions on the control socket.

pub mod costs;
pub mod divergence;
pub mod erasures;
pub mod held_orders;
pub mod orders;
pub mod outbox;
pub mod prompts;
pub mod purge;
pub mod retention;
pub mod session;
pub mod session_export;
pub mod webhooks;
