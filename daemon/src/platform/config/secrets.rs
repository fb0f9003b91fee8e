//! Secrets, such as keys and passwords. They come from systemd's credentials, a file or a variable. They are
//! never part of the printed configuration, a log or an error.

use super::ConfigError;
use domain_base::digest::Sha256Hex;
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::env::{self, VarError};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The variable with the directory of systemd's credentials (`LoadCredential=oracled:…`).
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The maximum length of a file with a secret, in bytes.
const SECRET_MAX_BYTES: u64 = 64 * 1024;

/// The digests of secrets by their keys, so that a reload finds the secrets that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretDigests(BTreeMap<String, Sha256Hex>);

impl SecretDigests {
    /// Records the secret of `key`.
    pub(crate) fn record(&mut self, key: impl Into<String>, secret: &SecretString) {
        self.0.insert(key.into(), Sha256Hex::of(secret.expose_secret().as_bytes()));
    }

    /// The keys whose secrets differ from those in `before`.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<String> {
        let keys: BTreeSet<_> = self.0.keys().chain(before.0.keys()).collect();
        keys.into_iter().filter(|key| self.0.get(*key) != before.0.get(*key)).cloned().collect()
    }
}

/// Reads a secret: systemd's credential `credential`, else `file` (the configuration's `key`), else the
/// environment variable `variable`.
///
/// # Errors
/// If a configured file, or an existing credential, is empty or cannot be read.
pub(crate) fn read_secret(
    credential: &str,
    key: &str,
    file: Option<&Path>,
    variable: &str,
) -> Result<Option<SecretString>, ConfigError> {
    match read_configured_secret(credential, key, file)? {
        None => read_variable(&format!("the variable {variable}"), variable),
        secret => Ok(secret),
    }
}

/// Reads a secret: systemd's credential `credential`, else `file` (the configuration's `key`).
///
/// # Errors
/// As for [`read_secret`].
pub(crate) fn read_configured_secret(
    credential: &str,
    key: &str,
    file: Option<&Path>,
) -> Result<Option<SecretString>, ConfigError> {
    if let Some(file) = find_credential(credential)? {
        return read_secret_file(&credential_name(credential), &file).map(Some);
    }
    file.map(|file| read_secret_file(&format!("`{key}`"), file)).transpose()
}

/// The file of systemd's credential `credential`, if it exists.
///
/// # Errors
/// If the directory of the credentials cannot be read.
pub(crate) fn find_credential(credential: &str) -> Result<Option<PathBuf>, ConfigError> {
    let credentials = env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from);
    let file = credentials.map(|dir| dir.join(format!("oracled_{credential}")));
    Ok(file.map(|file| find_file(&credential_name(credential), file)).transpose()?.flatten())
}

fn credential_name(credential: &str) -> String {
    format!("systemd's credential oracled_{credential}")
}

/// The secret in the environment variable `variable`; `None` if it is not set or is empty. Errors show `name`
/// instead of `variable`, because a misplaced key can be in place of the variable's name.
///
/// # Errors
/// If the value is not UTF-8.
pub(crate) fn read_variable(name: &str, variable: &str) -> Result<Option<SecretString>, ConfigError> {
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
/// If the file is empty, too long, not a regular file, or cannot be read.
pub(crate) fn read_secret_file(name: &str, file: &Path) -> Result<SecretString, ConfigError> {
    let unusable = |why: &str| {
        ConfigError::NotUnderstood(format!(
            "{name}: cannot read a secret from the file: {why}; allowed: the path of a file with the secret"
        ))
    };
    let system = |error: io::Error| unusable(&error.to_string());
    // the open of a named pipe would wait for its writer
    if !fs::metadata(file).map_err(system)?.is_file() {
        return Err(unusable("it is not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(file).map_err(system)?;
    file.take(SECRET_MAX_BYTES + 1).read_to_string(&mut text).map_err(system)?;
    if text.len() as u64 > SECRET_MAX_BYTES {
        return Err(unusable(&format!("it has more than {SECRET_MAX_BYTES} bytes")));
    }
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err(unusable("it is empty")) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_added_and_missing_secrets_are_listed_by_key() {
        let digests = |secrets: &[(&str, &str)]| {
            let mut digests = SecretDigests::default();
            for (key, secret) in secrets {
                digests.record(*key, &(*secret).into());
            }
            digests
        };
        let before = digests(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let after = digests(&[("a", "1"), ("b", "4"), ("d", "5")]);
        assert_eq!(after.changed_since(&before), ["b", "c", "d"]);
        assert!(before.changed_since(&before).is_empty());
    }

    #[test]
    fn secret_is_read_only_from_a_regular_file_of_limited_length() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        fs::write(&file, "k3y\n").expect("the file is written");
        let secret = read_secret_file("it", &file).expect("a secret");
        assert_eq!(secret.expose_secret(), "k3y");
        fs::write(&file, vec![b'x'; 64 * 1024 + 1]).expect("the file is written");
        for unusable in [&file, dir.path(), Path::new("/dev/zero")] {
            assert!(read_secret_file("it", unusable).is_err(), "{unusable:?}");
        }
    }
}
