fn main() -> std::process::ExitCode {
    oracled_tools::prompt_try::main()
}
