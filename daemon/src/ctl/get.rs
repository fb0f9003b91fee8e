//! `oraclectl get`.

use super::submit::show;
use super::{CtlError, Options, segment};
use hyper::Method;
use std::io::Write;

/// Shows the delivered verdict of a session.
#[derive(Debug, clap::Args)]
pub struct Get {
    /// Whose verdict
    session_id: String,
}

impl Get {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        show(&options.on_routes(Method::GET, &path, None).await?, options, out)
    }
}
