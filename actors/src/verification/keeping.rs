//! Kept answers of live sources.

use oracled_domain::verification::{CallOutcome, Envelope, KeptAnswer, KeptKey};
use oracled_store::{Expect, RowKey, Store, StoreError, Write};
use std::sync::Arc;

/// An answer of a live source that is to be kept, or when it was issued.
pub(super) struct Kept {
    pub(super) key: KeptKey,
    pub(super) answer: KeptAnswer,
    /// Whether it may be served again; else only when it was issued counts.
    pub(super) may_be_served: bool,
}

impl Kept {
    /// Whether the decision has taken it as an answer.
    pub(super) fn counts_in(&self, envelope: &Envelope) -> bool {
        let outcome = envelope.candidates.iter().find(|outcome| outcome.oracle_id == self.key.oracle_id);
        outcome.is_some_and(|outcome| outcome.outcome == CallOutcome::Answered && !outcome.stale)
    }

    /// What keeps it, unless what is kept is newer: decisions about one thing may overtake one another, and a source may say
    /// once more what it said long ago. What is not to be served leaves nothing to be served that was said before it; but what
    /// `is_doubted`, since it jumps away from that, does not take its place.
    pub(super) fn write(
        &self,
        store: &Store,
        is_doubted: bool,
    ) -> Result<Option<(Expect, Write)>, StoreError> {
        let known = store.kept(&self.key)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let (mut answer, mut may_be_served) = (self.answer.clone(), self.may_be_served && !is_doubted);
        let as_of = |answer: &KeptAnswer| {
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
                answer = KeptAnswer { issued_at: answer.issued_at, ..known };
            }
        } else if !may_be_served && answer.issued_at.is_none() {
            return Ok(None);
        }
        if !may_be_served {
            answer = answer.unserved();
        }
        let expect = Expect { row: RowKey::Kept(self.key.clone()), revision };
        Ok(Some((expect, Write::PutKept(self.key.clone(), Arc::new(answer)))))
    }
}
