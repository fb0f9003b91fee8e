//! oracled: the daemon that judges a model's verdicts before delivery.
//!
//! The binary is thin: [`cli`] is the command line of `oracled`.

pub mod api;
pub mod audit;
pub mod cli;
pub mod control;
pub mod dev;
pub mod ground;
pub mod platform;
pub mod review;
pub mod rules;
pub mod run;
pub mod verdict;
pub mod verification;
