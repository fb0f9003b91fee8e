//! Selects the base of a run: the earlier run whose statements it repeats most.

use crate::ground::statement::StoredStatement;
use crate::ground::view::{RecordStatements, SourceView};
use domain_ground::timeline::RecordStatement;
use std::collections::BTreeMap;
use store_base::error::StoreError;

/// The number of records that are compared with the earlier runs, at most.
const SAMPLE_MAX: usize = 1024;
/// A run is a small patch if the largest earlier run states more than this many times as many records.
const PATCH_FACTOR: u64 = 16;

/// Some of a run's accepted records, evenly spread over its payload.
#[derive(Debug)]
pub(super) struct RecordSample {
    records: Vec<SampledRecord>,
    /// One of this many records is in the sample.
    spacing: u64,
    /// The number of accepted records.
    accepted: u64,
}

#[derive(Debug)]
struct SampledRecord {
    ordinal: u64,
    key: Vec<u8>,
    time: RecordStatement,
}

/// The sampled records that an earlier run states.
#[derive(Debug, Default)]
struct SharedRecords {
    stated: u64,
    same: u64,
}

impl Default for RecordSample {
    fn default() -> Self {
        Self { records: Vec::new(), spacing: 1, accepted: 0 }
    }
}

impl RecordSample {
    /// Adds the next accepted record.
    pub(super) fn add(&mut self, key: &[u8], statement: &StoredStatement) {
        let ordinal = self.accepted;
        self.accepted += 1;
        if self.records.len() == SAMPLE_MAX && ordinal.is_multiple_of(self.spacing) {
            self.spacing *= 2;
            self.records.retain(|record| record.ordinal.is_multiple_of(self.spacing));
        }
        if ordinal.is_multiple_of(self.spacing) {
            self.records.push(SampledRecord { ordinal, key: key.to_vec(), time: statement.time });
        }
    }

    /// The earlier run that shares most with this one; the latest of several. `None` if the records that only the
    /// earlier run has would outnumber those that both state equally. `None` also for a small patch, unless it changes
    /// others: with a base, it would read the statements about all records of the source to save a few rows.
    pub(super) fn choose_base(
        mut self,
        view: &SourceView,
        others_change: bool,
    ) -> Result<Option<u32>, StoreError> {
        let largest = view.state.completed.iter().map(|completed| completed.stated.records).max();
        if !others_change && self.accepted.saturating_mul(PATCH_FACTOR) < largest.unwrap_or_default() {
            return Ok(None);
        }
        self.records.sort_by(|one, other| one.key.cmp(&other.key));
        self.records.dedup_by(|one, other| one.key == other.key);
        let mut shared: BTreeMap<u32, SharedRecords> = BTreeMap::new();
        let (mut old, mut record) = (view.records_once(), RecordStatements::default());
        for SampledRecord { key, time, .. } in &self.records {
            record.clear();
            key.clone_into(&mut record.key);
            old.seek(key)?;
            old.gather(&mut record)?;
            for statement in &record.statements {
                let shared = shared.entry(statement.time.run).or_default();
                let is_same = statement.time == RecordStatement { run: statement.time.run, ..*time };
                shared.stated += 1;
                shared.same += u64::from(is_same && !statement.is_pruned());
            }
        }
        // whole records of the sample: a finer figure would be below its error, and choose an older run by chance
        let sampled = self.records.len() as u64;
        let in_sample =
            |records: u64| u128::from(records) * u128::from(sampled) / u128::from(self.accepted.max(1));
        let candidates = view.state.completed.iter().filter_map(|completed| {
            let SharedRecords { stated, same } = shared.get(&completed.release.run)?;
            let others = in_sample(completed.stated.records).saturating_sub(u128::from(*stated));
            let gain = u128::from(*same).checked_sub(others)?;
            Some((gain, completed.release.run))
        });
        Ok(candidates.max().filter(|(gain, _)| *gain > 0).map(|(_, run)| run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::testing::*;

    #[test]
    fn sample_is_spread_evenly_over_any_number_of_records() {
        let statement = StoredStatement {
            time: test_statement("ABW", 1, 1).statement(1),
            position: 0,
            offset: 0,
            len: 0,
            raw_hash: [0; 32],
            verified: true,
            row: None,
        };
        for count in [0, 1, 1000, 1024, 1025, 50_000] {
            let mut sample = RecordSample::default();
            (0..count).for_each(|_| sample.add(b"key", &statement));
            let ordinals: Vec<_> = sample.records.iter().map(|record| record.ordinal).collect();
            let expected: Vec<_> = (0..count).step_by(sample.spacing as usize).collect();
            assert_eq!(ordinals, expected);
            assert!(ordinals.len() as u64 >= count.min(SAMPLE_MAX as u64 / 2), "{count}");
        }
    }

    #[test]
    fn base_is_the_run_that_shares_most() {
        let mut world = TestStore::new();
        let years = |people: u64, count: u32| (0..count).map(move |year| test_statement("ABW", year, people));
        let base = |world: &TestStore| {
            let state = world.view().state.clone();
            state.completed.last().expect("a run").stated.base
        };
        let mut ingest = |version: &str, second, statements: Vec<TestStatement>| {
            world.ingest(&test_run(version, second, false, statements));
            base(&world)
        };
        assert_eq!(ingest("1", 100, years(1, 100).collect()), None);
        // a patch shares too little with the file
        assert_eq!(ingest("2", 200, years(1, 10).collect()), None);
        // the next file shares more with the first one
        assert_eq!(ingest("3", 300, years(1, 99).collect()), Some(1));
        assert_eq!(ingest("4", 400, years(1, 99).collect()), Some(3));
        assert_eq!(ingest("5", 500, years(2, 99).collect()), None);
        // two thirds are other records
        assert_eq!(ingest("6", 600, years(2, 33).collect()), None);
    }

    #[test]
    fn base_of_a_daily_file_is_the_day_before_although_the_sample_has_few_new_records() {
        let mut world = TestStore::new();
        for release in 0..5_u32 {
            // the newest day is at the beginning of the file
            let days = (0..4 * SAMPLE_MAX as u32 + release).rev().map(|day| test_statement("USD", day, 1));
            world.ingest(&test_run(&format!("{release:03}"), 100 + i64::from(release), true, days.collect()));
        }
        let runs = world.view().state.completed.clone();
        let bases: Vec<_> = runs.iter().skip(1).map(|run| run.stated.base).collect();
        assert_eq!(bases, runs.iter().map(|run| Some(run.release.run)).take(4).collect::<Vec<_>>());
    }

    #[test]
    fn small_patch_has_no_base_unless_it_changes_others() {
        let mut world = TestStore::new();
        let mut ingest = |version: &str, second, is_snapshot, people: u64, count: u32| {
            let statements = (0..count).map(|year| test_statement("ABW", year, people)).collect();
            world.ingest(&test_run(version, second, is_snapshot, statements));
            let state = world.view().state.clone();
            state.completed.last().expect("a run").stated.base
        };
        assert_eq!(ingest("1", 100, false, 1, 320), None);
        assert_eq!(ingest("2", 200, false, 2, 19), None);
        assert_eq!(ingest("3", 300, false, 2, 19), None, "it repeats the patch before");
        assert_eq!(ingest("4", 400, false, 2, 20), Some(3));
        assert_eq!(ingest("5", 500, true, 2, 19), Some(3));
    }
}
