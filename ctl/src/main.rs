//! The administrators' tool.

fn main() -> std::process::ExitCode {
    oracled_ctl::main()
}
