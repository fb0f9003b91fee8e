//! Handlers of the audit log on the control socket.

pub mod backup;
pub mod log;
pub mod proofs;
