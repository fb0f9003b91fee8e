//! `oraclectl reload`.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::print_json;
use hyper::Method;
use oracled_api::base::service::ReloadResponse;
use std::io::Write;

/// Reloads the configuration and prints the keys that require a restart.
pub(crate) async fn run(options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let reloaded: ReloadResponse = options.call_control(Method::POST, "/v1/reload", None).await?.json()?;
    if options.json {
        return print_json(out, &reloaded);
    }
    writeln!(out, "oracle_log.jsonl is reopened; the log level is {}", reloaded.log_level)?;
    if !reloaded.changed_credentials.is_empty() {
        writeln!(out, "changed credentials, in use now: {}", reloaded.changed_credentials.join(", "))?;
    }
    if !reloaded.needs_restart.is_empty() {
        writeln!(out, "changed, in force after a restart: {}", reloaded.needs_restart.join(", "))?;
    }
    Ok(())
}
