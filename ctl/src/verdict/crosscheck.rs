//! `oraclectl crosscheck`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_decision, print_json};
use domain_verdict::label::ProductTier;
use hyper::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Check a verdict without delivering it; the check is logged
#[derive(Debug, clap::Args)]
pub(crate) struct CrosscheckArgs {
    /// The model's text; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tier of the verdict: quick, full or strategy
    #[arg(long)]
    tier: ProductTier,
    /// Session id for the log
    #[arg(long, default_value = "oraclectl", value_parser = id_parser())]
    session: String,
    /// Query for the log
    #[arg(long, default_value = "")]
    query: String,
}

impl CrosscheckArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let raw = read_text(&self.file)?;
        let Self { tier, session, query, .. } = self;
        let body = json!({"session_id": session, "tier": tier, "query": query, "raw": raw}).to_string();
        let answer = options.call_routes(Method::POST, "/v1/crosscheck", Some(body.into())).await?;
        let decided: Value = answer.json()?;
        let shown = if options.json {
            print_json(out, &decided)
        } else {
            out.write_all(format_decision(&decided).as_bytes()).map_err(CtlError::from)
        };
        // the exit status is the decision, even if printing fails
        let approved = decided.get("approved").and_then(Value::as_bool).unwrap_or(false);
        if approved { shown } else { Err(CtlError::NotApproved) }
    }
}
