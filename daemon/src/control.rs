//! The control socket. Each feature declares its routes.
//!
//! Every change is an audit event with the peer's uid, gid and pid, committed before the change takes effect.
//! No handler regenerates a verdict, changes a constant or approves a verdict.

mod documents;
mod what_if;

use super::audit::control;
use crate::config::DaemonConfig;
use crate::ground::control::{run, source};
use crate::platform::api::{SocketDescription, reject_params, serve_routes};
use crate::platform::cluster::{ClusterMember, ClusterSecrets};
use crate::platform::config::{ConfigError, DaemonFlags};
use crate::platform::control::{PATHS, log_control_action};
use crate::platform::inbox::{self, InboxKind};
use crate::platform::openapi::{CommonProblems, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_to_end};
use crate::upstreams::test_mail_dir;
use crate::upstreams::{CredentialChange, ReloadableClients};
use crate::verdict::config::models::{ModelProvider, ModelSection, model_entries};
use crate::verdict::control::erasures;
use crate::{ground, platform, upstream, verdict, verification};
use actors_upstream::oracle_health::ListHealthStatuses;
use actors_upstream::witnesses::WitnessStatus;
use actors_verdict::generation::find_prompt_template;
use actors_verdict::notifier::ListPausedEndpoints;
use actors_verdict::orders::OrderSurvey;
use actors_verdict::regen::ReadVariance;
use axum::extract::State;
use axum::{Extension, Json, Router};
use domain_audit::wire::HiddenValue;
use domain_base::caller::PeerCredentials;
use domain_base::event::{Event, LoggedEvent};
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST, ProblemDocument, STORAGE_UNAVAILABLE};
use domain_base::row::Row;
use domain_base::service::ReloadResponse;
use domain_upstream::health::OracleHealthStatus;
use domain_verdict::cost::DailyBudget;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::VerdictCached;
use domain_verdict::label::ProductTier;
use domain_verdict::order::OrderState;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::prompt::TemplateName;
use domain_verdict::session::SessionRecord;
use domain_verdict::wire::CacheResult;
use domain_verification::review::OPEN_REVIEWS;
use hyper::Request;
use jiff::Timestamp;
use oracled_domain::status::{GenerationReadiness, HeldRun, StatusReport, WaitingOrders, WitnessReport};
use oracled_store::{LogQuery, Store, StoreError};
use serde::de::IgnoredAny;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, fs, process};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use utoipa::OpenApi;

/// The description of the control socket, without its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "oracled: administration",
        description = "The Unix socket for administrators: `oraclectl` uses it. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://oracled", description = "Over the Unix socket `control.sock`; the host name is ignored")),
    tags(
        (name = "platform", description = "The daemon itself"),
        (name = "audit", description = "The audit log"),
        (name = "documents", description = "Registered documents of all kinds"),
        (name = "ground", description = "Sources, pipelines and runs"),
        (name = "verification", description = "Decisions and reviews"),
        (name = "verdict", description = "Sessions, cached verdicts and mail"),
    ),
    components(schemas(ProblemDocument, HiddenValue, CacheResult)),
)]
struct ControlOpenApi;

/// The kinds of items in the inbox.
const INBOX: &[&[InboxKind]] = &[
    verification::control::inbox::INBOX,
    verdict::control::inbox::REVIEW_INBOX,
    verdict::control::inbox::INBOX,
    ground::control::inbox::INBOX,
];

/// Every route of the control socket.
fn routes() -> Routes {
    let routes = routes![read_status, reload_configuration]
        .merge(platform::control::routes())
        .merge(inbox::routes(INBOX))
        .merge(control::routes())
        .merge(upstream::control_routes())
        .merge(documents::routes())
        .merge(ground::control::routes())
        .merge(verification::control::routes())
        .merge(verdict::control::routes())
        .merge(routes![what_if::calculate]);
    reject_params(routes)
}

/// The description of the control socket, as JSON.
#[must_use]
pub fn document() -> &'static str {
    DESCRIPTION.document()
}

static DESCRIPTION: SocketDescription = SocketDescription::new(ControlOpenApi::openapi, routes);

/// The router of the control socket.
pub fn router(service: Arc<DaemonService>, start: Arc<DaemonStart>) -> Router {
    let router = serve_routes(routes(), &service, &DESCRIPTION, PATHS).layer(Extension(start));
    // not described: builds with debug assertions have it, for tests
    #[cfg(debug_assertions)]
    let router =
        router.route("/v1/inject-fault/{fault}", axum::routing::post(platform::control::inject_fault));
    router.with_state(service)
}

/// Whether a request has no time limit, because its work is only limited by the size of the disk.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    run::is_upload(request)
        || control::is_backup(request)
        || source::has_no_time_limit(request)
        || erasures::has_no_time_limit(request)
        || what_if::has_no_time_limit(request)
}

/// The flags, the configuration and the clients with which the daemon was started.
#[derive(Debug)]
pub struct DaemonStart {
    pub flags: DaemonFlags,
    pub config: Arc<DaemonConfig>,
    pub clients: ReloadableClients,
}

/// How long a reload waits until the journal has recovered with new keys.
const KEYS_TAKE_EFFECT: Duration = Duration::from_secs(10);

problems!(ReloadProblems: STORE; INVALID_REQUEST);

/// Reload the log level and the credentials, and reopen `oracle_log.jsonl`.
///
/// `oracle_log.jsonl` is reopened even if the configuration is invalid. If a credential cannot be used, all credentials stay as
/// they are.

#[utoipa::path(
    post,
    path = "/v1/reload",
    operation_id = "reload_configuration",
    tag = "platform",
    extensions(("x-unwaiting" = json!(true))),
    responses(
        ReloadProblems,
        (status = 200, description = "The log level in force, the changed keys that need a restart, and the changed credentials", body = ReloadResponse),
    ),
)]
pub async fn reload_configuration(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    Extension(start): Extension<Arc<DaemonStart>>,
) -> Result<Json<ReloadResponse>, Problem> {
    run_to_end(async move {
        let reloaded = reload(&service, &start, Some(peer)).await;
        reloaded.map(Json).inspect_err(|problem| tracing::warn!(%problem, "the reload failed"))
    })
    .await
}

/// Reloads by request of `peer`, or by a signal.
///
/// # Errors
/// `InvalidRequest` if the configuration is invalid, or a credential cannot be used. `oracle_log.jsonl` is reopened even then, and
/// an unusable credential does not prevent the change of the log level.
pub async fn reload(
    service: &Arc<DaemonService>,
    start: &Arc<DaemonStart>,
    peer: Option<PeerCredentials>,
) -> Result<ReloadResponse, Problem> {
    let _guard = service.lock_control().await;
    // first, and even if the rest fails: after a log rotation the old file must be closed, so that its disk
    // space is freed
    let reopened = service.system.log.reopen_mirror().await;
    let config = DaemonConfig::load(&start.flags).map_err(|error| config_problem(&error))?;
    let mut needs_restart = changed_keys(&start.config, &config);
    let credentials = read_credentials(service, start).await?;
    let keys = read_cluster_keys(service, start).await?;
    let change_names = match (&credentials, &keys) {
        (Ok(change), Ok(keys)) => {
            needs_restart.extend(change.needs_restart.iter().cloned());
            needs_restart.extend(keys.has_other_url.then(|| "cluster.url_file".to_owned()));
            list(&[&change.changed[..], &keys.names()].concat())
        }
        (change, keys) => {
            let errors = change.as_ref().err().into_iter().chain(keys.as_ref().err());
            format!("failed ({})", list(&errors.flat_map(failed_keys).collect::<Vec<_>>()))
        }
    };
    let detail = format!("needs a restart: {}; changed credentials: {change_names}", list(&needs_restart));
    let keys = keys.map(|keys| (keys.names(), keys.give_to(service)));
    if keys.as_ref().is_ok_and(|(names, ())| !names.is_empty()) {
        // the journal may have failed for lack of a key
        let mut report = service.system.log.report();
        drop(timeout(KEYS_TAKE_EFFECT, report.wait_for(|report| report.failure.is_none())).await);
    }
    log_control_action(service, "reload", detail, peer).await?;
    service.log_level.set(&config.log_level).map_err(|error| Problem::new(INTERNAL_ERROR, error))?;
    reopened.map_err(|error| Problem::new(STORAGE_UNAVAILABLE, error))?;
    let change = credentials.map_err(|error| config_problem(&error))?;
    let (key_names, ()) = keys.map_err(|error| config_problem(&error))?;
    start.clients.apply(&change);
    let changed_credentials = [change.changed, key_names].concat();
    Ok(ReloadResponse { log_level: service.log_level.get(), needs_restart, changed_credentials })
}

/// The names in a text.
fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The keys with the faults of `error`. The log keeps them forever, so it gets no text of the error, which may have values.
fn failed_keys(error: &ConfigError) -> Vec<String> {
    match error {
        ConfigError::Several(faults) => faults.iter().flat_map(failed_keys).collect(),
        ConfigError::UnknownKey { key, .. }
        | ConfigError::Cleartext { key, .. }
        | ConfigError::NotAllowed { key, .. } => vec![key.clone()],
        ConfigError::UnknownVariable { variable, .. } => vec![variable.clone()],
        ConfigError::NotUnderstood(text) => {
            let key = text.strip_prefix('`').and_then(|text| text.split_once('`'));
            vec![key.map_or("see the service log", |(key, _)| key).to_owned()]
        }
    }
}

fn config_problem(error: &ConfigError) -> Problem {
    Problem::new(INVALID_REQUEST, error.to_string().replace('\n', "; "))
}

/// Reads the credentials again, with the configuration of the start.
async fn read_credentials(
    service: &Arc<DaemonService>,
    start: &Arc<DaemonStart>,
) -> Result<Result<CredentialChange, ConfigError>, Problem> {
    let (clock, start) = (service.system.clock.clone(), Arc::clone(start));
    let read = spawn_blocking(move || start.clients.read_again(&start.config, &clock, &start.flags));
    read.await.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))
}

/// The keys of the cluster.
struct ClusterKeysChange {
    /// `None` if they are as before, or this is the only host.
    changed: Option<ClusterSecrets>,
    has_other_url: bool,
}

impl ClusterKeysChange {
    /// The key of the credential, if it has changed.
    fn names(&self) -> Vec<String> {
        self.changed.iter().map(|_| "cluster.keys_file".to_owned()).collect()
    }

    /// Lets the daemon use them. Without them, it may be unable to log anything.
    fn give_to(self, service: &DaemonService) {
        if let (Some(member), Some(secrets)) = (&service.cluster, self.changed) {
            secrets.give_keys_to(member);
        }
    }
}

/// Reads the keys of the cluster again, with the configuration of the start.
async fn read_cluster_keys(
    service: &Arc<DaemonService>,
    start: &Arc<DaemonStart>,
) -> Result<Result<ClusterKeysChange, ConfigError>, Problem> {
    let start = Arc::clone(start);
    let read = spawn_blocking(move || start.config.cluster.secrets(start.flags.allow_cleartext)).await;
    let read = read.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))?;
    let member = service.cluster.as_ref();
    let differs = |differ: fn(&ClusterSecrets, &ClusterMember) -> bool, secrets: &ClusterSecrets| {
        member.is_some_and(|member| differ(secrets, member))
    };
    Ok(read.map(|secrets| ClusterKeysChange {
        has_other_url: secrets
            .as_ref()
            .is_some_and(|secrets| differs(ClusterSecrets::has_other_url_than, secrets)),
        changed: secrets.filter(|secrets| differs(ClusterSecrets::has_other_keys_than, secrets)),
    }))
}

/// The keys with a changed value, except the one that a reload applies.
fn changed_keys(before: &DaemonConfig, after: &DaemonConfig) -> Vec<String> {
    let plain =
        |config| serde_json::to_value(config).expect("a configuration is plain data with string keys");
    let (before, after) = (plain(before), plain(after));
    let mut keys = Vec::new();
    collect_changed_keys("", &before, &after, &mut keys);
    keys.retain(|key| key != "log_level");
    keys
}

fn collect_changed_keys(
    key: &str,
    before: &serde_json::Value,
    after: &serde_json::Value,
    keys: &mut Vec<String>,
) {
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object()) {
        for (name, value) in before {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            collect_changed_keys(&key, value, after.get(name).unwrap_or(&serde_json::Value::Null), keys);
        }
    } else if before != after {
        keys.push(key.to_owned());
    }
}

/// Read the state of the daemon.
#[utoipa::path(
    get,
    path = "/v1/status",
    operation_id = "read_status",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The state", body = StatusReport),
    ),
)]
pub async fn read_status(
    State(service): State<Arc<DaemonService>>,
    Extension(start): Extension<Arc<DaemonStart>>,
) -> Result<Json<StatusReport>, Problem> {
    let journal = service.journal_report();
    let reasons = service.unready_reasons();
    let degraded = service.degraded_reasons().await;
    let variance = service.system.regen.ask(ReadVariance).await?;
    let statuses = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let now = service.system.clock.now();
    let oracles = statuses.iter().map(|health| describe_oracle(health, now)).collect();
    let (reading, started) = (Arc::clone(&service), Arc::clone(&start));
    let stored = spawn_blocking(move || StoredStatus::read(&reading, &started)).await.unwrap_or_default();
    let webhooks = stored.webhooks;
    let orders = stored.orders.map(|survey| WaitingOrders {
        queued: survey.count(OrderState::Queued),
        generating: survey.count(OrderState::Generating),
        held: survey.count(OrderState::Held),
    });
    Ok(Json(StatusReport {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: process::id(),
        started_at: service.started_at,
        uptime_s: now.duration_since(service.started_at).as_secs(),
        ready: reasons.is_empty(),
        reasons,
        degraded,
        test_mode: start.flags.test_mode,
        config_file: start.flags.config.as_ref().map(|file| file.display().to_string()),
        working_dir: env::current_dir().ok().map(|dir| dir.display().to_string()),
        needs_restart: stored.needs_restart,
        state_dir: start.config.state_dir.display().to_string(),
        entries: journal.counts.entries,
        last_entry_at: stored.last_entry_at,
        latest_entry_at: stored.latest_entry_at,
        last_backup_at: stored.last_backup_at,
        first_verdict_at: stored.first_verdict_at,
        paused_endpoints: service.system.notifier.ask(ListPausedEndpoints).await?,
        log_key: service.log_signer.key().to_string(),
        cluster: service.cluster_report().await,
        witnesses: service.witnesses.statuses().into_iter().map(report_of).collect(),
        verdicts: journal.counts.of(VerdictDelivery::TABLE.name),
        sessions: journal.counts.of(SessionRecord::TABLE.name),
        journal_failure: journal.failure.map(|(cause, _)| cause),
        fallback_entries: journal.fallback_entries,
        mirror_lag: journal.mirror_lag,
        segment_damage: journal.segment_damage.map(|(damage, _)| damage),
        copies_missing: journal.missing_copies,
        lost_rows: journal.lost_rows,
        model: describe_model(&service, &start.config),
        prompt: describe_prompts(&service, &start.config),
        generation: generation_readiness(&service, &start.config),
        mail: if start.flags.test_mode {
            format!("files in {}", test_mail_dir(&start.config.state_dir).display())
        } else {
            start.config.mail.describe()
        },
        mails: webhooks.map(|webhooks| journal.counts.of(OutboxMessage::TABLE.name).saturating_sub(webhooks)),
        webhooks,
        outbox: service.system.outbox.report(),
        orders,
        budgets: stored.budgets,
        open_reviews: journal.counts.of(OPEN_REVIEWS.name),
        held_runs: stored.held_runs,
        oracles,
        variance,
        in_flight: service.in_flight(),
        connections: service.connections.load(Ordering::Relaxed),
        control_connections: service.control_connections.load(Ordering::Relaxed),
    }))
}

/// The status of an upstream system, and until when or why it is not called.
fn describe_oracle(health: &OracleHealthStatus, now: Timestamp) -> String {
    let pause = || health.paused_until(now).map(|until| format!("not called until {until:.0}"));
    let cause = health.refusal().or_else(pause).map(|cause| format!(" ({cause})")).unwrap_or_default();
    format!("{} {}{cause}", health.oracle_id, health.status.into_str())
}

/// The part of the status that is read from the store. A value is `None` if it cannot be read: the status must be readable while the
/// store is not.
#[derive(Default)]
struct StoredStatus {
    orders: Option<OrderSurvey>,
    budgets: Option<Vec<DailyBudget>>,
    held_runs: Option<Vec<HeldRun>>,
    webhooks: Option<u64>,
    last_entry_at: Option<Timestamp>,
    latest_entry_at: Option<Timestamp>,
    last_backup_at: Option<Timestamp>,
    first_verdict_at: Option<Timestamp>,
    needs_restart: Vec<String>,
}

impl StoredStatus {
    /// Blocks on disk reads.
    fn read(service: &DaemonService, start: &DaemonStart) -> Self {
        let store = &service.system.store;
        Self {
            orders: OrderSurvey::read(store).ok(),
            budgets: service.system.daily_budgets().ok(),
            held_runs: read_held_runs(store).ok(),
            webhooks: store.count_webhooks().ok(),
            last_entry_at: store.last_entry_at().ok().flatten(),
            latest_entry_at: store.latest_entry_at().ok().flatten(),
            last_backup_at: control::last_backup_at(store).ok().flatten(),
            first_verdict_at: first_verdict_at(store).ok().flatten(),
            needs_restart: keys_changed_since(service.started_at, start),
        }
    }
}

/// The keys that have changed in the configuration file since the start, and that need a restart; none if the file is invalid. Blocks
/// on disk reads.
fn keys_changed_since(started_at: Timestamp, start: &DaemonStart) -> Vec<String> {
    let file = start.flags.config.as_ref().and_then(|file| fs::metadata(file).ok());
    let changed_at = file.and_then(|file| {
        let nanoseconds = i32::try_from(file.ctime_nsec()).ok()?;
        Timestamp::new(file.ctime(), nanoseconds).ok()
    });
    // the status is read often, and the file is seldom changed
    if changed_at.is_none_or(|changed_at| changed_at < started_at) {
        return Vec::new();
    }
    DaemonConfig::load(&start.flags).map(|config| changed_keys(&start.config, &config)).unwrap_or_default()
}

/// When the first verdict of the log was stored. Blocks on disk reads.
fn first_verdict_at(store: &Store) -> Result<Option<Timestamp>, StoreError> {
    let events = vec![VerdictCached::NAME.to_owned()];
    let first = store.log(&LogQuery { events, limit: 1, ..LogQuery::default() })?;
    // its details can be erased
    let parse = |line| store.parse_entry::<LoggedEvent<IgnoredAny>>(line);
    Ok(first.first().map(parse).transpose()?.map(|entry| entry.timestamp))
}

/// The held runs, by source, the oldest one of a source first. Blocks on disk reads.
fn read_held_runs(store: &Store) -> Result<Vec<HeldRun>, StoreError> {
    let mut held = Vec::new();
    for source in store.sources()? {
        for run_id in source.held {
            let cause = store.run(&run_id)?.and_then(|(run, _)| run.cause).unwrap_or_default();
            held.push(HeldRun { run_id, oracle_id: source.entry.oracle_id().clone(), cause });
        }
    }
    Ok(held)
}

fn report_of(WitnessStatus { name, cosigned, failure }: WitnessStatus) -> WitnessReport {
    let (cosigned_entries, cosigned_at) = cosigned.unzip();
    WitnessReport { name, cosigned_entries, cosigned_at, failure }
}

fn generation_readiness(service: &DaemonService, config: &DaemonConfig) -> GenerationReadiness {
    let DaemonConfig { model, models: further, .. } = config;
    let has_model =
        model_entries(config).iter().any(|model| service.system.models.contains(&model.oracle_id));
    let prompts = config.prompt_template.templates(&config.applications);
    match () {
        () if has_model => {
            let is_missing = |name: &TemplateName| find_prompt_template(&service.system.store, name).is_err();
            if prompts.iter().any(|(_, name)| is_missing(name)) {
                GenerationReadiness::NoPrompt
            } else {
                GenerationReadiness::Ready
            }
        }
        () if model.provider == ModelProvider::None => GenerationReadiness::NotWanted,
        () if *model == ModelSection::default() && further.is_empty() => {
            GenerationReadiness::DefaultWithoutKey
        }
        () => GenerationReadiness::NoKey,
    }
}

fn describe_model(service: &DaemonService, config: &DaemonConfig) -> String {
    let entries = model_entries(config);
    let models = entries.iter().filter(|model| service.system.models.contains(&model.oracle_id));
    let models: Vec<_> =
        models.map(|model| format!("{}, {}", model.oracle_id, model.section.model_name())).collect();
    let DaemonConfig { model, models: further, .. } = config;
    match model.provider {
        _ if !models.is_empty() => models.join("; "),
        ModelProvider::None => "none: verdicts are only submitted".to_owned(),
        _ if *model == ModelSection::default() && further.is_empty() => {
            format!("none: {} is the default, and it has no key, so verdicts are only submitted", model.name)
        }
        _ => format!("{}: it has no key, so no verdicts are generated", model.name),
    }
}

fn describe_prompts(service: &DaemonService, config: &DaemonConfig) -> String {
    let names = config.prompt_template.templates(&config.applications);
    let described = names.iter().map(|(application, name)| match application {
        Some(application) => format!("{application}: {}", describe_prompt(service, name)),
        None => describe_prompt(service, name),
    });
    described.collect::<Vec<_>>().join("; ")
}

fn describe_prompt(service: &DaemonService, name: &TemplateName) -> String {
    match find_prompt_template(&service.system.store, name) {
        Ok(template) => {
            let missing = ProductTier::ALL.into_iter().filter(|tier| template.tiers.get(*tier).is_none());
            let missing: Vec<_> = missing.map(|tier| tier.into_str()).collect();
            let reference = template.reference();
            if missing.is_empty() {
                reference.to_string()
            } else {
                format!("{reference}, without a text for {}", missing.join(" and "))
            }
        }
        Err(error) => format!("none, so orders wait: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::config::CommonContact;

    #[test]
    fn reload_lists_the_changed_keys_that_need_a_restart() {
        let before = DaemonConfig::default();
        let mut after = DaemonConfig {
            log_level: "debug".into(),
            contact: CommonContact(Some("a@b".into())),
            ..before.clone()
        };
        after.limits.idle_s = 1;
        assert_eq!(changed_keys(&before, &after), ["contact", "limits.idle_s"]);
        assert_eq!(changed_keys(&before, &before), Vec::<String>::new());
    }
}
