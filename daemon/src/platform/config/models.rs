//! The configured models: their names and their order.

use super::{ConfigError, DaemonConfig, ModelProvider, ModelSection, not_allowed_error};
use oracled_domain::OracleId;
use std::collections::BTreeSet;

/// Maximum length of the name of a table, in characters.
const NAME_MAX_CHARS: usize = 32;
/// The name of the mail service among the oracles.
const MAIL: &str = "mail";
/// The name of the payment service among the oracles.
const LOOKUP: &str = "lookup";

/// A configured model.
#[derive(Debug)]
pub struct ModelEntry<'c> {
    /// Its name among the oracles: that of its table, or the provider's for `[model]`.
    pub oracle_id: OracleId,
    /// Its table, for example `models.backup`.
    pub table: String,
    pub section: &'c ModelSection,
    /// Whether it makes first verdicts.
    pub is_in_order: bool,
    /// Whether it is the first model of its provider, which has the provider's variable and credential.
    pub is_first_of_provider: bool,
}

impl DaemonConfig {
    /// The models in the order in which they are tried, then the others. Empty if there is no first model.
    #[must_use]
    pub fn model_entries(&self) -> Vec<ModelEntry<'_>> {
        if self.model.provider == ModelProvider::None {
            return Vec::new();
        }
        let fallbacks = &self.model.fallbacks;
        let others = self.models.keys().filter(|name| !fallbacks.contains(name));
        let named = fallbacks.iter().map(|name| (name, true)).chain(others.map(|name| (name, false)));
        let named = named.filter_map(|(name, is_in_order)| {
            let section = self.models.get(name)?;
            Some((name.parse().ok()?, format!("models.{name}"), section, is_in_order))
        });
        let first_id: Option<OracleId> = self.model.provider.as_str().parse().ok();
        let first = first_id.map(|id| (id, "model".to_owned(), &self.model, true));
        let mut providers = Vec::new();
        let entries = first.into_iter().chain(named).map(|(oracle_id, table, section, is_in_order)| {
            let is_first_of_provider = !providers.contains(&section.provider);
            providers.push(section.provider);
            ModelEntry { oracle_id, table, section, is_in_order, is_first_of_provider }
        });
        entries.collect()
    }

    /// Checks the models, their names and their order.
    pub(super) fn check_models(&self, request_s: u64) -> Result<(), ConfigError> {
        self.model.check("model", request_s)?;
        for (name, section) in &self.models {
            let table = format!("models.{name}");
            self.check_model_name(name)?;
            if section.provider == ModelProvider::None {
                return Err(not_allowed_error(format!("{table}.provider"), "none", "a provider"));
            }
            if !section.fallbacks.is_empty() {
                let allowed = "no value; `model.fallbacks` has the order of all models";
                return Err(not_allowed_error(format!("{table}.fallbacks"), "set", allowed));
            }
            section.check(&table, request_s)?;
        }
        if self.model.provider == ModelProvider::None && !self.models.is_empty() {
            let allowed = "a provider, because further models are configured in `models`";
            return Err(not_allowed_error("model.provider", "none", allowed));
        }
        self.check_budget()?;
        self.check_further_temperatures()?;
        let further: Vec<_> = self.models.keys().map(String::as_str).collect();
        check_names("model.fallbacks", &self.model.fallbacks, &further)?;
        let first = Some(self.model.provider.as_str()).filter(|_| self.model.provider != ModelProvider::None);
        let all: Vec<_> = first.into_iter().chain(further).collect();
        self.applications.iter().try_for_each(|(name, section)| {
            let key = format!("applications.{name}.models");
            match section.models.as_deref() {
                Some([]) => {
                    let allowed =
                        "at least one model; without the key, the application has those of `[model]`";
                    Err(not_allowed_error(key, "an empty list", allowed))
                }
                names => check_names(&key, names.unwrap_or_default(), &all),
            }
        })
    }

    /// Checks that the models take the temperatures of further generations.
    fn check_further_temperatures(&self) -> Result<(), ConfigError> {
        let mut entries = self.model_entries().into_iter();
        let Some(most) = entries.find_map(|model| model.section.temperature_max()) else { return Ok(()) };
        match self.orders.further_temperatures.iter().find(|temperature| **temperature > most) {
            Some(other) => {
                let allowed = format!("numbers from 0 to {most}, which the API of `anthropic` takes");
                Err(not_allowed_error("orders.further_temperatures", other, allowed))
            }
            None => Ok(()),
        }
    }

    /// Checks that every model has prices if there is a budget: calls of a model without prices would not count.
    fn check_budget(&self) -> Result<(), ConfigError> {
        let own = self.applications.iter().find(|(_, section)| section.daily_budget.is_some());
        let key = match (self.costs.daily_budget, own) {
            (Some(_), _) => "costs.daily_budget".to_owned(),
            (None, Some((name, _))) => format!("applications.{name}.daily_budget"),
            (None, None) => return Ok(()),
        };
        let has_no_price = |model: &ModelEntry<'_>| model.section.input_price.is_none();
        match self.model_entries().into_iter().find(has_no_price) {
            Some(model) => Err(not_allowed_error(
                format!("{}.input_price", model.table),
                "not set",
                format!("a price, because `{key}` is set"),
            )),
            None => Ok(()),
        }
    }

    /// Checks the name of a further model. No other oracle may have it.
    fn check_model_name(&self, name: &str) -> Result<(), ConfigError> {
        let taken = [MAIL, LOOKUP, self.model.provider.as_str()];
        if is_table_name(name) && !taken.contains(&name) {
            return Ok(());
        }
        let allowed = format!(
            "names of 1 to {NAME_MAX_CHARS} of `a-z 0-9 -`, except `{MAIL}`, `{LOOKUP}` and the value of \
             `model.provider`"
        );
        Err(not_allowed_error("models", "a table with another name", allowed))
    }
}

/// Whether an operator can give a table this name, which is also a part of variables and a label of metrics.
pub(super) fn is_table_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(is_word)
}

/// Checks that the list in `key` has different names of `models`.
fn check_names(key: &str, names: &[String], models: &[&str]) -> Result<(), ConfigError> {
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
