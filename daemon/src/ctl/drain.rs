//! `oraclectl drain`.

use super::output::json;
use super::{CtlError, Options};
use crate::platform::control::drain::Drained;
use hyper::Method;
use std::io::Write;

/// Reject new work before a stop, and begin no scheduled pull
#[derive(Debug, clap::Args)]
pub struct Drain {
    /// Accept new work again, and begin scheduled pulls
    #[arg(long)]
    off: bool,
}

impl Drain {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let body = serde_json::json!({"draining": !self.off}).to_string();
        let drained: Drained =
            options.on_control(Method::POST, "/v1/drain", Some(body.into())).await?.json()?;
        if options.json {
            return json(out, &drained);
        }
        let what = if drained.draining { "new work is rejected" } else { "new work is accepted" };
        Ok(writeln!(out, "{what}; {} in flight", drained.in_flight)?)
    }
}
