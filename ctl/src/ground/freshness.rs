//! `oraclectl freshness`.

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{json, pairs, table};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::FreshnessReport;
use oracled_domain::base::moment::span;
use oracled_domain::ground::freshness::{AxisFreshness, FreshnessPolicy};
use oracled_domain::ground::id::SourceId;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Shows how fresh a source is by the policy in force, or sets its policy.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Freshness {
    /// Which source
    #[arg(required = true)]
    oracle_id: Option<SourceId>,
    #[command(subcommand)]
    steering: Option<Steering>,
}

#[derive(Debug, clap::Subcommand)]
enum Steering {
    /// Gives a source a policy
    Set {
        /// The document, which names the source; `-` reads standard input
        file: PathBuf,
    },
}

impl Freshness {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        if let Some(Steering::Set { file }) = &self.steering {
            let document = Document::read(file, "a freshness policy")?;
            let path = path(document.text_at("oracle_id")?);
            let registered: RegisteredDocument<FreshnessPolicy> = document.put(options, &path).await?;
            if options.json {
                return json(out, &registered);
            }
            let (policy, how) = (&registered.document, how(registered.unchanged));
            return Ok(writeln!(out, "the freshness policy of source {} {how}", policy.oracle_id)?);
        }
        let path = path(self.oracle_id.as_ref().map_or("", SourceId::as_str));
        let standing: FreshnessReport = options.on_control(Method::GET, &path, None).await?.json()?;
        if options.json { json(out, &standing) } else { show(out, &standing) }
    }
}

fn path(oracle_id: &str) -> String {
    format!("/v1/sources/{}/freshness", segment(oracle_id))
}

fn show(out: &mut dyn Write, standing: &FreshnessReport) -> Result<(), CtlError> {
    let FreshnessReport { policy, is_default, invalidated_at, current_version, released_at, now } = standing;
    let none = || "none".to_owned();
    let released = released_at.map(|at| format!(", released {at}")).unwrap_or_default();
    let shown = [
        ("source", policy.oracle_id.to_string()),
        ("policy", if *is_default { "the one that every source has" } else { "its own" }.into()),
        ("version", current_version.as_ref().map_or_else(none, |version| format!("{version}{released}"))),
        ("invalidated", invalidated_at.map_or_else(|| "no".into(), |at| at.to_string())),
        ("an answer now", word(&now.answer)),
    ];
    out.write_all(pairs(&shown).as_bytes())?;
    let row = |axis: &AxisFreshness| {
        [
            axis.axis.clone(),
            axis.age_seconds.map_or_else(none, span),
            span(axis.max_age_seconds),
            if axis.stale { "stale" } else { "fresh" }.into(),
            word(&axis.stale_behavior),
        ]
    };
    let rows = now.axes.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", table(["axis", "age", "allowed", "now", "when stale"], rows))?)
}

/// The word for it, as it stands in documents.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| Value::to_string(&value), str::to_owned)
}
