//! `oraclectl submit`.

use super::output::{decision, harmless, pairs};
use super::{CtlError, Options, read_text, segment};
use crate::client::Answer;
use domain::Tier;
use hyper::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Hands a verdict in for delivery.
#[derive(Debug, clap::Args)]
pub struct Submit {
    /// Whose verdict
    session_id: String,
    /// The model's text; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which tier was bought: quick, full or strategy
    #[arg(long)]
    tier: Tier,
    /// What the customer asked
    #[arg(long)]
    query: String,
    /// Where the verdict is mailed to
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
}

impl Submit {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let raw = read_text(&self.file)?;
        let mut body = json!({"tier": self.tier, "query": self.query, "raw": raw});
        if let (Some(email), Some(members)) = (&self.customer_email, body.as_object_mut()) {
            members.insert("customer_email".into(), email.clone().into());
        }
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        let answer = options.on_routes(Method::POST, &path, Some(body.to_string().into())).await;
        if let (false, Err(CtlError::Problem { document, .. })) = (options.json, &answer)
            && let Some(decided) = document.get("decision")
        {
            out.write_all(decision(decided).as_bytes())?;
        }
        show(&answer?, options, out)
    }
}

/// What is answered of a delivery. The verdict stays the text that it is: that is what its digest is of.
#[derive(Deserialize)]
struct Delivered {
    session_id: String,
    tier: String,
    query: String,
    cached_at: String,
    #[serde(default)]
    replayed: bool,
    decision: Value,
    verdict: Box<RawValue>,
}

/// Shows a delivered verdict.
pub(super) fn show(answer: &Answer, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
    if options.json {
        return Ok(writeln!(out, "{}", harmless(&String::from_utf8_lossy(&answer.body)))?);
    }
    let Delivered { session_id, tier, query, cached_at, replayed, decision: decided, verdict } =
        answer.json()?;
    let how = if replayed { "was delivered before; this is that verdict" } else { "is delivered" };
    let head = [
        ("session", format!("{session_id} {how}")),
        ("tier", tier),
        ("query", query),
        ("cached at", cached_at),
    ];
    write!(out, "{}{}", pairs(&head), decision(&decided))?;
    Ok(writeln!(out, "{}", harmless(verdict.get()))?)
}
