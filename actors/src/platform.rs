//! Code that all actors share: supervision, handles, the clock, metrics.

pub(crate) mod actor_handle;
pub(crate) mod actor_stats;
pub mod caller;
pub mod clock;
pub(crate) mod guardian;
pub(crate) mod in_flight;
pub mod key_file;
pub mod metrics;
pub mod per_application;
pub(crate) mod unique_id;
pub mod work;
