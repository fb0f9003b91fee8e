//! `oraclectl outbox`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, limit_parser};
use crate::base::output::{format_table, print_json, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::page::{ListPage, PageLimit};
use domain_base::upstream_text::UpstreamText;
use domain_verdict::mail::{MailId, MailState};
use domain_verdict::wire::{MailAction, MailActionRequest};
use hyper::Method;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;

/// Show queued mails and dead letters, or requeue or drop one
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = examples(&["oraclectl outbox --dead", "oraclectl outbox requeue --all-dead"]))]
pub(crate) struct OutboxArgs {
    /// Only dead letters
    #[arg(long)]
    dead: bool,
    /// Only mails after the mail with this id
    #[arg(long, value_name = "ID")]
    after: Option<MailId>,
    /// Maximum number of mails, up to 1000 [default: 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
    limit: Option<usize>,
    #[command(subcommand)]
    steering: Option<OutboxAction>,
}

#[derive(Debug, clap::Subcommand)]
enum OutboxAction {
    /// Retry a mail as if it had just been queued, to the present address of its session
    #[command(after_help = examples(&["oraclectl outbox requeue verdict:cs_1", "oraclectl outbox requeue --all-dead"]))]
    Requeue {
        /// Id of the mail
        #[arg(required_unless_present = "all_dead", conflicts_with = "all_dead")]
        mail_id: Option<MailId>,
        /// All dead letters
        #[arg(long)]
        all_dead: bool,
    },
    /// Remove a mail without sending it
    Drop {
        /// Id of the mail
        mail_id: MailId,
    },
}

impl OutboxArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.steering {
            None => self.list(options, out).await,
            Some(OutboxAction::Requeue { mail_id: Some(mail_id), .. }) => {
                let mail = requeue(options, MAILS, mail_id.as_str()).await?;
                print_mail(options, out, &mail, "is queued again")
            }
            Some(OutboxAction::Requeue { mail_id: None, .. }) => {
                requeue_all_dead(options, out, MAILS, |mail: &MailState| mail.mail_id.as_str()).await
            }
            Some(OutboxAction::Drop { mail_id }) => {
                let path = message_path(MAILS, mail_id.as_str());
                let dropped = options.call_control(Method::DELETE, &path, None).await?.json()?;
                print_mail(options, out, &dropped, "is removed unsent")
            }
        }
    }

    async fn list(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let page =
            read_page(options, MAILS, self.after.as_ref().map(MailId::as_str), self.limit, self.dead).await?;
        if options.json {
            return print_json(out, &page);
        }
        if let Some(next) = &page.next {
            warn_of_omitted_rows(Some(next));
        }
        Ok(writeln!(out, "{}", format_mails(&page.items, Timestamp::now()))?)
    }
}

/// The folder of mails on the control socket.
const MAILS: &str = "/v1/outbox";

/// A page of the messages in `folder`.
pub(super) async fn read_page<T: DeserializeOwned>(
    options: &GlobalOptions,
    folder: &str,
    after: Option<&str>,
    limit: Option<usize>,
    dead: bool,
) -> Result<ListPage<T>, CtlError> {
    let after = after.map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let limit = limit.map(|limit| format!("&limit={limit}")).unwrap_or_default();
    let path = format!("{folder}?dead={dead}{after}{limit}");
    Ok(options.call_control(Method::GET, &path, None).await?.json()?)
}

pub(super) fn message_path(folder: &str, id: &str) -> String {
    format!("{folder}/{}", encode_segment(id))
}

pub(super) async fn requeue<T: DeserializeOwned>(
    options: &GlobalOptions,
    folder: &str,
    id: &str,
) -> Result<T, CtlError> {
    let body = serde_json::to_vec(&MailActionRequest { action: MailAction::Requeue })
        .map_err(std::io::Error::from)?;
    Ok(options.call_control(Method::POST, &message_path(folder, id), Some(body.into())).await?.json()?)
}

/// Requeues the dead messages in `folder`.
pub(super) async fn requeue_all_dead<T: DeserializeOwned + Serialize>(
    options: &GlobalOptions,
    out: &mut dyn Write,
    folder: &str,
    id: fn(&T) -> &str,
) -> Result<(), CtlError> {
    let (mut requeued, mut after) = (Vec::<T>::new(), None);
    loop {
        let page = read_page(options, folder, after.as_deref(), Some(<PageLimit>::MAX), true).await?;
        for message in &page.items {
            match requeue(options, folder, id(message)).await {
                Ok(queued) => requeued.push(queued),
                // another operator or the notifier was faster
                Err(CtlError::Problem { status: 404 | 409, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if options.json {
        return print_json(out, &requeued);
    }
    Ok(writeln!(out, "{} dead letters are queued again", requeued.len())?)
}

fn print_mail(
    options: &GlobalOptions,
    out: &mut dyn Write,
    mail: &MailState,
    what: &str,
) -> Result<(), CtlError> {
    if options.json { print_json(out, mail) } else { Ok(writeln!(out, "mail {} {what}", mail.mail_id)?) }
}

pub(super) fn format_mails(mails: &[MailState], now: Timestamp) -> String {
    if mails.is_empty() {
        return "no mails".into();
    }
    // a mail that is due but not sent waits for the mail service, or lacks one
    let next = |at: Timestamp| if at <= now { "due: see `doctor`".to_owned() } else { at.to_string() };
    let rows = mails.iter().map(|mail| {
        [
            mail.mail_id.to_string(),
            mail.kind.into_str().to_owned(),
            mail.to.clone().into(),
            format!("{} s", now.duration_since(mail.tries.queued_at).as_secs().max(0)),
            mail.tries.attempts.to_string(),
            mail.tries.next_attempt_at.map_or_else(|| "dead".into(), next),
            mail.tries.last_error.as_ref().map_or("none", UpstreamText::reveal).to_owned(),
        ]
    });
    format_table(["id", "kind", "to", "age", "attempts", "next attempt", "last error"], rows.collect())
}
