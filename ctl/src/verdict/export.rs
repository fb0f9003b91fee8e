//! `oraclectl export`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, response_lines};
use crate::base::output::print_json;
use hyper::Method;
use oracled_api::audit::LogLimit;
use oracled_api::base::client::{ClientError, DaemonClient};
use oracled_api::verdict::SessionExport;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// Print everything that is stored about a session as one JSON document
///
/// It has the session with its address and facts, its verdict, a held verdict, queued mails, and all log entries. The audit
/// log names you as the reader.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    session: String,
}

/// The stored data of a session, and its log entries.
#[derive(Serialize)]
struct ExportDocument {
    #[serde(flatten)]
    stored: Option<SessionExport>,
    log: Vec<Value>,
}

impl ExportArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let session_id = encode_segment(&self.session);
        let path = format!("/v1/sessions/{session_id}/export");
        let stored = options.call_control(Method::GET, &path, None).await;
        let log = read_log(options, &session_id).await?;
        let stored: Option<SessionExport> = match stored {
            // a removed session still has log entries
            Err(CtlError::Problem { code, .. }) if code == "session_unknown" && !log.is_empty() => None,
            answer => Some(answer?.json()?),
        };
        print_json(out, &ExportDocument { stored, log })
    }
}

/// All log entries of a session.
async fn read_log(options: &GlobalOptions, session_id: &str) -> Result<Vec<Value>, CtlError> {
    let mut entries: Vec<Value> = Vec::new();
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    loop {
        let after = entries.last().and_then(|entry| entry.get("seq")?.as_u64()).unwrap_or_default();
        let path = format!("/v1/log?session={session_id}&after={after}&limit={}", LogLimit::MAX);
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let mut lines = response_lines(client.open(Method::GET, &path, None).await?).await?;
        let before = entries.len();
        while let Some(line) = lines.next_line().await? {
            entries.push(serde_json::from_slice(&line).map_err(unreadable)?);
        }
        if entries.len() == before {
            return Ok(entries);
        }
    }
}
