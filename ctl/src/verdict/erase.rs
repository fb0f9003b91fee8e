//! `oraclectl erase`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use domain_base::session_id::SessionId;
use domain_base::visible::visible_text;
use oracled_api::verdict::{ErasedSession, ErasureRequest, ErasureResponse};
use std::io::Write;

/// Erase the data of a session, or of all sessions with an address
///
/// It removes the session with its order, verdict, facts and queued messages, and the values of its log entries, from all files of
/// the state directory. The entries stay, with hashes in place of these values, so proofs stay valid. The command waits until that
/// is done; if it is interrupted, the daemon continues. Export the data first: oraclectl export --session ID.
#[derive(Debug, clap::Args)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    subject: ErasureSubject,
    /// Reason; the audit log keeps it, so do not name the person
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ErasureSubject {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: Option<String>,
    /// Address of the customer; upper and lower case count as the same. Removed sessions are included
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
}

impl EraseArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let request = ErasureRequest {
            session_id: self.subject.session.clone(),
            customer_email: self.subject.email.clone(),
            reason: self.reason.clone(),
        };
        let answer = options.run_on_control("/v1/erasures", &request).await;
        let answer = match &self.subject.session {
            Some(session_id) => answer.map_err(|error| error.with_application_hint(session_id)),
            None => answer,
        };
        let erased: ErasureResponse = answer?.json()?;
        if options.json {
            return print_json(out, &erased);
        }
        for text in describe_erased(&erased) {
            writeln!(out, "{}", visible_text(&text))?;
        }
        Ok(())
    }
}

/// The erased data and the remaining data, one text for each session and file.
pub(crate) fn describe_erased(erased: &ErasureResponse) -> Vec<String> {
    let sessions = erased.sessions.iter().map(|ErasedSession { session_id, data }| {
        let data: Vec<_> = data.iter().map(|data| data.as_str().replace('_', " ")).collect();
        let data = if data.is_empty() { "no data were left".to_owned() } else { data.join(", ") };
        format!("session {session_id} is erased: {data}")
    });
    let former: Vec<_> = erased.former_sessions.iter().map(SessionId::as_str).collect();
    let former = (!former.is_empty()).then(|| {
        let former = former.join(", ");
        format!(
            "not erased, they had this address only before a correction; use --session for them: {former}"
        )
    });
    let files = erased.unread_files.iter().map(|file| {
        format!(
            "{file} may still have the data: it is compressed, cannot be read, or has lines that are not entries of the log; \
             delete it, or correct that and repeat the command"
        )
    });
    sessions.chain(former).chain(files).collect()
}
