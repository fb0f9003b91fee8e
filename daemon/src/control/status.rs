//! `GET /v1/status`: the state of the daemon.

use super::reload::DaemonStart;
use crate::config::DaemonConfig;
use crate::platform::config::redact_url;
use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::config::mail::{MailSection, MailTransport};
use crate::verdict::config::models::{ModelProvider, ModelSection, model_entries};
use actors_upstream::oracle_health::ListHealthStatuses;
use actors_upstream::witnesses::WitnessStatus;
use actors_verdict::generation::find_prompt_template;
use actors_verdict::orders::OrderSurvey;
use actors_verdict::regen::ReadVariance;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::row::Row;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::label::ProductTier;
use domain_verdict::order::OrderState;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::session::SessionRecord;
use domain_verdict::template_name::TemplateName;
use domain_verification::review::OPEN_REVIEWS;
use oracled_api::base::service::{HeldRun, StatusReport, WaitingOrders, WitnessReport};
use oracled_store::{Store, StoreError};
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::spawn_blocking;

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
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    Extension(start): Extension<Arc<DaemonStart>>,
) -> Result<Json<StatusReport>, Problem> {
    let journal = service.journal_report();
    let reasons = service.unready_reasons();
    let variance = service.system.regen.ask(ReadVariance).await?;
    let statuses = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let oracles = statuses.iter().map(|health| {
        let refusal = health.refusal().map(|refusal| format!(" ({refusal})")).unwrap_or_default();
        format!("{} {}{refusal}", health.oracle_id, health.status.into_str())
    });
    let oracles = oracles.collect();
    // the status must be readable while the store is not
    let reading = Arc::clone(&service);
    let read = move || {
        let system = &reading.system;
        let held_runs = read_held_runs(&system.store).ok();
        let webhooks = system.store.count_webhooks().ok();
        (OrderSurvey::read(&system.store).ok(), system.daily_budgets().ok(), held_runs, webhooks)
    };
    let (orders, budgets, held_runs, webhooks) = spawn_blocking(read).await.unwrap_or_default();
    let orders = orders.map(|survey| WaitingOrders {
        queued: survey.count(OrderState::Queued),
        generating: survey.count(OrderState::Generating),
        held: survey.count(OrderState::Held),
    });
    Ok(Json(StatusReport {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: process::id(),
        started_at: service.started_at,
        uptime_s: service.system.clock.now().duration_since(service.started_at).as_secs(),
        ready: reasons.is_empty(),
        reasons,
        config_file: start.flags.config.as_ref().map(|file| file.display().to_string()),
        state_dir: start.config.state_dir.display().to_string(),
        entries: journal.counts.entries,
        log_key: service.log_signer.key().to_string(),
        witnesses: service.witnesses.statuses().into_iter().map(report_of).collect(),
        verdicts: journal.counts.of(VerdictDelivery::TABLE.name),
        sessions: journal.counts.of(SessionRecord::TABLE.name),
        journal_failure: journal.failure.map(|(cause, _)| cause),
        fallback_entries: journal.fallback_entries,
        mirror_lag: journal.mirror_lag,
        segment_damage: journal.segment_damage,
        lost_rows: journal.lost_rows,
        model: describe_model(&service, &start.config),
        prompt: describe_prompts(&service, &start.config),
        mail: describe_mail(&start.config.mail),
        mails: webhooks.map(|webhooks| journal.counts.of(OutboxMessage::TABLE.name).saturating_sub(webhooks)),
        webhooks,
        orders,
        budgets,
        open_reviews: journal.counts.of(OPEN_REVIEWS.name),
        held_runs,
        oracles,
        variance,
        in_flight: service.in_flight(),
        connections: service.connections.load(Ordering::Relaxed),
        control_connections: service.control_connections.load(Ordering::Relaxed),
    }))
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

fn describe_model(service: &DaemonService, config: &DaemonConfig) -> String {
    let entries = model_entries(config);
    let models = entries.iter().filter(|model| service.system.models.contains(&model.oracle_id));
    let models: Vec<_> = models.map(|model| format!("{}, {}", model.oracle_id, model.section.name)).collect();
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

fn describe_mail(config: &MailSection) -> String {
    match config.transport {
        MailTransport::None => "none: no mail is sent".to_owned(),
        MailTransport::Http => format!("http, {}", redact_url(&config.base_url)),
        MailTransport::Smtp => format!("smtp, {}", config.smtp_host.as_deref().unwrap_or_default()),
    }
}
