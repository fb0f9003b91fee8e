//! The documents of verdicts: prompt templates and mail templates.

use crate::ground::registry::{
    DerivedRows, DocumentRegistration, DocumentRegistry, RegistrableDocument, RegistryError, StatusReader,
};
use crate::verdict::generation::{PromptError, find_prompt_template};
use oracled_domain::verdict::template_name::TemplateName;
use oracled_domain::{MailTemplate, PeerCredentials, PromptTemplate};
use oracled_store::JournalRecord;

/// The kinds of documents of the feature.
pub(crate) const DOCUMENTS: &[&DocumentRegistration] =
    &[PromptTemplate::REGISTRATION, MailTemplate::REGISTRATION];

impl RegistrableDocument for PromptTemplate {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        self.validate().map_err(RegistryError::invalid)?;
        registry.context.replacement(self, DerivedRows::default(), peer)
    }

    /// Whether it is the current template of an application.
    fn status_reader(registry: &DocumentRegistry) -> Result<StatusReader<'_, Self>, RegistryError> {
        let mut current = Vec::new();
        for name in
            registry.configured::<Self>().filter_map(|name| TemplateName::try_from(name.to_owned()).ok())
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

impl RegistrableDocument for MailTemplate {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        self.validate().map_err(RegistryError::invalid)?;
        registry.context.replacement(self, DerivedRows::default(), peer)
    }
}
