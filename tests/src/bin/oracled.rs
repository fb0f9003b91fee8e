//! The daemon, built with the tests that run it.

fn main() -> std::process::ExitCode {
    oracled::cli::main()
}
