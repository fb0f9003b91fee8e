//! The configured models and their settings.

use actors_upstream::{ModelCaller, ModelError};
use domain_base::application::ApplicationName;
use domain_upstream::oracle::OracleId;
use domain_verdict::generation::{GenerationSettings, VerdictGeneration};
use domain_verdict::order::OrderAttemptStart;
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::session::OriginalVerdict;
use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A configured model and its settings.
#[derive(Debug, Clone)]
pub struct ConfiguredModel {
    /// The client that calls the model.
    pub caller: ModelCaller,
    /// The settings for first verdicts.
    pub original: GenerationSettings,
}

impl ConfiguredModel {
    /// The model that `caller` calls. First verdicts use the settings in `original`; regenerations always use them with
    /// the locked sampling.
    #[must_use]
    pub const fn new(caller: ModelCaller, original: GenerationSettings) -> Self {
        Self { caller, original }
    }

    /// The model's name among the oracles.
    #[must_use]
    pub const fn oracle_id(&self) -> &OracleId {
        self.caller.oracle_id()
    }

    /// The beginning of the last attempt of an order with this model, which may not be called.
    pub(crate) fn start_of_last_attempt(&self, prompt: &ModelPrompt) -> OrderAttemptStart {
        let generation = VerdictGeneration::new(prompt, self.original.clone());
        // the model is not called
        let time_limit = SignedDuration::ZERO;
        OrderAttemptStart { oracle_id: self.oracle_id().clone(), generation, is_last: true, time_limit }
    }

    /// The settings of a regeneration (seed: "Regen configuration lock"): with the model that made the original, or this
    /// one if that is not known.
    pub(super) fn regen_settings(&self, original: Option<&OriginalVerdict>) -> GenerationSettings {
        let settings = self.original.with_locked_sampling();
        match name_of_first_model(original) {
            Some(name) => GenerationSettings { model: name.to_owned(), ..settings },
            None => settings,
        }
    }
}

/// The name of the model that made the original, if it is known.
fn name_of_first_model(original: Option<&OriginalVerdict>) -> Option<&str> {
    Some(original?.settings.as_ref()?.model.as_str())
}

/// All configured models.
#[derive(Debug, Clone, Default)]
pub struct ConfiguredModels {
    /// The models for first verdicts, in the order in which they are tried.
    pub order: Vec<Arc<ConfiguredModel>>,
    /// The models in place of `order` for applications that have an order of their own.
    pub own_orders: BTreeMap<ApplicationName, Vec<Arc<ConfiguredModel>>>,
    /// The models that are not in `order`. Without an application's own order they only regenerate the verdicts that they
    /// made.
    pub others: Vec<Arc<ConfiguredModel>>,
}

impl ConfiguredModels {
    /// The models with prices.
    pub fn priced(&self) -> impl Iterator<Item = &OracleId> {
        let all = self.order.iter().chain(&self.others);
        all.filter(|model| model.caller.has_prices()).map(|model| model.oracle_id())
    }

    /// The models for first verdicts of `application`, in the order in which they are tried.
    pub(super) fn order_of(&self, application: &ApplicationName) -> &[Arc<ConfiguredModel>] {
        self.own_orders.get(application).unwrap_or(&self.order)
    }

    /// The models that make first verdicts of any application, each once.
    pub fn for_first_verdicts(&self) -> Vec<OracleId> {
        let mut ids = Vec::new();
        for model in self.order.iter().chain(self.own_orders.values().flatten()) {
            if !ids.contains(model.oracle_id()) {
                ids.push(model.oracle_id().clone());
            }
        }
        ids
    }

    /// The first model of the order.
    pub(crate) fn first(&self) -> Option<&Arc<ConfiguredModel>> {
        self.order.first()
    }

    /// The model that regenerates a verdict of `application`: the one that made the original, or the first one of the
    /// application if no configured model has its name.
    pub(super) fn for_regen(
        &self,
        application: &ApplicationName,
        original: Option<&OriginalVerdict>,
    ) -> Option<&Arc<ConfiguredModel>> {
        let (name, own) = (name_of_first_model(original), self.order_of(application));
        let mut models = own.iter().chain(&self.order).chain(&self.others);
        models.find(|model| name == Some(model.original.model.as_str())).or_else(|| own.first())
    }

    /// The model for a second call, if `error` may mean that the provider has no model of the name in `settings`: the
    /// first one of `application`. Most providers answer 404 then, some 400.
    pub(super) fn substitute(
        &self,
        application: &ApplicationName,
        settings: &GenerationSettings,
        error: &ModelError,
    ) -> Option<&Arc<ConfiguredModel>> {
        let may_be_gone = matches!(error, ModelError::RefusedRequest { status: 400 | 404, .. });
        let first = self.order_of(application).first();
        first.filter(|first| may_be_gone && settings.model != first.original.model)
    }
}
