//! An index that is built from the log after the commits: names, each with the numbers of entries.
//!
//! It is in a tree of its own in the database, and not in the segments: a database that is built again begins without it, and so
//! has no number of an erased entry. It can lag behind the log, and stores up to which entry it was built.

use crate::base::database::Database;
use crate::base::database_error::database_error;
use crate::base::engine::TableReader;
use domain_base::varint::{put, take};
use std::collections::{BTreeMap, BTreeSet};
use store_base::error::StoreError;

/// The most numbers in a value, which is then shorter than 6 KiB.
const CHUNK_NUMBERS: usize = 512;
/// The key of the last applied entry and of the number of chunks. No name begins with its byte.
const STATE_KEY: &[u8] = &[0];
/// The bytes of a number in a key.
const NUMBER_BYTES: usize = 8;

/// The index.
#[derive(Debug, Clone, Copy)]
pub struct Postings<'s> {
    tables: &'s TableReader,
    name: &'static str,
}

/// The changes that some entries cause.
#[derive(Debug, Default)]
pub struct PostingsChange {
    /// The last of these entries.
    pub up_to: u64,
    /// The numbers that are added to names. No name has a NUL.
    pub added: BTreeMap<String, BTreeSet<u64>>,
    /// The numbers that are removed from names.
    pub removed: BTreeMap<String, BTreeSet<u64>>,
}

impl TableReader {
    /// The index called `name`.
    #[must_use]
    pub const fn postings(&self, name: &'static str) -> Postings<'_> {
        Postings { tables: self, name }
    }
}

impl Postings<'_> {
    /// The last entry that the index was built from; 0 before the first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn applied(&self) -> Result<u64, StoreError> {
        Ok(self.read(Self::state)?.0)
    }

    /// Removes everything if chunks are missing, or if the index is of more entries than the log has.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.read(|index, tree| {
            let (applied, chunks) = index.state(tree)?;
            let has_state = tree.contains_key(STATE_KEY).map_err(|error| index.error(&error))?;
            let found = tree.len().saturating_sub(usize::from(has_state)) as u64;
            if found == chunks && applied <= index.tables.last_seq() {
                return Ok(());
            }
            tracing::warn!(
                index = index.name,
                found,
                chunks,
                "an index of the log is damaged; it is built again"
            );
            tree.clear().map_err(|error| index.error(&error))
        })
    }

    /// Applies the changes of all entries after the last applied one, up to `change.up_to`.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub fn apply(&self, change: PostingsChange) -> Result<(), StoreError> {
        self.read(|index, tree| {
            let PostingsChange { up_to, mut added, mut removed } = change;
            let (_, mut chunks) = index.state(tree)?;
            let mut batch = sled::Batch::default();
            let names: BTreeSet<_> = added.keys().chain(removed.keys()).cloned().collect();
            for name in names {
                let (added, removed) =
                    (added.remove(&name).unwrap_or_default(), removed.remove(&name).unwrap_or_default());
                let first = added.iter().chain(&removed).min().copied().unwrap_or_default();
                let mut numbers = added;
                let mut before = index.chunks_from(tree, &name, first)?;
                numbers.extend(before.values().flatten());
                let after: Vec<_> = numbers.difference(&removed).copied().collect();
                chunks -= before.len() as u64;
                for part in after.chunks(CHUNK_NUMBERS) {
                    let key = key_of(&name, part.first().copied().unwrap_or_default());
                    before.remove(&key);
                    batch.insert(key, to_bytes(part));
                    chunks += 1;
                }
                before.into_keys().for_each(|key| batch.remove(key));
            }
            batch.insert(STATE_KEY, [up_to.to_be_bytes(), chunks.to_be_bytes()].concat());
            tree.apply_batch(batch).map_err(|error| index.error(&error))
        })
    }

    /// Passes the names that begin with `prefix` to `visit`, in their order, each with its numbers in ascending order.
    ///
    /// # Errors
    /// The database cannot be read; the error of `visit`.
    pub fn visit(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&str, &BTreeSet<u64>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.read(|index, tree| {
            let (mut name, mut numbers) = (String::new(), BTreeSet::new());
            for chunk in tree.scan_prefix(prefix).filter(|chunk| !is_state(chunk)) {
                let (key, value) = chunk.map_err(|error| index.error(&error))?;
                let found = name_in(&key).ok_or_else(|| index.malformed())?;
                if found != name {
                    if !numbers.is_empty() {
                        visit(&name, &numbers)?;
                    }
                    (name, numbers) = (found.to_owned(), BTreeSet::new());
                }
                numbers.extend(from_bytes(&value).ok_or_else(|| index.malformed())?);
            }
            if numbers.is_empty() { Ok(()) } else { visit(&name, &numbers) }
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Self, &sled::Tree) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.tables.read(|Database { sled, .. }, _| {
            let tree = sled.open_tree(self.name).map_err(|error| self.error(&error))?;
            read(self, &tree)
        })
    }

    /// The last applied entry and the number of chunks.
    fn state(&self, tree: &sled::Tree) -> Result<(u64, u64), StoreError> {
        let Some(state) = tree.get(STATE_KEY).map_err(|error| self.error(&error))? else { return Ok((0, 0)) };
        let read = || {
            let (applied, rest) = state.split_first_chunk()?;
            Some((u64::from_be_bytes(*applied), u64::from_be_bytes(rest.try_into().ok()?)))
        };
        read().ok_or_else(|| self.malformed())
    }

    /// The chunks of `name` with their numbers: the one that can have `first`, and all later ones.
    fn chunks_from(
        &self,
        tree: &sled::Tree,
        name: &str,
        first: u64,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u64>>, StoreError> {
        let earlier = tree.range(key_of(name, 0)..=key_of(name, first)).next_back();
        let later = tree.range(key_of(name, first)..=key_of(name, u64::MAX));
        let mut chunks = BTreeMap::new();
        for chunk in earlier.into_iter().chain(later) {
            let (key, value) = chunk.map_err(|error| self.error(&error))?;
            chunks.insert(key.to_vec(), from_bytes(&value).ok_or_else(|| self.malformed())?);
        }
        Ok(chunks)
    }

    fn error(&self, error: &sled::Error) -> StoreError {
        database_error(self.tables.dir(), error)
    }

    fn malformed(&self) -> StoreError {
        let detail = format!("a value of the index {} is malformed", self.name);
        StoreError::Corrupt { dir: self.tables.dir().to_owned(), detail }
    }
}

fn is_state(chunk: &sled::Result<(sled::IVec, sled::IVec)>) -> bool {
    chunk.as_ref().is_ok_and(|(key, _)| key == STATE_KEY)
}

/// The key of the chunk of `name` that begins with the number `first`. The 0 byte keeps the chunks of a name together.
fn key_of(name: &str, first: u64) -> Vec<u8> {
    [name.as_bytes(), &[0], &first.to_be_bytes()].concat()
}

fn name_in(key: &[u8]) -> Option<&str> {
    let (name, _) = key.split_last_chunk::<NUMBER_BYTES>()?;
    str::from_utf8(name.strip_suffix(&[0])?).ok()
}

/// Ascending numbers: each as its difference from the one before it.
fn to_bytes(numbers: &[u64]) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::with_capacity(2 * numbers.len()), 0);
    for number in numbers {
        put(&mut bytes, number - before);
        before = *number;
    }
    bytes
}

fn from_bytes(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let (mut numbers, mut before) = (Vec::new(), 0_u64);
    while !bytes.is_empty() {
        before = before.checked_add(take(&mut bytes)?)?;
        numbers.push(before);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::engine::StoreOptions;
    use crate::journal::testing::open_with;
    use proptest::prelude::*;

    fn options(dir: &std::path::Path) -> StoreOptions {
        StoreOptions { dir: dir.to_owned(), cache_bytes: 1 << 20, facts_cache_bytes: 0, min_free_bytes: 0 }
    }

    fn all(postings: Postings<'_>, prefix: &str) -> BTreeMap<String, BTreeSet<u64>> {
        let mut found = BTreeMap::new();
        let visit = |name: &str, numbers: &BTreeSet<u64>| {
            found.insert(name.to_owned(), numbers.clone());
            Ok(())
        };
        postings.visit(prefix, visit).expect("readable");
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn postings_are_those_of_a_map(
            steps in prop::collection::vec(prop::collection::vec((0..3_usize, 0..4_000_u64, 1..900_u64, any::<bool>()), 0..4), 1..8),
        ) {
            let dir = tempfile::tempdir().expect("a directory");
            let (_journal, tables) = open_with(options(dir.path())).expect("the store opens");
            let postings = tables.postings("test");
            let mut expected: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
            for (step, changes) in (1..).zip(&steps) {
                let mut change = PostingsChange { up_to: step, ..PostingsChange::default() };
                for (name, first, count, is_added) in changes {
                    // one name is a prefix of another
                    let name = ["a/1", "a/12", "b"][*name].to_owned();
                    let numbers = *first..first + count;
                    let target = if *is_added { &mut change.added } else { &mut change.removed };
                    target.entry(name).or_default().extend(numbers);
                }
                for (name, numbers) in &change.added {
                    expected.entry(name.clone()).or_default().extend(numbers);
                }
                for (name, numbers) in &change.removed {
                    expected.entry(name.clone()).or_default().retain(|number| !numbers.contains(number));
                }
                expected.retain(|_, numbers| !numbers.is_empty());
                postings.apply(change).expect("it is applied");
                prop_assert_eq!(postings.applied().expect("readable"), step);
                prop_assert_eq!(&all(postings, ""), &expected);
                let of_prefix = expected.iter().filter(|(name, _)| name.starts_with("a/1")).map(|(name, numbers)| (name.clone(), numbers.clone()));
                prop_assert_eq!(all(postings, "a/1"), of_prefix.collect::<BTreeMap<_, _>>());
                let (_, chunks) = postings.read(Postings::state).expect("readable");
                let found = postings.read(|_, tree| Ok(tree.len())).expect("readable");
                prop_assert_eq!(found as u64, chunks + 1);
            }
        }
    }

    #[test]
    fn index_without_a_chunk_is_built_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_journal, tables) = open_with(options(dir.path())).expect("the store opens");
        let postings = tables.postings("test");
        let added = BTreeMap::from([("a".to_owned(), BTreeSet::from([1, 2]))]);
        let change = |up_to| PostingsChange { up_to, added: added.clone(), ..PostingsChange::default() };
        postings.apply(change(1)).expect("it is applied");
        // the index covers more entries than the log has
        postings.verify().expect("it is verified");
        assert_eq!((postings.applied().expect("readable"), all(postings, "").len()), (0, 0));
        postings.apply(change(0)).expect("it is applied");
        postings.read(|_, tree| Ok(tree.remove(key_of("a", 1)).expect("it is removed"))).expect("readable");
        postings.verify().expect("it is verified");
        assert_eq!(postings.read(|_, tree| Ok(tree.len())).expect("readable"), 0);
    }
}
