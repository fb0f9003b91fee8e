//! `oraclectl drain`.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use hyper::Method;
use oracled_api::base::service::DrainResponse;
use std::io::Write;

/// Reject new work and pause scheduled pulls, for example before a restart
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Accept new work again, and resume scheduled pulls
    #[arg(long)]
    off: bool,
}

impl DrainArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let body = serde_json::json!({"draining": !self.off}).to_string();
        let drained: DrainResponse =
            options.call_control(Method::POST, "/v1/drain", Some(body.into())).await?.json()?;
        if options.json {
            return print_json(out, &drained);
        }
        let what = if drained.draining { "new work is rejected" } else { "new work is accepted" };
        Ok(writeln!(out, "{what}; {} in flight", drained.in_flight)?)
    }
}
