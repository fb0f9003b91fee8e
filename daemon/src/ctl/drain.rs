//! `oraclectl drain`.

use super::output::json;
use super::{CtlError, Options};
use crate::control::drain::Drained;
use hyper::Method;
use std::io::Write;

/// Turns all new work away before a stop; what was delivered is still read.
#[derive(Debug, clap::Args)]
pub struct Drain {
    /// Take new verdicts again
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
        let what = if drained.draining { "new verdicts are turned away" } else { "new verdicts are taken" };
        Ok(writeln!(out, "{what}; {} in flight", drained.in_flight)?)
    }
}
