//! The API of OpenAI and of the many servers compatible with it: `POST …/chat/completions`.

use super::wire::{self, ModelResponse, ReplyMetadata, TextContent, WireReply};
use super::{
    BoxFuture, HeaderKey, ModelAttempt, ModelClient, ModelRefusal, ModelTextError, RequestFailure,
    UpstreamEndpoint, UpstreamEndpointError,
};
use actors_platform::clock::Clock;
use domain_verdict::generation::{GenerationSettings, ModelTokenUsage, response_schema};
use domain_verdict::prompt::ModelPrompt;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The seed for servers that sample even at a temperature of 0. The number does not matter, but it must not change.
const SEED: u32 = 0;
/// The finish reasons of a complete text. `stop` is OpenAI's own; other servers name the token that ended the text.
const COMPLETE: [&str; 4] = ["stop", "eos", "eos_token", "end_turn"];
/// The finish reason by which gateways report that the model failed during its answer.
const FAILED: &str = "error";

/// A model that is called through an OpenAI-compatible API.
#[derive(Debug, Clone)]
pub struct OpenAiClient {
    endpoint: UpstreamEndpoint,
}

impl OpenAiClient {
    /// Creates a client of the API at `base`, which usually ends in `/v1`. A self-hosted server may need no
    /// key.
    ///
    /// # Errors
    /// If `base` is not a base URL, or `key` does not fit into a header.
    pub fn new(base: &str, key: Option<SecretString>, clock: Clock) -> Result<Self, UpstreamEndpointError> {
        let key = key.map(HeaderKey::bearer).transpose()?;
        Ok(Self { endpoint: UpstreamEndpoint::new(base, key, clock)? })
    }
}

fn build_request_body(prompt: &ModelPrompt, settings: &GenerationSettings) -> Value {
    let format = if settings.response_schema {
        let schema = response_schema(prompt.tier());
        json!({"type": "json_schema", "json_schema": {"name": "verdict", "strict": true, "schema": schema}})
    } else {
        json!({"type": "json_object"})
    };
    wire::without_nulls(json!({
        "model": settings.model,
        "messages": [{"role": "user", "content": prompt.text()}],
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        // not part of OpenAI's own API, but of many servers compatible with it
        "top_k": settings.top_k,
        "n": settings.candidate_count,
        "max_completion_tokens": settings.max_output_tokens,
        "seed": SEED,
        "response_format": format,
    }))
}

impl ModelClient for OpenAiClient {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        settings.model.clone()
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let request = self.endpoint.post(&["chat", "completions"], &build_request_body(prompt, settings));
        Box::pin(wire::attempt::<OpenAiCompletion>(&self.endpoint, request, timeout))
    }

    fn probe<'a>(&'a self, _: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        Box::pin(wire::probe(&self.endpoint, self.endpoint.get(&["models"]), timeout))
    }
}

#[derive(Debug, Deserialize)]
struct OpenAiCompletion {
    choices: Option<Vec<OpenAiChoice>>,
}

#[derive(Debug, Deserialize)]
struct OpenAiMetadata {
    #[serde(default, deserialize_with = "wire::if_readable")]
    usage: Option<OpenAiUsage>,
    #[serde(default, deserialize_with = "wire::if_readable")]
    model: Option<String>,
}

impl WireReply for OpenAiCompletion {
    type Metadata = OpenAiMetadata;
}

#[derive(Debug, Deserialize)]
struct OpenAiChoice {
    message: Option<OpenAiMessage>,
    finish_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct OpenAiMessage {
    content: Option<TextContent>,
    refusal: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OpenAiUsage {
    #[serde(default, deserialize_with = "wire::token_count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    total_tokens: Option<u64>,
    #[serde(default, deserialize_with = "wire::if_readable")]
    completion_tokens_details: Option<OpenAiTokenDetails>,
}

#[derive(Debug, Deserialize)]
struct OpenAiTokenDetails {
    /// A part of the completion's tokens.
    #[serde(default, deserialize_with = "wire::token_count")]
    reasoning_tokens: Option<u64>,
}

impl From<OpenAiMetadata> for ReplyMetadata {
    fn from(OpenAiMetadata { usage, model }: OpenAiMetadata) -> Self {
        let usage = usage.map(|usage| ModelTokenUsage {
            prompt_tokens: usage.prompt_tokens,
            output_tokens: usage.completion_tokens,
            thinking_tokens: usage.completion_tokens_details.and_then(|details| details.reasoning_tokens),
            total_tokens: usage.total_tokens,
        });
        Self { usage, oracle_version: model }
    }
}

impl From<OpenAiCompletion> for ModelResponse {
    fn from(completion: OpenAiCompletion) -> Self {
        let choice = completion.choices.unwrap_or_default().into_iter().next();
        let finish_reason = choice.as_ref().and_then(|choice| choice.finish_reason.clone());
        let text = choice.map_or_else(|| Err(wire::without_member("choices")), OpenAiChoice::text);
        Self { text, finish_reason }
    }
}

impl OpenAiChoice {
    fn text(self) -> Result<String, ModelTextError> {
        if let Some(failure) = wire::part_error(self.error.as_ref()) {
            return Err(failure);
        }
        let OpenAiMessage { content, refusal } = self.message.unwrap_or_default();
        let refusal = refusal.or_else(|| content.as_ref()?.refusal().map(ToOwned::to_owned));
        if let Some(words) = refusal.filter(|words| !words.is_empty()) {
            return Err(ModelRefusal::Declined(words.as_str().into()).into());
        }
        match self.finish_reason.as_deref() {
            Some(reason) if COMPLETE.contains(&reason) => {
                Ok(content.map(TextContent::into_text).unwrap_or_default())
            }
            Some(FAILED) => Err(wire::without_member("choices[0].error")),
            reason => Err(ModelRefusal::Stopped(reason.unwrap_or("no reason given").into()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestFailureKind;
    use crate::http::HttpReply;
    use reqwest::StatusCode;

    fn response_of(answer: Value) -> wire::ParsedReply {
        wire::parse::<OpenAiCompletion>(answer.to_string().as_bytes())
    }

    #[test]
    fn unfinished_or_declined_answer_is_refused() {
        let choice = |message: Value, reason: Value| {
            response_of(json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})).text
        };
        let message = json!({"role": "assistant", "content": "{}", "refusal": null});
        assert_eq!(choice(message.clone(), json!("stop")), Ok("{}".to_owned()));
        for reason in ["length", "content_filter", "tool_calls", "STOP"] {
            assert_eq!(
                choice(message.clone(), json!(reason)),
                Err(ModelRefusal::Stopped(reason.into()).into())
            );
        }
        assert_eq!(choice(message, json!(null)), Err(ModelRefusal::Stopped("no reason given".into()).into()));
        let declined = json!({"content": "{}", "refusal": "I cannot judge this."});
        assert_eq!(
            choice(declined, json!("stop")),
            Err(ModelRefusal::Declined("I cannot judge this.".into()).into())
        );
        for message in [json!(null), json!({}), json!({"content": null})] {
            assert_eq!(
                choice(message, json!("stop")),
                Ok(String::new()),
                "no text, which is refused further on"
            );
        }
    }

    #[test]
    fn reasoning_tokens_are_a_part_of_the_output_tokens() {
        let response = response_of(json!({
            "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 3, "completion_tokens": 42, "total_tokens": 45,
                "completion_tokens_details": {"reasoning_tokens": 40},
            },
        }));
        let usage = ModelTokenUsage {
            prompt_tokens: Some(3),
            output_tokens: Some(42),
            thinking_tokens: Some(40),
            total_tokens: Some(45),
        };
        assert_eq!(response.usage, Some(usage));
    }

    #[test]
    fn number_of_tokens_that_cannot_be_right_is_unknown_and_the_answer_is_read() {
        let odd = [json!(-1000), json!(200.5), json!("1000"), json!(1e30), json!(u64::MAX), Value::Null];
        for tokens in odd {
            let response = response_of(json!({
                "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": tokens, "completion_tokens": 42},
            }));
            assert_eq!(response.text, Ok("{}".to_owned()));
            let usage = response.usage.expect("the other number is known");
            assert_eq!((usage.prompt_tokens, usage.output_tokens), (None, Some(42)));
        }
        let response = response_of(json!({
            "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}], "usage": "none",
        }));
        assert_eq!((response.text, response.usage), (Ok("{}".to_owned()), None));
    }

    /// The kind and the detail of the failure of an answer, and whether it rejects the caller.
    fn failure_of(answer: Value) -> (RequestFailureKind, String, bool) {
        match response_of(answer.clone()).text {
            Err(ModelTextError::Failed(failure)) => {
                (failure.kind, failure.text.reveal().to_owned(), failure.rejects_caller)
            }
            other => panic!("{answer}: {other:?}"),
        }
    }

    #[test]
    fn case_200_error_is_a_failure_of_the_model() {
        let choice = |error: Value| json!({"choices": [{"error": error, "finish_reason": "error", "message": {"content": ""}}]});
        for (answer, status, rejects) in [
            (json!({"error": {"code": 429, "message": "Rate limit exceeded"}}), 429, false),
            (json!({"choices": null, "error": {"code": "502", "message": "x"}}), 502, false),
            (json!({"choices": null}), 500, false),
            (json!({"choices": []}), 500, false),
            (json!({}), 500, false),
            (json!({"error": "Rate limit exceeded"}), 429, false),
            (json!({"detail": "Not authenticated"}), 401, true),
            (json!({"message": "forbidden"}), 403, true),
            (choice(json!({"code": 503, "message": "Provider returned error"})), 503, false),
            (choice(json!(null)), 500, false),
            (json!([{"error": {"code": 404, "message": "no such model"}}]), 404, true),
        ] {
            let (kind, _, rejects_caller) = failure_of(answer.clone());
            assert_eq!(
                (kind, rejects_caller),
                (RequestFailureKind::ErrorAnswer(status), rejects),
                "{answer}"
            );
        }
        let (_, detail, _) = failure_of(json!({"error": {"code": 429, "message": "Rate limit exceeded"}}));
        assert_eq!(detail, "Rate limit exceeded");
    }

    #[test]
    fn answer_without_a_choice_is_unreadable_if_it_has_output_tokens() {
        let unreadable = RequestFailureKind::Unreadable;
        for (tokens, kind) in [
            (json!(40), unreadable),
            (json!(0), RequestFailureKind::ErrorAnswer(500)),
            (json!(null), RequestFailureKind::ErrorAnswer(500)),
        ] {
            let usage = json!({"prompt_tokens": 300, "completion_tokens": tokens});
            assert_eq!(failure_of(json!({"choices": [], "usage": usage})).0, kind, "{usage}");
        }
        let usage = json!({"completion_tokens": 40});
        let failed =
            json!({"choices": [{"finish_reason": "error", "message": {"content": "x"}}], "usage": usage});
        assert_eq!(failure_of(failed).0, unreadable);
        let error = json!({"code": 503, "message": "x"});
        let failed = json!({"choices": [{"error": error, "finish_reason": "error"}], "usage": usage});
        assert_eq!(failure_of(failed).0, RequestFailureKind::ErrorAnswer(503));
        let retried = RequestFailure::new(unreadable, String::new());
        assert!(!retried.is_retryable() && retried.is_fault_of_upstream());
    }

    #[test]
    fn flagged_prompt_is_blocked_with_and_without_an_error_status() {
        let now = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let endpoint = UpstreamEndpoint::new("http://a", None, Clock::fixed(now)).expect("a base");
        let metadata = json!({"reasons": ["violence"], "flagged_input": "Sell ..."});
        let body = json!({"error": {"code": 403, "message": "flagged", "metadata": metadata}}).to_string();
        for status in [StatusCode::FORBIDDEN, StatusCode::OK] {
            let reply = HttpReply { status, retry_after: None, body: body.clone().into() };
            let ModelAttempt::AnswerReceived(_, text) =
                wire::parse_reply::<OpenAiCompletion>(&endpoint, &reply)
            else {
                panic!("the answer arrived")
            };
            assert_eq!(text, Err(ModelRefusal::PromptBlocked("violence".into()).into()), "{status}");
        }
        let body = json!({"error": {"code": 403, "message": "no access"}}).to_string();
        let reply = HttpReply { status: StatusCode::FORBIDDEN, retry_after: None, body: body.into() };
        assert!(endpoint.check(&reply).is_err_and(|failure| failure.rejects_caller));
    }

    #[test]
    fn empty_error_beside_a_complete_answer_is_none() {
        for error in [json!(0), json!({"code": null, "message": null}), json!([])] {
            let choice = json!({"message": {"content": "{}"}, "finish_reason": "stop", "error": error});
            let answer = json!({"choices": [choice], "error": error});
            assert_eq!(response_of(answer).text, Ok("{}".to_owned()), "{error}");
        }
    }

    #[test]
    fn case_content_parts_are_joined() {
        let parts = json!([{"type": "thinking", "thinking": [1]}, {"type": "text", "text": "{\"a\":"}, {"type": "text", "text": "1}"}, 7]);
        let answer = |content: Value| {
            response_of(json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})).text
        };
        assert_eq!(answer(parts), Ok("{\"a\":1}".to_owned()));
        let declined = answer(json!([{"type": "refusal", "refusal": "no"}]));
        assert_eq!(declined, Err(ModelRefusal::Declined("no".into()).into()));
    }

    #[test]
    fn case_finish_eos_is_a_complete_answer() {
        for (reason, complete) in
            [("eos", true), ("eos_token", true), ("length", false), ("content_filter", false)]
        {
            let answer = json!({"choices": [{"message": {"content": "{}"}, "finish_reason": reason}]});
            assert_eq!(response_of(answer).text.is_ok(), complete, "{reason}");
        }
    }

    #[test]
    fn case_usage_kept_if_the_text_cannot_be_read() {
        let answer = r#"{"model":"m","choices":[{"message":{"content":"cut \ud83d"},"finish_reason":"length"}],
            "usage":{"prompt_tokens":300,"completion_tokens":40}}"#;
        let cut_bytes = [
            &b"{\"choices\":[{\"message\":{\"content\":\"cut \xf0\x9f"[..],
            b"\"}}],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":40}}",
        ]
        .concat();
        let other_format = br#"{"choices":[{"message":{"content":7}}],"usage":{"prompt_tokens":300,"completion_tokens":40}}"#;
        for body in [answer.as_bytes(), &cut_bytes, &other_format[..]] {
            let reply = wire::parse::<OpenAiCompletion>(body);
            let usage = reply.usage.expect("the usage is read");
            assert_eq!((usage.prompt_tokens, usage.output_tokens), (Some(300), Some(40)));
            assert!(
                matches!(reply.text, Err(ModelTextError::Failed(failure)) if failure.kind == RequestFailureKind::Unreadable)
            );
        }
    }
}
