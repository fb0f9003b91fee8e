//! The generation settings of a model, and the token usage of an answer (seed: `regen-consistency`, "Gemini API
//! Configuration").

use crate::base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};

/// The model that regenerates verdicts.
pub const LOCKED_MODEL: &str = "gemini-2.5-flash";

/// Generation settings, under the seed's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerationSettings {
    /// The name of the model.
    pub model: String,
    /// The sampling temperature; 0.0 selects the most likely token.
    pub temperature: f64,
    /// The cumulative probability of the tokens to sample from, from 0 to 1.
    pub top_p: f64,
    /// The number of tokens to sample from; 1 selects the most likely token.
    pub top_k: u32,
    /// The number of answers to generate.
    pub candidate_count: u32,
}

impl GenerationSettings {
    /// The most deterministic settings that a model allows. Verdicts are only regenerated with these.
    #[must_use]
    pub const fn locked(model: String) -> Self {
        Self { model, temperature: 0.0, top_p: 1.0, top_k: 1, candidate_count: 1 }
    }
}

/// How a verdict was generated, if oracled requested it (seed: REGEN-GAP-01 and REGEN-GAP-02).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictGeneration {
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// The settings.
    pub settings: GenerationSettings,
}

/// The token usage of an answer, as reported by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelTokenUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: Option<u64>,
    /// Tokens charged.
    pub total_tokens: Option<u64>,
}

impl ModelTokenUsage {
    /// The sum of several calls; `None` if there is none.
    #[must_use]
    pub fn sum(usages: impl IntoIterator<Item = Self>) -> Option<Self> {
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        usages.into_iter().reduce(|a, b| Self {
            prompt_tokens: add(a.prompt_tokens, b.prompt_tokens),
            output_tokens: add(a.output_tokens, b.output_tokens),
            total_tokens: add(a.total_tokens, b.total_tokens),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_settings_have_values_and_names_of_the_seed() {
        let settings = GenerationSettings::locked(LOCKED_MODEL.to_owned());
        assert_eq!(
            serde_json::to_string(&settings).expect("the value serializes"),
            r#"{"model":"gemini-2.5-flash","temperature":0.0,"topP":1.0,"topK":1,"candidateCount":1}"#
        );
    }
}
