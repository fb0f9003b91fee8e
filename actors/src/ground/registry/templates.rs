//! Prompt templates and mail templates, which are immutable under their version.

use super::{CommitContext, DocumentRegistry, RegistrableDocument, RegistryError};
use oracled_domain::documents::RegistryDocument;
use oracled_domain::{MailTemplate, PeerCredentials, PromptTemplate};
use oracled_store::JournalRecord;

impl RegistrableDocument for PromptTemplate {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        self.validate()?;
        registry.context.template_registration(self, peer)
    }
}

impl RegistrableDocument for MailTemplate {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        self.validate()?;
        registry.context.template_registration(self, peer)
    }
}

impl CommitContext {
    /// The record that registers a version of a template; `None` if it is registered already.
    fn template_registration<D: RegistryDocument + Clone + PartialEq>(
        &self,
        template: &D,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let document_id = template.document_id();
        match self.store.registered::<D>(&document_id)? {
            Some((known, _)) if known.document == *template => Ok(None),
            Some(_) => Err(RegistryError::TemplateFixed { kind: D::KIND, document_id }),
            None => self.replacement(template, Vec::new(), Vec::new(), peer),
        }
    }
}
