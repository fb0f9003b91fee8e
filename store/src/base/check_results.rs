//! The results of the checks in the background, and the identity of `oracle_log.jsonl`, in a file of their own. A check whose result is
//! lost is repeated.

use domain_audit::log_tree::LogTree;
use domain_ground::id::SourceId;
use domain_ground::upkeep::SourceCheck;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use store_base::disk::FileIdentity;
use store_base::error::StoreError;

const FILE: &str = "checks.json";

/// The file and its content.
#[derive(Debug)]
pub(crate) struct CheckResults {
    path: PathBuf,
    content: Mutex<CheckResultsContent>,
    /// Held while the file is written, so that readers of the content do not wait for the disk.
    writing: Mutex<()>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct CheckResultsContent {
    /// The Merkle tree of the entries that the check of the log has read.
    audited: Vec<u8>,
    /// The last check of each source.
    sources: BTreeMap<SourceId, SourceCheck>,
    /// The file that was written last as `oracle_log.jsonl`.
    #[serde(default)]
    mirror: Option<FileIdentity>,
}

impl CheckResults {
    /// Reads the file in `state_dir`. An unreadable file counts as missing.
    pub(crate) fn open(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let content = match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "unreadable; the checks begin again");
                CheckResultsContent::default()
            }),
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(%error, path = %path.display(), "unreadable; the checks begin again");
                }
                CheckResultsContent::default()
            }
        };
        Self { path, content: Mutex::new(content), writing: Mutex::default() }
    }

    /// The tree of the entries that the check of the log has read; empty before the first check.
    pub(crate) fn audited(&self) -> LogTree {
        self.with(|content| LogTree::from_bytes(&content.audited).unwrap_or_default())
    }

    /// Stores the tree of the entries that the check of the log has read.
    pub(crate) fn put_audited(&self, tree: &LogTree) -> Result<(), StoreError> {
        self.change(|content| content.audited = tree.to_bytes())
    }

    /// The last completed check of a source.
    pub(crate) fn of_source(&self, oracle_id: &SourceId) -> Option<SourceCheck> {
        self.with(|content| content.sources.get(oracle_id).cloned())
    }

    /// Stores the result of a check of a source.
    pub(crate) fn put_source(&self, oracle_id: SourceId, check: SourceCheck) -> Result<(), StoreError> {
        self.change(|content| {
            content.sources.insert(oracle_id, check);
        })
    }

    /// The file that was written last as `oracle_log.jsonl`.
    pub(crate) fn mirror(&self) -> Option<FileIdentity> {
        self.with(|content| content.mirror)
    }

    /// Stores the file that is written as `oracle_log.jsonl`.
    pub(crate) fn put_mirror(&self, identity: FileIdentity) -> Result<(), StoreError> {
        self.change(|content| content.mirror = Some(identity))
    }

    fn with<T>(&self, use_content: impl FnOnce(&mut CheckResultsContent) -> T) -> T {
        use_content(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut CheckResultsContent)) -> Result<(), StoreError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let json = self.with(|content| {
            change(content);
            serde_json::to_vec(content).expect("the results are plain data with string keys")
        });
        let incomplete = self.path.with_extension("json.new");
        let written = File::create(&incomplete).and_then(|mut file| {
            file.write_all(&json)?;
            file.sync_data()?;
            fs::rename(&incomplete, &self.path)
        });
        written.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}
