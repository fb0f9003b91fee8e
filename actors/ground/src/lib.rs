//! Ground truth: registered documents, ingestion and queries.

pub mod ingestion;
pub mod metrics;
pub mod pull;
pub mod queries;
pub mod registry;
