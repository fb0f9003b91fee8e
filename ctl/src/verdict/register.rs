//! `oraclectl register`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::{format_pairs, print_json};
use domain_verdict::label::ProductTier;
use hyper::{Method, StatusCode};
use oracled_api::verdict::RegisterSessionResponse;
use serde_json::{Map, Value};
use std::io::Write;

/// Register a session so that a lost verdict can be regenerated
#[derive(Debug, clap::Args)]
pub(crate) struct RegisterArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// Tier that the customer bought: quick, full or strategy
    #[arg(long)]
    tier: ProductTier,
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

impl RegisterArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let given = [
            ("tier", Some(self.tier.into_str())),
            ("query", Some(self.query.as_str())),
            ("customer_email", self.customer_email.as_deref()),
            ("original_verdict", self.original_verdict.as_deref()),
        ];
        let body: Map<String, Value> =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        let path = format!("/v1/sessions/{}", encode_segment(&self.session_id));
        let body = Value::Object(body).to_string();
        let answer = options.call_routes(Method::PUT, &path, Some(body.into())).await?;
        let known: RegisterSessionResponse = answer.json()?;
        if options.json {
            return print_json(out, &known);
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
        Ok(out.write_all(format_pairs(&shown).as_bytes())?)
    }
}
