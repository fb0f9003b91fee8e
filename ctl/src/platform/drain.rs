//! `oraclectl drain`.

use crate::base::error::CtlError;
use crate::base::options::Options;
use crate::base::output::json;
use hyper::Method;
use oracled_api::base::service::DrainResponse;
use std::io::Write;

/// Reject new work and pause scheduled pulls, for example before a restart
#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// Accept new work again, and resume scheduled pulls
    #[arg(long)]
    off: bool,
}

impl Drain {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let body = serde_json::json!({"draining": !self.off}).to_string();
        let drained: DrainResponse =
            options.on_control(Method::POST, "/v1/drain", Some(body.into())).await?.json()?;
        if options.json {
            return json(out, &drained);
        }
        let what = if drained.draining { "new work is rejected" } else { "new work is accepted" };
        Ok(writeln!(out, "{what}; {} in flight", drained.in_flight)?)
    }
}
