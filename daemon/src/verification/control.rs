//! Handlers of verification on the control socket.

pub mod execution;
pub mod review;
pub mod review_evidence;
