//! `oraclectl rejects`.

use super::ingest;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, id_parser, limit_parser};
use crate::base::output::{
    Output, format_table, print_csv, print_json, row_limit, shorten_line, warn_of_omitted_rows,
};
use crate::base::program::examples;
use domain_base::page::{ListPage, PageLimit};
use domain_ground::rejection::RecordRule;
use domain_ground::wire::RejectReport;
use hyper::Method;
use serde::Serialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer};
use std::collections::BTreeMap;

/// Maximum length of a raw record in the table, in characters.
const RAW_MAX_CHARS: usize = 80;
/// Columns for programs.
const COLUMNS: [&str; 8] = ["position", "offset", "len", "raw_hash", "rule", "place", "reason", "raw_text"];

/// Show the records that a run rejected, with the reasons
///
/// The column `record` has the number of the record in the payload, from 1. The records of NDJSON are the lines that
/// are not blank, those of CSV and TSV are the rows after the header line, and those of JSON are the items of the list.
/// With --json and --csv, `position` counts from 0.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl rejects 3f2a9c01 --rule check -n 20", "oraclectl rejects 3f2a9c01 --csv"]))]
pub(crate) struct RejectsArgs {
    /// The run's id, or 8 or more of its first digits
    #[arg(value_name = "RUN", value_parser = id_parser())]
    run_id: String,
    /// Only records that this rule rejected
    #[arg(long, value_parser = parse_rule)]
    rule: Option<RecordRule>,
    /// Maximum number of rejects [default: 100, and all with --csv or --json]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(usize::MAX))]
    limit: Option<usize>,
    /// Print CSV, for programs
    #[arg(long)]
    csv: bool,
}

/// The result for programs.
#[derive(Debug, Serialize)]
struct RejectsReport {
    rejected_by_rule: BTreeMap<RecordRule, u64>,
    rejects: Vec<RejectReport>,
    /// Whether there are more rejects than requested.
    more: bool,
}

fn parse_rule(text: &str) -> Result<RecordRule, String> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    RecordRule::deserialize(text).map_err(|error| error.to_string())
}

impl RejectsArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        let run = ingest::read_run(options, &self.run_id).await?.run;
        let (rejects, more) = self.read_rejects(options).await?;
        let shown = RejectsReport { rejected_by_rule: run.counts.rejected_by_rule, rejects, more };
        if more {
            warn_of_omitted_rows(None);
        }
        if options.json {
            return print_json(out, &shown);
        }
        if self.csv {
            return print_csv(out, COLUMNS, shown.rejects.iter().map(row).collect());
        }
        if shown.rejected_by_rule.is_empty() {
            return Ok(writeln!(out, "no rejects")?);
        }
        let by_rule = shown.rejected_by_rule.iter();
        let by_rule = by_rule.map(|(rule, count)| [rule.into_str().to_owned(), count.to_string()]).collect();
        writeln!(out, "{}\n", format_table(["rule", "rejected"], by_rule))?;
        let rows = shown.rejects.iter().map(|report| {
            let [_, _, _, _, rule, place, reason, raw] = row(report);
            let number = (report.reject.position + 1).to_string();
            [number, rule, place, reason, shorten_line(&raw, RAW_MAX_CHARS)]
        });
        let heading = ["record", "rule", "place", "reason", "raw record"];
        Ok(writeln!(out, "{}", format_table(heading, rows.collect()))?)
    }

    /// The requested rejects, and whether there are more.
    async fn read_rejects(&self, options: &GlobalOptions) -> Result<(Vec<RejectReport>, bool), CtlError> {
        let limit = row_limit(self.limit, options.json || self.csv);
        let (mut rejects, mut after) = (Vec::new(), None);
        loop {
            let after_param = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let page_limit = <PageLimit>::MAX;
            let path = format!(
                "{}/rejects?raw=true&limit={page_limit}{after_param}",
                ingest::run_path(&self.run_id)
            );
            let page: ListPage<RejectReport> =
                options.call_control(Method::GET, &path, None).await?.json()?;
            let is_selected =
                |report: &RejectReport| self.rule.is_none_or(|rule| report.reject.rejection.rule == rule);
            rejects.extend(page.items.into_iter().filter(is_selected));
            after = page.next;
            if rejects.len() > limit || after.is_none() {
                let more = rejects.len() > limit;
                rejects.truncate(limit);
                return Ok((rejects, more));
            }
        }
    }
}

fn row(RejectReport { reject, raw_text }: &RejectReport) -> [String; 8] {
    [
        reject.position.to_string(),
        reject.offset.to_string(),
        reject.len.to_string(),
        reject.raw_hash.to_string(),
        reject.rejection.rule.into_str().to_owned(),
        reject.rejection.place.clone().unwrap_or_default(),
        reject.rejection.reason.clone(),
        raw_text.clone().unwrap_or_default(),
    ]
}
