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
    pub(super) fn meant_in_file(&self, key: &str) -> Vec<String> {
        let name = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let mut meant = self.near(key);
        if meant.is_empty() {
            meant = self.all().filter(|known| name(known) == name(key)).collect();
        }
        if meant.is_empty() {
            meant = self.of_table(key);
        }
        meant.into_iter().map(str::to_owned).collect()
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The keys that are spelled similarly, the nearest first. A key in a table whose name is similar to a free table's may
    /// mean that table.
    fn near(&self, key: &str) -> Vec<&str> {
        let table = key.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        let mut near = nearest_keys(key, self.all());
        near.extend(nearest_keys(&table, FREE_TABLES));
        near
    }

    /// The keys with the same first level.
    fn of_table(&self, key: &str) -> Vec<&str> {
        let first = |key: &str| key.split('.').next().map(str::to_owned);
        self.all().filter(|known| first(known) == first(key)).collect()
    }
}

/// The `keys` that are spelled like `key`, whatever separates their levels; the nearest first.
pub(super) fn nearest_keys<K: AsRef<str>>(key: &str, keys: impl IntoIterator<Item = K>) -> Vec<K> {
    let flat = |key: &str| key.replace('.', "_");
    let with_distance = |known: K| (osa_distance(&flat(key), &flat(known.as_ref())), known);
    let mut near: Vec<_> = keys.into_iter().map(with_distance).collect();
    near.retain(|(distance, _)| *distance <= MISSPELLED_LETTERS);
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, known)| known).collect()
}
