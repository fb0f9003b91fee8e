//! `oraclectl apply`.

mod files;

use super::documents::yaml;
use crate::base::error::CtlError;
use crate::base::options::Options;
use crate::base::output::{count, json, on_one_line};
use files::{FileFault, ReadDocument, read_all};
use hyper::Method;
use oracled_api::documents::{
    AppliedDocument, ApplyRequest, ApplyResponse, ChangeKind, DocumentFault, DocumentRequest,
};
use serde::Serialize;
use similar::TextDiff;
use std::io::Write;
use std::path::PathBuf;

/// Unchanged lines shown before and after a change in a diff.
const DIFF_CONTEXT_LINES: usize = 3;

/// Register documents: ontologies, sources, freshness policies, pipelines, adapters and workflows
///
/// Documents are YAML or JSON; `---` separates several in one file. Their order does not matter. If one
/// document is invalid, none is registered. Unchanged documents are not registered again.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// File with documents, or folder with .yaml, .yml and .json files; `-` reads standard input
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Show what would change, and register nothing
    #[arg(long)]
    dry_run: bool,
}

/// The result for programs.
#[derive(Serialize)]
struct Report<'r> {
    dry_run: bool,
    registered: usize,
    documents: Vec<PlacedDocument<'r>>,
    faults: &'r [FileFault],
}

#[derive(Serialize)]
struct PlacedDocument<'r> {
    file: &'r str,
    line: usize,
    #[serde(flatten)]
    applied: &'r AppliedDocument,
}

impl Apply {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let (documents, mut faults) = read_all(&self.files)?;
        let is_readable = faults.is_empty();
        let response = match self.send(options, &documents, !is_readable).await {
            // faults that need no daemon are shown even if the daemon does not answer
            Err(_) if !is_readable => ApplyResponse { registered: 0, items: Vec::new() },
            response => response?,
        };
        let found = documents.iter().zip(&response.items);
        let found: Vec<_> =
            found.filter_map(|(read, applied)| Some((read, applied.fault.as_ref()?))).collect();
        // a document that is reported as missing may be one that has another fault
        let is_unknown = |fault: &DocumentFault| fault.code.ends_with("_unknown");
        let shows_unknown = is_readable && found.iter().all(|(_, fault)| is_unknown(fault));
        let shown = found.into_iter().filter(|(_, fault)| shows_unknown || !is_unknown(fault));
        faults.extend(shown.map(|(read, fault)| FileFault::of(read, &fault.detail)));
        faults.sort();
        if options.json {
            let placed = documents.iter().zip(&response.items);
            let documents = placed
                .map(|(document, applied)| PlacedDocument {
                    file: &document.file,
                    line: document.line,
                    applied,
                })
                .collect();
            let (dry_run, registered) = (self.dry_run, response.registered);
            json(out, &Report { dry_run, registered, documents, faults: &faults })?;
        } else if faults.is_empty() {
            for (document, applied) in documents.iter().zip(&response.items) {
                self.print(out, document, applied)?;
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        for fault in &faults {
            eprintln!("{}", on_one_line(&fault.to_string()));
        }
        let faults = count(faults.len() as u64, "fault", "faults");
        let message = match response.registered {
            0 => format!("{faults}; nothing was registered"),
            number => {
                format!("{faults}; {} registered", count(number as u64, "document was", "documents were"))
            }
        };
        Err(CtlError::Verb { message, exit_code: 5, was_printed: false })
    }

    /// Sends the documents to the daemon, which registers them or only checks them.
    async fn send(
        &self,
        options: &Options,
        documents: &[ReadDocument],
        check_only: bool,
    ) -> Result<ApplyResponse, CtlError> {
        let request = |document: &ReadDocument| {
            let raw = serde_json::value::to_raw_value(&document.document.to_json());
            Ok(DocumentRequest { kind: document.document.kind(), document: raw? })
        };
        let documents = documents.iter().map(request).collect::<Result<_, serde_json::Error>>();
        let request = ApplyRequest {
            dry_run: self.dry_run || check_only,
            documents: documents.map_err(std::io::Error::from)?,
        };
        let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
        Ok(options.on_control(Method::POST, "/v1/documents", Some(body.into())).await?.json()?)
    }

    fn print(
        &self,
        out: &mut dyn Write,
        document: &ReadDocument,
        applied: &AppliedDocument,
    ) -> Result<(), CtlError> {
        let Some(change) = applied.change else { return Ok(()) };
        let how = match (change, self.dry_run) {
            (ChangeKind::Unchanged, _) => "is unchanged",
            (ChangeKind::Created, false) => "is created",
            (ChangeKind::Changed, false) => "is changed",
            (ChangeKind::Created, true) => "would be created",
            (ChangeKind::Changed, true) => "would be changed",
        };
        writeln!(out, "{} {} {how}", applied.kind, document.document.document_id())?;
        let (true, Some(before), Some(after)) = (self.dry_run, &applied.before, &applied.document) else {
            return Ok(());
        };
        let (before, after) = (yaml(applied.kind, before)?, yaml(applied.kind, after)?);
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        let diff = diff
            .unified_diff()
            .context_radius(DIFF_CONTEXT_LINES)
            .header("registered", &on_one_line(&document.file))
            .to_string();
        Ok(out.write_all(diff.as_bytes())?)
    }
}
