//! The administrators' tool.

fn main() -> std::process::ExitCode {
    oracled::ctl::main()
}
