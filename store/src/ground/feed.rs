//! Runs in the order in which they became visible.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::{self, Table};
use domain::Sha256Hex;
use domain::ground::run::{Run, RunState};

impl Store {
    /// The completed runs whose rows were last written by the entry `seq` or a later one, in that order, each with the number
    /// of its entry.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn completed_since(&self, seq: u64) -> Result<Vec<(u64, Run)>, StoreError> {
        let names = self.read(|db, durable_seq| {
            let keys = vec![Table::Runs as u8]..vec![Table::Runs as u8 + 1];
            let mut names = Vec::new();
            for head in rows::heads(db, self.dir(), keys) {
                let (key, revision) = head?;
                let name = rows::name(&key).map(|name| String::from_utf8_lossy(name).into_owned());
                names.extend(name.filter(|_| (seq..=durable_seq).contains(&revision)));
            }
            Ok(names)
        })?;
        let mut runs = Vec::new();
        for name in names {
            let run_id = name.parse::<Sha256Hex>().ok();
            let run = run_id.map(|run_id| self.run(&run_id)).transpose()?.flatten();
            runs.extend(
                run.filter(|(run, _)| run.state == RunState::Completed)
                    .map(|(run, revision)| (revision, run)),
            );
        }
        runs.sort_by_key(|(revision, _)| *revision);
        Ok(runs)
    }
}
