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
use crate::base::program::{ProgramArgs, block_on, run_command_line};
pub use base::man::man_pages;
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
    /// Show the state of the daemon
    Status,
    Doctor(platform::doctor::DoctorArgs),
    /// Show the state of each actor
    Actors,
    /// Check a verdict without delivering it; the check is logged
    Crosscheck(verdict::submit::CrosscheckArgs),
    /// Submit a verdict for delivery, or let the model generate one
    Submit(verdict::submit::SubmitArgs),
    /// Register a session so that a lost verdict can be regenerated
    Register(verdict::session::RegisterArgs),
    Verdict(verdict::submit::VerdictArgs),
    Health(upstream::health::HealthArgs),
    Orders(verdict::orders::OrdersArgs),
    Order(verdict::orders::OrderArgs),
    Outbox(verdict::outbox::OutboxArgs),
    Prompt(verdict::programs::PromptArgs),
    Webhook(verdict::webhook::WebhookArgs),
    /// Show the audit log
    Log(audit::log::LogArgs),
    VerifyLog(audit::verify_log::VerifyLogArgs),
    Backup(audit::backup::BackupArgs),
    Restore(audit::restore::RestoreArgs),
    /// Show how often regenerated verdicts differ from the delivered ones
    Divergence(verdict::divergence::DivergenceArgs),
    /// Show the costs of the models by UTC day, model and tier
    Costs(verdict::costs::CostsArgs),
    /// Remove the cached verdict of a session
    Purge(verdict::session::PurgeArgs),
    Session(verdict::session::SessionArgs),
    Export(verdict::session::ExportArgs),
    Erase(verdict::erasure::EraseArgs),
    Retention(verdict::erasure::RetentionArgs),
    /// Reject new work and pause scheduled pulls, for example before a restart
    ///
    /// Stored verdicts are still served. Requests for other work, and payloads, are rejected.
    Drain(platform::daemon::DrainArgs),
    /// Reopen oracle_log.jsonl, apply the configured log level, and read the credentials again
    Reload,
    /// Show or set the level of the service log
    LogLevel(platform::daemon::LogLevelArgs),
    Calibrate(verdict::programs::CalibrateArgs),
    Rules(rules::RulesArgs),
    Apply(ground::apply::ApplyArgs),
    New(ground::new_source::NewArgs),
    Try(ground::trial::TryArgs),
    Get(ground::documents::GetArgs),
    Describe(ground::describe::DescribeArgs),
    Schema(ground::documents::SchemaArgs),
    Source(ground::source::SourceArgs),
    Ingest(ground::ingest::IngestArgs),
    Rejects(ground::rejects::RejectsArgs),
    Query(ground::query::QueryArgs),
    Provenance(ground::provenance::ProvenanceArgs),
    Verify(verification::verify::VerifyArgs),
    Explain(verification::explain::ExplainArgs),
    Review(verification::review::ReviewArgs),
    Console(console::ConsoleArgs),
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
    base::examples::add_to(CtlArgs::augment_args(GlobalOptions::augment_args(Command::new(NAME))))
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
        CtlCommand::Status => block_on(platform::status::run(options, out)),
        CtlCommand::Doctor(verb) => block_on(verb.run(options, out)),
        CtlCommand::Actors => block_on(platform::status::list_actors(options, out)),
        CtlCommand::Crosscheck(verb) => block_on(verb.run(options, out)),
        CtlCommand::Submit(verb) => block_on(verb.run(options, out)),
        CtlCommand::Register(verb) => block_on(verb.run(options, out)),
        CtlCommand::Costs(verb) => block_on(verb.run(options, out)),
        CtlCommand::Divergence(verb) => block_on(verb.run(options, out)),
        CtlCommand::Verdict(verb) => block_on(verb.run(options, out)),
        CtlCommand::Health(verb) => block_on(verb.run(options, out)),
        CtlCommand::Orders(verb) => block_on(verb.run(options, out)),
        CtlCommand::Order(verb) => block_on(verb.run(options, out)),
        CtlCommand::Outbox(verb) => block_on(verb.run(options, out)),
        CtlCommand::Prompt(verb) => block_on(verb.run(options, out)),
        CtlCommand::Webhook(verb) => block_on(verb.run(options, out)),
        CtlCommand::Log(verb) => block_on(verb.run(options, out)),
        CtlCommand::VerifyLog(verb) => verb.run(options.json, out),
        CtlCommand::Backup(verb) => verb.run(options, out),
        CtlCommand::Restore(verb) => verb.run(options.json, out),
        CtlCommand::Purge(verb) => block_on(verb.run(options, out)),
        CtlCommand::Session(verb) => block_on(verb.run(options, out)),
        CtlCommand::Erase(verb) => block_on(verb.run(options, out)),
        CtlCommand::Retention(verb) => block_on(verb.run(options, out)),
        CtlCommand::Export(verb) => block_on(verb.run(options, out)),
        CtlCommand::Drain(verb) => block_on(verb.run(options, out)),
        CtlCommand::Reload => block_on(platform::daemon::reload(options, out)),
        CtlCommand::LogLevel(verb) => block_on(verb.run(options, out)),
        CtlCommand::Calibrate(verb) => verb.start(options),
        CtlCommand::Rules(verb) => block_on(verb.run(options, out)),
        CtlCommand::Apply(verb) => block_on(verb.run(options, out)),
        CtlCommand::New(verb) => verb.run(options.json, out),
        CtlCommand::Try(verb) => verb.run(options.json, out),
        CtlCommand::Get(verb) => block_on(verb.run(options, out)),
        CtlCommand::Describe(verb) => block_on(verb.run(options, out)),
        CtlCommand::Schema(verb) => verb.run(out),
        CtlCommand::Source(verb) => block_on(verb.run(options, out)),
        CtlCommand::Ingest(verb) => block_on(verb.run(options, out)),
        CtlCommand::Rejects(verb) => block_on(verb.run(options, out)),
        CtlCommand::Query(verb) => block_on(verb.run(options, out)),
        CtlCommand::Provenance(verb) => block_on(verb.run(options, out)),
        CtlCommand::Verify(verb) => block_on(verb.run(options, out)),
        CtlCommand::Explain(verb) => block_on(verb.run(options, out)),
        CtlCommand::Review(verb) => block_on(verb.run(options, out)),
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
