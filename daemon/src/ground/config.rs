//! The configuration of ingestion: the limits of pulls and runs, and the credentials of pipelines.

use crate::platform::config::credentials::{
    ClientSetup, ConfiguredCredential, CredentialKeys, cleartext_faults,
};
use crate::platform::config::{ConfigError, Configuration, LimitsSection, Section, not_allowed_error};
use actors_ground::ingestion::IngestionConfig;
use actors_ground::pull::{PayloadPuller, PullSettings};
use actors_platform::work_turn::WorkTurn;
use actors_upstream::Reloadable;
use actors_upstream::oracle::LiveSettings;
use domain_ground::id::PipelineId;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store_facts::objects::SharedObjects;
use store_facts::slices::SliceLimits;
use utoipa::ToSchema;

/// The key of the credentials.
const CREDENTIALS: &str = "ingestion.credentials";
/// The seconds that remain for a query after it has waited for fresh data. The query can then return an
/// error before the request times out.
const LEFT_FOR_THE_REST_S: u64 = 1;

/// Private address ranges that sources may be pulled from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct AddressRanges(Vec<IpNet>);

impl TryFrom<Vec<String>> for AddressRanges {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, &'static str> {
        let ranges: Result<_, _> = words.iter().map(|word| word.parse()).collect();
        ranges.map(Self).map_err(
            |_| "an entry is not a range of addresses; allowed: 10.0.0.0/8, fd00::/8, 127.0.0.1/32, …",
        )
    }
}

impl From<AddressRanges> for Vec<String> {
    fn from(AddressRanges(ranges): AddressRanges) -> Self {
        ranges.iter().map(ToString::to_string).collect()
    }
}

/// Limits of ingestion, and the credentials of pipelines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestionSection {
    /// Private address ranges that sources may be pulled from, for example `["10.0.0.0/8"]`; in a variable separated by
    /// commas. All other connections go only to public addresses, also after name resolution or a redirect.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub allow_local: AddressRanges,
    /// Maximum length of a payload.
    #[schema(minimum = 1, maximum = 1_099_511_627_776u64)]
    pub max_payload_bytes: u64,
    /// Time limit for connecting to a source.
    #[schema(minimum = 1, maximum = 300)]
    pub connect_s: u64,
    /// Time that a source may send no bytes.
    #[schema(minimum = 1, maximum = 3600)]
    pub idle_s: u64,
    /// Time limit of a whole pull.
    #[schema(minimum = 1, maximum = 86_400)]
    pub pull_s: u64,
    /// Maximum number of runs in progress.
    #[schema(minimum = 1, maximum = 64)]
    pub runs_at_once: usize,
    /// Time that a query waits for fresh data, if its source's policy requires this; at least 1 s less than
    /// `limits.request_s`. With 0, a query does not wait.
    pub refresh_s: u64,
    /// The credential of each pipeline, by its `pipeline_id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, CredentialKeys>)]
    pub credentials: BTreeMap<PipelineId, ConfiguredCredential>,
}

impl Default for IngestionSection {
    fn default() -> Self {
        Self {
            allow_local: AddressRanges::default(),
            max_payload_bytes: 16 << 30,
            connect_s: 10,
            idle_s: 60,
            pull_s: 3600,
            runs_at_once: 2,
            refresh_s: 10,
            credentials: BTreeMap::new(),
        }
    }
}

impl Section for IngestionSection {
    fn key(&self) -> &'static str {
        "ingestion"
    }

    fn check_limits(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        let max_s = all.section::<LimitsSection>().request_s.saturating_sub(LEFT_FOR_THE_REST_S);
        if self.refresh_s <= max_s {
            return Vec::new();
        }
        let allowed = format!("0 to {max_s}: a second less than `limits.request_s`");
        vec![not_allowed_error("ingestion.refresh_s", self.refresh_s, allowed)]
    }
}

impl IngestionSection {
    /// The settings of ingestion with this client of payloads, and with the turn and the objects of a cluster.
    #[must_use]
    pub fn to_config(
        &self,
        puller: Reloadable<PayloadPuller>,
        (turn, objects): (WorkTurn, Option<Arc<dyn SharedObjects>>),
    ) -> IngestionConfig {
        IngestionConfig {
            turn,
            objects,
            runs_at_once: self.runs_at_once,
            limits: SliceLimits::default(),
            puller,
            refresh_wait: Duration::from_secs(self.refresh_s),
        }
    }

    /// The limits of pulls.
    #[must_use]
    pub fn to_pull_settings(&self, allow_cleartext: bool) -> PullSettings {
        let Self { allow_local: AddressRanges(ranges), max_payload_bytes, connect_s, idle_s, pull_s, .. } =
            self;
        PullSettings {
            allow_local: ranges.clone(),
            allow_cleartext,
            max_payload_bytes: *max_payload_bytes,
            connect: Duration::from_secs(*connect_s),
            idle: Duration::from_secs(*idle_s),
            whole: Duration::from_secs(*pull_s),
        }
    }

    /// The limits of calls to live sources: the same networks and timeouts as for pulls.
    #[must_use]
    pub fn to_live_settings(&self, allow_cleartext: bool) -> LiveSettings {
        let Self { allow_local: AddressRanges(ranges), connect_s, idle_s, .. } = self;
        LiveSettings {
            allow_local: ranges.clone(),
            allow_cleartext,
            connect: Duration::from_secs(*connect_s),
            idle: Duration::from_secs(*idle_s),
        }
    }

    /// The credentials that would cross a network in clear text.
    pub(crate) fn cleartext_faults(&self, allow_local: &[IpNet]) -> Vec<ConfigError> {
        cleartext_faults(CREDENTIALS, &self.credentials, allow_local)
    }

    /// The client that pulls payloads of sources; `None` if a credential cannot be used. No connection is opened yet.
    pub(crate) fn create_puller(&self, setup: &mut ClientSetup<'_>) -> Option<Reloadable<PayloadPuller>> {
        let credentials = setup.read_credentials(CREDENTIALS, &self.credentials)?;
        let settings = self.to_pull_settings(setup.network.allow_cleartext);
        Some(Reloadable::new(Arc::new(PayloadPuller::new(settings, credentials, setup.clock.clone()))))
    }
}
