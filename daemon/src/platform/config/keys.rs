//! The keys of the configuration, as `table.key`, and the keys that an unknown key may mean.

use super::DaemonConfig;
use serde_json::Value;
use strsim::osa_distance;

/// Maximum number of letters by which a misspelled key differs from the key. Two adjacent letters in the
/// wrong order count as one.
const MISSPELLED_LETTERS: usize = 2;
/// Tables whose keys the user names.
const FREE_TABLES: [&str; 2] = ["ingestion.credentials", "verification.credentials"];

/// All keys but those of free tables.
#[derive(Debug)]
pub(super) struct KnownKeys(Vec<String>);

impl KnownKeys {
    pub(super) fn new() -> Self {
        let defaults = serde_json::to_value(DaemonConfig::default()).unwrap_or_default();
        let mut keys = Vec::new();
        for (name, value) in defaults.as_object().into_iter().flatten() {
            match value.as_object() {
                Some(table) => keys.extend(table.keys().map(|key| format!("{name}.{key}"))),
                None => keys.push(name.clone()),
            }
        }
        Self(keys)
    }

    /// Whether `key` is a key, a free table, or in a free table.
    pub(super) fn contains(&self, key: &str) -> bool {
        let is_within = |table: &&str| {
            key.strip_prefix(*table).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'.', ..]))
        };
        FREE_TABLES.iter().any(is_within) || self.0.iter().any(|known| known == key)
    }

    /// The keys that a variable for `key` may mean: keys that are spelled similarly, or otherwise all keys under its
    /// first level.
    pub(super) fn meant_by_variable(&self, key: &str) -> Vec<&str> {
        let near = self.near(key);
        if near.is_empty() { self.of_table(key) } else { near }
    }

    /// The keys that `key` of the file may mean. It may be in the wrong table.
    pub(super) fn meant_in_file(&self, key: &str) -> Vec<&str> {
        let name = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let mut meant = self.near(key);
        if meant.is_empty() {
            meant = self.all().filter(|known| name(known) == name(key)).collect();
        }
        if meant.is_empty() { self.of_table(key) } else { meant }
    }

    /// The keys in `values` that are unknown.
    pub(super) fn unknown_in(&self, values: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.collect_unknown("", values, &mut unknown);
        unknown
    }

    fn collect_unknown(&self, prefix: &str, table: &Value, unknown: &mut Vec<String>) {
        for (name, value) in table.as_object().into_iter().flatten() {
            let key = format!("{prefix}{name}");
            if self.contains(&key) {
                continue;
            }
            if value.is_object() {
                self.collect_unknown(&format!("{key}."), value, unknown);
            } else {
                unknown.push(key);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The keys that are spelled similarly, whatever separates their levels.
    fn near(&self, key: &str) -> Vec<&str> {
        let flat = |key: &str| key.replace('.', "_");
        self.all().filter(|known| osa_distance(&flat(key), &flat(known)) <= MISSPELLED_LETTERS).collect()
    }

    /// The keys with the same first level.
    fn of_table(&self, key: &str) -> Vec<&str> {
        let first = |key: &str| key.split('.').next().map(str::to_owned);
        self.all().filter(|known| first(known) == first(key)).collect()
    }
}
