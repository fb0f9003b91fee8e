//! `oraclectl get`.

use super::documents::{TaggedDocument, find_document, kind_parser, list_documents, to_yaml};
use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_requester, format_table, print_json, short_run_id};
use oracled_api::documents::DocumentSummary;
use oracled_domain::documents::DocumentKind;
use std::io::Write;

/// Show the registered documents of a kind, or one of them in the form that `apply` reads
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// The kind of the documents
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of one document; an ontology, a prompt template and a mail template have the id NAME@VERSION
    #[arg(value_name = "ID", value_parser = id_parser())]
    document_id: Option<String>,
}

impl GetArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let Some(document_id) = &self.document_id else {
            let documents = list_documents(options, self.kind).await?;
            return if options.json {
                print_json(out, &documents)
            } else {
                Ok(writeln!(out, "{}", format_documents(self.kind, documents))?)
            };
        };
        let document = find_document(options, self.kind, document_id).await?.document;
        if options.json {
            return print_json(out, &TaggedDocument { kind: self.kind, document: &document });
        }
        Ok(out.write_all(to_yaml(self.kind, &document)?.as_bytes())?)
    }
}

pub(crate) fn format_documents(kind: DocumentKind, documents: Vec<DocumentSummary>) -> String {
    if documents.is_empty() {
        return format!("no {kind} is registered: `oraclectl apply -f FILE`");
    }
    // the documents of some kinds have no status
    let has_status = documents.iter().any(|summary| summary.status.is_some());
    let row = |summary: DocumentSummary| {
        [
            summary.document_id,
            summary.status.unwrap_or_default(),
            short_run_id(&summary.sha256),
            summary.registered_at.map(|at| at.to_string()).unwrap_or_default(),
            summary.registered_by.map(|by| format_requester(&by)).unwrap_or_default(),
        ]
    };
    let rows = documents.into_iter().map(row);
    if has_status {
        return format_table([kind.name, "status", "sha256", "registered at", "by"], rows.collect());
    }
    let rows = rows.map(|[document_id, _, sha256, at, by]| [document_id, sha256, at, by]);
    format_table([kind.name, "sha256", "registered at", "by"], rows.collect())
}
