//! `oraclectl try`.

use super::document_files::read_all;
use super::ingest::format_coverage;
use super::parquet::open_payload;
use super::trial::{PreparedTrial, TrialLimits, TrialReport, prepare};
use crate::base::arguments::limit_parser;
use crate::base::error::CtlError;
use crate::base::input_lines::display_name;
use crate::base::output::{format_count, format_pairs, format_table, print_json, shorten_line};
use crate::base::output_stream::print_note;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::ontology::OntologyRef;
use domain_ground::run::RunCounts;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Records that are read by default.
const RECORDS: u64 = 1_000_000;
/// Records and rejects that are shown by default.
const SHOWN: usize = 5;
/// Characters of a raw record that are shown.
const RAW_CHARS: usize = 160;

/// Read a file by documents as a run would, without a daemon, and store nothing
///
/// It checks all documents, and shows the first records, the share of records that fill each axis, and the first rejected
/// records with their text. It exits with 1 if the run would fail, and with 7 if a gate would hold it.
#[derive(Debug, clap::Args)]
pub(crate) struct TryArgs {
    /// File with the ontology, the source and the pipeline, or folder with .yaml, .yml and .json files
    #[arg(value_name = "DOCUMENTS")]
    documents: PathBuf,
    /// The payload, as the source publishes it; `-` reads standard input. A Parquet file is read as lines of JSON
    #[arg(value_name = "FILE")]
    payload: PathBuf,
    /// The pipeline, if the documents have several
    #[arg(long, value_name = "PIPELINE")]
    pipeline: Option<PipelineId>,
    /// Number of records and of rejects to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = SHOWN, value_parser = limit_parser(usize::MAX))]
    limit: usize,
    /// Maximum number of raw records to read
    #[arg(long, value_name = "N", default_value_t = RECORDS)]
    max_records: u64,
}

/// The result for programs.
#[derive(Serialize)]
struct NamedTrialReport<'r> {
    pipeline_id: &'r PipelineId,
    oracle_id: &'r SourceId,
    ontology: &'r OntologyRef,
    #[serde(flatten)]
    report: &'r TrialReport,
}

impl TryArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let trial = self.read_pipeline()?;
        let read = |cause| CtlError::Read { file: display_name(&self.payload), cause };
        let (payload, bar) =
            open_payload(&self.payload, "tried", Some(&trial.definition.pipeline.retrieval)).map_err(read)?;
        let limits = TrialLimits { records: self.max_records, shown: self.limit };
        let report = trial.read(payload, limits);
        bar.finish_and_clear();
        if is_json {
            let (pipeline_id, source) = (&trial.definition.pipeline.pipeline_id, &trial.source);
            let (oracle_id, ontology) = (&source.oracle_id, &source.ontology);
            print_json(out, &NamedTrialReport { pipeline_id, oracle_id, ontology, report: &report })?;
        } else {
            print(&trial, &report, out)?;
        }
        let exit =
            |message: String, exit_code| Err(CtlError::Verb { message, exit_code, was_printed: false });
        match (&report.failure, report.breaches.as_slice()) {
            (Some(failure), _) => exit(format!("the run would fail: {failure}"), 1),
            (None, []) => Ok(()),
            (None, breaches) => exit(format!("the run would be held: {}", breaches.join("; ")), 7),
        }
    }

    /// The pipeline to try, if the documents have no fault.
    fn read_pipeline(&self) -> Result<PreparedTrial, CtlError> {
        let error = |message: String| CtlError::Verb { message, exit_code: 5, was_printed: false };
        let (documents, mut faults) = read_all(std::slice::from_ref(&self.documents))?;
        let mut trials = prepare(&documents, &mut faults);
        faults.sort();
        for fault in &faults {
            print_note(&fault.to_string());
        }
        if !faults.is_empty() {
            let faults = format_count(faults.len() as u64, "fault", "faults");
            return Err(error(format!("{faults} in the documents; nothing was read")));
        }
        let ids: Vec<_> =
            trials.iter().map(|trial| trial.definition.pipeline.pipeline_id.to_string()).collect();
        if let Some(named) = &self.pipeline {
            trials.retain(|trial| trial.definition.pipeline.pipeline_id == *named);
        }
        match (trials.pop(), trials.is_empty()) {
            (Some(trial), true) => Ok(trial),
            (None, _) if ids.is_empty() => Err(error(format!(
                "there is no pipeline in {}; `oraclectl new source FILE` writes one",
                display_name(&self.documents)
            ))),
            _ => Err(CtlError::Usage(format!(
                "name one of the pipelines with `--pipeline`: {}",
                ids.join(", ")
            ))),
        }
    }
}

fn print(trial: &PreparedTrial, report: &TrialReport, out: &mut dyn Write) -> Result<(), CtlError> {
    let RunCounts { read, records, collapsed, rejected, warnings_by_rule, warnings, axes, .. } =
        &report.counts;
    let mut pairs = vec![
        ("pipeline", trial.definition.pipeline.pipeline_id.to_string()),
        ("source", format!("{}, ontology {}", trial.source.oracle_id, trial.source.ontology)),
        (
            "read",
            if report.more { format!("{read}; there are more (--max-records)") } else { read.to_string() },
        ),
        ("records", records.to_string()),
        ("collapsed", collapsed.to_string()),
        ("rejected", rejected.to_string()),
    ];
    pairs.extend(
        warnings_by_rule.iter().map(|(rule, count)| ("warnings", format!("{} {count}", rule.into_str()))),
    );
    pairs.extend(warnings.iter().map(|warning| ("warning", warning.to_string())));
    pairs.extend(axes.iter().map(|(axis, fill)| ("axis", format_coverage(axis, fill))));
    write!(out, "{}", format_pairs(&pairs))?;
    for record in &report.records {
        let values: Vec<_> =
            record.content.axes.iter().map(|(axis, value)| (axis.as_str(), value.to_string())).collect();
        write!(out, "\n{}", format_pairs(&values))?;
    }
    if !report.rejects.is_empty() {
        let rows = report.rejects.iter().map(|reject| {
            [
                (reject.position + 1).to_string(),
                reject.rejection.rule.into_str().to_owned(),
                reject.rejection.place.clone().unwrap_or_default(),
                reject.rejection.reason.clone(),
                shorten_line(&reject.raw, RAW_CHARS),
            ]
        });
        writeln!(out, "\n{}", format_table(["record", "rule", "place", "reason", "text"], rows.collect()))?;
    }
    Ok(())
}
