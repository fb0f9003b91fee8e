//! The bodies of requests on the control socket. They are read strictly: a misspelled member of a
//! document would be missing from every answer that depends on it.

use crate::platform::api::request::{JsonBody, strict};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::extract::{FromRequest, Request};
use oracled_api::base::problem::ProblemCode;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Maximum length of a body, in bytes: a pipeline contains its schemas and tables.
pub const DOCUMENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// The body of a request on the control socket.
pub struct ControlBody(JsonBody);

impl FromRequest<Arc<DaemonService>> for ControlBody {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        JsonBody::read_within(request, service, DOCUMENT_MAX_BYTES).await.map(Self)
    }
}

impl ControlBody {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Reads the body as a `T`. A name must not occur twice in one object, even if `T` ignores it.
    ///
    /// # Errors
    /// `InvalidJson` if the body is not JSON; `InvalidDocument` with the position of the fault.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        strict::read(self.0.as_bytes(), "a document", ProblemCode::InvalidDocument)
    }
}
