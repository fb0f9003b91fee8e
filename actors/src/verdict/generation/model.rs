//! The configured model and its settings.

use crate::upstream::{ModelCaller, ModelError};
use oracled_domain::OracleId;
use oracled_domain::verdict::generation::GenerationSettings;
use oracled_domain::verdict::session::OriginalVerdict;

/// The configured model and its settings.
#[derive(Debug, Clone)]
pub struct ConfiguredModel {
    /// The model's name among the oracles.
    pub oracle_id: OracleId,
    /// The client that calls the model.
    pub caller: ModelCaller,
    /// The settings for first verdicts.
    pub original: GenerationSettings,
    /// The configured name, for a session whose first model is not known.
    name: String,
}

impl ConfiguredModel {
    /// The model called `name`, which `caller` calls. First verdicts use the settings in `original`;
    /// regenerations always use the locked settings.
    #[must_use]
    pub const fn new(
        oracle_id: OracleId,
        caller: ModelCaller,
        name: String,
        original: GenerationSettings,
    ) -> Self {
        Self { oracle_id, caller, original, name }
    }

    /// The settings of a regeneration (seed: "Regen configuration lock"): with the model that made the original, or the
    /// configured one if that is not known.
    pub(super) fn regen_settings(&self, original: Option<&OriginalVerdict>) -> GenerationSettings {
        let generation = original.and_then(|original| original.generation.as_ref());
        GenerationSettings::locked(
            generation.map_or_else(|| self.name.clone(), |generation| generation.settings.model.clone()),
        )
    }

    /// The settings for a second call with the configured model, if `error` may mean that the provider has no model of
    /// the name in `settings`. Most providers answer 404 then, some 400.
    pub(super) fn substitute_settings(
        &self,
        settings: &GenerationSettings,
        error: &ModelError,
    ) -> Option<GenerationSettings> {
        let may_be_gone = matches!(error, ModelError::RefusedRequest { status: 400 | 404, .. });
        (may_be_gone && settings.model != self.name).then(|| GenerationSettings::locked(self.name.clone()))
    }
}
