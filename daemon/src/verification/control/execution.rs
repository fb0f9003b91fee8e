//! `GET /v1/executions/{execution_id}`: what was decided of one question, over what, out of the log alone.

use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use crate::verification::api::verify::decisions;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use oracled_domain::verification::{Envelope, Inputs};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What was decided under one execution id.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explained {
    /// The decisions, the first one first: two of a workflow that lets nobody wait, one of any other.
    pub decisions: Vec<Decision>,
}

/// One decision.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Everything that it was taken over.
    pub inputs: Box<Inputs>,
    /// The envelope that was told then.
    pub envelope: Box<Envelope>,
    /// Whether they come to it now, too, to the byte.
    pub reproduced: bool,
}

/// The decisions of an execution, each as it was told, and taken again.
///
/// # Errors
/// `ExecutionUnknown`; `DecisionAltered` where the log holds another envelope than was told.
pub async fn get(
    State(service): State<Arc<Service>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Explained>, Problem> {
    let decisions = decisions(&service.system.store, named(execution_id)?).await?;
    let told = decisions.into_iter().map(|entry| {
        entry.told()?;
        let reproduced = entry.is_reproduced();
        Ok(Decision { inputs: entry.inputs, envelope: entry.envelope, reproduced })
    });
    Ok(Json(Explained { decisions: told.collect::<Result<_, Problem>>()? }))
}
