//! `GET /v1/executions/{execution_id}`: what was decided of one question, over what, out of the log alone.

use super::named;
use crate::api::verify::decisions;
use crate::problem::Problem;
use crate::service::Service;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain::verification::{Envelope, Inputs};
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
    /// The envelope that they come to.
    pub envelope: Box<Envelope>,
    /// That it is the one that was told then, to the byte: where it is not, there is an error in the place of all this.
    pub reproduced: bool,
}

/// The decisions of an execution, each taken again.
///
/// # Errors
/// `ExecutionUnknown`; `NotReproduced` where one does not come out as it did.
pub async fn get(
    State(service): State<Arc<Service>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Explained>, Problem> {
    let decisions = decisions(&service.system.store, named(execution_id)?).await?;
    let taken_again = decisions.into_iter().map(|entry| {
        let envelope = Box::new(entry.rebuilt()?);
        Ok(Decision { inputs: entry.inputs, envelope, reproduced: true })
    });
    Ok(Json(Explained { decisions: taken_again.collect::<Result<_, Problem>>()? }))
}
