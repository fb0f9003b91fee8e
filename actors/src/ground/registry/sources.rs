//! Sources: registered, reviewed, given a freshness policy, declared stale.

use super::{Desk, Registrable, Registry, RegistryError, as_read, bounds, policy_of};
use crate::audit::commit_loop::Decided;
use crate::platform::metrics::Metrics;
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

/// What a review comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// It answers.
    Approve,
    /// It answers until then.
    Deprecate(Timestamp),
}

/// An invalidation of a source.
#[derive(Debug)]
pub struct Invalidation {
    /// The source.
    pub oracle_id: SourceId,
    /// Its cause.
    pub trigger: InvalidationCause,
    /// The detail, for the log.
    pub detail: String,
    /// Who caused it.
    pub peer: Peer,
}

impl Registrable for Registration {
    type Registered = SourceRegistryEntry;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<SourceRegistryEntry>, RegistryError> {
        let desk = &registry.desk;
        let oracle_id = &self.oracle_id;
        let ontology = desk.ontology(&self.ontology)?;
        self.validate(&ontology)?;
        let Some((state, revision)) = desk.store.source(oracle_id)? else {
            let (by, now) = (peer.uid.to_string(), desk.clock.now());
            let entry = SourceRegistryEntry::new(self.clone(), by, now);
            let state = SourceState::new(entry.clone());
            let change = Change { before: None, state, revision: None, kind: SourceChange::Registered };
            return Ok(Decided::Change(entry, desk.source_change(change, peer)));
        };
        if state.entry.registration == *self {
            return Ok(Decided::Already(state.entry));
        }
        let before = desk.ontology(&state.entry.registration.ontology)?;
        let adapter = desk.check_adapter(self, &ontology)?;
        // a run that was undone, or is held, may come back
        let has_runs = !state.completed.is_empty() || !state.held.is_empty();
        let is_being_read = adapter.is_some() || has_runs || desk.is_being_read(&state)?;
        let entry = state.entry.amended(self.clone(), &before, &ontology, is_being_read)?;
        let seen_by = desk.check_workflows(self)?;
        let before = Some(state.entry.clone());
        let state = SourceState { entry: entry.clone(), ..state };
        if let Some(policy) = &state.policy {
            policy.validate(&bounds(&state, &ontology)).map_err(RegistryError::PolicyKept)?;
        }
        let change = Change { before, state, revision: Some(revision), kind: SourceChange::Amended };
        let mut record = desk.source_change(change, peer);
        record.expect.extend(as_read(RowKey::Adapter(oracle_id.clone()), adapter));
        record.expect.extend(seen_by);
        Ok(Decided::Change(entry, record))
    }

    fn announce(registered: &SourceRegistryEntry, metrics: &Metrics) {
        metrics.ingesting.expects(registered.oracle_id());
    }
}

impl Registrable for FreshnessPolicy {
    type Registered = Self;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<Self>, RegistryError> {
        let desk = &registry.desk;
        let (state, revision) = desk.source(&self.oracle_id)?;
        let ontology = desk.ontology(&state.entry.registration.ontology)?;
        self.validate(&bounds(&state, &ontology))?;
        if state.policy.as_ref() == Some(self) {
            return Ok(Decided::Already(self.clone()));
        }
        let entry = FreshnessEntry {
            oracle_id: self.oracle_id.clone(),
            before: state.policy.clone(),
            after: self.clone(),
            peer,
        };
        let state = SourceState { policy: Some(self.clone()), ..state };
        let record = Record {
            expect: as_read(RowKey::Source(self.oracle_id.clone()), Some(revision)),
            events: vec![Event::new(desk.clock.now(), None, EventKind::FreshnessPolicySet(entry))],
            writes: vec![Write::PutSource(Arc::new(state))],
            ..Record::default()
        };
        Ok(Decided::Change(self.clone(), record))
    }
}

impl Registry {
    /// Approves or deprecates a source.
    ///
    /// # Errors
    /// `SourceUnknown`; `Source` if its state does not allow it; or the entry cannot be committed, and then nothing changes.
    pub async fn review(
        &self,
        oracle_id: &SourceId,
        review: Review,
        peer: Peer,
    ) -> Result<SourceRegistryEntry, RegistryError> {
        let reviewed = self.desk.change(|desk| {
            let (state, revision) = desk.source(oracle_id)?;
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

    /// Marks all data of a source stale until a run follows.
    ///
    /// # Errors
    /// `SourceUnknown`, `NoTrigger`; or the entry cannot be committed, and then nothing changes.
    pub async fn invalidate(&self, invalidation: Invalidation) -> Result<(), RegistryError> {
        let Invalidation { oracle_id, trigger, detail, peer } = invalidation;
        let invalidated = self.desk.change(|desk| {
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

impl Desk {
    /// Whether a run goes on, which was begun by what is registered of the source now.
    fn is_being_read(&self, source: &SourceState) -> Result<bool, RegistryError> {
        for run_id in &source.attempts {
            if self.store.run(run_id)?.is_some_and(|(run, _)| run.state == RunState::Running) {
                return Ok(true);
            }
        }
        Ok(false)
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
}

/// A source as it was and as it will be.
struct Change {
    before: Option<SourceRegistryEntry>,
    state: SourceState,
    revision: Option<u64>,
    kind: SourceChange,
}
