//! The clients of the configured witnesses of the log.

use crate::platform::config::{ConfigError, DaemonConfig};
use oracled_actors::Clock;
use oracled_actors::upstream::web::witness::WitnessClient;
use oracled_actors::upstream::witnesses::Witnesses;
use std::time::Duration;

/// The witnesses. No connection is opened yet.
///
/// # Errors
/// All URLs that may not be requested, and keys that cannot be used.
pub(super) fn create_witnesses(
    config: &DaemonConfig,
    clock: &Clock,
    allow_cleartext: bool,
) -> Result<Witnesses, ConfigError> {
    let section = &config.checkpoints;
    let allow_local = config.ingestion.to_pull_settings(allow_cleartext).allow_local;
    let timeout = Duration::from_millis(section.witness_timeout_ms);
    let (mut clients, mut faults) = (Vec::new(), Vec::new());
    for (name, witness) in &section.witnesses {
        let fault = |key: &str, error: String| {
            ConfigError::NotUnderstood(format!("`checkpoints.witnesses.{name}.{key}`: {error}"))
        };
        let client = witness.to_key().map_err(|error| fault("key", error.to_string())).and_then(|key| {
            WitnessClient::new(&witness.url, key, &allow_local, timeout, allow_cleartext, clock.clone())
                .map_err(|error| fault("url", error.to_string()))
        });
        clients.extend(ConfigError::collect(client, &mut faults).map(|client| (name.clone(), client)));
    }
    if faults.is_empty() {
        Ok(Witnesses::new(clients, section.stop_at_conflicts, clock.clone()))
    } else {
        Err(ConfigError::Several(faults))
    }
}
