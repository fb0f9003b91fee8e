//! Queries of live sources by their adapters, and the cache of their answers.

use super::Verifier;
use super::source::{Errand, Said, bounded};
use crate::upstream::oracle::{LiveAnswer, LiveAsk};
use jiff::Timestamp;
use oracled_domain::ground::source::AdapterId;
use oracled_domain::verification::adapter::Adapter;
use oracled_domain::verification::adapter::Ready;
use oracled_domain::verification::{Candidate, Inputs, KeptAnswer, Reply};
use oracled_store::StoreError;
use oracled_store::ground::view::SourceView;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A validated adapter, with the revisions that it was validated from.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The revisions of the adapter and of its source.
    made_of: (u64, u64),
    ready: Arc<Ready>,
}

impl Verifier {
    /// The validated adapter of a live source, for its current registration; `None` for a source that is not live.
    ///
    /// # Errors
    /// Why the source cannot be queried, as text.
    pub(super) fn adapter(&self, view: &SourceView) -> Result<Option<Arc<Ready>>, String> {
        let registration = &view.state.entry.registration;
        if registration.adapter_id != AdapterId::Http {
            return Ok(None);
        }
        let oracle_id = &registration.oracle_id;
        let registered =
            self.store.registered::<Adapter>(oracle_id.as_str()).map_err(|error| error.to_string())?;
        let (registered, revision) = registered.ok_or("it is live, and no adapter is registered for it")?;
        let made_of = (revision, view.revision);
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = adapters.get(oracle_id).filter(|known| known.made_of == made_of) {
            return Ok(Some(Arc::clone(&known.ready)));
        }
        let ready = registered.document.validate(registration, Arc::new(view.ontology.clone()));
        let ready = Arc::new(ready.map_err(|error| format!("its adapter does not work: {error}"))?);
        adapters.insert(oracle_id.clone(), Prepared { made_of, ready: Arc::clone(&ready) });
        Ok(Some(ready))
    }

    /// Queries a live source.
    pub(super) async fn live(&self, errand: &Errand, adapter: &Arc<Ready>) -> Said {
        let Inputs { question, workflow, execution_id, .. } = &*errand.inputs;
        let kept = match self.known(errand) {
            Ok(kept) => kept,
            Err(error) => return Said::failed(error.to_string()),
        };
        let ask = LiveAsk {
            adapter: Arc::clone(adapter),
            oracle_tier: errand.tier(),
            authority: errand.view.state.entry.registration.authority(None),
            thing: question.thing.clone(),
            point_in_time: question.point_in_time,
            kept,
            within: Duration::from_millis(workflow.oracle_latency.hard_timeout_ms),
            execution_id: execution_id.clone(),
        };
        let LiveAnswer { reply, keep, outcome, warnings } = self.config.live.ask(ask).await;
        Said { reply, before: None, keep, warnings, outcome }
    }

    /// The cached answer to this question. It may contain only the issue time of the last answer.
    fn known(&self, errand: &Errand) -> Result<Option<KeptAnswer>, StoreError> {
        let kept = self.store.kept(&errand.kept_key())?;
        Ok(kept.map(|(kept, _)| kept.for_question(errand.inputs.question.point_in_time)))
    }

    /// The cached answer to this question, if it has not expired.
    fn kept(&self, errand: &Errand, now: Timestamp) -> Option<KeptAnswer> {
        let adapter = errand.adapter.as_ref()?;
        let kept = self.known(errand).inspect_err(|error| {
            tracing::error!(oracle_id = %errand.oracle_id, %error, "could not read the cached answer of a source");
        });
        kept.ok()?.filter(|kept| adapter.is_kept(kept, now))
    }

    /// The cached answer if it can be used without a query: it is fresh by its own ttl and by the source's policy.
    pub(super) fn still_fresh(&self, errand: &Errand, now: Timestamp) -> Option<Candidate> {
        let adapter = errand.adapter.as_ref()?;
        let kept = self.kept(errand, now).filter(|kept| adapter.still_holds(kept, now))?;
        let candidate = errand.looked_at(kept.candidate?, kept.invalidation_count, now);
        candidate.freshness.iter().all(|axis| !axis.stale).then_some(candidate)
    }

    /// The cached answer to serve in place of a missing one, if that is allowed by the current registration of the source
    /// and its adapter.
    pub(super) fn in_its_place(&self, errand: &Errand) -> Option<Box<Candidate>> {
        let now = self.clock.now();
        let errand = self.errand(&errand.inputs, &errand.oracle_id).ok()?;
        let kept = self.kept(&errand, now)?;
        match bounded(errand.looked_at(kept.candidate?, kept.invalidation_count, now)) {
            Reply::Answered { candidate } => Some(candidate),
            _ => None,
        }
    }
}
