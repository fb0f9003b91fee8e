//! Runs in the order in which they became visible.

use crate::base::error::StoreError;
use crate::ground::tables::Store;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::run::{Run, RunState};

impl Store {
    /// The completed runs whose rows were last written by the entry `seq` or a later one, in that order, each with the number
    /// of its entry.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn completed_since(&self, seq: u64) -> Result<Vec<(u64, Run)>, StoreError> {
        let mut runs = Vec::new();
        for name in self.runs_of(seq..=self.last_seq())? {
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
