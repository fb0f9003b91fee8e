//! `oraclectl purge`.

use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::print_json;
use hyper::Method;
use oracled_api::verdict::PurgeResponse;
use std::io::Write;

/// Remove the cached verdict of a session; the session itself stays
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// Session id; shop/cs_1 for a session of the application `shop`
    #[arg(value_parser = id_parser())]
    session_id: String,
}

impl PurgeArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        let purged: PurgeResponse = options.call_control(Method::DELETE, &path, None).await?.json()?;
        if options.json {
            return print_json(out, &purged);
        }
        Ok(writeln!(out, "the cached verdict of session {} is removed", purged.session_id)?)
    }
}
