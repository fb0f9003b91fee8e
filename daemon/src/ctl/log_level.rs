//! `oraclectl log-level`.

use super::output::json;
use super::{CtlError, Options};
use crate::platform::control::log_level::Level;
use hyper::Method;
use std::io::Write;

/// Shows or sets what the service's own log tells, until the next reload or start.
#[derive(Debug, clap::Args)]
pub struct LogLevel {
    /// error, warn, info, debug, trace, or tracing's filter directives
    level: Option<String>,
}

impl LogLevel {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let answer = match &self.level {
            None => options.on_control(Method::GET, "/v1/log-level", None).await?,
            Some(level) => {
                let body = serde_json::json!({"level": level}).to_string();
                options.on_control(Method::PUT, "/v1/log-level", Some(body.into())).await?
            }
        };
        let level: Level = answer.json()?;
        if options.json { json(out, &level) } else { Ok(writeln!(out, "{}", level.level)?) }
    }
}
