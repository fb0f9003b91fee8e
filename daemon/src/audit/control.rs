//! Handlers of the audit log on the control socket.

pub mod log;
pub mod proofs;
