//! The documents of verdicts: prompt templates and mail templates.

use crate::generation::{PromptError, find_prompt_template};
use actors_ground::registry::{
    DerivedRows, DocumentChecks, DocumentRegistration, DocumentRegistry, RegistryError, StatusReader,
};
use domain_base::caller::PeerCredentials;
use domain_verdict::mail_template::MailTemplate;
use domain_verdict::prompt::{PromptTemplate, TemplateName};
use oracled_store::JournalRecord;

/// The kinds of documents of the feature.
pub const DOCUMENTS: &[&DocumentRegistration] =
    &[PromptTemplateChecks::REGISTRATION, MailTemplateChecks::REGISTRATION];

/// Checks of prompt templates.
#[derive(Debug)]
pub struct PromptTemplateChecks;

impl DocumentChecks for PromptTemplateChecks {
    type Document = PromptTemplate;

    fn decide(
        document: &PromptTemplate,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        document.validate().map_err(RegistryError::invalid)?;
        registry.context.replacement(document, DerivedRows::default(), peer)
    }

    /// Whether it is the current template of an application.
    fn status_reader(registry: &DocumentRegistry) -> Result<StatusReader<'_, PromptTemplate>, RegistryError> {
        let mut current = Vec::new();
        for name in registry
            .configured::<PromptTemplate>()
            .filter_map(|name| TemplateName::try_from(name.to_owned()).ok())
        {
            match find_prompt_template(&registry.context.store, &name) {
                Ok(template) => current.push(template.reference()),
                Err(PromptError::Unknown(_) | PromptError::Tier(_)) => {}
                Err(PromptError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(Box::new(move |template| {
            Ok(current.contains(&template.reference()).then(|| "current".to_owned()))
        }))
    }
}

/// Checks of mail templates.
#[derive(Debug)]
pub struct MailTemplateChecks;

impl DocumentChecks for MailTemplateChecks {
    type Document = MailTemplate;

    fn decide(
        template: &MailTemplate,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        template.validate().map_err(RegistryError::invalid)?;
        registry.context.replacement(template, DerivedRows::default(), peer)
    }
}
