//! `oraclectl session`.

use super::orders::format_order;
use super::outbox::format_mails;
use crate::audit::log::{format_entry, read_all_lines};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_pairs, print_json};
use crate::base::program::examples;
use domain_base::digest::Sha256Hex;
use domain_base::text_form::visible_line;
use domain_verdict::label::ProductTier;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::wire::{
    CorrectSessionRequest, PurgeResponse, RegisterSessionResponse, SessionExport, SessionPage, SessionReport,
};
use hyper::{Method, StatusCode};
use jiff::Timestamp;
use oracled_api::client::{ClientError, DaemonClient};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Write;

/// Show, correct or remove a session
///
/// Without a subcommand, show the session with its order, its costs, its queued mails and its log entries
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = examples(&["oraclectl session cs_1", "oraclectl session shop/cs_1"]))]
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
    #[command(after_help = examples(&["oraclectl session correct cs_1 --customer-email a@example.org"]))]
    Correct {
        /// Session id; shop/cs_1 for a session of the application `shop`
        #[arg(value_parser = id_parser())]
        session_id: String,
        #[command(flatten)]
        corrections: SessionCorrections,
    },
    /// Remove a session with its order, its cached or held verdict, its queued mail and a drafted notice
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
    if let Some(LegalHold { reason, placed_at, .. }) = &page.legal_hold {
        writeln!(out, "\non legal hold since {placed_at}: {}", visible_line(reason))?;
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

/// Register a session so that a lost verdict can be regenerated
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl register cs_2 --tier full --query 'Does ice float?' --original-verdict GREEN"]))]
pub(crate) struct RegisterArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// Tier that the customer bought: quick, full or strategy
    #[arg(long)]
    tier: ProductTier,
    /// Query of the customer
    #[arg(long)]
    query: String,
    /// Address of the customer, for mail
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
    /// Verdict that you delivered without oracled: GREEN, AMBER, RED or NULL
    #[arg(long, value_name = "VERDICT")]
    original_verdict: Option<String>,
}

impl RegisterArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let given = [
            ("tier", Some(self.tier.into_str())),
            ("query", Some(self.query.as_str())),
            ("customer_email", self.customer_email.as_deref()),
            ("original_verdict", self.original_verdict.as_deref()),
        ];
        let body: Map<String, Value> =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        let path = format!("/v1/sessions/{}", encode_segment(&self.session_id));
        let body = Value::Object(body).to_string();
        let answer = options.call_routes(Method::PUT, &path, Some(body.into())).await?;
        let known: RegisterSessionResponse = answer.json()?;
        if options.json {
            return print_json(out, &known);
        }
        let how =
            if answer.status == StatusCode::CREATED { "is registered" } else { "is already registered" };
        let shown = [
            ("session", format!("{} {how}", known.session_id)),
            ("tier", known.tier.to_string()),
            ("query", known.query),
            ("mail to", if known.has_email { "the customer's address" } else { "none" }.into()),
            ("first verdict", known.original_verdict.as_str().into()),
        ];
        Ok(out.write_all(format_pairs(&shown).as_bytes())?)
    }
}

/// Print everything that is stored about a session as one JSON document
///
/// It has the session with its address and facts, its verdict, a held verdict, queued mails, and all log entries. The audit
/// log names you as the reader.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl export --session cs_1"]))]
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
        let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
        let lines = read_all_lines(&mut daemon, &format!("session={session_id}"), 0).await?;
        let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
        let entries = lines.iter().map(|line| serde_json::from_str(line));
        let log = entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let stored: Option<SessionExport> = match stored {
            // a removed session still has log entries
            Err(CtlError::Problem { code, .. }) if code == "session_unknown" && !log.is_empty() => None,
            answer => Some(answer?.json()?),
        };
        print_json(out, &ExportDocument { stored, log })
    }
}

/// Remove the cached verdict of a session; the session itself stays
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(value_parser = id_parser())]
    session_id: String,
}

impl PurgeArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        let nothing =
            || format!("no verdict is cached for session {}, so nothing was removed", self.session_id);
        let answer = options.call_control(Method::DELETE, &path, None).await;
        let answer = answer.map_err(|error| error.reword("verdict_not_cached", nothing))?;
        let purged: PurgeResponse = answer.json()?;
        if options.json {
            return print_json(out, &purged);
        }
        let found = match purged.damaged {
            true => "; its text was damaged or lost, and can be generated again",
            false => "",
        };
        Ok(writeln!(out, "the cached verdict of session {} is removed{found}", purged.session_id)?)
    }
}
