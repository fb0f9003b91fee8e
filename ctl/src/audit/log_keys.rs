//! The public keys of a log and of its witnesses on the command line.

use crate::base::error::CtlError;
use crate::base::input::read_text;
use domain_audit::checkpoint::{Checkpoint, CheckpointError, LogKey, WitnessKey};
use domain_audit::wire::backup::{BackupManifest, ManifestError};
use jiff::Timestamp;
use serde::Serialize;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;

/// The public keys of one log, which has a new key after a rotation.
pub(super) struct LogKeys(Vec<LogKey>);

impl LogKeys {
    pub(super) fn one(key: LogKey) -> Self {
        Self(vec![key])
    }

    /// The keys in these arguments. Each is a key, or a file with a key.
    pub(super) fn read(arguments: &[String]) -> Result<Self, CtlError> {
        let keys = arguments.iter().map(|argument| read_key(argument)).collect::<Result<Vec<LogKey>, _>>()?;
        if let [first, rest @ ..] = keys.as_slice()
            && let Some(other) = rest.iter().find(|key| key.name != first.name)
        {
            let message =
                format!("the keys are of two logs, {} and {}; name keys of one log", first.name, other.name);
            return Err(CtlError::Usage(message));
        }
        Ok(Self(keys))
    }

    /// Whether one of the keys has this text.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|one| one.to_string() == key)
    }

    /// Verifies that one of the keys signed a checkpoint.
    pub(super) fn verify(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let mut fault = CheckpointError::Unsigned;
        for key in &self.0 {
            match key.verify(note) {
                Err(CheckpointError::Unsigned) => {}
                Err(error) => fault = error,
                verified => return verified,
            }
        }
        Err(fault)
    }

    /// Verifies that one of the keys signed the manifest of a backup.
    pub(super) fn verify_manifest(&self, text: &str) -> Result<BackupManifest, ManifestError> {
        BackupManifest::verify(text, &self.0)
    }

    /// Reads a checkpoint in a file, and verifies its signature.
    pub(super) fn read_checkpoint(&self, file: &Path) -> Result<Checkpoint, CtlError> {
        self.verify(&read_text(file)?).map_err(|error| refused(format!("{}: {error}", file.display())))
    }
}

/// The public keys of witnesses that must have cosigned a checkpoint.
pub(super) struct WitnessKeys(Vec<WitnessKey>);

/// A witness that has cosigned a checkpoint.
#[derive(Serialize)]
pub(super) struct CosigningWitness {
    pub(super) name: String,
    pub(super) at: Timestamp,
}

impl WitnessKeys {
    /// The keys in these arguments. Each is a key, or a file with a key.
    pub(super) fn read(arguments: &[String]) -> Result<Self, CtlError> {
        Ok(Self(arguments.iter().map(|argument| read_key(argument)).collect::<Result<_, _>>()?))
    }

    /// Verifies that each of the witnesses has cosigned the checkpoint in `note`.
    pub(super) fn verify(&self, note: &str) -> Result<Vec<CosigningWitness>, CtlError> {
        let verify = |key: &WitnessKey| match key.verify(note) {
            Ok(cosignature) => Ok(CosigningWitness { name: key.name.clone(), at: cosignature.at }),
            Err(error) => Err(refused(format!("witness {}: {error}", key.name))),
        };
        self.0.iter().map(verify).collect()
    }
}

fn read_key<K: FromStr<Err: Error>>(argument: &str) -> Result<K, CtlError> {
    match argument.parse() {
        Err(_) if Path::new(argument).is_file() => {
            let text = read_text(Path::new(argument))?;
            text.trim().parse().map_err(|error: K::Err| unusable(argument, error))
        }
        parsed => parsed.map_err(|error: K::Err| CtlError::Usage(error.to_string())),
    }
}

/// The error about a log that is not the expected one.
pub(super) fn refused(message: String) -> CtlError {
    CtlError::Verb { message, exit_code: 1, was_printed: false }
}

/// The error about a file whose content is invalid.
pub(super) fn unusable(file: &str, error: impl ToString) -> CtlError {
    let message = format!("{file}: {}", error.to_string());
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}
