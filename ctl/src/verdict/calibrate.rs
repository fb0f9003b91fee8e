//! `oraclectl calibrate`: judges a corpus of real outputs offline, with the daemon's own crosscheck.
//!
//! It answers the seed's CROSSCHECK-GAP-01: the mapping is theoretical, so here is what it does to real text.
//! Every verdict goes through [`oracled_domain::judge`] and no other code; what this module adds is counting, and the
//! question which single flag decided. It needs no daemon, touches no store, and changes no constant.

mod by_flag;
mod by_tier;
mod corpus;
mod flips;
mod histogram;
mod report;
mod terminal;

pub(crate) use corpus::LineFault;
pub(crate) use report::Report;

use crate::base::error::CtlError;
use crate::base::lines;
use crate::base::look::Look;
use corpus::{Corpus, Entry};
use oracled_domain::Payload;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// Judges a corpus of real outputs offline, by the very code that the daemon judges with.
///
/// Shows the approval rate by tier, a histogram of C around the threshold, the reasons, how often each flag
/// occurs and where, and which single flag decides. One bad line stops it: nothing is left out silently.
#[derive(Debug, clap::Args)]
pub(crate) struct Calibrate {
    /// The corpus, one `{"tier", "raw", …}` object a line (other fields are ignored); `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
}

/// Why a calibration came to no result, or could not hand it over. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CalibrateError {
    /// The corpus cannot be opened or read.
    #[error("cannot read the corpus {file}: {cause}")]
    Read {
        /// The corpus, as it was named.
        file: String,
        /// What the system says.
        cause: io::Error,
    },
    /// A line of the corpus is not what it must be.
    #[error("{file}, line {line}: {fault}")]
    Line {
        /// The corpus, as it was named.
        file: String,
        /// The line's number, from 1, blank lines counted.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// The corpus has no line that is not blank.
    #[error("{file} holds no verdict: a corpus has one {{\"tier\", \"raw\", …}} object a line, at least one")]
    Empty {
        /// The corpus, as it was named.
        file: String,
    },
    /// The result cannot be written out.
    #[error("cannot write the result: {0}")]
    Output(io::Error),
}

impl From<CalibrateError> for CtlError {
    fn from(error: CalibrateError) -> Self {
        match error {
            CalibrateError::Output(error) => Self::Output(error),
            error => Self::Verb { message: error.to_string(), exit_code: 5, was_printed: false },
        }
    }
}

impl Calibrate {
    /// Judges the corpus and writes the result to `out`: tables for people, or with `json` one JSON object on
    /// one line (its fields are those of [`Report`]). Progress goes to standard error where that is a terminal.
    pub(crate) fn run(&self, out: &mut dyn Write, json: bool) -> Result<(), CalibrateError> {
        let report = self.report()?;
        print(out, &report, json, Look::of_stdout()).map_err(CalibrateError::Output)
    }

    /// Judges the corpus from its first line to its last, one line in memory at a time.
    fn report(&self) -> Result<Report, CalibrateError> {
        let name = lines::name(&self.file);
        let opened = lines::open(&self.file, "judging");
        let (input, bar) = opened.map_err(|cause| CalibrateError::Read { file: name.clone(), cause })?;
        let report = judge_all(name, input);
        bar.finish_and_clear();
        report
    }
}

fn judge_all(name: String, input: impl BufRead) -> Result<Report, CalibrateError> {
    let mut report = Report::new(name.clone());
    let mut corpus = Corpus::new(name.clone(), input);
    while let Some(Entry { tier, raw }) = corpus.next_entry()? {
        report.add(&oracled_domain::judge(tier, Payload::raw(&raw)));
    }
    if report.approval.all.verdicts == 0 {
        return Err(CalibrateError::Empty { file: name });
    }
    Ok(report)
}

fn print(out: &mut dyn Write, report: &Report, json: bool, look: Look) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, report)?;
        writeln!(out)?;
    } else {
        terminal::write(out, report, look)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests;
