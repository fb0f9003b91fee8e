//! Secrets, such as keys and passwords. They come from systemd's credentials, a file or a variable. They are
//! never part of the printed configuration, a log or an error.

use crate::platform::config::ConfigError;
use secrecy::SecretString;
use std::env::{self, VarError};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The variable with the directory of systemd's credentials (`LoadCredential=oracled:…`).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Reads a secret: systemd's credential `credential`, else `file` (the configuration's `key`), else the
/// environment variable `variable`.
///
/// # Errors
/// If a configured file, or an existing credential, is empty or cannot be read.
pub fn read_secret(
    credential: &str,
    key: &str,
    file: Option<&Path>,
    variable: &str,
) -> Result<Option<SecretString>, ConfigError> {
    let credentials = env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from);
    let name = format!("systemd's credential oracled_{credential}");
    let credential = credentials.map(|dir| dir.join(format!("oracled_{credential}")));
    if let Some(credential) = credential.map(|file| find_file(&name, file)).transpose()?.flatten() {
        return read_secret_file(&name, &credential).map(Some);
    }
    match file {
        Some(file) => read_secret_file(&format!("`{key}`"), file).map(Some),
        None => read_variable(&format!("the variable {variable}"), variable),
    }
}

/// The secret in the environment variable `variable`; `None` if it is not set or is empty. Errors show `name`
/// instead of `variable`, because a misplaced key can be in place of the variable's name.
///
/// # Errors
/// If the value is not UTF-8.
pub fn read_variable(name: &str, variable: &str) -> Result<Option<SecretString>, ConfigError> {
    match env::var(variable) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty()).map(SecretString::from)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(ConfigError::NotUnderstood(format!(
            "{name}: the value of the environment variable is not UTF-8"
        ))),
    }
}

/// The path of the file if it exists, even as a broken link. If the check itself fails, that is an error and
/// not a missing file.
fn find_file(name: &str, file: PathBuf) -> Result<Option<PathBuf>, ConfigError> {
    match fs::symlink_metadata(&file) {
        Ok(_) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::NotUnderstood(format!("{name}: {error}"))),
    }
}

/// The secret in `file`, without the line breaks at its end. Errors show `name` instead, because a misplaced
/// key can be in place of the path.
///
/// # Errors
/// If the file is empty or cannot be read.
pub fn read_secret_file(name: &str, file: &Path) -> Result<SecretString, ConfigError> {
    let unusable = |why: &str| {
        ConfigError::NotUnderstood(format!(
            "{name}: cannot read a secret from the file: {why}; allowed: the path of a file with the secret"
        ))
    };
    let text = fs::read_to_string(file).map_err(|error| unusable(&error.to_string()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err(unusable("it is empty")) } else { Ok(text.into()) }
}
