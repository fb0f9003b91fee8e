//! `GET /v1/sources`: the registered sources.

use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use oracled_api::ground::ListedSource;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::Standing;
use std::sync::Arc;

problems!(ListProblems: READ; );

/// List the registered sources, in the order of their ids.
///
/// `identity` has the axes that identify the subject of a record.
///
/// # Errors
/// If the store cannot be read.
#[utoipa::path(
    get,
    path = "/v1/sources",
    operation_id = "list_sources",
    tag = "ground",
    responses(
        ListProblems,
        (status = 200, description = "The entries of the registry, each with whether it answers", body = Vec<ListedSource>),
    ),
)]
pub async fn list(State(service): State<Arc<Service>>) -> Result<Json<Vec<ListedSource>>, Problem> {
    let now = service.system.clock.now();
    let store = &service.system.store;
    let listed = store.sources()?.into_iter().map(|state| {
        let known = store.ontology(&state.entry.registration.ontology)?;
        let axes = known.iter().flat_map(Ontology::identity);
        let identity = axes.map(|axis| axis.axis.clone()).collect();
        let (answers, note) = match state.entry.standing(now) {
            Standing::Answers => (true, None),
            Standing::AnswersWithWarning(note) => (true, Some(note)),
            Standing::Silent(note) => (false, Some(note)),
        };
        let statements = state.files.iter().map(|file| file.statements).sum();
        let size_bytes = state.files.iter().map(|file| file.size_bytes).sum();
        Ok(ListedSource { entry: state.entry, identity, answers, note, statements, size_bytes })
    });
    listed.collect::<Result<_, Problem>>().map(Json)
}
