fn main() -> std::process::ExitCode {
    oracled_tools::parquet::main()
}
