mod evaluation;
mod fact_sources;
