//! `oraclectl prompt`.

mod report;
mod trial;

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use crate::ground::documents::{TaggedDocument, find_document, list_documents, to_yaml};
use crate::ground::get::format_documents;
use oracled_domain::documents::DocumentKind;
use std::io::Write;
use trial::PromptTryArgs;

/// List, show or try prompt templates
#[derive(Debug, clap::Args)]
pub(crate) struct PromptArgs {
    #[command(subcommand)]
    action: PromptVerb,
}

#[derive(Debug, clap::Subcommand)]
enum PromptVerb {
    /// List the prompt templates, and show which one is current
    List,
    /// Show a prompt template in the form that `apply` reads
    Show {
        /// The template: ID@VERSION, or ID for its newest version
        #[arg(value_parser = id_parser())]
        template: String,
    },
    Try(PromptTryArgs),
}

impl PromptArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let kind = DocumentKind::PromptTemplate;
        match &self.action {
            PromptVerb::List => {
                let templates = list_documents(options, kind).await?;
                if options.json {
                    return print_json(out, &templates);
                }
                Ok(writeln!(out, "{}", format_documents(kind, templates))?)
            }
            PromptVerb::Show { template } => {
                let document = find_document(options, kind, template).await?.document;
                if options.json {
                    return print_json(out, &TaggedDocument { kind, document: &document });
                }
                Ok(out.write_all(to_yaml(kind, &document)?.as_bytes())?)
            }
            PromptVerb::Try(verb) => verb.run(options, out).await,
        }
    }
}
