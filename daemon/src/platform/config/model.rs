//! The configuration of the model.

use super::{ConfigError, check_range, check_url, not_allowed_error};
use oracled_domain::verdict::generation::{GenerationSettings, LOCKED_MODEL};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Minimum time between the deadline of all attempts and the time limit of a request, in milliseconds. The
/// gate and the disk need it.
const LEFT_FOR_THE_REST_MS: u64 = 1000;
/// Maximum length of the name of a model or a version, in characters.
const WORD_MAX_CHARS: usize = 200;

/// The API of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelProvider {
    /// No model: verdicts are only submitted, and lost verdicts are not regenerated.
    None,
    /// Google's Gemini API.
    Gemini,
    /// The chat completions of OpenAI, vLLM, llama.cpp, Ollama and others.
    OpenAi,
}

/// The model and its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// The API of the model: `gemini`, `openai` (chat completions, also of vLLM, llama.cpp and Ollama), or `none`: verdicts
    /// are only submitted, and lost verdicts are not regenerated.
    pub provider: ModelProvider,
    /// Base URL of the model. The default is the provider's own.
    pub base_url: Option<String>,
    /// The version of Gemini's API.
    pub version: String,
    /// Name of the model. It must be set for `openai`.
    pub name: String,
    /// File with the API key. systemd's credential `oracled_gemini-api-key` or `oracled_openai-api-key`
    /// overrides this file. The file overrides the variable `GEMINI_API_KEY` or `OPENAI_API_KEY`. Without a
    /// key, `gemini` acts as `none`.
    #[schema(value_type = Option<String>)]
    pub api_key_file: Option<PathBuf>,
    /// Whether requests to a server with OpenAI's API contain `top_k`. OpenAI's own server rejects `top_k`.
    pub send_top_k: bool,
    /// Temperature for a first verdict. A lost verdict is always regenerated with the default.
    #[schema(minimum = 0, maximum = 2)]
    pub original_temperature: f64,
    /// `top_p` for a first verdict. A lost verdict is always regenerated with the default.
    #[schema(minimum = 0, maximum = 1)]
    pub original_top_p: f64,
    /// `top_k` for a first verdict. A lost verdict is always regenerated with the default.
    #[schema(minimum = 1, maximum = 1000)]
    pub original_top_k: u32,
    /// Duration of an attempt after which it is logged as slow; at most `model.hard_timeout_ms`.
    #[schema(minimum = 1, maximum = 600_000)]
    pub soft_timeout_ms: u64,
    /// Time limit of an attempt.
    #[schema(minimum = 100, maximum = 600_000)]
    pub hard_timeout_ms: u64,
    /// Time limit of all attempts together; at least 1 s less than `limits.request_s`.
    #[schema(minimum = 100)]
    pub deadline_ms: u64,
    /// Maximum number of attempts after the first.
    #[schema(minimum = 0, maximum = 10)]
    pub max_retries: u32,
    /// Maximum number of requests to the model within any minute, with retries. A quarter of them may be sent at once; the
    /// others are spread over the minute. Beyond the limit, requests get 503 `model_busy`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub calls_per_minute: u32,
    /// Maximum number of concurrent requests to the model. Beyond the limit, requests get 503 `model_busy`.
    #[schema(minimum = 1, maximum = 10_000)]
    pub calls_at_once: usize,
}

/// Checks a word that is part of a URL and of the log.
fn word(key: &'static str, word: &str) -> Result<(), ConfigError> {
    let visible = |c: char| !c.is_control() && !c.is_whitespace();
    if (1..=WORD_MAX_CHARS).contains(&word.chars().count()) && word.chars().all(visible) {
        return Ok(());
    }
    Err(not_allowed_error(
        key,
        "empty, too long, or has a character that is not visible",
        format!("1 to {WORD_MAX_CHARS} visible characters"),
    ))
}

impl Default for ModelSection {
    fn default() -> Self {
        let GenerationSettings { model, temperature, top_p, top_k, .. } =
            GenerationSettings::locked(LOCKED_MODEL.into());
        Self {
            provider: ModelProvider::Gemini,
            base_url: None,
            version: "v1beta".into(),
            name: model,
            api_key_file: None,
            send_top_k: true,
            original_temperature: temperature,
            original_top_p: top_p,
            original_top_k: top_k,
            soft_timeout_ms: 2000,
            hard_timeout_ms: 20_000,
            deadline_ms: 28_000,
            max_retries: 3,
            calls_per_minute: 60,
            calls_at_once: 32,
        }
    }
}

impl ModelSection {
    /// The settings for a first verdict.
    #[must_use]
    pub fn original_settings(&self) -> GenerationSettings {
        GenerationSettings {
            temperature: self.original_temperature,
            top_p: self.original_top_p,
            top_k: self.original_top_k,
            ..GenerationSettings::locked(self.name.clone())
        }
    }

    /// Checks the values that depend on each other. `request_s` is the time limit of a request, in seconds.
    pub(super) fn check(&self, request_s: u64) -> Result<(), ConfigError> {
        if let Some(base_url) = &self.base_url {
            check_url("model.base_url", base_url)?;
        }
        if self.provider == ModelProvider::None {
            return Ok(());
        }
        word("model.name", &self.name)?;
        word("model.version", &self.version)?;
        if self.provider == ModelProvider::OpenAi && self.name == LOCKED_MODEL {
            return Err(not_allowed_error(
                "model.name",
                "not set",
                "the name of a model that the server knows",
            ));
        }
        check_range("model.soft_timeout_ms", self.soft_timeout_ms, 1..=self.hard_timeout_ms)?;
        let most = (request_s * 1000).saturating_sub(LEFT_FOR_THE_REST_MS);
        if !(100..=most).contains(&self.deadline_ms) {
            let allowed = format!("100 to {most}: a second less than `limits.request_s`");
            return Err(not_allowed_error("model.deadline_ms", self.deadline_ms, allowed));
        }
        Ok(())
    }
}
