//! Documents that administrators hand in: ontologies, sources, pipelines, policies, and orders. They are read strictly,
//! since what is misspelt in one would be missing from every answer that depends on it.

use crate::platform::api::request::{JsonBody, strict};
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::{FromRequest, Request};
use oracled_actors::ground::registry;
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::sync::Arc;

/// A document has at most so many bytes: a pipeline brings its schemas and tables along.
pub const DOCUMENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A document as it came.
pub struct Document(JsonBody);

/// The answer to a registration.
pub(crate) fn registered<T>(registered: registry::Registered<T>) -> Json<RegisteredDocument<T>> {
    let registry::Registered { unchanged, document } = registered;
    Json(RegisteredDocument { unchanged, document })
}

impl FromRequest<Arc<Service>> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        JsonBody::within(request, service, DOCUMENT_MAX_BYTES).await.map(Self)
    }
}

impl Document {
    /// Reads it as a `T`. No name may stand twice in one object, whatever `T` makes of it.
    ///
    /// # Errors
    /// `InvalidJson` where it is not JSON; `InvalidDocument` with the place of what is wrong.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        strict::read(self.0.text(), "a document", ProblemCode::InvalidDocument)
    }
}

/// That a document does not say of itself what its path says of it.
///
/// # Errors
/// `InvalidDocument`.
pub(crate) fn check_named<N: Display + PartialEq>(
    field: &str,
    path: &N,
    document: &N,
) -> Result<(), Problem> {
    if path == document {
        return Ok(());
    }
    let detail = format!("`{field}` is {document}, and the path says {path}; they must be the same");
    Err(Problem::new(ProblemCode::InvalidDocument, detail))
}
