pub(crate) mod ingestion;
mod queries;
mod registry;
