//! Verbs for sources and their facts.

pub(crate) mod apply;
pub(crate) mod describe;
mod document_files;
pub(crate) mod documents;
pub(crate) mod get;
pub(crate) mod ingest;
pub(crate) mod new_source;
pub(crate) mod parquet_rows;
pub(crate) mod provenance;
pub(crate) mod query;
pub(crate) mod rejects;
pub(crate) mod schema;
pub(crate) mod source;
mod trial;
pub(crate) mod try_payload;
