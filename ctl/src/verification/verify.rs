//! `oraclectl verify`.

pub(crate) mod descriptions;
pub(crate) mod show;

use crate::base::arguments::{AxisValueArg, collect_by_axis, parse_axis_value};
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use crate::base::output::print_json;
use crate::base::output_style::OutputStyle;
use domain_base::moment::Moment;
use domain_ground::id::WorkflowId;
use domain_verification::request::ClaimedValue;
use domain_verification::{Envelope, EnvelopeKind, VerifyRequest};
use hyper::{Method, StatusCode};
use std::io::Write;
use std::time::Duration;

/// Interval between two requests for a pending decision.
const PAUSE: Duration = Duration::from_millis(250);

/// Verify values with the sources of a workflow; exit status 0 only if they are verified
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The workflow
    workflow: WorkflowId,
    /// The subject: the values of its identity axes, such as `area=ABW year=1960`
    #[arg(value_name = "AXIS=VALUE", value_parser = parse_axis_value)]
    thing: Vec<AxisValueArg>,
    /// Axes to verify
    #[arg(long, required = true, value_delimiter = ',', value_name = "AXIS,AXIS")]
    axes: Vec<String>,
    /// A claimed value of an axis
    #[arg(long = "claim", value_name = "AXIS=VALUE", value_parser = parse_axis_value, requires = "by")]
    claims: Vec<AxisValueArg>,
    /// The name of the claimant
    #[arg(long, value_name = "NAME", requires = "claims")]
    by: Option<String>,
    /// Mark the claim as confirmed by the claimant
    #[arg(long, requires = "claims")]
    confirmed: bool,
    /// Point in time of the values: a day or a time
    #[arg(long, value_name = "WHEN")]
    at: Option<Moment>,
    /// Only data that the daemon had at this day or time
    #[arg(long, value_name = "WHEN")]
    known_at: Option<Moment>,
    /// Wait for a pending decision
    #[arg(long)]
    wait: bool,
}

impl VerifyArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let request = self.request()?;
        let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
        let mut answer = options.call_routes(Method::POST, "/v1/verify", Some(body.into())).await?;
        let mut envelope: Envelope = answer.json()?;
        while self.wait && answer.status == StatusCode::ACCEPTED {
            tokio::time::sleep(PAUSE).await;
            let path = format!("/v1/verify/{}", encode_segment(&envelope.execution_id));
            answer = options.call_routes(Method::GET, &path, None).await?;
            envelope = answer.json()?;
        }
        if options.json {
            print_json(out, &envelope)?;
        } else {
            let claims = self.claims.iter();
            let claims =
                claims.map(|AxisValueArg { axis, value }| (axis, value, self.claimant(), self.confirmed));
            let claims = descriptions::format_claims(claims);
            show::show_envelope(out, &envelope, &claims, OutputStyle::for_stdout())?;
        }
        if envelope.kind == EnvelopeKind::Authoritative { Ok(()) } else { Err(CtlError::NotVerified) }
    }

    /// The claimant. The command line requires `--by` with a claim.
    fn claimant(&self) -> &str {
        self.by.as_deref().unwrap_or_default()
    }

    fn request(&self) -> Result<VerifyRequest, CtlError> {
        let claimed = collect_by_axis(&self.claims)?.into_iter().map(|(axis, value)| {
            (axis, ClaimedValue { value, claimed_by: self.claimant().to_owned(), confirmed: self.confirmed })
        });
        Ok(VerifyRequest {
            workflow: self.workflow.clone(),
            thing: collect_by_axis(&self.thing)?,
            axes: self.axes.clone(),
            claimed: claimed.collect(),
            point_in_time: self.at.map(|Moment(at)| at),
            known_at: self.known_at.map(|Moment(at)| at),
        })
    }
}
