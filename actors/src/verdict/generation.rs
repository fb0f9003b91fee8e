//! Generating a verdict: limits, model call, gate. Orders and regenerations share these steps.

mod model;
mod outcome;
mod queue_limit;
mod runner;

pub use model::ConfiguredModel;
pub use queue_limit::QueueLimit;
pub(crate) use runner::{FirstCallPermits, GenerationEnd, GenerationHandles, GenerationRunner};
pub use runner::{GenerationError, GenerationResult};
