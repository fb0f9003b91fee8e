//! `oraclectl schema`.

use super::documents::kind_parser;
use crate::base::error::CtlError;
use crate::base::output::print_json;
use oracled_domain::documents::DocumentKind;
use std::io::Write;

/// Print the JSON Schema of a kind of document, for editors
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The kind of document
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
}

impl SchemaArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        print_json(out, &self.kind.json_schema())
    }
}
