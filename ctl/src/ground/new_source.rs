//! `oraclectl new source`.

mod columns;
mod notation;
mod remark;
mod sample;
mod table;
mod yaml;

use super::document_files::read_all;
use super::parquet::open_payload;
use super::trial::{TrialLimits, prepare};
use crate::base::error::CtlError;
use crate::base::output::{format_pairs, print_json};
use crate::base::program::examples;
use crate::ground::new_source::columns::{FoundColumns, TableHints, find_columns};
use domain_ground::id::SourceId;
use domain_ground::ontology::AXES_MAX;
pub(crate) use notation::read_number;
use remark::{SourceRemark, shown_list};
use sample::Sample;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use yaml::NewDocuments;

/// Records that are read to try the documents.
const TRIED_RECORDS: u64 = 100_000;

/// Write new documents from a sample
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    #[command(subcommand)]
    verb: NewVerb,
}

#[derive(Debug, clap::Subcommand)]
enum NewVerb {
    #[command(after_help = examples(&["oraclectl new source heights.csv", "oraclectl new source API_SP.POP.TOTL.csv --id wdi-population"]))]
    Source(NewSourceArgs),
}

/// Write the documents of a source from a file with its data: CSV, TSV, JSON, NDJSON or Parquet; also gzip or zstd
///
/// It reads the beginning of the file, and recognizes the encoding, the delimiter, comments, lines before the header, columns that are
/// years, months or quarters, types, notations of numbers and dates, signs and units beside numbers, words for missing values and for
/// true and false, and the fields that identify a record. Each guess that can be wrong has a comment in the documents, and a code in
/// the output of `--json`. With `--tier`, they include a workflow for `oraclectl verify`. Then it reads the file by the documents, as
/// `oraclectl try` does.
#[derive(Debug, clap::Args)]
struct NewSourceArgs {
    /// The file, as the source publishes it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The id of the source, its ontology, its pipeline and its workflow [default: from the name of the file]
    #[arg(long)]
    id: Option<SourceId>,
    /// Your trust in the publisher. Without it, the source is `unverified`: it answers queries, and cannot decide a verification
    #[arg(long, value_parser = ["primary", "secondary", "cross_domain"])]
    tier: Option<String>,
    /// The file to write [default: ID.yaml]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

/// The result for programs.
#[derive(Debug, Serialize)]
struct NewSourceReport {
    oracle_id: SourceId,
    output: PathBuf,
    axes: Vec<String>,
    identity: Vec<String>,
    /// The fields that no axis takes.
    omitted: Vec<String>,
    /// The guesses that can be wrong, as in the comments of the documents.
    comments: Vec<ReportedComment>,
    /// Whether the values of the identity occur once in the sample.
    has_identity: bool,
    records: u64,
    rejected: u64,
    /// Why a run over the file would fail.
    failure: Option<String>,
    /// The gates that would hold it.
    breaches: Vec<String>,
}

/// A comment in the documents.
#[derive(Debug, Serialize)]
struct ReportedComment {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    axis: Option<String>,
    text: String,
}

impl NewArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.verb {
            NewVerb::Source(verb) => verb.run(is_json, out),
        }
    }
}

impl NewSourceArgs {
    fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let error = |message: String| CtlError::Verb { message, exit_code: 5, was_printed: false };
        let id = match &self.id {
            Some(id) => id.clone(),
            None => id_of(&self.file).map_err(CtlError::Usage)?,
        };
        let named = |fault: String| error(format!("{}: {fault}", self.file.display()));
        let mut sample = Sample::read(&self.file).map_err(named)?;
        let table = sample.format.table();
        let unpivot = table.and_then(|table| table.unpivot);
        let period = unpivot.and_then(|unpivot| Some((unpivot.name.as_str(), sample.period?)));
        let has_semicolons = table.is_some_and(|table| table.delimiter.byte() == b';');
        let hints = TableHints { period, has_semicolons };
        let mut found = find_columns(&sample.records, hints, AXES_MAX).map_err(named)?;
        found.omitted.splice(..0, sample.omitted.drain(..));
        let file = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tier = self.tier.as_deref();
        let documents = NewDocuments { id: &id, file, sample: &sample, found: &found, tier };
        let output = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.yaml")));
        self.write(&output, &documents.to_yaml().map_err(|fault| error(fault.to_string()))?)?;
        let comments = documents.remarks().into_iter().map(|(axis, remark)| ReportedComment {
            code: remark.code(),
            axis: axis.map(str::to_owned),
            text: remark.to_string(),
        });
        let report = self.try_documents(&id, output, &found, comments.collect())?;
        if is_json {
            return print_json(out, &report);
        }
        self.print(&report, &sample, out)
    }

    fn write(&self, output: &Path, text: &str) -> Result<(), CtlError> {
        if output == Path::new("-") {
            let message = "`--output` is `-`; name a regular file, from which the documents are tried";
            return Err(CtlError::Usage(message.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).create_new(!self.force);
        let written = options.open(output).and_then(|mut file| {
            // the documents are read from it again
            if !file.metadata()?.is_file() {
                return Err(std::io::Error::other("it is not a regular file; name one by `--output`"));
            }
            file.write_all(text.as_bytes())
        });
        written.map_err(|error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    "; `--force` overwrites it, `--output` names another file"
                }
                _ => "",
            };
            let message = format!("cannot write {}: {error}{remedy}", output.display());
            CtlError::Verb { message, exit_code: 5, was_printed: false }
        })
    }

    /// Reads the file by the documents that were written.
    fn try_documents(
        &self,
        id: &SourceId,
        output: PathBuf,
        found: &FoundColumns,
        comments: Vec<ReportedComment>,
    ) -> Result<NewSourceReport, CtlError> {
        let error = |message: String| CtlError::Verb { message, exit_code: 5, was_printed: false };
        let (documents, mut faults) = read_all(std::slice::from_ref(&output))?;
        let trial = prepare(&documents, &mut faults).pop();
        let fault = faults.first().map_or("they have no pipeline".to_owned(), ToString::to_string);
        let trial = trial.filter(|_| faults.is_empty()).ok_or_else(|| {
            error(format!("the documents in {} need corrections: {fault}", output.display()))
        })?;
        let read = |cause| CtlError::Read { file: self.file.display().to_string(), cause };
        let (payload, bar) = open_payload(&self.file, "tried", None).map_err(read)?;
        let report = trial.read(payload, TrialLimits { records: TRIED_RECORDS, shown: 0 });
        bar.finish_and_clear();
        let of_identity = found.columns.iter().filter(|column| column.is_identity);
        Ok(NewSourceReport {
            oracle_id: id.clone(),
            output,
            axes: found.columns.iter().map(|column| column.axis.clone()).collect(),
            identity: of_identity.map(|column| column.axis.clone()).collect(),
            omitted: found.omitted.clone(),
            comments,
            has_identity: found.has_identity,
            records: report.counts.records,
            rejected: report.counts.rejected,
            failure: report.failure,
            breaches: report.breaches,
        })
    }

    fn print(&self, report: &NewSourceReport, sample: &Sample, out: &mut dyn Write) -> Result<(), CtlError> {
        let NewSourceReport {
            oracle_id,
            output,
            axes,
            identity,
            omitted,
            comments,
            has_identity,
            records,
            rejected,
            failure,
            breaches,
        } = report;
        let format = serde_json::to_string(&sample.format).map_err(std::io::Error::from)?;
        let found = match has_identity {
            true => identity.join(", "),
            false => format!("not found: choose among {}", identity.join(", ")),
        };
        let mut pairs = vec![
            ("written", output.display().to_string()),
            ("format", format),
            ("axes", axes.join(", ")),
            ("identity", found),
            ("comments", comments.len().to_string()),
            ("records", records.to_string()),
            ("rejected", rejected.to_string()),
        ];
        if !omitted.is_empty() {
            pairs.push(("no axis", shown_list(omitted)));
        }
        pairs.extend(two_readings(comments).map(|numbers| ("numbers", numbers)));
        pairs.extend(failure.clone().map(|failure| ("failure", failure)));
        pairs.extend(breaches.iter().map(|breach| ("gate", breach.clone())));
        let (output, file) = (shell_word(output), shell_word(&self.file));
        let checked = match comments.as_slice() {
            [] => "complete `upstream_authority`, `upstream_url` and `data_license`",
            _ => "check the lines with a comment",
        };
        pairs.extend([
            ("next", format!("{checked} in {output}")),
            ("next", format!("oraclectl try {output} {file}")),
            ("next", format!("oraclectl apply -f {output}")),
            ("next", format!("oraclectl source approve {oracle_id}")),
            ("next", format!("oraclectl ingest run {oracle_id} {file} --version 1 --released-at DATE")),
        ]);
        let verified = axes.iter().find(|axis| !identity.contains(axis));
        if self.tier.is_none() {
            let next = format!(
                "to verify values: `oraclectl new source {file}` with `--tier` also writes a workflow"
            );
            pairs.push(("next", next));
        } else if let Some(axis) = verified {
            let subject = identity.iter().map(|axis| format!("{axis}=VALUE")).collect::<Vec<_>>().join(" ");
            pairs.push(("next", format!("oraclectl verify {oracle_id} {subject} --axes {axis}")));
        }
        Ok(out.write_all(format_pairs(&pairs).as_bytes())?)
    }
}

/// That the numbers of some axes can be read in two ways; `None` if there are no such axes.
fn two_readings(comments: &[ReportedComment]) -> Option<String> {
    let code = SourceRemark::DecimalMark { as_in: None }.code();
    let axes =
        comments.iter().filter(|comment| comment.code == code).filter_map(|comment| comment.axis.clone());
    let axes: Vec<_> = axes.collect();
    let shown =
        || format!("those of {} can be read in two ways; check their decimal mark", shown_list(&axes));
    (!axes.is_empty()).then(shown)
}

/// An id from the name of a file: `GDP per capita.csv` becomes `gdp-per-capita`, and `m.csv` becomes `m-data`.
///
/// # Errors
/// The name has no characters for an id.
fn id_of(file: &Path) -> Result<SourceId, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let parts = stem.chars().map(plain).collect::<String>();
    let mut id = parts.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    // an id has at least two characters
    if id.len() == 1 {
        id.push_str("-data");
    }
    id.truncate(60);
    SourceId::try_from(id.trim_end_matches('-').to_owned()).map_err(|_| {
        "the name of the file has no ASCII letters or digits for an id; name one with `--id`".to_owned()
    })
}

/// A path as a word of a command line.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:,".contains(character);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests;
