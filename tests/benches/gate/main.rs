//! The benchmarks of the gate: one table from one run, each value next to its floor from the same run.
//!
//! `cargo bench -p oracled-tests` takes four minutes, `… -- --quick` one. `… -- read submit` measures only
//! the named parts (of crosscheck, rules, read, submit, regen, start, ground, verify and recall). The parts largest,
//! cluster and what-if are measured only if they are named. The compared sides are measured alternately (A B A B …), and the
//! table shows the median of the rounds. A short load on the machine therefore does not favor one side.

mod bare;
mod cluster;
mod crosscheck;
mod floor;
mod ground;
mod load;
mod machine;
mod model;
mod peer;
mod postgres;
mod read;
mod recall;
mod records;
mod redis;
mod regen;
mod rules;
mod standalone_journal;
mod start;
mod submit;
mod table;
mod tree;
mod verify;
mod what_if;

use std::path::Path;
use std::time::Duration;
use std::{env, io};
use table::BenchTable;

/// The arguments that make this program the bare server, or the floor of a submission, in a separate process.
const SERVE_BARE: &str = "--serve-bare";
const SERVE_FLOOR: &str = "--serve-floor";
/// The numbers of connections.
const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Measures one part and adds it to the table.
type MeasureFn = fn(BenchEffort, &mut BenchTable) -> io::Result<()>;

/// The extent of the measurements.
#[derive(Debug, Clone, Copy)]
struct BenchEffort {
    /// Rounds of a comparison.
    rounds: usize,
    /// The duration of one round of reading.
    reading: Duration,
    /// Submissions of one round, for each connection.
    submissions: usize,
    /// Verdicts that a model generates in one round, for each connection.
    generated: usize,
    /// Number of starts of a daemon.
    starts: usize,
    /// Verdicts in the stores on which the daemon is started: a small one and a large one.
    stored: usize,
    stored_many: usize,
    /// Verdicts in the largest store, which is measured only by name.
    stored_most: usize,
    /// Number of ingested facts.
    facts: usize,
    /// Number of facts that are looked up in one round.
    lookups: usize,
}

impl BenchEffort {
    const FULL: Self = Self {
        rounds: 5,
        reading: Duration::from_millis(1000),
        submissions: 200,
        generated: 40,
        starts: 7,
        stored: 100_000,
        stored_many: 1_000_000,
        stored_most: 10_000_000,
        facts: 1_000_000,
        lookups: 100_000,
    };
    const QUICK: Self = Self {
        rounds: 3,
        reading: Duration::from_millis(400),
        submissions: 100,
        generated: 20,
        starts: 3,
        stored: 100_000,
        stored_many: 200_000,
        stored_most: 1_000_000,
        facts: 100_000,
        lookups: 20_000,
    };
}

/// The part that takes an hour.
const LARGEST: &str = "largest";
/// The part that needs PostgreSQL.
const CLUSTER: &str = "cluster";
/// The part that calculates all decisions of a store again.
const WHAT_IF: &str = "what-if";
/// The parts that are measured only if they are named.
const BY_NAME: [&str; 3] = [LARGEST, CLUSTER, WHAT_IF];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [mode, socket, path] = arguments.as_slice() {
        match mode.as_str() {
            SERVE_BARE => return bare::serve(Path::new(socket), Path::new(path)),
            SERVE_FLOOR => return floor::serve(Path::new(socket), Path::new(path)),
            _ => {}
        }
    }
    let effort = if arguments.iter().any(|argument| argument == "--quick") {
        BenchEffort::QUICK
    } else {
        BenchEffort::FULL
    };
    // on the disk of the build: /tmp may be in memory, where a sync costs nothing
    let program = env::current_exe()?;
    let scratch = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(program.parent().expect("a program is in a folder"))?;
    tempfile::env::override_temp_dir(scratch.path()).expect("no temporary file was created yet");

    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let is_selected =
        |part: &str| named.is_empty() && !BY_NAME.contains(&part) || named.iter().any(|name| *name == part);
    let mut table = BenchTable::default();
    let parts: [(&str, MeasureFn); 12] = [
        ("crosscheck", crosscheck::measure),
        ("rules", rules::measure),
        ("read", read::measure),
        ("submit", submit::measure),
        (CLUSTER, cluster::measure),
        ("regen", regen::measure),
        ("start", start::measure),
        (LARGEST, start::measure_largest),
        ("ground", ground::measure),
        ("verify", verify::measure),
        ("recall", recall::measure),
        (WHAT_IF, what_if::measure),
    ];
    for (part, measure) in parts {
        if is_selected(part) {
            measure(effort, &mut table)?;
        }
    }
    println!("{}", machine::describe(scratch.path()));
    print!("{table}");
    Ok(())
}
