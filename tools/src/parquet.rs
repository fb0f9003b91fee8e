//! `oraclectl-parquet`: reads a Parquet file as lines of JSON, and writes the export of a source as a Parquet file.
//!
//! The library allocates memory by sizes that are in the file, and panics for some damaged files. A file of 12 KB can take 4 GB. So
//! this is a program with limits of its own, which `oraclectl` starts.

mod columns;
mod export;
mod rows;
mod values;

pub use oracled_ctl::ground::parquet::PROGRAM;

use clap::Parser;
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use oracled_ctl::ground::parquet::{CPU_MAX_S, MEMORY_MAX_BYTES, REFUSED};
use parquet::errors::ParquetError;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic;
use std::process::ExitCode;

/// The longest reason, in characters.
const FAULT_MAX_CHARS: usize = 1000;

/// Read and write Parquet files for oraclectl
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version)]
enum ParquetCommand {
    /// Print the rows of the Parquet file that is the standard input
    ///
    /// The first line lists the columns that are left out, since only texts, numbers, dates and times are read.
    Read,
    /// Write a Parquet file of the records on standard input
    ///
    /// The first line has the source and its ontology, and the last one the number of records between them.
    Write,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // a core dump would contain the rows
    if let Err(error) = set_dumpable(false) {
        drop(writeln!(io::stderr(), "cannot turn core dumps off: {error}"));
        return ExitCode::from(REFUSED as u8);
    }
    let command = ParquetCommand::parse();
    // oraclectl reports a panic
    panic::set_hook(Box::new(|_| {}));
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let fault = match error {
                ParquetError::General(fault) => fault,
                error => error.to_string(),
            };
            // a long text would block the pipe: it can quote names from the file
            let fault: String = fault.chars().take(FAULT_MAX_CHARS).collect();
            drop(writeln!(io::stderr(), "{fault}"));
            ExitCode::from(REFUSED as u8)
        }
    }
}

fn run(command: &ParquetCommand) -> Result<(), ParquetError> {
    match command {
        ParquetCommand::Read => {
            limit(Resource::RLIMIT_AS, MEMORY_MAX_BYTES)?;
            limit(Resource::RLIMIT_CPU, CPU_MAX_S)?;
            rows::write_rows(File::from(io::stdin().as_fd().try_clone_to_owned()?), &mut io::stdout().lock())
        }
        ParquetCommand::Write => {
            let target = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            export::write_export(io::stdin().lock(), target)
        }
    }
}

fn limit(resource: Resource, most: u64) -> Result<(), ParquetError> {
    let limited =
        getrlimit(resource).and_then(|(_, hard)| setrlimit(resource, most.min(hard), most.min(hard)));
    limited.map_err(|errno| values::general(io::Error::from(errno)))
}
