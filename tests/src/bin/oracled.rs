//! The program, built with the tests that run it, and those that it starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    match oracled_tools::called() {
        Some(tool) => tool(),
        None if oracled_ctl::is_called() => oracled_ctl::main(),
        None => oracled::cli::main(),
    }
}
