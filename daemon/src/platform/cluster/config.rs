//! The configuration of a cluster.

use super::ClusterMember;
use crate::platform::config::credentials::read_configured_secret;
use crate::platform::config::{ConfigError, Configuration, Section, is_table_name, not_allowed_error};
#[cfg(feature = "cluster")]
use anyhow::Context;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store_facts::objects::SharedObjects;
use utoipa::ToSchema;

/// How many servers have an entry when its commit is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterDurability {
    /// The primary and a standby. The server must name standbys in `synchronous_standby_names`.
    #[default]
    SynchronousStandby,
    /// The storage of the server is replicated below PostgreSQL, as for Amazon Aurora.
    Storage,
    /// The primary alone. After a failover, entries that were acknowledged can be lost, and a host that has them ends.
    Asynchronous,
}

/// The cluster of this host: several daemons share one log in PostgreSQL. [Many hosts](../cluster.md) has the details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSection {
    /// The name of this host in its cluster: 1 to 32 of `a-z 0-9 -`, and another one on each host. With it, the daemon shares its
    /// log with the other hosts.
    pub host: Option<String>,
    /// File with the URL of the PostgreSQL server, as in [Many hosts](../cluster.md#set-up). systemd's credential `oracled_cluster-url` overrides this file.
    #[schema(value_type = Option<String>)]
    pub url_file: Option<PathBuf>,
    /// File with the keys under which the entries are encrypted in PostgreSQL, the same on each host. Each line is an id, a space, and
    /// 32 bytes in Base64. The first key encrypts. systemd's credential `oracled_cluster-keys` overrides this file.
    #[schema(value_type = Option<String>)]
    pub keys_file: Option<PathBuf>,
    /// How many servers have an entry when its commit is answered: `synchronous_standby`, `storage` or `asynchronous`.
    #[schema(value_type = String)]
    pub durability: ClusterDurability,
    /// Where the hosts share the files of sources: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, or a shared folder as
    /// `file:///FOLDER`, the same on each host. Without it, no source is ingested in the cluster. The credentials are those of the
    /// environment, as in [Many hosts](../cluster.md#sources).
    pub objects: Option<String>,
    /// How long delivered verdicts are answered while the server does not answer. All other requests get 503 then.
    #[schema(minimum = 1, maximum = 86_400)]
    pub stale_s: u64,
    /// Time limit of all attempts of a commit. After it, the request gets 503, and the host finds out before the next commit what
    /// became of it.
    #[schema(minimum = 500, maximum = 60_000)]
    pub deadline_ms: u64,
    /// For how many hours the server keeps an entry that all hosts have. A host that was away for longer joins again from a backup, and a
    /// backup that is older cannot be used to join.
    #[schema(minimum = 1, maximum = 8760)]
    pub retain_h: u64,
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self {
            host: None,
            url_file: None,
            keys_file: None,
            durability: ClusterDurability::default(),
            objects: None,
            stale_s: 300,
            deadline_ms: 5000,
            retain_h: 24,
        }
    }
}

impl Section for ClusterSection {
    fn key(&self) -> &'static str {
        "cluster"
    }

    /// All hosts need the same objects, or some cannot fetch what the others make.
    fn decisions(&self) -> Option<Value> {
        Some(json!(self.objects))
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let Some(host) = &self.host else {
            let is_partial = *self != Self::default();
            let fault = || {
                not_allowed_error("cluster.host", "not set", "the name of this host, or no key of `cluster`")
            };
            return is_partial.then(fault).into_iter().collect();
        };
        if cfg!(not(feature = "cluster")) {
            let allowed = "no key of `cluster`: this oracled was built without it; install the package, or build with `--features cluster`";
            return vec![not_allowed_error("cluster.host", format!("`{host}`"), allowed)];
        }
        let allowed = "1 to 32 of `a-z 0-9 -`";
        let name =
            (!is_table_name(host)).then(|| not_allowed_error("cluster.host", format!("`{host}`"), allowed));
        name.into_iter().chain(self.objects_fault()).collect()
    }
}

impl ClusterSection {
    #[cfg(feature = "cluster")]
    fn objects_fault(&self) -> Option<ConfigError> {
        let (address, fault) =
            self.objects.as_ref().map(|address| (address, store_objects::check_address(address)))?;
        fault
            .err()
            .map(|error| not_allowed_error("cluster.objects", format!("`{address}`"), error.to_string()))
    }

    #[cfg(not(feature = "cluster"))]
    fn objects_fault(&self) -> Option<ConfigError> {
        None
    }

    /// The objects that the hosts share; `None` if there are none. Nothing is sent to a bucket yet.
    ///
    /// # Errors
    /// The address, its credentials or the folder cannot be used.
    #[cfg(feature = "cluster")]
    pub fn open_objects(&self) -> anyhow::Result<Option<Arc<dyn SharedObjects>>> {
        let Some(address) = self.objects.as_ref().filter(|_| self.is_on()) else { return Ok(None) };
        let bucket = store_objects::ObjectBucket::open(address);
        let bucket = bucket.with_context(|| format!("`cluster.objects` ({address}) cannot be used"))?;
        Ok(Some(Arc::new(bucket)))
    }

    #[cfg(not(feature = "cluster"))]
    pub fn open_objects(&self) -> anyhow::Result<Option<Arc<dyn SharedObjects>>> {
        Ok(None)
    }

    /// Whether this host shares its log.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.host.is_some()
    }

    /// Whether the other hosts would not get the files of sources.
    #[must_use]
    pub const fn lacks_objects(&self) -> bool {
        self.is_on() && self.objects.is_none()
    }

    /// How long an answer may be without contact with the shared log.
    #[must_use]
    pub const fn stale(&self) -> Duration {
        Duration::from_secs(self.stale_s)
    }

    /// The secrets of the cluster; `None` if this host is the only one of its log.
    ///
    /// # Errors
    /// If one of them is missing or invalid, or if the entries would cross a network in clear text.
    pub fn secrets(&self, allow_cleartext: bool) -> Result<Option<ClusterSecrets>, ConfigError> {
        if !self.is_on() {
            return Ok(None);
        }
        let read = |name: &str, key: &str, file: &Option<PathBuf>| {
            read_configured_secret(name, key, file.as_deref())?.ok_or_else(|| {
                let allowed = format!("the path of a file; or give systemd's credential oracled_{name}");
                not_allowed_error(key, "not set", allowed)
            })
        };
        let url = read("cluster-url", "cluster.url_file", &self.url_file)?;
        let keys = read("cluster-keys", "cluster.keys_file", &self.keys_file)?;
        ClusterSecrets::read(url, &keys, allow_cleartext).map(Some)
    }
}

/// The server of a cluster, and the keys of its entries.
#[derive(Debug)]
pub struct ClusterSecrets {
    pub(super) url: SecretString,
    #[cfg(feature = "cluster")]
    pub(super) keys: store_postgres::ClusterKeys,
}

impl ClusterSecrets {
    #[cfg(feature = "cluster")]
    fn read(url: SecretString, keys: &SecretString, allow_cleartext: bool) -> Result<Self, ConfigError> {
        let (url_key, keys_key) = ("cluster.url_file", "cluster.keys_file");
        let allowed = "a file with a URL of PostgreSQL, postgres://USER:PASSWORD@HOST/DATABASE?sslmode=verify-full, with `#`, `@`, `/`, `%` and `:` of \
             the password as %23, %40, %2F, %25 and %3A";
        let in_cleartext = store_postgres::crosses_network_in_cleartext(url.expose_secret());
        let in_cleartext = in_cleartext.map_err(|error| {
            not_allowed_error(url_key, format!("a file whose URL cannot be used ({error})"), allowed)
        })?;
        if in_cleartext && !allow_cleartext {
            return Err(ConfigError::Cleartext {
                key: url_key.to_owned(),
                given: "a URL with sslmode=disable".to_owned(),
                what: "the password of the server",
                remedy: "use sslmode=verify-full",
            });
        }
        let keys = store_postgres::ClusterKeys::parse(keys.expose_secret());
        let allowed = "a file with a line for each key: an id, a space and 32 bytes in Base64";
        let keys = keys.map_err(|error| {
            not_allowed_error(keys_key, format!("a file whose keys cannot be used ({error})"), allowed)
        })?;
        Ok(Self { url, keys })
    }

    /// Whether `member` uses other keys.
    #[cfg_attr(not(feature = "cluster"), expect(unused_variables, reason = "there is no member"))]
    pub(crate) fn has_other_keys_than(&self, member: &ClusterMember) -> bool {
        #[cfg(feature = "cluster")]
        let differ = self.keys.differ_from(&member.keys);
        #[cfg(not(feature = "cluster"))]
        let differ = false;
        differ
    }

    /// Whether `member` uses another URL.
    pub(crate) fn has_other_url_than(&self, member: &ClusterMember) -> bool {
        self.url.expose_secret() != member.url.expose_secret()
    }

    /// Lets `member` use these keys from now on.
    #[cfg_attr(not(feature = "cluster"), expect(unused_variables, reason = "there is no member"))]
    pub(crate) fn give_keys_to(self, member: &ClusterMember) {
        #[cfg(feature = "cluster")]
        member.keys.exchange_with(&self.keys);
    }

    #[cfg(not(feature = "cluster"))]
    fn read(url: SecretString, _: &SecretString, _: bool) -> Result<Self, ConfigError> {
        Ok(Self { url })
    }
}
