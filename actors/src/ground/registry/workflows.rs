//! Workflows of verification: registered over what there is, and kept from ceasing to work by what becomes of it
//! (RFC-0002, Part II).

use super::{Desk, Registrable, Registry, RegistryError, as_read};
use crate::audit::commit_loop::Decided;
use crate::platform::metrics::Metrics;
use oracled_domain::audit::event::verification::WorkflowEntry;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::source::Registration;
use oracled_domain::verification::workflow::{RegisteredWorkflow, Workflow};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::ground::state::SourceState;
use oracled_store::{Expect, Record, RowKey, Store, Write};
use std::collections::BTreeSet;
use std::sync::Arc;

/// That a workflow works over its ontology and its sources as they are registered now. A source that has gone on to another
/// version of the ontology stops it, until it is registered with that one, too. Whoever lists workflows asks this; a decision
/// does not, and says of each source by itself why it is not asked.
///
/// # Errors
/// `OntologyUnknown`; `Workflow` for what keeps it from working; where the store cannot be read.
pub fn check_workflow(store: &Store, workflow: &Workflow) -> Result<(), RegistryError> {
    let unknown = || RegistryError::OntologyUnknown(workflow.ontology.clone());
    let (ontology, _) = store.ontology(&workflow.ontology)?.ok_or_else(unknown)?;
    let mut sources = Vec::new();
    for oracle_id in &workflow.oracles {
        sources.extend(store.source(oracle_id)?.map(|(state, _)| state.entry.registration));
    }
    Ok(workflow.validate(&ontology, &sources.iter().collect::<Vec<_>>())?)
}

impl Registrable for Workflow {
    type Registered = RegisteredWorkflow;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<RegisteredWorkflow>, RegistryError> {
        let desk = &registry.desk;
        let (workflow_id, workflow_sha256) = (&self.workflow_id, self.digest());
        let ontology = desk.ontology(&self.ontology)?;
        let (oracles, mut expect) = desk.with_rows(&self.oracles)?;
        let sources: Vec<_> =
            desk.store.sources()?.into_iter().map(|state| state.entry.registration).collect();
        self.validate(&ontology, &sources.iter().collect::<Vec<_>>())?;
        let known = desk.store.workflow(workflow_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let known = known.map(|(known, _)| known);
        if let Some(known) = known.as_ref().filter(|known| known.workflow_sha256 == workflow_sha256) {
            return Ok(Decided::Already(known.clone()));
        }
        let timestamp = desk.clock.now();
        let registered = RegisteredWorkflow {
            workflow: self.clone(),
            workflow_sha256: workflow_sha256.clone(),
            registered_at: timestamp,
            registered_by: peer.uid.to_string(),
        };
        let entry = WorkflowEntry {
            workflow_id: workflow_id.clone(),
            before_sha256: known.map(|known| known.workflow_sha256),
            workflow_sha256,
            workflow: Box::new(self.clone()),
            peer,
        };
        expect.extend(as_read(RowKey::Workflow(workflow_id.clone()), revision));
        // as they are: whoever describes one otherwise at this moment does not know of the workflow, and is to decide once more
        let mut writes: Vec<_> = oracles.into_iter().map(|state| Write::PutSource(Arc::new(state))).collect();
        writes.push(Write::PutWorkflow(Arc::new(registered.clone())));
        let record = Record {
            expect,
            events: vec![Event::new(timestamp, None, EventKind::WorkflowRegistered(entry))],
            writes,
            ..Record::default()
        };
        Ok(Decided::Change(registered, record))
    }

    fn announce(registered: &RegisteredWorkflow, metrics: &Metrics) {
        metrics.verifying.expects(&registered.workflow);
    }
}

impl Desk {
    /// That no workflow that works would cease to by what is to be registered of its source. Another version of its ontology
    /// stops a workflow and does not break it: neither could follow the other else. What comes back is that the sources of
    /// those workflows must be as they were read, which a workflow that comes or changes meanwhile keeps from being so.
    ///
    /// # Errors
    /// `WorkflowKept`.
    pub(super) fn check_workflows(&self, after: &Registration) -> Result<Vec<Expect>, RegistryError> {
        let mut workflows = self.store.workflows()?;
        workflows.retain(|RegisteredWorkflow { workflow, .. }| {
            let is_stopped = workflow.ontology.ontology_id == after.ontology.ontology_id
                && workflow.ontology != after.ontology;
            workflow.oracles.contains(&after.oracle_id) && !is_stopped
        });
        let oracles: BTreeSet<_> =
            workflows.iter().flat_map(|registered| &registered.workflow.oracles).collect();
        let (sources, expect) = self.with_rows(oracles)?;
        let before: Vec<_> = sources.iter().map(|state| &state.entry.registration).collect();
        let changed = |source: &&Registration| source.oracle_id == after.oracle_id;
        let after: Vec<_> =
            before.iter().map(|source| if changed(source) { after } else { *source }).collect();
        for RegisteredWorkflow { workflow, .. } in &workflows {
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

    /// Those of these sources that are registered, and that the rows of all of them must be as they were read.
    fn with_rows<'a>(
        &self,
        oracles: impl IntoIterator<Item = &'a SourceId>,
    ) -> Result<(Vec<SourceState>, Vec<Expect>), RegistryError> {
        let (mut states, mut expect) = (Vec::new(), Vec::new());
        for oracle_id in oracles {
            let known = self.store.source(oracle_id)?;
            let revision = known.as_ref().map(|(_, revision)| *revision);
            expect.push(Expect { row: RowKey::Source(oracle_id.clone()), revision });
            states.extend(known.map(|(state, _)| state));
        }
        Ok((states, expect))
    }
}
