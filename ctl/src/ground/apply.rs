//! `oraclectl apply`.

use super::document_files::{FileDocument, FileFault, read_all};
use super::documents::to_yaml;
use crate::base::error::{CtlError, next_command};
use crate::base::input::display_name;
use crate::base::options::{GlobalOptions, read_pages};
use crate::base::output::{print_json, print_note};
use crate::base::program::examples;
use domain_base::document::{AnyDocument, DocumentType};
use domain_base::payload::is_key_name;
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use domain_verification::workflow::CAN_DECIDE;
use hyper::Method;
use oracled_domain::documents::{
    AppliedDocument, ApplyRequest, ApplyResponse, DocumentChangeKind, DocumentFault, DocumentRequest,
    DocumentSummary,
};
use serde::Serialize;
use similar::TextDiff;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Unchanged lines shown before and after a change in a diff.
const DIFF_CONTEXT_LINES: usize = 3;

/// Register documents: ontologies, sources, freshness policies, pipelines, adapters, workflows, review rules, word lists, and prompt and mail templates
///
/// Documents are YAML or JSON; `---` separates several in one file. Their order does not matter. If one
/// document is invalid, none is registered. Unchanged documents are not registered again.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl apply -f sources/ -f workflow.yaml --dry-run", "oraclectl apply -f sources/"]))]
pub(crate) struct ApplyArgs {
    /// File with documents, or folder with .yaml, .yml and .json files; `-` reads standard input
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Show what would change, and register nothing
    #[arg(long)]
    dry_run: bool,
}

/// The result for programs.
#[derive(Serialize)]
struct ApplyReport<'r> {
    dry_run: bool,
    registered: usize,
    documents: Vec<LocatedDocument<'r>>,
    faults: &'r [FileFault],
}

#[derive(Serialize)]
struct LocatedDocument<'r> {
    file: &'r str,
    line: usize,
    #[serde(flatten)]
    applied: &'r AppliedDocument,
}

/// Whether a fault with this code may follow from another fault: a document is unknown, and either a document of its
/// kind has a fault, or some document cannot be read. A document depends only on documents of earlier kinds, so the
/// faults of the earliest kind never follow from another one.
fn is_consequence(code: &str, faulty_kinds: &[&DocumentType], is_readable: bool) -> bool {
    code.strip_suffix("_unknown")
        .is_some_and(|missing| !is_readable || faulty_kinds.iter().any(|kind| kind.name == missing))
}

/// The names of the query parameters in the endpoint of `document` that probably contain a secret.
fn find_secret_params(document: &AnyDocument) -> Vec<&str> {
    let query = document.endpoint().unwrap_or_default().split_once('?').map_or("", |(_, query)| query);
    let params = query.split('&').filter_map(|param| param.split_once('='));
    // a value such as `{area}` is inserted by the daemon
    let is_secret =
        |(name, value): &(&str, &str)| is_key_name(name) && !value.is_empty() && !value.contains('{');
    params.filter(is_secret).map(|(name, _)| name).collect()
}

/// Prints on standard error which documents have a secret in the query of their endpoint.
fn warn_of_secrets(documents: &[FileDocument]) {
    for FileDocument { file, line, document } in documents {
        for name in find_secret_params(document) {
            let warning = format!(
                "warning: {file}:{line}: the parameter `{name}` in `endpoint` looks like a secret, which \
                 `oraclectl get` and the audit log show; if the source accepts it in a header, use `authentication`"
            );
            print_note(&format!("oraclectl: {warning}"));
        }
    }
}

/// Prints on standard error which workflows cannot decide: a document may have changed what they need.
async fn warn_of_workflows(options: &GlobalOptions) -> Result<(), CtlError> {
    let workflows: Vec<DocumentSummary> =
        read_pages(&options.control_path()?, "/v1/documents/workflow?").await?;
    for DocumentSummary { document_id, status, .. } in workflows {
        if let Some(status) = status.filter(|status| status != CAN_DECIDE) {
            print_note(&format!("workflow {document_id}: {status}"));
        }
    }
    Ok(())
}

/// The only document of a file.
pub fn read_document(file: &Path) -> Result<AnyDocument, CtlError> {
    let (documents, faults) = read_all(&[file.to_owned()])?;
    let message = match faults.first() {
        Some(fault) => fault.to_string(),
        None => match <[FileDocument; 1]>::try_from(documents) {
            Ok([FileDocument { document, .. }]) => return Ok(document),
            Err(documents) => {
                format!("{} has {} documents; write one document to it", display_name(file), documents.len())
            }
        },
    };
    Err(CtlError::Verb { message, exit_code: 5, was_printed: false })
}

impl ApplyArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let (documents, mut faults) = read_all(&self.files)?;
        warn_of_secrets(&documents);
        let is_readable = faults.is_empty();
        let response = match self.send(options, &documents, !is_readable).await {
            // faults that need no daemon are shown even if the daemon does not answer
            Err(_) if !is_readable => ApplyResponse { registered: 0, items: Vec::new() },
            response => response?,
        };
        let found = documents.iter().zip(&response.items);
        let found: Vec<_> =
            found.filter_map(|(read, applied)| Some((read, applied.fault.as_ref()?))).collect();
        let faulty_kinds: Vec<_> = found.iter().map(|(read, _)| read.document.document_type()).collect();
        let shown =
            found.iter().filter(|(_, fault)| !is_consequence(&fault.code, &faulty_kinds, is_readable));
        faults.extend(shown.map(|(read, DocumentFault { code, detail })| {
            FileFault::from_document(read, &format!("{detail}{}", next_command(code)))
        }));
        faults.sort();
        if options.json {
            let placed = documents.iter().zip(&response.items);
            let documents = placed
                .map(|(document, applied)| LocatedDocument {
                    file: &document.file,
                    line: document.line,
                    applied,
                })
                .collect();
            let (dry_run, registered) = (self.dry_run, response.registered);
            print_json(out, &ApplyReport { dry_run, registered, documents, faults: &faults })?;
        } else if faults.is_empty() {
            for (document, applied) in documents.iter().zip(&response.items) {
                self.print(out, document, applied)?;
            }
        }
        if faults.is_empty() {
            let is_changed =
                |applied: &AppliedDocument| applied.change != Some(DocumentChangeKind::Unchanged);
            if !self.dry_run && !options.json && response.items.iter().any(is_changed) {
                warn_of_workflows(options).await?;
            }
            return Ok(());
        }
        for fault in &faults {
            print_note(&fault.to_string());
        }
        let faults = format_count(faults.len() as u64, "fault", "faults");
        let message = match response.registered {
            0 => format!("{faults}; nothing was registered"),
            number => {
                format!(
                    "{faults}; {} registered",
                    format_count(number as u64, "document was", "documents were")
                )
            }
        };
        Err(CtlError::Verb { message, exit_code: 5, was_printed: false })
    }

    /// Sends the documents to the daemon, which registers them or only checks them.
    async fn send(
        &self,
        options: &GlobalOptions,
        documents: &[FileDocument],
        check_only: bool,
    ) -> Result<ApplyResponse, CtlError> {
        let request = |document: &FileDocument| {
            let raw = serde_json::value::to_raw_value(&document.document.to_json());
            Ok(DocumentRequest { kind: document.document.document_type().into(), document: raw? })
        };
        let documents = documents.iter().map(request).collect::<Result<_, serde_json::Error>>();
        let request = ApplyRequest {
            dry_run: self.dry_run || check_only,
            documents: documents.map_err(std::io::Error::from)?,
        };
        let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
        Ok(options.call_control(Method::POST, "/v1/documents", Some(body.into())).await?.json()?)
    }

    fn print(
        &self,
        out: &mut dyn Write,
        document: &FileDocument,
        applied: &AppliedDocument,
    ) -> Result<(), CtlError> {
        let Some(change) = applied.change else { return Ok(()) };
        let how = match (change, self.dry_run) {
            (DocumentChangeKind::Unchanged, _) => "is unchanged",
            (DocumentChangeKind::Created, false) => "is created",
            (DocumentChangeKind::Changed, false) => "is changed",
            (DocumentChangeKind::Created, true) => "would be created",
            (DocumentChangeKind::Changed, true) => "would be changed",
        };
        writeln!(out, "{} {} {how}", applied.kind, document.document.document_id())?;
        let (true, Some(before), Some(after)) = (self.dry_run, &applied.before, &applied.document) else {
            return Ok(());
        };
        let (before, after) = (to_yaml(applied.kind, before)?, to_yaml(applied.kind, after)?);
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        let diff = diff
            .unified_diff()
            .context_radius(DIFF_CONTEXT_LINES)
            .header("registered", &visible_line(&document.file))
            .to_string();
        Ok(out.write_all(diff.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::document::Document;
    use domain_ground::pipeline::PipelineDefinition;
    use domain_ground::source::SourceRegistration;

    #[test]
    fn secret_is_found_in_the_query_of_an_endpoint() {
        let pipeline = include_str!("../../../examples/ground-truth/pipelines/iso-3166.json");
        let mut pipeline: serde_json::Value = serde_json::from_str(pipeline).expect("valid JSON");
        let mut secrets = |endpoint: &str| {
            pipeline["pipeline"]["retrieval"]["endpoint"] = endpoint.into();
            let document =
                AnyDocument::from(PipelineDefinition::deserialize(&pipeline).expect("a valid pipeline"));
            find_secret_params(&document).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            secrets("https://a.org/x?area=MDA&api_key=s3cret&Access-Token=t"),
            ["api_key", "Access-Token"]
        );
        for endpoint in
            ["https://a.org/api_key=x", "https://a.org/x?key={area}&token=", "https://a.org/x?keyword=k"]
        {
            assert!(secrets(endpoint).is_empty(), "{endpoint}");
        }
    }

    #[test]
    fn unknown_document_is_a_consequence_only_of_a_fault_that_may_explain_it() {
        let source = [SourceRegistration::TYPE];
        for (code, faulty_kinds, is_readable, expected) in [
            ("source_unknown", &source[..], true, true),
            ("ontology_unknown", &source, true, false),
            ("invalid_document", &source, true, false),
            ("ontology_unknown", &[], false, true),
            ("invalid_document", &[], false, false),
        ] {
            assert_eq!(is_consequence(code, faulty_kinds, is_readable), expected, "{code} {faulty_kinds:?}");
        }
    }
}
