//! `oraclectl register`.

use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{json, pairs};
use hyper::{Method, StatusCode};
use oracled_api::verdict::KnownSession;
use oracled_domain::Tier;
use serde_json::{Map, Value};
use std::io::Write;

/// Register a session so that a lost verdict can be regenerated
#[derive(Debug, clap::Args)]
pub(crate) struct Register {
    /// Session id
    session_id: String,
    /// Tier that the customer bought: quick, full or strategy
    #[arg(long)]
    tier: Tier,
    /// Query of the customer
    #[arg(long)]
    query: String,
    /// Address of the customer, for mail
    #[arg(long, value_name = "ADDRESS")]
    customer_email: Option<String>,
    /// Verdict that you delivered without oracled: GREEN, AMBER, RED or NULL
    #[arg(long, value_name = "VERDICT")]
    original_verdict: Option<String>,
}

impl Register {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let given = [
            ("tier", Some(self.tier.into_str())),
            ("query", Some(self.query.as_str())),
            ("customer_email", self.customer_email.as_deref()),
            ("original_verdict", self.original_verdict.as_deref()),
        ];
        let body: Map<String, Value> =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        let path = format!("/v1/sessions/{}", segment(&self.session_id));
        let body = Value::Object(body).to_string();
        let answer = options.on_routes(Method::PUT, &path, Some(body.into())).await?;
        let known: KnownSession = answer.json()?;
        if options.json {
            return json(out, &known);
        }
        let how =
            if answer.status == StatusCode::CREATED { "is registered" } else { "is already registered" };
        let shown = [
            ("session", format!("{} {how}", known.session_id)),
            ("tier", known.tier.to_string()),
            ("query", known.query),
            ("mail to", if known.has_email { "the customer's address" } else { "none" }.into()),
            ("first verdict", known.original_verdict.as_str().into()),
        ];
        Ok(out.write_all(pairs(&shown).as_bytes())?)
    }
}
