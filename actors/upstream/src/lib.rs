//! Clients of the models that generate verdicts, and of the other upstream services.
//!
//! An adapter implements one wire format and sends one request. [`model_call::ModelCaller`] handles retries, timeouts and the
//! deadline. This module does not check the text of an answer; the crosscheck does.

pub mod anthropic;
pub mod canned;
pub mod failure;
pub mod gemini;
pub mod http;
pub mod lookup;
pub mod mail;
pub mod model_call;
pub mod openai;
pub mod oracle;
pub mod oracle_health;
pub mod web;
mod wire;
pub mod witnesses;

use crate::mail::MailService;
use crate::oracle::{LiveAnswer, LiveOracle, LiveQuery};
use crate::oracle_health::OracleProbe;
use crate::web::WebError;
use actors_platform::caller::current_trace;
use actors_platform::key_file::random_tag;
pub use anthropic::AnthropicClient;
pub use canned::{CANNED_MODEL, CannedModel};
use domain_base::caller::SpanId;
use domain_base::digest::Sha256Hex;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::generation::{GenerationSettings, ModelTokenUsage};
use domain_verdict::mail::{MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::prompt::ModelPrompt;
use domain_verification::adapter::ValidatedAdapter;
pub use failure::{RequestFailure, RequestFailureKind};
pub use gemini::GeminiClient;
pub use http::{HeaderKey, UpstreamEndpoint, UpstreamEndpointError};
pub use model_call::{
    ModelAnswer, ModelCallPolicy, ModelCallPurpose, ModelCallResult, ModelCaller, ModelError,
    ModelHealthEffect,
};
pub use openai::OpenAiClient;
use reqwest::RequestBuilder;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use strum::IntoStaticStr;

/// A boxed future, for traits that are used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model that is called through an HTTP API.
pub trait ModelClient: fmt::Debug + Send + Sync {
    /// The version that `settings` request, for example `v1beta/gemini-2.5-flash`.
    fn oracle_version(&self, settings: &GenerationSettings) -> String;

    /// The version of the model that an answer names.
    fn version_of(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Sends one request. The attempt fails if the whole answer does not arrive within `timeout`.
    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt>;

    /// Checks, within `timeout`, whether the API is available. A probe costs no tokens.
    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>>;
}

/// The outcome of one request.
#[derive(Debug)]
pub enum ModelAttempt {
    /// The whole answer arrived. It contains a usable text, or the reason why it does not.
    AnswerReceived(ModelAnswerMetadata, Result<String, ModelTextError>),
    /// No whole answer arrived.
    NoAnswerReceived(RequestFailure),
}

/// Why a request returned no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelTextError {
    /// The call failed: no answer arrived, or it has an error status or cannot be read.
    Failed(RequestFailure),
    /// The answer contains no complete text from the model.
    Refused(ModelRefusal),
}

/// An answer of a model without a usable text. The reasons are the model's own texts, cleaned and cut; they are not displayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ModelRefusal {
    /// The API rejected the prompt; contains its reason.
    #[error("the prompt was blocked")]
    PromptBlocked(UpstreamText),
    /// The model stopped before the text was complete; contains its finish reason.
    #[error("the model stopped before it was done")]
    #[strum(to_string = "finish_reason")]
    Stopped(UpstreamText),
    /// The model declined to answer; contains its message.
    #[error("the model declined")]
    Declined(UpstreamText),
    /// The answer contains no text.
    #[error("the model's answer is empty")]
    #[strum(to_string = "empty_answer")]
    Empty,
}

impl From<ModelRefusal> for ModelTextError {
    fn from(refusal: ModelRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl ModelTextError {
    /// Whether the request may have reached the model.
    #[must_use]
    pub const fn reached(&self) -> bool {
        match self {
            Self::Failed(failure) => failure.reached(),
            Self::Refused(_) => true,
        }
    }

    /// The fault as a code for the log's `error_code`.
    #[must_use]
    pub fn error_code(&self) -> Cow<'static, str> {
        match self {
            Self::Failed(failure) => failure.kind.error_code(),
            Self::Refused(refusal) => refusal.error_code().into(),
        }
    }
}

impl ModelRefusal {
    /// The fault as a code for the log's `error_code`.
    #[must_use]
    pub fn error_code(&self) -> &'static str {
        self.into()
    }

    /// The refusal with the model's own reason.
    #[must_use]
    pub fn cause(&self) -> UpstreamText {
        match self {
            Self::PromptBlocked(reason) | Self::Stopped(reason) | Self::Declined(reason) => {
                reason.after(self)
            }
            Self::Empty => UpstreamText::default().after(self),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswerMetadata {
    /// SHA-256 of the answer's body.
    pub response_hash: Sha256Hex,
    /// The model's own finish reason.
    pub finish_reason: Option<UpstreamText>,
    /// Tokens that the answer cost.
    pub usage: Option<ModelTokenUsage>,
    /// The name of the model in the answer.
    pub oracle_version: Option<UpstreamText>,
}

// The header `traceparent` of outgoing requests (W3C Trace Context).
//
// `tracestate` is not passed on: it has opaque data of the caller's tracing system, and the calls go to systems of others.

/// `request` with a `traceparent`, if the current work is a part of a trace. Its span is the one that the daemon exports, or a new one.
fn add_traceparent(request: RequestBuilder) -> RequestBuilder {
    let Some(trace) = current_trace() else { return request };
    match trace.span_id.clone().or_else(|| SpanId::new(random_tag())) {
        Some(span_id) => request.header("traceparent", trace.traceparent(&span_id)),
        None => request,
    }
}

/// A client that can be replaced. Clones share it. A call in progress ends with the client with which it began.
pub struct Reloadable<C: ?Sized>(Arc<RwLock<Arc<C>>>);

impl<C: ?Sized> Reloadable<C> {
    #[must_use]
    pub fn new(client: Arc<C>) -> Self {
        Self(Arc::new(RwLock::new(client)))
    }

    #[must_use]
    pub fn get(&self) -> Arc<C> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the client by that of `other`.
    pub fn replace_with(&self, other: &Self) {
        let client = other.get();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl<C: ?Sized> Clone for Reloadable<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: fmt::Debug + ?Sized> fmt::Debug for Reloadable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reloadable").field(&self.get()).finish()
    }
}

impl ModelClient for Reloadable<dyn ModelClient> {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        self.get().oracle_version(settings)
    }

    fn version_of(&self, name: &str) -> String {
        self.get().version_of(name)
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let client = self.get();
        Box::pin(async move { client.attempt(prompt, settings, timeout).await })
    }

    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        let client = self.get();
        Box::pin(async move { client.probe(model, timeout).await })
    }
}

impl MailService for Reloadable<dyn MailService> {
    fn oracle_id(&self) -> UpstreamId {
        self.get().oracle_id()
    }

    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        let service = self.get();
        Box::pin(async move { service.send(mail, content).await })
    }
}

impl OracleProbe for Reloadable<dyn MailService> {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        let service = self.get();
        Box::pin(async move { service.probe().await })
    }
}

impl LiveOracle for Reloadable<dyn LiveOracle> {
    fn check(&self, adapter: &ValidatedAdapter) -> Result<(), WebError> {
        self.get().check(adapter)
    }

    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer> {
        let client = self.get();
        Box::pin(async move { client.ask(ask).await })
    }
}
