//! The daemon.

fn main() -> std::process::ExitCode {
    oracled::cli::main()
}
