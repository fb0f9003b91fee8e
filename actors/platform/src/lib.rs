//! Code that all actors share: supervision, handles, the clock, metrics.

pub mod actor_handle;
pub mod caller;
pub mod clock;
pub mod guardian;
pub mod host_removals;
pub mod key_file;
pub mod metrics;
pub mod per_application;
pub mod shared_calls;
pub mod span;
pub mod work;
pub mod work_turn;
