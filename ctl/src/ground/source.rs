//! `oraclectl source`.

pub mod export;
mod upkeep;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use crate::base::output_stream::Output;
use domain_base::moment::Moment;
use domain_ground::id::SourceId;
use domain_ground::source::{SourceAdapterKind, SourceRegistryEntry, SourceReviewStatus};
use hyper::Method;
use oracled_api::ground::{ReasonRequest, SourceReport, SourceReviewRequest};
use serde::Serialize;
use std::io::Write;

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
    Approve {
        /// The source
        oracle_id: SourceId,
    },
    /// Set the date after which a source no longer answers queries
    Deprecate {
        /// The source
        oracle_id: SourceId,
        /// A day such as 2027-03-01, or a time; at least 90 days from now
        #[arg(long, value_name = "DATE")]
        on: Moment,
    },
    /// Mark all data of a source as stale, until its next version is ingested or the data is confirmed
    Invalidate {
        /// The source
        oracle_id: SourceId,
        /// The reason, for the log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Confirm the data of an invalidated source, so that it no longer counts as stale
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
            SourceAction::Verify { oracle_id } => upkeep::verify(options, out, oracle_id).await,
            SourceAction::Prune { oracle_id, before } => {
                upkeep::prune(options, out, oracle_id, *before).await
            }
            SourceAction::Rebuild { oracle_id } => upkeep::rebuild(options, out, oracle_id).await,
            SourceAction::Export { oracle_id, format: ExportFormat::Ndjson } => {
                export::print_lines(options, out, oracle_id).await
            }
            SourceAction::Export { oracle_id, format: ExportFormat::Parquet } => {
                export::print_parquet(options, oracle_id).await
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
    let body = serde_json::to_vec(body).map_err(std::io::Error::from)?;
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
