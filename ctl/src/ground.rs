//! Verbs for sources and their facts.

pub mod apply;
mod document_files;
pub mod documents;
pub(crate) mod ingest;
pub(crate) mod new_source;
pub mod parquet;
pub(crate) mod query;
pub(crate) mod rejects;
pub mod source;
pub(crate) mod trial;

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::Output;
use crate::base::program::block_on;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GroundVerb {
    Apply(apply::ApplyArgs),
    New(new_source::NewArgs),
    Try(trial::TryArgs),
    Get(documents::GetArgs),
    Describe(documents::DescribeArgs),
    Schema(documents::SchemaArgs),
    Source(source::SourceArgs),
    Ingest(ingest::IngestArgs),
    Rejects(rejects::RejectsArgs),
    Query(query::QueryArgs),
    Provenance(query::ProvenanceArgs),
}

impl GroundVerb {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        match self {
            Self::Apply(verb) => block_on(verb.run(options, out)),
            Self::New(verb) => verb.run(options.json, out),
            Self::Try(verb) => verb.run(options.json, out),
            Self::Get(verb) => block_on(verb.run(options, out)),
            Self::Describe(verb) => block_on(verb.run(options, out)),
            Self::Schema(verb) => verb.run(out),
            Self::Source(verb) => block_on(verb.run(options, out)),
            Self::Ingest(verb) => block_on(verb.run(options, out)),
            Self::Rejects(verb) => block_on(verb.run(options, out)),
            Self::Query(verb) => block_on(verb.run(options, out)),
            Self::Provenance(verb) => block_on(verb.run(options, out)),
        }
    }
}
