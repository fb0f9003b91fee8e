//! Workflows of verification: registered over what there is, and kept from ceasing to work by what becomes of it
//! (RFC-0002, Part II).

use super::{Decided, Desk, Registered, Registry, RegistryError, as_read};
use actix::{Context, Handler, Message, ResponseFuture};
use domain::event::verification::WorkflowEntry;
use domain::ground::source::Registration;
use domain::verification::workflow::{RegisteredWorkflow, Workflow};
use domain::{Event, Peer};
use std::sync::Arc;
use store::{Expect, Record, RowKey, Store, Write};

/// Registers a workflow, or another definition of one.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered<RegisteredWorkflow>, RegistryError>")]
pub struct RegisterWorkflow {
    /// The document.
    pub workflow: Box<Workflow>,
    /// By whom.
    pub peer: Peer,
}

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

impl Desk {
    async fn register_workflow(
        &self,
        message: RegisterWorkflow,
    ) -> Result<Registered<RegisteredWorkflow>, RegistryError> {
        let RegisterWorkflow { workflow, peer } = message;
        let (workflow_id, workflow_sha256) = (&workflow.workflow_id, workflow.digest());
        let (document, changed) = self
            .change(|desk| {
                let ontology = desk.ontology(&workflow.ontology)?;
                let mut expect = Vec::new();
                for oracle_id in &workflow.oracles {
                    let revision = desk.store.source(oracle_id)?.map(|(_, revision)| revision);
                    expect.push(Expect { row: RowKey::Source(oracle_id.clone()), revision });
                }
                let sources = desk.registrations()?;
                workflow.validate(&ontology, &sources.iter().collect::<Vec<_>>())?;
                let known = desk.store.workflow(workflow_id)?;
                let revision = known.as_ref().map(|(_, revision)| *revision);
                let known = known.map(|(known, _)| known);
                if let Some(known) = known.as_ref().filter(|known| known.workflow_sha256 == workflow_sha256) {
                    return Ok(Decided::Already(known.clone()));
                }
                let timestamp = desk.clock.now();
                let registered = RegisteredWorkflow {
                    workflow: (*workflow).clone(),
                    workflow_sha256: workflow_sha256.clone(),
                    registered_at: timestamp,
                    registered_by: peer.uid.to_string(),
                };
                let entry = WorkflowEntry {
                    workflow_id: workflow_id.clone(),
                    before_sha256: known.map(|known| known.workflow_sha256),
                    workflow_sha256: workflow_sha256.clone(),
                    workflow: workflow.clone(),
                    peer,
                    timestamp,
                };
                expect.extend(as_read(RowKey::Workflow(workflow_id.clone()), revision));
                let record = Record {
                    expect,
                    events: vec![Event::WorkflowRegistered(entry)],
                    writes: vec![Write::PutWorkflow(Arc::new(registered.clone()))],
                };
                Ok(Decided::Change(registered, record))
            })
            .await?;
        Ok(Registered { document, unchanged: !changed })
    }

    /// That no workflow that works would cease to by what is to be registered of its source. Another version of its ontology
    /// stops a workflow and does not break it: neither could follow the other else.
    ///
    /// # Errors
    /// `WorkflowKept`.
    pub(super) fn check_workflows(&self, after: &Registration) -> Result<(), RegistryError> {
        let mut workflows = self.store.workflows()?;
        workflows.retain(|RegisteredWorkflow { workflow, .. }| {
            let is_stopped = workflow.ontology.ontology_id == after.ontology.ontology_id
                && workflow.ontology != after.ontology;
            workflow.oracles.contains(&after.oracle_id) && !is_stopped
        });
        if workflows.is_empty() {
            return Ok(());
        }
        let sources = self.registrations()?;
        let before: Vec<_> = sources.iter().collect();
        let changed = |source: &&Registration| source.oracle_id == after.oracle_id;
        let after: Vec<_> =
            before.iter().map(|source| if changed(source) { after } else { *source }).collect();
        for RegisteredWorkflow { workflow, .. } in workflows {
            let ontology = self.ontology(&workflow.ontology)?;
            if workflow.validate(&ontology, &before).is_err() {
                continue;
            }
            workflow.validate(&ontology, &after).map_err(|fault| RegistryError::WorkflowKept {
                workflow_id: workflow.workflow_id.clone(),
                fault,
            })?;
        }
        Ok(())
    }

    /// Every source as it is registered.
    fn registrations(&self) -> Result<Vec<Registration>, RegistryError> {
        Ok(self.store.sources()?.into_iter().map(|state| state.entry.registration).collect())
    }
}

impl Handler<RegisterWorkflow> for Registry {
    type Result = ResponseFuture<Result<Registered<RegisteredWorkflow>, RegistryError>>;

    fn handle(&mut self, message: RegisterWorkflow, _: &mut Context<Self>) -> Self::Result {
        let (desk, metrics) = (self.desk.clone(), self.metrics.clone());
        Box::pin(async move {
            let registered = desk.register_workflow(message).await?;
            metrics.verifying.expects(&registered.document.workflow);
            Ok(registered)
        })
    }
}
