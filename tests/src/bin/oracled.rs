//! The program, built with the tests that run it.

fn main() -> std::process::ExitCode {
    if oracled_ctl::is_called() { oracled_ctl::main() } else { oracled::cli::main() }
}
