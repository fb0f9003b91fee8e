//! The keys of the daemon: of verdicts that the policy holds, and of checkpoints of the log.

use crate::config::DaemonConfig;
use crate::platform::config::ConfigError;
use crate::platform::config::secrets::find_credential;
use actors_platform::key_file::{KEY_BYTES, create_key, read_key};
use actors_verdict::held_key::HeldVerdictKey;
use anyhow::Error;
use domain_audit::checkpoint::LogSigner;
use domain_audit::event::{LOG_KEY_EVENTS, log_key_in};
use oracled_store::{LogQuery, Store, StoreError};
use std::io::ErrorKind;

/// The number of newest entries of each kind in which the last public key is searched. A removal of old data names the key only if it
/// drops entries.
const NAMING_ENTRIES: usize = 1000;

/// The name of the key in the state directory.
const LOG_KEY_FILE: &str = "log.key";

/// The key of the log in the credential `oracled_log-key`, if it is given.
pub(crate) fn find_log_key() -> Result<Option<[u8; KEY_BYTES]>, ConfigError> {
    let Some(file) = find_credential("log-key")? else { return Ok(None) };
    read_key(&file).map(Some).map_err(|error| {
        ConfigError::NotUnderstood(format!(
            "systemd's credential oracled_log-key: cannot read the key of the log: {error}; allowed: 32 bytes in Base64"
        ))
    })
}

/// The key that signs checkpoints: `provided`, or the one in the state directory, which is created if it is missing.
pub(super) fn open_log_signer(
    provided: Option<[u8; KEY_BYTES]>,
    config: &DaemonConfig,
    store: &Store,
) -> anyhow::Result<LogSigner> {
    let name = store.log_name()?;
    if let Some(secret) = provided {
        return Ok(LogSigner::new(&name, &secret));
    }
    let file = config.state_dir.join(LOG_KEY_FILE);
    let at = file.display();
    match read_key(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => {
            let secret = read.map_err(|error| {
                let remedy = reading_remedy(error.kind());
                Error::new(error).context(format!("cannot read the key of the log in {at}; {remedy}"))
            })?;
            return Ok(LogSigner::new(&name, &secret));
        }
    }
    let secret = create_key(&file).map_err(|error| {
        let remedy = creation_remedy(error.kind());
        Error::new(error).context(format!("cannot create the key of the log in {at}; {remedy}"))
    })?;
    if store.log_head().0 > 0 {
        tracing::warn!(file = %at, "the log has entries and had no key, so a new key was created");
    }
    Ok(LogSigner::new(&name, &secret))
}

/// The last public key that the log names; `None` if it names none.
pub(super) fn last_named_log_key(store: &Store) -> Result<Option<String>, StoreError> {
    let mut last: Option<(u64, String)> = None;
    for event in LOG_KEY_EVENTS {
        let query = LogQuery {
            event: Some(event.to_owned()),
            newest: true,
            limit: NAMING_ENTRIES,
            ..LogQuery::default()
        };
        for line in store.log(&query)? {
            let key = store.read_entry(&line, log_key_in)?;
            if let Some(key) = key.filter(|_| last.as_ref().is_none_or(|(seq, _)| *seq < line.seq)) {
                last = Some((line.seq, key));
            }
        }
    }
    Ok(last.map(|(_, key)| key))
}

const fn reading_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => "make the daemon's user the owner of the file, with mode 0600",
        ErrorKind::InvalidData => {
            "restore the whole state directory from a backup, or remove this file: the daemon then creates another key"
        }
        _ => "check the disk",
    }
}

const fn creation_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => "make the daemon's user the owner of the state directory",
        ErrorKind::NotFound => "create the state directory, or mount its disk",
        ErrorKind::StorageFull => "free space on the disk",
        _ => "check the disk, and remove a folder `log.key.new` in the state directory",
    }
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
