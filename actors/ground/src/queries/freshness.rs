//! How a source's freshness policy applies to answers.

use super::QueryService;
use crate::ingestion::RefreshSource;
use crate::registry::policy_of;
use actors_platform::caller::spawn_for_caller;
use domain_ground::freshness::{AnswerFreshness, AnswerHandling};
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use domain_ground::timeline::ReleaseScope;
use jiff::Timestamp;
use oracled_store::ground::view::SourceView;
use tokio::time::timeout;

/// The data of a source is too old for its policy.
#[derive(Debug, thiserror::Error)]
#[error("the data of source {oracle_id} is stale: {}", .freshness.warnings.join("; "))]
pub struct StaleDataError {
    pub oracle_id: SourceId,
    /// The age of the data, and the allowed age.
    pub freshness: Box<AnswerFreshness>,
}

/// The freshness on `axes` of a release from `as_of`, evaluated at `past`, or at `now` for a question about
/// the present. `scope` limits the releases that count.
pub(super) fn evaluate_freshness(
    view: &SourceView,
    axes: &[&str],
    as_of: Option<Timestamp>,
    past: Option<Timestamp>,
    now: Timestamp,
    scope: ReleaseScope,
) -> AnswerFreshness {
    let invalidated_at = view.state.invalidated_at(past, scope);
    policy_of(&view.state, &view.ontology).evaluate(axes, as_of, invalidated_at, past.unwrap_or(now))
}

/// The trust tier of a source for data of this freshness.
pub(super) const fn tier_of(view: &SourceView, freshness: &AnswerFreshness) -> OracleTier {
    let tier = view.state.entry.registration.oracle_tier;
    if matches!(freshness.answer, AnswerHandling::DegradeTier) { tier.lower() } else { tier }
}

impl QueryService {
    /// Returns `given` if the policy allows it, and begins a refresh if one is due. `None` means that this call waited
    /// for a refresh, so the caller must read the source again. A caller waits at most once: `waited` is then true.
    pub(super) async fn enforce_policy<T>(
        &self,
        oracle_id: &SourceId,
        freshness: &AnswerFreshness,
        given: Option<T>,
        waited: &mut bool,
    ) -> Result<Option<T>, StaleDataError> {
        if freshness.answer == AnswerHandling::BlockUntilFresh && !*waited {
            *waited = true;
            self.wait_for_refresh(oracle_id.clone()).await;
            return Ok(None);
        }
        let given = given.filter(|_| freshness.answer.is_served());
        if freshness.refresh && (given.is_some() || !*waited) {
            self.begin_refresh(oracle_id.clone());
        }
        let stale =
            || StaleDataError { oracle_id: oracle_id.clone(), freshness: Box::new(freshness.clone()) };
        given.map(Some).ok_or_else(stale)
    }

    /// Waits for a refresh of the source, for at most the configured time.
    async fn wait_for_refresh(&self, oracle_id: SourceId) {
        let refreshed =
            timeout(self.refresh_wait, self.ingestion.ask(RefreshSource(oracle_id.clone()))).await;
        if let Ok(Ok(Err(error))) = refreshed {
            tracing::debug!(%oracle_id, %error, "could not refresh the source");
        }
    }

    /// Begins a refresh of the source without waiting for it.
    fn begin_refresh(&self, oracle_id: SourceId) {
        let ingestion = self.ingestion.clone();
        spawn_for_caller(async move {
            match ingestion.ask(RefreshSource(oracle_id.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%oracle_id, %error, "could not refresh the source"),
                Err(error) => tracing::warn!(%oracle_id, %error, "could not begin a refresh"),
            }
        });
    }
}
