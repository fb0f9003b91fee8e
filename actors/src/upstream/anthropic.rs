//! Anthropic's Messages API: `POST /v1/messages`.

use super::wire::{self, ModelResponse};
use super::{
    BoxFuture, HeaderKey, ModelAttempt, ModelClient, ModelRefusal, RequestFailure, UpstreamEndpoint,
    UpstreamEndpointError,
};
use crate::platform::clock::Clock;
use oracled_domain::ModelPrompt;
use oracled_domain::verdict::generation::{GenerationSettings, ModelTokenUsage, add_tokens};
use oracled_domain::verdict::response_schema::response_schema;
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
    content: Option<Vec<AnthropicBlock>>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::if_readable")]
    usage: Option<AnthropicUsage>,
    model: Option<String>,
}

#[derive(Debug, Deserialize)]
struct AnthropicBlock {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
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

impl From<AnthropicMessage> for ModelResponse {
    fn from(message: AnthropicMessage) -> Self {
        let usage = message.usage.map(|usage| {
            let cached = add_tokens(usage.cache_creation_input_tokens, usage.cache_read_input_tokens);
            let prompt_tokens = add_tokens(usage.input_tokens, cached);
            ModelTokenUsage {
                prompt_tokens,
                output_tokens: usage.output_tokens,
                thinking_tokens: None,
                total_tokens: add_tokens(prompt_tokens, usage.output_tokens),
            }
        });
        let text = match message.stop_reason.as_deref() {
            Some("end_turn") => {
                let texts = message.content.unwrap_or_default().into_iter();
                let texts = texts.filter(|block| block.kind.as_deref() == Some("text"));
                Ok(texts.filter_map(|block| block.text).collect())
            }
            Some("refusal") => Err(ModelRefusal::Declined("stop_reason refusal".to_owned())),
            reason => Err(ModelRefusal::Stopped(reason.unwrap_or("no reason given").to_owned())),
        };
        Self { text, finish_reason: message.stop_reason, usage, oracle_version: message.model }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_of(answer: Value) -> ModelResponse {
        serde_json::from_value::<AnthropicMessage>(answer).expect("an answer").into()
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
            assert_eq!(stopped(json!(reason)), Err(ModelRefusal::Stopped(reason.to_owned())));
        }
        assert_eq!(stopped(json!(null)), Err(ModelRefusal::Stopped("no reason given".into())));
        assert!(matches!(stopped(json!("refusal")), Err(ModelRefusal::Declined(_))));
    }

    #[test]
    fn text_is_empty_where_parts_of_the_answer_are_missing() {
        for content in [json!(null), json!([]), json!([{}]), json!([{"type": "text"}])] {
            let response = response_of(json!({"content": content, "stop_reason": "end_turn"}));
            assert_eq!(response.text, Ok(String::new()), "no text, which is refused further on");
        }
    }
}
