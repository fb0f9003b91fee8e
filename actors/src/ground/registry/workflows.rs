//! Workflows of verification: registration, and the check that a change of a source does not break a workflow
//! (RFC-0002, Part II).

use super::{CommitContext, DocumentRegistry, RegistrableDocument, RegistryError};
use oracled_domain::PeerCredentials;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::source::SourceRegistration;
use oracled_domain::ground::source_state::SourceState;
use oracled_domain::verification::workflow::Workflow;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// The counters of verifications by their workflow.
pub(crate) trait WorkflowCounters: Debug + Send + Sync {
    /// Creates the counters of `workflow` and its sources at 0.
    fn init_counters_of_workflow(&self, workflow: &Workflow);
}

/// Checks that a workflow works with its ontology and its sources as they are registered now. If a source
/// changes to another version of the ontology, the workflow stops until it is registered with that version,
/// too. Lists of workflows use this check. A decision does not: it reports for each source why that source
/// was not asked.
///
/// # Errors
/// `OntologyUnknown`; `Workflow` with the fault; or the store cannot be read.
pub fn check_workflow(store: &Store, workflow: &Workflow) -> Result<(), RegistryError> {
    let unknown = || RegistryError::OntologyUnknown(workflow.ontology.clone());
    let ontology = store.ontology(&workflow.ontology)?.ok_or_else(unknown)?;
    let mut sources = Vec::new();
    for oracle_id in &workflow.oracles {
        sources.extend(store.source(oracle_id)?.map(|(state, _)| state.entry.registration));
    }
    Ok(workflow.validate(&ontology, &sources.iter().collect::<Vec<_>>())?)
}

impl RegistrableDocument for Workflow {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let ontology = context.ontology(&self.ontology)?;
        let (oracles, expect) = context.with_rows(&self.oracles)?;
        let sources: Vec<_> =
            context.store.sources()?.into_iter().map(|state| state.entry.registration).collect();
        self.validate(&ontology, &sources.iter().collect::<Vec<_>>())?;
        // the sources are written unchanged: a concurrent change of one was decided without this workflow,
        // and is decided again
        let writes = oracles.into_iter().map(|state| RowWrite::put::<SourceState>(&state)).collect();
        context.replacement(self, expect, writes, peer)
    }

    fn init_counters(&self, registry: &DocumentRegistry) {
        registry.workflows.init_counters_of_workflow(self);
    }
}

impl CommitContext {
    /// Checks that the new registration `after` breaks no working workflow. Another version of the ontology stops a
    /// workflow, but does not count as breaking it: otherwise neither of the two could be updated first. Returns the
    /// condition that the sources of those workflows are unchanged. A workflow that is registered or changed meanwhile
    /// violates the condition.
    ///
    /// # Errors
    /// `WorkflowKept`.
    pub(super) fn check_workflows(
        &self,
        after: &SourceRegistration,
    ) -> Result<Vec<RowExpectation>, RegistryError> {
        let registered = self.store.all_registered::<Workflow>()?;
        let mut workflows: Vec<_> = registered.into_iter().map(|registered| registered.document).collect();
        workflows.retain(|workflow| {
            let is_stopped = workflow.ontology.ontology_id == after.ontology.ontology_id
                && workflow.ontology != after.ontology;
            workflow.oracles.contains(&after.oracle_id) && !is_stopped
        });
        let oracles: BTreeSet<_> = workflows.iter().flat_map(|workflow| &workflow.oracles).collect();
        let (sources, expect) = self.with_rows(oracles)?;
        let before: Vec<_> = sources.iter().map(|state| &state.entry.registration).collect();
        let changed = |source: &&SourceRegistration| source.oracle_id == after.oracle_id;
        let after: Vec<_> =
            before.iter().map(|source| if changed(source) { after } else { *source }).collect();
        for workflow in &workflows {
            let ontology = self.ontology(&workflow.ontology)?;
            if workflow.validate(&ontology, &before).is_err() {
                continue;
            }
            workflow.validate(&ontology, &after).map_err(|fault| RegistryError::WorkflowKept {
                workflow_id: workflow.workflow_id.clone(),
                fault,
            })?;
        }
        Ok(expect)
    }

    /// The registered ones among `oracles`, and the condition that the rows of all `oracles` are unchanged.
    fn with_rows<'a>(
        &self,
        oracles: impl IntoIterator<Item = &'a SourceId>,
    ) -> Result<(Vec<SourceState>, Vec<RowExpectation>), RegistryError> {
        let (mut states, mut expect) = (Vec::new(), Vec::new());
        for oracle_id in oracles {
            let known = self.store.source(oracle_id)?;
            let revision = known.as_ref().map(|(_, revision)| *revision);
            expect.push(RowExpectation::new::<SourceState>(oracle_id, revision));
            states.extend(known.map(|(state, _)| state));
        }
        Ok((states, expect))
    }
}
