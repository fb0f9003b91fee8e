//! A source's records on both axes of time, with their provenance, as lines of JSON.

use super::statement::StoredStatement;
use super::view::{RecordStatements, SourceView, source_record_id_in};
use domain_base::digest::Sha256Hex;
use domain_ground::record::{RawRecordLocation, RecordVerificationStatus, RowContent};
use domain_ground::run::record_id;
use domain_ground::timeline::{KnownVersion, RecordStatement, ReleaseHistory};
use jiff::Timestamp;
use serde::Serialize;
use std::io::{self, Write};
use std::ops::Bound;
use store_base::error::StoreError;

/// The reason why an export stopped early.
#[derive(Debug, thiserror::Error)]
pub enum SourceExportError {
    /// A record cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
}

#[derive(Serialize)]
struct ExportLine<'l> {
    valid_from: Timestamp,
    valid_until: Option<Timestamp>,
    known_from: Timestamp,
    known_until: Option<Timestamp>,
    provenance: ExportedProvenance<'l>,
    /// The record's content, whose canonical JSON has the digest `normalized_hash`; `null` if it was pruned.
    record: Option<RowContent<'l>>,
}

/// The members of `ProvenanceRecord` without the times at which this daemon processed the record: those are the period
/// of knowledge of the line.
#[derive(Serialize)]
struct ExportedProvenance<'l> {
    record_id: String,
    oracle_id: &'l str,
    source_version: &'l str,
    source_record_id: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_url: Option<&'l str>,
    ingestion_pipeline_id: &'l str,
    ingestion_run_id: &'l str,
    raw_hash: Sha256Hex,
    #[serde(skip_serializing_if = "Option::is_none")]
    normalized_hash: Option<Sha256Hex>,
    transformations_applied: &'l [String],
    valid_from: Timestamp,
    valid_until: Option<Timestamp>,
    superseded_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unconfirmed_by: Option<&'l str>,
    verification_status: RecordVerificationStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_by: Option<&'l str>,
    raw: RawRecordLocation,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pruned: bool,
}

impl SourceView {
    /// Writes every version of every record as lines of JSON, ordered by record key, `valid_from` and `known_from`. A
    /// line has the periods of valid time and of system time in which each question gets the version, `provenance`, with
    /// the RFC's fields except `ingested_at` and `verified_at`, and `record`, the normalized record. A question with
    /// `point_in_time` and `known_at` gets the version whose periods contain both times. Versions that were replaced or
    /// undone have an end in system time. Returns the number of lines.
    ///
    /// # Errors
    /// A record cannot be read, or `out` cannot be written.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, SourceExportError> {
        let releases = self.state.releases();
        let mut history = ReleaseHistory::new(&releases);
        let (mut lines, mut line) = (0, Vec::new());
        for record in self.records(&[], Bound::Unbounded)? {
            let record = record?;
            let times: Vec<RecordStatement> = record.times().copied().collect();
            let source_record_id = source_record_id_in(&record.key).unwrap_or_default();
            for version in history.known_versions(&times) {
                let Some(statement) = record.statement(version.statement) else { continue };
                let exported = self.export_line(&record, &source_record_id, &statement, &version)?;
                line.clear();
                serde_json::to_writer(&mut line, &exported)
                    .map_err(|_| self.corrupt("a record's content cannot be read"))?;
                line.push(b'\n');
                out.write_all(&line)?;
                lines += 1;
            }
        }
        Ok(lines)
    }

    fn export_line<'l>(
        &'l self,
        record: &RecordStatements,
        source_record_id: &'l str,
        statement: &'l StoredStatement,
        version: &KnownVersion,
    ) -> Result<ExportLine<'l>, StoreError> {
        let KnownVersion { valid_from, valid_until, known_from, known_until, .. } = *version;
        let run = statement.time.run;
        let completed =
            self.state.run(run).ok_or_else(|| self.corrupt(&format!("a statement of run {run}")))?;
        let by = version.superseded_by.and_then(|by| record.statements.get(by));
        let unconfirmed_by = version.unconfirmed_by.and_then(|run| self.state.run(run));
        let transformations = self.state.transformations.get(&completed.pipeline_sha256);
        let pipeline_id = completed.pipeline_id.as_str();
        let provenance = ExportedProvenance {
            record_id: record_id(&completed.run_id, statement.position),
            oracle_id: self.state.entry.oracle_id().as_str(),
            source_version: &completed.release.version,
            source_record_id,
            source_url: completed.source_url.as_deref(),
            ingestion_pipeline_id: pipeline_id,
            ingestion_run_id: completed.run_id.as_str(),
            raw_hash: Sha256Hex::from_bytes(&statement.raw_hash),
            normalized_hash: statement.time.content.as_ref().map(Sha256Hex::from_bytes),
            transformations_applied: transformations.map_or(&[], Vec::as_slice),
            valid_from,
            valid_until,
            superseded_by: by.and_then(|by| self.record_id(by.time.run, by.position)),
            unconfirmed_by: unconfirmed_by.map(|run| run.release.version.as_str()),
            verification_status: statement.verification_status(),
            verified_by: statement.verified.then_some(pipeline_id),
            raw: RawRecordLocation {
                raw_sha256: completed.raw_sha256.clone(),
                position: statement.position,
                offset: statement.offset,
                len: statement.len,
            },
            pruned: statement.is_pruned(),
        };
        let record = self.row(statement)?.map(|row| RowContent { row, ontology: &self.ontology });
        Ok(ExportLine { valid_from, valid_until, known_from, known_until, provenance, record })
    }
}
