//! oracled: the daemon that judges verdicts before anyone sees them, and `oraclectl`, which steers it.
//!
//! The two binaries are thin: [`cli`] is what `oracled` does, [`ctl`] what `oraclectl` does.

pub mod api;
mod checking;
pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod ctl;
pub mod dev;
pub mod listen;
pub mod pieces;
pub mod problem;
pub mod run;
pub mod secret;
pub mod service;
pub mod telemetry;
pub mod upstreams;
