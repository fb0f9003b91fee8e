//! The registered documents of a kind, without their content.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::config::CommonPromptTemplate;
use oracled_actors::ground::registry::{RegistryError, check_workflow};
use oracled_actors::verdict::generation::{PromptError, find_prompt_template};
use oracled_api::documents::{CAN_DECIDE, DocumentSummary};
use oracled_domain::documents::{DocumentKind, RegisteredDocument, RegistryDocument};
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::{OracleTier, SourceAdapterKind, SourceReviewStatus};
use oracled_domain::ground::source_state::SourceState;
use oracled_domain::verification::adapter::Adapter;
use oracled_domain::verification::workflow::Workflow;
use oracled_domain::{MailTemplate, PromptTemplate};
use oracled_store::Store;

/// The registered documents of a kind without their content.
pub(super) fn read_summaries(
    service: &DaemonService,
    kind: DocumentKind,
) -> Result<Vec<DocumentSummary>, Problem> {
    let store = &service.system.store;
    match kind {
        DocumentKind::Ontology => list_registered::<Ontology>(store, |_| Ok(None)),
        DocumentKind::Adapter => list_registered::<Adapter>(store, |_| Ok(None)),
        DocumentKind::MailTemplate => list_registered::<MailTemplate>(store, |_| Ok(None)),
        DocumentKind::PromptTemplate => list_prompt_templates(service),
        DocumentKind::Workflow => {
            list_registered(store, |workflow| workflow_status(store, workflow).map(Some))
        }
        DocumentKind::Pipeline => {
            let pipelines = store.pipelines()?.into_iter().map(|registered| DocumentSummary {
                kind,
                document_id: registered.pipeline_id.to_string(),
                sha256: registered.pipeline_sha256,
                registered_at: Some(registered.registered_at),
                registered_by: Some(registered.registered_by),
                status: registered.last_pull.map(|pull| format!("last pulled {}", pull.began_at)),
            });
            Ok(pipelines.collect())
        }
        DocumentKind::Source => {
            let sources = store.sources()?.into_iter().map(|SourceState { entry, .. }| DocumentSummary {
                kind,
                document_id: entry.oracle_id().to_string(),
                sha256: entry.registration.digest(),
                registered_at: Some(entry.registered_at),
                registered_by: Some(entry.registered_by.clone()),
                status: Some(match entry.current_version.as_str() {
                    "" => format!("{}, no version", entry.review_status.into_str()),
                    version => format!("{}, version {version}", entry.review_status.into_str()),
                }),
            });
            Ok(sources.collect())
        }
        DocumentKind::FreshnessPolicy => {
            let policies = store.sources()?.into_iter().filter_map(|state| state.policy);
            let summary = |sha256, document_id| DocumentSummary {
                kind,
                document_id,
                sha256,
                registered_at: None,
                registered_by: None,
                status: None,
            };
            Ok(policies.map(|policy| summary(policy.digest(), policy.document_id())).collect())
        }
    }
}

/// The built-in and the registered prompt templates.
fn list_prompt_templates(service: &DaemonService) -> Result<Vec<DocumentSummary>, Problem> {
    let store = &service.system.store;
    let mut current = Vec::new();
    let templates = service.section::<CommonPromptTemplate>().templates(service.section());
    for (_, name) in templates.iter() {
        match find_prompt_template(store, name) {
            Ok(template) => current.push(template.reference()),
            Err(PromptError::Unknown(_) | PromptError::Tier(_)) => {}
            Err(PromptError::Store(error)) => return Err(error.into()),
        }
    }
    let is_current = |template: &PromptTemplate| current.contains(&template.reference());
    let built_in = |template: &PromptTemplate| DocumentSummary {
        kind: DocumentKind::PromptTemplate,
        document_id: template.document_id(),
        sha256: template.digest(),
        registered_at: None,
        registered_by: None,
        status: Some(if is_current(template) { "built in, current" } else { "built in" }.to_owned()),
    };
    let mut templates: Vec<_> = PromptTemplate::built_in_versions().iter().map(built_in).collect();
    let status = |template: &PromptTemplate| Ok(is_current(template).then(|| "current".to_owned()));
    templates.extend(list_registered(store, status)?);
    Ok(templates)
}

/// The documents of a kind that is stored as [`RegisteredDocument`].
fn list_registered<D: RegistryDocument>(
    store: &Store,
    status: impl Fn(&D) -> Result<Option<String>, Problem>,
) -> Result<Vec<DocumentSummary>, Problem> {
    let summary =
        |RegisteredDocument { document, sha256, registered_at, registered_by }: RegisteredDocument<D>| {
            Ok(DocumentSummary {
                kind: D::KIND,
                document_id: document.document_id(),
                sha256,
                registered_at: Some(registered_at),
                registered_by: Some(registered_by),
                status: status(&document)?,
            })
        };
    store.all_registered::<D>()?.into_iter().map(summary).collect()
}

/// Whether a workflow can decide with its sources as they are now, in words.
fn workflow_status(store: &Store, workflow: &Workflow) -> Result<String, Problem> {
    match check_workflow(store, workflow) {
        Ok(()) => {}
        Err(RegistryError::Workflow(fault)) => return Ok(fault.to_string()),
        Err(error) => return Err(error.into()),
    }
    let mut missing = Vec::new();
    for oracle_id in &workflow.oracles {
        let Some((state, _)) = store.source(oracle_id)? else { continue };
        let registration = &state.entry.registration;
        let is_live = registration.adapter_id == SourceAdapterKind::Http;
        let cause = match state.entry.review_status {
            // a workflow decides without these
            _ if registration.oracle_tier == OracleTier::Unverified => continue,
            SourceReviewStatus::Pending => "is not approved",
            _ if is_live && store.registered::<Adapter>(oracle_id.as_str())?.is_none() => {
                "is live and has no adapter"
            }
            _ if !is_live && state.entry.version_history.is_empty() => "has no version yet",
            _ => continue,
        };
        missing.push(format!("{oracle_id} {cause}"));
    }
    Ok(match missing.as_slice() {
        [] => CAN_DECIDE.to_owned(),
        missing => format!("cannot use all of its sources: {}", missing.join("; ")),
    })
}
