//! `oraclectl adapter`.

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{by_whom, json, pairs};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verification::adapter::RegisteredAdapter;
use std::io::Write;
use std::path::PathBuf;

/// Adapters: how live sources are asked, and how their answers are read.
#[derive(Debug, clap::Args)]
pub(crate) struct Adapter {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Gives a live source one, or another one
    Set {
        /// The document, which names the source; `-` reads standard input
        file: PathBuf,
    },
    /// Shows that of a source
    Show {
        /// Which source
        oracle_id: SourceId,
    },
}

impl Adapter {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Set { file } => {
                let document = Document::read(file, "an adapter")?;
                let path = path(document.text_at("oracle_id")?);
                let registered: RegisteredDocument<RegisteredAdapter> = document.put(options, &path).await?;
                if options.json {
                    return json(out, &registered);
                }
                let (adapter, how) = (&registered.document.adapter, how(registered.unchanged));
                Ok(writeln!(out, "the adapter of source {} {how}", adapter.oracle_id)?)
            }
            Action::Show { oracle_id } => {
                let path = path(oracle_id.as_str());
                let shown: RegisteredAdapter = options.on_control(Method::GET, &path, None).await?.json()?;
                if options.json {
                    return json(out, &shown);
                }
                let at = format!("{} by {}", shown.registered_at, by_whom(&shown.registered_by));
                let head = [
                    ("source", shown.adapter.oracle_id.to_string()),
                    ("registered", at),
                    ("sha256", shown.adapter_sha256.to_string()),
                ];
                writeln!(out, "{}", pairs(&head))?;
                // the adapter is a document, and is best read as one
                json(out, &shown.adapter)
            }
        }
    }
}

fn path(oracle_id: &str) -> String {
    format!("/v1/sources/{}/adapter", segment(oracle_id))
}
