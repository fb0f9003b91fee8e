//! `oraclectl purge`.

use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::json;
use hyper::Method;
use oracled_api::verdict::PurgeResponse;
use std::io::Write;

/// Remove the cached verdict of a session; the session itself stays
#[derive(Debug, clap::Args)]
pub(crate) struct Purge {
    /// Session id
    session_id: String,
}

impl Purge {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        let purged: PurgeResponse = options.on_control(Method::DELETE, &path, None).await?.json()?;
        if options.json {
            return json(out, &purged);
        }
        Ok(writeln!(out, "the cached verdict of session {} is removed", purged.session_id)?)
    }
}
