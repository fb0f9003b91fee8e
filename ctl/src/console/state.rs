//! The state that the pages share.

use super::access::Access;
use super::history::MetricHistory;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use hyper::Method;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Maximum number of pages that receive events at a time. Each of them sends requests to the daemon again and again. One browser
/// needs fewer: it opens at most six connections to the console, and its script opens none for a page that is hidden.
const STREAMS_MAX: usize = 16;

/// The state of the console.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) options: GlobalOptions,
    /// Whether this user may use reviews and held orders only.
    pub(crate) has_only_reviews: bool,
    pub(crate) access: Access,
    /// A permit for each page that receives events.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) history: Arc<Mutex<MetricHistory>>,
}

/// Whether the control socket that was given is the socket for reviewers, which has no status.
async fn is_reviewer_socket(options: &GlobalOptions) -> bool {
    let status = options.call_control(Method::GET, "/v1/status", None).await;
    let reviews = options.call_control(Method::GET, "/v1/reviews?limit=1", None).await;
    matches!(status, Err(CtlError::Problem { status: 404, .. })) && reviews.is_ok()
}

pub(crate) type ConsoleState = Arc<Console>;

impl Console {
    pub(crate) async fn new(options: GlobalOptions, port: u16) -> Result<ConsoleState, CtlError> {
        let has_only_reviews =
            options.reviewer_socket_path()? != options.control_path()? || is_reviewer_socket(&options).await;
        Ok(Arc::new(Self {
            options,
            has_only_reviews,
            access: Access::new(port),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            history: Arc::default(),
        }))
    }
}
