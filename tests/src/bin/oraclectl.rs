//! The administrators' tool, built with the tests that run it.

fn main() -> std::process::ExitCode {
    oracled_ctl::main()
}
