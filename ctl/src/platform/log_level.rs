//! `oraclectl log-level`.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use hyper::Method;
use oracled_api::base::service;
use std::io::Write;

/// Show or set the level of the service log, until the next reload or start
#[derive(Debug, clap::Args)]
pub(crate) struct LogLevelArgs {
    /// A level (error, warn, info, debug, trace), or tracing filter directives
    level: Option<String>,
}

impl LogLevelArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let answer = match &self.level {
            None => options.call_control(Method::GET, "/v1/log-level", None).await?,
            Some(level) => {
                let body = serde_json::json!({"level": level}).to_string();
                options.call_control(Method::PUT, "/v1/log-level", Some(body.into())).await?
            }
        };
        let level: service::LogLevel = answer.json()?;
        if options.json { print_json(out, &level) } else { Ok(writeln!(out, "{}", level.level)?) }
    }
}
