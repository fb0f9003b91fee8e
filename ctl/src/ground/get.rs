//! `oraclectl get`.

use super::documents::{WithKind, found, kind_parser, listed, yaml};
use crate::base::error::CtlError;
use crate::base::options::Options;
use crate::base::output::{by_whom, json, short, table};
use oracled_api::documents::DocumentSummary;
use oracled_domain::documents::DocumentKind;
use std::io::Write;

/// Show the registered documents of a kind, or one of them in the form that `apply` reads
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The kind of the documents
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of one document; an ontology has the id NAME@VERSION
    #[arg(value_name = "ID")]
    document_id: Option<String>,
}

impl Get {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let Some(document_id) = &self.document_id else {
            let documents = listed(options, self.kind).await?;
            return if options.json {
                json(out, &documents)
            } else {
                Ok(writeln!(out, "{}", page(self.kind, documents))?)
            };
        };
        let document = found(options, self.kind, document_id).await?.document;
        if options.json {
            return json(out, &WithKind { kind: self.kind, document: &document });
        }
        Ok(out.write_all(yaml(self.kind, &document)?.as_bytes())?)
    }
}

fn page(kind: DocumentKind, documents: Vec<DocumentSummary>) -> String {
    if documents.is_empty() {
        return format!("no {kind} is registered: `oraclectl apply -f FILE`");
    }
    let row = |summary: DocumentSummary| {
        [
            summary.document_id,
            summary.status.unwrap_or_default(),
            short(&summary.sha256),
            summary.registered_at.map(|at| at.to_string()).unwrap_or_default(),
            summary.registered_by.map(|by| by_whom(&by)).unwrap_or_default(),
        ]
    };
    let rows = documents.into_iter().map(row).collect();
    table([kind.into_str(), "status", "sha256", "registered at", "by"], rows)
}
