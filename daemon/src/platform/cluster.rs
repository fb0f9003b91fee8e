//! This host as one of a cluster, whose hosts share one log in PostgreSQL.

mod config;
#[cfg(feature = "cluster")]
mod membership;
mod metrics;

use actors_audit::logger::{JournalReport, LogContact};
use actors_platform::host_removals::HostRemovals;
use actors_platform::shared_calls::SharedCalls;
use actors_platform::work_turn::{LeaseCall, WorkTurn};
use anyhow::bail;
pub use config::{ClusterDurability, ClusterSecrets, ClusterSection};
use domain_base::cluster::{ClusterHostReport, ClusterRights, ClusterStandbys, ConfigDigests};
use metrics::SharedLogMetrics;
use oracled_store::ClusterMarker;
use secrecy::SecretString;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// The cluster, as this host saw it last.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterView {
    pub(crate) hosts: Vec<ClusterHostReport>,
    /// When the hosts were read.
    pub(crate) read_at: Option<Instant>,
    /// Why the membership cannot be renewed now.
    pub(crate) fault: Option<String>,
    /// Why this host accepts no new work: its clock decides how long an attempt is its own.
    pub(crate) clock_fault: Option<String>,
    /// How the membership has ended, if it has: an error is the reason why this host can write to the shared log no longer.
    pub(crate) ended: Option<Result<(), String>>,
    pub(crate) standbys: Option<ClusterStandbys>,
    pub(crate) rights: ClusterRights,
}

/// A change of the membership.
#[derive(Debug)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "the thread of the membership reads them"))]
pub(crate) enum MembershipCall {
    /// Removes another host. Answers whether there is one with this name.
    Remove { host: String, reply: oneshot::Sender<Result<bool, String>> },
    /// Ends the membership of this host. Answers whether it has ended: not if this is to be the last host and is not.
    Leave { is_last: bool, reply: oneshot::Sender<Result<bool, String>> },
    /// Takes or ends the lease of a single piece of work.
    Lease(LeaseCall),
    /// Gives the turn to another host, since this one is stopping.
    Release { reply: oneshot::Sender<Result<bool, String>> },
}

/// The membership of this host in its cluster. A thread of its own writes its heartbeat, and holds its turn at the work that one host
/// does at a time; both end with this.
#[derive(Debug)]
pub struct ClusterMember {
    pub(crate) host: String,
    pub(crate) turn: WorkTurn,
    pub(crate) view: watch::Receiver<ClusterView>,
    pub(crate) calls: Sender<MembershipCall>,
    /// The removals of data from the files of all hosts.
    pub(crate) removals: HostRemovals,
    /// The URL of the server, as the start has read it.
    pub(crate) url: SecretString,
    #[cfg(feature = "cluster")]
    pub(crate) keys: store_postgres::ClusterKeys,
    /// The limits of calls of models, over a connection of their own, so that they do not delay the heartbeat.
    pub(crate) shared_calls: SharedCalls,
    pub(crate) metrics: SharedLogMetrics,
    /// The state of the journal and the contact with the shared log, once the logger runs: a host that cannot write gives up its turn.
    pub(crate) journal: Arc<OnceLock<(watch::Receiver<JournalReport>, LogContact)>>,
}

/// The values that this host compares with those of the other hosts of its cluster.
#[derive(Debug)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "the membership compares them"))]
pub(crate) struct ClusterDigests {
    /// The public key of the log.
    pub(crate) log_key: String,
    /// The digest of the key of held verdicts.
    pub(crate) held_key: String,
    /// The digests of the sections of the configuration that all hosts need alike.
    pub(crate) config: ConfigDigests,
}

/// How long a stop waits until another host can take the turn.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);

impl ClusterMember {
    /// Whether this host can write to the shared log no longer.
    pub(crate) fn has_ended(&self) -> bool {
        self.view.borrow().ended.is_some()
    }

    /// The ids of the cluster's keys that this host has, the one that encrypts first.
    #[cfg(feature = "cluster")]
    pub(crate) fn key_ids(&self) -> Vec<String> {
        self.keys.ids()
    }

    #[cfg(not(feature = "cluster"))]
    #[expect(clippy::unused_self, reason = "only a host of a cluster has keys")]
    pub(crate) const fn key_ids(&self) -> Vec<String> {
        Vec::new()
    }

    /// Gives the turn to another host. If that fails, the turn ends by itself.
    pub(crate) async fn release(&self) {
        let (reply, released) = oneshot::channel();
        if self.calls.send(MembershipCall::Release { reply }).is_ok() {
            drop(timeout(RELEASED_WITHIN, released).await);
        }
    }

    /// Waits until the membership has ended.
    ///
    /// # Errors
    /// The reason, unless this host was asked to leave.
    pub(crate) async fn ended(&self) -> Result<(), String> {
        let mut view = self.view.clone();
        let ended = view.wait_for(|view| view.ended.is_some()).await.ok().and_then(|view| view.ended.clone());
        ended.unwrap_or_else(|| Err("the thread of the cluster has ended".to_owned()))
    }
}

/// The marker of the state directory `dir`; `None` if this host is the only one of its log.
///
/// # Errors
/// The store belongs to a cluster and the configuration does not, or the reverse.
pub(crate) fn find_marker(section: &ClusterSection, dir: &Path) -> anyhow::Result<Option<ClusterMarker>> {
    let (marker, at) = (ClusterMarker::read(dir)?, dir.display());
    match (&section.host, marker) {
        (None, None) => Ok(None),
        (None, Some(ClusterMarker::Leaving { .. })) => bail!(
            "the store in {at} is that of the last host of a cluster, whose end is not complete; set the section `[cluster]` again, and start \
             the daemon, which completes it"
        ),
        (None, Some(_)) => bail!(
            "the store in {at} is that of a host of a cluster, and `cluster.host` is not set; set it again. While the daemon runs, \
             `oraclectl cluster leave` ends the membership"
        ),
        (Some(host), None) => bail!(
            "`cluster.host` is {host}, and the store in {at} belongs to no cluster; run `oraclectl cluster init --state-dir {at}` on the \
             first host, and `oraclectl cluster join` on each further one. If this host has ended its cluster, remove the section `[cluster]`"
        ),
        (Some(_), Some(ClusterMarker::Left)) => bail!(
            "the store in {at} has left its cluster; move the directory away, and run `oraclectl cluster join` with a backup of another \
             host"
        ),
        (
            Some(host),
            Some(ClusterMarker::Member { host: known, .. } | ClusterMarker::Leaving { host: known, .. }),
        ) if *host != known => bail!(
            "the store in {at} is that of the host {known}, and `cluster.host` is {host}; set it to {known}, or let a new host join"
        ),
        (Some(_), Some(marker)) => Ok(Some(marker)),
    }
}

#[cfg(feature = "cluster")]
pub(crate) use membership::enter;

#[cfg(not(feature = "cluster"))]
pub(crate) async fn enter(
    _: &ClusterSection,
    _: ClusterMarker,
    _: Option<ClusterSecrets>,
    _: ClusterDigests,
    _: (oracled_store::Journal, oracled_store::Store),
) -> anyhow::Result<(oracled_store::Journal, ClusterMember)> {
    bail!("this oracled was built without clusters")
}
