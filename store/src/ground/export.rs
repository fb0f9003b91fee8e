//! A source's records with their provenance, as lines of JSON.

use super::view::SourceView;
use crate::base::error::StoreError;
use oracled_domain::ground::provenance::ProvenanceRecord;
use oracled_domain::ground::record::RecordContent;
use serde::Serialize;
use std::io::{self, Write};
use std::ops::Bound;

/// The fields of provenance that depend on when this daemon processed the data. They differ between daemons.
const DAEMON_SPECIFIC_FIELDS: [&str; 2] = ["ingested_at", "verified_at"];

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
struct ExportLine {
    provenance: serde_json::Value,
    /// The record's content, whose canonical JSON has the digest `normalized_hash`; `null` if it was pruned.
    record: Option<RecordContent>,
}

impl SourceView {
    /// Writes every version of every record as one line of JSON, ordered by record key and `valid_from`. A line has
    /// `provenance`, with the RFC's fields except `ingested_at` and `verified_at`, and `record`, the normalized record.
    /// Stores that ingested the same runs in the same order write the same bytes. Returns the number of lines.
    ///
    /// # Errors
    /// A record cannot be read, or `out` cannot be written.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, SourceExportError> {
        let mut lines = 0;
        for record in self.records(&[], Bound::Unbounded)? {
            let record = record?;
            for found in Self::versions(&record, &self.known) {
                let record = self.content(&found.statement)?;
                let line = ExportLine { provenance: without_times(&self.provenance(&found)?), record };
                serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
                lines += 1;
            }
        }
        Ok(lines)
    }
}

fn without_times(provenance: &ProvenanceRecord) -> serde_json::Value {
    let mut json = serde_json::to_value(provenance).expect("provenance is plain data");
    if let Some(members) = json.as_object_mut() {
        DAEMON_SPECIFIC_FIELDS.iter().for_each(|name| drop(members.remove(*name)));
    }
    json
}
