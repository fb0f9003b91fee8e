//! The parts that all model APIs share: sending a request, and reading its answer.

use super::failure::{RequestFailure, RequestFailureKind};
use super::http::{HttpReply, UpstreamEndpoint};
use super::{ModelAnswerMetadata, ModelAttempt, ModelRefusal, ModelTextError};
use crate::failure::{ReportedError, UNKNOWN_STATUS, is_nothing, missing_answer};
use domain_base::digest::Sha256Hex;
use domain_base::text_form::is_blank;
use domain_base::upstream_text::UpstreamText;
use domain_verdict::generation::ModelTokenUsage;
use reqwest::RequestBuilder;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;
use std::time::Duration;

/// The text of an answer, independent of the API's format.
#[derive(Debug)]
pub(crate) struct ModelResponse {
    pub(crate) text: Result<String, ModelTextError>,
    pub(crate) finish_reason: Option<String>,
}

/// The metadata of an answer. It is read even if the text cannot be read: the answer was paid for.
#[derive(Debug, Default)]
pub(crate) struct ReplyMetadata {
    pub(crate) usage: Option<ModelTokenUsage>,
    pub(crate) oracle_version: Option<String>,
}

/// An answer in the format of an API.
pub(crate) trait WireReply: DeserializeOwned + Into<ModelResponse> {
    /// The same answer, as far as it reports about itself. No text is parsed for it.
    type Metadata: DeserializeOwned + Into<ReplyMetadata>;
}

/// A parsed answer.
#[derive(Debug)]
pub(crate) struct ParsedReply {
    pub(crate) text: Result<String, ModelTextError>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<ModelTokenUsage>,
    pub(crate) oracle_version: Option<String>,
}

/// A text, or a text in parts. Parts that are no text, such as thoughts, are skipped.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TextContent {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TextPart {
    Text(String),
    Typed {
        #[serde(rename = "type")]
        kind: String,
        text: Option<String>,
        refusal: Option<String>,
    },
    Other(IgnoredAny),
}

impl TextContent {
    /// The parts of the text, joined.
    pub(crate) fn into_text(self) -> String {
        let parts = match self {
            Self::Text(text) => return text,
            Self::Parts(parts) => parts.into_iter(),
        };
        let texts = parts.filter_map(|part| match part {
            TextPart::Text(text) => Some(text),
            TextPart::Typed { kind, text, .. } if kind == "text" || kind == "output_text" => text,
            TextPart::Typed { .. } | TextPart::Other(_) => None,
        });
        texts.collect()
    }

    /// The words with which the model declines in a part of its own.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let Self::Parts(parts) = self else { return None };
        parts.iter().find_map(|part| match part {
            TextPart::Typed { refusal, .. } => refusal.as_deref(),
            _ => None,
        })
    }
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
pub(crate) async fn attempt<B: WireReply>(
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

pub(crate) fn parse_reply<B: WireReply>(endpoint: &UpstreamEndpoint, reply: &HttpReply) -> ModelAttempt {
    let ParsedReply { text, finish_reason, usage, oracle_version } = parse::<B>(&reply.body);
    let clean = |words: String| endpoint.clean(&words);
    let clean_text = |words: UpstreamText| endpoint.clean(words.reveal());
    let metadata = ModelAnswerMetadata {
        response_hash: Sha256Hex::of(&reply.body),
        finish_reason: finish_reason.map(clean),
        usage,
        oracle_version: oracle_version.map(clean),
    };
    let text = match endpoint.check(reply) {
        Err(failure) => Err(blocked_prompt(reply).unwrap_or(ModelTextError::Failed(failure))),
        Ok(()) => text.and_then(|text| {
            let text = strip_fence(&text);
            if is_blank(text) { Err(ModelRefusal::Empty.into()) } else { Ok(text.to_owned()) }
        }),
    };
    let text = text.map_err(|error| match error {
        ModelTextError::Refused(refusal) => ModelTextError::Refused(refusal.map(clean_text)),
        ModelTextError::Failed(failure) => ModelTextError::Failed(RequestFailure {
            retry_after: failure.retry_after.or(reply.retry_after),
            text: clean_text(failure.text),
            ..failure
        }),
    });
    ModelAttempt::AnswerReceived(metadata, text)
}

/// Parses the body of an answer with a success status. The body may contain an error instead of an answer.
pub(crate) fn parse<B: WireReply>(body: &[u8]) -> ParsedReply {
    let metadata = serde_json::from_slice::<B::Metadata>(body).map(Into::into);
    let ReplyMetadata { usage, oracle_version } = metadata.unwrap_or_default();
    let response = serde_json::from_slice::<B>(body).map(Into::<ModelResponse>::into);
    let is_no_answer =
        !matches!(&response, Ok(ModelResponse { text: Ok(_) | Err(ModelTextError::Refused(_)), .. }));
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let reported = ReportedError::read(&document, is_no_answer);
    let (text, finish_reason) = match (reported, response) {
        (Some(error), _) => (Err(fault_of(error)), None),
        (None, Ok(ModelResponse { text, finish_reason })) => {
            (text.map_err(|error| paid_failure(error, usage.as_ref())), finish_reason)
        }
        (None, Err(error)) => (Err(ModelTextError::Failed(unreadable(&error))), None),
    };
    ParsedReply { text, finish_reason, usage, oracle_version }
}

/// The failure of a part of an answer that contains `error` instead of a text; `None` if there is no error.
pub(crate) fn part_error(error: Option<&Value>) -> Option<ModelTextError> {
    let error = error.filter(|error| !is_nothing(error))?;
    let body = serde_json::json!({"error": error});
    Some(fault_of(ReportedError::read(&body, true)?))
}

/// The refusal of the prompt in an answer with an error status; `None` if the answer is about something else.
fn blocked_prompt(reply: &HttpReply) -> Option<ModelTextError> {
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    let reason = ReportedError::read(&body, true)?.blocked?;
    Some(ModelRefusal::PromptBlocked(UpstreamText::new(reason)).into())
}

/// The fault of an answer that has a success status and this error.
fn fault_of(mut error: ReportedError) -> ModelTextError {
    match error.blocked.take() {
        Some(reason) => ModelRefusal::PromptBlocked(UpstreamText::new(reason)).into(),
        None => ModelTextError::Failed(error.into_failure(None)),
    }
}

/// The fault of an answer without a text. If the model generated tokens for it, the answer was paid for, and the same request
/// is not sent again at once.
fn paid_failure(error: ModelTextError, usage: Option<&ModelTokenUsage>) -> ModelTextError {
    let is_paid = usage.and_then(|usage| usage.output_tokens).is_some_and(|tokens| tokens > 0);
    match error {
        ModelTextError::Failed(failure)
            if is_paid
                && failure.kind == RequestFailureKind::ErrorAnswer(UNKNOWN_STATUS)
                && !failure.rejects_caller =>
        {
            ModelTextError::Failed(RequestFailure { kind: RequestFailureKind::Unreadable, ..failure })
        }
        error => error,
    }
}

/// The failure of an answer that lacks `member`.
pub(crate) fn without_member(member: &str) -> ModelTextError {
    ModelTextError::Failed(missing_answer(format!("the answer has no `{member}`")))
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
    fn map(self, change: impl FnOnce(UpstreamText) -> UpstreamText) -> Self {
        match self {
            Self::PromptBlocked(reason) => Self::PromptBlocked(change(reason)),
            Self::Stopped(reason) => Self::Stopped(change(reason)),
            Self::Declined(reason) => Self::Declined(change(reason)),
            Self::Empty => Self::Empty,
        }
    }
}

/// The Markdown code fence that models put around JSON although the prompt forbids it.
const FENCE: &str = "```";

/// Returns the text within one code fence around the whole of `text`, else `text` unchanged. Nothing else is repaired.
fn strip_fence(text: &str) -> &str {
    inside_fence(text.trim()).unwrap_or(text)
}

fn inside_fence(text: &str) -> Option<&str> {
    let (language, rest) = text.strip_prefix(FENCE)?.split_once('\n')?;
    let inner = rest.strip_suffix(FENCE)?;
    let named = ["", "json"].iter().any(|word| language.trim().eq_ignore_ascii_case(word));
    let on_its_own_line = inner.trim_end_matches([' ', '\t']).ends_with('\n');
    let another = inner.lines().any(|line| line.trim_start().starts_with(FENCE));
    (named && on_its_own_line && !another).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_fence_removes_one_fence_around_the_whole_text() {
        for fenced in
            ["```json\n{}\n```", "```\n{}\n```", "  ```JSON  \r\n{}\r\n```\n\n", "```json\n\n  {}\n  ```"]
        {
            assert_eq!(strip_fence(fenced), "{}", "{fenced:?}");
        }
        assert_eq!(strip_fence("```json\n{\"a\": \"``` in a text\"}\n```"), "{\"a\": \"``` in a text\"}");
        assert_eq!(strip_fence("```\n```"), "```\n```", "nothing is in it");
    }

    #[test]
    fn strip_fence_leaves_any_other_text_unchanged() {
        for text in [
            "{}",
            " {} \n",
            "",
            "```",
            "``````",
            "```json",
            "```json\n{}",
            "{}\n```",
            "```{}```",
            "```json {}\n```",
            "```json\n{}```",
            "```yaml\n{}\n```",
            "Here you are:\n```json\n{}\n```",
            "```json\n{}\n```\nThere you are.",
            "```json\n{}\n```\n```json\n{}\n```",
        ] {
            assert_eq!(strip_fence(text), text, "{text:?}");
        }
    }
}
