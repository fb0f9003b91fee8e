//! The settings that a model accepts: the presets of known models, and the combinations that cannot work.

use super::super::{ConfigError, not_allowed_error};
use super::{ModelProvider, ModelSection};

/// The limit of an answer for Anthropic's API, which requires one.
const ANTHROPIC_OUTPUT_TOKENS: u32 = 8192;
/// The smallest thinking budget of Anthropic's API.
const ANTHROPIC_THINKING_MIN: u32 = 1024;
/// The highest temperature that Anthropic's models take.
const ANTHROPIC_TEMPERATURE_MAX: f64 = 1.0;
/// Anthropic's models that take a temperature. Its newer models reject all settings of sampling.
const ANTHROPIC_SAMPLING: [&str; 5] =
    ["claude-haiku-4-5", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-opus-4-5", "claude-opus-4-6"];
/// OpenAI's models that sample as requested, and take a JSON Schema.
const OPENAI_SAMPLING: [&str; 2] = ["gpt-4o", "gpt-4.1"];
/// OpenAI's models that think, take a JSON Schema, and reject all settings of sampling.
const OPENAI_THINKING: [&str; 4] = ["gpt-5", "o1", "o3", "o4"];
/// Gemini's models with a limited thinking budget, with the smallest and the largest one.
const GEMINI_THINKING: [(&str, u32, u32); 2] =
    [("gemini-2.5-pro", 128, 32_768), ("gemini-2.5-flash", 0, 24_576)];

/// The settings that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelTakes {
    pub(super) temperature: bool,
    pub(super) top_p: bool,
    pub(super) top_k: bool,
    pub(super) schema: bool,
    pub(super) thinking_budget: Option<u32>,
}

impl ModelTakes {
    /// The preset of the model that `section` names, or that of its provider.
    fn preset(section: &ModelSection) -> Self {
        let begins_with = |names: &[&str]| names.iter().any(|name| section.name.starts_with(name));
        let is_openai = section.provider == ModelProvider::OpenAi && section.base_url.is_none();
        let (sampling, schema) = match section.provider {
            ModelProvider::Anthropic => {
                let is_known = begins_with(&ANTHROPIC_SAMPLING);
                (is_known, is_known)
            }
            ModelProvider::OpenAi if is_openai && begins_with(&OPENAI_THINKING) => (false, true),
            ModelProvider::OpenAi => (true, is_openai && begins_with(&OPENAI_SAMPLING)),
            ModelProvider::Gemini | ModelProvider::None => {
                (true, section.version == "v1beta" && begins_with(&["gemini-2.5-"]))
            }
        };
        let is_flash = section.provider == ModelProvider::Gemini && begins_with(&["gemini-2.5-flash"]);
        Self {
            temperature: sampling,
            // Anthropic's models reject `top_p` next to a temperature
            top_p: sampling && section.provider != ModelProvider::Anthropic,
            top_k: sampling && !is_openai,
            schema,
            thinking_budget: is_flash.then_some(0),
        }
    }
}

impl ModelSection {
    /// The settings that the model accepts: as configured, else by its preset.
    pub(super) fn takes(&self) -> ModelTakes {
        let preset = ModelTakes::preset(self);
        ModelTakes {
            temperature: self.takes_temperature.unwrap_or(preset.temperature),
            top_p: self.takes_top_p.unwrap_or(preset.top_p),
            top_k: self.takes_top_k.unwrap_or(preset.top_k),
            schema: self.takes_schema.unwrap_or(preset.schema),
            thinking_budget: self.thinking_budget.or(preset.thinking_budget),
        }
    }

    /// The highest temperature that the model takes, if its API takes less than 2.
    pub(in crate::platform::config) fn temperature_max(&self) -> Option<f64> {
        let is_less = self.provider == ModelProvider::Anthropic && self.takes().temperature;
        is_less.then_some(ANTHROPIC_TEMPERATURE_MAX)
    }

    /// Checks that the model takes what is configured, as far as its provider documents that.
    pub(super) fn check_takes(&self, table: &str) -> Result<(), ConfigError> {
        let takes = self.takes();
        for (key, is_ignored, default) in [
            ("original_temperature", !takes.temperature && self.original_temperature != 0.0, "0"),
            ("original_top_p", !takes.top_p && self.original_top_p != 1.0, "1"),
            ("original_top_k", !takes.top_k && self.original_top_k != 1, "1"),
        ] {
            if is_ignored {
                let setting = key.trim_start_matches("original_");
                let allowed = format!("{default}, because `takes_{setting}` is false for this model");
                return Err(not_allowed_error(
                    format!("{table}.{key}"),
                    "a setting that is not sent",
                    allowed,
                ));
            }
        }
        match self.provider {
            ModelProvider::Anthropic => self.check_anthropic(table, takes),
            ModelProvider::OpenAi if self.thinking_budget.is_some() => Err(not_allowed_error(
                format!("{table}.thinking_budget"),
                "set",
                "no value: the API of `openai` has no thinking budget",
            )),
            ModelProvider::Gemini => self.check_gemini(table, takes),
            ModelProvider::OpenAi | ModelProvider::None => Ok(()),
        }
    }

    fn check_gemini(&self, table: &str, takes: ModelTakes) -> Result<(), ConfigError> {
        let limits = GEMINI_THINKING.iter().find(|(name, ..)| self.name.starts_with(name));
        match (takes.thinking_budget, limits) {
            (Some(budget), Some((name, least, most))) if !(*least..=*most).contains(&budget) => {
                let allowed = format!("{least} to {most} for {name}");
                Err(not_allowed_error(format!("{table}.thinking_budget"), budget, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Anthropic's API rejects these combinations with status 400.
    fn check_anthropic(&self, table: &str, takes: ModelTakes) -> Result<(), ConfigError> {
        if takes.temperature && takes.top_p {
            let allowed = "false, because the API rejects `top_p` next to a temperature";
            return Err(not_allowed_error(format!("{table}.takes_top_p"), true, allowed));
        }
        if self.original_temperature > ANTHROPIC_TEMPERATURE_MAX {
            return Err(not_allowed_error(
                format!("{table}.original_temperature"),
                self.original_temperature,
                format!("0 to {ANTHROPIC_TEMPERATURE_MAX} for `anthropic`"),
            ));
        }
        let Some(budget) = takes.thinking_budget.filter(|budget| *budget > 0) else { return Ok(()) };
        let output_tokens = self.max_output_tokens.unwrap_or(ANTHROPIC_OUTPUT_TOKENS);
        if !(ANTHROPIC_THINKING_MIN..output_tokens).contains(&budget) {
            let allowed = format!(
                "0, or {ANTHROPIC_THINKING_MIN} and more, and less than `max_output_tokens` ({output_tokens})"
            );
            return Err(not_allowed_error(format!("{table}.thinking_budget"), budget, allowed));
        }
        for (key, is_taken) in [("takes_temperature", takes.temperature), ("takes_top_k", takes.top_k)] {
            if is_taken {
                let allowed = "false, because the API rejects this setting next to a thinking budget";
                return Err(not_allowed_error(format!("{table}.{key}"), true, allowed));
            }
        }
        Ok(())
    }
}
