//! Prompt templates, which are immutable under their version.

use super::{DocumentRegistry, RegistrableDocument, RegistryError};
use oracled_domain::documents::RegistryDocument;
use oracled_domain::{PeerCredentials, PromptTemplate};
use oracled_store::JournalRecord;

impl RegistrableDocument for PromptTemplate {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        self.validate()?;
        match context.store.registered::<Self>(&self.document_id())? {
            Some((known, _)) if known.document == *self => return Ok(None),
            Some(_) => return Err(RegistryError::PromptTemplateFixed(self.reference())),
            None => {}
        }
        context.replacement(self, Vec::new(), Vec::new(), peer)
    }
}
