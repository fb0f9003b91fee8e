//! `oraclectl purge`.

use super::output::json;
use super::{CtlError, Options, segment};
use crate::verdict::control::purge::Purged;
use hyper::Method;
use std::io::Write;

/// Removes the cached verdict of a session; the session itself stays.
#[derive(Debug, clap::Args)]
pub struct Purge {
    /// Whose verdict
    session_id: String,
}

impl Purge {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        let purged: Purged = options.on_control(Method::DELETE, &path, None).await?.json()?;
        if options.json {
            return json(out, &purged);
        }
        Ok(writeln!(out, "the cached verdict of session {} is removed", purged.session_id)?)
    }
}
