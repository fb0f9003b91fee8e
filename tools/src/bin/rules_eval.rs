fn main() -> std::process::ExitCode {
    oracled_tools::rules_eval::main()
}
