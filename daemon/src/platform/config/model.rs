//! The configuration of the model.

mod takes;

use super::{ConfigError, check_range, check_url, exact_amount, not_allowed_error};
use oracled_domain::verdict::cost::ModelPrices;
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
    /// Anthropic's Messages API.
    Anthropic,
}

impl ModelProvider {
    /// The name in `model.provider`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

/// A model and its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// The API of the model: `gemini`, `openai` (chat completions, also of vLLM, llama.cpp and Ollama), `anthropic`
    /// (Messages), or `none`: verdicts are only submitted, and lost verdicts are not regenerated.
    pub provider: ModelProvider,
    /// Base URL of the model. The default is the provider's own.
    pub base_url: Option<String>,
    /// The version of Gemini's API.
    pub version: String,
    /// Name of the model. It must be set for `openai` and `anthropic`.
    pub name: String,
    /// File with the API key. systemd's credential `oracled_gemini-api-key`, `oracled_openai-api-key` or
    /// `oracled_anthropic-api-key` overrides this file. The file overrides the variable `GEMINI_API_KEY`, `OPENAI_API_KEY`
    /// or `ANTHROPIC_API_KEY`. [Keys](../models.md#keys) has the cases in which no key is required.
    #[schema(value_type = Option<String>)]
    pub api_key_file: Option<PathBuf>,
    /// Whether requests contain the temperature. The default is that of [the model](../models.md#what-a-model-takes), as for
    /// the other keys with `takes_`.
    pub takes_temperature: Option<bool>,
    /// Whether requests contain `top_p`.
    pub takes_top_p: Option<bool>,
    /// Whether requests contain `top_k`.
    pub takes_top_k: Option<bool>,
    /// Whether requests contain the JSON Schema of the verdict.
    pub takes_schema: Option<bool>,
    /// Maximum number of tokens for thinking; 0 disables it. It is sent only if it is set here, or known for
    /// [the model](../models.md#what-a-model-takes).
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub thinking_budget: Option<u32>,
    /// Maximum number of tokens of an answer, thinking included. It is sent only if it is set; `anthropic` requires it, and
    /// gets 8192.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_output_tokens: Option<u32>,
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
    /// others are spread over the minute. Beyond the limit, orders wait, and reads of lost verdicts get 503 `model_busy`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub calls_per_minute: u32,
    /// Maximum number of concurrent requests to the model. Beyond the limit, orders wait, and reads of lost verdicts get
    /// 503 `model_busy`.
    #[schema(minimum = 1, maximum = 10_000)]
    pub calls_at_once: usize,
    /// Price of a million tokens of prompts, in `costs.currency`. With it, `output_price` must be set, and each call has a
    /// cost.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub input_price: Option<f64>,
    /// Price of a million tokens that the model writes, thinking included.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub output_price: Option<f64>,
    /// The names of further models, in the order in which they are tried: each makes first verdicts while the models before
    /// it may not be called. Only `[model]` has this key.
    pub fallbacks: Vec<String>,
}

/// Checks a word that is part of a URL and of the log.
fn word(key: String, word: &str) -> Result<(), ConfigError> {
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
        Self {
            provider: ModelProvider::Gemini,
            base_url: None,
            version: "v1beta".into(),
            name: LOCKED_MODEL.into(),
            api_key_file: None,
            takes_temperature: None,
            takes_top_p: None,
            takes_top_k: None,
            takes_schema: None,
            thinking_budget: None,
            max_output_tokens: None,
            original_temperature: 0.0,
            original_top_p: 1.0,
            original_top_k: 1,
            soft_timeout_ms: 2000,
            hard_timeout_ms: 20_000,
            deadline_ms: 28_000,
            max_retries: 3,
            calls_per_minute: 60,
            calls_at_once: 32,
            input_price: None,
            output_price: None,
            fallbacks: Vec::new(),
        }
    }
}

impl ModelSection {
    /// The settings for a first verdict: those that the model takes.
    #[must_use]
    pub fn original_settings(&self) -> GenerationSettings {
        let takes = self.takes();
        GenerationSettings {
            temperature: takes.temperature.then_some(self.original_temperature),
            top_p: takes.top_p.then_some(self.original_top_p),
            top_k: takes.top_k.then_some(self.original_top_k),
            thinking_budget: takes.thinking_budget,
            max_output_tokens: self.max_output_tokens,
            response_schema: takes.schema,
            ..GenerationSettings::locked(self.name.clone())
        }
    }

    /// The prices, in `currency`.
    #[must_use]
    pub fn prices(&self, currency: &str) -> Option<ModelPrices> {
        Some(ModelPrices {
            input: exact_amount(self.input_price?)?,
            output: exact_amount(self.output_price?)?,
            currency: currency.to_owned(),
        })
    }

    /// Checks the values of the table `table` that depend on each other. `request_s` is the time limit of a request, in
    /// seconds.
    pub(super) fn check(&self, table: &str, request_s: u64) -> Result<(), ConfigError> {
        let key = |key: &str| format!("{table}.{key}");
        if let Some(base_url) = &self.base_url {
            check_url(&key("base_url"), base_url)?;
        }
        if self.provider == ModelProvider::None {
            return Ok(());
        }
        word(key("name"), &self.name)?;
        word(key("version"), &self.version)?;
        if self.provider != ModelProvider::Gemini && self.name == LOCKED_MODEL {
            return Err(not_allowed_error(
                key("name"),
                "not set",
                "the name of a model that the server knows",
            ));
        }
        check_range(&key("soft_timeout_ms"), self.soft_timeout_ms, 1..=self.hard_timeout_ms)?;
        let most = (request_s * 1000).saturating_sub(LEFT_FOR_THE_REST_MS);
        if !(100..=most).contains(&self.deadline_ms) {
            let allowed = format!("100 to {most}: a second less than `limits.request_s`");
            return Err(not_allowed_error(key("deadline_ms"), self.deadline_ms, allowed));
        }
        if self.input_price.is_some() != self.output_price.is_some() {
            let missing = if self.input_price.is_none() { "input_price" } else { "output_price" };
            return Err(not_allowed_error(key(missing), "not set", "a price, as for the other direction"));
        }
        self.check_takes(table)
    }
}
