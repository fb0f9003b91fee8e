//! `oraclectl submit`.

use super::output::{decision, json, pairs};
use super::{CtlError, Options, read_text, segment};
use domain::Tier;
use hyper::Method;
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
        show(&answer?.json()?, options, out)
    }
}

/// Shows a delivered verdict.
pub(super) fn show(delivery: &Value, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
    if options.json {
        return json(out, delivery);
    }
    let text = |name: &str| delivery.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let replayed = delivery.get("replayed").and_then(Value::as_bool).unwrap_or(false);
    let how = if replayed { "was delivered before; this is that verdict" } else { "is delivered" };
    let head = [
        ("session", format!("{} {how}", text("session_id"))),
        ("tier", text("tier")),
        ("query", text("query")),
        ("cached at", text("cached_at")),
    ];
    write!(out, "{}", pairs(&head))?;
    if let Some(decided) = delivery.get("decision") {
        write!(out, "{}", decision(decided))?;
    }
    json(out, delivery.get("verdict").unwrap_or(&Value::Null))
}
