//! The configuration of the models: their calls, the settings that they accept, their names and their order.

use super::applications::ApplicationSections;
use super::{CostsSection, OrdersSection, exact_amount};
use crate::platform::config::{
    ConfigError, Configuration, LimitsSection, Section, TABLE_NAME_MAX_CHARS, check_range, check_url,
    is_table_name, not_allowed_error, without_files,
};
use actors_upstream::CANNED_MODEL;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::ModelPrices;
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Minimum time between the deadline of all attempts and the time limit of a request, in milliseconds. The
/// gate and the disk need it.
const LEFT_FOR_THE_REST_MS: u64 = 1000;
/// Maximum length of the name of a model or a version, in characters.
const WORD_MAX_CHARS: usize = 200;
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
/// The name of the mail service among the oracles.
const MAIL: &str = "mail";
/// The name of the payment service among the oracles.
const LOOKUP: &str = "lookup";

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
    /// The model of the test mode, which calls nothing.
    Canned,
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
            Self::Canned => "canned",
        }
    }
}

/// A model and its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// The API of the model: `gemini`, `openai` (chat completions, also of vLLM, llama.cpp and Ollama), `anthropic`
    /// (Messages), or `none`: verdicts are only submitted, and lost verdicts are not regenerated. `canned` is the model of
    /// [the test mode](../testing.md#canned-answers), which requires `--test-mode`.
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
    /// others are spread over the minute. Beyond the limit, orders wait, and reads of lost verdicts get 503 `model_busy`. The hosts of a
    /// cluster share it.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub calls_per_minute: u32,
    /// Maximum number of concurrent requests to the model. Beyond the limit, orders wait, and reads of lost verdicts get
    /// 503 `model_busy`. The live hosts of a cluster divide it, with at least one for each.
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

/// The models of the tables `models.NAME`, by name.
pub type FurtherModels = BTreeMap<String, ModelSection>;

/// The longest time limit of a call of these models.
pub(crate) fn longest_deadline_ms(first: &ModelSection, further: &FurtherModels) -> u64 {
    further.values().chain([first]).map(|model| model.deadline_ms).max().unwrap_or_default()
}

impl Section for ModelSection {
    fn key(&self) -> &'static str {
        "model"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }

    fn check_limits(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        self.check_models(all).err().into_iter().collect()
    }
}

impl Section for FurtherModels {
    fn key(&self) -> &'static str {
        "models"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }
}

impl ModelSection {
    /// The settings for a first verdict: those that the model takes.
    #[must_use]
    pub fn original_settings(&self) -> GenerationSettings {
        let accepted = self.accepted_settings();
        GenerationSettings {
            temperature: accepted.temperature.then_some(self.original_temperature),
            top_p: accepted.top_p.then_some(self.original_top_p),
            top_k: accepted.top_k.then_some(self.original_top_k),
            thinking_budget: accepted.thinking_budget,
            max_output_tokens: self.max_output_tokens,
            response_schema: accepted.schema,
            ..GenerationSettings::locked(self.model_name().to_owned())
        }
    }

    /// The name of the model.
    #[must_use]
    pub fn model_name(&self) -> &str {
        match self.provider {
            ModelProvider::Canned => CANNED_MODEL,
            _ => &self.name,
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
    fn check_values(&self, table: &str, request_s: u64) -> Result<(), ConfigError> {
        let key = |key: &str| format!("{table}.{key}");
        if let Some(base_url) = &self.base_url {
            check_url(&key("base_url"), base_url)?;
        }
        if self.provider == ModelProvider::None {
            return Ok(());
        }
        word(key("name"), &self.name)?;
        word(key("version"), &self.version)?;
        if self.provider != ModelProvider::Gemini && self.model_name() == LOCKED_MODEL {
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
        self.check_accepted_settings(table)
    }

    /// Checks the models, their names and their order.
    fn check_models(&self, all: &dyn Configuration) -> Result<(), ConfigError> {
        let (further, request_s) = (all.section::<FurtherModels>(), all.section::<LimitsSection>().request_s);
        self.check_values("model", request_s)?;
        for (name, section) in further {
            let table = format!("models.{name}");
            self.check_model_name(name)?;
            if section.provider == ModelProvider::None {
                return Err(not_allowed_error(format!("{table}.provider"), "none", "a provider"));
            }
            if !section.fallbacks.is_empty() {
                let allowed = "no value; `model.fallbacks` has the order of all models";
                return Err(not_allowed_error(format!("{table}.fallbacks"), "set", allowed));
            }
            section.check_values(&table, request_s)?;
        }
        if self.provider == ModelProvider::None && !further.is_empty() {
            let allowed = "a provider, because further models are configured in `models`";
            return Err(not_allowed_error("model.provider", "none", allowed));
        }
        check_budget(all)?;
        check_further_temperatures(all)?;
        let further: Vec<_> = further.keys().map(String::as_str).collect();
        check_names("model.fallbacks", &self.fallbacks, &further)?;
        let first = Some(self.provider.as_str()).filter(|_| self.provider != ModelProvider::None);
        let names: Vec<_> = first.into_iter().chain(further).collect();
        all.section::<ApplicationSections>().iter().try_for_each(|(name, section)| {
            let key = format!("applications.{name}.models");
            match section.models.as_deref() {
                Some([]) => {
                    let allowed =
                        "at least one model; without the key, the application has those of `[model]`";
                    Err(not_allowed_error(key, "an empty list", allowed))
                }
                given => check_names(&key, given.unwrap_or_default(), &names),
            }
        })
    }

    /// Checks the name of a further model. No other oracle may have it.
    fn check_model_name(&self, name: &str) -> Result<(), ConfigError> {
        let taken = [MAIL, LOOKUP, self.provider.as_str()];
        if is_table_name(name) && !taken.contains(&name) {
            return Ok(());
        }
        let allowed = format!(
            "names of 1 to {TABLE_NAME_MAX_CHARS} of `a-z 0-9 -`, except `{MAIL}`, `{LOOKUP}` and the value of \
             `model.provider`"
        );
        Err(not_allowed_error("models", "a table with another name", allowed))
    }

    /// The settings that the model accepts: as configured, else by its preset.
    fn accepted_settings(&self) -> AcceptedSettings {
        let preset = AcceptedSettings::preset(self);
        AcceptedSettings {
            temperature: self.takes_temperature.unwrap_or(preset.temperature),
            top_p: self.takes_top_p.unwrap_or(preset.top_p),
            top_k: self.takes_top_k.unwrap_or(preset.top_k),
            schema: self.takes_schema.unwrap_or(preset.schema),
            thinking_budget: self.thinking_budget.or(preset.thinking_budget),
        }
    }

    /// The highest temperature that the model takes, if its API takes less than 2.
    fn temperature_max(&self) -> Option<f64> {
        let is_less = self.provider == ModelProvider::Anthropic && self.accepted_settings().temperature;
        is_less.then_some(ANTHROPIC_TEMPERATURE_MAX)
    }

    /// Checks that the model takes what is configured, as far as its provider documents that.
    fn check_accepted_settings(&self, table: &str) -> Result<(), ConfigError> {
        let accepted = self.accepted_settings();
        for (key, is_ignored, default) in [
            ("original_temperature", !accepted.temperature && self.original_temperature != 0.0, "0"),
            ("original_top_p", !accepted.top_p && self.original_top_p != 1.0, "1"),
            ("original_top_k", !accepted.top_k && self.original_top_k != 1, "1"),
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
            ModelProvider::Anthropic => self.check_anthropic(table, accepted),
            ModelProvider::OpenAi if self.thinking_budget.is_some() => Err(not_allowed_error(
                format!("{table}.thinking_budget"),
                "set",
                "no value: the API of `openai` has no thinking budget",
            )),
            ModelProvider::Gemini => self.check_gemini(table, accepted),
            ModelProvider::OpenAi | ModelProvider::Canned | ModelProvider::None => Ok(()),
        }
    }

    fn check_gemini(&self, table: &str, accepted: AcceptedSettings) -> Result<(), ConfigError> {
        let limits = GEMINI_THINKING.iter().find(|(name, ..)| self.name.starts_with(name));
        match (accepted.thinking_budget, limits) {
            (Some(budget), Some((name, least, most))) if !(*least..=*most).contains(&budget) => {
                let allowed = format!("{least} to {most} for {name}");
                Err(not_allowed_error(format!("{table}.thinking_budget"), budget, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Anthropic's API rejects these combinations with status 400.
    fn check_anthropic(&self, table: &str, accepted: AcceptedSettings) -> Result<(), ConfigError> {
        if accepted.temperature && accepted.top_p {
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
        let Some(budget) = accepted.thinking_budget.filter(|budget| *budget > 0) else { return Ok(()) };
        let output_tokens = self.max_output_tokens.unwrap_or(ANTHROPIC_OUTPUT_TOKENS);
        if !(ANTHROPIC_THINKING_MIN..output_tokens).contains(&budget) {
            let allowed = format!(
                "0, or {ANTHROPIC_THINKING_MIN} and more, and less than `max_output_tokens` ({output_tokens})"
            );
            return Err(not_allowed_error(format!("{table}.thinking_budget"), budget, allowed));
        }
        for (key, is_taken) in [("takes_temperature", accepted.temperature), ("takes_top_k", accepted.top_k)]
        {
            if is_taken {
                let allowed = "false, because the API rejects this setting next to a thinking budget";
                return Err(not_allowed_error(format!("{table}.{key}"), true, allowed));
            }
        }
        Ok(())
    }
}

/// The settings that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AcceptedSettings {
    temperature: bool,
    top_p: bool,
    top_k: bool,
    schema: bool,
    thinking_budget: Option<u32>,
}

impl AcceptedSettings {
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
            ModelProvider::Gemini | ModelProvider::Canned | ModelProvider::None => {
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

/// A configured model.
#[derive(Debug)]
pub struct ModelEntry<'c> {
    /// Its name among the oracles: that of its table, or the provider's for `[model]`.
    pub oracle_id: UpstreamId,
    /// Its table, for example `models.backup`.
    pub table: String,
    pub section: &'c ModelSection,
    /// Whether it makes first verdicts.
    pub is_in_order: bool,
    /// Whether it is the first model of its provider, which has the provider's variable and credential.
    pub is_first_of_provider: bool,
}

/// The models in the order in which they are tried, then the others. Empty if there is no first model.
pub(crate) fn model_entries(all: &dyn Configuration) -> Vec<ModelEntry<'_>> {
    let (first, further): (&ModelSection, &FurtherModels) = (all.section(), all.section());
    if first.provider == ModelProvider::None {
        return Vec::new();
    }
    let fallbacks = &first.fallbacks;
    let others = further.keys().filter(|name| !fallbacks.contains(name));
    let named = fallbacks.iter().map(|name| (name, true)).chain(others.map(|name| (name, false)));
    let named = named.filter_map(|(name, is_in_order)| {
        let section = further.get(name)?;
        Some((name.parse().ok()?, format!("models.{name}"), section, is_in_order))
    });
    let first_id: Option<UpstreamId> = first.provider.as_str().parse().ok();
    let first = first_id.map(|id| (id, "model".to_owned(), first, true));
    let mut providers = Vec::new();
    let entries = first.into_iter().chain(named).map(|(oracle_id, table, section, is_in_order)| {
        let is_first_of_provider = !providers.contains(&section.provider);
        providers.push(section.provider);
        ModelEntry { oracle_id, table, section, is_in_order, is_first_of_provider }
    });
    entries.collect()
}

/// Checks that the models take the temperatures of further generations.
fn check_further_temperatures(all: &dyn Configuration) -> Result<(), ConfigError> {
    let mut entries = model_entries(all).into_iter();
    let Some(most) = entries.find_map(|model| model.section.temperature_max()) else { return Ok(()) };
    match all.section::<OrdersSection>().further_temperatures.iter().find(|temperature| **temperature > most)
    {
        Some(other) => {
            let allowed = format!("numbers from 0 to {most}, which the API of `anthropic` takes");
            Err(not_allowed_error("orders.further_temperatures", other, allowed))
        }
        None => Ok(()),
    }
}

/// Checks that every model has prices if there is a budget: calls of a model without prices would not count.
fn check_budget(all: &dyn Configuration) -> Result<(), ConfigError> {
    let own = all.section::<ApplicationSections>().iter().find(|(_, section)| section.daily_budget.is_some());
    let key = match (all.section::<CostsSection>().daily_budget, own) {
        (Some(_), _) => "costs.daily_budget".to_owned(),
        (None, Some((name, _))) => format!("applications.{name}.daily_budget"),
        (None, None) => return Ok(()),
    };
    let has_no_price = |model: &ModelEntry<'_>| model.section.input_price.is_none();
    match model_entries(all).into_iter().find(has_no_price) {
        Some(model) => Err(not_allowed_error(
            format!("{}.input_price", model.table),
            "not set",
            format!("a price, because `{key}` is set"),
        )),
        None => Ok(()),
    }
}

/// Checks that the list in `key` has different names of `models`.
pub(super) fn check_names(key: &str, names: &[String], models: &[&str]) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    if names.iter().all(|name| models.contains(&name.as_str()) && seen.insert(name)) {
        return Ok(());
    }
    // a name is not shown, because it can be a misplaced secret
    let allowed = match models {
        [] => "no name, because no such model is configured".to_owned(),
        models => format!("different names of `{}`", models.join("`, `")),
    };
    Err(not_allowed_error(key, "a list with an unknown or repeated name", allowed))
}
