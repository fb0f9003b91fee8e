//! The registered sources.

use super::Console;
use super::layout::PageError;
use crate::ground::documents::find_document;
use domain_base::document::Document;
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::wire::SourceSummary;
use hyper::Method;

pub(super) async fn read_sources(console: &Console) -> Result<Vec<SourceSummary>, PageError> {
    Ok(console.options.call_routes(Method::GET, "/v1/sources", None).await?.json()?)
}

pub(super) async fn read_ontology(console: &Console, reference: &OntologyRef) -> Result<Ontology, PageError> {
    let report = find_document(&console.options, Ontology::TYPE.into(), &reference.to_string()).await?;
    Ok(serde_json::from_value(report.document).map_err(std::io::Error::from)?)
}

/// A source of the catalog.
pub(super) async fn read_source(console: &Console, oracle_id: &str) -> Result<SourceSummary, PageError> {
    let sources = read_sources(console).await?;
    let found = sources.into_iter().find(|source| source.entry.oracle_id().as_str() == oracle_id);
    found.ok_or_else(|| PageError::input(format!("no source has the id {oracle_id}")))
}
