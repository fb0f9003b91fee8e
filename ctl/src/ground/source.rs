//! `oraclectl source`.

use crate::base::error::CtlError;
use crate::base::input;
use crate::base::options::{GlobalOptions, encode_segment, response_lines};
use crate::base::output::{Output, print_json, short_run_id};
use crate::base::program::examples;
use crate::ground::parquet::{check_end, start};
use domain_base::moment::Moment;
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::source::{SourceAdapterKind, SourceRegistryEntry, SourceReviewStatus};
use domain_ground::source_state::{
    PruneOutcome, RebuildOutcome, RunCheckReport, SourceCheckProgress, SourceCheckReport,
};
use domain_ground::wire::{
    PruneRequest, ReasonRequest, SourceReport, SourceReviewRequest, VerifyFilesRequest,
};
use hyper::Method;
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse, ResponseLines};
use oracled_domain::documents::DocumentReport;
use serde::{Deserialize, Serialize};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::pin::pin;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;
use tokio::time::sleep;

/// Approve, deprecate and maintain sources
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    #[command(subcommand)]
    action: SourceAction,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ExportFormat {
    /// One JSON object per line
    Ndjson,
    /// Apache Parquet, with one row for each version of a record
    Parquet,
}

#[derive(Debug, clap::Subcommand)]
enum SourceAction {
    /// Approve a source, so that it answers queries; cancel its deprecation
    #[command(after_help = examples(&["oraclectl source approve wb-population"]))]
    Approve {
        /// The source
        oracle_id: SourceId,
    },
    /// Set the date after which a source no longer answers queries
    #[command(after_help = examples(&["oraclectl source deprecate wb-population --on 2027-03-01"]))]
    Deprecate {
        /// The source
        oracle_id: SourceId,
        /// A day such as 2027-03-01, or a time; at least 90 days from now
        #[arg(long, value_name = "DATE")]
        on: Moment,
    },
    /// Mark all data of a source as stale, until its next version is ingested or the data is confirmed
    #[command(after_help = examples(&["oraclectl source invalidate wb-population --reason 'the publisher has withdrawn 2025'"]))]
    Invalidate {
        /// The source
        oracle_id: SourceId,
        /// The reason, for the log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Confirm the data of an invalidated source, so that it no longer counts as stale
    #[command(after_help = examples(&["oraclectl source confirm wb-population --reason 'the publisher has confirmed 2025'"]))]
    Confirm {
        /// The source
        oracle_id: SourceId,
        /// The reason, for the log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Compare the files, payloads and raw records of a source with their digests
    ///
    /// The exit status is 1 if there is a fault. Ctrl-C stops the check. The daemon checks every source once
    /// a day.
    Verify {
        /// The source
        oracle_id: SourceId,
    },
    /// Remove the values of record versions that are no longer valid, and payloads that become unused; keep
    /// provenance
    #[command(after_help = examples(&["oraclectl source prune wb-population --before 2020-01-01"]))]
    Prune {
        /// The source
        oracle_id: SourceId,
        /// Prune versions whose validity ended before this day or time [default: now minus the retention time of
        /// the pipelines]
        #[arg(long, value_name = "DATE")]
        before: Option<Moment>,
    },
    /// Rebuild damaged or missing files of a source from its archived payloads
    ///
    /// The rebuilt files have the same bytes, so the records stay the same.
    Rebuild {
        /// The source
        oracle_id: SourceId,
    },
    /// Print every version of every record with its provenance, as one JSON object per line or as a Parquet file
    Export {
        /// The source
        oracle_id: SourceId,
        /// The format. Parquet is binary: redirect the output to a file
        #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson)]
        format: ExportFormat,
    },
}

impl SourceArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match &self.action {
            SourceAction::Approve { oracle_id } => {
                let path = source_path(oracle_id, "");
                let before: SourceReport = options.call_control(Method::GET, &path, None).await?.json()?;
                let entry =
                    post(options, &source_path(oracle_id, "/review"), &SourceReviewRequest::Approve {})
                        .await?;
                let is_repeated = before.entry.review_status == SourceReviewStatus::Approved;
                let what = if is_repeated { "is already approved" } else { "is approved" };
                print_entry(options, out, &entry, what)
            }
            SourceAction::Deprecate { oracle_id, on } => {
                let entry =
                    post(options, &source_path(oracle_id, "/review"), &SourceReviewRequest::Deprecate(*on))
                        .await?;
                print_entry(options, out, &entry, &format!("is {}", format_status(&entry)))
            }
            SourceAction::Invalidate { oracle_id, reason } => {
                let reason = ReasonRequest { reason: reason.clone() };
                let entry = post(options, &source_path(oracle_id, "/invalidate"), &reason).await?;
                print_entry(options, out, &entry, "counts as stale until a new version or a confirmation")
            }
            SourceAction::Confirm { oracle_id, reason } => {
                let reason = ReasonRequest { reason: reason.clone() };
                let entry = post(options, &source_path(oracle_id, "/confirm"), &reason).await?;
                print_entry(options, out, &entry, "is confirmed; its age counts from its release again")
            }
            SourceAction::Verify { oracle_id } => verify(options, out, oracle_id).await,
            SourceAction::Prune { oracle_id, before } => prune(options, out, oracle_id, *before).await,
            SourceAction::Rebuild { oracle_id } => rebuild(options, out, oracle_id).await,
            SourceAction::Export { oracle_id, format: ExportFormat::Ndjson } => {
                print_lines(options, out, oracle_id).await
            }
            SourceAction::Export { oracle_id, format: ExportFormat::Parquet } => {
                print_parquet(options, oracle_id).await
            }
        }
    }
}

fn source_path(oracle_id: &SourceId, rest: &str) -> String {
    format!("/v1/sources/{oracle_id}{rest}")
}

async fn post(
    options: &GlobalOptions,
    path: &str,
    body: &impl Serialize,
) -> Result<SourceRegistryEntry, CtlError> {
    let body = serde_json::to_vec(body).map_err(io::Error::from)?;
    Ok(options.call_control(Method::POST, path, Some(body.into())).await?.json()?)
}

fn print_entry(
    options: &GlobalOptions,
    out: &mut dyn Write,
    entry: &SourceRegistryEntry,
    what: &str,
) -> Result<(), CtlError> {
    if options.json {
        print_json(out, entry)
    } else {
        Ok(writeln!(out, "source {} {what}", entry.oracle_id())?)
    }
}

/// Whether a source is queried for each verification and not ingested.
pub(super) fn is_live(entry: &SourceRegistryEntry) -> bool {
    entry.registration.adapter_id == SourceAdapterKind::Http
}

/// The review status of a source, in words.
pub(super) fn format_status(entry: &SourceRegistryEntry) -> String {
    match (entry.review_status, entry.deprecation_date) {
        (SourceReviewStatus::Pending, _) => {
            let how = if is_live(entry) { "not queried" } else { "can be ingested, but does not answer" };
            format!("pending: {how}; `oraclectl source approve {}` approves it", entry.oracle_id())
        }
        (SourceReviewStatus::Deprecated, Some(date)) => format!("deprecated: answers until {date}"),
        (status, _) => status.into_str().to_owned(),
    }
}

/// The first line for the program that writes the Parquet file; the lines of the export follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportHead {
    pub oracle_id: SourceId,
    pub ontology: Ontology,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEnd {
    /// The number of lines before it, without the first one.
    pub records: u64,
}

async fn print_lines(
    options: &GlobalOptions,
    out: &mut dyn Output,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let mut lines = open(options, oracle_id).await?;
    while let Some(line) = lines.next_line().await? {
        out.exact().write_all(&line)?;
    }
    Ok(())
}

async fn open(options: &GlobalOptions, oracle_id: &SourceId) -> Result<ResponseLines, CtlError> {
    let mut client = DaemonClient::connect(&options.control_path()?).await?;
    response_lines(client.open(Method::GET, &source_path(oracle_id, "/export"), None).await?).await
}

/// Sends the lines to the program that writes the file to standard output after the last one.
async fn print_parquet(options: &GlobalOptions, oracle_id: &SourceId) -> Result<(), CtlError> {
    if io::stdout().is_terminal() {
        let message = "Parquet is binary; redirect the output to a file, for example > source.parquet";
        return Err(CtlError::Usage(message.to_owned()));
    }
    let failed = |error: io::Error| CtlError::Verb {
        message: format!("cannot write Parquet: {error}"),
        exit_code: 5,
        was_printed: false,
    };
    let mut writer = start("write", Stdio::piped(), Stdio::inherit()).map_err(failed)?;
    let input = writer.stdin.take().ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?;
    match send_export(options, oracle_id, BufWriter::new(input)).await {
        // the program has ended, and its error is the cause
        Err(CtlError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    check_end(&mut writer).map_err(failed)
}

/// Sends the export. Without its last line, nothing is written.
async fn send_export(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    mut input: BufWriter<ChildStdin>,
) -> Result<(), CtlError> {
    let ontology = read_ontology(options, oracle_id).await?;
    let reference = ontology.reference();
    write_line(&mut input, &ExportHead { oracle_id: oracle_id.clone(), ontology })?;
    let mut lines = open(options, oracle_id).await?;
    let mut records = 0;
    while let Some(line) = lines.next_line().await? {
        input.write_all(&line)?;
        records += 1;
    }
    if read_ontology(options, oracle_id).await?.reference() != reference {
        let message = "the source got another ontology during the export; repeat the command".to_owned();
        return Err(CtlError::Verb { message, exit_code: 4, was_printed: false });
    }
    write_line(&mut input, &ExportEnd { records })?;
    Ok(input.flush()?)
}

fn write_line(input: &mut impl Write, line: &impl Serialize) -> Result<(), CtlError> {
    serde_json::to_writer(&mut *input, line).map_err(io::Error::from)?;
    Ok(input.write_all(b"\n")?)
}

async fn read_ontology(options: &GlobalOptions, oracle_id: &SourceId) -> Result<Ontology, CtlError> {
    let path = source_path(oracle_id, "");
    let source: SourceReport = options.call_control(Method::GET, &path, None).await?.json()?;
    let reference = source.entry.registration.ontology.to_string();
    let path = format!("/v1/documents/ontology/{}", encode_segment(&reference));
    let report: DocumentReport = options.call_control(Method::GET, &path, None).await?.json()?;
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    Ok(serde_json::from_value(report.document).map_err(unreadable)?)
}

/// Interval at which the progress of a check is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// # Errors
/// `RunFailed` if there is a fault; it was printed.
pub(crate) async fn verify(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let order = VerifyFilesRequest::default();
    let verify = source_path(oracle_id, "/verify");
    let verified: SourceCheckReport =
        with_progress(options, oracle_id, options.run_on_control(&verify, &order)).await?.json()?;
    if options.json {
        print_json(out, &verified)?;
    } else {
        show(out, &verified)?;
    }
    let is_whole = verified.file_fault.is_none() && verified.runs.iter().all(|run| run.fault_count == 0);
    if is_whole { Ok(()) } else { Err(CtlError::RunFailed) }
}

/// Shows the progress of the check until `answered` completes. An interrupt ends oraclectl and with it the check.
async fn with_progress(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    answered: impl Future<Output = Result<DaemonResponse, CtlError>>,
) -> Result<DaemonResponse, CtlError> {
    let bar = input::progress_bar(Some(0), "checking");
    let mut answered = pin!(answered);
    loop {
        tokio::select! {
            answer = &mut answered => {
                bar.finish_and_clear();
                return answer;
            }
            () = sleep(LOOK_EVERY), if !bar.is_hidden() => {}
        }
        let seen = options.call_control(Method::GET, &source_path(oracle_id, ""), None).await;
        // the bar is not essential: the check continues if this request fails
        let seen = seen.ok().and_then(|answer| answer.json::<SourceReport>().ok());
        if let Some(SourceCheckProgress { bytes_read, bytes }) = seen.and_then(|seen| seen.checking) {
            bar.set_length(bytes);
            bar.set_position(bytes_read);
        }
    }
}

fn show(out: &mut dyn Write, verified: &SourceCheckReport) -> Result<(), CtlError> {
    match &verified.file_fault {
        None => writeln!(
            out,
            "{} in the files of {} {} intact (a row is a version of a record, a change or a reject)",
            format_count(verified.rows, "row", "rows"),
            verified.oracle_id,
            if verified.rows == 1 { "is" } else { "are" }
        )?,
        Some(fault) => writeln!(out, "a file of {} is damaged: {}", verified.oracle_id, visible_line(fault))?,
    }
    for RunCheckReport {
        run_id, version, records, payload_bytes, has_payload, fault_count, faults, ..
    } in &verified.runs
    {
        // several runs may have the same version
        let version = format!("{}, run {}", visible_line(version), short_run_id(run_id));
        if !has_payload {
            writeln!(out, "{version}: the payload is not archived")?;
            continue;
        }
        let summary = match fault_count {
            0 => "no faults".to_owned(),
            number => format_count(*number, "fault", "faults"),
        };
        let records = format_count(records, "raw record", "raw records");
        writeln!(out, "{version}: {records} in {payload_bytes} bytes, {summary}")?;
        for fault in faults {
            writeln!(out, "  {}", visible_line(fault))?;
        }
    }
    Ok(())
}

pub(crate) async fn prune(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
    before: Option<Moment>,
) -> Result<(), CtlError> {
    let order = PruneRequest { before };
    let pruned: PruneOutcome =
        options.run_on_control(&source_path(oracle_id, "/prune"), &order).await?.json()?;
    if options.json {
        return print_json(out, &pruned);
    }
    let PruneOutcome { before, versions, payloads, freed_bytes } = pruned;
    let versions = format_count(versions, "version", "versions");
    let payloads = format_count(payloads.len() as u64, "payload", "payloads");
    Ok(writeln!(
        out,
        "pruned {versions} that ended before {before}, removed {payloads}, freed {freed_bytes} bytes"
    )?)
}

pub(crate) async fn rebuild(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let order = serde_json::json!({});
    let rebuilt: RebuildOutcome =
        options.run_on_control(&source_path(oracle_id, "/rebuild"), &order).await?.json()?;
    if options.json {
        return print_json(out, &rebuilt);
    }
    let RebuildOutcome { oracle_id, runs, prunings, files } = rebuilt;
    if files.is_empty() {
        return Ok(writeln!(out, "the files of {oracle_id} have no faults; no file was rebuilt")?);
    }
    let (files, runs) =
        (format_count(files.len() as u64, "file", "files"), format_count(runs, "run", "runs"));
    let pruned = match prunings {
        0 => "",
        _ => "; pruned content stays pruned",
    };
    Ok(writeln!(out, "{files} of {oracle_id} rebuilt from the payloads of {runs}{pruned}")?)
}
