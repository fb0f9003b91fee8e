//! The configuration of verification.

use crate::platform::config::credentials::{
    ClientSetup, ConfiguredCredential, CredentialKeys, cleartext_faults,
};
use crate::platform::config::{ConfigError, Section};
use actors_upstream::oracle::{HttpLiveOracle, LiveOracle};
use actors_upstream::reloadable::Reloadable;
use domain_ground::id::SourceId;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// The key of the credentials.
const CREDENTIALS: &str = "verification.credentials";

/// Limits of verification, and the credentials of live sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerificationSection {
    /// Maximum number of concurrent questions to sources. Further ones wait within the latency budget of their workflow.
    #[schema(minimum = 1, maximum = 10_000)]
    pub at_once: usize,
    /// The credential for each live source, by its `oracle_id`. `ingestion.allow_local`, `ingestion.connect_s` and
    /// `ingestion.idle_s` also apply to live sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, CredentialKeys>)]
    pub credentials: BTreeMap<SourceId, ConfiguredCredential>,
}

impl Default for VerificationSection {
    fn default() -> Self {
        Self { at_once: 64, credentials: BTreeMap::new() }
    }
}

impl Section for VerificationSection {
    fn key(&self) -> &'static str {
        "verification"
    }
}

impl VerificationSection {
    /// The credentials that would cross a network in clear text.
    pub(crate) fn cleartext_faults(&self, allow_local: &[IpNet]) -> Vec<ConfigError> {
        cleartext_faults(CREDENTIALS, &self.credentials, allow_local)
    }

    /// The client of live sources; `None` if a credential cannot be used. No connection is opened yet.
    pub(crate) fn create_live_client(
        &self,
        setup: &mut ClientSetup<'_>,
    ) -> Option<Reloadable<dyn LiveOracle>> {
        let credentials = setup.read_credentials(CREDENTIALS, &self.credentials)?;
        let client = HttpLiveOracle::new(&setup.network, credentials, setup.clock.clone());
        Some(Reloadable::<dyn LiveOracle>::new(Arc::new(client)))
    }
}
