//! On the control socket.

pub mod log;
