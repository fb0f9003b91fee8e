//! `oraclectl`: the administrators' command line, one file per verb.

mod audit;
mod base;
mod ground;
mod platform;
mod rules;
mod verdict;
mod verification;
use crate::base::error::CtlError;
use crate::base::options::Options;
use crate::verdict::calibrate::Calibrate;
pub use base::man::man_pages;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  success; crosscheck: the verdict is approved; rules check: the result is PASS;
     rules eval: all cases have the expected result; ingest run: the records are visible;
     verify: the values are verified
  1  rejected: the verdict is not approved, the session is unknown, the request is invalid,
     the probe failed, the result of rules check is not PASS, a case has an unexpected result,
     a run failed, a logged decision cannot be reproduced
  2  the command line is invalid
  3  the daemon does not answer
  4  the daemon cannot do this now; try again later
  5  a file cannot be read or written, or some of its content is invalid
  6  verify: the answer has no verified values
  7  ingest: the run is held until it is approved or discarded
  130  interrupted; an ingestion run continues in the daemon";

/// Control oracled and read its state
#[derive(Debug, Parser)]
#[command(name = "oraclectl", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Ctl {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the state of the daemon
    Status,
    /// Show the state of each actor
    Actors,
    /// Check a verdict without delivering it; the check is logged
    Crosscheck(verdict::crosscheck::Crosscheck),
    /// Submit a verdict for delivery, or let the model generate one
    Submit(verdict::submit::Submit),
    /// Register a session so that a lost verdict can be regenerated
    Register(verdict::register::Register),
    Verdict(verdict::show::Verdict),
    Health(platform::health::Health),
    Outbox(verdict::outbox::Outbox),
    /// Show the audit log
    Log(audit::log::Log),
    /// Show how often regenerated verdicts differ from the delivered ones
    Divergence(verdict::divergence::Divergence),
    /// Remove the cached verdict of a session
    Purge(verdict::purge::Purge),
    Session(verdict::session::Session),
    /// Reject new work and pause scheduled pulls, for example before a restart
    ///
    /// Stored verdicts are still served. Requests for other work, and payloads, are rejected.
    Drain(platform::drain::Drain),
    /// Reopen oracle_log.jsonl and apply the configured log level
    Reload,
    /// Show or set the level of the service log
    LogLevel(platform::log_level::LogLevel),
    Calibrate(Calibrate),
    Rules(rules::Rules),
    Apply(ground::apply::Apply),
    Get(ground::get::Get),
    Describe(ground::describe::Describe),
    Schema(ground::schema::Schema),
    Source(ground::source::Source),
    Ingest(ground::ingest::Ingest),
    Rejects(ground::rejects::Rejects),
    Query(ground::query::Query),
    Provenance(ground::provenance::Provenance),
    Verify(verification::verify::Verify),
    Explain(verification::explain::Explain),
    Review(verification::review::Review),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages to a folder, one page per verb
    Man {
        /// The folder; it must exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// The command line, with the examples of its verbs.
#[must_use]
pub fn command() -> Command {
    base::examples::add_to(Ctl::command())
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let Ctl { options, verb } =
        Ctl::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let json = options.json;
    let out = &mut io::stdout().lock();
    let done = run(verb, &options, out);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            base::output::complain(&error, json, out);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(verb: Verb, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
    match verb {
        Verb::Status => ask(platform::status::run(options, out)),
        Verb::Actors => ask(platform::actors::run(options, out)),
        Verb::Crosscheck(verb) => ask(verb.run(options, out)),
        Verb::Submit(verb) => ask(verb.run(options, out)),
        Verb::Register(verb) => ask(verb.run(options, out)),
        Verb::Divergence(verb) => ask(verb.run(options, out)),
        Verb::Verdict(verb) => ask(verb.run(options, out)),
        Verb::Health(verb) => ask(verb.run(options, out)),
        Verb::Outbox(verb) => ask(verb.run(options, out)),
        Verb::Log(verb) => ask(verb.run(options, out)),
        Verb::Purge(verb) => ask(verb.run(options, out)),
        Verb::Session(verb) => ask(verb.run(options, out)),
        Verb::Drain(verb) => ask(verb.run(options, out)),
        Verb::Reload => ask(platform::reload::run(options, out)),
        Verb::LogLevel(verb) => ask(verb.run(options, out)),
        Verb::Calibrate(verb) => Ok(verb.run(out, options.json)?),
        Verb::Rules(verb) => ask(verb.run(options, out)),
        Verb::Apply(verb) => ask(verb.run(options, out)),
        Verb::Get(verb) => ask(verb.run(options, out)),
        Verb::Describe(verb) => ask(verb.run(options, out)),
        Verb::Schema(verb) => verb.run(out),
        Verb::Source(verb) => ask(verb.run(options, out)),
        Verb::Ingest(verb) => ask(verb.run(options, out)),
        Verb::Rejects(verb) => ask(verb.run(options, out)),
        Verb::Query(verb) => ask(verb.run(options, out)),
        Verb::Provenance(verb) => ask(verb.run(options, out)),
        Verb::Verify(verb) => ask(verb.run(options, out)),
        Verb::Explain(verb) => ask(verb.run(options, out)),
        Verb::Review(verb) => ask(verb.run(options, out)),
        Verb::Completions { shell } => {
            // clap_complete panics if it cannot write
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "oraclectl", &mut script);
            Ok(out.write_all(&script)?)
        }
        Verb::Man { dir } => write_man_pages(&dir),
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

/// Runs a verb that sends requests to the daemon.
fn ask(verb: impl Future<Output = Result<(), CtlError>>) -> Result<(), CtlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CtlError::Output)?.block_on(verb)
}
