//! The erasures that have not ended, and the files that erasures could not read.

use super::{ErasedEntry, ErasureError, ErasureService, UnreadFiles, entries_of};
use domain_audit::event::SessionErased;
use domain_base::event::Event;
use domain_base::wording::format_count;
use oracled_store::{Store, StoreError};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

impl ErasureService {
    /// The erasures that have not ended, and the files that may still have data of erased sessions, in words; empty if there are none.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn incomplete(&self) -> Result<Vec<String>, ErasureError> {
        let unfinished = self.unfinished_removals().await?.erasures.len();
        let handles = Arc::clone(&self.0);
        let read = move || {
            let mut unread = handles.unread.blocking_lock();
            unread.add_new(&handles.store)?;
            Ok(unread.existing(handles.store.dir()))
        };
        let unread = self.on_files(read).await?;
        let unfinished = (unfinished > 0).then(|| {
            let of = format_count(unfinished, "erased session", "erased sessions");
            format!(
                "the files still have data of {of}; the daemon removes them, and tries again every minute"
            )
        });
        let unread = (!unread.is_empty()).then(|| {
            let names = unread.join(", ");
            format!(
                "{names} may still have data of erased sessions; delete what you do not need, or correct it and repeat the erasure"
            )
        });
        Ok([unfinished, unread].into_iter().flatten().collect())
    }
}

impl UnreadFiles {
    /// Adds the erasures that the log has since the last call.
    fn add_new(&mut self, store: &Store) -> Result<(), StoreError> {
        for ErasedEntry { seq, session_id, unread_files, .. } in
            entries_of(store, SessionErased::NAME, self.read_up_to)?
        {
            self.read_up_to = seq;
            let is_named = session_id.is_some();
            let files = self.files.entry(session_id).or_default();
            if is_named {
                // a repeated erasure has read the files again
                files.clear();
            }
            files.extend(unread_files);
        }
        self.files.retain(|_, files| !files.is_empty());
        Ok(())
    }

    /// The names of the files that still exist in the state directory, or beside the file to which the mirror is a link.
    fn existing(&self, dir: &Path) -> Vec<String> {
        let mirror = fs::canonicalize(dir.join("oracle_log.jsonl")).ok();
        let beside = mirror.as_deref().and_then(Path::parent).unwrap_or(dir);
        let names: BTreeSet<_> = self.files.values().flatten().collect();
        let exists = |name: &&String| [dir, beside].iter().any(|dir| dir.join(name).exists());
        names.into_iter().filter(exists).cloned().collect()
    }
}
