//! The hosts that share one log.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The digests of the sections of a configuration that all hosts need alike, by their keys.
pub type ConfigDigests = BTreeMap<String, String>;

/// The sections in which the configuration of another host decides otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConfigDifference {
    /// The other host.
    pub host: String,
    /// The keys of the sections.
    pub sections: Vec<String>,
}

impl ConfigDifference {
    /// The difference of the configuration of `host` from the own one; `None` if both decide the same.
    #[must_use]
    pub fn between(own: &ConfigDigests, host: &str, other: &ConfigDigests) -> Option<Self> {
        let keys: BTreeSet<_> = own.keys().chain(other.keys()).collect();
        let sections: Vec<_> =
            keys.into_iter().filter(|key| own.get(*key) != other.get(*key)).cloned().collect();
        (!sections.is_empty()).then(|| Self { host: host.to_owned(), sections })
    }
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration of the host {} differs in {}", self.host, self.sections.join(", "))
    }
}

/// `GET /v1/cluster`: the cluster, as this host sees it.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterReport {
    /// The name of this host.
    pub host: String,
    /// Whether this host does the work that one host does at a time, such as sending mail.
    pub has_work: bool,
    /// The time since this host had all entries of the shared log.
    pub contact_ms: u64,
    /// Why the shared log cannot be read or written now.
    pub failure: Option<String>,
    /// The live hosts whose configuration differs from that of this host in a section that all hosts need alike.
    pub config_differences: Vec<ConfigDifference>,
    /// The number of files of sources that other hosts have made, and that this host still fetches. Queries of these sources wait or get
    /// `facts_not_here`.
    pub missing_files: u64,
    /// The length of these files, in bytes.
    pub missing_bytes: u64,
    /// Why a file cannot be fetched now.
    pub fetch_failure: Option<String>,
    /// The ids of the cluster's keys that this host has. The first one encrypts.
    pub keys: Vec<String>,
    /// The standbys of the server, as they were `hosts_read_ms` ago; `null` if they were not read yet.
    pub standbys: Option<ClusterStandbys>,
    /// How the rights of this host's user of the server differ from those that it needs, as of the last connection.
    pub rights: ClusterRights,
    /// The hosts, as they were `hosts_read_ms` ago.
    pub hosts: Vec<ClusterHostReport>,
    /// The time since the hosts were read; `null` if they were not read yet.
    pub hosts_read_ms: Option<u64>,
}

/// How the rights of a host's user of the server differ from those that it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterRights {
    /// The statements that grant the missing ones.
    pub missing: Vec<String>,
    /// The ones that it does not need. If it owns the tables, only that is named.
    pub excess: Vec<String>,
}

/// The standbys of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterStandbys {
    /// The setting `synchronous_standby_names` of the server; empty if it waits for none.
    pub synchronous_standby_names: String,
    /// The number of standbys that are connected to it.
    pub connected: u64,
}

/// A host of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterHostReport {
    /// Its name.
    pub host: String,
    /// `live`, `removed` or `left`. A host that is not live cannot write to the shared log.
    pub state: String,
    /// The version of its daemon.
    pub version: String,
    /// The version of its rows.
    pub schema: u32,
    /// The last entry of the shared log that it has applied.
    pub applied: u64,
    /// The entry of an erasure or a removal of old data up to which it has removed them from its files.
    pub removed: u64,
    /// How far its clock is ahead of the clock of the server.
    pub clock_offset_ms: i64,
    /// The time since its last message to the server.
    pub seen_ms: u64,
    /// The work that it alone does now.
    pub leases: Vec<String>,
    /// The digests of the sections of its configuration that all hosts need alike.
    pub config: BTreeMap<String, String>,
}

impl ClusterReport {
    /// The live hosts whose configuration differs from that of this host in a section that all hosts need alike.
    #[must_use]
    pub fn find_config_differences(&self) -> Vec<ConfigDifference> {
        let own = self.hosts.iter().find(|host| host.host == self.host && !host.config.is_empty());
        let Some(own) = own else { return Vec::new() };
        let is_live = |host: &&ClusterHostReport| host.is_live() && !host.is_away(self);
        // a host that has just joined has none yet
        // and another version can have other keys
        let is_compared = |host: &&ClusterHostReport| !host.config.is_empty() && host.version == own.version;
        let others = self.hosts.iter().filter(is_live).filter(is_compared);
        others
            .filter_map(|other| ConfigDifference::between(&own.config, &other.host, &other.config))
            .collect()
    }
}

/// A difference of the clocks of a host and of the server that is reported, in milliseconds.
pub const CLOCK_OFFSET_NOTED_MS: u64 = 500;
/// How long a live host may send nothing, in milliseconds.
pub const SILENT_MAX_MS: u64 = 10_000;

impl ClusterHostReport {
    /// Whether the host of `report` is live by its state, and was not seen lately.
    #[must_use]
    pub fn is_away(&self, report: &ClusterReport) -> bool {
        self.is_live() && self.silent_ms(report) > SILENT_MAX_MS
    }

    /// Whether it is a member.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state == "live"
    }

    /// Whether it was seen lately, when the hosts were read.
    #[must_use]
    pub const fn was_seen_lately(&self) -> bool {
        self.seen_ms <= SILENT_MAX_MS
    }

    /// The time since it was seen.
    #[must_use]
    pub fn silent_ms(&self, report: &ClusterReport) -> u64 {
        self.seen_ms.saturating_add(report.hosts_read_ms.unwrap_or_default())
    }
}

/// `DELETE /v1/cluster/hosts/{host}`: a host that can write to the shared log no longer.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterHostRemoved {
    /// Its name.
    pub host: String,
}

/// `POST /v1/cluster/leave`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterLeaveRequest {
    /// Whether this is the last host, whose store continues without a cluster.
    #[serde(default)]
    pub last: bool,
}
