//! The statements of runs that have a base: a record without a row is stated as in the base.

use crate::ground::files::facts_owner;
use crate::ground::places::{HELD_MAX, RunPlaces};
use crate::ground::statement::{StatementRow, StoredStatement};
use crate::ground::view::records::RecordRow;
use crate::ground::view::{RecordStatements, SourceView};
use domain_ground::source_state::SourceState;
use domain_ground::timeline::RecordStatement;
use std::sync::OnceLock;
use store_base::error::StoreError;

/// A run that has a base.
#[derive(Debug)]
pub(super) struct BasedRun {
    run: u32,
    base: u32,
    /// Whether its segments are held in memory.
    is_held: bool,
    /// Read when the first record without a row is read.
    places: OnceLock<RunPlaces>,
}

impl BasedRun {
    /// The runs of a source that have a base, in the order of their numbers.
    pub(super) fn of(state: &SourceState) -> Vec<Self> {
        let mut segments = 0_u64;
        let based = state.completed.iter().filter_map(|completed| {
            segments += completed.stated.segments;
            let (run, base) = (completed.release.run, completed.stated.base?);
            Some(Self { run, base, is_held: segments <= HELD_MAX, places: OnceLock::new() })
        });
        based.collect()
    }
}

impl SourceView {
    /// Whether readers hold the segments of the next run in memory, if it has this number of them.
    pub(in crate::ground) fn holds_segments(&self, segments: u64) -> bool {
        let known: u64 = self.state.completed.iter().map(|completed| completed.stated.segments).sum();
        known + segments <= HELD_MAX
    }

    /// Adds the statements of all runs to a record, from its `rows` in the order of the runs.
    pub(super) fn state_record(
        &self,
        rows: &mut Vec<RecordRow>,
        record: &mut RecordStatements,
    ) -> Result<(), StoreError> {
        let first = rows.first().map_or(u32::MAX, |row| row.run);
        let mut rows = rows.drain(..).peekable();
        let begin = self.based.partition_point(|based| based.run < first);
        for based in self.based.get(begin..).unwrap_or_default() {
            while let Some(row) = rows.next_if(|row| row.run < based.run) {
                self.add_row(&row, None, record)?;
            }
            match rows.next_if(|row| row.run == based.run) {
                Some(row) => self.add_row(&row, Some(based.base), record)?,
                None => self.add_confirmed(based, record)?,
            }
        }
        rows.try_for_each(|row| self.add_row(&row, None, record))
    }

    fn add_row(
        &self,
        row: &RecordRow,
        base: Option<u32>,
        record: &mut RecordStatements,
    ) -> Result<(), StoreError> {
        let base = base.and_then(|base| record.of_run(base));
        let read = StoredStatement::read(row.run, &row.bytes, base);
        match read.ok_or_else(|| self.corrupt("a statement cannot be read"))? {
            StatementRow::Absent => {}
            StatementRow::Stated(statement) => record.statements.push(statement),
        }
        Ok(())
    }

    /// Adds the statement of a run that has no row for the record.
    fn add_confirmed(&self, based: &BasedRun, record: &mut RecordStatements) -> Result<(), StoreError> {
        // a run has a row for each record that it rejected
        let base = record.of_run(based.base).filter(|base| base.time.content.is_some());
        let Some(base) = base else { return Ok(()) };
        let place = self.places(based)?.place(base.place())?;
        let place = place.ok_or_else(|| self.corrupt("the place of a confirmed record is missing"))?;
        let statement = StoredStatement {
            time: RecordStatement { run: based.run, ..base.time },
            position: place.position,
            offset: place.offset,
            ..base.clone()
        };
        record.statements.push(statement);
        Ok(())
    }

    fn places<'b>(&self, based: &'b BasedRun) -> Result<&'b RunPlaces, StoreError> {
        if let Some(places) = based.places.get() {
            return Ok(places);
        }
        let unknown = || self.corrupt("a run with a base is unknown");
        let completed = self.state.run(based.run).ok_or_else(unknown)?;
        let rows = self.files.open_sorted(&completed.rows, &facts_owner(&self.state))?;
        let rows = rows.cached(&self.files.blocks, &completed.rows.sha256);
        let places = RunPlaces::read(rows, based.is_held)?;
        let places = places.map_err(|_| self.corrupt("the places of a run cannot be read"))?;
        Ok(based.places.get_or_init(|| places))
    }
}

#[cfg(test)]
mod tests {
    use crate::ground::statement::StoredStatement;
    use crate::ground::testing::*;
    use domain_ground::rejection::{RecordRejection, RecordRule, RejectedRecord};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    /// A change of a file before its next release.
    #[derive(Debug, Clone)]
    enum FileChange {
        Add(u32),
        Drop(u32),
        Change(u32, u64),
        /// Other raw bytes with the same content.
        Comment(u32),
        Move(u32, u32),
        Reverse,
        /// A file of few records, which is not a snapshot.
        Patch(u32),
    }

    fn change() -> impl Strategy<Value = FileChange> {
        let place = 0..40_u32;
        prop_oneof![
            place.clone().prop_map(FileChange::Add),
            place.clone().prop_map(FileChange::Drop),
            (place.clone(), 0..3_u64).prop_map(|(at, people)| FileChange::Change(at, people)),
            place.clone().prop_map(FileChange::Comment),
            (place.clone(), place.clone()).prop_map(|(from, to)| FileChange::Move(from, to)),
            Just(FileChange::Reverse),
            place.prop_map(FileChange::Patch),
        ]
    }

    /// The next file, and whether it is a patch, after which the file before goes on.
    fn changed(
        file: &mut Vec<TestStatement>,
        change: &FileChange,
        next_year: &mut u32,
    ) -> Option<TestStatement> {
        let at = |place: u32| place as usize % file.len();
        match *change {
            FileChange::Add(place) => {
                *next_year += 1;
                file.insert(at(place), test_statement("USD", *next_year, 7));
            }
            FileChange::Drop(place) if file.len() > 1 => drop(file.remove(at(place))),
            FileChange::Drop(_) => {}
            FileChange::Change(place, people) => {
                let at = at(place);
                file[at].people = people;
            }
            FileChange::Comment(place) => {
                let at = at(place);
                file[at].comment.push('!');
            }
            FileChange::Move(from, to) => {
                let (from, to) = (at(from), at(to));
                let moved = file.remove(from);
                file.insert(to.min(file.len()), moved);
            }
            FileChange::Reverse => file.reverse(),
            FileChange::Patch(place) => {
                let mut patch = file[at(place)].clone();
                patch.people += 1;
                return Some(patch);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(
            std::env::var("ORACLED_HISTORIES").map_or(16, |cases| cases.parse().expect("a number"))
        ))]

        #[test]
        fn statements_are_read_as_the_runs_made_them(
            releases in vec(vec(change(), 0..4), 1..14),
            prune in proptest::option::of(0..14_usize),
        ) {
            let mut world = TestStore::new();
            let mut file: Vec<_> = (0..25).map(|year| test_statement("USD", year, 1)).collect();
            let (mut next_year, mut expected) = (100, BTreeMap::<Vec<u8>, Vec<StoredStatement>>::new());
            let mut readings = Vec::new();
            for (number, changes) in (1..).zip(&releases) {
                let patches: Vec<_> =
                    changes.iter().filter_map(|change| changed(&mut file, change, &mut next_year)).collect();
                let statements = patches.last().map_or_else(|| file.clone(), |patch| vec![patch.clone()]);
                let reading = test_run(&format!("{number:03}"), 100 * i64::from(number), patches.is_empty(), statements);
                world.archive(&reading);
                world.ingest(&reading);
                for (stated, stored) in reading.statements.iter().zip(reading.stored(number)) {
                    expected.entry(stated.key()).or_default().push(stored);
                }
                readings.push(reading);
                if prune == Some(number as usize) {
                    // pruned statements keep all but their rows
                    world.prune(100 * i64::from(number));
                }
            }
            let view = world.view();
            let is_pruned = prune.is_some_and(|prune| prune <= releases.len());
            let mut found = BTreeMap::new();
            for record in view.records(&[], Bound::Unbounded).expect("readable") {
                let mut record = record.expect("readable");
                for (statement, expected) in record.statements.iter_mut().zip(&expected[&record.key]) {
                    if is_pruned && statement.row.is_none() {
                        statement.row = expected.row.clone();
                    }
                }
                found.insert(record.key, record.statements);
            }
            prop_assert_eq!(&found, &expected);
            for statement in expected.values().flatten() {
                let run = statement.time.run;
                let record = view.record(run, statement.position).expect("readable").expect("it is stated");
                let of_run = record.of_run(run).expect("it is stated");
                prop_assert_eq!((of_run.position, of_run.raw_hash), (statement.position, statement.raw_hash));
            }
            for (run, reading) in (1..).zip(&readings) {
                let verified = view.verify_run(run, |_| true).expect("readable").expect("the run exists");
                prop_assert_eq!((verified.fault_count, verified.records), (0, reading.statements.len() as u64));
                let beyond = reading.statements.len() as u64;
                prop_assert_eq!(view.record(run, beyond).expect("readable"), None);
            }
        }
    }

    #[test]
    fn release_that_only_confirms_writes_no_statement() {
        let mut world = TestStore::new();
        let file = |people| (0..2000).map(|year| test_statement("USD", year, people)).collect::<Vec<_>>();
        world.ingest(&test_run("1", 100, true, file(1)));
        let before = world.view().state.files.clone();
        for release in 2..6_i64 {
            world.ingest(&test_run(&release.to_string(), 100 * release, true, file(1)));
        }
        let state = world.view().state.clone();
        assert_eq!(state.files, before);
        for completed in &state.completed[1..] {
            assert!(completed.rows.size_bytes < 300, "{} bytes", completed.rows.size_bytes);
            assert_eq!(
                (completed.stated.base, completed.stated.segments),
                (Some(completed.release.run - 1), 1)
            );
        }
    }

    #[test]
    fn rejected_record_is_not_confirmed_by_the_next_release() {
        let mut world = TestStore::new();
        let file: Vec<_> = (0..20).map(|year| test_statement("USD", year, 1)).collect();
        world.ingest(&test_run("1", 100, true, file.clone()));
        // the second release rejects the first record, the third one lacks it
        let second = test_run("2", 200, true, file[1..].to_vec());
        let mut staging = world.staging(&second);
        let rejection = RecordRejection::new(RecordRule::RequiredField, None, "no value");
        let reject = RejectedRecord {
            position: 19,
            offset: 0,
            len: 1,
            raw_hash: domain_base::digest::Sha256Hex::of(b""),
            rejection,
        };
        staging.reject(&reject, Some(&file[0].key())).expect("the write succeeds");
        let release = world.release(&second);
        let staged = staging.finish(&world.view(), &release, |_| true).expect("the write succeeds");
        world.complete_staged(&second, release, staged.expect("the caller does not stop it"));
        world.ingest(&test_run("3", 300, true, file[1..].to_vec()));
        world.ingest(&test_run("4", 400, true, file.clone()));
        let view = world.view();
        let bases: Vec<_> = view.state.completed.iter().map(|completed| completed.stated.base).collect();
        assert_eq!(bases[..3], [None, Some(1), Some(2)]);
        let record = view.records(&file[0].key(), Bound::Unbounded).expect("readable").next();
        let record = record.expect("it exists").expect("readable");
        let runs: Vec<_> =
            record.statements.iter().map(|stated| (stated.time.run, stated.time.content.is_some())).collect();
        assert_eq!(runs, [(1, true), (2, false), (4, true)]);
    }
}
