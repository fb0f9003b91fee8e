//! oracled: the daemon that judges verdicts before anyone sees them, and `oraclectl`, which steers it.
//!
//! The two binaries are thin: [`cli`] is what `oracled` does, [`ctl`] what `oraclectl` does.

pub mod api;
pub mod audit;
pub mod cli;
pub mod control;
pub mod dev;
pub mod ground;
pub mod platform;
pub mod rules;
pub mod run;
pub mod verdict;
pub mod verification;
