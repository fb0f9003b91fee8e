//! Whether a regenerated verdict says what the delivered one said (seed: `regen-consistency`, invariants 4 and 5).

mod table;

pub use table::{Cell, DivergenceTable};

use crate::verdict::gate_path::GatePath;
use crate::verdict::generation::Generation;
use crate::verdict::label::{Label, Tier};
use crate::verdict::session::Original;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use strum::IntoStaticStr;

/// What a customer is told where the two differ: the seed's words.
pub const DISCLAIMER: &str = "NOTE: Due to a technical condition, the verdict on your results page may differ \
    slightly from the one you received by email. Both represent a valid coherence reading of your submission. If \
    you have questions, reply to this email and we will provide clarification.";
/// The notice of a regenerated verdict whose original is not known, or may not exist.
pub const UNKNOWN_NOTICE: &str = "NOTE: This verdict was generated when it was read. No earlier verdict is on record here. \
    If you received one before, that one stands, and this one may differ from it.";
/// The notice of a regenerated verdict that was not made in the same way as the original.
pub const CHANGED_NOTICE: &str = "NOTE: This verdict was generated again, and not in exactly the same way as the first one. \
    The first one stands, and this one may differ from it.";
/// The rate of diverging regenerations above which the model's infrastructure is to blame (seed: REGEN-GAP-06).
pub const VARIANCE_THRESHOLD: f64 = 0.05;
/// So many regenerations are looked at, the latest.
pub const VARIANCE_WINDOW: usize = 100;
/// With fewer of them a rate says nothing.
const VARIANCE_WINDOW_MIN: usize = 20;

/// How far two top-level verdicts are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum DivergenceLevel {
    /// The same.
    None,
    /// Neighbouring colours.
    Minor,
    /// Further apart, or NULL against a colour: the customer is told.
    Significant,
}

impl DivergenceLevel {
    /// All levels, the least first.
    pub const ALL: [Self; 3] = [Self::None, Self::Minor, Self::Significant];

    /// How far `regenerated` is from `original`.
    #[must_use]
    pub fn between(original: Label, regenerated: Label) -> Self {
        use Label::{Amber, Green, Red};
        match (original, regenerated) {
            (one, other) if one == other => Self::None,
            (Green, Amber) | (Amber, Green | Red) | (Red, Amber) => Self::Minor,
            _ => Self::Significant,
        }
    }
}

/// The label of the verdict that was delivered first, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginalLabel(pub Option<Label>);

impl OriginalLabel {
    const UNKNOWN: &str = "UNKNOWN";

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            Some(label) => label.into_str(),
            None => Self::UNKNOWN,
        }
    }
}

impl Serialize for OriginalLabel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for OriginalLabel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        match word.parse().ok() {
            None if word != Self::UNKNOWN => Err(serde::de::Error::custom("neither a verdict nor UNKNOWN")),
            label => Ok(Self(label)),
        }
    }
}

/// The seed's "Divergence Log Entry", and beside it whether there was anything to compare and whether the same was
/// asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DivergenceCheck {
    /// Of which tier.
    pub tier: Tier,
    /// The verdict that was delivered first.
    pub original_verdict: OriginalLabel,
    /// The regenerated one.
    pub regen_verdict: Label,
    /// Whether they are the same; null where the first is not known.
    pub top_level_match: Option<bool>,
    /// How far they are apart; null where the first is not known.
    pub divergence_level: Option<DivergenceLevel>,
    /// Whether there was nothing to compare with.
    pub skipped: bool,
    /// On which path the second verdict came: `regen`, or handed in over a lost one.
    pub path: GatePath,
    /// Whether the original was made from another prompt. A regeneration whose original's prompt is not known counts as
    /// changed. Null for a submitted verdict, if that is not known.
    pub prompt_changed: Option<bool>,
    /// Whether the original was made with other settings; null where that is not known.
    pub settings_changed: Option<bool>,
}

/// The verdict that comes in the place of a lost one, and is held against the original.
#[derive(Debug)]
pub struct Regenerated<'r> {
    /// Of which tier.
    pub tier: Tier,
    /// Its label.
    pub label: Label,
    /// On which path it came.
    pub path: GatePath,
    /// How it was made, where oracled had it made.
    pub generation: Option<&'r Generation>,
}

impl DivergenceCheck {
    /// Compares `regenerated` with `original`.
    #[must_use]
    pub fn of(original: Option<&Original>, regenerated: &Regenerated<'_>) -> Self {
        let label = original.map(|original| original.verdict_label);
        let level = label.map(|label| DivergenceLevel::between(label, regenerated.label));
        let first = original.and_then(|original| original.generation.as_ref());
        let made = first.zip(regenerated.generation);
        Self {
            tier: regenerated.tier,
            original_verdict: OriginalLabel(label),
            regen_verdict: regenerated.label,
            top_level_match: level.map(|level| level == DivergenceLevel::None),
            divergence_level: level,
            skipped: level.is_none(),
            path: regenerated.path,
            prompt_changed: made
                .map(|(first, again)| first.prompt_sha256 != again.prompt_sha256)
                .or_else(|| (regenerated.path == GatePath::Regen).then_some(true)),
            settings_changed: made.map(|(first, again)| first.settings != again.settings),
        }
    }
}

/// How the model's infrastructure is doing, by the latest regenerations with a known original (seed: REGEN-GAP-06).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variance {
    /// So many regenerations are looked at.
    pub regens: usize,
    /// So many of them differ from what was delivered.
    pub diverged: usize,
    /// The share that differs.
    pub rate: f64,
    /// Whether that is more than can be put down to chance.
    pub escalated: bool,
}

/// The rolling watch over regenerations.
#[derive(Debug, Clone, Default)]
pub struct VarianceWatch {
    diverged: VecDeque<bool>,
}

impl VarianceWatch {
    /// Takes one comparison in, if it is of a regeneration with a known original, and another prompt or other settings
    /// do not explain the difference. Hands back the variance if it has just become one to escalate.
    pub fn note(&mut self, check: &DivergenceCheck) -> Option<Variance> {
        let explained = check.prompt_changed == Some(true) || check.settings_changed == Some(true);
        let level = check.divergence_level.filter(|_| check.path == GatePath::Regen && !explained)?;
        let before = self.variance().escalated;
        if self.diverged.len() == VARIANCE_WINDOW {
            self.diverged.pop_front();
        }
        self.diverged.push_back(level != DivergenceLevel::None);
        Some(self.variance()).filter(|now| now.escalated && !before)
    }

    /// Whether it looks at as many as it ever does.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.diverged.len() == VARIANCE_WINDOW
    }

    /// How it is now.
    #[must_use]
    pub fn variance(&self) -> Variance {
        let regens = self.diverged.len();
        let diverged = self.diverged.iter().filter(|diverged| **diverged).count();
        let rate = if regens == 0 { 0.0 } else { diverged as f64 / regens as f64 };
        let escalated = regens >= VARIANCE_WINDOW_MIN && rate > VARIANCE_THRESHOLD;
        Variance { regens, diverged, rate, escalated }
    }
}

#[cfg(test)]
mod tests;
