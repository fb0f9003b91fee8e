//! Sources: registered, reviewed, given a freshness policy, declared stale.

use super::{Decided, Desk, Registered, Registry, RegistryError, as_read, bounds, policy_of};
use actix::{Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::audit::event::ground::{
    FreshnessEntry, InvalidationCause, InvalidationEntry, SourceChange, SourceEntry,
};
use oracled_domain::ground::freshness::{FreshnessPolicy, InvalidationTrigger};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::run::RunState;
use oracled_domain::ground::source::{Registration, SourceRegistryEntry};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::ground::state::SourceState;
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

/// Registers a source, or describes one otherwise.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered<SourceRegistryEntry>, RegistryError>")]
pub struct RegisterSource {
    /// What is said of it.
    pub registration: Box<Registration>,
    /// By whom.
    pub peer: Peer,
}

/// Lets a source answer, or tells when it will cease to.
#[derive(Debug, Message)]
#[rtype(result = "Result<SourceRegistryEntry, RegistryError>")]
pub struct ReviewSource {
    /// Which.
    pub oracle_id: SourceId,
    /// What is to become of it.
    pub review: Review,
    /// By whom.
    pub peer: Peer,
}

/// What a review comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// It answers.
    Approve,
    /// It answers until then.
    Deprecate(Timestamp),
}

/// Gives a source a freshness policy.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered<FreshnessPolicy>, RegistryError>")]
pub struct SetFreshness {
    /// The policy, which names its source.
    pub policy: FreshnessPolicy,
    /// By whom.
    pub peer: Peer,
}

/// Declares all that a source has said stale.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), RegistryError>")]
pub struct Invalidate {
    /// Which.
    pub oracle_id: SourceId,
    /// What makes it stale.
    pub trigger: InvalidationCause,
    /// What is said of it.
    pub detail: String,
    /// By whom.
    pub peer: Peer,
}

impl Desk {
    async fn register_source(
        &self,
        message: RegisterSource,
    ) -> Result<Registered<SourceRegistryEntry>, RegistryError> {
        let RegisterSource { registration, peer } = message;
        let (document, changed) = self.change(|desk| desk.decide_source(&registration, peer)).await?;
        Ok(Registered { document, unchanged: !changed })
    }

    /// What comes of registering `registration` over what there is now.
    pub(super) fn decide_source(
        &self,
        registration: &Registration,
        peer: Peer,
    ) -> Result<Decided<SourceRegistryEntry>, RegistryError> {
        let oracle_id = &registration.oracle_id;
        let ontology = self.ontology(&registration.ontology)?;
        registration.validate(&ontology)?;
        let Some((state, revision)) = self.store.source(oracle_id)? else {
            let (by, now) = (peer.uid.to_string(), self.clock.now());
            let entry = SourceRegistryEntry::new(registration.clone(), by, now);
            let state = SourceState::new(entry.clone());
            let change = Change { before: None, state, revision: None, kind: SourceChange::Registered };
            return Ok(Decided::Change(entry, self.source_change(change, peer)));
        };
        if state.entry.registration == *registration {
            return Ok(Decided::Already(state.entry));
        }
        let before = self.ontology(&state.entry.registration.ontology)?;
        let adapter = self.check_adapter(registration, &ontology)?;
        // a run that was undone, or is held, may come back
        let has_runs = !state.completed.is_empty() || !state.held.is_empty();
        let is_being_read = adapter.is_some() || has_runs || self.is_being_read(&state)?;
        let entry = state.entry.amended(registration.clone(), &before, &ontology, is_being_read)?;
        let seen_by = self.check_workflows(registration)?;
        let before = Some(state.entry.clone());
        let state = SourceState { entry: entry.clone(), ..state };
        if let Some(policy) = &state.policy {
            policy.validate(&bounds(&state, &ontology)).map_err(RegistryError::PolicyKept)?;
        }
        let change = Change { before, state, revision: Some(revision), kind: SourceChange::Amended };
        let mut record = self.source_change(change, peer);
        record.expect.extend(as_read(RowKey::Adapter(oracle_id.clone()), adapter));
        record.expect.extend(seen_by);
        Ok(Decided::Change(entry, record))
    }

    /// Whether a run goes on, which was begun by what is registered of the source now.
    fn is_being_read(&self, source: &SourceState) -> Result<bool, RegistryError> {
        for run_id in &source.attempts {
            if self.store.run(run_id)?.is_some_and(|(run, _)| run.state == RunState::Running) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn review(&self, message: ReviewSource) -> Result<SourceRegistryEntry, RegistryError> {
        let ReviewSource { oracle_id, review, peer } = message;
        let reviewed = self.change(|desk| {
            let (state, revision) = desk.source(&oracle_id)?;
            let (entry, kind) = match review {
                Review::Approve => (state.entry.approved()?, SourceChange::Approved),
                Review::Deprecate(date) => {
                    (state.entry.deprecated(date, desk.clock.now())?, SourceChange::Deprecated)
                }
            };
            let before = Some(state.entry.clone());
            let state = SourceState { entry: entry.clone(), ..state };
            let change = Change { before, state, revision: Some(revision), kind };
            Ok(Decided::Change(entry, desk.source_change(change, peer)))
        });
        Ok(reviewed.await?.0)
    }

    fn source_change(&self, change: Change, peer: Peer) -> Record {
        let Change { before, state, revision, kind } = change;
        let oracle_id = state.entry.oracle_id().clone();
        let entry = SourceEntry {
            oracle_id: oracle_id.clone(),
            change: kind,
            before: before.map(|before| Box::new(before.without_history())),
            after: Box::new(state.entry.without_history()),
            peer,
        };
        Record {
            expect: as_read(RowKey::Source(oracle_id), revision),
            events: vec![Event::new(self.clock.now(), None, EventKind::SourceChanged(entry))],
            writes: vec![Write::PutSource(Arc::new(state))],
            ..Record::default()
        }
    }

    async fn set_freshness(
        &self,
        message: SetFreshness,
    ) -> Result<Registered<FreshnessPolicy>, RegistryError> {
        let SetFreshness { policy, peer } = message;
        let (document, changed) = self
            .change(|desk| {
                let (state, revision) = desk.source(&policy.oracle_id)?;
                let ontology = desk.ontology(&state.entry.registration.ontology)?;
                policy.validate(&bounds(&state, &ontology))?;
                if state.policy.as_ref() == Some(&policy) {
                    return Ok(Decided::Already(policy.clone()));
                }
                let entry = FreshnessEntry {
                    oracle_id: policy.oracle_id.clone(),
                    before: state.policy.clone(),
                    after: policy.clone(),
                    peer,
                };
                let state = SourceState { policy: Some(policy.clone()), ..state };
                let record = Record {
                    expect: as_read(RowKey::Source(policy.oracle_id.clone()), Some(revision)),
                    events: vec![Event::new(desk.clock.now(), None, EventKind::FreshnessPolicySet(entry))],
                    writes: vec![Write::PutSource(Arc::new(state))],
                    ..Record::default()
                };
                Ok(Decided::Change(policy.clone(), record))
            })
            .await?;
        Ok(Registered { document, unchanged: !changed })
    }

    async fn invalidate(&self, message: Invalidate) -> Result<(), RegistryError> {
        let Invalidate { oracle_id, trigger, detail, peer } = message;
        let invalidated = self.change(|desk| {
            let (state, revision) = desk.source(&oracle_id)?;
            let ontology = desk.ontology(&state.entry.registration.ontology)?;
            let policy = policy_of(&state, &ontology);
            let (is_named, name): (fn(&InvalidationTrigger) -> bool, _) = match trigger {
                // an administrator's word counts whatever a policy says
                InvalidationCause::Manual => (|_| true, "manual"),
                InvalidationCause::VersionChange => {
                    (|known| matches!(known, InvalidationTrigger::VersionChange {}), "version_change")
                }
                InvalidationCause::UpstreamSignal => {
                    (|known| matches!(known, InvalidationTrigger::UpstreamSignal { .. }), "upstream_signal")
                }
            };
            if trigger != InvalidationCause::Manual && !policy.invalidation_triggers.iter().any(is_named) {
                return Err(RegistryError::NoTrigger { oracle_id: oracle_id.clone(), trigger: name });
            }
            let timestamp = desk.clock.now();
            let (id, detail) = (oracle_id.clone(), detail.clone());
            let entry = InvalidationEntry { oracle_id: id, trigger, detail, peer: Some(peer) };
            let state = state.invalidated(timestamp);
            let record = Record {
                expect: as_read(RowKey::Source(oracle_id.clone()), Some(revision)),
                events: vec![Event::new(timestamp, None, EventKind::SourceInvalidated(entry))],
                writes: vec![Write::PutSource(Arc::new(state))],
                ..Record::default()
            };
            Ok(Decided::Change((), record))
        });
        invalidated.await.map(|_| ())
    }
}

/// A source as it was and as it will be.
struct Change {
    before: Option<SourceRegistryEntry>,
    state: SourceState,
    revision: Option<u64>,
    kind: SourceChange,
}

impl Handler<RegisterSource> for Registry {
    type Result = ResponseFuture<Result<Registered<SourceRegistryEntry>, RegistryError>>;

    fn handle(&mut self, message: RegisterSource, _: &mut Context<Self>) -> Self::Result {
        let (desk, metrics) = (self.desk.clone(), self.metrics.clone());
        Box::pin(async move {
            let registered = desk.register_source(message).await?;
            metrics.ingesting.expects(registered.document.oracle_id());
            Ok(registered)
        })
    }
}

impl Handler<ReviewSource> for Registry {
    type Result = ResponseFuture<Result<SourceRegistryEntry, RegistryError>>;

    fn handle(&mut self, message: ReviewSource, _: &mut Context<Self>) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.review(message).await })
    }
}

impl Handler<SetFreshness> for Registry {
    type Result = ResponseFuture<Result<Registered<FreshnessPolicy>, RegistryError>>;

    fn handle(&mut self, message: SetFreshness, _: &mut Context<Self>) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.set_freshness(message).await })
    }
}

impl Handler<Invalidate> for Registry {
    type Result = ResponseFuture<Result<(), RegistryError>>;

    fn handle(&mut self, message: Invalidate, _: &mut Context<Self>) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.invalidate(message).await })
    }
}
