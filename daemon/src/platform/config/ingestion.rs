//! Ingestion: the limits of pulls and runs, and the credentials of pipelines.

use super::{ConfigError, has_login, not_allowed, within};
use ipnet::IpNet;
use oracled_actors::ground::pull::{Origin, PullSettings};
use oracled_actors::upstream::oracle::LiveSettings;
use oracled_actors::upstream::web::origin_of;
use oracled_domain::ground::id::PipelineId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Time in seconds that remains after a query has waited for fresh data, so that it gets an error and not a timeout.
const LEFT_FOR_THE_REST_S: u64 = 1;

/// Ranges of the own network that may be pulled from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "Vec<String>")]
pub struct Ranges(Vec<IpNet>);

/// A list of ranges, or comma-separated ranges, since a variable is one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    List(Vec<String>),
    Text(String),
}

impl TryFrom<Words> for Ranges {
    type Error = &'static str;

    fn try_from(words: Words) -> Result<Self, &'static str> {
        let words = match words {
            Words::List(words) => words,
            Words::Text(text) if text.trim().is_empty() => Vec::new(),
            Words::Text(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        };
        let ranges: Result<_, _> = words.iter().map(|word| word.parse()).collect();
        ranges.map(Self).map_err(
            |_| "an entry is not a range of addresses; allowed: 10.0.0.0/8, fd00::/8, 127.0.0.1/32, …",
        )
    }
}

impl From<Ranges> for Vec<String> {
    fn from(Ranges(ranges): Ranges) -> Self {
        ranges.iter().map(ToString::to_string).collect()
    }
}

/// The origin of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    /// A file with the secret.
    File(PathBuf),
    /// The environment variable with this name.
    Variable(String),
}

/// A credential, and the origin that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Keys", into = "Keys")]
pub struct Credential {
    /// The origin of the endpoints that receive the credential.
    pub origin: Origin,
    /// The kind of credential.
    pub proof: Proof,
}

/// A kind of credential. It names where the secrets are, and does not contain them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// An API key.
    ApiKey {
        /// The header with the key.
        header: String,
        /// The key.
        key: SecretFrom,
    },
    /// A bearer token.
    Token(SecretFrom),
    /// Client credentials, which request a bearer token (OAuth 2.0).
    Client {
        /// The URL that issues tokens.
        token_url: String,
        /// The id of the client.
        client_id: String,
        /// The secret of the client.
        client_secret: SecretFrom,
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

/// A credential as it is written. The given keys decide its kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_file: Option<PathBuf>,
}

impl TryFrom<Keys> for Credential {
    type Error = String;

    fn try_from(mut keys: Keys) -> Result<Self, String> {
        let origin =
            keys.origin.take().ok_or("`origin` is missing; set the origin that receives the credential")?;
        let origin = origin.parse().map_err(|error| format!("`origin` is not an origin; {error}"))?;
        Ok(Self { origin, proof: keys.try_into()? })
    }
}

impl TryFrom<Keys> for Proof {
    type Error = &'static str;

    fn try_from(mut keys: Keys) -> Result<Self, &'static str> {
        const ALLOWED: &str = "a credential has other keys; allowed: `header` with one of `key_file` and `key_env`; one of \
                               `token_file` and `token_env`; `token_url`, `client_id` with one of `client_secret_file` and \
                               `client_secret_env`, and perhaps `scope`; `certificate_file` and `key_file`";
        let credential = if let Some(header) = keys.header.take() {
            one_of(&mut keys.key_file, &mut keys.key_env).map(|key| Self::ApiKey { header, key })
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
            let secret = one_of(&mut keys.client_secret_file, &mut keys.client_secret_env);
            let scope = keys.scope.take();
            secret.map(|client_secret| Self::Client { token_url, client_id, client_secret, scope })
        } else {
            one_of(&mut keys.token_file, &mut keys.token_env).map(Self::Token)
        };
        // other given keys would be ignored
        credential.filter(|_| keys.is_empty()).ok_or(ALLOWED)
    }
}

impl Keys {
    fn is_empty(&self) -> bool {
        let Self { origin, header, key_env, token_env, token_url, client_id, client_secret_env, .. } = self;
        let words =
            [origin, header, key_env, token_env, token_url, client_id, client_secret_env, &self.scope];
        let files = [&self.key_file, &self.token_file, &self.client_secret_file, &self.certificate_file];
        words.into_iter().all(Option::is_none) && files.into_iter().all(Option::is_none)
    }
}

/// The given one of the two; `None` if both or neither are given.
fn one_of(file: &mut Option<PathBuf>, variable: &mut Option<String>) -> Option<SecretFrom> {
    match (file.take(), variable.take()) {
        (Some(file), None) => Some(SecretFrom::File(file)),
        (None, Some(variable)) => Some(SecretFrom::Variable(variable)),
        _ => None,
    }
}

impl From<Credential> for Keys {
    fn from(Credential { origin, proof }: Credential) -> Self {
        Self { origin: Some(origin.to_string()), ..proof.into() }
    }
}

impl From<Proof> for Keys {
    fn from(proof: Proof) -> Self {
        let parts = |secret| match secret {
            SecretFrom::File(file) => (Some(file), None),
            SecretFrom::Variable(variable) => (None, Some(variable)),
        };
        match proof {
            Proof::ApiKey { header, key } => {
                let (key_file, key_env) = parts(key);
                Self { header: Some(header), key_file, key_env, ..Self::default() }
            }
            Proof::Token(token) => {
                let (token_file, token_env) = parts(token);
                Self { token_file, token_env, ..Self::default() }
            }
            Proof::Client { token_url, client_id, client_secret, scope } => {
                let (client_secret_file, client_secret_env) = parts(client_secret);
                let (token_url, client_id) = (Some(token_url), Some(client_id));
                Self { token_url, client_id, client_secret_file, client_secret_env, scope, ..Self::default() }
            }
            Proof::Certificate { certificate_file, key_file } => {
                let (certificate_file, key_file) = (Some(certificate_file), Some(key_file));
                Self { certificate_file, key_file, ..Self::default() }
            }
        }
    }
}

/// The table `ingestion`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingestion {
    /// Ranges of the own network that may be pulled from, besides public addresses.
    #[serde(default)]
    pub allow_local: Ranges,
    /// Maximum length of a payload, in bytes.
    pub max_payload_bytes: u64,
    /// Time limit for connecting to a source, in seconds.
    pub connect_s: u64,
    /// Time that a source may send no bytes, in seconds.
    pub idle_s: u64,
    /// Time limit for a whole pull, in seconds.
    pub pull_s: u64,
    /// Maximum number of runs in progress.
    pub runs_at_once: usize,
    /// Time in seconds that a query waits for fresh data, if its source's policy requires that; 0 for no wait.
    pub refresh_s: u64,
    /// Credentials of pipelines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<PipelineId, Credential>,
}

impl Default for Ingestion {
    fn default() -> Self {
        Self {
            allow_local: Ranges::default(),
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

impl Ingestion {
    /// Checks the ranges of the values. `request_s` is the time limit of a request, in seconds.
    pub(super) fn check(&self, request_s: u64) -> Result<(), ConfigError> {
        within("ingestion.max_payload_bytes", self.max_payload_bytes, 1..=1 << 40)?;
        within("ingestion.connect_s", self.connect_s, 1..=300)?;
        within("ingestion.idle_s", self.idle_s, 1..=3600)?;
        within("ingestion.pull_s", self.pull_s, 1..=86_400)?;
        within("ingestion.runs_at_once", self.runs_at_once, 1..=64)?;
        let most = request_s.saturating_sub(LEFT_FOR_THE_REST_S);
        if self.refresh_s > most {
            let allowed = format!("0 to {most}: a second less than `limits.request_s`");
            return Err(not_allowed("ingestion.refresh_s", self.refresh_s, allowed));
        }
        Ok(())
    }

    /// Whether `allow_local` contains `ip`.
    pub(crate) fn is_allowed(&self, ip: IpAddr) -> bool {
        let Ranges(ranges) = &self.allow_local;
        ranges.iter().any(|range| range.contains(&ip.to_canonical()))
    }

    /// The limits of pulls.
    #[must_use]
    pub fn to_settings(&self, allow_cleartext: bool) -> PullSettings {
        let Self { allow_local: Ranges(ranges), max_payload_bytes, connect_s, idle_s, pull_s, .. } = self;
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
    pub fn to_live(&self, allow_cleartext: bool) -> LiveSettings {
        let Self { allow_local: Ranges(ranges), connect_s, idle_s, .. } = self;
        LiveSettings {
            allow_local: ranges.clone(),
            allow_cleartext,
            connect: Duration::from_secs(*connect_s),
            idle: Duration::from_secs(*idle_s),
        }
    }
}
