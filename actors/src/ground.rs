//! Ground truth: registered documents, ingestion and queries.

pub mod ingestion;
pub mod queries;
pub mod registry;
