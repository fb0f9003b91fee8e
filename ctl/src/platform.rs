//! Verbs for the daemon itself.

pub(crate) mod daemon;
pub(crate) mod doctor;
pub(crate) mod status;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::Output;
use crate::base::program::block_on;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlatformVerb {
    /// Show the state of the daemon
    Status,
    Doctor(doctor::DoctorArgs),
    /// Show the state of each actor
    Actors,
    /// Reject new work and pause scheduled pulls, for example before a restart
    ///
    /// Stored verdicts are still served. Requests for other work, and payloads, are rejected.
    Drain(daemon::DrainArgs),
    /// Reopen oracle_log.jsonl, apply the configured log level, and read the credentials again
    Reload,
    /// Show or set the level of the service log
    LogLevel(daemon::LogLevelArgs),
}

impl PlatformVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Status => block_on(status::run(options, out)),
            Self::Doctor(verb) => block_on(verb.run(options, out)),
            Self::Actors => block_on(status::list_actors(options, out)),
            Self::Drain(verb) => block_on(verb.run(options, out)),
            Self::Reload => block_on(daemon::reload(options, out)),
            Self::LogLevel(verb) => block_on(verb.run(options, out)),
        }
    }
}
