//! The comparison of regenerated verdicts with the delivered ones (seed: `regen-consistency`, invariants 4 and 5).

use crate::generation::GenerationSettings;
use crate::label::{ProductTier, VerdictLabel};
use crate::prompt::{LanguageTag, VerdictPrompt};
use crate::session::OriginalVerdict;
use domain_base::document::one_of;
use domain_base::gate_path::GatePath;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use strum::IntoStaticStr;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The rate of divergent regenerations above which the cause is the model's infrastructure (seed: REGEN-GAP-06).
pub const VARIANCE_THRESHOLD: f64 = 0.05;
/// The number of latest regenerations that are compared.
pub const VARIANCE_WINDOW: usize = 100;
/// The minimum number of regenerations for a meaningful rate.
const VARIANCE_WINDOW_MIN: usize = 20;

/// The difference between two top-level verdicts.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum DivergenceLevel {
    /// The same label.
    None,
    /// Neighboring colors.
    Minor,
    /// A larger difference, or NULL and a color: the customer is notified.
    Significant,
}

impl DivergenceLevel {
    /// All levels, the smallest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Minor, Self::Significant];

    /// The difference between `original` and `regenerated`.
    #[must_use]
    pub fn between(original: VerdictLabel, regenerated: VerdictLabel) -> Self {
        use VerdictLabel::{Amber, Green, Red};
        match (original, regenerated) {
            (one, other) if one == other => Self::None,
            (Green, Amber) | (Amber, Green | Red) | (Red, Amber) => Self::Minor,
            _ => Self::Significant,
        }
    }
}

/// The label of the verdict that was delivered first, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginalLabel(pub Option<VerdictLabel>);

impl OriginalLabel {
    const UNKNOWN: &str = "UNKNOWN";

    /// The name on the wire.
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

impl PartialSchema for OriginalLabel {
    fn schema() -> RefOr<Schema> {
        let words = VerdictLabel::ALL.map(|label| label.into_str()).into_iter().chain([Self::UNKNOWN]);
        one_of("The verdict that was delivered first; `UNKNOWN` if there is none, or none is known.", words)
    }
}

impl ToSchema for OriginalLabel {}

/// The seed's "Divergence Log Entry", with additional fields: whether the original was known, and whether the prompt
/// and the settings were the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceCheck {
    /// The tier of the verdicts.
    pub tier: ProductTier,
    /// The verdict that was delivered first.
    pub original_verdict: OriginalLabel,
    /// The regenerated verdict.
    pub regen_verdict: VerdictLabel,
    /// Whether the labels are the same; null if the first verdict is not known.
    pub top_level_match: Option<bool>,
    /// Their difference; null if the first verdict is not known.
    pub divergence_level: Option<DivergenceLevel>,
    /// Whether there was no verdict to compare with.
    pub skipped: bool,
    /// The path of the second verdict: `regen`, or that of a verdict submitted in place of a lost one.
    pub path: GatePath,
    /// Whether the prompt of the original was different. A regeneration counts as changed if the prompt of its original
    /// is not known. Null for a submitted verdict, if that is not known.
    pub prompt_changed: Option<bool>,
    /// Whether the settings of the original were different; null if that is not known.
    pub settings_changed: Option<bool>,
    /// Whether the model takes no temperature, so that the same prompt may get different verdicts.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub sampled: bool,
    /// Whether the prompt of the original had the rejection of an earlier answer, which that of the other verdict lacks.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub reasked: bool,
}

/// The members of a [`DivergenceCheck`] that follow from the two labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct LabelComparison {
    top_level_match: Option<bool>,
    pub(crate) divergence_level: Option<DivergenceLevel>,
    pub(crate) skipped: bool,
}

impl LabelComparison {
    pub(crate) fn of(original: OriginalLabel, regenerated: VerdictLabel) -> Self {
        let level = original.0.map(|original| DivergenceLevel::between(original, regenerated));
        Self {
            top_level_match: level.map(|level| level == DivergenceLevel::None),
            divergence_level: level,
            skipped: level.is_none(),
        }
    }
}

/// A verdict that replaces a lost one, to be compared with the original.
#[derive(Debug)]
pub struct RegeneratedVerdict<'r> {
    pub tier: ProductTier,
    pub label: VerdictLabel,
    /// The path of the request.
    pub path: GatePath,
    /// Its prompt, if it is known.
    pub prompt: Option<&'r VerdictPrompt>,
    /// The settings of its generation, if oracled requested it.
    pub settings: Option<&'r GenerationSettings>,
}

impl DivergenceCheck {
    /// Compares `regenerated` with `original`.
    #[must_use]
    pub fn of(original: Option<&OriginalVerdict>, regenerated: &RegeneratedVerdict<'_>) -> Self {
        let label = OriginalLabel(original.map(|original| original.verdict_label));
        let LabelComparison { top_level_match, divergence_level, skipped } =
            LabelComparison::of(label, regenerated.label);
        let prompts = original.and_then(|original| original.prompt.as_ref()).zip(regenerated.prompt);
        let settings = original.and_then(|original| original.settings.as_ref()).zip(regenerated.settings);
        Self {
            tier: regenerated.tier,
            original_verdict: label,
            regen_verdict: regenerated.label,
            top_level_match,
            divergence_level,
            skipped,
            path: regenerated.path,
            prompt_changed: prompts
                .map(|(first, again)| first.sha256 != again.sha256)
                .or_else(|| (regenerated.path == GatePath::Regen).then_some(true)),
            settings_changed: settings.map(|(first, again)| first != again),
            sampled: regenerated.settings.is_some_and(|again| again.temperature.is_none()),
            reasked: original.is_some_and(|original| original.reasked),
        }
    }
}

/// The health of the model's infrastructure, by the latest regenerations with a known original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RegenVariance {
    /// The number of regenerations compared.
    pub regens: usize,
    /// The number of regenerations that differ from the delivered verdict.
    pub diverged: usize,
    /// The share of divergent regenerations, from 0 to 1.
    pub rate: f64,
    /// Whether the rate exceeds 5 % with enough regenerations.
    pub escalated: bool,
}

impl RegenVariance {
    /// The variance if `diverged` of the latest `regens` regenerations differ.
    #[must_use]
    pub(crate) fn of(regens: usize, diverged: usize) -> Self {
        let rate = if regens == 0 { 0.0 } else { diverged as f64 / regens as f64 };
        let escalated = regens >= VARIANCE_WINDOW_MIN && rate > VARIANCE_THRESHOLD;
        Self { regens, diverged, rate, escalated }
    }
}

/// The rolling window of the latest regenerations.
#[derive(Debug, Clone, Default)]
pub struct RegenVarianceWindow {
    diverged: VecDeque<bool>,
}

impl RegenVarianceWindow {
    /// Adds a comparison, if it is of a regeneration at temperature 0 with a known original that had the same prompt, without a
    /// rejection, and the same settings. Otherwise they may explain a difference. Returns the variance if it has just become one to escalate.
    pub fn note(&mut self, check: &DivergenceCheck) -> Option<RegenVariance> {
        let is_same = check.prompt_changed == Some(false) && check.settings_changed == Some(false);
        let is_counted = check.path == GatePath::Regen && is_same && !check.sampled && !check.reasked;
        let level = check.divergence_level.filter(|_| is_counted)?;
        let before = self.variance().escalated;
        if self.diverged.len() == VARIANCE_WINDOW {
            self.diverged.pop_front();
        }
        self.diverged.push_back(level != DivergenceLevel::None);
        Some(self.variance()).filter(|now| now.escalated && !before)
    }

    /// Whether the window is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.diverged.len() == VARIANCE_WINDOW
    }

    /// The current variance.
    #[must_use]
    pub fn variance(&self) -> RegenVariance {
        let diverged = self.diverged.iter().filter(|diverged| **diverged).count();
        RegenVariance::of(self.diverged.len(), diverged)
    }
}

/// The disclaimer for the customer if the two verdicts differ, in the seed's words.
pub const DISCLAIMER: &str = "NOTE: Due to a technical condition, the verdict on your results page may differ \
    slightly from the one you received by email. Both represent a valid coherence reading of your submission. If \
    you have questions, reply to this email and we will provide clarification.";
/// The notice with a regenerated verdict whose original is not known, or may not exist.
pub const UNKNOWN_NOTICE: &str = "NOTE: This verdict was generated when it was read. No earlier verdict is on record here. \
    If you received a verdict earlier, that earlier verdict applies, and this one may differ from it.";
/// The notice with a regenerated verdict that was made in another way than the original.
pub const CHANGED_NOTICE: &str = "NOTE: This verdict was generated again, and not in exactly the same way as the first one. \
    The first verdict applies, and this one may differ from it.";

const DISCLAIMER_DE: &str = "HINWEIS: Aus technischen Gründen kann das Urteil auf Ihrer Ergebnisseite leicht von dem \
    abweichen, das Sie per E-Mail erhalten haben. Beide geben eine gültige Einschätzung der Kohärenz Ihrer Einreichung \
    wieder. Wenn Sie Fragen haben, antworten Sie auf diese E-Mail; wir geben Ihnen gern Auskunft.";
const UNKNOWN_NOTICE_DE: &str = "HINWEIS: Dieses Urteil wurde erst beim Abruf erstellt. Ein früheres Urteil ist hier nicht \
    verzeichnet. Wenn Sie schon früher ein Urteil erhalten haben, gilt jenes, und dieses kann davon abweichen.";
const CHANGED_NOTICE_DE: &str = "HINWEIS: Dieses Urteil wurde erneut erstellt, und zwar nicht auf genau dieselbe Weise wie \
    das erste. Es gilt das erste Urteil, und dieses kann davon abweichen.";

/// A language that has these texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoteLanguage {
    /// English.
    #[default]
    En,
    /// German.
    De,
}

/// A text for the customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomerNote {
    /// The two verdicts differ.
    Disclaimer,
    /// The first verdict is not known.
    UnknownOriginal,
    /// The verdict was made in another way than the first.
    Changed,
}

impl NoteLanguage {
    /// The language of `tag`, of which regions and other subtags do not matter; English for any other language.
    #[must_use]
    pub fn of(tag: &LanguageTag) -> Self {
        let primary = tag.as_str().split('-').next().unwrap_or_default();
        if primary.eq_ignore_ascii_case("de") { Self::De } else { Self::En }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl CustomerNote {
    /// The text.
    #[must_use]
    pub const fn text(self, language: NoteLanguage) -> &'static str {
        match (self, language) {
            (Self::Disclaimer, NoteLanguage::En) => DISCLAIMER,
            (Self::Disclaimer, NoteLanguage::De) => DISCLAIMER_DE,
            (Self::UnknownOriginal, NoteLanguage::En) => UNKNOWN_NOTICE,
            (Self::UnknownOriginal, NoteLanguage::De) => UNKNOWN_NOTICE_DE,
            (Self::Changed, NoteLanguage::En) => CHANGED_NOTICE,
            (Self::Changed, NoteLanguage::De) => CHANGED_NOTICE_DE,
        }
    }
}

/// Regenerations, counted by the first verdict and the regenerated one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceTable {
    /// All pairs, in the order of labels; the unknown original comes last.
    pub cells: Vec<DivergenceCell>,
}

/// One pair of verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceCell {
    /// The first verdict.
    pub original_verdict: OriginalLabel,
    /// The regenerated verdict.
    pub regen_verdict: VerdictLabel,
    /// Their difference; null if the first verdict is not known.
    pub divergence_level: Option<DivergenceLevel>,
    /// The number of regenerations.
    pub count: u64,
}

impl Default for DivergenceTable {
    fn default() -> Self {
        let originals = VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel);
        let cells = originals.flat_map(|original_verdict| {
            VerdictLabel::ALL.map(|regen_verdict| DivergenceCell {
                original_verdict,
                regen_verdict,
                divergence_level: original_verdict
                    .0
                    .map(|original| DivergenceLevel::between(original, regen_verdict)),
                count: 0,
            })
        });
        Self { cells: cells.collect() }
    }
}

impl DivergenceTable {
    /// Counts one regeneration.
    pub fn count(&mut self, check: &DivergenceCheck) {
        let pair = (check.original_verdict, check.regen_verdict);
        for cell in &mut self.cells {
            cell.count += u64::from((cell.original_verdict, cell.regen_verdict) == pair);
        }
    }

    /// The number of regenerations at this level; for `None`, those whose original is not known.
    #[must_use]
    pub fn at(&self, level: Option<DivergenceLevel>) -> u64 {
        self.cells.iter().filter(|cell| cell.divergence_level == level).map(|cell| cell.count).sum()
    }
}

#[cfg(test)]
mod tests;
