//! Verbs for the audit log.

pub(crate) mod backup;
pub(crate) mod export_log;
pub(crate) mod log;
pub(crate) mod restore;
pub(crate) mod verification;
mod verify_directory;
pub(crate) mod verify_log;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::Output;
use crate::base::program::block_on;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditVerb {
    /// Show the audit log
    Log(log::LogArgs),
    VerifyLog(verify_log::VerifyLogArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
}

impl AuditVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Log(verb) => block_on(verb.run(options, out)),
            Self::VerifyLog(verb) => verb.run(options.json, out),
            Self::Backup(verb) => verb.run(options, out),
            Self::Restore(verb) => verb.run(options.json, out),
        }
    }
}
