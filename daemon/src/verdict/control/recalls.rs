//! `/v1/recalls`: delivered verdicts that relied on statements that differ now; and the task that keeps their index.

use crate::ground::RUN;
use crate::ground::control::run::find_run_of_digits;
use crate::platform::api::request::QueryParams;
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::recall::{RecallError, RecallQuery, RecallScope};
use axum::Json;
use axum::extract::State;
use domain_audit::event::ReadSubject;
use domain_base::problem::{FACTS_NOT_HERE, INTERNAL_ERROR, INVALID_REQUEST, SOURCE_DAMAGED};
use domain_ground::problem::{RECORD_UNKNOWN, SOURCE_UNKNOWN};
use domain_verdict::wire::{RecallParams, RecallResponse};
use oracled_store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

/// The pause between two updates of the index.
const PAUSE: Duration = Duration::from_secs(10);
/// The time of an update, after which others can use the index.
const STEP: Duration = Duration::from_millis(500);

problems!(RecallProblems: RUN STORE; SOURCE_UNKNOWN RECORD_UNKNOWN SOURCE_DAMAGED FACTS_NOT_HERE);

/// List the delivered verdicts that relied on statements of a source that differ now.
///
/// The rules of each verdict are applied again with the present facts. Nothing that was delivered is changed. The entry
/// `operator_read` in the log names the reader of claims.
#[utoipa::path(
    get,
    path = "/v1/recalls",
    operation_id = "list_recalls",
    tag = "verdict",
    params(RecallParams),
    responses(
        RecallProblems,
        (status = 200, description = "A page of verdicts", body = RecallResponse),
    ),
)]
pub async fn list_recalls(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    QueryParams(params): QueryParams<RecallParams>,
) -> Result<Json<RecallResponse>, Problem> {
    let recalls = service.system.recalls.clone();
    let store = service.system.store.clone();
    let answer = run_blocking(move || recalls.recall(&query_of(&store, params)?).map_err(Problem::from));
    let answer = answer.await?;
    if !answer.verdicts.is_empty() {
        read.log(&service, ReadSubject::Recall).await?;
    }
    Ok(Json(answer))
}

fn query_of(store: &Store, params: RecallParams) -> Result<RecallQuery, Problem> {
    let RecallParams { oracle_id, run, record, since, after, limit } = params;
    let scope = match (run, record, since) {
        (None, None, None) => RecallScope::Source,
        (Some(digits), None, None) => RecallScope::Run(find_run_of_digits(store, &digits)?.run_id),
        (None, Some(record_id), None) => RecallScope::Record(record_id),
        (None, None, Some(since)) => RecallScope::Since(since),
        _ => {
            let detail = "`run`, `record` and `since` exclude each other; send one of them";
            return Err(Problem::new(INVALID_REQUEST, detail));
        }
    };
    Ok(RecallQuery { oracle_id, scope, after: after.unwrap_or_default(), limit: *limit })
}

impl From<RecallError> for Problem {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::SourceUnknown(_) => Self::new(SOURCE_UNKNOWN, error.to_string()),
            RecallError::RunUnknown(run_id) => Self::run_unknown(run_id),
            RecallError::RecordUnknown { .. } => Self::new(RECORD_UNKNOWN, error.to_string()),
            RecallError::Store(error) => error.into(),
            RecallError::Commit(error) => error.into(),
            RecallError::Task(_) => Self::new(INTERNAL_ERROR, error.to_string()),
        }
    }
}

/// The pause between two steps of the index.
const BETWEEN_STEPS: Duration = Duration::from_millis(10);

/// The task that applies the entries of the log to the index of statements.
#[derive(Debug)]
pub(crate) struct RecallTask(JoinHandle<()>);

impl RecallTask {
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        Self(tokio::spawn(keep_up(Arc::clone(service))))
    }

    pub(crate) fn stop(self) {
        self.0.abort();
    }
}

async fn keep_up(service: Arc<DaemonService>) {
    let (recalls, store) = (&service.system.recalls, &service.system.store);
    loop {
        let indexer = recalls.clone();
        let is_behind = match spawn_blocking(move || indexer.catch_up(STEP)).await {
            Ok(Ok(applied)) => applied < store.last_seq(),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not update the index of statements; retrying");
                false
            }
            Err(error) => {
                tracing::error!(%error, "the update of the index of statements panicked; report this as a bug");
                false
            }
        };
        if is_behind {
            // the lock of the index is not fair: without a pause, requests would wait until the whole log is applied
            sleep(BETWEEN_STEPS).await;
            continue;
        }
        if service.require_turn("recalled verdicts are reported").is_ok()
            && let Err(error) = recalls.notify().await
        {
            tracing::warn!(%error, "could not report recalled verdicts; retrying");
        }
        sleep(PAUSE).await;
    }
}
