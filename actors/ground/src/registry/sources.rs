//! Sources: registration, review, freshness policy, invalidation.

use super::{
    CommitContext, DerivedRows, DocumentChecks, DocumentRegistry, RegistryError, SourceAmendment,
    SourceDependents, StatusReader, list_axis_bounds, policy_of,
};
use actors_audit::logger::handle::CommitDecision;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_ground::event::{
    InvalidationCause, InvalidationEntry, SourceChange, SourceChanged, SourceEntry, SourceInvalidated,
};
use domain_ground::freshness::{FreshnessPolicy, InvalidationTrigger};
use domain_ground::id::SourceId;
use domain_ground::run::RunState;
use domain_ground::source::{SourceRegistration, SourceRegistryEntry};
use domain_ground::source_state::SourceState;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceReviewDecision {
    /// The source may answer.
    Approve,
    /// The source may answer until this time.
    Deprecate(Timestamp),
}

#[derive(Debug)]
pub struct SourceInvalidation {
    pub oracle_id: SourceId,
    pub trigger: InvalidationCause,
    /// The detail, for the log.
    pub detail: String,
    /// The client that requested it.
    pub peer: PeerCredentials,
}

/// Checks of sources.
#[derive(Debug)]
pub struct SourceChecks;

impl DocumentChecks for SourceChecks {
    type Document = SourceRegistration;

    fn decide(
        registration: &SourceRegistration,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let oracle_id = &registration.oracle_id;
        let ontology = context.ontology(&registration.ontology)?;
        registration.validate(&ontology)?;
        let Some((state, revision)) = context.store.source(oracle_id)? else {
            let (by, now) = (peer.uid.to_string(), context.clock.now());
            let state = SourceState::new(SourceRegistryEntry::new(registration.clone(), by, now));
            return context.replacement(registration, derived_source(&state, None), peer);
        };
        if state.entry.registration == *registration {
            return context.replacement(registration, derived_source(&state, Some(revision)), peer);
        }
        context.check_single_pipeline(registration, None)?;
        let before = context.ontology(&state.entry.registration.ontology)?;
        let SourceDependents { expect, is_queried } =
            registry.check_dependents(&SourceAmendment { after: registration, ontology: &ontology })?;
        // a run that was undone, or is held, may come back
        let has_runs = !state.completed.is_empty() || !state.held.is_empty();
        let is_being_read = is_queried || has_runs || context.has_run_in_progress(&state)?;
        let entry = state.entry.amend(registration.clone(), &before, &ontology, is_being_read)?;
        let state = SourceState { entry, ..state };
        if let Some(policy) = &state.policy {
            policy.validate(&list_axis_bounds(&state, &ontology)).map_err(RegistryError::PolicyKept)?;
        }
        let mut derived = derived_source(&state, Some(revision));
        derived.expect.extend(expect);
        context.replacement(registration, derived, peer)
    }

    fn status_reader(
        registry: &DocumentRegistry,
    ) -> Result<StatusReader<'_, SourceRegistration>, RegistryError> {
        Ok(Box::new(|source| {
            let state = registry.context.store.source(&source.oracle_id)?;
            Ok(state.map(|(SourceState { entry, .. }, _)| match entry.current_version.as_str() {
                "" => format!("{}, no version", entry.review_status.into_str()),
                version => format!("{}, version {version}", entry.review_status.into_str()),
            }))
        }))
    }
}

/// Checks of freshness policies.
#[derive(Debug)]
pub(super) struct PolicyChecks;

impl DocumentChecks for PolicyChecks {
    type Document = FreshnessPolicy;

    fn decide(
        policy: &FreshnessPolicy,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let (state, revision) = context.source(&policy.oracle_id)?;
        let ontology = context.ontology(&state.entry.registration.ontology)?;
        policy.validate(&list_axis_bounds(&state, &ontology))?;
        let state = SourceState { policy: Some(policy.clone()), ..state };
        context.replacement(policy, derived_source(&state, Some(revision)), peer)
    }
}

/// The row of a source, which has its registration and its policy, so that a reader of the source needs no other row.
fn derived_source(state: &SourceState, revision: Option<u64>) -> DerivedRows {
    DerivedRows {
        expect: vec![RowExpectation::new::<SourceState>(state.entry.oracle_id(), revision)],
        writes: vec![RowWrite::put::<SourceState>(state)],
        is_lost: false,
    }
}

/// The record that stores a source in place of its row of this revision.
pub(super) fn put_source(state: SourceState, revision: Option<u64>, event: AuditEvent) -> JournalRecord {
    JournalRecord {
        expect: vec![RowExpectation::new::<SourceState>(state.entry.oracle_id(), revision)],
        events: vec![event],
        writes: vec![RowWrite::put::<SourceState>(&state)],
        ..JournalRecord::default()
    }
}

impl DocumentRegistry {
    /// Checks that a change of a source breaks no other document.
    fn check_dependents(&self, change: &SourceAmendment<'_>) -> Result<SourceDependents, RegistryError> {
        let mut all = SourceDependents::default();
        for kind in self.kinds() {
            let SourceDependents { expect, is_queried } = (kind.check_source)(self, change)?;
            all.expect.extend(expect);
            all.is_queried |= is_queried;
        }
        Ok(all)
    }

    /// Approves or deprecates a source. Does nothing if the source is already approved, or deprecated from the same date
    /// on.
    ///
    /// # Errors
    /// `SourceUnknown`; `Source` if its state does not allow it; or the entry cannot be committed, and then
    /// nothing changes.
    pub async fn review(
        &self,
        oracle_id: &SourceId,
        review: SourceReviewDecision,
        peer: PeerCredentials,
    ) -> Result<SourceRegistryEntry, RegistryError> {
        let context = &self.context;
        let reviewed = context.log.decide_and_commit(|| {
            let (state, revision) = context.source(oracle_id)?;
            let (entry, change) = match review {
                SourceReviewDecision::Approve => (state.entry.approve(), SourceChange::Approved),
                SourceReviewDecision::Deprecate(date) => {
                    (state.entry.deprecate(date, context.clock.now())?, SourceChange::Deprecated)
                }
            };
            if entry == state.entry {
                return Ok::<_, RegistryError>(CommitDecision::Already(entry));
            }
            let event = SourceChanged(SourceEntry {
                oracle_id: oracle_id.clone(),
                change,
                before: Box::new(state.entry.without_history()),
                after: Box::new(entry.without_history()),
                peer,
            });
            let state = SourceState { entry: entry.clone(), ..state };
            let event = AuditEvent::new(context.clock.now(), None, event);
            Ok(CommitDecision::Change(entry, put_source(state, Some(revision), event)))
        });
        Ok(reviewed.await?.0)
    }

    /// Marks all data of a source stale until a run follows.
    ///
    /// # Errors
    /// `SourceUnknown`, `NoTrigger`; or the entry cannot be committed, and then nothing changes.
    pub async fn invalidate(&self, invalidation: SourceInvalidation) -> Result<(), RegistryError> {
        let SourceInvalidation { oracle_id, trigger, detail, peer } = invalidation;
        let context = &self.context;
        let invalidated = context.log.decide_and_commit(|| {
            let (state, revision) = context.source(&oracle_id)?;
            let ontology = context.ontology(&state.entry.registration.ontology)?;
            let policy = policy_of(&state, &ontology);
            let (is_named, name): (fn(&InvalidationTrigger) -> bool, _) = match trigger {
                // an operator may always invalidate, whatever the policy has
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
            let timestamp = context.clock.now();
            let (id, detail) = (oracle_id.clone(), detail.clone());
            let entry = InvalidationEntry { oracle_id: id, trigger, detail, peer: Some(peer) };
            let event = AuditEvent::new(timestamp, None, SourceInvalidated(entry));
            Ok(CommitDecision::Change((), put_source(state.invalidated(timestamp), Some(revision), event)))
        });
        invalidated.await.map(|_| ())
    }
}

impl CommitContext {
    /// Whether a run of the source is in progress, which began with the current registration.
    fn has_run_in_progress(&self, source: &SourceState) -> Result<bool, RegistryError> {
        for run_id in &source.attempts {
            if self.store.run(run_id)?.is_some_and(|(run, _)| run.state == RunState::Running) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
