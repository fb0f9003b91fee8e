//! `/v1/workflows`: whom to ask about what, how conflicts are settled, and how long to wait.

use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::ground::registry::{RegistryError, check_workflow};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::verification::WorkflowDetails;
use oracled_domain::Peer;
use oracled_domain::ground::id::WorkflowId;
use oracled_domain::ground::source::{AdapterId, OracleTier, ReviewStatus};
use oracled_domain::verification::workflow::{RegisteredWorkflow, Workflow};
use oracled_store::Store;
use std::sync::Arc;

/// Every workflow, in the order of their ids.
///
/// # Errors
/// Where the store cannot be read.
pub async fn list(State(service): State<Arc<Service>>) -> Result<Json<Vec<WorkflowDetails>>, Problem> {
    let workflows = service.system.store.workflows()?;
    workflows
        .into_iter()
        .map(|registered| looked_at(&service, registered))
        .collect::<Result<_, _>>()
        .map(Json)
}

/// A workflow.
///
/// # Errors
/// `WorkflowUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    workflow_id: Result<Path<String>, PathRejection>,
) -> Result<Json<WorkflowDetails>, Problem> {
    let workflow_id: WorkflowId = named(workflow_id)?;
    let unknown =
        || Problem::new(ProblemCode::WorkflowUnknown, format!("no workflow {workflow_id} is registered"));
    let (registered, _) = service.system.store.workflow(&workflow_id)?.ok_or_else(unknown)?;
    looked_at(&service, registered).map(Json)
}

/// Registers a workflow, or another definition of one.
///
/// # Errors
/// `InvalidDocument`, with the first that speaks against it, an unknown source too; `OntologyUnknown`; where the entry cannot
/// be committed, and then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    workflow_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<RegisteredWorkflow>>, Problem> {
    let workflow_id: WorkflowId = named(workflow_id)?;
    let workflow: Box<Workflow> = document.read()?;
    check_named("workflow_id", &workflow_id, &workflow.workflow_id)?;
    act(async move { Ok(registered(service.system.registry.register(&*workflow, peer).await?)) }).await
}

fn looked_at(service: &Service, registered: RegisteredWorkflow) -> Result<WorkflowDetails, Problem> {
    let fault = match check_workflow(&service.system.store, &registered.workflow) {
        Ok(()) => still_to_do(&service.system.store, &registered.workflow)?,
        Err(RegistryError::Workflow(fault)) => Some(fault.to_string()),
        Err(error) => return Err(error.into()),
    };
    Ok(WorkflowDetails { registered, fault })
}

/// What is still to be done about sources of a workflow before it decides anything on their axes; nothing where nothing is.
fn still_to_do(store: &Store, workflow: &Workflow) -> Result<Option<String>, Problem> {
    let mut missing = Vec::new();
    for oracle_id in &workflow.oracles {
        let Some((state, _)) = store.source(oracle_id)? else { continue };
        let registration = &state.entry.registration;
        let is_live = registration.adapter_id == AdapterId::Http;
        let cause = match state.entry.review_status {
            // nobody waits for these
            _ if registration.oracle_tier == OracleTier::Unverified => continue,
            ReviewStatus::Pending => "is not approved",
            _ if is_live && store.adapter(oracle_id)?.is_none() => "is live and has no adapter",
            _ if !is_live && state.entry.version_history.is_empty() => "has no version yet",
            _ => continue,
        };
        missing.push(format!("{oracle_id} {cause}"));
    }
    Ok((!missing.is_empty())
        .then(|| format!("not all of its sources can be asked yet: {}", missing.join("; "))))
}
