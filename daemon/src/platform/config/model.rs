//! The model, and how it is asked.

use super::{ConfigError, check_url, not_allowed, within};
use oracled_domain::verdict::generation::{LOCKED_MODEL, Settings};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Between the end of all attempts and that of the request there must be so long, for the gate and the disk.
const LEFT_FOR_THE_REST_MS: u64 = 1000;
/// The longest name of a model or a version.
const WORD_MAX_CHARS: usize = 200;

/// Which wire a model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Provider {
    /// None: verdicts are handed in, and lost ones stay lost.
    None,
    /// Google's Gemini API.
    Gemini,
    /// The chat completions of OpenAI, vLLM, llama.cpp, Ollama and others.
    OpenAi,
}

impl TryFrom<String> for Provider {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, &'static str> {
        match word.as_str() {
            "none" => Ok(Self::None),
            "gemini" => Ok(Self::Gemini),
            "openai" => Ok(Self::OpenAi),
            _ => Err("the value is not a provider; allowed: none, gemini, openai"),
        }
    }
}

/// The model, and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Which wire it speaks.
    pub provider: Provider,
    /// Where it is; the provider's own address without it.
    pub base_url: Option<String>,
    /// The version of Gemini's API.
    pub version: String,
    /// Which model.
    pub name: String,
    /// A file that holds the key.
    pub api_key_file: Option<PathBuf>,
    /// Whether a server that speaks OpenAI's wire is sent `top_k`.
    pub send_top_k: bool,
    /// The temperature at which a first verdict is asked for; a lost one always with the locked settings.
    pub original_temperature: f64,
    /// The mass of probability that it is sampled from.
    pub original_top_p: f64,
    /// How many tokens it is sampled from.
    pub original_top_k: u32,
    /// An attempt that takes longer is noted, in milliseconds.
    pub soft_timeout_ms: u64,
    /// An attempt that takes longer is given up, in milliseconds.
    pub hard_timeout_ms: u64,
    /// How long all attempts may take together, in milliseconds.
    pub deadline_ms: u64,
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// How often it is called within a minute, retries included.
    pub calls_per_minute: u32,
    /// How many calls are made at once.
    pub calls_at_once: usize,
}

/// A word that goes into an address and into the log.
fn word(key: &'static str, word: &str) -> Result<(), ConfigError> {
    let visible = |c: char| !c.is_control() && !c.is_whitespace();
    if (1..=WORD_MAX_CHARS).contains(&word.chars().count()) && word.chars().all(visible) {
        return Ok(());
    }
    Err(not_allowed(
        key,
        "empty, too long, or has a character that is not visible",
        format!("1 to {WORD_MAX_CHARS} visible characters"),
    ))
}

impl Default for Model {
    fn default() -> Self {
        let Settings { model, temperature, top_p, top_k, .. } = Settings::locked(LOCKED_MODEL.into());
        Self {
            provider: Provider::Gemini,
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

impl Model {
    /// How a first verdict is asked for.
    #[must_use]
    pub fn original_settings(&self) -> Settings {
        Settings {
            temperature: self.original_temperature,
            top_p: self.original_top_p,
            top_k: self.original_top_k,
            ..Settings::locked(self.name.clone())
        }
    }

    /// Checks what it says; `request_s` is how long a request may take.
    pub(super) fn check(&self, request_s: u64) -> Result<(), ConfigError> {
        if let Some(base_url) = &self.base_url {
            check_url("model.base_url", base_url)?;
        }
        if self.provider == Provider::None {
            return Ok(());
        }
        word("model.name", &self.name)?;
        word("model.version", &self.version)?;
        if self.provider == Provider::OpenAi && self.name == LOCKED_MODEL {
            return Err(not_allowed("model.name", "not set", "the name of a model that the server knows"));
        }
        within("model.original_temperature", self.original_temperature, 0.0..=2.0)?;
        within("model.original_top_p", self.original_top_p, 0.0..=1.0)?;
        within("model.original_top_k", self.original_top_k, 1..=1000)?;
        within("model.hard_timeout_ms", self.hard_timeout_ms, 100..=600_000)?;
        within("model.soft_timeout_ms", self.soft_timeout_ms, 1..=self.hard_timeout_ms)?;
        let most = (request_s * 1000).saturating_sub(LEFT_FOR_THE_REST_MS);
        if !(100..=most).contains(&self.deadline_ms) {
            let allowed = format!("100 to {most}: a second less than `limits.request_s`");
            return Err(not_allowed("model.deadline_ms", self.deadline_ms, allowed));
        }
        within("model.max_retries", self.max_retries, 0..=10)?;
        within("model.calls_per_minute", self.calls_per_minute, 1..=1_000_000)?;
        within("model.calls_at_once", self.calls_at_once, 1..=10_000)
    }
}
