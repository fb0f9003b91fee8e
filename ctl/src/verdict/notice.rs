//! `oraclectl notice`.

use super::recall::describe_verdict;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser};
use crate::base::output::{format_pairs, format_table, print_json, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::moment::Moment;
use domain_base::page::{ListPage, PageLimit};
use domain_base::text_form::visible_text;
use domain_verdict::mail_template::MailContent;
use domain_verdict::recall_notice::RecallNoticeAction;
use domain_verdict::wire::{
    DecidedRecallNotice, RecallNoticeReport, RecallNoticeRequest, RecallNoticeSummary,
};
use hyper::Method;
use jiff::Timestamp;
use std::io::Write;

/// The folder of notices on the control socket and the socket for reviewers.
const NOTICES: &str = "/v1/recall-notices";

/// List, show, release or discard drafted notices to customers about recalled verdicts
///
/// With `recall = "notify"` and a mail template that has `recall_notice`, a recall drafts a notice. It is only sent when a person releases
/// it.
#[derive(Debug, clap::Args)]
pub(crate) struct NoticeArgs {
    #[command(subcommand)]
    action: NoticeVerb,
}

#[derive(Debug, clap::Subcommand)]
enum NoticeVerb {
    /// List the drafted notices, by session
    #[command(after_help = examples(&["oraclectl notice list"]))]
    List {
        /// Only notices after that of this session
        #[arg(long, value_name = "SESSION", value_parser = id_parser())]
        after: Option<String>,
        /// Maximum number of notices, up to 1000 [default: 100]
        #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
        limit: Option<usize>,
    },
    /// Show a notice with its mail, and the statements then and now; the audit log names you as its reader
    #[command(after_help = examples(&["oraclectl notice show cs_1", "oraclectl --json notice show cs_1"]))]
    Show {
        /// Session id; shop/cs_1 for a session of the application `shop`
        #[arg(value_parser = id_parser())]
        session_id: String,
    },
    /// Release a notice: it is mailed to the present address of its session
    #[command(after_help = examples(&["oraclectl notice release cs_1 --drafted-at 2026-11-20T10:00:00.123456Z --reason 'the correction is confirmed'"]))]
    Release {
        #[command(flatten)]
        decision: DecisionArgs,
        /// Time of the notice that you have read, from `notice show`: one that has changed since is not sent
        #[arg(long, value_name = "TIME")]
        drafted_at: Moment,
    },
    /// Discard a notice without sending it
    #[command(after_help = examples(&["oraclectl notice discard cs_1 --reason 'the difference does not matter'"]))]
    Discard(DecisionArgs),
}

#[derive(Debug, clap::Args)]
struct DecisionArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// Reason, for the audit log
    #[arg(long)]
    reason: String,
}

impl NoticeArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            NoticeVerb::List { after, limit } => list(options, after.as_deref(), *limit, out).await,
            NoticeVerb::Show { session_id } => {
                let report = read_notice(options, session_id).await?;
                if options.json {
                    return print_json(out, &report);
                }
                Ok(writeln!(out, "{}", describe(&report))?)
            }
            NoticeVerb::Release { decision, drafted_at: Moment(drafted_at) } => {
                decision.send(options, RecallNoticeAction::Release, Some(*drafted_at), out).await
            }
            NoticeVerb::Discard(decision) => {
                decision.send(options, RecallNoticeAction::Discard, None, out).await
            }
        }
    }
}

impl DecisionArgs {
    async fn send(
        &self,
        options: &GlobalOptions,
        action: RecallNoticeAction,
        drafted_at: Option<Timestamp>,
        out: &mut dyn Write,
    ) -> Result<(), CtlError> {
        let decided = decide(options, &self.session_id, action, &self.reason, drafted_at).await?;
        if options.json {
            return print_json(out, &decided);
        }
        let DecidedRecallNotice { session_id, mail_id, .. } = decided;
        let what = mail_id.map_or_else(|| "discarded".to_owned(), |mail_id| format!("queued as {mail_id}"));
        Ok(writeln!(out, "the notice about session {session_id} is {what}")?)
    }
}

fn notice_path(session_id: &str) -> String {
    format!("{NOTICES}/{}", encode_segment(session_id))
}

async fn list(
    options: &GlobalOptions,
    after: Option<&str>,
    limit: Option<usize>,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let limit = limit.unwrap_or(*<PageLimit>::default());
    let after = after.map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let path = format!("{NOTICES}?limit={limit}{after}");
    let page: ListPage<RecallNoticeSummary> =
        options.call_for_reviewer(Method::GET, &path, None).await?.json()?;
    if options.json {
        return print_json(out, &page);
    }
    if let Some(next) = &page.next {
        warn_of_omitted_rows(Some(next));
    }
    if page.items.is_empty() {
        return Ok(writeln!(out, "no notice is drafted")?);
    }
    let row = |RecallNoticeSummary { session_id, drafted_at, result, sources }: &RecallNoticeSummary| {
        let result: &str = result.into();
        let sources: Vec<_> = sources.iter().map(ToString::to_string).collect();
        [session_id.to_string(), drafted_at.to_string(), result.replace('_', " "), sources.join(", ")]
    };
    let rows = page.items.iter().map(row).collect();
    Ok(writeln!(out, "{}", format_table(["session", "drafted at", "result", "sources"], rows))?)
}

/// Reads the notice about a session. The log names its reader.
pub(crate) async fn read_notice(
    options: &GlobalOptions,
    session_id: &str,
) -> Result<RecallNoticeReport, CtlError> {
    let answer = options.call_for_reviewer(Method::GET, &notice_path(session_id), None).await;
    Ok(answer.map_err(|error| error.with_application_hint(session_id))?.json()?)
}

/// The time of the facts of the notice about a session; `None` if it has none. The log does not name the caller that reads it.
pub(crate) async fn find_drafted_at(
    options: &GlobalOptions,
    session_id: &str,
) -> Result<Option<Timestamp>, CtlError> {
    let path = format!("{NOTICES}?session={}", encode_segment(session_id));
    let page: ListPage<RecallNoticeSummary> =
        options.call_for_reviewer(Method::GET, &path, None).await?.json()?;
    Ok(page.items.first().map(|notice| notice.drafted_at))
}

/// Releases or discards the notice about a session.
pub(crate) async fn decide(
    options: &GlobalOptions,
    session_id: &str,
    action: RecallNoticeAction,
    reason: &str,
    drafted_at: Option<Timestamp>,
) -> Result<DecidedRecallNotice, CtlError> {
    let request = RecallNoticeRequest { action, reason: reason.to_owned(), drafted_at };
    let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
    let answer = options.call_for_reviewer(Method::POST, &notice_path(session_id), Some(body.into())).await;
    Ok(answer.map_err(|error| error.with_application_hint(session_id))?.json()?)
}

/// The recalls of a notice, and its mail.
fn describe(report: &RecallNoticeReport) -> String {
    let RecallNoticeReport { notice, mail, fault } = report;
    let mut text = format_pairs(&[
        ("session", notice.session_id.to_string()),
        ("drafted at", notice.drafted_at.to_string()),
    ]);
    for recall in &notice.recalls {
        let verdict = describe_verdict(&recall.verdict);
        text.push_str(&format!("\nsource {}, run {}\n{verdict}\n", recall.oracle_id, recall.run_id));
    }
    if let Some(MailContent { subject, text: body, .. }) = mail {
        text.push_str(&format!("\nsubject: {}\n\n{}", visible_text(subject), visible_text(body.trim_end())));
    }
    if let Some(fault) = fault {
        text.push_str(&format!("\nit cannot be sent: {fault}"));
    }
    text
}
