//! The command line of oracled's administrators.

fn main() -> std::process::ExitCode {
    oracled_ctl::main()
}
