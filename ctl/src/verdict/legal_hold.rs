//! `oraclectl hold`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_table, print_json};
use crate::base::program::examples;
use domain_base::text_form::visible_line;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::wire::{LegalHoldRequest, LegalHolds, ReleasedLegalHold};
use hyper::Method;
use serde_json::Value;
use std::io::{self, Write};

/// Keep a session from erasure, retention, removal and purge, or list the sessions that are kept
///
/// Its data stay, and all log entries from its first one on, until the hold is released. An erasure of a person with a session on
/// hold is refused as a whole. The list shows the time of the last refused erasure.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&[
    "oraclectl hold",
    "oraclectl hold --session cs_1 --reason 'case 2026-17'",
    "oraclectl hold --session cs_1 --release --reason 'case 2026-17 is closed'",
]))]
pub(crate) struct HoldArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(long, value_name = "ID", value_parser = id_parser(), requires = "reason")]
    session: Option<String>,
    /// Reason; the audit log keeps it, so do not name the person
    #[arg(long, value_name = "TEXT", requires = "session")]
    reason: Option<String>,
    /// End the hold
    #[arg(long, requires = "session")]
    release: bool,
}

impl HoldArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let (Some(session_id), Some(reason)) = (&self.session, &self.reason) else {
            return list(options, out).await;
        };
        let path = format!("/v1/legal-holds/{}", encode_segment(session_id));
        let method = if self.release { Method::DELETE } else { Method::PUT };
        let body =
            serde_json::to_vec(&LegalHoldRequest { reason: reason.clone() }).map_err(io::Error::from)?;
        let answer = options.call_control(method, &path, Some(body.into())).await;
        let answer = answer.map_err(|error| error.with_application_hint(session_id))?;
        if options.json {
            return print_json(out, &answer.json::<Value>()?);
        }
        if self.release {
            let ReleasedLegalHold { session_id } = answer.json()?;
            return Ok(writeln!(out, "session {session_id} is no longer on hold")?);
        }
        let LegalHold { session_id, reason: held, placed_at, first_seq, .. } = answer.json()?;
        let ignored = if held == *reason {
            ""
        } else {
            "; it was on hold before, so the new reason is not stored: to change it, release the hold first"
        };
        let held = visible_line(&held);
        Ok(writeln!(
            out,
            "session {session_id} is on hold since {placed_at}: {held}; log entries stay from entry {first_seq} on{ignored}"
        )?)
    }
}

async fn list(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let LegalHolds { holds } = options.call_control(Method::GET, "/v1/legal-holds", None).await?.json()?;
    if options.json {
        return print_json(out, &LegalHolds { holds });
    }
    if holds.is_empty() {
        return Ok(writeln!(out, "no session is on hold")?);
    }
    let rows = holds.into_iter().map(|hold| {
        let LegalHold { session_id, reason, placed_at, peer, first_seq, erasure_refused_at } = hold;
        let by = format!("uid {}", peer.uid);
        let refused = erasure_refused_at.map_or_else(|| "none".to_owned(), |at| at.to_string());
        let reason = visible_line(&reason).into_owned();
        [session_id.to_string(), placed_at.to_string(), by, first_seq.to_string(), refused, reason]
    });
    let columns = ["session", "since", "by", "first entry", "refused erasure", "reason"];
    Ok(writeln!(out, "{}", format_table(columns, rows.collect()))?)
}
