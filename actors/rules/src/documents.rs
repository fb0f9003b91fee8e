//! The documents of the rules: word lists.

use actors_ground::registry::{
    DerivedRows, DocumentChecks, DocumentRegistration, DocumentRegistry, RegistryError,
};
use domain_base::caller::PeerCredentials;
use domain_rules::wordlist::Wordlist;
use oracled_store::JournalRecord;

/// The kinds of documents of the feature.
pub const DOCUMENTS: &[&DocumentRegistration] = &[WordlistChecks::REGISTRATION];

/// Checks of word lists.
#[derive(Debug)]
pub struct WordlistChecks;

impl DocumentChecks for WordlistChecks {
    type Document = Wordlist;

    fn decide(
        list: &Wordlist,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        list.validate().map_err(RegistryError::invalid)?;
        registry.context.replacement(list, DerivedRows::default(), peer)
    }
}
