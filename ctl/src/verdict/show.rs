//! `oraclectl verdict`.

use super::submit::show_delivered;
use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use hyper::Method;
use std::io::Write;

/// Show the delivered verdict of a session; a lost verdict is regenerated
#[derive(Debug, clap::Args)]
pub(crate) struct VerdictArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
}

impl VerdictArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        show_delivered(&options.call_routes(Method::GET, &path, None).await?, options, out)
    }
}
