//! The parts that all model APIs share: sending a request, and reading its answer.

use super::failure::{RequestFailure, RequestFailureKind};
use super::fence::strip_fence;
use super::http::{HttpReply, UpstreamEndpoint};
use super::{ModelAnswerMetadata, ModelAttempt, ModelRefusal, ModelTextError};
use oracled_domain::Sha256Hex;
use oracled_domain::base::blank::is_blank;
use oracled_domain::verdict::generation::ModelTokenUsage;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;
use std::time::Duration;

/// An answer, independent of the API's format.
#[derive(Debug)]
pub(crate) struct ModelResponse {
    pub(crate) text: Result<String, ModelRefusal>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<ModelTokenUsage>,
    pub(crate) oracle_version: Option<String>,
}

/// The highest number of tokens of one call that is believed. More would use up a daily budget by mistake.
const TOKENS_MAX: u64 = 100_000_000;

/// Reads a number of tokens. A number that cannot be right counts as not reported: the answer was paid for, and may be good.
pub(crate) fn token_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_u64().filter(|tokens| *tokens <= TOKENS_MAX))
}

/// Reads a part of an answer without which the answer is usable. `None` if it cannot be read.
pub(crate) fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

/// The body of a request without the settings that are missing.
pub(crate) fn without_nulls(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    body
}

/// Sends one request. A success answer is parsed as `B`.
pub(crate) async fn attempt<B: DeserializeOwned + Into<ModelResponse>>(
    endpoint: &UpstreamEndpoint,
    request: RequestBuilder,
    limit: Duration,
) -> ModelAttempt {
    match endpoint.send(request, limit).await {
        Ok(reply) => parse_reply::<B>(endpoint, &reply),
        Err(failure) => ModelAttempt::NoAnswerReceived(failure),
    }
}

/// Sends one request and checks only the status of its answer.
pub(crate) async fn probe(
    endpoint: &UpstreamEndpoint,
    request: RequestBuilder,
    limit: Duration,
) -> Result<(), RequestFailure> {
    let reply = endpoint.send(request, limit).await?;
    endpoint.check(&reply)
}

fn parse_reply<B: DeserializeOwned + Into<ModelResponse>>(
    endpoint: &UpstreamEndpoint,
    reply: &HttpReply,
) -> ModelAttempt {
    let response_hash = Sha256Hex::of(&reply.body);
    let mute = ModelAnswerMetadata { response_hash, finish_reason: None, usage: None, oracle_version: None };
    if let Err(failure) = endpoint.check(reply) {
        return ModelAttempt::AnswerReceived(mute, Err(ModelTextError::Failed(failure)));
    }
    let response: ModelResponse = match serde_json::from_slice::<B>(&reply.body) {
        Ok(body) => body.into(),
        Err(error) => {
            return ModelAttempt::AnswerReceived(mute, Err(ModelTextError::Failed(unreadable(&error))));
        }
    };
    let clean = |words: String| endpoint.clean(&words);
    let metadata = ModelAnswerMetadata {
        finish_reason: response.finish_reason.map(clean),
        usage: response.usage,
        oracle_version: response.oracle_version.map(clean),
        ..mute
    };
    let text = response.text.and_then(|text| {
        let text = strip_fence(&text);
        if is_blank(text) { Err(ModelRefusal::Empty) } else { Ok(text.to_owned()) }
    });
    ModelAttempt::AnswerReceived(
        metadata,
        text.map_err(|refusal| ModelTextError::Refused(refusal.map(clean))),
    )
}

/// The position and kind of a parse error. serde's own message quotes the answer, which is unchecked, and this text is
/// logged.
fn unreadable(error: &serde_json::Error) -> RequestFailure {
    let what = match error.classify() {
        Category::Io => "not read",
        Category::Syntax => "not JSON",
        Category::Data => "not in the format of this API",
        Category::Eof => "incomplete",
    };
    let (line, column) = (error.line(), error.column());
    RequestFailure::new(RequestFailureKind::Unreadable, format!("{what}, at line {line} column {column}"))
}

impl ModelRefusal {
    fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::PromptBlocked(reason) => Self::PromptBlocked(change(reason)),
            Self::Stopped(reason) => Self::Stopped(change(reason)),
            Self::Declined(reason) => Self::Declined(change(reason)),
            Self::Empty => Self::Empty,
        }
    }
}
