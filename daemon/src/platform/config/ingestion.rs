//! Ingestion: the limits of pulls and runs, and the credentials of pipelines.

use super::{ConfigError, has_login, not_allowed_error};
use ipnet::IpNet;
use oracled_actors::ground::pull::{PullSettings, UrlOrigin};
use oracled_actors::upstream::oracle::LiveSettings;
use oracled_actors::upstream::web::origin_of;
use oracled_domain::ground::id::PipelineId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use utoipa::ToSchema;

/// The seconds that remain for a query after it has waited for fresh data. The query can then return an
/// error before the request times out.
const LEFT_FOR_THE_REST_S: u64 = 1;

/// Private address ranges that sources may be pulled from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct AddressRanges(Vec<IpNet>);

impl TryFrom<Vec<String>> for AddressRanges {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, &'static str> {
        let ranges: Result<_, _> = words.iter().map(|word| word.parse()).collect();
        ranges.map(Self).map_err(
            |_| "an entry is not a range of addresses; allowed: 10.0.0.0/8, fd00::/8, 127.0.0.1/32, …",
        )
    }
}

impl From<AddressRanges> for Vec<String> {
    fn from(AddressRanges(ranges): AddressRanges) -> Self {
        ranges.iter().map(ToString::to_string).collect()
    }
}

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
/// registered, but cannot be pulled. Secrets are read at the start.
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
pub(super) struct CredentialKeys {
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

/// Limits of ingestion, and the credentials of pipelines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestionSection {
    /// Private address ranges that sources may be pulled from, for example `["10.0.0.0/8"]`; in a variable separated by
    /// commas. All other connections go only to public addresses, also after name resolution or a redirect.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub allow_local: AddressRanges,
    /// Maximum length of a payload.
    #[schema(minimum = 1, maximum = 1_099_511_627_776u64)]
    pub max_payload_bytes: u64,
    /// Time limit for connecting to a source.
    #[schema(minimum = 1, maximum = 300)]
    pub connect_s: u64,
    /// Time that a source may send no bytes.
    #[schema(minimum = 1, maximum = 3600)]
    pub idle_s: u64,
    /// Time limit of a whole pull.
    #[schema(minimum = 1, maximum = 86_400)]
    pub pull_s: u64,
    /// Maximum number of runs in progress.
    #[schema(minimum = 1, maximum = 64)]
    pub runs_at_once: usize,
    /// Time that a query waits for fresh data, if its source's policy requires this; at least 1 s less than
    /// `limits.request_s`. With 0, a query does not wait.
    pub refresh_s: u64,
    /// The credential of each pipeline, by its `pipeline_id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, CredentialKeys>)]
    pub credentials: BTreeMap<PipelineId, ConfiguredCredential>,
}

impl Default for IngestionSection {
    fn default() -> Self {
        Self {
            allow_local: AddressRanges::default(),
            max_payload_bytes: 16 << 30,
            connect_s: 10,
            idle_s: 60,
            pull_s: 3600,
            runs_at_once: 2,
            refresh_s: 10,
            credentials: BTreeMap::new(),
        }
    }
}

impl IngestionSection {
    /// Checks `refresh_s` against a value of another section. `request_s` is the time limit of a request, in
    /// seconds.
    pub(super) fn check(&self, request_s: u64) -> Result<(), ConfigError> {
        let max_s = request_s.saturating_sub(LEFT_FOR_THE_REST_S);
        if self.refresh_s > max_s {
            let allowed = format!("0 to {max_s}: a second less than `limits.request_s`");
            return Err(not_allowed_error("ingestion.refresh_s", self.refresh_s, allowed));
        }
        Ok(())
    }

    /// Whether `allow_local` contains `ip`.
    pub(crate) fn is_allowed(&self, ip: IpAddr) -> bool {
        let AddressRanges(ranges) = &self.allow_local;
        ranges.iter().any(|range| range.contains(&ip.to_canonical()))
    }

    /// The limits of pulls.
    #[must_use]
    pub fn to_pull_settings(&self, allow_cleartext: bool) -> PullSettings {
        let Self { allow_local: AddressRanges(ranges), max_payload_bytes, connect_s, idle_s, pull_s, .. } =
            self;
        PullSettings {
            allow_local: ranges.clone(),
            allow_cleartext,
            max_payload_bytes: *max_payload_bytes,
            connect: Duration::from_secs(*connect_s),
            idle: Duration::from_secs(*idle_s),
            whole: Duration::from_secs(*pull_s),
        }
    }

    /// The limits of calls to live sources: the same networks and timeouts as for pulls.
    #[must_use]
    pub fn to_live_settings(&self, allow_cleartext: bool) -> LiveSettings {
        let Self { allow_local: AddressRanges(ranges), connect_s, idle_s, .. } = self;
        LiveSettings {
            allow_local: ranges.clone(),
            allow_cleartext,
            connect: Duration::from_secs(*connect_s),
            idle: Duration::from_secs(*idle_s),
        }
    }
}
