//! `POST /v1/reload`, and SIGHUP: reopens `oracle_log.jsonl` and applies the configured log level.

use super::order::audit;
use crate::platform::api::request::Unasked;
use crate::platform::config::{Config, Flags};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::State;
use axum::{Extension, Json};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::ReloadResponse;
use oracled_domain::Peer;
use std::sync::Arc;

problems!(ReloadProblems: COMMIT; InvalidRequest);

/// Reload the log level from the configuration, and reopen `oracle_log.jsonl`.
///
/// `oracle_log.jsonl` is reopened even if the configuration is invalid.
///
/// # Errors
/// `InvalidRequest` if the configuration is invalid. `oracle_log.jsonl` is reopened even then.
#[utoipa::path(
    post,
    path = "/v1/reload",
    operation_id = "reload_configuration",
    tag = "platform",
    responses(
        ReloadProblems,
        (status = 200, description = "The log level in force, and the changed keys that need a restart", body = ReloadResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    Extension(flags): Extension<Arc<Flags>>,
    _: Unasked,
) -> Result<Json<ReloadResponse>, Problem> {
    act(async move { reload(&service, &flags, Some(peer)).await.map(Json) }).await
}

/// Reloads by request of `peer`, or by a signal.
///
/// # Errors
/// `InvalidRequest` if the configuration is invalid. `oracle_log.jsonl` is reopened even then.
pub async fn reload(service: &Service, flags: &Flags, peer: Option<Peer>) -> Result<ReloadResponse, Problem> {
    let _turn = service.control_turn().await;
    // first, and even if the rest fails: after a log rotation the old file must be closed, so that its disk space is freed
    let reopened = service.system.log.reopen_mirror().await;
    let config =
        Config::load(flags).map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.to_string()))?;
    let needs_restart = changed(&service.config, &config);
    audit(service, "reload", format!("needs a restart: {needs_restart:?}"), peer).await?;
    service
        .log_level
        .set(&config.log_level)
        .map_err(|error| Problem::new(ProblemCode::InternalError, error))?;
    reopened.map_err(|error| Problem::new(ProblemCode::StorageUnavailable, error))?;
    Ok(ReloadResponse { log_level: service.log_level.get(), needs_restart })
}

/// The keys with a changed value, except the one that a reload applies.
fn changed(before: &Config, after: &Config) -> Vec<String> {
    let plain =
        |config| serde_json::to_value(config).expect("a configuration is plain data with string keys");
    let (before, after) = (plain(before), plain(after));
    let mut keys = Vec::new();
    differing("", &before, &after, &mut keys);
    keys.retain(|key| key != "log_level");
    keys
}

fn differing(key: &str, before: &serde_json::Value, after: &serde_json::Value, keys: &mut Vec<String>) {
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object()) {
        for (name, value) in before {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            differing(&key, value, after.get(name).unwrap_or(&serde_json::Value::Null), keys);
        }
    } else if before != after {
        keys.push(key.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reload_lists_the_changed_keys_that_need_a_restart() {
        let before = Config::default();
        let mut after = Config { log_level: "debug".into(), contact: Some("a@b".into()), ..before.clone() };
        after.limits.idle_s = 1;
        assert_eq!(changed(&before, &after), ["contact", "limits.idle_s"]);
        assert_eq!(changed(&before, &before), Vec::<String>::new());
    }
}
