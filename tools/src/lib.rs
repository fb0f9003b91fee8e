//! Programs that `oraclectl` starts, since few people need them: `oraclectl A B` starts `oraclectl-A-B`.

pub mod calibrate;
pub mod parquet;
pub mod prompt_try;
pub mod rules_eval;

use std::process::ExitCode;

/// A program and its name.
type Program = (&'static str, fn() -> ExitCode);

/// The programs of this crate.
pub const PROGRAMS: [Program; 4] = [
    (calibrate::PROGRAM, calibrate::main),
    (parquet::PROGRAM, parquet::main),
    (prompt_try::PROGRAM, prompt_try::main),
    (rules_eval::PROGRAM, rules_eval::main),
];
