//! `oraclectl card`.

use super::submit::show_delivered;
use crate::audit::log::{prove_at, read_all_lines};
use crate::audit::verification::{
    CosigningWitness, EntryNumber, LogKeys, WitnessKeys, check_test_mode, read_signed, refused,
};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, problem_error};
use crate::base::output::{Output, format_pairs, print_json};
use crate::base::program::examples;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::leaf::{EntryLink, hide_values};
use domain_audit::wire::LogBundle;
use domain_base::event::{Event, event_in, read_open};
use domain_base::wording::format_count;
use domain_verdict::card::VerdictCard;
use domain_verdict::event::{OrderReleased, OrderStopped, VerdictCached};
use hyper::{Method, StatusCode};
use oracled_api::client::{DaemonClient, DaemonResponse};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print the card of a delivered verdict: an HTML page that verifies itself in a browser
///
/// The card has the verdict, its decision, its facts with their raw records, its model and prompt, and its entries of the log with
/// their proof. A lost verdict is regenerated. The card of an erased session has its entries without the erased values.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = examples(&["oraclectl card cs_1", "oraclectl card verify verdict.html --key log-key"]))]
pub(crate) struct CardArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(required = true, value_parser = id_parser())]
    session_id: Option<String>,
    /// Add what only operators see: the callers, and who stopped or released the order. Do not hand out this card
    #[arg(long)]
    internal: bool,
    #[command(subcommand)]
    verb: Option<CardVerb>,
}

#[derive(Debug, clap::Subcommand)]
enum CardVerb {
    /// Verify a card without a daemon; any changed byte of the file is detected
    #[command(after_help = examples(&["oraclectl card verify verdict.html --key log-key"]))]
    Verify(VerifyCardArgs),
}

#[derive(Debug, clap::Args)]
struct VerifyCardArgs {
    /// The card; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A public key of the log, or a file with it, from a source that you trust; repeat it if the log got a new key. Without it,
    /// the card is only consistent with the key that it names
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// A public key of a witness that must have cosigned the checkpoint, or a file with it; repeat it for each witness
    #[arg(long = "witness", value_name = "KEY")]
    witnesses: Vec<String>,
    /// Accept a card of a daemon in test mode, too
    #[arg(long)]
    allow_test_mode: bool,
}

/// The verification of a card.
#[derive(Serialize)]
struct CardReport {
    /// The session; null if its id was erased.
    session_id: Option<String>,
    /// Whether it has what only operators see.
    is_internal: bool,
    /// Whether its verdict is one of a daemon in test mode.
    test_mode: bool,
    /// The key of the log.
    log_key: String,
    /// Whether it is a key of `--key`.
    is_expected_key: bool,
    /// The number of entries of the log.
    size: u64,
    /// The witnesses that have cosigned the checkpoint.
    cosigned: Vec<CosigningWitness>,
}

impl CardArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        if let Some(CardVerb::Verify(args)) = &self.verb {
            return args.run(options.json, out);
        }
        // clap requires the id
        let session_id = self.session_id.as_deref().unwrap_or_default();
        let answer = read_card(options, session_id).await?;
        if answer.status != StatusCode::OK {
            // standard output is the file of the card; the error names the order
            return show_delivered(&answer, options, &mut io::sink());
        }
        let mut page = String::from_utf8_lossy(&answer.body).into_owned();
        if self.internal {
            page = add_internal(options, &encode_segment(session_id), &page).await?.render();
        }
        Ok(out.exact().write_all(page.as_bytes())?)
    }
}

fn card_path(session_id: &str) -> String {
    format!("/v1/verdicts/{}?card=1", encode_segment(session_id))
}

/// The card of a delivered verdict; the order if the verdict is not delivered yet. A lost verdict is regenerated.
pub(crate) async fn read_card(options: &GlobalOptions, session_id: &str) -> Result<DaemonResponse, CtlError> {
    options.read_as_operator(&card_path(session_id)).await
}

/// The card of a stored verdict; `None` if the verdict is lost or not delivered. Nothing is regenerated.
pub(crate) async fn read_stored_card(
    options: &GlobalOptions,
    session_id: &str,
) -> Result<Option<DaemonResponse>, CtlError> {
    let socket = options.operator_socket_path()?;
    // a HEAD request does not start a regeneration
    let mut client = DaemonClient::connect(&socket).await?;
    let found = client.call(Method::HEAD, &card_path(session_id), None).await?;
    match found.status {
        StatusCode::OK => {
            let answer = read_card(options, session_id).await?;
            // the verdict may have been purged since the HEAD request
            Ok(Some(answer).filter(|answer| answer.status == StatusCode::OK))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(problem_error(&found)),
    }
}

/// The card with the callers of its entries, and with the entries of operators.
async fn add_internal(
    options: &GlobalOptions,
    session_id: &str,
    page: &str,
) -> Result<VerdictCard, CtlError> {
    let card = VerdictCard::read(page).map_err(|error| refused(error.to_string()))?;
    let bundle = card.bundle();
    let Checkpoint { size, .. } =
        Checkpoint::read_unverified(&bundle.checkpoint).map_err(|error| refused(error.to_string()))?;
    let mut daemon = DaemonClient::connect(&options.control_path()?).await?;
    // one request for all entries, since the log names the reader of each
    let events: BTreeSet<_> = bundle.entries.iter().filter_map(|entry| event_in(&entry.line)).collect();
    let of_order = [OrderStopped::NAME, OrderReleased::NAME];
    let events = events.into_iter().chain(of_order).collect::<Vec<_>>().join(",");
    let lines = read_all_lines(&mut daemon, &format!("session={session_id}&event={events}"), 0).await?;
    let lines = internal_lines(&bundle, lines, size)?;
    Ok(card.with_entries(prove_at(&mut daemon, lines, size).await?))
}

/// The lines of the entries of `bundle`, and of the further ones that its delivery names, from `lines` of its session in a log of `size`
/// entries: who stopped or released the order.
fn internal_lines(bundle: &LogBundle, lines: Vec<String>, size: u64) -> Result<Vec<String>, CtlError> {
    let numbers = bundle.entries.iter().map(|entry| number_of(&entry.line));
    let numbers = numbers.collect::<Result<BTreeSet<_>, _>>()?;
    let delivered = bundle.entries.iter().find(|entry| event_in(&entry.line) == Some(VerdictCached::NAME));
    let named = delivered.map(|entry| links_of(&entry.line)).transpose()?.unwrap_or_default();
    let (mut of_card, mut of_order) = (Vec::new(), Vec::new());
    for line in lines {
        // salts in the order of their members, which some old entries do not have
        let line = hide_values(&line, |_| false).map_err(|error| refused(error.to_string()))?.into_owned();
        let number = number_of(&line)?;
        if numbers.contains(&number) {
            of_card.push(line);
        } else if number <= size && named.iter().any(|link| link.seq == number) {
            of_order.push(line);
        }
    }
    Ok([of_card, of_order].concat())
}

/// The links of an entry.
fn links_of(line: &str) -> Result<Vec<EntryLink>, CtlError> {
    #[derive(Deserialize)]
    struct EntryLinks {
        #[serde(default, deserialize_with = "read_open")]
        links: Option<Vec<EntryLink>>,
    }
    let EntryLinks { links } = serde_json::from_str(line).map_err(|error| refused(error.to_string()))?;
    Ok(links.unwrap_or_default())
}

/// The number of an entry.
fn number_of(line: &str) -> Result<u64, CtlError> {
    serde_json::from_str(line).map(|EntryNumber { seq }| seq).map_err(|error| refused(error.to_string()))
}

impl VerifyCardArgs {
    fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let expected = LogKeys::read(&self.keys)?;
        let is_expected = |key: &str| self.keys.is_empty() || expected.has(key);
        let card = VerdictCard::verify(&read_signed(&self.file)?, is_expected);
        let card = card.map_err(|error| refused(error.to_string()))?;
        check_test_mode(card.is_test, self.allow_test_mode)?;
        let mut cosigned = WitnessKeys::read(&self.witnesses)?.verify(&card.checkpoint)?;
        if self.witnesses.is_empty() {
            cosigned = WitnessKeys::read(&card.witnesses)?.verify(&card.checkpoint)?;
        }
        let report = CardReport {
            session_id: card.session_id,
            is_internal: card.is_internal,
            test_mode: card.is_test,
            log_key: card.key,
            is_expected_key: !self.keys.is_empty(),
            size: card.size,
            cosigned,
        };
        if is_json { print_json(out, &report) } else { report.print(out) }
    }
}

impl CardReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        let session = self.session_id.clone().unwrap_or_else(|| "erased".to_owned());
        let mut rows = vec![("session", session), ("log key", self.log_key.clone())];
        rows.push(("log", format_count(self.size, "entry", "entries")));
        if self.is_internal {
            rows.push(("internal", "it shows callers or operators; do not hand it out".to_owned()));
        }
        if self.test_mode {
            rows.push(("test mode", "the verdict was never delivered to a customer".to_owned()));
        }
        rows.extend(
            self.cosigned
                .iter()
                .map(|witness| ("cosigned", format!("by {} at {}", witness.name, witness.at))),
        );
        let consistent = if self.is_expected_key {
            "all bytes of the card are consistent with the log key"
        } else {
            "all bytes of the card are consistent with this log key; compare it with the one you were given"
        };
        rows.push(("verified", consistent.to_owned()));
        Ok(write!(out, "{}", format_pairs(&rows))?)
    }
}
