//! The one program: the daemon, and the administrators' command line when it is started as `oraclectl`.

fn main() -> std::process::ExitCode {
    if oracled_ctl::is_called() { oracled_ctl::main() } else { oracled::cli::main() }
}
