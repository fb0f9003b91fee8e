//! `oraclectl calibrate`: judges a corpus of real outputs offline, with the daemon's own crosscheck.
//!
//! It covers the seed's CROSSCHECK-GAP-01: the mapping is theoretical, and this shows its effect on real
//! text. Every verdict goes through [`domain_verdict::crosscheck::judge`] and no other code. This module only counts, and
//! finds the single flags that decide. It needs no daemon, reads no store, and changes no constant.

mod corpus;
mod report;
mod terminal;

pub(crate) use corpus::CorpusLineFault;
pub(crate) use report::CalibrationReport;

use corpus::{CorpusEntry, CorpusReader};
use domain_base::payload::VerdictPayload;
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input_lines;
use oracled_ctl::base::output_style::OutputStyle;
use oracled_ctl::base::program::{ProgramArgs, run_program};
use oracled_ctl::verdict::calibrate::CalibrateArgs;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

/// The name of the program.
pub const PROGRAM: &str = CalibrateArgs::PROGRAM;

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

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    run_program(|args: &CalibrateArgs, options, out| Ok(calibrate(args, options.json, out)?))
}

/// Judges the corpus and writes the result to `out`: tables for people, or with `json` one JSON object on
/// one line, with the fields of [`CalibrationReport`]. Progress goes to standard error if that is a
/// terminal.
fn calibrate(args: &CalibrateArgs, json: bool, out: &mut dyn Write) -> Result<(), CalibrateError> {
    let report = read_report(args)?;
    print(out, &report, json, OutputStyle::for_stdout()).map_err(CalibrateError::Output)
}

/// Judges the corpus line by line, with one line in memory at a time.
fn read_report(args: &CalibrateArgs) -> Result<CalibrationReport, CalibrateError> {
    let name = input_lines::display_name(&args.file);
    let opened = input_lines::open(&args.file, "judging");
    let (input, bar) = opened.map_err(|cause| CalibrateError::Read { file: name.clone(), cause })?;
    let report = judge_all(name, input);
    bar.finish_and_clear();
    report
}

fn judge_all(name: String, input: impl BufRead) -> Result<CalibrationReport, CalibrateError> {
    let mut report = CalibrationReport::new(name.clone());
    let mut corpus = CorpusReader::new(name.clone(), input);
    while let Some(CorpusEntry { tier, raw }) = corpus.next_entry()? {
        report.add(&domain_verdict::crosscheck::judge(tier, VerdictPayload::raw(&raw)));
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
