//! The client of the configured payment service.

use crate::platform::config::{ConfigError, DaemonConfig, is_cleartext, redact_url};
use crate::platform::secret::{SecretDigests, read_secret};
use oracled_actors::Clock;
use oracled_actors::ground::pull::UpstreamCredential;
use oracled_actors::upstream::lookup::LookupClient;
use oracled_domain::verdict::lookup::LookupDefinition;
use std::fmt::Display;
use std::time::Duration;

/// The client, if unknown sessions are looked up. No connection is opened yet.
///
/// # Errors
/// If the URL or the token cannot be used.
pub(super) fn create_lookup_client(
    config: &DaemonConfig,
    clock: &Clock,
    allow_cleartext: bool,
    digests: &mut SecretDigests,
) -> Result<Option<LookupClient>, ConfigError> {
    let section = &config.lookup;
    if !section.is_on() {
        return Ok(None);
    }
    let definition = LookupDefinition::new(&section.to_settings(config.limits.query_bytes));
    let definition = definition.map_err(|error| unusable_error("lookup", error))?;
    let file = section.token_file.as_deref();
    let token = read_secret("lookup-token", "lookup.token_file", file, "LOOKUP_TOKEN")?;
    if let Some(token) = &token {
        digests.record("lookup.token_file", token);
    }
    let token = token.map(UpstreamCredential::token).transpose();
    let token = token.map_err(|error| unusable_error("lookup.token_file", error))?;
    if token.is_none() && section.preset.is_some() {
        return Err(unusable_error(
            "lookup.token_file",
            "the payment service requires a token; set this key, systemd's credential oracled_lookup-token or the variable \
             LOOKUP_TOKEN",
        ));
    }
    let settings = config.ingestion.to_live_settings(allow_cleartext);
    let timeout = Duration::from_millis(section.timeout_ms);
    let client = LookupClient::new(definition, token, &settings, timeout, clock.clone());
    client.map(Some).map_err(|error| unusable_error("lookup.session_url", error))
}

/// The error if customers' data would cross a network in clear text.
pub(super) fn cleartext_fault(config: &DaemonConfig) -> Option<ConfigError> {
    let url = config.lookup.session_url.as_deref()?;
    is_cleartext(url, |ip| config.ingestion.is_allowed(ip)).then(|| ConfigError::Cleartext {
        key: "lookup.session_url".to_owned(),
        given: redact_url(url),
        what: "customers' addresses and queries",
        remedy: "use https://, or a numeric address within `ingestion.allow_local`",
    })
}

fn unusable_error(key: &str, why: impl Display) -> ConfigError {
    ConfigError::NotUnderstood(format!("`{key}`: {why}"))
}
