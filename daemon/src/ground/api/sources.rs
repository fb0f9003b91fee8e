//! `GET /v1/sources`: the registered sources.

use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use domain_ground::ontology::Ontology;
use domain_ground::source::SourceAvailability;
use oracled_api::ground::SourceSummary;
use std::sync::Arc;

problems!(ListProblems: STORE);

/// List the registered sources, in the order of their ids.
///
/// `identity` has the axes that identify the subject of a record.
#[utoipa::path(
    get,
    path = "/v1/sources",
    operation_id = "list_sources",
    tag = "ground",
    responses(
        ListProblems,
        (status = 200, description = "The entries of the registry, each with whether it answers", body = Vec<SourceSummary>),
    ),
)]
pub async fn list(State(service): State<Arc<DaemonService>>) -> Result<Json<Vec<SourceSummary>>, Problem> {
    let now = service.system.clock.now();
    let store = &service.system.store;
    let listed = store.sources()?.into_iter().map(|state| {
        let known = store.ontology(&state.entry.registration.ontology)?;
        let axes = known.iter().flat_map(Ontology::identity);
        let identity = axes.map(|axis| axis.axis.clone()).collect();
        let (answers, note) = match state.entry.availability(now) {
            SourceAvailability::Answers => (true, None),
            SourceAvailability::AnswersWithWarning(note) => (true, Some(note)),
            SourceAvailability::Silent(note) => (false, Some(note)),
        };
        let statements = state.files.iter().map(|file| file.statements).sum();
        let size_bytes = state.files.iter().map(|file| file.size_bytes).sum();
        Ok(SourceSummary { entry: state.entry, identity, answers, note, statements, size_bytes })
    });
    listed.collect::<Result<_, Problem>>().map(Json)
}
