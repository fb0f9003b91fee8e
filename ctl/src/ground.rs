//! Verbs for sources and their facts.

pub(crate) mod freshness;
pub(crate) mod ingest;
pub(crate) mod ontology;
pub(crate) mod pipeline;
pub(crate) mod provenance;
pub(crate) mod query;
pub(crate) mod rejects;
pub(crate) mod source;
