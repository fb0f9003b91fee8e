//! Reading a payload by the documents of a folder, as a run would, without a daemon and without storing anything.

use super::document_files::{FileDocument, FileFault, read_all};
use super::ingest::format_coverage;
use super::parquet::open_payload;
use crate::base::error::CtlError;
use crate::base::input::display_name;
use crate::base::options::limit_parser;
use crate::base::output::{format_pairs, format_table, print_json, print_note, shorten_line};
use crate::base::program::examples;
use domain_base::digest::Sha256Stream;
use domain_base::raw::SourceValue;
use domain_base::wording::format_count;
use domain_ground::axis_effect::AxisEffects;
use domain_ground::format::TextEncoding;
use domain_ground::format::payload_kind::START_BYTES;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::normalize::{
    DefinitionCoverage, MissingColumnError, NormalizerOutput, PipelineDefinitionErrors, RecordNormalizer,
};
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::pipeline::{PipelineDefinition, WordSource};
use domain_ground::record::RecordContent;
use domain_ground::rejection::{RecordRejection, RecordRule};
use domain_ground::run::RunCounts;
use domain_ground::source::SourceRegistration;
use domain_ground::timeline::RecordStatement;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use store_facts::decoding::{PayloadEncoding, Utf8Check};
use store_facts::slices::{PayloadSlice, PayloadSliceError, SliceLimits, slice_payload};

/// A pipeline with its source and its ontology, without faults.
#[derive(Debug)]
pub(super) struct PreparedTrial {
    pub(super) definition: PipelineDefinition,
    pub(super) source: SourceRegistration,
    normalizer: RecordNormalizer,
}

/// The result of reading a payload.
#[derive(Debug, Default, Serialize)]
pub(super) struct TrialReport {
    pub(super) counts: RunCounts,
    /// The first records.
    pub(super) records: Vec<TrialRecord>,
    /// The first rejected records.
    pub(super) rejects: Vec<TrialReject>,
    /// Why the run would fail; `None` if it would not.
    pub(super) failure: Option<String>,
    /// The gates that would hold the run.
    pub(super) breaches: Vec<String>,
    /// Whether the payload has more records than were read.
    pub(super) more: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct TrialRecord {
    /// The number of the raw record in the payload, from 0.
    position: u64,
    #[serde(flatten)]
    pub(super) content: RecordContent,
}

#[derive(Debug, Serialize)]
pub(super) struct TrialReject {
    /// The number of the raw record in the payload, from 0.
    pub(super) position: u64,
    #[serde(flatten)]
    pub(super) rejection: RecordRejection,
    /// Its text. `None` if it was rejected because of a later record, and was not kept until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw: Option<String>,
    /// The key that other records have, too.
    #[serde(skip)]
    key: Option<[u8; 32]>,
}

/// The limits of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialLimits {
    /// The number of raw records to read. The memory is about 200 bytes for each, and [`KEPT_BYTES_MAX`].
    pub(super) records: u64,
    /// The number of records and of rejects to show.
    pub(super) shown: usize,
}

/// Why the rest of a payload cannot be read.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("{0}")]
    Encoding(#[from] io::Error),
    #[error("{0}")]
    Slice(#[from] PayloadSliceError),
    #[error("{0}")]
    Column(#[from] MissingColumnError),
}

/// The pipelines among the documents. All faults are appended to `faults`.
pub(super) fn prepare(documents: &[FileDocument], faults: &mut Vec<FileFault>) -> Vec<PreparedTrial> {
    let ontologies: Vec<&Ontology> = documents.iter().filter_map(|read| read.document.get()).collect();
    let find_ontology = |reference: &OntologyRef| {
        ontologies.iter().copied().find(|ontology| ontology.reference() == *reference)
    };
    let mut prepared = Vec::new();
    for read in documents {
        let mut fault = |detail: String| faults.push(FileFault::from_document(read, &detail));
        if let Some(Err(error)) = read.document.get::<Ontology>().map(Ontology::validate) {
            fault(error.to_string());
        } else if let Some(source) = read.document.get::<SourceRegistration>() {
            match find_ontology(&source.ontology).map(|ontology| source.validate(ontology)) {
                Some(Ok(())) => {}
                Some(Err(error)) => fault(error.to_string()),
                None => fault(missing("ontology", &source.ontology)),
            }
        } else if let Some(definition) = read.document.get::<PipelineDefinition>() {
            let oracle_id = &definition.pipeline.oracle_id;
            let mut sources = documents.iter().filter_map(|other| other.document.get::<SourceRegistration>());
            let Some(source) = sources.find(|source| source.oracle_id == *oracle_id) else {
                fault(missing("source", oracle_id));
                continue;
            };
            // the source's own fault names a missing ontology
            let Some(ontology) = find_ontology(&source.ontology) else { continue };
            let foreign: Vec<_> = definition.word_sources().collect();
            for (table, WordSource { oracle_id, .. }) in &foreign {
                fault(format!(
                    "tables.{table}: its words are the records of source {oracle_id}, which only the daemon has; write some of \
                     them as `words` for a trial"
                ));
            }
            if !foreign.is_empty() {
                continue;
            }
            match PreparedTrial::new(definition, source, ontology) {
                Ok(trial) => prepared.push(trial),
                Err(PipelineDefinitionErrors(errors)) => {
                    errors.iter().for_each(|error| fault(error.to_string()));
                }
            }
        }
    }
    prepared
}

fn missing(kind: &str, id: &impl ToString) -> String {
    let id = id.to_string();
    format!("{kind} {id} is not among the documents; add its file, or `oraclectl get {kind} {id}`")
}

impl PreparedTrial {
    fn new(
        definition: &PipelineDefinition,
        source: &SourceRegistration,
        ontology: &Ontology,
    ) -> Result<Self, PipelineDefinitionErrors> {
        let normalizer =
            RecordNormalizer::new(definition, Arc::new(ontology.clone()), &source.axes_provided)?;
        Ok(Self { definition: definition.clone(), source: source.clone(), normalizer })
    }

    /// Reads `payload` as a run would. Duplicates are found among the records that are read.
    pub(super) fn read(&self, payload: impl Read, limits: TrialLimits) -> TrialReport {
        let retrieval = &self.definition.pipeline.retrieval;
        let mut trial = PayloadTrial {
            normalizer: &self.normalizer,
            limits,
            keys: HashMap::new(),
            utf8: (retrieval.encoding == TextEncoding::Latin1).then(Utf8Check::default),
            kept: KeptTexts::default(),
            report: TrialReport::default(),
        };
        let mut start = Vec::new();
        let encoding = PayloadEncoding::of(retrieval);
        let failure = encoding.decode(payload).map_err(TrialError::from).and_then(|plain| {
            let plain = KeptStart { inner: plain, start: &mut start };
            let slices = slice_payload(&retrieval.format, plain, SliceLimits::default())?;
            let mut coverage =
                DefinitionCoverage::new(&self.normalizer, slices.columns(), slices.unnamed_columns())?;
            trial.read_all(slices, &mut coverage)?;
            coverage.store_in(&mut trial.report.counts);
            Ok(())
        });
        trial.name_duplicates();
        let mut report = trial.report;
        let counts = &mut report.counts;
        counts.rejected = counts.rejected_by_rule.values().sum();
        counts.utf8_records = trial.utf8.map_or(0, |utf8| utf8.utf8_records());
        counts.records = trial.keys.values().filter(|record| !record.is_conflicting).count() as u64;
        report.failure = match failure {
            Err(error) => Some(error.to_string()),
            Ok(()) if counts.read == 0 => Some("the payload holds no records".to_owned()),
            Ok(()) if counts.records == 0 => Some("no record was accepted".to_owned()),
            Ok(()) => None,
        };
        report.failure = report.failure.map(|cause| encoding.explain_failure(cause, &start));
        if report.failure.is_none() {
            let breaches = self.definition.pipeline.gates.breaches(counts, &AxisEffects::default(), None);
            report.breaches = breaches.iter().map(ToString::to_string).collect();
        }
        report
    }
}

/// A reader that keeps the first bytes.
struct KeptStart<'s, R> {
    inner: R,
    start: &'s mut Vec<u8>,
}

impl<R: Read> Read for KeptStart<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        let missing = START_BYTES.saturating_sub(self.start.len());
        self.start.extend(into.get(..count.min(missing)).unwrap_or_default());
        Ok(count)
    }
}

/// One reading of a payload.
struct PayloadTrial<'n> {
    normalizer: &'n RecordNormalizer,
    limits: TrialLimits,
    /// The records by the digests of their keys.
    keys: HashMap<[u8; 32], KeyedRecord>,
    /// The check of a payload in `latin-1`.
    utf8: Option<Utf8Check>,
    kept: KeptTexts,
    report: TrialReport,
}

/// About the most bytes of memory for the texts of records that are kept.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// The memory for a kept text beside its own bytes: its place in the map, of which up to half are empty, and its allocation.
const KEPT_ENTRY_BYTES: usize = 96;

/// The texts of the first records, by their positions. A later record with the same key can reject them.
#[derive(Debug, Default)]
struct KeptTexts {
    texts: HashMap<u64, String>,
    bytes: usize,
}

impl KeptTexts {
    fn keep(&mut self, position: u64, text: impl Fn() -> String) {
        if self.bytes < KEPT_BYTES_MAX {
            let text = text();
            self.bytes += KEPT_ENTRY_BYTES + text.len();
            self.texts.insert(position, text);
        }
    }
}

/// The records with one key.
struct KeyedRecord {
    /// The first of them.
    position: u64,
    statement: RecordStatement,
    /// The positions of the others.
    others: Vec<u64>,
    is_conflicting: bool,
}

impl KeyedRecord {
    fn positions(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.position).chain(self.others.iter().copied())
    }
}

impl PayloadTrial<'_> {
    fn read_all(
        &mut self,
        slices: impl Iterator<Item = Result<PayloadSlice, PayloadSliceError>>,
        coverage: &mut DefinitionCoverage<'_>,
    ) -> Result<(), PayloadSliceError> {
        for slice in slices {
            let slice = slice?;
            if self.report.counts.read == self.limits.records {
                self.report.more = true;
                return Ok(());
            }
            self.report.counts.read += 1;
            if let Some(utf8) = &mut self.utf8 {
                utf8.note(&slice.bytes);
            }
            self.read_record(slice, coverage);
        }
        Ok(())
    }

    fn read_record(&mut self, slice: PayloadSlice, coverage: &mut DefinitionCoverage<'_>) {
        let normalized = match &slice.record {
            Ok(raw) => self.normalize(raw, coverage),
            Err(bad) => Err(RecordRejection::new(RecordRule::Readable, None, bad.to_string())),
        };
        let PayloadSlice { position, bytes, .. } = slice;
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        match normalized {
            Ok(record) => self.take(position, record, text),
            Err(rejection) => self.reject(TrialReject { position, rejection, raw: Some(text()), key: None }),
        }
    }

    /// Takes a record that is valid by itself. If others with its key differ, all of them are rejected, as in a run.
    fn take(&mut self, position: u64, record: NormalizerOutput, text: impl Fn() -> String) {
        let key = sha256(&record.identity.record_key(&record.source_record_id));
        let NormalizerOutput { content, json, valid_from, valid_until, .. } = record;
        let statement = RecordStatement { run: 0, valid_from, valid_until, content: Some(sha256(&json)) };
        let counts = &mut self.report.counts;
        let rejected: Vec<u64> = match self.keys.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(KeyedRecord { position, statement, others: Vec::new(), is_conflicting: false });
                if self.report.records.len() < self.limits.shown {
                    self.report.records.push(TrialRecord { position, content });
                }
                Vec::new()
            }
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.others.push(position);
                if known.is_conflicting {
                    vec![position]
                } else if known.statement == statement {
                    counts.collapsed += 1;
                    Vec::new()
                } else {
                    known.is_conflicting = true;
                    counts.collapsed -= known.others.len() as u64 - 1;
                    self.report.records.retain(|record| record.position != known.position);
                    known.positions().collect()
                }
            }
        };
        if rejected.is_empty() {
            if self.limits.shown > 0 {
                self.kept.keep(position, text);
            }
            return;
        }
        for member in rejected {
            let raw = if member == position { Some(text()) } else { self.kept.texts.remove(&member) };
            let rejection = RecordRejection::same_key(1, std::iter::once(member));
            self.reject(TrialReject { position: member, rejection, raw, key: Some(key) });
        }
    }

    /// Counts a rejected record, and lists it if it is one of the first.
    fn reject(&mut self, reject: TrialReject) {
        *self.report.counts.rejected_by_rule.entry(reject.rejection.rule).or_default() += 1;
        let rejects = &mut self.report.rejects;
        let at = rejects.partition_point(|other| other.position < reject.position);
        if at < self.limits.shown {
            rejects.insert(at, reject);
            rejects.truncate(self.limits.shown);
        }
    }

    /// Completes the reasons of records with one key, since all of them are known now.
    fn name_duplicates(&mut self) {
        for reject in &mut self.report.rejects {
            if let Some(known) = reject.key.and_then(|key| self.keys.get(&key)) {
                let members = known.others.len() as u64 + 1;
                reject.rejection = RecordRejection::same_key(members, known.positions());
            }
        }
    }

    fn normalize(
        &mut self,
        raw: &SourceValue,
        coverage: &mut DefinitionCoverage<'_>,
    ) -> Result<NormalizerOutput, RecordRejection> {
        coverage.note_raw_record(raw);
        let record = self.normalizer.normalize(raw)?;
        coverage.note_filled_axes(&record.content);
        for warning in &record.warnings {
            *self.report.counts.warnings_by_rule.entry(warning.rule).or_default() += 1;
        }
        Ok(record)
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut stream = Sha256Stream::default();
    stream.push(bytes);
    stream.finish_bytes()
}

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
#[command(after_help = examples(&["oraclectl try heights.yaml heights.csv", "oraclectl try documents/ heights.csv -n 20 --json"]))]
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
                shorten_line(reject.raw.as_deref().unwrap_or_default(), RAW_CHARS),
            ]
        });
        writeln!(out, "\n{}", format_table(["record", "rule", "place", "reason", "text"], rows.collect()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_texts_have_a_limit_if_they_are_empty() {
        let mut kept = KeptTexts { bytes: KEPT_BYTES_MAX - 2 * KEPT_ENTRY_BYTES, ..KeptTexts::default() };
        (0..5).for_each(|position| kept.keep(position, String::new));
        assert_eq!(kept.texts.len(), 2);
    }
}
