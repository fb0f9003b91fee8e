//! Generating a verdict: limits, model call, gate. Orders and regenerations share these steps.

mod model;
mod outcome;
mod runner;

pub use model::ConfiguredModel;
pub(crate) use runner::{FirstCallPermits, GenerationEnd, GenerationHandles, GenerationRunner};
pub use runner::{GenerationError, GenerationResult};
