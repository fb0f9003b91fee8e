//! Generating a verdict: limits, model call, gate. Orders and regenerations share these steps.

mod error;
mod model;
mod outcome;
mod queue_limit;
mod runner;

pub use error::{GenerationError, GenerationResult};
pub use model::{ConfiguredModel, ConfiguredModels};
pub use queue_limit::QueueLimit;
pub(crate) use runner::{FirstCallPermits, GenerationEnd, GenerationHandles, GenerationRunner};
