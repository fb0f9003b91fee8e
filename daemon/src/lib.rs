//! oracled: the daemon that judges a model's verdicts before delivery.
//!
//! The binary is thin: [`cli`] is the command line of `oracled`.

pub mod api;
pub mod audit;
pub mod cli;
pub mod config;
pub mod control;
pub mod dev;
pub mod ground;
pub mod platform;
pub mod review;
pub mod rules;
pub mod run;
pub mod upstream;
pub mod upstreams;
pub mod verdict;
pub mod verification;

/// The allocator of installed programs and of benchmarks. A submission takes less processor time than with the system's allocator,
/// and its C code takes a minute to compile.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
