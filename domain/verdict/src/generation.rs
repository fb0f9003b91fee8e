//! The generation of a verdict: the settings of a model, the JSON Schema for models that take one, and the outcome with
//! the token usage of an answer (seed: `regen-consistency`, "Gemini API Configuration").

use crate::label::{ProductTier, VerdictDimension, VerdictLabel};
use crate::prompt::{ModelPrompt, TemplateRef, VerdictPrompt};
use domain_base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::{IntoStaticStr, VariantArray};

/// The model that regenerates verdicts.
pub const LOCKED_MODEL: &str = "gemini-2.5-flash";
const LOCKED_TEMPERATURE: f64 = 0.0;
const LOCKED_TOP_P: f64 = 1.0;
const LOCKED_TOP_K: u32 = 1;

/// Generation settings. A setting that the model does not take is missing, and is not sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerationSettings {
    /// The name of the model.
    pub model: String,
    /// The sampling temperature; 0.0 selects the most likely token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub temperature: Option<f64>,
    /// The cumulative probability of the tokens to sample from, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top_p: Option<f64>,
    /// The number of tokens to sample from; 1 selects the most likely token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top_k: Option<u32>,
    /// The number of answers to generate.
    pub candidate_count: u32,
    /// The maximum number of tokens for thinking; 0 disables it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub thinking_budget: Option<u32>,
    /// The maximum number of tokens of the answer, thinking included.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_output_tokens: Option<u32>,
    /// Whether the JSON Schema of the tier is sent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub response_schema: bool,
}

impl GenerationSettings {
    /// The most deterministic settings. Verdicts are only regenerated with these, as far as the model takes them.
    #[must_use]
    pub const fn locked(model: String) -> Self {
        Self {
            model,
            temperature: Some(LOCKED_TEMPERATURE),
            top_p: Some(LOCKED_TOP_P),
            top_k: Some(LOCKED_TOP_K),
            candidate_count: 1,
            thinking_budget: None,
            max_output_tokens: None,
            response_schema: false,
        }
    }

    /// These settings with the locked sampling. A setting that is missing stays missing.
    #[must_use]
    pub fn with_locked_sampling(&self) -> Self {
        Self {
            temperature: self.temperature.map(|_| LOCKED_TEMPERATURE),
            top_p: self.top_p.map(|_| LOCKED_TOP_P),
            top_k: self.top_k.map(|_| LOCKED_TOP_K),
            ..self.clone()
        }
    }
}

impl GenerationSettings {
    /// These settings with another temperature. `top_k` is not sent then, since 1 would always select the same token. A model
    /// that takes no temperature keeps its settings.
    #[must_use]
    pub fn with_temperature(&self, temperature: f64) -> Self {
        match self.temperature {
            None => self.clone(),
            Some(_) => Self { temperature: Some(temperature), top_k: None, ..self.clone() },
        }
    }
}

/// How a verdict was generated, if oracled requested it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictGeneration {
    /// The template of the prompt; absent for a prompt that a caller submitted with the first verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub prompt_template: Option<TemplateRef>,
    /// The SHA-256 of the prompt, without the rejection of an earlier answer.
    pub prompt_sha256: Sha256Hex,
    /// Whether the prompt that was sent has the rejection of an earlier answer; absent if it has none.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub reasked: bool,
    /// The settings.
    pub settings: GenerationSettings,
}

impl VerdictGeneration {
    #[must_use]
    pub fn new(prompt: &ModelPrompt, settings: GenerationSettings) -> Self {
        Self {
            prompt_template: prompt.template().cloned(),
            prompt_sha256: prompt.first_sha256().clone(),
            reasked: prompt.is_reasked(),
            settings,
        }
    }

    /// The prompt, as a session stores it.
    #[must_use]
    pub fn prompt(&self) -> VerdictPrompt {
        let (sha256, template) = (self.prompt_sha256.clone(), self.prompt_template.clone());
        VerdictPrompt { sha256, template, text: None }
    }
}

/// The token usage of an answer, as reported by the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelTokenUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens that the model wrote, thinking included.
    pub output_tokens: Option<u64>,
    /// The part of `output_tokens` that the model used for thinking, if it reports that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub thinking_tokens: Option<u64>,
    /// Tokens charged.
    pub total_tokens: Option<u64>,
}

impl ModelTokenUsage {
    /// The sum of several calls; `None` if there is none.
    #[must_use]
    pub fn sum(usages: impl IntoIterator<Item = Self>) -> Option<Self> {
        usages.into_iter().reduce(|a, b| Self {
            prompt_tokens: add_tokens(a.prompt_tokens, b.prompt_tokens),
            output_tokens: add_tokens(a.output_tokens, b.output_tokens),
            thinking_tokens: add_tokens(a.thinking_tokens, b.thinking_tokens),
            total_tokens: add_tokens(a.total_tokens, b.total_tokens),
        })
    }
}

/// The sum of two numbers of tokens, of which each may be unknown.
#[must_use]
pub fn add_tokens(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

/// The outcome of a request for a verdict by the model.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GenerationOutcome {
    /// The verdict passed and was delivered.
    Delivered,
    /// The verdict passed and replaced a lost one.
    Regenerated,
    /// The session already had a verdict.
    Replayed,
    /// The crosscheck rejected the verdict.
    Rejected,
    /// The rules rejected the verdict.
    RefusedByRules,
    /// The policy refused the verdict.
    RefusedByPolicy,
    /// The policy held the verdict for an operator.
    Held,
    /// The verdict passed, and is one of several opinions of which none was delivered by this attempt.
    Opinion,
    /// The session has another tier or query.
    SessionMismatch,
    /// The session is not known.
    SessionUnknown,
    /// The session's first verdict was already delivered.
    DeliveredAlready,
    /// No model is configured.
    NoModel,
    /// The prompt template is not registered, or has no text for the tier.
    PromptUnavailable,
    /// The policy may hold the verdict, and the key of held verdicts cannot be used.
    HeldKeyUnusable,
    /// The session's verdict was regenerated a short time ago.
    RateLimited,
    /// The limits of model calls are reached.
    ModelBusy,
    /// The daily budget is used up.
    BudgetUsedUp,
    /// The model's circuit is open.
    CircuitOpen,
    /// The model requested a wait.
    QuotaWait,
    /// The model rejected the request, and would reject it again.
    RequestRefused,
    /// The model could not be reached, or failed.
    ModelUnavailable,
    /// The model did not answer in time.
    ModelTimeout,
    /// The model blocked the prompt.
    PromptBlocked,
    /// The model stopped before the end of its answer.
    StoppedEarly,
    /// The model declined to answer.
    Declined,
    /// The answer has no text.
    EmptyAnswer,
    /// The answer cannot be read, or is too large.
    UnreadableAnswer,
    /// The store failed.
    StorageFailed,
    /// The application or an operator cancelled the order.
    Cancelled,
    /// The daemon stopped during the call.
    Interrupted,
    /// An internal error.
    Failed,
}

impl GenerationOutcome {
    /// Whether the model answered, and its answer cannot be delivered. The same prompt may get another answer, but each costs
    /// money.
    #[must_use]
    pub const fn is_rejected_answer(self) -> bool {
        matches!(
            self,
            Self::Rejected
                | Self::RefusedByRules
                | Self::RefusedByPolicy
                | Self::PromptBlocked
                | Self::StoppedEarly
                | Self::Declined
                | Self::EmptyAnswer
        )
    }

    /// Whether the model gave no verdict that can be judged, so that another model is asked rather than this one again.
    #[must_use]
    pub const fn is_without_verdict(self) -> bool {
        matches!(self, Self::PromptBlocked | Self::StoppedEarly | Self::Declined | Self::EmptyAnswer)
    }

    /// Whether the model failed, so that another model may succeed now, and this one later.
    #[must_use]
    pub const fn is_failure_of_model(self) -> bool {
        matches!(
            self,
            Self::RequestRefused | Self::ModelUnavailable | Self::ModelTimeout | Self::UnreadableAnswer
        )
    }

    /// Whether the daemon itself cut the attempt off, by a stop or an internal error. The model may have been paid.
    #[must_use]
    pub const fn is_interruption(self) -> bool {
        matches!(self, Self::Interrupted | Self::Failed)
    }
}

/// The JSON Schema of a verdict of `tier`. It has only the keywords that all providers support: every member is required,
/// and lengths are not limited.
#[must_use]
pub fn response_schema(tier: ProductTier) -> Value {
    let mut members = vec![("verdict", label()), ("summary", text())];
    if tier >= ProductTier::Full {
        let dimension = object([("verdict", label()), ("analysis", text())]);
        let dimensions = VerdictDimension::ALL.map(|name| (name.into(), dimension.clone()));
        members.push(("breakdown", object(dimensions)));
    }
    if tier >= ProductTier::Strategy {
        let tests = json!({"type": "array", "items": text()});
        members
            .push(("strategy", object([("next_step", text()), ("alternative", text()), ("tests", tests)])));
    }
    object(members)
}

fn label() -> Value {
    json!({"type": "string", "enum": VerdictLabel::ALL})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// An object that has exactly `members`.
fn object<'m>(members: impl IntoIterator<Item = (&'m str, Value)>) -> Value {
    let properties: Map<String, Value> =
        members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let required: Vec<_> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::judge;
    use domain_base::payload::VerdictPayload;

    #[test]
    fn locked_sampling_keeps_settings_that_the_model_does_not_take_missing() {
        let first = GenerationSettings {
            temperature: None,
            top_k: Some(40),
            thinking_budget: Some(1024),
            ..GenerationSettings::locked("m".to_owned())
        };
        let again = first.with_locked_sampling();
        assert_eq!((again.temperature, again.top_p, again.top_k), (None, Some(1.0), Some(1)));
        assert_eq!(again.thinking_budget, Some(1024));
        let line = serde_json::to_string(&again).expect("the value serializes");
        assert_eq!(line, r#"{"model":"m","topP":1.0,"topK":1,"candidateCount":1,"thinkingBudget":1024}"#);
        assert_eq!(serde_json::from_str::<GenerationSettings>(&line).expect("valid JSON"), again);
    }

    #[test]
    fn locked_settings_have_values_and_names_of_the_seed() {
        let settings = GenerationSettings::locked(LOCKED_MODEL.to_owned());
        assert_eq!(
            serde_json::to_string(&settings).expect("the value serializes"),
            r#"{"model":"gemini-2.5-flash","temperature":0.0,"topP":1.0,"topK":1,"candidateCount":1}"#
        );
    }

    /// A document that the schema allows.
    fn instance(schema: &Value) -> Value {
        if let Some(words) = schema.get("enum") {
            return words[0].clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let members = schema["properties"].as_object().expect("an object has members");
                members.iter().map(|(name, schema)| (name.clone(), instance(schema))).collect()
            }
            Some("array") => json!([instance(&schema["items"]), instance(&schema["items"])]),
            _ => json!("A sound and simple plan."),
        }
    }

    #[test]
    fn document_of_the_schema_has_all_judged_members_and_no_others() {
        for tier in ProductTier::ALL {
            let verdict = instance(&response_schema(tier));
            let judgment = judge(tier, VerdictPayload::raw(&verdict.to_string()));
            assert!(judgment.decision.approved, "{tier:?}: {:?}", judgment.decision);
            assert_eq!(judgment.decision.flags, []);
        }
    }

    #[test]
    fn schema_requires_every_member_and_the_words_of_a_label() {
        let strategy = response_schema(ProductTier::Strategy);
        let is_valid = |verdict: &Value| jsonschema::is_valid(&strategy, verdict);
        let whole = instance(&strategy);
        assert!(is_valid(&whole));
        for pointer in ["", "/breakdown", "/breakdown/Curvature", "/strategy"] {
            let members = whole.pointer(pointer).and_then(Value::as_object).expect("an object");
            for name in members.keys() {
                let mut cut = whole.clone();
                let object = cut.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
                object.remove(name);
                assert!(!is_valid(&cut), "{pointer}/{name}");
            }
        }
        let mut other = whole;
        other["verdict"] = json!("PURPLE");
        assert!(!is_valid(&other));
    }
}
