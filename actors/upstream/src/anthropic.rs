//! Anthropic's Messages API: `POST /v1/messages`.

use super::wire::{self, ModelResponse, ReplyMetadata, TextContent, WireReply};
use super::{
    BoxFuture, HeaderKey, ModelAttempt, ModelClient, ModelRefusal, RequestFailure, UpstreamEndpoint,
    UpstreamEndpointError,
};
use actors_platform::clock::Clock;
use domain_verdict::generation::{GenerationSettings, ModelTokenUsage, add_tokens, response_schema};
use domain_verdict::prompt::ModelPrompt;
use reqwest::header::HeaderName;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The header that contains the API key.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
/// The header that contains the version of the API, which is required.
const VERSION_HEADER: HeaderName = HeaderName::from_static("anthropic-version");
const VERSION: &str = "2023-06-01";
/// The limit of the answer, which the API requires, if the settings have none.
const MAX_TOKENS: u32 = 8192;

/// A model that is called through Anthropic's API.
#[derive(Debug, Clone)]
pub struct AnthropicClient {
    endpoint: UpstreamEndpoint,
}

impl AnthropicClient {
    /// Creates a client of the API at `base`, without the version in its path.
    ///
    /// # Errors
    /// If `base` is not a base URL, or `key` does not fit into a header.
    pub fn new(base: &str, key: SecretString, clock: Clock) -> Result<Self, UpstreamEndpointError> {
        let key = HeaderKey::in_header(KEY_HEADER, key)?;
        Ok(Self { endpoint: UpstreamEndpoint::new(base, Some(key), clock)? })
    }
}

impl ModelClient for AnthropicClient {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        settings.model.clone()
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let request = self
            .endpoint
            .post(&["v1", "messages"], &build_request_body(prompt, settings))
            .header(VERSION_HEADER, VERSION);
        Box::pin(wire::attempt::<AnthropicMessage>(&self.endpoint, request, timeout))
    }

    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        let request = self.endpoint.get(&["v1", "models", model]).header(VERSION_HEADER, VERSION);
        Box::pin(wire::probe(&self.endpoint, request, timeout))
    }
}

fn build_request_body(prompt: &ModelPrompt, settings: &GenerationSettings) -> Value {
    let schema = settings.response_schema.then(|| response_schema(prompt.tier()));
    wire::without_nulls(json!({
        "model": settings.model,
        "max_tokens": settings.max_output_tokens.unwrap_or(MAX_TOKENS),
        "messages": [{"role": "user", "content": prompt.text()}],
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "thinking": settings.thinking_budget.map(thinking),
        "output_config": schema.map(|schema| json!({"format": {"type": "json_schema", "schema": schema}})),
    }))
}

fn thinking(budget: u32) -> Value {
    match budget {
        0 => json!({"type": "disabled"}),
        budget => json!({"type": "enabled", "budget_tokens": budget}),
    }
}

/// An answer. All of its parts are optional, as for the other APIs.
#[derive(Debug, Deserialize)]
struct AnthropicMessage {
    content: Option<TextContent>,
    stop_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct AnthropicMetadata {
    #[serde(default, deserialize_with = "wire::if_readable")]
    usage: Option<AnthropicUsage>,
    #[serde(default, deserialize_with = "wire::if_readable")]
    model: Option<String>,
}

impl WireReply for AnthropicMessage {
    type Metadata = AnthropicMetadata;
}

#[derive(Debug, Deserialize)]
struct AnthropicUsage {
    /// Without the tokens that a cache wrote or read.
    #[serde(default, deserialize_with = "wire::token_count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    cache_read_input_tokens: Option<u64>,
    /// With the tokens for thinking.
    #[serde(default, deserialize_with = "wire::token_count")]
    output_tokens: Option<u64>,
}

impl From<AnthropicMetadata> for ReplyMetadata {
    fn from(AnthropicMetadata { usage, model }: AnthropicMetadata) -> Self {
        let usage = usage.map(|usage| {
            let cached = add_tokens(usage.cache_creation_input_tokens, usage.cache_read_input_tokens);
            let prompt_tokens = add_tokens(usage.input_tokens, cached);
            ModelTokenUsage {
                prompt_tokens,
                output_tokens: usage.output_tokens,
                thinking_tokens: None,
                total_tokens: add_tokens(prompt_tokens, usage.output_tokens),
            }
        });
        Self { usage, oracle_version: model }
    }
}

impl From<AnthropicMessage> for ModelResponse {
    fn from(AnthropicMessage { content, stop_reason }: AnthropicMessage) -> Self {
        let text = match stop_reason.as_deref() {
            Some("end_turn") => Ok(content.map(TextContent::into_text).unwrap_or_default()),
            Some("refusal") => Err(ModelRefusal::Declined("stop_reason refusal".into()).into()),
            None if content.is_none() => Err(wire::without_member("content")),
            reason => Err(ModelRefusal::Stopped(reason.unwrap_or("no reason given").into()).into()),
        };
        Self { text, finish_reason: stop_reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelTextError, RequestFailureKind};

    fn response_of(answer: Value) -> wire::ParsedReply {
        wire::parse::<AnthropicMessage>(answer.to_string().as_bytes())
    }

    #[test]
    fn text_joins_all_text_blocks_without_thinking() {
        let response = response_of(json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5-20251001",
            "content": [
                {"type": "thinking", "thinking": "I wonder", "signature": "EqQB"},
                {"type": "redacted_thinking", "data": "EmwK"},
                {"type": "text", "text": "{\"a\":", "citations": null},
                {"type": "text", "text": "1}"},
            ],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {
                "input_tokens": 300, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
                "output_tokens": 40, "service_tier": "standard",
            },
        }));
        assert_eq!(response.text, Ok("{\"a\":1}".to_owned()));
        let usage = ModelTokenUsage {
            prompt_tokens: Some(420),
            output_tokens: Some(40),
            thinking_tokens: None,
            total_tokens: Some(460),
        };
        assert_eq!(response.usage, Some(usage));
        assert_eq!(response.oracle_version.as_deref(), Some("claude-haiku-4-5-20251001"));
        assert_eq!(response.finish_reason.as_deref(), Some("end_turn"));
    }

    #[test]
    fn unfinished_or_declined_answer_is_refused() {
        let content = json!([{"type": "text", "text": "{}"}]);
        let stopped = |reason: Value| response_of(json!({"content": content, "stop_reason": reason})).text;
        let reasons =
            ["max_tokens", "stop_sequence", "tool_use", "pause_turn", "model_context_window_exceeded", "new"];
        for reason in reasons {
            assert_eq!(stopped(json!(reason)), Err(ModelRefusal::Stopped(reason.into()).into()));
        }
        assert_eq!(stopped(json!(null)), Err(ModelRefusal::Stopped("no reason given".into()).into()));
        assert!(matches!(stopped(json!("refusal")), Err(ModelTextError::Refused(ModelRefusal::Declined(_)))));
    }

    #[test]
    fn text_is_empty_where_parts_of_the_answer_are_missing() {
        for content in [json!(null), json!([]), json!([{}]), json!([{"type": "text"}])] {
            let response = response_of(json!({"content": content, "stop_reason": "end_turn"}));
            assert_eq!(response.text, Ok(String::new()), "no text, which is refused further on");
        }
    }

    #[test]
    fn case_200_error_is_a_failure_of_the_model() {
        for (answer, status, rejects) in [
            (json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}), 429, false),
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), 529, false),
            (json!({"type": "error", "error": {"type": "authentication_error", "message": "x"}}), 401, true),
            (
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}),
                400,
                true,
            ),
            (json!({"error": "Rate limit exceeded"}), 429, false),
            (json!({"detail": "x"}), 500, false),
            (json!({"content": null}), 500, false),
            (json!({}), 500, false),
        ] {
            let Err(ModelTextError::Failed(failure)) = response_of(answer.clone()).text else {
                panic!("{answer}")
            };
            let kind = RequestFailureKind::ErrorAnswer(status);
            assert_eq!((failure.kind, failure.rejects_caller), (kind, rejects), "{answer}");
        }
    }

    #[test]
    fn case_usage_kept_if_the_text_cannot_be_read() {
        let answer = r#"{"content":[{"type":"text","text":"cut \ud83d"}],"usage":{"input_tokens":3,"output_tokens":4}}"#;
        let reply = wire::parse::<AnthropicMessage>(answer.as_bytes());
        assert_eq!(reply.usage.and_then(|usage| usage.total_tokens), Some(7));
        assert!(matches!(reply.text, Err(ModelTextError::Failed(_))));
    }
}
