//! `oraclectl session`.

use super::orders::format_order;
use super::outbox::format_mails;
use crate::audit::log::format_entry;
use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, print_json};
use domain_base::digest::Sha256Hex;
use hyper::Method;
use jiff::Timestamp;
use oracled_api::verdict::{CorrectSessionRequest, SessionPage, SessionReport};
use std::io::Write;

/// Show, correct or remove a session
///
/// Without a subcommand, show the session with its order, its costs, its queued mails and its log entries
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SessionArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(required = true, value_parser = id_parser())]
    session_id: Option<String>,
    #[command(subcommand)]
    verb: Option<SessionAction>,
}

#[derive(Debug, clap::Subcommand)]
enum SessionAction {
    /// Correct a session; omitted fields and mail that is already queued stay unchanged
    Correct {
        /// Session id; shop/cs_1 for a session of the application `shop`
        #[arg(value_parser = id_parser())]
        session_id: String,
        #[command(flatten)]
        corrections: SessionCorrections,
    },
    /// Remove a session with its order, its cached or held verdict and its queued mail
    Remove {
        /// Session id; shop/cs_1 for a session of the application `shop`
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
    /// User id that owns the session: only its processes can change it, unless applications are configured
    #[arg(long, value_name = "UID")]
    owner_uid: Option<u32>,
}

impl SessionArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = |session_id: &str| format!("/v1/sessions/{}", encode_segment(session_id));
        let (session_id, method, body) = match &self.verb {
            None => {
                // clap requires the id
                let session_id = self.session_id.as_deref().unwrap_or_default();
                let answer = options.call_control(Method::GET, &path(session_id), None).await;
                let page: SessionPage =
                    answer.map_err(|error| error.with_application_hint(session_id))?.json()?;
                return if options.json { print_json(out, &page) } else { print_page(out, &page) };
            }
            Some(SessionAction::Remove { session_id }) => (session_id, Method::DELETE, None),
            Some(SessionAction::Correct { session_id, corrections }) => {
                let request = CorrectSessionRequest {
                    customer_email: corrections.customer_email.clone(),
                    original_verdict: corrections.original_verdict.clone(),
                    owner_uid: corrections.owner_uid,
                };
                let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
                (session_id, Method::PATCH, Some(body.into()))
            }
        };
        let answer = options.call_control(method, &path(session_id), body).await;
        let session: SessionReport =
            answer.map_err(|error| error.with_application_hint(session_id))?.json()?;
        if options.json {
            return print_json(out, &session);
        }
        if matches!(self.verb, Some(SessionAction::Remove { .. })) {
            return Ok(writeln!(out, "session {session_id} is removed")?);
        }
        Ok(out.write_all(format_session(&session).as_bytes())?)
    }
}

fn format_session(session: &SessionReport) -> String {
    let digest =
        |sha256: &Option<Sha256Hex>| sha256.as_ref().map_or_else(|| "none".into(), ToString::to_string);
    format_pairs(&[
        ("session", session.session_id.to_string()),
        ("tier", session.tier.to_string()),
        ("query", session.query.clone()),
        ("owner", session.owner_uid.map_or_else(|| "none".into(), |uid| format!("uid {uid}"))),
        ("mail to", session.customer_email.clone().map_or_else(|| "none".into(), String::from)),
        ("first verdict", session.original_verdict.as_str().into()),
        ("delivered SHA-256", digest(&session.delivered_sha256)),
        ("cached SHA-256", digest(&session.cached_sha256)),
    ])
}

fn print_page(out: &mut dyn Write, page: &SessionPage) -> Result<(), CtlError> {
    write!(out, "{}", format_session(&page.session))?;
    if let Some(order) = &page.order {
        writeln!(out, "\norder")?;
        write!(out, "{}", format_order(Vec::new(), order, page.waiting_for.as_ref()))?;
    }
    if !page.costs.is_empty() {
        let costs: Vec<_> = page.costs.iter().map(ToString::to_string).collect();
        writeln!(out, "\nmodel costs  {}", costs.join(" + "))?;
    }
    if !page.mails.is_empty() {
        writeln!(out, "\n{}", format_mails(&page.mails, Timestamp::now()))?;
    }
    writeln!(out, "\nhistory")?;
    if page.has_older_entries {
        writeln!(out, "(older entries: oraclectl log --session {} --after 0)", page.session.session_id)?;
    }
    for entry in &page.history {
        writeln!(out, "{}", format_entry(entry))?;
    }
    Ok(())
}
