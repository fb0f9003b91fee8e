//! Programs that judge and generate verdicts without a daemon.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, id_parser};
use crate::base::output::print_json;
use crate::base::program::{ProgramArgs, examples};
use crate::ground::documents::{TaggedDocument, find_document, format_documents, list_documents, to_yaml};
use clap::builder::RangedU64ValueParser;
use domain_base::document::Document;
use domain_verdict::prompt::PromptTemplate;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

/// Judge a corpus of model outputs without a daemon, with the code of the daemon
///
/// Shows the approval rate by tier, a histogram of the coherence score C, the reasons, the number of times
/// that each flag occurs at each place of a verdict, and the decisions that depend on a single flag. An
/// invalid line stops the calibration.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl calibrate corpus.ndjson"]))]
pub struct CalibrateArgs {
    /// The corpus, one `{"tier", "raw", …}` object per line (other fields are ignored); `-` reads standard input
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
}

impl ProgramArgs for CalibrateArgs {
    const PROGRAM: &'static str = "oraclectl-calibrate";

    fn arguments(&self) -> Vec<&OsStr> {
        vec![self.file.as_os_str()]
    }
}

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
    #[command(after_help = examples(&["oraclectl prompt show oracled-default"]))]
    Show {
        /// The template: ID@VERSION, or ID for its newest version
        #[arg(value_parser = id_parser())]
        template: String,
    },
    #[command(after_help = examples(&["oraclectl prompt try ./house.yaml queries.ndjson", "oraclectl prompt try ./house.yaml queries.ndjson --repeat 10"]))]
    Try(PromptTryArgs),
}

/// Run queries through the model with a prompt template and with the current one, and compare the results
///
/// Each query is sent twice with each template, or as often as `--repeat` says. No verdict is stored or mailed. The model's calls are in the
/// audit log with the path `try`. Orders and regenerations come first. Ctrl-C stops the trial and shows
/// the results so far; calls in flight end in the daemon. The program `oraclectl-tools` must be installed beside oraclectl.
#[derive(Debug, clap::Args)]
pub struct PromptTryArgs {
    /// The template: a registered ID or ID@VERSION, or a YAML or JSON file such as `./house.yaml`
    #[arg(value_name = "TEMPLATE|FILE")]
    pub template: String,
    /// The queries, at most 500: one `{"tier", "query"}` object per line; `-` reads standard input
    #[arg(value_name = "QUERIES.ndjson")]
    pub queries: PathBuf,
    /// How often each query is sent with each template, from 2 to 100
    #[arg(long, value_name = "K", default_value = "2", value_parser = RangedU64ValueParser::<u8>::new().range(2..=100))]
    pub repeat: u8,
}

impl ProgramArgs for PromptTryArgs {
    const PROGRAM: &'static str = "oraclectl-prompt-try";

    fn arguments(&self) -> Vec<&OsStr> {
        vec![self.template.as_ref(), self.queries.as_os_str()]
    }

    fn options(&self) -> Vec<String> {
        vec![format!("--repeat={}", self.repeat)]
    }
}

impl PromptArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let kind = PromptTemplate::TYPE.into();
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
            PromptVerb::Try(verb) => verb.start(options),
        }
    }
}
