//! `oraclectl calibrate`.

use crate::base::program::ProgramArgs;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Judge a corpus of model outputs without a daemon, with the code of the daemon
///
/// Shows the approval rate by tier, a histogram of the coherence score C, the reasons, the number of times
/// that each flag occurs at each place of a verdict, and the decisions that depend on a single flag. An
/// invalid line stops the calibration.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// The corpus, one `{"tier", "raw", …}` object per line (other fields are ignored); `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
}

impl ProgramArgs for CalibrateArgs {
    const PROGRAM: &'static str = "oraclectl-calibrate";

    fn arguments(&self) -> Vec<&OsStr> {
        vec![self.file.as_os_str()]
    }
}
