//! The metrics of open reviews.

use crate::platform::problem::Problem;
use crate::platform::scraped_metrics::MetricsText;
use crate::platform::service::{DaemonService, run_blocking};
use domain_ground::id::WorkflowId;
use domain_verification::review::OPEN_REVIEWS;
use domain_verification::workflow::Workflow;
use oracled_store::StoreError;
use std::sync::Arc;

/// Reads the open reviews, in total and of each workflow, and when the oldest was opened.
pub(crate) async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let store = service.system.store.clone();
    let read = run_blocking(move || {
        let of = |workflow_id: WorkflowId| {
            let open = store.open_reviews_of(&workflow_id)?;
            Ok::<_, StoreError>((format!("workflow=\"{workflow_id}\""), open))
        };
        let open = store.all_registered::<Workflow>().and_then(|workflows| {
            workflows.into_iter().map(|registered| of(registered.document.workflow_id)).collect()
        });
        Ok::<_, StoreError>((store.oldest_open_review_at(), open))
    });
    let mut text = MetricsText::default();
    text.gauge("reviews_open", "open reviews", service.journal_report().counts.of(OPEN_REVIEWS.name));
    // damage of one must not hide the others
    let (oldest_at, open) = read.await?;
    let oldest_at = oldest_at.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the oldest review");
        None
    });
    let open = open.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the open reviews of workflows");
        Vec::new()
    });
    text.gauges(
        "review_oldest_open_timestamp_seconds",
        "when the oldest open review was opened",
        oldest_at.map(|at| ("", at.as_second())),
    );
    text.gauges("workflow_reviews_open", "open reviews of a workflow", open);
    Ok(text)
}
