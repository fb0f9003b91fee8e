//! `POST /v1/reload`, and SIGHUP: reopens `oracle_log.jsonl`, applies the configured log level, and reads credentials again.

use crate::config::DaemonConfig;
use crate::platform::config::{ConfigError, DaemonFlags};
use crate::platform::control::control_request::log_control_action;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::upstreams::{CredentialChange, ReloadableClients};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::ReloadResponse;
use std::sync::Arc;

/// What the daemon was started with.
#[derive(Debug)]
pub struct DaemonStart {
    pub flags: DaemonFlags,
    pub config: Arc<DaemonConfig>,
    pub clients: ReloadableClients,
}

problems!(ReloadProblems: STORE; InvalidRequest);

/// Reload the log level and the credentials, and reopen `oracle_log.jsonl`.
///
/// `oracle_log.jsonl` is reopened even if the configuration is invalid. If a credential cannot be used, all credentials stay as
/// they are.

#[utoipa::path(
    post,
    path = "/v1/reload",
    operation_id = "reload_configuration",
    tag = "platform",
    responses(
        ReloadProblems,
        (status = 200, description = "The log level in force, the changed keys that need a restart, and the changed credentials", body = ReloadResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    Extension(start): Extension<Arc<DaemonStart>>,
) -> Result<Json<ReloadResponse>, Problem> {
    run_to_end(async move { reload(&service, &start, Some(peer)).await.map(Json) }).await
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
    let change_names = match &credentials {
        Ok(change) => {
            needs_restart.extend(change.needs_restart.iter().cloned());
            list(&change.changed)
        }
        Err(_) => "not read".to_owned(),
    };
    let detail = format!("needs a restart: {}; changed credentials: {change_names}", list(&needs_restart));
    log_control_action(service, "reload", detail, peer).await?;
    service
        .log_level
        .set(&config.log_level)
        .map_err(|error| Problem::new(ProblemCode::InternalError, error))?;
    reopened.map_err(|error| Problem::new(ProblemCode::StorageUnavailable, error))?;
    let change = credentials.map_err(|error| config_problem(&error))?;
    start.clients.apply(&change);
    let changed_credentials = change.changed;
    Ok(ReloadResponse { log_level: service.log_level.get(), needs_restart, changed_credentials })
}

/// The names in a text.
fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn config_problem(error: &ConfigError) -> Problem {
    Problem::new(ProblemCode::InvalidRequest, error.to_string().replace('\n', "; "))
}

/// Reads the credentials again, with the configuration of the start.
async fn read_credentials(
    service: &Arc<DaemonService>,
    start: &Arc<DaemonStart>,
) -> Result<Result<CredentialChange, ConfigError>, Problem> {
    let (clock, start) = (service.system.clock.clone(), Arc::clone(start));
    let read = tokio::task::spawn_blocking(move || {
        start.clients.read_again(&start.config, &clock, start.flags.allow_cleartext)
    });
    read.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))
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
