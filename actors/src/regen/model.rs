//! The model that is asked, and with which settings.

use crate::upstream::Caller;
use domain::OracleId;
use domain::generation::Settings;

/// The model that is asked, and with which settings.
#[derive(Debug, Clone)]
pub struct AskedModel {
    /// Its name among the oracles.
    pub oracle_id: OracleId,
    /// Whoever calls it.
    pub caller: Caller,
    /// How it is asked for a first verdict.
    pub original: Settings,
    /// How it is asked for a lost one anew (seed: "Regen configuration lock").
    regen: Settings,
}

impl AskedModel {
    /// The model called `name` behind `caller`. However it is asked for first verdicts, it is asked for lost ones with
    /// the locked settings.
    #[must_use]
    pub const fn new(oracle_id: OracleId, caller: Caller, name: String, original: Settings) -> Self {
        Self { oracle_id, caller, original, regen: Settings::locked(name) }
    }

    pub(super) const fn regen(&self) -> &Settings {
        &self.regen
    }
}
