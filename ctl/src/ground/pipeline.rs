//! `oraclectl pipeline`.

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{by_whom, json, pairs, table};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::PipelineDetails;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::RegisteredPipeline;
use std::io::Write;
use std::path::PathBuf;

/// Pipelines: how a source's payloads become records.
#[derive(Debug, clap::Args)]
pub(crate) struct Pipeline {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Registers one, or another definition of it
    Register {
        /// The document; `-` reads standard input
        file: PathBuf,
    },
    /// Shows which there are
    List,
    /// Shows the definition of one
    Show {
        /// Which one
        pipeline_id: PipelineId,
    },
}

impl Pipeline {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Register { file } => {
                let document = Document::read(file, "a pipeline")?;
                let path = path(document.text_at("pipeline.pipeline_id")?);
                let registered: RegisteredDocument<RegisteredPipeline> = document.put(options, &path).await?;
                if options.json {
                    return json(out, &registered);
                }
                let (document, how) = (&registered.document, how(registered.unchanged));
                Ok(writeln!(out, "pipeline {} {how}", document.pipeline_id)?)
            }
            Action::List => {
                let listed = options.on_control(Method::GET, "/v1/pipelines", None).await?.json()?;
                if options.json { json(out, &listed) } else { Ok(writeln!(out, "{}", page(listed))?) }
            }
            Action::Show { pipeline_id } => {
                let path = path(pipeline_id.as_str());
                let shown: PipelineDetails = options.on_control(Method::GET, &path, None).await?.json()?;
                if options.json {
                    return json(out, &shown);
                }
                let registered = &shown.registered;
                let head = [
                    ("pipeline", registered.pipeline_id.to_string()),
                    ("source", registered.oracle_id.to_string()),
                    (
                        "registered",
                        format!("{} by {}", registered.registered_at, by_whom(&registered.registered_by)),
                    ),
                    ("sha256", registered.pipeline_sha256.to_string()),
                ];
                writeln!(out, "{}", pairs(&head))?;
                // the definition is a document, and is best read as one
                json(out, &shown.definition)
            }
        }
    }
}

fn path(pipeline_id: &str) -> String {
    format!("/v1/pipelines/{}", segment(pipeline_id))
}

fn page(pipelines: Vec<RegisteredPipeline>) -> String {
    if pipelines.is_empty() {
        return "no pipelines: `oraclectl pipeline register FILE`".into();
    }
    let row = |pipeline: RegisteredPipeline| {
        let (id, source) = (pipeline.pipeline_id.to_string(), pipeline.oracle_id.to_string());
        [id, source, pipeline.registered_at.to_string(), by_whom(&pipeline.registered_by)]
    };
    table(["pipeline", "source", "registered at", "by"], pipelines.into_iter().map(row).collect())
}
