//! `oraclectl calibrate`: judges a corpus of real outputs offline, with the daemon's own crosscheck.
//!
//! It covers the seed's CROSSCHECK-GAP-01: the mapping is theoretical, and this shows its effect on real
//! text. Every verdict goes through [`oracled_domain::judge`] and no other code. This module only counts, and
//! finds the single flags that decide. It needs no daemon, reads no store, and changes no constant.

mod corpus;
mod report;
mod terminal;

pub(crate) use corpus::CorpusLineFault;
pub(crate) use report::CalibrationReport;

use crate::base::error::CtlError;
use crate::base::input_lines;
use crate::base::output_style::OutputStyle;
use corpus::{CorpusEntry, CorpusReader};
use oracled_domain::VerdictPayload;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// Judge a corpus of model outputs without a daemon, with the code of the daemon
///
/// Shows the approval rate by tier, a histogram of the coherence score C, the reasons, the number of times
/// that each flag occurs at each place of a verdict, and the decisions that depend on a single flag. An
/// invalid line stops the calibration.
#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// The corpus, one `{"tier", "raw", …}` object per line (other fields are ignored); `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
}

/// An error of a calibration. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CalibrateError {
    /// The corpus cannot be opened or read.
    #[error("cannot read the corpus {file}: {cause}")]
    Read {
        /// The corpus, as given on the command line.
        file: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// A line of the corpus is invalid.
    #[error("{file}, line {line}: {fault}")]
    Line {
        /// The corpus, as given on the command line.
        file: String,
        /// Line number, from 1; blank lines count.
        line: u64,
        /// The fault.
        fault: CorpusLineFault,
    },
    /// The corpus has only blank lines, or none.
    #[error("{file} has no verdict; a corpus has one {{\"tier\", \"raw\", …}} object per line, at least one")]
    Empty {
        /// The corpus, as given on the command line.
        file: String,
    },
    /// The result cannot be written.
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

impl CalibrateArgs {
    /// Judges the corpus and writes the result to `out`: tables for people, or with `json` one JSON object on
    /// one line, with the fields of [`CalibrationReport`]. Progress goes to standard error if that is a
    /// terminal.
    pub(crate) fn run(&self, out: &mut dyn Write, json: bool) -> Result<(), CalibrateError> {
        let report = self.report()?;
        print(out, &report, json, OutputStyle::for_stdout()).map_err(CalibrateError::Output)
    }

    /// Judges the corpus line by line, with one line in memory at a time.
    fn report(&self) -> Result<CalibrationReport, CalibrateError> {
        let name = input_lines::display_name(&self.file);
        let opened = input_lines::open(&self.file, "judging");
        let (input, bar) = opened.map_err(|cause| CalibrateError::Read { file: name.clone(), cause })?;
        let report = judge_all(name, input);
        bar.finish_and_clear();
        report
    }
}

fn judge_all(name: String, input: impl BufRead) -> Result<CalibrationReport, CalibrateError> {
    let mut report = CalibrationReport::new(name.clone());
    let mut corpus = CorpusReader::new(name.clone(), input);
    while let Some(CorpusEntry { tier, raw }) = corpus.next_entry()? {
        report.add(&oracled_domain::judge(tier, VerdictPayload::raw(&raw)));
    }
    if report.approval.all.verdicts == 0 {
        return Err(CalibrateError::Empty { file: name });
    }
    Ok(report)
}

fn print(out: &mut dyn Write, report: &CalibrationReport, json: bool, look: OutputStyle) -> io::Result<()> {
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
