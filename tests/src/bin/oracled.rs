//! The program, built with the tests that run it, and those that it starts.

use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    let is_called = |(name, _): &&(&str, _)| Path::new(&called).file_name() == Some((*name).as_ref());
    match oracled_tools::PROGRAMS.iter().find(is_called) {
        Some((_, program)) => program(),
        None if oracled_ctl::is_called() => oracled_ctl::main(),
        None => oracled::cli::main(),
    }
}
