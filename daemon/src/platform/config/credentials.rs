//! Credentials of upstream systems: their keys, their secrets, and the clients that get them.
//!
//! Secrets, such as keys and passwords, come from systemd's credentials, a file or a variable. They are never part of the printed
//! configuration, a log or an error.

use super::{ConfigError, has_login, is_cleartext, redact_url};
use actors_platform::clock::Clock;
use actors_upstream::oracle::LiveSettings;
use actors_upstream::web::{BoundCredential, UpstreamCredential, UrlOrigin, origin_of};
use domain_base::digest::Sha256Hex;
use ipnet::IpNet;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::env::VarError;
use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOrigin {
    File(PathBuf),
    /// The environment variable with this name.
    Variable(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CredentialKeys", into = "CredentialKeys")]
pub struct ConfiguredCredential {
    /// The origin of the endpoints that receive the credential.
    pub origin: UrlOrigin,
    /// The kind of credential.
    pub proof: ConfiguredSecrets,
}

/// A kind of credential. It names where the secrets are, and does not contain them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfiguredSecrets {
    ApiKey {
        /// The header with the key.
        header: String,
        key: SecretOrigin,
    },
    /// A bearer token.
    Token(SecretOrigin),
    /// Client credentials, which request a bearer token (OAuth 2.0).
    Client {
        /// The URL that issues tokens.
        token_url: String,
        client_id: String,
        client_secret: SecretOrigin,
        /// The requested scope.
        scope: Option<String>,
    },
    /// A client certificate.
    Certificate {
        /// PEM file with the certificate, followed by the intermediate certificates.
        certificate_file: PathBuf,
        /// PEM file with the private key.
        key_file: PathBuf,
    },
}

/// The keys of a credential determine its kind: `header` with a key (`api_key`), a token or `token_url` with a client
/// (`oauth`), or `certificate_file` with its key (`mtls`). All kinds require `origin`.
///
/// The document of a pipeline or an adapter names the kind of authentication; the configuration has the credential and
/// its `origin`.
///
/// A credential is sent only to its `origin` (scheme, host and port), and only by `https` or to a numeric address within
/// `ingestion.allow_local`. An endpoint with a key in its query also requires `https` or such an address.
/// `--allow-cleartext` lifts this requirement, except for a certificate, which always requires `https`.
///
/// A pipeline with an endpoint of another origin is rejected. A pipeline whose credential is not configured yet is
/// registered, but cannot be pulled. Secrets are read at the start and at a reload.
///
/// ```toml
/// [ingestion.credentials.prices]           # api_key: a key in its own header
/// origin = "https://api.example.com"
/// header = "X-Api-Key"
/// key_file = "/run/credentials/oracled.service/oracled_prices"    # or key_env = "PRICES_KEY"
///
/// [ingestion.credentials.weather]          # oauth: a bearer token
/// origin = "https://weather.example.org:8443"
/// token_env = "WEATHER_TOKEN"              # or token_file
///
/// [ingestion.credentials.labs]             # oauth: client credentials, which request tokens
/// origin = "https://labs.example.org"
/// token_url = "https://login.example.org/token"
/// client_id = "oracled"
/// client_secret_file = "/etc/oracled/labs-secret"                 # or client_secret_env
/// scope = "read"                           # optional
///
/// [ingestion.credentials.filings]          # mtls: a certificate and its key, in PEM
/// origin = "https://filings.example.org"
/// certificate_file = "/etc/oracled/filings.crt"
/// key_file = "/run/credentials/oracled.service/oracled_filings.key"
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialKeys {
    /// The origin of the endpoints that receive the credential: `https://host` or `https://host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The header with an API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    /// File with the API key; with `certificate_file`, the PEM file with the private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    key_file: Option<PathBuf>,
    /// Variable with the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_env: Option<String>,
    /// File with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    token_file: Option<PathBuf>,
    /// Variable with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_env: Option<String>,
    /// The URL that issues tokens for client credentials (OAuth 2.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    token_url: Option<String>,
    /// The id of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// File with the secret of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    client_secret_file: Option<PathBuf>,
    /// Variable with the secret of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_env: Option<String>,
    /// The requested scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// PEM file with the client certificate, followed by the intermediate certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    certificate_file: Option<PathBuf>,
}

impl TryFrom<CredentialKeys> for ConfiguredCredential {
    type Error = String;

    fn try_from(mut keys: CredentialKeys) -> Result<Self, String> {
        let origin =
            keys.origin.take().ok_or("`origin` is missing; set the origin that receives the credential")?;
        let origin = origin.parse().map_err(|error| format!("`origin` is not an origin; {error}"))?;
        Ok(Self { origin, proof: keys.try_into()? })
    }
}

impl TryFrom<CredentialKeys> for ConfiguredSecrets {
    type Error = &'static str;

    fn try_from(mut keys: CredentialKeys) -> Result<Self, &'static str> {
        const ALLOWED: &str = "a credential has other keys; allowed: `header` with one of `key_file` and `key_env`; one of \
                               `token_file` and `token_env`; `token_url`, `client_id` with one of `client_secret_file` and \
                               `client_secret_env`, and perhaps `scope`; `certificate_file` and `key_file`";
        let credential = if let Some(header) = keys.header.take() {
            take_only(&mut keys.key_file, &mut keys.key_env).map(|key| Self::ApiKey { header, key })
        } else if let Some(certificate_file) = keys.certificate_file.take() {
            keys.key_file.take().map(|key_file| Self::Certificate { certificate_file, key_file })
        } else if let Some((token_url, client_id)) = keys.token_url.take().zip(keys.client_id.take()) {
            if has_login(&token_url) {
                return Err(
                    "`token_url` has a login; allowed: a URL without one, and `client_id` with its secret",
                );
            }
            if origin_of(&token_url).is_none() {
                return Err("`token_url` is not a URL; allowed: a URL that begins with http:// or https://");
            }
            let secret = take_only(&mut keys.client_secret_file, &mut keys.client_secret_env);
            let scope = keys.scope.take();
            secret.map(|client_secret| Self::Client { token_url, client_id, client_secret, scope })
        } else {
            take_only(&mut keys.token_file, &mut keys.token_env).map(Self::Token)
        };
        // without this check, keys of another kind of credential would be ignored
        credential.filter(|_| keys.is_empty()).ok_or(ALLOWED)
    }
}

impl CredentialKeys {
    fn is_empty(&self) -> bool {
        let Self { origin, header, key_env, token_env, token_url, client_id, client_secret_env, .. } = self;
        let words =
            [origin, header, key_env, token_env, token_url, client_id, client_secret_env, &self.scope];
        let files = [&self.key_file, &self.token_file, &self.client_secret_file, &self.certificate_file];
        words.into_iter().all(Option::is_none) && files.into_iter().all(Option::is_none)
    }
}

/// Takes the location of a secret. Returns `None` if both locations or neither of them are given.
fn take_only(file: &mut Option<PathBuf>, variable: &mut Option<String>) -> Option<SecretOrigin> {
    match (file.take(), variable.take()) {
        (Some(file), None) => Some(SecretOrigin::File(file)),
        (None, Some(variable)) => Some(SecretOrigin::Variable(variable)),
        _ => None,
    }
}

impl From<ConfiguredCredential> for CredentialKeys {
    fn from(ConfiguredCredential { origin, proof }: ConfiguredCredential) -> Self {
        Self { origin: Some(origin.to_string()), ..proof.into() }
    }
}

impl From<ConfiguredSecrets> for CredentialKeys {
    fn from(proof: ConfiguredSecrets) -> Self {
        let parts = |secret| match secret {
            SecretOrigin::File(file) => (Some(file), None),
            SecretOrigin::Variable(variable) => (None, Some(variable)),
        };
        match proof {
            ConfiguredSecrets::ApiKey { header, key } => {
                let (key_file, key_env) = parts(key);
                Self { header: Some(header), key_file, key_env, ..Self::default() }
            }
            ConfiguredSecrets::Token(token) => {
                let (token_file, token_env) = parts(token);
                Self { token_file, token_env, ..Self::default() }
            }
            ConfiguredSecrets::Client { token_url, client_id, client_secret, scope } => {
                let (client_secret_file, client_secret_env) = parts(client_secret);
                let (token_url, client_id) = (Some(token_url), Some(client_id));
                Self { token_url, client_id, client_secret_file, client_secret_env, scope, ..Self::default() }
            }
            ConfiguredSecrets::Certificate { certificate_file, key_file } => {
                let (certificate_file, key_file) = (Some(certificate_file), Some(key_file));
                Self { certificate_file, key_file, ..Self::default() }
            }
        }
    }
}

/// The creation of the clients of upstream systems: what all of them need, and the faults that were found.
#[derive(Debug)]
pub(crate) struct ClientSetup<'c> {
    pub(crate) clock: &'c Clock,
    /// The networks and timeouts of live sources, which apply to other systems too.
    pub(crate) network: LiveSettings,
    pub(crate) digests: SecretDigests,
    pub(crate) faults: Vec<ConfigError>,
    /// Secrets that would cross a network in clear text.
    pub(crate) cleartext: Vec<ConfigError>,
}

impl<'c> ClientSetup<'c> {
    pub(crate) fn new(clock: &'c Clock, network: LiveSettings) -> Self {
        let (faults, cleartext) = (Vec::new(), Vec::new());
        Self { clock, network, digests: SecretDigests::default(), faults, cleartext }
    }

    /// The value of `result`. A fault is added to the faults.
    pub(crate) fn collect<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        ConfigError::collect(result, &mut self.faults)
    }

    /// Reads the credentials in `table` of the configuration.
    pub(crate) fn read_credentials<K: Ord + Clone + Display>(
        &mut self,
        table: &str,
        configured: &BTreeMap<K, ConfiguredCredential>,
    ) -> Option<BTreeMap<K, BoundCredential>> {
        let read = read_credentials(table, configured, &mut self.digests);
        self.collect(read)
    }
}

/// The credentials in `table` of the configuration, by pipeline or source.
///
/// # Errors
/// If a secret is missing or cannot be used.
fn read_credentials<K: Ord + Clone + Display>(
    table: &str,
    configured: &BTreeMap<K, ConfiguredCredential>,
    digests: &mut SecretDigests,
) -> Result<BTreeMap<K, BoundCredential>, ConfigError> {
    let read = |(id, configured): (&K, &ConfiguredCredential)| {
        let (origin, key) = (configured.origin.clone(), format!("{table}.{id}"));
        Ok((
            id.clone(),
            BoundCredential { origin, credential: read_credential(&key, &configured.proof, digests)? },
        ))
    };
    configured.iter().map(read).collect()
}

/// The credential at the key `of` of the configuration.
fn read_credential(
    of: &str,
    proof: &ConfiguredSecrets,
    digests: &mut SecretDigests,
) -> Result<UpstreamCredential, ConfigError> {
    let key = match proof {
        ConfiguredSecrets::ApiKey { header, key } => {
            UpstreamCredential::api_key(header, read_credential_secret(of, "key", key, digests)?)
        }
        ConfiguredSecrets::Token(token) => {
            UpstreamCredential::token(read_credential_secret(of, "token", token, digests)?)
        }
        ConfiguredSecrets::Client { token_url, client_id, client_secret, scope } => {
            let client_secret = read_credential_secret(of, "client_secret", client_secret, digests)?;
            Ok(UpstreamCredential::client(token_url.clone(), client_id.clone(), client_secret, scope.clone()))
        }
        ConfiguredSecrets::Certificate { certificate_file, key_file } => {
            let mut read = |name, file| {
                let secret = read_secret_file(&format!("`{of}.{name}`"), file)?;
                digests.record(format!("{of}.{name}"), &secret);
                Ok(secret)
            };
            let certificate = read("certificate_file", certificate_file)?;
            UpstreamCredential::certificate(certificate.expose_secret(), &read("key_file", key_file)?)
        }
    };
    key.map_err(|error| unusable_error(of, error))
}

/// Reads the secret. `name` is the stem of its keys, `{name}_file` and `{name}_env`.
fn read_credential_secret(
    of: &str,
    name: &str,
    from: &SecretOrigin,
    digests: &mut SecretDigests,
) -> Result<SecretString, ConfigError> {
    let (key, secret) = match from {
        SecretOrigin::File(file) => {
            let key = format!("{of}.{name}_file");
            let secret = read_secret_file(&format!("`{key}`"), file)?;
            (key, secret)
        }
        SecretOrigin::Variable(variable) => {
            let key = format!("{of}.{name}_env");
            let secret = read_variable(&format!("`{key}`"), variable)?.ok_or_else(|| {
                unusable_error(&key, "the environment variable that this key names is not set or is empty")
            })?;
            (key, secret)
        }
    };
    digests.record(key, &secret);
    Ok(secret)
}

/// Whether a URL is reached in clear text, in a network outside of `allow_local`.
pub(crate) fn crosses_in_cleartext(url: &str, allow_local: &[IpNet]) -> bool {
    is_cleartext(url, |ip| allow_local.iter().any(|range| range.contains(&ip.to_canonical())))
}

/// One error for each credential in `table` that would cross a network in clear text.
pub(crate) fn cleartext_faults<K: Display>(
    table: &str,
    configured: &BTreeMap<K, ConfiguredCredential>,
    allow_local: &[IpNet],
) -> Vec<ConfigError> {
    let mut faults = Vec::new();
    for (id, ConfiguredCredential { origin, proof }) in configured {
        let mut check = |name, url: &str, what| {
            if crosses_in_cleartext(url, allow_local) {
                let (key, given) = (format!("{table}.{id}.{name}"), redact_url(url));
                let remedy = "use https://, or a numeric address within `ingestion.allow_local`";
                faults.push(ConfigError::Cleartext { key, given, what, remedy });
            }
        };
        check("origin", &origin.to_string(), "the credential");
        if let ConfiguredSecrets::Client { token_url, .. } = proof {
            check("token_url", token_url, "the client's secret");
        }
    }
    faults
}

fn unusable_error(of: &str, why: impl Display) -> ConfigError {
    ConfigError::NotUnderstood(format!("`{of}`: {why}"))
}

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
fn read_variable(name: &str, variable: &str) -> Result<Option<SecretString>, ConfigError> {
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
    let folder = env::current_dir().ok().filter(|_| file.is_relative());
    let folder = folder.map(|folder| format!(" (a relative path, in {})", folder.display()));
    let unusable = |why: &str| {
        ConfigError::NotUnderstood(format!(
            "{name}: cannot read a secret from the file{}: {why}; allowed: the path of a file with the secret",
            folder.as_deref().unwrap_or_default()
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

    fn read_one(proof: ConfiguredSecrets) -> Result<BTreeMap<String, BoundCredential>, ConfigError> {
        let origin = "https://example.org".parse().expect("a valid origin");
        read_credentials(
            "ingestion.credentials",
            &[("wb".to_owned(), ConfiguredCredential { origin, proof })].into(),
            &mut SecretDigests::default(),
        )
    }

    fn read_error(proof: ConfiguredSecrets) -> String {
        read_one(proof).expect_err("the credential is invalid").to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        fs::write(&path, text).expect("the file is written");
        (dir, path)
    }

    #[test]
    fn unusable_credential_is_reported_by_key_without_its_secret() {
        let (_kept, path) = file("s3cret\n");
        let key = SecretOrigin::File(path.clone());
        let good = ConfiguredSecrets::ApiKey { header: "X-Key".into(), key: key.clone() };
        let read = read_one(good).expect("the credentials are valid");
        assert!(read.len() == 1 && !format!("{read:?}").contains("s3cret"), "{read:?}");

        let error = read_error(ConfiguredSecrets::ApiKey { header: "X Key".into(), key });
        assert!(error.contains("`ingestion.credentials.wb`: `header` "), "{error}");
        let (_kept, two) = file("s3cret\nand more");
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::File(two)));
        assert!(error.contains("visible ASCII characters") && !error.contains("s3cret"), "{error}");
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::File("/no/such".into())));
        assert!(
            error.contains("`ingestion.credentials.wb.token_file`: ") && !error.contains("/no/such"),
            "{error}"
        );
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::File("no-such-file".into())));
        let folder = env::current_dir().expect("a directory").display().to_string();
        assert!(error.contains(&folder) && !error.contains("no-such-file"), "{error}");
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::Variable("NO_SUCH_VARIABLE".into())));
        assert!(error.contains("`ingestion.credentials.wb.token_env`: "), "{error}");
        let error =
            read_error(ConfiguredSecrets::Certificate { certificate_file: path.clone(), key_file: path });
        assert!(
            error.contains("the certificate and its key cannot be used: ") && !error.contains("s3cret"),
            "{error}"
        );
    }

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
