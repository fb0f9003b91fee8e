//! `GET /v1/status`: how the daemon is doing, on one page.

use crate::platform::config::{MailTransport, Provider, shown_url};
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use oracled_actors::upstream::oracle_health::Statuses;
use oracled_actors::verdict::regen::AskVariance;
use oracled_domain::verdict::divergence::Variance;
use serde::{Deserialize, Serialize};
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The page.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Since when it serves.
    pub started_at: Timestamp,
    /// For how long, in seconds.
    pub uptime_s: i64,
    /// Whether it takes verdicts.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Where its state is kept.
    pub state_dir: String,
    /// Entries in the log.
    pub entries: u64,
    /// Verdicts in the store.
    pub verdicts: u64,
    /// Sessions in the store.
    pub sessions: u64,
    /// Why the journal takes no entries.
    pub journal_failure: Option<String>,
    /// How many entries went to the service log instead.
    pub fallback_entries: u64,
    /// Why `oracle_log.jsonl` lags behind the log.
    pub mirror_lag: Option<String>,
    /// Who makes verdicts, and the model's name; or why nobody does.
    pub model: String,
    /// How mail is sent, or that none is.
    pub mail: String,
    /// Mails in the outbox, dead letters among them.
    pub mails: u64,
    /// Reviews that nobody has resolved yet.
    pub open_reviews: u64,
    /// How what is asked outside is doing.
    pub oracles: Vec<String>,
    /// How often regenerated verdicts differ from what was delivered.
    pub variance: Variance,
    /// Verdicts being judged.
    pub in_flight: usize,
    /// Connections to the routes' socket.
    pub connections: usize,
    /// Connections to the administrators' socket, this one included.
    pub control_connections: usize,
}

/// The page.
///
/// # Errors
/// Where an actor that is asked does not answer.
pub async fn get(State(service): State<Arc<Service>>) -> Result<Json<Status>, Problem> {
    let journal = service.journal();
    let reasons = service.unready();
    let variance = service.system.regen.ask(AskVariance).await?;
    let statuses = service.system.oracle_health.ask(Statuses).await?;
    let oracles = statuses.iter().map(|health| format!("{} {}", health.oracle_id, health.status.into_str()));
    let oracles = oracles.collect();
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: process::id(),
        started_at: service.started_at,
        uptime_s: service.system.clock.now().duration_since(service.started_at).as_secs(),
        ready: reasons.is_empty(),
        reasons,
        state_dir: service.config.state_dir.display().to_string(),
        entries: journal.counts.entries,
        verdicts: journal.counts.verdicts,
        sessions: journal.counts.sessions,
        journal_failure: journal.failure.map(|(cause, _)| cause),
        fallback_entries: journal.fallback_entries,
        mirror_lag: journal.mirror_lag,
        model: asked(&service),
        mail: sent_by(&service),
        mails: journal.counts.mails,
        open_reviews: journal.counts.open_reviews,
        oracles,
        variance,
        in_flight: service.in_flight(),
        connections: service.connections.load(Ordering::Relaxed),
        control_connections: service.control_connections.load(Ordering::Relaxed),
    }))
}

fn asked(service: &Service) -> String {
    let config = &service.config.model;
    match (&service.system.model, config.provider) {
        (Some(oracle), _) => format!("{oracle}, {}", config.name),
        (None, Provider::None) => "none: verdicts are only handed in".to_owned(),
        (None, _) => format!("{}: it has no key, so no verdicts are made", config.name),
    }
}

fn sent_by(service: &Service) -> String {
    let config = &service.config.mail;
    match config.transport {
        MailTransport::None => "none: no mail is sent".to_owned(),
        MailTransport::Http => format!("http, {}", shown_url(&config.base_url)),
        MailTransport::Smtp => format!("smtp, {}", config.smtp_host.as_deref().unwrap_or_default()),
    }
}
