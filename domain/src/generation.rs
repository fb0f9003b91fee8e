//! How a model is asked (seed: `regen-consistency`, "Gemini API Configuration for Regen Requests").

use crate::digest::Sha256Hex;
use serde::{Deserialize, Serialize};

/// The seed's model.
pub const LOCKED_MODEL: &str = "gemini-2.5-flash";

/// What a model is told beside the prompt, under the seed's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Which model.
    pub model: String,
    /// Its temperature.
    pub temperature: f64,
    /// The mass of probability that is sampled from.
    pub top_p: f64,
    /// How many tokens are sampled from.
    pub top_k: u32,
    /// How many answers are made.
    pub candidate_count: u32,
}

impl Settings {
    /// The seed's "Regen configuration lock": greedy decoding, as deterministic as the model gets.
    #[must_use]
    pub const fn locked(model: String) -> Self {
        Self { model, temperature: 0.0, top_p: 1.0, top_k: 1, candidate_count: 1 }
    }
}

/// How a verdict was made, where oracled itself had it made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// The settings.
    pub settings: Settings,
}
