//! Resolving a review, which puts its locks in force.

use super::Verifier;
use super::case::{Case, Closed};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::CommitError;
use jiff::Timestamp;
use oracled_domain::audit::event::verification::ResolutionEntry;
use oracled_domain::ground::ontology::{Ontology, OntologyRef};
use oracled_domain::verification::deviation::put_back;
use oracled_domain::verification::review::{BadResolution, HeldAgainst, Resolution, Resolved, ReviewState};
use oracled_domain::verification::{Baseline, HumanLock, Review, Subject};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Expect, Record, RowKey, StoreError, Write};
use std::sync::Arc;

/// Resolves a review.
#[derive(Debug)]
pub struct Resolve {
    /// Id of the review.
    pub review_id: String,
    /// The decision.
    pub resolution: Resolution,
    /// The reviewer.
    pub peer: Peer,
}

/// Why a review is not resolved. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review is already closed.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The ontology of the review is not registered.
    #[error("no ontology {0} is registered")]
    OntologyUnknown(OntologyRef),
    /// The resolution is invalid.
    #[error(transparent)]
    Bad(#[from] BadResolution),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The resolution could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// A reviewer's decision and its time.
struct Word<'a> {
    resolution: &'a Resolution,
    peer: Peer,
    verifier_id: String,
    now: Timestamp,
}

impl Verifier {
    pub(super) async fn resolve(&self, message: &Resolve) -> Result<ReviewState, ResolveError> {
        let mut resolved = 0;
        let (state, _) = self
            .doors
            .log
            .decide_and_commit(|| {
                let (state, record) = self.resolved(message)?;
                resolved = record.events.len() as u64;
                Ok::<_, ResolveError>(Decided::Change(state, record))
            })
            .await?;
        self.metrics.verifying.resolved(resolved);
        Ok(state)
    }

    /// Returns the resolved review, and the record that stores it.
    fn resolved(
        &self,
        Resolve { review_id, resolution, peer }: &Resolve,
    ) -> Result<(ReviewState, Record), ResolveError> {
        let case = self.case(review_id, ResolveError::Unknown)?;
        case.check_open()?;
        let review = &case.state.review;
        let ontology = self.store.ontology(&review.ontology)?;
        let ontology = ontology.ok_or_else(|| ResolveError::OntologyUnknown(review.ontology.clone()))?;
        let word = Word { resolution, peer: *peer, verifier_id: peer.uid.to_string(), now: self.clock.now() };
        let locks = review.resolve(&ontology, resolution, &word.verifier_id, word.now)?;
        Ok(self.record_of(case, &locks, &ontology, &word)?)
    }

    /// Returns the resolved review, and the record that stores it. The record also resolves the open reviews of the same
    /// subject that this decision settles.
    fn record_of(
        &self,
        mut case: Case,
        locks: &[HumanLock],
        ontology: &Ontology,
        word: &Word<'_>,
    ) -> Result<(ReviewState, Record), StoreError> {
        case.close();
        let Case { state, subject, .. } = &mut case;
        let mut beside = Record::default();
        let mut still_open = Vec::new();
        for open in std::mem::take(&mut subject.open) {
            let other = self.store.review(&open.review_id)?;
            let settled = other.filter(|(other, _)| state.review.settles(&other.review));
            let Some((other, revision)) = settled else {
                still_open.push(open);
                continue;
            };
            beside.expect.push(Expect { row: RowKey::Review(open.review_id), revision: Some(revision) });
            beside.events.push(word.entry(&other.review, Vec::new()));
            beside.writes.push(Write::PutReview(Arc::new(word.on(&other.review))));
        }
        subject.open = still_open;
        subject.locks.retain(|lock| word.now < lock.valid_until);
        let is_replaced = |lock: &HumanLock| {
            lock.ontology == state.review.ontology
                && (lock.point_in_time, lock.known_at) == (state.review.point_in_time, state.review.known_at)
                && state.review.axes.contains_key(&lock.axis)
        };
        let (replaced, others): (Vec<_>, _) =
            std::mem::take(&mut subject.locks).into_iter().partition(is_replaced);
        subject.locks = others;
        let mut confirmed = Vec::new();
        for lock in replaced {
            let by = self.store.review(&lock.review_id)?.and_then(|(state, _)| state.resolved);
            let before = by.map(|by| by.held_against).unwrap_or_default();
            let says_so = |new: &HumanLock| {
                (&new.axis, &new.value, &new.definition) == (&lock.axis, &lock.value, &lock.definition)
            };
            if locks.iter().any(says_so) {
                confirmed.push((lock.axis, before));
            } else {
                put_back(&mut subject.baselines, &before, |path| path == lock.axis);
            }
        }
        subject.locks.extend(locks.iter().cloned());
        let mut before = confirm(subject, &state.review, locks, ontology);
        // a deviation that is confirmed again keeps the baseline from before its first confirmation
        for (axis, earlier) in confirmed {
            for (oracle_id, mut earlier) in earlier {
                let earlier = earlier.remove_entry(&axis);
                before.entry(oracle_id).or_default().extend(earlier);
            }
        }
        *state = word.on(&state.review);
        state.resolved.iter_mut().for_each(|resolved| resolved.held_against.clone_from(&before));
        let entry = word.entry(&state.review, locks.to_vec());
        let (state, mut record) = case.recorded(entry);
        record.expect.extend(beside.expect);
        record.events.extend(beside.events);
        record.writes.extend(beside.writes);
        Ok((state, record))
    }
}

/// Makes the deviating values that the reviewer has confirmed the new baselines. Returns the previous baselines, to restore
/// them on revocation.
fn confirm(subject: &mut Subject, review: &Review, locks: &[HumanLock], ontology: &Ontology) -> HeldAgainst {
    let mut before = HeldAgainst::new();
    if !review.is_about_the_present() {
        return before;
    }
    for (oracle_id, candidate) in &review.candidates {
        for path in candidate.deviations.keys() {
            let Some(baseline) = Baseline::of(candidate, path) else { continue };
            let lock = locks.iter().find(|lock| lock.axis == *path);
            let is_confirmed = lock.zip(ontology.axis(path)).is_some_and(|(lock, axis)| {
                let (said, decided) = (baseline.stated.value.typed(axis), lock.value.typed(axis));
                lock.definition == baseline.stated.definition
                    && said.is_ok_and(|said| decided.is_ok_and(|decided| said == decided))
            });
            if is_confirmed {
                let of_source = subject.baselines.entry(oracle_id.clone()).or_default();
                let old = of_source.insert(path.clone(), baseline);
                before.entry(oracle_id.clone()).or_default().insert(path.clone(), old);
            }
        }
    }
    before
}

impl Word<'_> {
    /// `review` with this decision.
    fn on(&self, review: &Review) -> ReviewState {
        let resolved = Resolved {
            resolution: self.said_of(review),
            verifier_id: self.verifier_id.clone(),
            resolved_at: self.now,
            held_against: HeldAgainst::new(),
        };
        ReviewState { resolved: Some(resolved), ..ReviewState::opened(review.clone()) }
    }

    fn entry(&self, review: &Review, locks: Vec<HumanLock>) -> Event {
        Event::new(
            self.now,
            None,
            EventKind::ReviewResolved(ResolutionEntry {
                review_id: review.review_id.clone(),
                resolution: self.said_of(review),
                locks,
                peer: self.peer,
            }),
        )
    }

    /// The part of the decision that concerns `review`.
    fn said_of(&self, review: &Review) -> Resolution {
        let mut said = self.resolution.clone();
        said.values.retain(|axis, _| review.axes.contains_key(axis));
        said.definitions.retain(|axis, _| review.axes.contains_key(axis));
        said
    }
}
