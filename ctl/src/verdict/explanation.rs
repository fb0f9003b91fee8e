//! `oraclectl explain`.

use crate::audit::log::read_all_lines;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::print_json;
use crate::base::program::examples;
use crate::verification::explain::explain_decision;
use domain_verdict::explanation::{ExplanationLanguage, explain};
use domain_verification::problem::EXECUTION_UNKNOWN;
use oracled_api::client::DaemonClient;
use serde_json::json;
use std::io::Write;

/// Show a logged decision with its inputs, and reproduce it; or explain the decision on a verdict in plain words
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl explain v-0660d63c8093cc-02f36bb2b4", "oraclectl explain cs_1", "oraclectl explain cs_1 --language de"]))]
pub(crate) struct ExplainArgs {
    /// The execution id in the decision's envelope, or a session id
    #[arg(value_parser = id_parser())]
    id: String,
    /// Explain the decision on the verdict of a session to the person concerned, in this language; without it, in English
    #[arg(long)]
    language: Option<LanguageArg>,
}

/// The language of an explanation.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LanguageArg {
    En,
    De,
}

impl ExplainArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let Some(language) = self.language else {
            return match explain_decision(&self.id, options, out).await {
                Err(unknown) if is_unknown_execution(&unknown) => {
                    let lines = read_session(&self.id, options).await?;
                    if lines.is_empty() {
                        return Err(unknown);
                    }
                    show_explanation(&self.id, &lines, LanguageArg::En, options, out)
                }
                explained => explained,
            };
        };
        let lines = read_session(&self.id, options).await?;
        if lines.is_empty() {
            let message = format!(
                "the log has no entry about session {}; the entries may have been removed, or the id is shop/cs_1 for an application",
                self.id
            );
            return Err(CtlError::Verb { message, exit_code: 1, was_printed: false });
        }
        show_explanation(&self.id, &lines, language, options, out)
    }
}

fn is_unknown_execution(error: &CtlError) -> bool {
    matches!(error, CtlError::Problem { code, .. } if code == EXECUTION_UNKNOWN.name)
}

/// The log entries about a session.
async fn read_session(session_id: &str, options: &GlobalOptions) -> Result<Vec<String>, CtlError> {
    let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
    read_all_lines(&mut daemon, &format!("session={}", encode_segment(session_id)), 0).await
}

/// Explains the decision on the verdict of a session, from the log entries about it.
fn show_explanation(
    session_id: &str,
    lines: &[String],
    language: LanguageArg,
    options: &GlobalOptions,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let language = match language {
        LanguageArg::En => ExplanationLanguage::English,
        LanguageArg::De => ExplanationLanguage::German,
    };
    let sentences = explain(lines, language);
    if options.json {
        return print_json(
            out,
            &json!({ "session_id": session_id, "entries": lines.len(), "sentences": sentences }),
        );
    }
    for sentence in sentences {
        writeln!(out, "{sentence}")?;
    }
    Ok(())
}
