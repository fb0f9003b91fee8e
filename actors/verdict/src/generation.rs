//! Generating a verdict: limits, model call, gate. Orders and regenerations share these steps.

mod error;
mod metrics;
mod model;
mod outcome;
mod prompt;
mod queue_limit;
mod regeneration;
mod runner;
mod trial;

pub use error::{GenerationError, GenerationResult};
pub use metrics::GenerationMetrics;
pub use model::{ConfiguredModel, ConfiguredModels};
pub use prompt::{PromptError, find_prompt, find_prompt_template};
pub use queue_limit::QueueLimit;
pub use runner::{FirstCallDenial, FirstCallPermits, GenerationEnd, GenerationHandles, GenerationRunner};
pub use trial::{PromptTrial, PromptTrialResult};
