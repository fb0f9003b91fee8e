fn main() -> std::process::ExitCode {
    oracled_tools::main()
}
