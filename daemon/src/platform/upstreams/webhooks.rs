//! The client of the configured webhook endpoints.

use crate::platform::config::{ConfigError, DaemonConfig};
use crate::platform::secret::{SecretDigests, read_secret_file};
use jiff::SignedDuration;
use oracled_actors::Clock;
use oracled_actors::upstream::reloadable::Reloadable;
use oracled_actors::upstream::web::webhook::{
    WebhookClient, WebhookEndpoint, WebhookEndpoints, WebhookSecret,
};
use oracled_actors::verdict::webhooks::WebhookConfig;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The configured endpoints. No connection is opened yet.
///
/// # Errors
/// All addresses and secrets that cannot be used.
pub(super) fn create_webhooks(
    config: &DaemonConfig,
    clock: &Clock,
    allow_cleartext: bool,
    digests: &mut SecretDigests,
) -> Result<WebhookConfig, ConfigError> {
    let section = &config.webhooks;
    let mut faults = Vec::new();
    let mut read = |url_key: &str, url: Option<&str>, secret_key: &str, secret_file: Option<&Path>| {
        let endpoint = read_endpoint(url_key, url, secret_key, secret_file, digests);
        ConfigError::collect(endpoint, &mut faults).flatten()
    };
    let (url, secret_file) = (section.url.as_deref(), section.secret_file.as_deref());
    let common = read("webhooks.url", url, "webhooks.secret_file", secret_file);
    let (url, secret_file) = (section.operator_url.as_deref(), section.operator_secret_file.as_deref());
    let operators = read("webhooks.operator_url", url, "webhooks.operator_secret_file", secret_file);
    let mut endpoints = WebhookEndpoints::from_iter(operators.map(|endpoint| (None, endpoint)));
    for name in config.application_names() {
        let own = config.applications.get(&name);
        let own = own.map(|section| (section.webhook_url.as_deref(), section.webhook_secret_file.as_deref()));
        let (url, secret_file) = own.unwrap_or_default();
        let key = |key: &str| format!("applications.{name}.{key}");
        let own = read(&key("webhook_url"), url, &key("webhook_secret_file"), secret_file);
        let common = || common.clone().filter(|_| url.is_none() && secret_file.is_none());
        endpoints.extend(own.or_else(common).map(|endpoint| (Some(name), endpoint)));
    }
    let pulls = config.ingestion.to_pull_settings(allow_cleartext);
    let hard_timeout = Duration::from_millis(section.hard_timeout_ms);
    let client = WebhookClient::new(endpoints, &pulls.allow_local, hard_timeout, clock.clone())
        .with_cleartext(allow_cleartext);
    // several applications can share one endpoint
    let mut unreachable = BTreeMap::new();
    for (receiver, error) in client.find_unreachable() {
        let own = |name| config.applications.get(name).is_some_and(|section| section.webhook_url.is_some());
        let key = match receiver {
            None => "webhooks.operator_url".to_owned(),
            Some(name) if own(&name) => format!("applications.{name}.webhook_url"),
            Some(_) => "webhooks.url".to_owned(),
        };
        unreachable.insert(key, error);
    }
    let fault = |(key, error)| ConfigError::NotUnderstood(format!("`{key}`: {error}"));
    faults.extend(unreachable.into_iter().map(fault));
    if !faults.is_empty() {
        return Err(ConfigError::Several(faults));
    }
    let client = Reloadable::new(Arc::new(client));
    Ok(WebhookConfig { client, max_age: SignedDuration::from_secs(section.max_age_s.into()) })
}

/// The endpoint at `url` with its secret; `None` if neither is configured.
fn read_endpoint(
    url_key: &str,
    url: Option<&str>,
    secret_key: &str,
    secret_file: Option<&Path>,
    digests: &mut SecretDigests,
) -> Result<Option<WebhookEndpoint>, ConfigError> {
    let not_set = |key: &str, other: &str| {
        ConfigError::NotUnderstood(format!("`{key}` is not set, but `{other}` is; set both or neither"))
    };
    match (url, secret_file) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(not_set(secret_key, url_key)),
        (None, Some(_)) => Err(not_set(url_key, secret_key)),
        (Some(url), Some(file)) => {
            let secret = read_secret_file(&format!("`{secret_key}`"), file)?;
            digests.record(secret_key, &secret);
            let secret = WebhookSecret::parse(&secret)
                .map_err(|error| ConfigError::NotUnderstood(format!("`{secret_key}`: {error}")))?;
            Ok(Some(WebhookEndpoint { url: url.to_owned(), secret }))
        }
    }
}
