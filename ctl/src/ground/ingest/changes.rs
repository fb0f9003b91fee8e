//! `oraclectl ingest changes`.

use super::{read_run, run_path};
use crate::base::arguments::{id_parser, limit_parser};
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_table, print_json, shorten_line, warn_of_omitted_rows};
use domain_ground::timeline::VersionChangeKind;
use hyper::Method;
use oracled_api::base::page::{ListPage, PageLimit};
use oracled_api::ground::RunChangeReport;
use std::io::Write;

/// The text about a run without a file of its changes.
pub(crate) const UNKNOWN_CHANGES: &str =
    "not known: the run has not been read to its end, failed, or an approval of it was interrupted";
/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 60;

/// Show what a run changes, or a held run would change, with the raw records before and after
///
/// A changed record has two lines: `superseded` for the record that was in force, and `became_valid` for the new one.
#[derive(Debug, clap::Args)]
pub(crate) struct IngestChangesArgs {
    /// The run's id, or 8 or more of its first digits
    #[arg(value_name = "RUN", value_parser = id_parser())]
    run_id: String,
    /// Only changes after this number
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Maximum number of changes, 1 to 1000 [default: 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(<PageLimit>::MAX))]
    limit: Option<usize>,
}

impl IngestChangesArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let page = read_changes(options, &self.run_id, self.after, self.limit).await?;
        if options.json {
            return print_json(out, &page);
        }
        if let Some(next) = &page.next {
            warn_of_omitted_rows(Some(next));
        }
        if page.items.is_empty() {
            let run = read_run(options, &self.run_id).await?.run;
            let text = if run.rows.is_some() { "no changes" } else { UNKNOWN_CHANGES };
            return Ok(writeln!(out, "{text}")?);
        }
        let rows = page.items.iter().map(|change| {
            let [before, after] = raw_texts(change).map(|text| shorten_line(text, RAW_MAX_CHARS));
            let id = shorten_line(&change.source_record_id, RAW_MAX_CHARS);
            [change.kind.into_str().to_owned(), id, before, after]
        });
        Ok(writeln!(out, "{}", format_table(["change", "record", "before", "after"], rows.collect()))?)
    }
}

/// The raw records before and after a change: `-` if there is none, `pruned` if its payload was removed.
pub(crate) fn raw_texts(change: &RunChangeReport) -> [&str; 2] {
    let ends = matches!(
        change.kind,
        VersionChangeKind::Withdrawn | VersionChangeKind::Expired | VersionChangeKind::Undone
    );
    let missing = |is_there: bool| if is_there { "pruned" } else { "-" };
    let before = change.before.as_deref().unwrap_or(missing(change.record_id.is_some()));
    [before, change.after.as_deref().unwrap_or(missing(!ends))]
}

/// A page of the changes of a run.
pub(crate) async fn read_changes(
    options: &GlobalOptions,
    run_id: &str,
    after: Option<u64>,
    limit: Option<usize>,
) -> Result<ListPage<RunChangeReport>, CtlError> {
    let after = after.map(|after| format!("after={after}"));
    let params = after.into_iter().chain(limit.map(|limit| format!("limit={limit}")));
    let path = format!("{}/changes?{}", run_path(run_id), params.collect::<Vec<_>>().join("&"));
    Ok(options.call_control(Method::GET, &path, None).await?.json()?)
}
