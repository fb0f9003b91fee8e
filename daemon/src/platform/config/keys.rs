//! The keys of the configuration, as `table.key`, and suggestions for unknown keys.

use super::DaemonConfig;
use strsim::osa_distance;

/// Maximum number of letters by which a misspelled key differs from the key. Two adjacent letters in the
/// wrong order count as one.
const MISSPELLED_LETTERS: usize = 2;
/// Tables whose keys the operator chooses, or that are not among the defaults.
const FREE_TABLES: [&str; 8] = [
    "applications",
    "models",
    "checkpoints.witnesses",
    "ingestion.credentials",
    "verification.credentials",
    "gate.quick",
    "gate.full",
    "gate.strategy",
];

/// All keys except those of free tables.
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

    /// The keys that a variable for `key` may mean: the keys that are spelled similarly, or, if there are none, all
    /// keys with the same first level.
    pub(super) fn meant_by_variable(&self, key: &str) -> Vec<&str> {
        let near = self.near(key);
        if near.is_empty() { self.of_table(key) } else { near }
    }

    /// The keys that `key` in the file may mean. `key` may be in the wrong table, so keys with the same name in other
    /// tables are included if no key is spelled similarly.
    pub(super) fn meant_in_file(&self, key: &str) -> Vec<&str> {
        let name = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let mut meant = self.near(key);
        if meant.is_empty() {
            meant = self.all().filter(|known| name(known) == name(key)).collect();
        }
        if meant.is_empty() { self.of_table(key) } else { meant }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The keys that are spelled similarly, whatever separates their levels. A key in a table whose name is similar to
    /// a free table's may mean that table.
    fn near(&self, key: &str) -> Vec<&str> {
        let flat = |key: &str| key.replace('.', "_");
        let is_near = |one: &str, other: &str| osa_distance(&flat(one), &flat(other)) <= MISSPELLED_LETTERS;
        let table = key.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        let free = FREE_TABLES.into_iter().filter(|free| is_near(&table, free));
        self.all().filter(|known| is_near(key, known)).chain(free).collect()
    }

    /// The keys with the same first level.
    fn of_table(&self, key: &str) -> Vec<&str> {
        let first = |key: &str| key.split('.').next().map(str::to_owned);
        self.all().filter(|known| first(known) == first(key)).collect()
    }
}
