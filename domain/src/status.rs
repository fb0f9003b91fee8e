//! The state of the daemon and of all features.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use domain_audit::event::LostRow;
use domain_base::cluster::ClusterReport;
use domain_base::digest::Sha256Hex;
use domain_base::service::is_false;
use domain_ground::id::SourceId;
use domain_verdict::cost::DailyBudget;
use domain_verdict::divergence::RegenVariance;
use domain_verdict::outbox::OutboxReport;
use domain_verdict::webhook::WebhookOutage;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Whether verdicts can be generated, and what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GenerationReadiness {
    /// A model and a prompt exist.
    Ready,
    /// The configuration turns models off.
    NotWanted,
    /// The configuration names no model, and the default one has no key.
    DefaultWithoutKey,
    /// The configured model has no key.
    NoKey,
    /// No prompt template is found, so orders wait.
    NoPrompt,
}

/// The state of the daemon.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatusReport {
    /// The daemon's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// When it began to serve.
    pub started_at: Timestamp,
    /// How long it has served, in seconds.
    pub uptime_s: i64,
    /// Whether it accepts verdicts.
    pub ready: bool,
    /// Why it does not.
    pub reasons: Vec<String>,
    /// What does not work although it accepts verdicts, such as `models_unavailable`: no model can answer, so orders wait.
    pub degraded: Vec<String>,
    /// True in test mode, else absent: verdicts can be canned, and mails go to files.
    #[serde(skip_serializing_if = "is_false", default)]
    pub test_mode: bool,
    /// The configuration file that it was started with; null if it has none.
    pub config_file: Option<String>,
    /// The working directory, from which relative paths of the configuration start; null if it cannot be read.
    pub working_dir: Option<String>,
    /// The keys that have changed in the configuration file since the start, and that need a restart; absent if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub needs_restart: Vec<String>,
    /// The state directory.
    pub state_dir: String,
    /// Entries in the log.
    pub entries: u64,
    /// The time of the last entry; null if it cannot be read.
    pub last_entry_at: Option<Timestamp>,
    /// The latest time of an entry: later than that of the last entry if the clock was set back. Null if it cannot be read.
    pub latest_entry_at: Option<Timestamp>,
    /// When the last complete backup was sent; null if the log has none, or if it cannot be read.
    pub last_backup_at: Option<Timestamp>,
    /// When the first verdict that the log has was stored; null if the log has none, or if it cannot be read.
    pub first_verdict_at: Option<Timestamp>,
    /// The endpoints of webhooks that are paused.
    pub paused_endpoints: Vec<WebhookOutage>,
    /// The public key with which checkpoints of the log are verified.
    pub log_key: String,
    /// The cluster, as this host sees it; null if it is the only host.
    pub cluster: Option<ClusterReport>,
    /// The witnesses of the log.
    pub witnesses: Vec<WitnessReport>,
    /// Verdicts in the store.
    pub verdicts: u64,
    /// Sessions in the store.
    pub sessions: u64,
    /// Why the journal accepts no entries.
    pub journal_failure: Option<String>,
    /// Entries that went to the service log instead.
    pub fallback_entries: u64,
    /// The reason why `oracle_log.jsonl` lacks entries of the log.
    pub mirror_lag: Option<String>,
    /// The damage of the segments that was found, and that the daemon repairs from their copies.
    pub segment_damage: Option<String>,
    /// The segments whose copies cannot be written, and why. The daemon tries again every second.
    pub copies_missing: Option<String>,
    /// The rows that every copy has lost, since a segment and the database were damaged. A read of one fails with `record_damaged`.
    pub lost_rows: Vec<LostRow>,
    /// The oracle that makes verdicts, and the model's name; or why there is none.
    pub model: String,
    /// The version of the prompt template that prompts are built from; or why there is none.
    pub prompt: String,
    /// Whether verdicts can be generated.
    pub generation: GenerationReadiness,
    /// The mail transport.
    pub mail: String,
    /// Mails in the outbox, dead letters among them; null if they cannot be read.
    pub mails: Option<u64>,
    /// Webhooks in the outbox, dead letters among them; null if they cannot be read.
    pub webhooks: Option<u64>,
    /// The dead letters among both, and since when the oldest other message waits; null until they are counted.
    pub outbox: Option<OutboxReport>,
    /// The orders that are not delivered and have not failed; null if they cannot be read.
    pub orders: Option<WaitingOrders>,
    /// The daily budgets, with the costs of today; null if the costs cannot be read.
    pub budgets: Option<Vec<DailyBudget>>,
    /// Open reviews.
    pub open_reviews: u64,
    /// The ingestion runs that wait for an operator; null if they cannot be read.
    pub held_runs: Option<Vec<HeldRun>>,
    /// The health of each oracle.
    pub oracles: Vec<String>,
    /// How often regenerated verdicts differ from the delivered ones.
    pub variance: RegenVariance,
    /// Verdicts that are being judged.
    pub in_flight: usize,
    /// Connections to the routes' socket.
    pub connections: usize,
    /// Connections to the control socket, this one included.
    pub control_connections: usize,
}

/// The longest time without a backup, in hours.
const BACKUP_PERIOD_H: i64 = 48;

impl StatusReport {
    /// Since when a backup is overdue: 2 days after the last one, or after the first verdict if there is none.
    #[must_use]
    pub fn backup_overdue_since(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.last_backup_at.or(self.first_verdict_at)?;
        last.checked_add(SignedDuration::from_hours(BACKUP_PERIOD_H)).ok().filter(|due| *due < now)
    }
}

/// The state of a witness of the log.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WitnessReport {
    /// Its name in the configuration.
    pub name: String,
    /// The number of entries in the last checkpoint that it has cosigned; null if it has cosigned none since the start.
    pub cosigned_entries: Option<u64>,
    /// When it has cosigned it.
    pub cosigned_at: Option<Timestamp>,
    /// Why it did not cosign the newest checkpoint.
    pub failure: Option<String>,
}

/// An ingestion run that waits for an operator, who approves or discards it.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldRun {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The source.
    pub oracle_id: SourceId,
    /// Why it is held.
    pub cause: String,
}

/// The numbers of orders that wait.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingOrders {
    /// They wait for their next attempt.
    pub queued: u64,
    /// A model call is in progress.
    pub generating: u64,
    /// They wait for an operator.
    pub held: u64,
}
