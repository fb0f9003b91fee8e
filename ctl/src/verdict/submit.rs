//! `oraclectl submit`.

use crate::base::error::CtlError;
use crate::base::input::{facts, facts_from, read_text, regular_file};
use crate::base::options::{Options, segment};
use crate::base::output::{decision, harmless, on_one_line, pairs};
use crate::rules::show_of_verdict;
use hyper::Method;
use oracled_api::base::client::Answer;
use oracled_domain::Tier;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Hands a verdict in for delivery; without FILE the model is asked for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Submit {
    /// Whose verdict
    session_id: String,
    /// The model's text; `-` reads standard input. Without it the daemon asks the model
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Which tier was bought: quick, full or strategy
    #[arg(long)]
    tier: Tier,
    /// What the customer asked
    #[arg(long)]
    query: String,
    /// Where the verdict is mailed to
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
    /// Lets the verdict through only if the rules do: the facts to check it against, one a line
    #[arg(long, value_name = "FILE", value_parser = regular_file())]
    facts: Option<PathBuf>,
    /// The same with facts that sources give: a list of {"query": …} and {"verify": …}, as in a request
    #[arg(long, value_name = "FILE.json", value_parser = regular_file())]
    facts_from: Option<PathBuf>,
}

impl Submit {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let raw = self.file.as_deref().map(read_text).transpose()?;
        let mut body = json!({"tier": self.tier, "query": self.query});
        let facts = self.facts.as_deref().map(facts).transpose()?;
        let more = [
            ("raw", raw.map(Value::from)),
            ("customer_email", self.customer_email.clone().map(Value::from)),
            ("facts", facts.map(Value::from)),
            ("facts_from", self.facts_from.as_deref().map(facts_from).transpose()?),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, body.as_object_mut()) {
                members.insert(name.into(), value);
            }
        }
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        let answer = options.on_routes(Method::POST, &path, Some(body.to_string().into())).await;
        if let (false, Err(CtlError::Problem { document, .. })) = (options.json, &answer) {
            // whether or not that can be told, a refusal is one
            drop(show_grounds(document, out));
        }
        show(&answer?, options, out)
    }
}

/// On what grounds the verdict is refused, where the gate refuses it.
fn show_grounds(document: &Value, out: &mut dyn Write) -> Result<(), CtlError> {
    if let Some(decided) = document.get("decision") {
        out.write_all(decision(decided).as_bytes())?;
    }
    document.get("evaluation").map_or(Ok(()), |evaluation| show_of_verdict(out, evaluation))
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
    regen: bool,
    original_verdict: Option<String>,
    divergence_level: Option<String>,
    disclaimer: Option<String>,
    notice: Option<String>,
    decision: Value,
    verdict: Box<RawValue>,
}

/// Shows a delivered verdict.
pub(crate) fn show(answer: &Answer, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
    if options.json {
        return Ok(writeln!(out, "{}", harmless(&String::from_utf8_lossy(&answer.body)))?);
    }
    let delivered: Delivered = answer.json()?;
    let how = match (delivered.replayed, delivered.regen) {
        (true, _) => "was delivered before; this is that verdict",
        (false, true) => "was delivered before and lost; this verdict was made again",
        (false, false) => "is delivered",
    };
    let mut head = vec![
        ("session", format!("{} {how}", delivered.session_id)),
        ("tier", delivered.tier),
        ("query", delivered.query),
        ("cached at", delivered.cached_at),
    ];
    if let Some(original) = delivered.original_verdict {
        let level = delivered.divergence_level.unwrap_or_else(|| "not compared".into());
        head.push(("first verdict", format!("{original}; divergence: {level}")));
    }
    write!(out, "{}{}", pairs(&head), decision(&delivered.decision))?;
    for told in [delivered.disclaimer, delivered.notice].into_iter().flatten() {
        writeln!(out, "{}", on_one_line(&told))?;
    }
    Ok(writeln!(out, "{}", harmless(delivered.verdict.get()))?)
}
