//! `oraclectl session`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, print_json};
use hyper::Method;
use oracled_api::verdict::{CorrectSessionRequest, SessionReport};
use oracled_domain::Sha256Hex;
use std::io::Write;

/// Show, correct or remove a session
#[derive(Debug, clap::Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    verb: SessionAction,
}

#[derive(Debug, clap::Subcommand)]
enum SessionAction {
    /// Show a session with its address
    Show {
        /// Session id
        #[arg(value_parser = id_parser())]
        session_id: String,
    },
    /// Correct a session; omitted fields and mail that is already queued stay unchanged
    Correct {
        /// Session id
        #[arg(value_parser = id_parser())]
        session_id: String,
        #[command(flatten)]
        corrections: SessionCorrections,
    },
    /// Remove a session with its cached verdict and its queued mail
    Remove {
        /// Session id
        #[arg(value_parser = id_parser())]
        session_id: String,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct SessionCorrections {
    /// Address of the customer
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
    /// Verdict that you delivered without oracled: GREEN, AMBER, RED or NULL
    #[arg(long, value_name = "VERDICT")]
    original_verdict: Option<String>,
}

impl SessionArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let (session_id, method, body) = match &self.verb {
            SessionAction::Show { session_id } => (session_id, Method::GET, None),
            SessionAction::Remove { session_id } => (session_id, Method::DELETE, None),
            SessionAction::Correct { session_id, corrections } => {
                let request = CorrectSessionRequest {
                    customer_email: corrections.customer_email.clone(),
                    original_verdict: corrections.original_verdict.clone(),
                };
                let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
                (session_id, Method::PATCH, Some(body.into()))
            }
        };
        let path = format!("/v1/sessions/{}", encode_segment(session_id));
        let session: SessionReport = options.call_control(method, &path, body).await?.json()?;
        if options.json {
            return print_json(out, &session);
        }
        if matches!(self.verb, SessionAction::Remove { .. }) {
            return Ok(writeln!(out, "session {session_id} is removed")?);
        }
        let digest =
            |sha256: Option<Sha256Hex>| sha256.map_or_else(|| "none".into(), |hash| hash.to_string());
        let shown = [
            ("session", session.session_id.to_string()),
            ("tier", session.tier.to_string()),
            ("query", session.query),
            ("mail to", session.customer_email.map_or_else(|| "none".into(), String::from)),
            ("first verdict", session.original_verdict.as_str().into()),
            ("delivered SHA-256", digest(session.delivered_sha256)),
            ("cached SHA-256", digest(session.cached_sha256)),
        ];
        Ok(out.write_all(format_pairs(&shown).as_bytes())?)
    }
}
