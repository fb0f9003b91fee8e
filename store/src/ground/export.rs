//! A source's records with their provenance, as lines of JSON.

use super::view::SourceView;
use crate::base::error::StoreError;
use oracled_domain::ground::provenance::ProvenanceRecord;
use oracled_domain::ground::record::Content;
use serde::Serialize;
use std::io::{self, Write};
use std::ops::Bound;

/// What provenance has of when this daemon learnt something, which two daemons learn at different times.
const OF_THIS_DAEMON: [&str; 2] = ["ingested_at", "verified_at"];

/// Why an export has ended too early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A record cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was exported is not taken.
    #[error("the export is not taken: {0}")]
    Write(#[from] io::Error),
}

/// A line of an export.
#[derive(Serialize)]
struct Line {
    provenance: serde_json::Value,
    /// What the version says, of whose canonical JSON `normalized_hash` is the digest; `null` where it was pruned.
    record: Option<Content>,
}

impl SourceView {
    /// Writes every version of every record, one line of JSON each, in the order of the records' keys and of their
    /// `valid_from`: `provenance` with the RFC's fields but for `ingested_at` and `verified_at`, and `record`, the normalized
    /// record. Stores that were fed the same runs in the same order write the same bytes. Hands back the number of lines.
    ///
    /// # Errors
    /// Where a record cannot be read, or `out` does not take it.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, ExportError> {
        let mut lines = 0;
        for record in self.records(&[], Bound::Unbounded)? {
            let record = record?;
            for found in Self::versions(&record, &self.known) {
                let record = self.content(&found.statement)?;
                let line = Line { provenance: without_times(&self.provenance(&found)?), record };
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
        OF_THIS_DAEMON.iter().for_each(|name| drop(members.remove(*name)));
    }
    json
}
