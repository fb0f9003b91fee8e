//! The configuration of checkpoints of the log.

use crate::platform::config::credentials::ClientSetup;
use crate::platform::config::{
    ConfigError, Configuration, Section, check_path, check_url, is_table_name, not_allowed_error,
};
use actors_upstream::web::witness::WitnessClient;
use actors_upstream::witnesses::Witnesses;
use domain_audit::checkpoint::{WitnessKey, WitnessKeyError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use utoipa::ToSchema;

/// Maximum number of witnesses. A verifier may refuse a checkpoint with more than 16 signatures, of which one is the log's.
const WITNESSES_MAX: usize = 15;

/// Signed checkpoints of the log, which the daemon hands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointsSection {
    /// Existing folder for the newest checkpoint and the last one of each of 32 days, outside of `state_dir`, at best on another
    /// machine's disk. The daemon does not start if its log does not continue the logs of these checkpoints.
    #[schema(value_type = Option<String>)]
    pub dir: Option<PathBuf>,
    /// Interval of checkpoints. The folder and the service log get one while the log grows, the witnesses in any case.
    #[schema(minimum = 1, maximum = 86_400)]
    pub every_s: u64,
    /// Witnesses that cosign checkpoints by C2SP `tlog-witness`, at most 15, by name: 1 to 32 of `a-z 0-9 -`. `key` is the public
    /// key of the witness, `NAME+ID+KEY` with an Ed25519 key for cosignatures (type 4). `url` is its submission prefix, the part
    /// before `/add-checkpoint`: https, or http to a numeric address in `ingestion.allow_local`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub witnesses: BTreeMap<String, WitnessSection>,
    /// Time limit of the submission of a checkpoint to a witness. A start waits for the witnesses as long as this.
    #[schema(minimum = 100, maximum = 10_000)]
    pub witness_timeout_ms: u64,
    /// The number of witnesses that must report a conflict before new work stops, and a start is refused. Fewer raise an alert.
    /// A report is not signed: with 1, each witness alone can stop the daemon.
    #[schema(minimum = 1, maximum = 15)]
    pub stop_at_conflicts: usize,
}

/// A witness of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WitnessSection {
    /// Its public key.
    pub key: String,
    /// Its submission prefix.
    pub url: String,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self {
            dir: None,
            every_s: 300,
            witnesses: BTreeMap::new(),
            witness_timeout_ms: 5000,
            stop_at_conflicts: 2,
        }
    }
}

impl WitnessSection {
    /// The public key.
    ///
    /// # Errors
    /// If the text is not one.
    fn to_key(&self) -> Result<WitnessKey, WitnessKeyError> {
        self.key.parse()
    }
}

impl Section for CheckpointsSection {
    fn key(&self) -> &'static str {
        "checkpoints"
    }

    fn check_limits(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        self.check_all(all.state_dir())
    }
}

impl CheckpointsSection {
    /// The witnesses; `None` if one cannot be used. No connection is opened yet.
    pub(crate) fn create_witnesses(&self, setup: &mut ClientSetup<'_>) -> Option<Witnesses> {
        let (allow_local, allow_cleartext) = (&setup.network.allow_local, setup.network.allow_cleartext);
        let timeout = Duration::from_millis(self.witness_timeout_ms);
        let (mut clients, mut faults) = (Vec::new(), Vec::new());
        for (name, witness) in &self.witnesses {
            let fault = |key: &str, error: String| {
                ConfigError::NotUnderstood(format!("`checkpoints.witnesses.{name}.{key}`: {error}"))
            };
            let client = witness.to_key().map_err(|error| fault("key", error.to_string())).and_then(|key| {
                let clock = setup.clock.clone();
                WitnessClient::new(&witness.url, key, allow_local, timeout, allow_cleartext, clock)
                    .map_err(|error| fault("url", error.to_string()))
            });
            clients.extend(ConfigError::collect(client, &mut faults).map(|client| (name.clone(), client)));
        }
        if faults.is_empty() {
            return Some(Witnesses::new(clients, self.stop_at_conflicts, setup.clock.clone()));
        }
        setup.faults.push(ConfigError::Several(faults));
        None
    }

    fn check_all(&self, state_dir: &Path) -> Vec<ConfigError> {
        let checks = [self.check_dir(state_dir), self.check_witness_names()];
        let of_witnesses = self.witnesses.iter().flat_map(|(name, witness)| check_witness(name, witness));
        checks.into_iter().chain(of_witnesses).filter_map(Result::err).collect()
    }

    fn check_dir(&self, state_dir: &Path) -> Result<(), ConfigError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        check_path("checkpoints.dir", dir, usize::MAX)?;
        if dir.starts_with(state_dir) {
            return Err(not_allowed_error(
                "checkpoints.dir",
                dir.display(),
                "a folder outside of `state_dir`",
            ));
        }
        Ok(())
    }

    fn check_witness_names(&self) -> Result<(), ConfigError> {
        let fault =
            |given: &str, allowed: &str| Err(not_allowed_error("checkpoints.witnesses", given, allowed));
        if self.witnesses.len() > WITNESSES_MAX {
            let given = format!("{} tables", self.witnesses.len());
            return fault(&given, &format!("at most {WITNESSES_MAX}"));
        }
        if !self.witnesses.keys().all(|name| is_table_name(name)) {
            return fault("a table with another name", "names of 1 to 32 of `a-z 0-9 -`");
        }
        let keys: BTreeSet<_> = self.witnesses.values().map(|witness| &witness.key).collect();
        if keys.len() < self.witnesses.len() {
            return fault("two tables with the same `key`", "one table for each witness");
        }
        Ok(())
    }
}

fn check_witness(name: &str, witness: &WitnessSection) -> [Result<(), ConfigError>; 2] {
    let key = |key: &str| format!("checkpoints.witnesses.{name}.{key}");
    let of_key = witness.to_key().map(drop);
    let of_key = of_key.map_err(|error| ConfigError::NotUnderstood(format!("`{}`: {error}", key("key"))));
    let of_url = check_url(&key("url"), &witness.url).and_then(|()| {
        if witness.url.contains(['?', '#']) {
            let allowed = "the URL of the witness up to the part before `/add-checkpoint`";
            return Err(not_allowed_error(key("url"), "a URL with a query or a fragment", allowed));
        }
        Ok(())
    });
    [of_key, of_url]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";

    fn faults(witnesses: &[(&str, &str, &str)]) -> String {
        let witness = |(name, key, url): &(&str, &str, &str)| {
            ((*name).to_owned(), WitnessSection { key: (*key).to_owned(), url: (*url).to_owned() })
        };
        let witnesses = witnesses.iter().map(witness).collect();
        let section = CheckpointsSection { witnesses, ..CheckpointsSection::default() };
        ConfigError::Several(section.check_all(Path::new("/s"))).to_string()
    }

    #[test]
    fn witness_fault_names_its_key() {
        let url = "https://w.example/prefix";
        assert_eq!(faults(&[("w1", KEY, url)]), "");
        let of_log = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        for (name, key, url, fault) in [
            ("W1", KEY, url, "`checkpoints.witnesses` is a table with another name"),
            ("w1", of_log, url, "`checkpoints.witnesses.w1.key`: the text is not the key of a witness"),
            ("w1", "", url, "`checkpoints.witnesses.w1.key`"),
            ("w1", KEY, "", "`checkpoints.witnesses.w1.url`"),
            ("w1", KEY, "ftp://w.example", "`checkpoints.witnesses.w1.url`"),
            ("w1", KEY, "https://u:p@w.example", "`checkpoints.witnesses.w1.url` is a URL with a login"),
            ("w1", KEY, "https://w.example/?a=b", "`checkpoints.witnesses.w1.url` is a URL with a query"),
        ] {
            let found = faults(&[(name, key, url)]);
            assert!(found.contains(fault), "{name} {key} {url}: {found}");
        }
        assert!(faults(&[("w1", KEY, url), ("w2", KEY, url)]).contains("two tables with the same `key`"));
        let names: Vec<_> = (0..16).map(|n| format!("w{n}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), KEY, url)).collect();
        assert!(faults(&many).contains("is 16 tables; allowed: at most 15"));
    }
}
