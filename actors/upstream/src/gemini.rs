//! Gemini's API: `POST …/models/{model}:generateContent`.

use super::wire::{self, ModelResponse, ReplyMetadata, WireReply};
use super::{
    BoxFuture, HeaderKey, ModelAttempt, ModelClient, ModelRefusal, ModelTextError, RequestFailure,
    UpstreamEndpoint, UpstreamEndpointError,
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
const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// A model that is called through Gemini's API.
#[derive(Debug, Clone)]
pub struct GeminiClient {
    endpoint: UpstreamEndpoint,
    version: String,
}

impl GeminiClient {
    /// Creates a client of the API at `base`, in `version`, for example `v1beta`.
    ///
    /// # Errors
    /// If `base` is not a base URL, or `key` does not fit into a header.
    pub fn new(
        base: &str,
        version: String,
        key: SecretString,
        clock: Clock,
    ) -> Result<Self, UpstreamEndpointError> {
        let key = HeaderKey::in_header(KEY_HEADER, key)?;
        Ok(Self { endpoint: UpstreamEndpoint::new(base, Some(key), clock)?, version })
    }
}

impl ModelClient for GeminiClient {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        self.version_of(&settings.model)
    }

    fn version_of(&self, name: &str) -> String {
        format!("{}/{name}", self.version)
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let method = format!("{}:generateContent", settings.model);
        let request =
            self.endpoint.post(&[&self.version, "models", &method], &build_request_body(prompt, settings));
        Box::pin(wire::attempt::<GeminiResponse>(&self.endpoint, request, timeout))
    }

    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        Box::pin(wire::probe(&self.endpoint, self.endpoint.get(&[&self.version, "models", model]), timeout))
    }
}

fn build_request_body(prompt: &ModelPrompt, settings: &GenerationSettings) -> Value {
    let schema = settings.response_schema.then(|| response_schema(prompt.tier()));
    let thinking = settings.thinking_budget.map(|tokens| json!({"thinkingBudget": tokens}));
    let config = json!({
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "candidateCount": settings.candidate_count,
        "maxOutputTokens": settings.max_output_tokens,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": thinking,
    });
    json!({
        "contents": [{"role": "user", "parts": [{"text": prompt.text()}]}],
        "generationConfig": wire::without_nulls(config),
    })
}

/// An answer. All of its parts are optional, because answers without each of them occur.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiResponse {
    candidates: Option<Vec<GeminiCandidate>>,
    prompt_feedback: Option<PromptFeedback>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiMetadata {
    #[serde(default, deserialize_with = "wire::if_readable")]
    usage_metadata: Option<UsageMetadata>,
    #[serde(default, deserialize_with = "wire::if_readable")]
    model_version: Option<String>,
}

impl WireReply for GeminiResponse {
    type Metadata = GeminiMetadata;
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate {
    content: Option<GeminiContent>,
    finish_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct GeminiContent {
    parts: Option<Vec<GeminiPart>>,
}

#[derive(Debug, Deserialize)]
struct GeminiPart {
    text: Option<String>,
    thought: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    #[serde(default, deserialize_with = "wire::token_count")]
    prompt_token_count: Option<u64>,
    /// Without the tokens for thinking.
    #[serde(default, deserialize_with = "wire::token_count")]
    candidates_token_count: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    thoughts_token_count: Option<u64>,
    #[serde(default, deserialize_with = "wire::token_count")]
    total_token_count: Option<u64>,
}

impl From<GeminiMetadata> for ReplyMetadata {
    fn from(GeminiMetadata { usage_metadata, model_version }: GeminiMetadata) -> Self {
        let usage = usage_metadata.map(|usage| ModelTokenUsage {
            prompt_tokens: usage.prompt_token_count,
            output_tokens: add_tokens(usage.candidates_token_count, usage.thoughts_token_count),
            thinking_tokens: usage.thoughts_token_count,
            total_tokens: usage.total_token_count,
        });
        Self { usage, oracle_version: model_version }
    }
}

impl From<GeminiResponse> for ModelResponse {
    fn from(content: GeminiResponse) -> Self {
        let blocked = content.prompt_feedback.and_then(|feedback| feedback.block_reason);
        let candidate = content.candidates.unwrap_or_default().into_iter().next();
        let finish_reason = candidate.as_ref().and_then(|candidate| candidate.finish_reason.clone());
        let text = match (blocked, candidate) {
            (Some(reason), _) => Err(ModelRefusal::PromptBlocked(reason.as_str().into()).into()),
            (None, None) => Err(wire::without_member("candidates")),
            (None, Some(candidate)) => candidate.text(),
        };
        Self { text, finish_reason }
    }
}

impl GeminiCandidate {
    fn text(self) -> Result<String, ModelTextError> {
        if let Some(failure) = wire::part_error(self.error.as_ref()) {
            return Err(failure);
        }
        match self.finish_reason.as_deref() {
            Some("STOP") => {}
            reason => {
                return Err(ModelRefusal::Stopped(reason.unwrap_or("no reason given").into()).into());
            }
        }
        let parts = self.content.and_then(|content| content.parts).unwrap_or_default();
        let texts = parts.into_iter().filter(|part| part.thought != Some(true));
        Ok(texts.filter_map(|part| part.text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestFailureKind;

    fn response_of(answer: Value) -> wire::ParsedReply {
        wire::parse::<GeminiResponse>(answer.to_string().as_bytes())
    }

    fn candidate(candidate: Value) -> Result<String, ModelTextError> {
        response_of(json!({"candidates": [candidate]})).text
    }

    #[test]
    fn text_joins_all_parts_except_thoughts() {
        let parts = json!([
            {"text": "I wonder", "thought": true}, {"text": "{\"a\":"}, {"inlineData": {}}, {"text": "1}", "thought": false}
        ]);
        let answer =
            json!({"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0});
        assert_eq!(candidate(answer), Ok("{\"a\":1}".to_owned()));
    }

    #[test]
    fn text_is_empty_where_parts_of_the_answer_are_missing() {
        for content in
            [json!(null), json!({}), json!({"parts": null}), json!({"parts": []}), json!({"parts": [{}]})]
        {
            let answer = candidate(json!({"content": content, "finishReason": "STOP"}));
            assert_eq!(answer, Ok(String::new()), "no text, which is refused further on");
        }
    }

    #[test]
    fn unfinished_or_blocked_answer_is_refused() {
        let content = json!({"parts": [{"text": "{}"}]});
        for reason in ["MAX_TOKENS", "SAFETY", "RECITATION", "SOMETHING_NEW", "stop"] {
            let answer = candidate(json!({"content": content, "finishReason": reason}));
            assert_eq!(answer, Err(ModelRefusal::Stopped(reason.into()).into()));
        }
        assert_eq!(
            candidate(json!({"content": content})),
            Err(ModelRefusal::Stopped("no reason given".into()).into())
        );
        let blocked = json!({
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "candidates": [{"content": content, "finishReason": "STOP"}],
        });
        let reason = ModelRefusal::PromptBlocked("PROHIBITED_CONTENT".into());
        assert_eq!(response_of(blocked).text, Err(reason.into()));
    }

    #[test]
    fn usage_and_model_version_are_kept() {
        let response = response_of(json!({
            "candidates": [{"finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 40, "totalTokenCount": 45,
            },
            "modelVersion": "gemini-2.5-flash-001",
        }));
        let usage = ModelTokenUsage {
            prompt_tokens: Some(3),
            output_tokens: Some(42),
            thinking_tokens: Some(40),
            total_tokens: Some(45),
        };
        assert_eq!(response.usage, Some(usage));
        assert_eq!(response.oracle_version.as_deref(), Some("gemini-2.5-flash-001"));
        assert_eq!(response.finish_reason.as_deref(), Some("STOP"));
    }

    #[test]
    fn case_200_error_is_a_failure_of_the_model() {
        let error = |status: u16, word: &str| json!({"code": status, "message": "x", "status": word});
        let key_invalid =
            json!({"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}});
        for (answer, status, rejects) in [
            (json!({"error": error(429, "RESOURCE_EXHAUSTED")}), 429, false),
            (json!([{"error": error(503, "UNAVAILABLE")}]), 503, false),
            (json!({"error": error(403, "PERMISSION_DENIED")}), 403, true),
            (key_invalid, 400, true),
            (json!({"candidates": [{"error": error(500, "INTERNAL")}]}), 500, false),
            (json!({"error": "Rate limit exceeded"}), 429, false),
            (json!({"detail": "x"}), 500, false),
            (json!({"candidates": null}), 500, false),
            (json!({"candidates": [], "usageMetadata": {}}), 500, false),
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
    fn answer_without_a_candidate_is_unreadable_if_it_has_output_tokens() {
        for (usage, kind) in [
            (json!({"promptTokenCount": 3, "thoughtsTokenCount": 40}), RequestFailureKind::Unreadable),
            (json!({"promptTokenCount": 3, "totalTokenCount": 3}), RequestFailureKind::ErrorAnswer(500)),
        ] {
            let answer = json!({"candidates": [], "usageMetadata": usage});
            let Err(ModelTextError::Failed(failure)) = response_of(answer).text else { panic!("{usage}") };
            assert_eq!(failure.kind, kind, "{usage}");
        }
    }

    #[test]
    fn case_usage_kept_if_the_text_cannot_be_read() {
        let answer = r#"{"candidates":[{"content":{"parts":[{"text":"cut \ud83d"}]}}],
            "usageMetadata":{"totalTokenCount":7}}"#;
        let reply = wire::parse::<GeminiResponse>(answer.as_bytes());
        assert_eq!(reply.usage.and_then(|usage| usage.total_tokens), Some(7));
        assert!(matches!(reply.text, Err(ModelTextError::Failed(_))));
    }
}
