//! One verification: querying the sources, deciding, logging.

use super::asking::Came;
use super::pending::Promise;
use super::{Verifier, VerifyError};
use crate::audit::commit_loop;
use crate::platform::clock::stopwatch;
use oracled_domain::audit::event::verification::{ReviewEntry, SourceAskedEntry, VerificationEntry};
use oracled_domain::ground::id::{SourceId, WorkflowId};
use oracled_domain::verification::deviation::{advanced, deviations, note};
use oracled_domain::verification::envelope::Basis;
use oracled_domain::verification::review::{
    CALLERS_QUEUE_MAX, CALLERS_QUEUE_TOTAL_MAX, QUEUE_MAX, QUEUE_TOTAL_MAX, ReviewState,
};
use oracled_domain::verification::workflow::EnforcementMode;
use oracled_domain::verification::workflow::Workflow;
use oracled_domain::verification::{
    Baseline, Baselines, Envelope, EnvelopeKind, Inputs, Reply, Review, Stage, Subject, SubjectKey,
    VerifyRequest, decide, is_put_to_oracles,
};
use oracled_domain::{Event, EventKind, Sha256Hex};
use oracled_store::{Expect, Record, RowKey, StoreError, Write};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// The part of a budget that is reserved for the decision, so that a substitute for a missing answer is in time, too.
const DECIDING: Duration = Duration::from_millis(20);
/// The reserved part is at most this fraction of the budget.
const DECIDING_PART: u32 = 10;
/// After this number of attempts to commit a decision, its answers are no longer cached: other decisions cache theirs.
const ATTEMPTS_TO_KEEP: usize = 4;
/// Characters of a digest in an execution id.
const TAG_CHARS: usize = 10;

/// A decision with the state that is committed with it.
struct Decided {
    inputs: Inputs,
    envelope: Envelope,
    /// The open reviews, locks and baselines of the subject.
    subject: Subject,
    /// The expected revision of the subject's row. For a question about the past, also that of the present subject.
    people: Vec<Expect>,
}

/// The log events and cached answers that are committed with a decision.
#[derive(Default)]
struct Beside {
    /// The events of the first calls of sources that were queried again afterwards.
    earlier: Vec<Event>,
    came: Came,
}

impl Verifier {
    /// Verifies `request`. `began` is when the caller started to wait.
    pub(super) async fn verify(
        self: Arc<Self>,
        request: &VerifyRequest,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let inputs = self.question(request)?;
        if inputs.workflow.authority_latency.enforcement_mode == EnforcementMode::Async {
            return self.promise(inputs, began).await;
        }
        self.decide(inputs, began).await
    }

    /// Validates the request, and returns the inputs without any calls.
    fn question(&self, request: &VerifyRequest) -> Result<Inputs, VerifyError> {
        let unknown = || VerifyError::WorkflowUnknown(request.workflow.clone());
        let (registered, _) =
            self.store.registered::<Workflow>(request.workflow.as_str())?.ok_or_else(unknown)?;
        let workflow = registered.document;
        let unknown = || VerifyError::OntologyUnknown(workflow.ontology.clone());
        let ontology = self.store.ontology(&workflow.ontology)?.ok_or_else(unknown)?;
        let asked_at = self.clock.now();
        let question = request.read(&workflow, &ontology, asked_at)?;
        // ids sort by time as texts, and are unique across restarts and when the clock jumps back
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let tag = Sha256Hex::of(format!("{question:?} {} {count}", self.born_at).as_bytes());
        let tag: String = tag.as_str().chars().take(TAG_CHARS).collect();
        let execution_id = format!("v-{:014x}-{tag}", asked_at.as_microsecond());
        Ok(Inputs::new(execution_id, workflow, &ontology, question, asked_at))
    }

    /// Commits a pending decision, starts it in the background, and returns its provisional envelope.
    async fn promise(self: Arc<Self>, inputs: Inputs, began: Instant) -> Result<Arc<Envelope>, VerifyError> {
        let envelope = decide(&inputs);
        let promise = if envelope.kind == EnvelopeKind::Provisional {
            Some(Promise::new(&self, &inputs.execution_id).ok_or(VerifyError::Busy)?)
        } else {
            None
        };
        let mut later = Inputs { stage: Stage::Delayed, ..inputs.clone() };
        later.calls.clear();
        let entry = EventKind::VerificationDecided(VerificationEntry::of(inputs.clone(), &envelope));
        let mut record = Record::from(Event::new(envelope.decided_at, None, entry));
        record.writes.extend(promise.is_some().then(|| Write::PutPending(Arc::new(later.clone()))));
        self.doors.log.commit(record).await?;
        self.metrics.verifying.decided(&inputs, &envelope, false, began.elapsed());
        if let Some(promise) = promise {
            promise.begin(later);
        }
        Ok(Arc::new(envelope))
    }

    /// Queries the sources, decides, and commits the decision.
    pub(super) async fn decide(
        self: &Arc<Self>,
        mut inputs: Inputs,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let authority = inputs.workflow.authority_latency;
        let waits = authority.enforcement_mode == EnforcementMode::Inline && inputs.stage == Stage::First;
        let budget = Duration::from_millis(authority.authority_latency_budget_ms).min(self.config.longest);
        let deadline = waits.then(|| began + budget - DECIDING.min(budget / DECIDING_PART));
        let mut beside = Beside::default();
        let is_asked = is_put_to_oracles(&inputs);
        // a question without queries needs no slot, and a pending decision already has its own
        let _place = match deadline.filter(|_| is_asked) {
            Some(deadline) => Some(self.place(deadline).await?),
            None => None,
        };
        // a pending decision queries its sources when its slot is free
        let put_at = if inputs.stage == Stage::Delayed { self.clock.now() } else { inputs.asked_at };
        if is_asked {
            let everyone = inputs.workflow.oracles.iter().cloned().collect();
            beside.came = self.ask_all(&mut inputs, &everyone, put_at, deadline).await;
        }
        let mut decided = self.decided(inputs, &beside.came, began)?;
        let again: BTreeSet<SourceId> =
            decided.envelope.reverify.iter().map(|again| again.oracle_id.clone()).collect();
        if !again.is_empty() && deadline.is_none_or(|deadline| stopwatch() < deadline) {
            let Decided { mut inputs, envelope, .. } = decided;
            let before = SourceAskedEntry::all(&inputs, &envelope);
            let before = before.into_iter().filter(|asked| again.contains(&asked.oracle_id));
            beside.earlier = before.map(|asked| asked_event(&inputs, asked)).collect();
            let came = self.ask_all(&mut inputs, &again, put_at, deadline).await;
            beside.came.kept.extend(came.kept);
            beside.came.before.extend(came.before);
            inputs.reverified = true;
            decided = self.decided(inputs, &beside.came, began)?;
        }
        self.settle(decided, &beside, began).await
    }

    /// Waits for a slot until this time.
    async fn place(&self, until: Instant) -> Result<OwnedSemaphorePermit, VerifyError> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = timeout_at(until, place).await.map_err(|_| VerifyError::Busy)?;
        Ok(place.expect("the semaphore is never closed"))
    }

    /// Decides with the current open reviews, locks and baselines of the subject.
    fn decided(&self, mut inputs: Inputs, came: &Came, began: Instant) -> Result<Decided, StoreError> {
        let mut people = Vec::new();
        let mut read = |key: SubjectKey| {
            let known = self.store.subject(&key)?;
            let revision = known.as_ref().map(|(_, revision)| *revision);
            people.push(Expect { row: RowKey::Subject(key), revision });
            let mut subject = known.map(|(subject, _)| subject).unwrap_or_default();
            self.drop_undone(&mut subject.baselines)?;
            Ok::<_, StoreError>(subject)
        };
        let subject = read(key(&inputs))?;
        (inputs.locks, inputs.open_reviews) = (subject.locks.clone(), subject.open.clone());
        let present = if !inputs.question.is_about_the_present() {
            let present = read(present(&inputs))?;
            // a decision about the present also covers the time since then
            inputs.locks.extend(present.locks.iter().cloned());
            present
        } else {
            subject.clone()
        };
        let question = &inputs.question;
        inputs.locks.retain(|lock| lock.covers(question));
        hold_against(&mut inputs, &present.baselines, came);
        inputs.decided_at = self.clock.now();
        inputs.elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        inputs.queue_is_full = false;
        let mut envelope = decide(&inputs);
        let opens = Review::of(&inputs, &envelope);
        if let Some(review) = opens
            && self.queue_is_full(&review)?
        {
            inputs.queue_is_full = true;
            envelope = decide(&inputs);
        }
        Ok(Decided { inputs, envelope, subject, people })
    }

    /// Removes baselines that come from undone runs.
    fn drop_undone(&self, baselines: &mut Baselines) -> Result<(), StoreError> {
        for (oracle_id, of_source) in baselines.iter_mut() {
            let Some(view) = self.store.view(oracle_id)? else { continue };
            let releases = view.state.completed.iter().map(|completed| &completed.release);
            let undone: Vec<_> = releases.filter(|release| view.known.is_undone(release.run)).collect();
            of_source.retain(|_, said| !undone.iter().any(|release| release.ingested_at == said.verified_at));
        }
        baselines.retain(|_, of_source| !of_source.is_empty());
        Ok(())
    }

    /// Whether the limit of open reviews is reached for the workflow or in total. Reviews that callers can open at will, and
    /// other reviews, have separate limits.
    fn queue_is_full(&self, review: &Review) -> Result<bool, StoreError> {
        let all = self.doors.log.report().borrow().counts.open_reviews;
        let workflow_id = &review.workflow_id;
        let by_callers = |of: Option<&WorkflowId>| self.store.caller_openable_reviews(of);
        // the reviews of a workflow are only counted if all open reviews together could fill its pool
        if review.is_caller_openable() {
            let is_full = all >= CALLERS_QUEUE_MAX && by_callers(Some(workflow_id))? >= CALLERS_QUEUE_MAX;
            return Ok(
                is_full || all >= CALLERS_QUEUE_TOTAL_MAX && by_callers(None)? >= CALLERS_QUEUE_TOTAL_MAX
            );
        }
        let of_sources =
            |all: u64, of: Option<&WorkflowId>| Ok::<_, StoreError>(all.saturating_sub(by_callers(of)?));
        let is_full = all >= QUEUE_MAX
            && of_sources(self.store.open_reviews_of(workflow_id)?, Some(workflow_id))? >= QUEUE_MAX;
        Ok(is_full || all >= QUEUE_TOTAL_MAX && of_sources(all, None)? >= QUEUE_TOTAL_MAX)
    }

    /// Commits a decision. If another commit has changed its rows meanwhile, it is decided again.
    async fn settle(
        &self,
        mut decided: Decided,
        beside: &Beside,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let mut attempt = 0;
        let settled = self.doors.log.decide_and_commit(|| {
            attempt += 1;
            if attempt > 1 {
                decided = self.decided(decided.inputs.clone(), &beside.came, began)?;
            }
            let record = self.record(&decided, beside, attempt <= ATTEMPTS_TO_KEEP)?;
            Ok::<_, VerifyError>(commit_loop::Decided::Change((), record))
        });
        settled.await?;
        let Decided { inputs, envelope, .. } = decided;
        let opened = envelope.review_id.as_ref() == Some(&envelope.execution_id);
        self.metrics.verifying.decided(&inputs, &envelope, opened, began.elapsed());
        Ok(Arc::new(envelope))
    }

    /// The record of a decision. It includes the answers to cache if `keeps`.
    fn record(&self, decided: &Decided, beside: &Beside, keeps: bool) -> Result<Record, StoreError> {
        let Decided { inputs, envelope, subject, people } = decided;
        let mut record = Record { events: beside.earlier.clone(), ..Record::default() };
        let asked = SourceAskedEntry::all(inputs, envelope).into_iter();
        record.events.extend(asked.map(|asked| asked_event(inputs, asked)));
        let entry = EventKind::VerificationDecided(VerificationEntry::of(inputs.clone(), envelope));
        record.events.push(Event::new(envelope.decided_at, None, entry));
        let review = Review::of(inputs, envelope);
        let mut known = subject.clone();
        if inputs.question.is_about_the_present() {
            note(inputs, &beside.came.before, &mut known.baselines);
        }
        let advanced = advanced(inputs, envelope, &known.baselines).filter(|_| keeps);
        known.baselines = advanced.unwrap_or(known.baselines);
        if review.is_some() || known.baselines != subject.baselines {
            known.open.extend(review.as_ref().map(Review::as_open));
            record.writes.push(Write::PutSubject(key(inputs), Arc::new(known)));
        }
        // a lock that was revoked meanwhile must not be returned
        let rests_on_locks = envelope.axes.values().any(|axis| axis.basis == Some(Basis::HumanLock));
        if rests_on_locks {
            record.expect.extend(people.iter().cloned());
        } else if !record.writes.is_empty() {
            record.expect.extend(people.first().cloned());
        }
        if let Some(review) = review {
            let (review_id, timestamp) = (review.review_id.clone(), envelope.decided_at);
            let state = ReviewState::opened(review.clone());
            let entry = ReviewEntry { review_id, review: Box::new(review) };
            record.events.push(Event::new(timestamp, None, EventKind::ReviewOpened(entry)));
            record.writes.push(Write::PutReview(Arc::new(state)));
        }
        for kept in beside.came.kept.iter().filter(|kept| keeps && kept.counts_in(envelope)) {
            let call = inputs.calls.get(&kept.key.oracle_id);
            let is_doubted = call.is_some_and(|call| call.reply.deviates());
            if let Some((expect, write)) = kept.write(&self.store, is_doubted)? {
                record.expect.push(expect);
                record.writes.push(write);
            }
        }
        if inputs.stage == Stage::Delayed {
            record.writes.push(Write::RemovePending(inputs.execution_id.clone()));
        }
        Ok(record)
    }
}

/// Compares the answer or the cached answer of each source with its baseline.
fn hold_against(inputs: &mut Inputs, baselines: &Baselines, came: &Came) {
    let as_of = (!inputs.question.is_about_the_present()).then(|| inputs.as_of());
    let known_at = inputs.question.known_at;
    let Inputs { workflow, axes, calls, .. } = inputs;
    for (oracle_id, call) in calls {
        let (known, before) = (baselines.get(oracle_id), came.before.get(oracle_id));
        let baseline = |path: &str| {
            let known = known.and_then(|known| known.get(path)).cloned();
            let before = || Baseline::of(before?, path);
            match as_of {
                None => known.or_else(before),
                // a decision about the present may use later releases, which a question about the past must not see
                Some(as_of) => before().or_else(|| {
                    let is_known = |known: &Baseline| known_at.is_none_or(|at| known.verified_at <= at);
                    known.filter(|known| known.observed_at <= as_of && is_known(known))
                }),
            }
        };
        let answered = match &mut call.reply {
            Reply::Answered { candidate } => Some(candidate),
            _ => None,
        };
        for candidate in answered.into_iter().chain(&mut call.kept) {
            candidate.deviations = deviations(workflow, axes, baseline, candidate);
        }
    }
}

/// The event that reports a call of `inputs`.
fn asked_event(inputs: &Inputs, asked: SourceAskedEntry) -> Event {
    Event::new(inputs.decided_at, None, EventKind::SourceAsked(asked))
}

/// The key of the subject in the present: its open reviews, locks and baselines.
fn present(inputs: &Inputs) -> SubjectKey {
    SubjectKey::of(&inputs.workflow.workflow_id, &inputs.question.thing, true)
}

/// The key of the subject of the question.
fn key(inputs: &Inputs) -> SubjectKey {
    let question = &inputs.question;
    SubjectKey::of(&inputs.workflow.workflow_id, &question.thing, question.is_about_the_present())
}
