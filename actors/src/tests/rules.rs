mod evaluation;
pub(crate) mod fact_sources;
