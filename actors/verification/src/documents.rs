//! The documents of verification: adapters of live sources, and workflows (RFC-0002, "Part II"), which a change of a source must not
//! break; and review rules.

use super::metrics::VerificationMetrics;
use actors_ground::registry::{
    CommitContext, DerivedRows, DocumentChecks, DocumentCounters, DocumentFault, DocumentRegistration,
    DocumentRegistry, RegistryError, SourceAmendment, SourceDependents, StatusReader,
};
use domain_base::caller::PeerCredentials;
use domain_base::document::{AnyDocument, RegisteredDocument};
use domain_ground::id::SourceId;
use domain_ground::source::{OracleTier, SourceAdapterKind, SourceRegistration, SourceReviewStatus};
use domain_ground::source_state::SourceState;
use domain_verification::adapter::Adapter;
use domain_verification::review_rule::{ReviewRule, TakenValue};
use domain_verification::workflow::{CAN_DECIDE, Workflow, WorkflowError};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kinds of documents of the feature.
pub const DOCUMENTS: &[&DocumentRegistration] =
    &[AdapterChecks::REGISTRATION, WorkflowChecks::REGISTRATION, ReviewRuleChecks::REGISTRATION];

/// Checks of adapters.
#[derive(Debug)]
pub struct AdapterChecks;

impl DocumentChecks for AdapterChecks {
    type Document = Adapter;

    fn decide(
        adapter: &Adapter,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let oracle_id = &adapter.oracle_id;
        let (source, source_revision) = context.source(oracle_id)?;
        let registration = &source.entry.registration;
        if registration.adapter_id != SourceAdapterKind::Http {
            let error = format!(
                "source {oracle_id} is ingested (`adapter_id` is store) and cannot have an adapter; register another source"
            );
            return Err(RegistryError::Document { fault: DocumentFault::Fixed, error: error.into() });
        }
        let ontology = Arc::new(context.ontology(&registration.ontology)?);
        let ready = adapter.validate(registration, ontology).map_err(RegistryError::invalid)?;
        registry.live.check(&ready).map_err(|error| RegistryError::invalid(error.to_string()))?;
        let expect = vec![RowExpectation::new::<SourceState>(oracle_id, Some(source_revision))];
        context.replacement(adapter, DerivedRows { expect, ..DerivedRows::default() }, peer)
    }

    /// Checks that the adapter of the source, if it has one, works with the change.
    fn check_source(
        registry: &DocumentRegistry,
        change: &SourceAmendment<'_>,
    ) -> Result<SourceDependents, RegistryError> {
        let SourceAmendment { after, ontology } = change;
        let oracle_id = after.oracle_id.to_string();
        let known = registry.context.store.registered::<Adapter>(&oracle_id)?;
        let (known, revision) = known.unzip();
        if let Some(known) = &known {
            known.document.validate(after, Arc::new((*ontology).clone())).map_err(|fault| {
                RegistryError::invalid(format!(
                    "the source's adapter would no longer work: {fault}; first set an adapter that works before and after"
                ))
            })?;
        }
        let expect = vec![RowExpectation::new::<RegisteredDocument<Adapter>>(&oracle_id, revision)];
        Ok(SourceDependents { expect, is_queried: known.is_some() })
    }
}

/// Checks of workflows.
#[derive(Debug)]
pub struct WorkflowChecks;

impl DocumentChecks for WorkflowChecks {
    type Document = Workflow;

    fn decide(
        workflow: &Workflow,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let ontology = context.ontology(&workflow.ontology)?;
        let (oracles, expect) = read_sources(context, &workflow.oracles)?;
        let sources: Vec<_> =
            context.store.sources()?.into_iter().map(|state| state.entry.registration).collect();
        workflow.validate(&ontology, &sources.iter().collect::<Vec<_>>()).map_err(workflow_error)?;
        // the sources are written unchanged: a concurrent change of one was decided without this workflow,
        // and is decided again
        let writes = oracles.into_iter().map(|state| RowWrite::put::<SourceState>(&state)).collect();
        context.replacement(workflow, DerivedRows { expect, writes, is_lost: false }, peer)
    }

    /// Whether it can decide with its sources as they are now.
    fn status_reader(registry: &DocumentRegistry) -> Result<StatusReader<'_, Workflow>, RegistryError> {
        Ok(Box::new(|workflow| read_status(&registry.context.store, workflow).map(Some)))
    }

    /// Checks that the change breaks no working workflow. Another version of the ontology stops a workflow, but does not count as
    /// breaking it: otherwise neither of the two could be updated first. The sources of these workflows must be unchanged: a
    /// workflow that is registered or changed meanwhile writes them.
    fn check_source(
        registry: &DocumentRegistry,
        change: &SourceAmendment<'_>,
    ) -> Result<SourceDependents, RegistryError> {
        let (context, after) = (&registry.context, change.after);
        let registered = context.store.all_registered::<Workflow>()?;
        let mut workflows: Vec<_> = registered.into_iter().map(|registered| registered.document).collect();
        workflows.retain(|workflow| {
            let is_stopped = workflow.ontology.ontology_id == after.ontology.ontology_id
                && workflow.ontology != after.ontology;
            workflow.oracles.contains(&after.oracle_id) && !is_stopped
        });
        let oracles: BTreeSet<_> = workflows.iter().flat_map(|workflow| &workflow.oracles).collect();
        let (sources, expect) = read_sources(context, oracles)?;
        let before: Vec<_> = sources.iter().map(|state| &state.entry.registration).collect();
        let changed = |source: &&SourceRegistration| source.oracle_id == after.oracle_id;
        let after: Vec<_> =
            before.iter().map(|source| if changed(source) { after } else { *source }).collect();
        for workflow in &workflows {
            let ontology = context.ontology(&workflow.ontology)?;
            if workflow.validate(&ontology, &before).is_err() {
                continue;
            }
            workflow.validate(&ontology, &after).map_err(|fault| {
                let error = format!(
                    "workflow {} would no longer work: {fault}; change that workflow first",
                    workflow.workflow_id
                );
                RegistryError::Document { fault: DocumentFault::Fixed, error: error.into() }
            })?;
        }
        Ok(SourceDependents { expect, is_queried: false })
    }
}

/// Checks of review rules.
#[derive(Debug)]
pub struct ReviewRuleChecks;

impl DocumentChecks for ReviewRuleChecks {
    type Document = ReviewRule;

    fn decide(
        rule: &ReviewRule,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        rule.validate().map_err(RegistryError::invalid)?;
        let context = &registry.context;
        for workflow_id in &rule.workflows {
            let known = context.store.registered::<Workflow>(workflow_id.as_str())?;
            let Some((workflow, _)) = known else {
                let error =
                    format!("`workflows`: no workflow {workflow_id} is registered; register it first");
                return Err(RegistryError::invalid(error));
            };
            check_taken_source(&rule.take, &workflow.document)?;
        }
        context.replacement(rule, DerivedRows::default(), peer)
    }
}

/// Checks that a workflow has the source whose value is taken.
fn check_taken_source(take: &TakenValue, workflow: &Workflow) -> Result<(), RegistryError> {
    match take {
        TakenValue::Source(oracle_id) if !workflow.oracles.contains(oracle_id) => {
            let oracles: Vec<_> = workflow.oracles.iter().map(SourceId::as_str).collect();
            let (workflow_id, oracles) = (&workflow.workflow_id, oracles.join(", "));
            let error =
                format!("`take.source` is {oracle_id}; workflow {workflow_id} has these sources: {oracles}");
            Err(RegistryError::invalid(error))
        }
        TakenValue::Source(_) | TakenValue::NewerRelease => Ok(()),
    }
}

impl DocumentCounters for VerificationMetrics {
    fn init_counters_of(&self, document: &AnyDocument) {
        if let Some(workflow) = document.get() {
            self.init_counters_of_workflow(workflow);
        }
    }
}

fn workflow_error(error: WorkflowError) -> RegistryError {
    let fault = match error {
        WorkflowError::UnknownOracle { .. } => DocumentFault::SourceUnknown,
        _ => DocumentFault::Invalid,
    };
    RegistryError::Document { fault, error: error.into() }
}

/// The registered ones among `oracles`, and the condition that the rows of all `oracles` are unchanged.
fn read_sources<'a>(
    context: &CommitContext,
    oracles: impl IntoIterator<Item = &'a SourceId>,
) -> Result<(Vec<SourceState>, Vec<RowExpectation>), RegistryError> {
    let (mut states, mut expect) = (Vec::new(), Vec::new());
    for oracle_id in oracles {
        let known = context.store.source(oracle_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        expect.push(RowExpectation::new::<SourceState>(oracle_id, revision));
        states.extend(known.map(|(state, _)| state));
    }
    Ok((states, expect))
}

/// Whether a workflow can decide with its sources as they are now, in words. If a source changes to another version of the
/// ontology, the workflow stops until it is registered with that version, too. A decision does not use this check: it reports for
/// each source why that source was not asked.
pub fn read_status(store: &Store, workflow: &Workflow) -> Result<String, RegistryError> {
    let unknown = || RegistryError::OntologyUnknown(workflow.ontology.clone());
    let ontology = store.ontology(&workflow.ontology)?.ok_or_else(unknown)?;
    let mut sources = Vec::new();
    for oracle_id in &workflow.oracles {
        sources.extend(store.source(oracle_id)?.map(|(state, _)| state.entry));
    }
    let registrations: Vec<_> = sources.iter().map(|entry| &entry.registration).collect();
    if let Err(fault) = workflow.validate(&ontology, &registrations) {
        return Ok(fault.to_string());
    }
    let mut missing = Vec::new();
    for entry in &sources {
        let registration = &entry.registration;
        let is_live = registration.adapter_id == SourceAdapterKind::Http;
        let cause = match entry.review_status {
            // a workflow decides without these
            _ if registration.oracle_tier == OracleTier::Unverified => continue,
            SourceReviewStatus::Pending => "is not approved",
            _ if is_live && store.registered::<Adapter>(entry.oracle_id().as_str())?.is_none() => {
                "is live and has no adapter"
            }
            _ if !is_live && entry.version_history.is_empty() => "has no version yet",
            _ => continue,
        };
        missing.push(format!("{} {cause}", entry.oracle_id()));
    }
    Ok(match missing.as_slice() {
        [] => CAN_DECIDE.to_owned(),
        missing => format!("cannot use all of its sources: {}", missing.join("; ")),
    })
}
