//! `GET /v1/divergence`: how often which verdict was regenerated as which, as the log tells.

use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use jiff::Timestamp;
use oracled_actors::verdict::regen::AskVariance;
use oracled_domain::verdict::divergence::{DivergenceTable, Variance};
use oracled_domain::{Event, EventKind};
use oracled_store::{LogQuery, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// So many entries are read at a time.
const AT_ONCE: usize = 1000;

/// From when on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Without it, from the first entry on.
    since: Option<Timestamp>,
}

/// The table, and how the latest regenerations do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Divergences {
    /// Regenerations, by the first verdict and the regenerated one.
    pub table: DivergenceTable,
    /// The latest ones.
    pub variance: Variance,
}

/// The table.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Divergences>, Problem> {
    let Query(Asked { since }) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let store = service.system.store.clone();
    let table = tokio::task::spawn_blocking(move || counted(&store, since)).await;
    let table = table.map_err(|error| Problem::Internal(error.to_string()))??;
    let variance = service.system.regen.ask(AskVariance).await?;
    Ok(Json(Divergences { table, variance }))
}

fn counted(store: &Store, since: Option<Timestamp>) -> Result<DivergenceTable, StoreError> {
    let mut table = DivergenceTable::default();
    let event = Some("regen_divergence_check".to_owned());
    let mut query = LogQuery { event, since, limit: AT_ONCE, ..LogQuery::default() };
    loop {
        let lines = store.log(&query)?;
        let Some(last) = lines.last() else { return Ok(table) };
        query.after = last.seq;
        for line in &lines {
            if let Ok(Event { kind: EventKind::RegenDivergenceCheck(check), .. }) =
                serde_json::from_str(&line.json)
            {
                table.count(&check);
            }
        }
    }
}
