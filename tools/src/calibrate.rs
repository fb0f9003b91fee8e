//! `oraclectl calibrate`: judges a corpus of real outputs offline, with the daemon's own crosscheck.
//!
//! It covers the seed's CROSSCHECK-GAP-01: the mapping is theoretical, and this shows its effect on real
//! text. Every verdict goes through [`domain_verdict::crosscheck::judge`] and no other code. This module only counts, and
//! finds the single flags that decide. It needs no daemon, reads no store, and changes no constant.

mod report;

use crate::calibrate::report::{
    ApprovalCounts, CoherenceBin, FlagOccurrences, FlagTotal, FlagTrials, TierTotals,
};
use comfy_table::{Cell, Color, ContentArrangement, Table};
use domain_base::payload::VerdictPayload;
use domain_base::text_form::visible_line;
use domain_base::wording::{ParseTextError, format_count};
use domain_verdict::label::ProductTier;
use oracled_ctl::base::error::CtlError;
use oracled_ctl::base::input::{self, InputLineReader, LineTooLong, json_error_text};
use oracled_ctl::base::output::{OutputStyle, shorten_line, write_section};
use oracled_ctl::base::program::{ProgramArgs, run_program};
use oracled_ctl::verdict::programs::CalibrateArgs;
pub(crate) use report::CalibrationReport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
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
    let name = input::display_name(&args.file);
    let opened = input::open(&args.file, "judging");
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
        write(out, report, look)?;
    }
    out.flush()
}

/// A fault in a line. Each message states what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CorpusLineFault {
    /// The line has more bytes than [`LINE_MAX_BYTES`](oracled_ctl::base::input::LINE_MAX_BYTES).
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    /// The line is not a JSON document.
    #[error("not JSON ({reason}, column {column}); a line is one {{\"tier\", \"raw\", …}} object")]
    NotJson {
        /// The message of the JSON parser.
        reason: String,
        /// Column, from 1, in bytes.
        column: usize,
    },
    /// The line is JSON, but not an object.
    #[error("not a JSON object; a line is one {{\"tier\", \"raw\", …}} object")]
    NotAnObject,
    /// A field occurs twice. This program does not choose which one to judge.
    #[error("{reason}; `tier` and `raw` occur once each")]
    Repeated {
        /// The message of the JSON parser, with the field.
        reason: String,
    },
    /// A required field is missing.
    #[error("`{field}` is missing; a line has `tier` (quick, full or strategy) and `raw` (the model's text)")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field is not a string.
    #[error("`{field}` is not a string; `tier` is quick, full or strategy, `raw` the model's text")]
    NotText {
        /// The field.
        field: &'static str,
    },
    /// The tier is unknown.
    #[error(transparent)]
    UnknownTier(#[from] ParseTextError),
}

/// One model output to judge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CorpusEntry {
    pub(crate) tier: ProductTier,
    pub(crate) raw: String,
}

/// Reads a corpus, with one line in memory at a time.
pub(crate) struct CorpusReader<R> {
    name: String,
    lines: InputLineReader<R>,
}

impl<R: BufRead> CorpusReader<R> {
    pub(crate) fn new(name: String, input: R) -> Self {
        Self { name, lines: InputLineReader::new(input) }
    }

    /// The next line that is not blank; `None` at the end; an error for an invalid line.
    pub(crate) fn next_entry(&mut self) -> Result<Option<CorpusEntry>, CalibrateError> {
        let file = || self.name.clone();
        let read = self.lines.next_line().map_err(|cause| CalibrateError::Read { file: file(), cause })?;
        let Some(line) = read else { return Ok(None) };
        let read = line.text.map_err(CorpusLineFault::from).and_then(parse_entry);
        read.map(Some).map_err(|fault| CalibrateError::Line { file: file(), line: line.number, fault })
    }
}

/// The two fields that are read; they may not be strings.
#[derive(Deserialize)]
struct CorpusFields<'a> {
    #[serde(borrow)]
    tier: Option<CorpusField<'a>>,
    #[serde(borrow)]
    raw: Option<CorpusField<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CorpusField<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

fn parse_entry(line: &[u8]) -> Result<CorpusEntry, CorpusLineFault> {
    // serde also accepts an array with the fields in their order
    let is_object = line.first() == Some(&b'{');
    let fields: CorpusFields<'_> = match serde_json::from_slice(line) {
        Ok(fields) if is_object => fields,
        Ok(_) => return Err(CorpusLineFault::NotAnObject),
        Err(error) => return Err(line_fault(&error, is_object)),
    };
    let tier = require_text("tier", fields.tier)?;
    let raw = require_text("raw", fields.raw)?;
    Ok(CorpusEntry { tier: tier.parse()?, raw: raw.into_owned() })
}

fn require_text<'a>(
    field: &'static str,
    value: Option<CorpusField<'a>>,
) -> Result<Cow<'a, str>, CorpusLineFault> {
    match value {
        None => Err(CorpusLineFault::Missing { field }),
        Some(CorpusField::Other(_)) => Err(CorpusLineFault::NotText { field }),
        Some(CorpusField::Text(text)) => Ok(text),
    }
}

fn line_fault(error: &serde_json::Error, is_object: bool) -> CorpusLineFault {
    let reason = json_error_text(error);
    if !error.is_data() {
        CorpusLineFault::NotJson { reason, column: error.column() }
    } else if is_object {
        CorpusLineFault::Repeated { reason }
    } else {
        CorpusLineFault::NotAnObject
    }
}

/// Maximum length of a bar, in columns.
const BAR_MAX: usize = 50;
/// Minimum space for bars, in columns.
const BAR_MIN: usize = 8;
/// Columns of padding around a cell.
const PADDING: usize = 2;
/// Maximum number of listed places of a flag.
const PLACES_LISTED: usize = 6;
/// Maximum length of a place's name, in characters.
const PLACE_CHARS: usize = 28;
/// Blocks from an eighth of a column to a whole one.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Writes `report` to `out`.
pub(crate) fn write(out: &mut dyn Write, report: &CalibrationReport, look: OutputStyle) -> io::Result<()> {
    let all = &report.approval.all;
    let name = visible_line(&report.corpus);
    let verdicts = format_count(all.verdicts, "verdict", "verdicts");
    writeln!(out, "{name}: {verdicts}, {} approved, {} rejected", all.approved, all.refused)?;
    write_section(out, "Approval by tier", &approval_table(&report.approval, look))?;
    let title = format!("Coherence C (bins are narrower above Ω = {:.5})", report.threshold);
    write_section(out, &title, &histogram_table(report, look))?;
    write_nearest(out, report)?;
    write_section(out, "Reasons", &reason_table(report, look))?;
    write_section(out, "Flags", &flag_table(report, look))?;
    write_section(out, "Flags by place", &flag_place_table(report, look))?;
    write_section(out, &approval_flip_title(report), &approval_flip_table(report, look))?;
    write_section(out, &refusal_flip_title(report), &refusal_flip_table(report, look))
}

fn approval_table(approval: &TierTotals<ApprovalCounts>, look: OutputStyle) -> Table {
    let header = ["tier", "verdicts", "approved", "rejected", "rate"];
    let width = bar_width(look, header.iter().map(|name| name.len().max("strategy".len())));
    let mut table = look.table(&[&header[..], &[""]].concat(), &[0, 5]);
    for (tier, of_tier) in approval.named_values() {
        let rate = of_tier.approval_rate.map(|rate| format!("{:.1} %", rate * 100.0));
        table.add_row([
            Cell::new(tier),
            Cell::new(of_tier.verdicts),
            Cell::new(of_tier.approved),
            Cell::new(of_tier.refused),
            Cell::new(rate.as_deref().unwrap_or("-")),
            Cell::new(draw_bar(of_tier.approved, of_tier.verdicts, width)).fg(Color::DarkGreen),
        ]);
    }
    table
}

fn histogram_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let bins = report.histogram.bins();
    let highest = bins.iter().map(|bin| bin.verdicts.all).max().unwrap_or_default();
    let labels = bins.iter().map(|bin| bin.label().chars().count()).max();
    let digits = highest.to_string().len();
    let counts = ["all", "quick", "full", "strategy"].map(|name| name.len().max(digits));
    let width = bar_width(look, labels.into_iter().chain(counts));
    let mut table = look.table(&["C", "", "all", "quick", "full", "strategy"], &[1]);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut above = false;
    for bin in bins {
        if bin.at_least_omega && !above {
            above = true;
            table.add_row([Cell::new("Ω"), Cell::new("╌".repeat(width))]);
        }
        table.add_row(bin_row(bin, highest, width));
    }
    table
}

fn bin_row(bin: &CoherenceBin, highest: u64, width: usize) -> Vec<Cell> {
    let color = if bin.at_least_omega { Color::DarkGreen } else { Color::DarkRed };
    let bar = Cell::new(draw_bar(bin.verdicts.all, highest, width)).fg(color);
    let counts = bin.verdicts.named_values().map(|(_, count)| count_cell(*count));
    [Cell::new(bin.label()), bar].into_iter().chain(counts).collect()
}

/// A count. A zero is left blank, so that other numbers stand out.
fn count_cell(count: u64) -> Cell {
    Cell::new(if count == 0 { String::new() } else { count.to_string() })
}

fn write_nearest(out: &mut dyn Write, report: &CalibrationReport) -> io::Result<()> {
    let score = |c: Option<f64>| c.map_or_else(|| "none".to_owned(), |c| format!("{c:.5}"));
    writeln!(
        out,
        "\n Nearest to Ω: rejected {}, approved {}.",
        score(report.highest_refused),
        score(report.lowest_approved)
    )
}

fn reason_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let mut table = look.table(&["reason", "all", "quick", "full", "strategy"], &[0]);
    for count in &report.reasons {
        let counts = count.verdicts.named_values().map(|(_, count)| count_cell(*count));
        table.add_row([Cell::new(count.reason.into_str())].into_iter().chain(counts));
    }
    table
}

fn flag_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    // on a narrow terminal the tiers are left out, so that words do not break
    let tiers: &[ProductTier] = if look.is_narrow() { &[] } else { &ProductTier::ALL };
    let mut header = vec!["flag", "weight", "verdicts", "approved"];
    header.extend(tiers.iter().map(|tier| tier.into_str()));
    let mut table = look.table(&header, &[0, 1]);
    for named in report.flags.names() {
        let FlagOccurrences { verdicts, approved, .. } = &named.counts;
        let by_tier = tiers.iter().map(|tier| count_cell(*verdicts.get(*tier)));
        let all = [
            Cell::new(named.flag),
            Cell::new(format_weight(named)),
            Cell::new(verdicts.all),
            count_cell(*approved),
        ];
        table.add_row(all.into_iter().chain(by_tier));
    }
    table
}

/// The flags with places, as in the log, the most frequent ones first.
fn flag_place_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    let mut table = look.table(&["flag and place", "times"], &[0]);
    for named in report.flags.names() {
        let places = &named.counts.places;
        let by_frequency = places.by_frequency();
        let (listed, rest) = by_frequency.split_at(by_frequency.len().min(PLACES_LISTED));
        for (place, count) in listed {
            table.add_row([
                Cell::new(format!("{}:{}", named.flag, shorten_line(place, PLACE_CHARS))),
                Cell::new(count),
            ]);
        }
        let others = rest.iter().map(|(_, count)| count).sum::<u64>() + places.other_places;
        if others > 0 {
            table.add_row([Cell::new(format!("{} elsewhere", named.flag)), Cell::new(others)]);
        }
    }
    table
}

fn approval_flip_title(report: &CalibrationReport) -> String {
    let (of, all) = (report.flips.to_approval.by_one_flag.all, report.flips.to_approval.refused.all);
    format!("One flag less, same V_t\n{of} of {all} rejected verdicts depend on a single flag.")
}

fn approval_flip_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    trial_table(report.flips.to_approval.flags.names(), ["rejected with it", "approved without it"], look)
}

fn refusal_flip_title(report: &CalibrationReport) -> String {
    let (of, all) = (report.flips.to_refusal.by_one_v_r_flag.all, report.flips.to_refusal.approved.all);
    format!("One flag more, same V_t\n{of} of {all} approved verdicts are one V_r flag from rejection.")
}

fn refusal_flip_table(report: &CalibrationReport, look: OutputStyle) -> Table {
    trial_table(report.flips.to_refusal.flags.names(), ["approved without it", "rejected with it"], look)
}

fn trial_table(flags: &[FlagTotal<FlagTrials>], [before, after]: [&str; 2], look: OutputStyle) -> Table {
    let mut table = look.table(&["flag", "weight", before, after], &[0, 1]);
    for named in flags {
        table.add_row([
            Cell::new(named.flag),
            Cell::new(format_weight(named)),
            Cell::new(named.counts.verdicts),
            Cell::new(named.counts.flips),
        ]);
    }
    table
}

/// The space for bars in a table with other columns of these widths.
fn bar_width(look: OutputStyle, columns: impl IntoIterator<Item = usize>) -> usize {
    let padded: usize = columns.into_iter().map(|column| column + PADDING).sum();
    usize::from(look.width).saturating_sub(padded + PADDING).clamp(BAR_MIN, BAR_MAX)
}

fn format_weight<T>(named: &FlagTotal<T>) -> String {
    if named.e_d > 0.0 {
        format!("E_D {:.1}", named.e_d)
    } else if named.v_r > 0.0 {
        format!("V_r {:.1}", named.v_r)
    } else {
        "none".to_owned()
    }
}

/// A bar of `part` in `whole`, in eighths of a column; `width` columns are the whole. A part above zero has
/// at least one eighth, so that it is visible.
fn draw_bar(part: u64, whole: u64, width: usize) -> String {
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (width * BLOCKS.len()) as f64).round().max(1.0) as usize;
    let full = BLOCKS.last().map(|block| block.to_string().repeat(eighths / BLOCKS.len()));
    let rest = (eighths % BLOCKS.len()).checked_sub(1).and_then(|index| BLOCKS.get(index));
    full.into_iter().chain(rest.map(char::to_string)).collect()
}

#[cfg(test)]
mod tests;
