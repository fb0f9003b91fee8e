//! `oraclectl describe`.

mod freshness_policy;
mod ontology;
mod source;

use super::documents::{find_document, kind_parser, to_yaml};
use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, format_requester, print_json};
use hyper::Method;
use oracled_domain::documents::DocumentKind;
use std::io::Write;

/// Show a registered document with its state
#[derive(Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    /// The kind of the document
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of the document; an ontology, a prompt template and a mail template have the id NAME@VERSION
    #[arg(value_name = "ID", value_parser = id_parser())]
    document_id: String,
}

impl DescribeArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let of_source = |rest: &str| format!("/v1/sources/{}{rest}", encode_segment(&self.document_id));
        match self.kind {
            DocumentKind::Source => {
                let source = options.call_control(Method::GET, &of_source(""), None).await?.json()?;
                if options.json { print_json(out, &source) } else { source::show(out, &source) }
            }
            DocumentKind::FreshnessPolicy => {
                let report =
                    options.call_control(Method::GET, &of_source("/freshness"), None).await?.json()?;
                if options.json { print_json(out, &report) } else { freshness_policy::show(out, &report) }
            }
            kind => {
                let report = find_document(options, kind, &self.document_id).await?;
                if options.json {
                    return print_json(out, &report);
                }
                let summary = report.summary;
                let registered = summary.registered_at.zip(summary.registered_by);
                let registered = registered.map(|(at, by)| format!("{at} by {}", format_requester(&by)));
                let mut head = vec![(kind.into_str(), summary.document_id)];
                head.extend(registered.map(|registered| ("registered", registered)));
                head.push(("sha256", summary.sha256.to_string()));
                head.extend(summary.status.map(|status| ("status", status)));
                writeln!(out, "{}", format_pairs(&head))?;
                match (kind, serde_json::from_value(report.document.clone())) {
                    (DocumentKind::Ontology, Ok(ontology)) => ontology::show(out, &ontology),
                    _ => Ok(out.write_all(to_yaml(kind, &report.document)?.as_bytes())?),
                }
            }
        }
    }
}
