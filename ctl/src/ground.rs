//! Verbs for sources and their facts.

pub mod apply;
pub(crate) mod describe;
mod document_files;
pub mod documents;
pub(crate) mod ingest;
pub(crate) mod new_source;
pub mod parquet;
pub(crate) mod provenance;
pub(crate) mod query;
pub(crate) mod rejects;
pub mod source;
pub(crate) mod trial;
