//! `oraclectl explain --language`.

use crate::audit::log::read_all_lines;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::print_json;
use domain_verdict::explanation::{ExplanationLanguage, explain};
use oracled_api::client::DaemonClient;
use serde_json::json;
use std::io::Write;

/// The language of an explanation.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum LanguageArg {
    En,
    De,
}

/// Explains the decision on the verdict of a session, from the log entries about it.
pub(crate) async fn explain_session(
    session_id: &str,
    language: LanguageArg,
    options: &GlobalOptions,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
    let lines = read_all_lines(&mut daemon, &format!("session={}", encode_segment(session_id)), 0).await?;
    if lines.is_empty() {
        let message = format!(
            "the log has no entry about session {session_id}; the entries may have been removed, or the id is shop/cs_1 for an application"
        );
        return Err(CtlError::Verb { message, exit_code: 1, was_printed: false });
    }
    let language = match language {
        LanguageArg::En => ExplanationLanguage::English,
        LanguageArg::De => ExplanationLanguage::German,
    };
    let sentences = explain(&lines, language);
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
