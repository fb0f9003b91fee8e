//! Watches a run until it ends.

use super::read_run;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use oracled_api::ground::RunReport;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::run::RunProgress;
use oracled_domain::ground::run::RunState;
use std::pin::pin;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::time::sleep;

/// Interval at which the state of a run is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches a run until it ends. The bar is hidden if standard error is not a terminal.
///
/// # Errors
/// `Detached` if the user interrupts the wait, `RunLost` if the daemon does not answer.
pub(crate) async fn wait_for_end(options: &GlobalOptions, run_id: &Sha256Hex) -> Result<RunReport, CtlError> {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:20} {percent:>3}% {wide_msg}");
    let bar = style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style));
    let mut interrupted = pin!(ctrl_c());
    loop {
        let seen = read_run(options, run_id.as_str()).await.map_err(|error| lost_error(error, run_id))?;
        if seen.run.state != RunState::Running {
            bar.finish_and_clear();
            return Ok(seen);
        }
        if let Some(progress) = &seen.progress {
            draw(&bar, progress);
        }
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            _ = &mut interrupted => {
                bar.finish_and_clear();
                return Err(CtlError::Detached(run_id.clone()));
            }
        }
    }
}

/// Adds to an error of the connection how to find the run. Other errors stay as they are.
fn lost_error(error: CtlError, run_id: &Sha256Hex) -> CtlError {
    let CtlError::Client(cause) = error else { return error };
    let next = format!(
        "run {run_id} continues, or resumes at the daemon's next start; `oraclectl ingest show {run_id}` shows it"
    );
    CtlError::RunLost { cause, next }
}

fn draw(bar: &ProgressBar, progress: &RunProgress) {
    let RunProgress { bytes, bytes_read, read, rejected, .. } = progress;
    let elapsed = Timestamp::now().duration_since(progress.started_at);
    let each_s = read / u64::try_from(elapsed.as_secs()).unwrap_or(0).max(1);
    bar.set_length(*bytes);
    bar.set_position(*bytes_read);
    let doing: &str = progress.phase.into();
    bar.set_message(format!("{doing}: {read} records ({each_s}/s), {rejected} rejected"));
}
