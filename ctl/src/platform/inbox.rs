//! `oraclectl inbox`.

use crate::audit::log::parse_duration;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser};
use crate::base::output::{format_table, print_json, shorten_line, warn_of_omitted_rows};
use crate::base::program::examples;
use domain_base::inbox::{InboxItem, InboxResponse, WaitingItem};
use domain_base::moment::format_span;
use domain_base::page::PageLimit;
use hyper::Method;
use jiff::SignedDuration;
use std::io::Write;

/// The maximum length of a title or a cause in the table, in characters.
const SHOWN_CHARS: usize = 60;

/// List everything that waits for a decision, the most important first, then the oldest
///
/// Held orders, drafted notices, dead letters, reviews and held runs; on the socket for reviewers, held orders, notices and reviews.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl inbox", "oraclectl inbox --kind review --source world-bank-population", "oraclectl inbox --older 1d --json"]))]
pub(crate) struct InboxArgs {
    /// Only this kind: held_order, recall_notice, dead_mail, review, held_run, dead_webhook
    #[arg(long, value_name = "KIND", value_parser = id_parser())]
    kind: Option<String>,
    /// Only items that concern this source
    #[arg(long, value_name = "ID", value_parser = id_parser())]
    source: Option<String>,
    /// Only items that have waited for at least this time, such as 90d, 12h, 30m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    older: Option<SignedDuration>,
    /// Only items after this position in the list
    #[arg(long, value_name = "POSITION", value_parser = id_parser())]
    after: Option<String>,
    /// Maximum number of items, up to 1000 [default: 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
    limit: Option<usize>,
}

impl InboxArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let limit = self.limit.unwrap_or(*<PageLimit>::default());
        let mut path = format!("/v1/inbox?limit={limit}");
        for (name, value) in [("kind", &self.kind), ("source", &self.source), ("after", &self.after)] {
            path.extend(value.as_ref().map(|value| format!("&{name}={}", encode_segment(value))));
        }
        path.extend(self.older.map(|least| format!("&min_age_s={}", least.as_secs().max(0))));
        let inbox: InboxResponse = options.call_for_reviewer(Method::GET, &path, None).await?.json()?;
        if options.json {
            return print_json(out, &inbox);
        }
        if let Some(next) = &inbox.next {
            warn_of_omitted_rows(Some(next));
        }
        let counts = inbox.counts.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<_> = counts.map(|(kind, count)| format!("{count} {kind}")).collect();
        if counts.is_empty() {
            return Ok(writeln!(out, "nothing waits for a decision")?);
        }
        writeln!(out, "{}", counts.join(", "))?;
        Ok(writeln!(out, "{}", format_items(&inbox.items))?)
    }
}

fn format_items(items: &[InboxItem]) -> String {
    let row = |InboxItem { item, age_s }: &InboxItem| {
        let WaitingItem { kind, id, title, cause, .. } = item;
        let shown = |text: &str| shorten_line(text, SHOWN_CHARS);
        [kind.clone(), format_span(*age_s), shown(title), shown(cause), id.clone()]
    };
    format_table(["kind", "waits for", "what", "cause", "id"], items.iter().map(row).collect())
}
