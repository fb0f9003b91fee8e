//! `oraclectl verdict`.

use super::submit::show;
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use hyper::Method;
use std::io::Write;

/// Show the delivered verdict of a session; a lost verdict is regenerated
#[derive(Debug, clap::Args)]
pub(crate) struct Verdict {
    /// Session id
    session_id: String,
}

impl Verdict {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", segment(&self.session_id));
        show(&options.on_routes(Method::GET, &path, None).await?, options, out)
    }
}
