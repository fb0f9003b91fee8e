//! `oraclectl verdict`.

use super::submit::show_delivered;
use crate::base::arguments::id_parser;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output_stream::Output;
use hyper::{Method, StatusCode};

/// Show the delivered verdict of a session; a lost verdict is regenerated
#[derive(Debug, clap::Args)]
pub(crate) struct VerdictArgs {
    /// Session id
    #[arg(value_parser = id_parser())]
    session_id: String,
    /// Print the document with the proof of its delivery, byte for byte; `oraclectl verify-log` verifies it without a daemon
    #[arg(long)]
    proof: bool,
}

impl VerdictArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        let path = format!("/v1/verdicts/{}", encode_segment(&self.session_id));
        if self.proof {
            let answer = options.call_routes(Method::GET, &format!("{path}?proof=1"), None).await?;
            if answer.status == StatusCode::OK {
                let out = out.exact();
                out.write_all(&answer.body)?;
                return Ok(writeln!(out)?);
            }
            return show_delivered(&answer, options, out);
        }
        show_delivered(&options.call_routes(Method::GET, &path, None).await?, options, out)
    }
}
