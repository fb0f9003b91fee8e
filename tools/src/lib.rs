//! The program `oraclectl-tools`: tools that few people need, each under a name of its own. `oraclectl A B` starts it under the name
//! `oraclectl-A-B`.

pub mod calibrate;
pub mod parquet;
pub mod prompt_try;
pub mod rules_eval;

use oracled_ctl::base::program::TOOLS;
use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// A tool and its name.
type Tool = (&'static str, fn() -> ExitCode);

const NAMED: [Tool; 4] = [
    (calibrate::PROGRAM, calibrate::main),
    (parquet::PROGRAM, parquet::main),
    (prompt_try::PROGRAM, prompt_try::main),
    (rules_eval::PROGRAM, rules_eval::main),
];

/// The tool under whose name this process was started.
#[must_use]
pub fn called() -> Option<fn() -> ExitCode> {
    let called = env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name()?;
    NAMED.iter().find(|(tool, _)| name == *tool).map(|(_, main)| *main)
}

/// Runs the tool under whose name this process was started.
pub fn main() -> ExitCode {
    match called() {
        Some(tool) => tool(),
        None => {
            drop(writeln!(io::stderr(), "{TOOLS}: `oraclectl` starts this program; see `oraclectl --help`"));
            ExitCode::from(2)
        }
    }
}
