//! The keys of the daemon: of verdicts that the policy holds, and of checkpoints of the log.

use crate::platform::config::{ConfigError, DaemonConfig};
use crate::platform::secret::find_credential;
use anyhow::Context;
use oracled_actors::platform::key_file::{create_key, read_key};
use oracled_actors::verdict::held_key::HeldVerdictKey;
use oracled_domain::audit::checkpoint::LogSigner;
use oracled_store::Store;
use std::io;

/// The name of the key in the state directory.
const LOG_KEY_FILE: &str = "log.key";

/// The key that signs checkpoints: the credential `oracled_log-key`, or the one in the state directory, which is created.
pub(super) fn find_log_signer(config: &DaemonConfig, store: &Store) -> anyhow::Result<LogSigner> {
    let secret = match find_credential("log-key")? {
        Some(file) => {
            read_key(&file).context("the key of the log in systemd's credential oracled_log-key")?
        }
        None => {
            let file = config.state_dir.join(LOG_KEY_FILE);
            let read = match read_key(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => create_key(&file),
                read => read,
            };
            read.with_context(|| {
                format!(
                    "the key of the log in {} cannot be used; restore the whole state directory from a backup, or remove this \
                     file: the daemon then makes another key",
                    file.display()
                )
            })?
        }
    };
    Ok(LogSigner::new(&store.log_name()?, &secret))
}

/// The key of held verdicts. Errors do not show its path, which can be a misplaced key. That in the state directory is read
/// when it is used: if it is lost, the daemon still delivers.
pub(crate) fn find_held_key(config: &DaemonConfig) -> Result<HeldVerdictKey, ConfigError> {
    let credential = find_credential("held-key")?.map(|file| ("systemd's credential oracled_held-key", file));
    let configured = || config.gate.held_key_file.clone().map(|file| ("`gate.held_key_file`", file));
    let Some((name, file)) = credential.or_else(configured) else {
        return Ok(HeldVerdictKey::in_state_dir(&config.state_dir));
    };
    HeldVerdictKey::provided(file).map_err(|error| {
        ConfigError::NotUnderstood(format!(
            "{name}: cannot read the key of held verdicts from the file: {error}; allowed: the path of a file with 32 bytes \
             in Base64"
        ))
    })
}
