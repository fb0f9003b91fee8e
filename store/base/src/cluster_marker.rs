//! The file of a state directory that belongs to a cluster, so that its store is not written without the shared log.

use crate::error::StoreError;
use crate::files::{remove_if_exists, rename, sync_dir, write_synced};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Its name in the state directory.
const FILE: &str = "cluster";
/// The name under which it is written first.
const NEW_FILE: &str = "cluster.new";

/// The relation of a store to its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ClusterMarker {
    /// The next start creates the cluster, with this store as the first.
    Init {
        /// Whether it replaces a cluster that the server has.
        resets: bool,
        /// The entry of a removal of data up to which the store has none of them. A start sets it: a later one may find further
        /// removals, of other hosts.
        #[serde(default)]
        removed_up_to: Option<u64>,
        /// The user of the server that gets the rights of a host.
        #[serde(default)]
        grant_to: Option<String>,
    },
    /// The next start joins the cluster, of which this store is a copy.
    Join {
        /// Whether the configuration of this host may differ in a section that all hosts need alike.
        #[serde(default)]
        allow_different_config: bool,
        /// The entry of a removal of data up to which the store has none of them.
        removed_up_to: u64,
    },
    /// The store of a host of the cluster.
    Member {
        /// Its name.
        host: String,
        /// The entry of a removal of data up to which this host has removed them from its files.
        removed_up_to: u64,
    },
    /// The store of the last host of the cluster, which ends it: the cluster may have ended already.
    Leaving {
        /// Its name.
        host: String,
        /// As for a member.
        removed_up_to: u64,
    },
    /// The store of a host that has left the cluster, which the other hosts continue.
    Left,
}

impl ClusterMarker {
    /// The file of the marker in the state directory `dir`.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// The marker of the state directory `dir`; `None` if its store belongs to no cluster.
    ///
    /// # Errors
    /// `Io` if it cannot be read, or is not a marker.
    pub fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = Self::path(dir);
        let marker = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| {
                let fault = format!(
                    "it is damaged ({error}); move the state directory away, and join again with a backup of another host"
                );
                io::Error::new(io::ErrorKind::InvalidData, fault)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        marker.map_err(|source| StoreError::Io { path, source })
    }

    /// Writes the marker of `dir`, or removes it. It is on the disk when this returns.
    ///
    /// # Errors
    /// `Io` if the directory cannot be written, `Unavailable` if the disk is full.
    pub fn write(marker: Option<&Self>, dir: &Path) -> Result<(), StoreError> {
        let (path, new) = (Self::path(dir), dir.join(NEW_FILE));
        let written = match marker {
            Some(marker) => serde_json::to_vec(marker)
                .map_err(io::Error::from)
                .and_then(|text| write_synced(&new, text.as_slice()))
                .and_then(|()| rename(&new, &path)),
            None => remove_if_exists(&path),
        };
        written.map_err(|source| StoreError::write_error(&path, source))?;
        sync_dir(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_read_as_it_was_written_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        assert_eq!(ClusterMarker::read(dir).expect("it is read"), None);
        let member = ClusterMarker::Member { host: "app-1".to_owned(), removed_up_to: 7 };
        for marker in [
            ClusterMarker::Init { resets: true, removed_up_to: Some(3), grant_to: Some("app".to_owned()) },
            ClusterMarker::Join { allow_different_config: true, removed_up_to: 5 },
            member,
            ClusterMarker::Leaving { host: "app-1".to_owned(), removed_up_to: 7 },
            ClusterMarker::Left,
        ] {
            ClusterMarker::write(Some(&marker), dir).expect("it is written");
            assert_eq!(ClusterMarker::read(dir).expect("it is read"), Some(marker));
        }
        ClusterMarker::write(None, dir).expect("it is removed");
        ClusterMarker::write(None, dir).expect("it is gone already");
        assert_eq!(ClusterMarker::read(dir).expect("it is read"), None);
        fs::write(dir.join(FILE), "member").expect("it is written");
        assert!(matches!(ClusterMarker::read(dir), Err(StoreError::Io { .. })));
    }
}
