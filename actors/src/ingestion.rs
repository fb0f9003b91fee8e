//! Ingestion: how a source's payload becomes records (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").

pub mod slices;
