//! Verbs for workflows, decisions and reviews.

pub(crate) mod explain;
pub(crate) mod review;
pub(crate) mod verify;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::Output;
use crate::base::program::block_on;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum VerificationVerb {
    Verify(verify::VerifyArgs),
    Review(review::ReviewArgs),
}

impl VerificationVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Verify(verb) => block_on(verb.run(options, out)),
            Self::Review(verb) => block_on(verb.run(options, out)),
        }
    }
}
