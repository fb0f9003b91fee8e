//! The cost of storing releases, in bytes and processor time. The test is heavy and prints its measurements.
//!
//! `ORACLED_COST_SCALE` is the part of the full size in percent (1 by default; 100 is 5 million rows, and 500 daily files
//! of 20,000 rows).

use super::testing::*;
use std::fs;

/// A file of a release, which is a snapshot. As in a statistical office's files, most columns are not taken by an axis.
fn file(release: u64, statements: impl Iterator<Item = TestStatement>) -> TestRun {
    let columns =
        |stated| TestStatement { comment: ",EXR.D.EUR.SP00.A,D,A,F,2,4,average,official".into(), ..stated };
    let seconds = 100 + release.cast_signed();
    test_run(&format!("{release:05}"), seconds, true, statements.map(columns).collect())
}

fn size_bytes(file: &TestRun) -> u64 {
    file.statements.iter().map(|stated| stated.raw().len() as u64).sum()
}

/// Archives a file, and ingests it as the next release.
fn ingest(world: &mut TestStore, file: &TestRun) {
    world.archive(file);
    world.ingest(file);
}

/// The bytes and the processor time that were used so far.
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
    let text = fs::read_to_string(path).expect("the system has it");
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

/// The rows of many countries and years, some of which the second release changes.
fn rows(release: u64, rows: u64, changed: impl Fn(u64) -> bool) -> TestRun {
    let row = |row: u64| {
        let people = row.wrapping_mul(7919) % 1_000_000 + 1_000_000 + u64::from(changed(row));
        test_statement(&format!("{:03}", row / 10_000), (row % 10_000) as u32, people)
    };
    file(release, (0..rows).map(row))
}

#[test]
#[ignore = "heavy: prints measurements; run it alone"]
fn second_release_costs_what_it_changed() {
    let size = scale(5_000_000);
    let mut world = TestStore::new();
    let start = Usage::now(&world);
    ingest(&mut world, &rows(1, size, |_| false));
    let first = Usage::now(&world);
    // one row of a hundred, at random places
    let changed = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33).is_multiple_of(100);
    let count = (0..size).filter(|row| changed(*row)).count();
    let newest = rows(2, size, changed);
    ingest(&mut world, &newest);
    let second = Usage::now(&world);
    let newest_bytes = size_bytes(&newest);
    first.print(&format!("first release of {size} rows"), &start, newest_bytes);
    second.print(&format!("second release, {count} changed"), &first, newest_bytes);
    second.print("both", &start, newest_bytes);
    assert!(10 * (second.facts_bytes - first.facts_bytes) < first.facts_bytes - start.facts_bytes);
    // the first release takes 3.00 of its file at the full size, and the second one adds the changes
    assert!(10 * (first.facts_bytes - start.facts_bytes) < 31 * newest_bytes);
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
        let newest = file(release, (0..history + release).rev().map(day));
        ingest(&mut world, &newest);
        let first = first.get_or_insert_with(|| Usage::now(&world));
        let used = Usage::now(&world);
        if [0, 99, DAYS - 1].contains(&release) {
            let newest_bytes = size_bytes(&newest);
            used.print(&format!("{} daily files", release + 1), &start, newest_bytes);
            used.print("all but the first", first, newest_bytes);
            println!("sorted files: {}", world.view().file_count());
        }
    }
}

#[test]
#[ignore = "heavy: prints measurements; run it alone"]
fn export_of_a_source_costs_processor_time() {
    let size = scale(1_000_000);
    let mut world = TestStore::new();
    let changed = |row: u64| row.is_multiple_of(100);
    ingest(&mut world, &rows(1, size, |_| false));
    ingest(&mut world, &rows(2, size, changed));
    let view = world.view();
    let before = processor_ms();
    let lines = view.export(&mut std::io::sink()).expect("the files are readable");
    println!("export of {lines} lines: processor {} ms", processor_ms() - before);
    assert!(lines > size);
}
