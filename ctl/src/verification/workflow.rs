//! `oraclectl workflow`.

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{by_whom, json, pairs, table};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::verification::WorkflowDetails;
use oracled_domain::ground::id::WorkflowId;
use oracled_domain::verification::workflow::RegisteredWorkflow;
use std::io::Write;
use std::path::PathBuf;

/// Workflows of verification: whom to ask about what, how conflicts are settled, and how long to wait.
#[derive(Debug, clap::Args)]
pub(crate) struct Workflow {
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
    /// Shows the definition of one, and whether it works over its sources as they are now
    Show {
        /// Which one
        workflow_id: WorkflowId,
    },
}

impl Workflow {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Register { file } => {
                let document = Document::read(file, "a workflow")?;
                let path = path(document.text_at("workflow_id")?);
                let registered: RegisteredDocument<RegisteredWorkflow> = document.put(options, &path).await?;
                if options.json {
                    return json(out, &registered);
                }
                let (document, how) = (&registered.document.workflow, how(registered.unchanged));
                writeln!(out, "workflow {} {how}", document.workflow_id)?;
                let shown: WorkflowDetails = options.on_control(Method::GET, &path, None).await?.json()?;
                shown.fault.map_or(Ok(()), |fault| Ok(writeln!(out, "{fault}")?))
            }
            Action::List => {
                let listed = options.on_control(Method::GET, "/v1/workflows", None).await?.json()?;
                if options.json { json(out, &listed) } else { Ok(writeln!(out, "{}", page(listed))?) }
            }
            Action::Show { workflow_id } => {
                let path = path(workflow_id.as_str());
                let shown: WorkflowDetails = options.on_control(Method::GET, &path, None).await?.json()?;
                if options.json { json(out, &shown) } else { show(out, &shown) }
            }
        }
    }
}

fn path(workflow_id: &str) -> String {
    format!("/v1/workflows/{}", segment(workflow_id))
}

fn show(out: &mut dyn Write, shown: &WorkflowDetails) -> Result<(), CtlError> {
    let registered = &shown.registered;
    let at = format!("{} by {}", registered.registered_at, by_whom(&registered.registered_by));
    let head = [
        ("workflow", registered.workflow.workflow_id.to_string()),
        ("registered", at),
        ("sha256", registered.workflow_sha256.to_string()),
        ("works", shown.fault.as_ref().map_or_else(|| "yes".into(), |fault| format!("no: {fault}"))),
    ];
    writeln!(out, "{}", pairs(&head))?;
    // the definition is a document, and is best read as one
    json(out, &registered.workflow)
}

fn page(workflows: Vec<WorkflowDetails>) -> String {
    if workflows.is_empty() {
        return "no workflows: `oraclectl workflow register FILE`".into();
    }
    let row = |WorkflowDetails { registered, fault }: WorkflowDetails| {
        let by = by_whom(&registered.registered_by);
        let oracles: Vec<_> = registered.workflow.oracles.iter().map(|id| id.as_str()).collect();
        let works = fault.map_or_else(|| "yes".to_owned(), |fault| format!("no: {fault}"));
        let (id, at) = (registered.workflow.workflow_id.to_string(), registered.registered_at.to_string());
        [id, oracles.join(", "), works, at, by]
    };
    table(["workflow", "sources", "works", "registered at", "by"], workflows.into_iter().map(row).collect())
}
