//! Queries of live sources by their adapters, and the cache of their answers.

use super::VerificationContext;
use super::source::{SourceCallRequest, UncheckedReply, limit_candidate_size};
use actors_upstream::oracle::{LiveAnswer, LiveQuery};
use domain_ground::source::SourceAdapterKind;
use domain_verification::adapter::{Adapter, ValidatedAdapter};
use domain_verification::{CachedAnswer, CandidateAnswer, DecisionInputs, OracleReply};
use jiff::Timestamp;
use oracled_store::StoreError;
use oracled_store::ground::view::SourceView;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A validated adapter, with the revisions that it was validated from.
#[derive(Debug)]
pub(super) struct CachedAdapter {
    /// The revisions of the adapter and of its source.
    validated_from: (u64, u64),
    adapter: Arc<ValidatedAdapter>,
}

impl VerificationContext {
    /// The validated adapter of a live source, for its current registration; `None` for a source that is not live.
    ///
    /// # Errors
    /// Why the source cannot be queried, as text.
    pub(super) fn adapter(&self, view: &SourceView) -> Result<Option<Arc<ValidatedAdapter>>, String> {
        let registration = &view.state.entry.registration;
        if registration.adapter_id != SourceAdapterKind::Http {
            return Ok(None);
        }
        let oracle_id = &registration.oracle_id;
        let registered =
            self.store.registered::<Adapter>(oracle_id.as_str()).map_err(|error| error.to_string())?;
        let (registered, revision) = registered.ok_or("it is live, and no adapter is registered for it")?;
        let made_of = (revision, view.revision);
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = adapters.get(oracle_id).filter(|known| known.validated_from == made_of) {
            return Ok(Some(Arc::clone(&known.adapter)));
        }
        let ready = registered.document.validate(registration, Arc::new(view.ontology.clone()));
        let ready = Arc::new(ready.map_err(|error| format!("its adapter does not work: {error}"))?);
        adapters.insert(
            oracle_id.clone(),
            CachedAdapter { validated_from: made_of, adapter: Arc::clone(&ready) },
        );
        Ok(Some(ready))
    }

    pub(super) async fn query_live_source(
        &self,
        request: &SourceCallRequest,
        adapter: &Arc<ValidatedAdapter>,
    ) -> UncheckedReply {
        let DecisionInputs { question, workflow, execution_id, .. } = &*request.inputs;
        let cached = match self.stored_answer(request) {
            Ok(cached) => cached,
            Err(error) => return UncheckedReply::failed(error.to_string()),
        };
        let ask = LiveQuery {
            adapter: Arc::clone(adapter),
            oracle_tier: request.tier(),
            authority: request.view.state.entry.registration.authority(None),
            identity: question.thing.clone(),
            point_in_time: question.point_in_time,
            cached_answer: cached,
            timeout: Duration::from_millis(workflow.oracle_latency.hard_timeout_ms),
            execution_id: execution_id.clone(),
        };
        let LiveAnswer { reply, answer_to_cache: keep, outcome, warnings } = self.config.live.ask(ask).await;
        UncheckedReply { reply, earlier_statement: None, answer_to_cache: keep, warnings, outcome }
    }

    /// The cached answer to this question. It may contain only the issue time of the last answer.
    fn stored_answer(&self, request: &SourceCallRequest) -> Result<Option<CachedAnswer>, StoreError> {
        let stored = self.store.cached_answer(&request.cached_answer_key())?;
        Ok(stored.map(|(cached, _)| cached.for_question(request.inputs.question.point_in_time)))
    }

    /// The cached answer to this question, if it has not expired.
    fn unexpired_answer(&self, request: &SourceCallRequest, now: Timestamp) -> Option<CachedAnswer> {
        let adapter = request.adapter.as_ref()?;
        let cached = self.stored_answer(request).inspect_err(|error| {
            tracing::error!(oracle_id = %request.oracle_id, %error, "could not read the cached answer of a source");
        });
        cached.ok()?.filter(|cached| adapter.is_usable(cached, now))
    }

    /// The cached answer if it can be used without a query: it is fresh by its own ttl and by the source's policy.
    pub(super) fn fresh_cached_candidate(
        &self,
        request: &SourceCallRequest,
        now: Timestamp,
    ) -> Option<CandidateAnswer> {
        let adapter = request.adapter.as_ref()?;
        let cached = self.unexpired_answer(request, now).filter(|cached| adapter.is_fresh(cached, now))?;
        let candidate = request.prepare_candidate(cached.candidate?, cached.invalidation_count, now);
        candidate.freshness.iter().all(|axis| !axis.stale).then_some(candidate)
    }

    /// The cached answer to serve in place of a missing one, if that is allowed by the current registration
    /// of the source and its adapter.
    pub(super) fn substitute_candidate(&self, request: &SourceCallRequest) -> Option<Box<CandidateAnswer>> {
        let now = self.clock.now();
        let request = self.prepare_source_call(&request.inputs, &request.oracle_id).ok()?;
        let cached = self.unexpired_answer(&request, now)?;
        match limit_candidate_size(request.prepare_candidate(
            cached.candidate?,
            cached.invalidation_count,
            now,
        )) {
            OracleReply::Answered { candidate } => Some(candidate),
            _ => None,
        }
    }
}
