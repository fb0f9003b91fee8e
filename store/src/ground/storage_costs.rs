//! What the storage of releases costs, in bytes and processor time. The test is heavy and prints its measurements.
//!
//! `ORACLED_COST_SCALE` is the part of the full size in percent (1 by default; 100 is 5 million rows, and 500 daily files
//! of 20,000 rows).

use super::staging::{AcceptedRecord, RunStaging};
use super::statement::StoredStatement;
use super::testing::*;
use std::fs;
use std::path::Path;

/// A file of a release: its lines, each with the statement that it makes.
struct CostFile {
    lines: Vec<(TestStatement, Vec<u8>)>,
}

impl CostFile {
    fn of(statements: impl Iterator<Item = TestStatement>) -> Self {
        // as in a statistical office's files: most columns are not taken by an axis
        let line = |stated: &TestStatement| {
            let TestStatement { country, year, region, people, .. } = stated;
            format!(
                "EXR.D.{country}.EUR.SP00.A,D,{country},{year},{region},{people},A,F,2,4,average,official\n"
            )
            .into_bytes()
        };
        Self { lines: statements.map(|stated| (stated.clone(), line(&stated))).collect() }
    }

    fn bytes(&self) -> u64 {
        self.lines.iter().map(|(_, line)| line.len() as u64).sum()
    }

    /// Archives the file, and ingests it as the next release.
    fn ingest(&self, world: &mut TestStore) {
        let mut writer = world.store().files().archive_writer().expect("a file");
        self.lines.iter().for_each(|(_, line)| writer.push(line).expect("the write succeeds"));
        writer.finish().expect("the write succeeds");
        let number = world.view().state.next_number();
        let reading = test_run(&format!("{number:05}"), 100 + i64::from(number), true, Vec::new());
        let mut staging =
            RunStaging::new(world.store().files(), &reading.input().run_id(), number).expect("a file");
        let mut offset = 0;
        for (position, (stated, line)) in (0..).zip(&self.lines) {
            let json = stated.content().to_json();
            let statement = StoredStatement {
                time: stated.statement(number),
                position,
                offset,
                len: line.len() as u32,
                raw_hash: digest(line),
                verified: true,
                row: stated.content().to_row(json.len(), &ontology()).map(Into::into),
            };
            offset += line.len() as u64;
            let mut region = Vec::new();
            oracled_domain::ground::value::append_text_key(&stated.region, &mut region);
            let (key, index) = (stated.key(), [(2, region)]);
            staging
                .accept(&AcceptedRecord { key: &key, statement: &statement, index: &index })
                .expect("the write succeeds");
        }
        let release = world.release(&reading);
        let staged = staging.finish(&world.view(), &release, |_| true).expect("the staging succeeds");
        world.complete_staged(&reading, release, staged.expect("the caller does not stop it"));
    }
}

/// What was used so far.
struct Usage {
    facts_bytes: u64,
    archive_bytes: u64,
    written_bytes: u64,
    processor_ms: u64,
}

impl Usage {
    fn now(world: &TestStore) -> Self {
        let folder = |name: &str| {
            let entries =
                fs::read_dir(world.dir.path().join("ground").join(name)).expect("the folder exists");
            entries.map(|entry| entry.expect("an entry").metadata().expect("its size").len()).sum()
        };
        Self {
            facts_bytes: folder("facts"),
            archive_bytes: folder("raw"),
            written_bytes: number_after("/proc/self/io", "wchar: "),
            processor_ms: processor_ms(),
        }
    }

    fn print(&self, what: &str, before: &Self, newest_bytes: u64) {
        let facts = self.facts_bytes - before.facts_bytes;
        let archive = self.archive_bytes - before.archive_bytes;
        println!(
            "{what}: facts {facts} bytes ({:.2} of the newest file, {newest_bytes} bytes), archive {archive} bytes \
             ({:.2}), both {:.2}; written {} bytes, processor {} ms",
            facts as f64 / newest_bytes as f64,
            archive as f64 / newest_bytes as f64,
            (facts + archive) as f64 / newest_bytes as f64,
            self.written_bytes - before.written_bytes,
            self.processor_ms - before.processor_ms,
        );
    }
}

fn number_after(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(Path::new(path)).expect("the system has it");
    let rest = text.split(name).nth(1).expect("the system reports it");
    rest.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// The processor time of this process, all threads together.
fn processor_ms() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("the system has it");
    // after the name of the program, which may hold spaces: the fields from the third one on
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |field: usize| fields[field - 3].parse::<u64>().expect("a number");
    // 100 ticks a second on every Linux
    (ticks(14) + ticks(15)) * 10
}

fn scale(full: u64) -> u64 {
    let percent = std::env::var("ORACLED_COST_SCALE").map_or(1, |percent| percent.parse().expect("a number"));
    full * percent / 100
}

/// The rows of a country and a year, some of which the second release changes.
fn rows(rows: u64, changed: impl Fn(u64) -> bool) -> CostFile {
    CostFile::of((0..rows).map(|row| {
        let country = format!("{:03}", row / 10_000);
        let people = row.wrapping_mul(7919) % 1_000_000 + 1_000_000 + u64::from(changed(row));
        test_statement(&country, (row % 10_000) as u32, people)
    }))
}

#[test]
#[ignore = "heavy: prints measurements; run it alone"]
fn second_release_costs_what_it_changed() {
    let size = scale(5_000_000);
    let mut world = TestStore::new();
    let start = Usage::now(&world);
    rows(size, |_| false).ingest(&mut world);
    let first = Usage::now(&world);
    // one row of a hundred, at random places
    let changed = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33).is_multiple_of(100);
    let count = (0..size).filter(|row| changed(*row)).count();
    let newest = rows(size, changed);
    newest.ingest(&mut world);
    let second = Usage::now(&world);
    first.print(&format!("first release of {size} rows"), &start, newest.bytes());
    second.print(&format!("second release, {count} changed"), &first, newest.bytes());
    second.print("both", &start, newest.bytes());
}

#[test]
#[ignore = "heavy: prints measurements; run it alone"]
fn daily_whole_history_costs_what_it_adds() {
    const DAYS: u64 = 500;
    let mut world = TestStore::new();
    let start = Usage::now(&world);
    let history = scale(20_000);
    let day = |day: u64| test_statement("USD", day as u32, 1_000_000 + day.wrapping_mul(7919) % 10_000);
    let mut first = None;
    for release in 0..DAYS {
        // the newest day is at the beginning of the file
        let file = CostFile::of((0..history + release).rev().map(day));
        file.ingest(&mut world);
        let used = Usage::now(&world);
        let first = first.get_or_insert(Usage::now(&world));
        if [0, 99, DAYS - 1].contains(&release) {
            used.print(&format!("{} daily files", release + 1), &start, file.bytes());
            used.print("all but the first", first, file.bytes());
            println!("sorted files: {}", world.view().file_count());
        }
    }
}
