//! Handlers of ground truth on the control socket.

pub mod freshness;
pub mod ingest;
pub mod rejects;
pub mod run;
pub mod run_changes;
pub mod source;
pub mod upkeep;
pub mod value_history;
