//! Verdicts: the crosscheck, the cache, regeneration, its limits, and mail.

pub mod cache;
pub mod crosscheck;
pub mod notifier;
pub mod rate_limiter;
pub mod regen;
pub mod submission;
