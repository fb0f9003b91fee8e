//! How a model is asked to generate, and what an answer cost (seed: `regen-consistency`, "Gemini API
//! Configuration").

use crate::base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};

/// The model that verdicts are regenerated with.
pub const LOCKED_MODEL: &str = "gemini-2.5-flash";

/// Generation settings, under the seed's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Which model.
    pub model: String,
    /// How freely it draws; 0.0 takes the likeliest token.
    pub temperature: f64,
    /// Of how much probability it draws.
    pub top_p: f64,
    /// Of how many tokens it draws; 1 takes the likeliest.
    pub top_k: u32,
    /// How many answers it gives.
    pub candidate_count: u32,
}

impl Settings {
    /// The set that leaves as little to chance as a model allows: the only one that a verdict is regenerated with.
    #[must_use]
    pub const fn locked(model: String) -> Self {
        Self { model, temperature: 0.0, top_p: 1.0, top_k: 1, candidate_count: 1 }
    }
}

/// How a verdict was made, where oracled itself had it made (seed: REGEN-GAP-01 and REGEN-GAP-02).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// The settings.
    pub settings: Settings,
}

/// What an answer cost, in tokens, as far as the model says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub prompt_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Charged.
    pub total_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_settings_are_the_seeds_under_the_seeds_names() {
        let settings = Settings::locked(LOCKED_MODEL.to_owned());
        assert_eq!(
            serde_json::to_string(&settings).expect("it serializes"),
            r#"{"model":"gemini-2.5-flash","temperature":0.0,"topP":1.0,"topK":1,"candidateCount":1}"#
        );
    }
}
