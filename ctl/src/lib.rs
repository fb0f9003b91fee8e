//! `oraclectl`: the administrators' command line, one file per verb.

mod audit;
pub mod base;
mod console;
pub mod ground;
mod platform;
pub mod rules;
mod upstream;
pub mod verdict;
mod verification;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
pub use crate::base::program::man_pages;
use crate::base::program::{block_on, examples, run_command_line};
use base::output::Output;
use clap::{Args, Command, Parser, Subcommand};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  success; crosscheck: the verdict is approved; rules check: the result is PASS;
     rules eval: all cases have the expected result; ingest run: the records are visible;
     verify: the values are verified; verify-log: the log has the entries;
     log: the log was read, even if no entry matches
  1  rejected: the verdict is not approved, the model refused to generate one, no model is
     configured, the session is unknown, the request is invalid, the probe failed, the result of
     rules check is not PASS, a case has an unexpected result, a run failed, a logged decision
     cannot be reproduced; try: the run would fail; verify-log: an entry, a proof, a checkpoint or a verdict was changed, is
     repeated, or is not signed with the key; doctor: a check found a fault
  2  the command line is invalid
  3  the daemon does not answer
  4  the daemon cannot do this now; try again later
  5  a file cannot be read or written, or some of its content is invalid
  6  verify: the answer has no verified values
  7  ingest: the run is held until it is approved or discarded; try: a gate would hold the run
  130  interrupted; an ingestion run continues in the daemon";

/// Control oracled and read its state
#[derive(Debug, Parser)]
#[command(name = "oraclectl", version, after_help = EXIT_CODES, max_term_width = 100)]
struct CtlArgs {
    #[command(subcommand)]
    verb: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    #[command(flatten)]
    Platform(platform::PlatformVerb),
    #[command(flatten)]
    Verdict(verdict::VerdictVerb),
    Rules(rules::RulesArgs),
    #[command(flatten)]
    Ground(ground::GroundVerb),
    #[command(flatten)]
    Verification(verification::VerificationVerb),
    Health(upstream::HealthArgs),
    #[command(flatten)]
    Audit(audit::AuditVerb),
    Console(console::ConsoleArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages to a folder, one page per verb
    #[command(after_help = examples(&["oraclectl man /usr/local/share/man/man1"]))]
    Man {
        /// The folder; it must exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// The command line, with the examples of its verbs.
#[must_use]
pub fn command() -> Command {
    CtlArgs::augment_args(GlobalOptions::augment_args(Command::new(NAME)))
}

/// The name under which the program is this command line.
pub const NAME: &str = "oraclectl";

/// Whether the program was started as `oraclectl`.
#[must_use]
pub fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|program| Path::new(&program).file_name() == Some(NAME.as_ref()))
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    run_command_line(command(), |CtlArgs { verb }, options, out| run(verb, options, out))
}

fn run(verb: &CtlCommand, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
    match verb {
        CtlCommand::Platform(verb) => verb.run(options, out),
        CtlCommand::Verdict(verb) => verb.run(options, out),
        CtlCommand::Audit(verb) => verb.run(options, out),
        CtlCommand::Ground(verb) => verb.run(options, out),
        CtlCommand::Verification(verb) => verb.run(options, out),
        CtlCommand::Health(verb) => block_on(verb.run(options, out)),
        CtlCommand::Rules(verb) => block_on(verb.run(options, out)),
        CtlCommand::Console(verb) => block_on(verb.run(options, out)),
        CtlCommand::Completions { shell } => {
            // clap_complete panics if it cannot write
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command(), "oraclectl", &mut script);
            Ok(out.write_all(&script)?)
        }
        CtlCommand::Man { dir } => write_man_pages(dir),
    }
}

fn write_man_pages(dir: &Path) -> Result<(), CtlError> {
    for (name, page) in man_pages(command())? {
        let file = dir.join(name);
        fs::write(&file, page).map_err(|error| CtlError::Verb {
            message: format!("cannot write {}: {error}", file.display()),
            exit_code: 5,
            was_printed: false,
        })?;
    }
    Ok(())
}
