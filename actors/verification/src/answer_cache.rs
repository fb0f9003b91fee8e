//! Caching the answers of live sources.

use domain_verification::{CachedAnswer, CachedAnswerKey, CallOutcome, Envelope};
use oracled_store::{RowExpectation, RowWrite, Store, StoreError};

/// An answer of a live source to cache, or only its issue time.
pub(super) struct CacheableAnswer {
    pub(super) key: CachedAnswerKey,
    pub(super) answer: CachedAnswer,
    /// Whether the answer may be served again. If not, only its issue time is stored.
    pub(super) may_be_served: bool,
}

impl CacheableAnswer {
    /// Whether the decision accepted the answer.
    pub(super) fn is_accepted_in(&self, envelope: &Envelope) -> bool {
        let outcome = envelope.candidates.iter().find(|outcome| outcome.oracle_id == self.key.oracle_id);
        outcome.is_some_and(|outcome| outcome.outcome == CallOutcome::Answered && !outcome.stale)
    }

    /// Returns the write that caches the answer. `None` if the cached answer is newer: decisions about one
    /// subject may overtake each other, and a source may repeat an old answer. An answer that must not be
    /// served also replaces an older one that could be served. But if the answer `is_doubted`, because it
    /// deviates from the baseline, it does not replace the cached one.
    pub(super) fn cache_write(
        &self,
        store: &Store,
        is_doubted: bool,
    ) -> Result<Option<(RowExpectation, RowWrite)>, StoreError> {
        let known = store.cached_answer(&self.key)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let (mut answer, mut may_be_served) = (self.answer.clone(), self.may_be_served && !is_doubted);
        let as_of = |answer: &CachedAnswer| {
            (answer.issued_at, answer.candidate.as_ref().map(|candidate| candidate.observed_at))
        };
        if let Some((known, _)) = known {
            let is_comparable =
                known.adapter_sha256 == answer.adapter_sha256 && known.point_in_time == answer.point_in_time;
            if is_comparable && as_of(&known) > as_of(&answer) {
                return Ok(None);
            }
            answer.issued_at = answer.issued_at.max(known.issued_at);
            if is_comparable && is_doubted {
                may_be_served = known.candidate.is_some();
                answer = CachedAnswer { issued_at: answer.issued_at, ..known };
            }
        } else if !may_be_served && answer.issued_at.is_none() {
            return Ok(None);
        }
        if !may_be_served {
            answer = answer.without_candidate();
        }
        let expect = RowExpectation::new::<CachedAnswer>(&self.key, revision);
        Ok(Some((expect, RowWrite::put_at(&self.key, &answer))))
    }
}
