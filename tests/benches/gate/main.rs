//! The gate, measured: one table from one sitting, each figure beside its floor from the same run.
//!
//! `cargo bench -p oracled-tests` takes four minutes, `… -- --quick` one, and `… -- read submit` measures
//! only what is named (of crosscheck, rules, read, submit, regen, start, ground and verify). What is compared is
//! measured in turns (A B A B …) and the median of the rounds is shown, so that a machine that is busy for a
//! moment does not favour one side.

mod alone;
mod bare;
mod crosscheck;
mod ground;
mod load;
mod machine;
mod model;
mod read;
mod records;
mod regen;
mod rules;
mod start;
mod submit;
mod table;
mod verify;

use std::env;
use std::io;
use std::path::Path;
use std::time::Duration;
use table::Table;

/// The argument that makes this program the bare server, in a process of its own.
const SERVE_BARE: &str = "--serve-bare";
/// The connections that load comes over.
const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Measures one part and adds it to the table.
type Measure = fn(Effort, &mut Table) -> io::Result<()>;

/// How long everything may take.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Rounds of a comparison.
    rounds: usize,
    /// How long one round of reading lasts.
    reading: Duration,
    /// Submissions of one round, per connection.
    submissions: usize,
    /// Verdicts that a model makes in one round, per connection.
    made: usize,
    /// Starts of a daemon.
    starts: usize,
    /// Verdicts in the stores that the daemon is started on: a small one and a large one.
    stored: usize,
    stored_many: usize,
    /// Facts that are ingested.
    facts: usize,
    /// Of them so many are looked up in one round.
    lookups: usize,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 5,
        reading: Duration::from_millis(1000),
        submissions: 200,
        made: 40,
        starts: 7,
        stored: 100_000,
        stored_many: 1_000_000,
        facts: 1_000_000,
        lookups: 100_000,
    };
    const QUICK: Self = Self {
        rounds: 3,
        reading: Duration::from_millis(400),
        submissions: 100,
        made: 20,
        starts: 3,
        stored: 100_000,
        stored_many: 200_000,
        facts: 100_000,
        lookups: 20_000,
    };
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [mode, socket, body] = arguments.as_slice()
        && mode == SERVE_BARE
    {
        return bare::serve(Path::new(socket), Path::new(body));
    }
    let effort =
        if arguments.iter().any(|argument| argument == "--quick") { Effort::QUICK } else { Effort::FULL };
    // on the disk that the build is on: /tmp may be memory, where a sync costs nothing
    let program = env::current_exe()?;
    let scratch = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(program.parent().expect("a program is in a folder"))?;
    tempfile::env::override_temp_dir(scratch.path()).expect("nobody has asked for a temporary file yet");

    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| *name == part);
    let mut table = Table::default();
    let parts: [(&str, Measure); 8] = [
        ("crosscheck", crosscheck::measure),
        ("rules", rules::measure),
        ("read", read::measure),
        ("submit", submit::measure),
        ("regen", regen::measure),
        ("start", start::measure),
        ("ground", ground::measure),
        ("verify", verify::measure),
    ];
    for (part, measure) in parts {
        if wanted(part) {
            measure(effort, &mut table)?;
        }
    }
    println!("{}", machine::describe(scratch.path()));
    print!("{table}");
    Ok(())
}
