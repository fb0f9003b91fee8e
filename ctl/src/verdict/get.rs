//! `oraclectl get`.

use super::submit::show;
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use hyper::Method;
use std::io::Write;

/// Shows the delivered verdict of a session.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Whose verdict
    session_id: String,
}

impl Get {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        show(&options.on_routes(Method::GET, &path, None).await?, options, out)
    }
}
