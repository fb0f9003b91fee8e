//! The opinions that decide on the verdicts of orders.

use domain_verdict::label::ProductTier;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of the opinions. A key that is not set has the value of the more general table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TierOpinionsSection {
    /// Maximum number of opinions on verdicts of the tier.
    #[schema(minimum = 1, maximum = 9)]
    pub count: Option<u32>,
    /// Number of opinions that must have the same label.
    #[schema(minimum = 1, maximum = 9)]
    pub agree: Option<u32>,
    /// Models that are asked in turn.
    pub models: Option<Vec<String>>,
}

/// The opinions that decide on the verdict of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpinionsSection {
    /// Maximum number of opinions: approved answers, each of an attempt of its own. With 1, the default, the first approved answer is
    /// delivered.
    #[schema(minimum = 1, maximum = 9)]
    pub count: Option<u32>,
    /// Number of opinions that must have the same label: more than half of `count`, which is the default.
    #[schema(minimum = 1, maximum = 9)]
    pub agree: Option<u32>,
    /// Models that are asked in turn: names of tables in `models`, or the provider's name for `[model]`.
    pub models: Option<Vec<String>>,
    /// The opinions on quick verdicts: `count`, `agree` and `models`.
    #[serde(skip_serializing_if = "is_unset")]
    pub quick: TierOpinionsSection,
    /// The opinions on full verdicts.
    #[serde(skip_serializing_if = "is_unset")]
    pub full: TierOpinionsSection,
    /// The opinions on strategy verdicts.
    #[serde(skip_serializing_if = "is_unset")]
    pub strategy: TierOpinionsSection,
}

/// Whether a table sets no key.
pub(super) fn is_unset<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}

impl OpinionsSection {
    fn common(&self) -> TierOpinionsSection {
        let Self { count, agree, models, .. } = self.clone();
        TierOpinionsSection { count, agree, models }
    }

    const fn of(&self, tier: ProductTier) -> &TierOpinionsSection {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }
}

/// The values of `tables`, the most specific one first. `agree` belongs to a number of opinions: that of a more general table than the
/// number does not count.
fn resolve(tables: &[&TierOpinionsSection]) -> (u32, u32, Vec<String>) {
    let mut agree = None;
    let number = |table: &&TierOpinionsSection| {
        agree = agree.or(table.agree);
        table.count
    };
    let count = tables.iter().find_map(number).unwrap_or(1);
    let agree = agree.unwrap_or(count / 2 + 1);
    let models = tables.iter().find_map(|table| table.models.clone()).unwrap_or_default();
    (count, agree, models)
}

/// The values for a tier of all applications, or of one of them.
pub(super) fn resolve_for(
    common: &OpinionsSection,
    own: Option<&OpinionsSection>,
    tier: ProductTier,
) -> (u32, u32, Vec<String>) {
    let all = common.common();
    let Some(own) = own else { return resolve(&[common.of(tier), &all]) };
    resolve(&[own.of(tier), &own.common(), common.of(tier), &all])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DaemonConfig;
    use crate::platform::config::ConfigError;
    use serde_json::{Value, json};

    fn config(orders: Value, applications: Value) -> DaemonConfig {
        let mut config = DaemonConfig::default();
        config.orders.opinions = serde_json::from_value(orders).expect("valid opinions");
        config.applications = serde_json::from_value(applications).expect("valid applications");
        config.models = serde_json::from_value(json!({"backup": {"provider": "openai", "name": "m"}}))
            .expect("valid models");
        config
    }

    #[test]
    fn most_specific_table_with_a_key_decides_on_the_opinions() {
        let config = config(
            json!({"count": 3, "models": ["gemini", "backup"], "full": {"count": 5, "agree": 4}}),
            json!({"shop": {"opinions": {"count": 1, "strategy": {"count": 2}}}, "help": {}}),
        );
        let plans = config.orders.to_opinion_plans(&config.applications);
        let of = |name: &str, tier| {
            let plan = plans.find(name.parse().expect("a name"), tier).expect("all are resolved").as_ref()?;
            assert_eq!(plan.models.len(), 2);
            Some((plan.count, plan.agree))
        };
        let [quick, full, strategy] = ProductTier::ALL;
        for name in ["other", "help"] {
            let found = [quick, full, strategy].map(|tier| of(name, tier));
            assert_eq!(found, [Some((3, 2)), Some((5, 4)), Some((3, 2))], "{name}");
        }
        assert_eq!([quick, strategy].map(|tier| of("shop", tier)), [None, Some((2, 2))]);
        assert!(config.orders.check_opinions(&config).is_none());
    }

    #[test]
    fn opinions_without_a_majority_or_a_model_are_faults() {
        let fault = |orders, applications| {
            let config = config(orders, applications);
            match config.orders.check_opinions(&config) {
                Some(ConfigError::NotAllowed { key, .. }) => key,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(fault(json!({"count": 10, "models": ["gemini"]}), json!({})), "orders.opinions.count");
        assert_eq!(fault(json!({"count": 0}), json!({})), "orders.opinions.count");
        for agree in [2, 5] {
            let orders = json!({"count": 4, "agree": agree, "models": ["gemini"]});
            assert_eq!(fault(orders, json!({})), "orders.opinions.agree");
        }
        assert_eq!(fault(json!({"full": {"count": 2}}), json!({})), "orders.opinions.models");
        assert_eq!(fault(json!({"count": 2, "models": ["other"]}), json!({})), "orders.opinions.models");
        let own = json!({"shop": {"opinions": {"agree": 3}}});
        let orders = json!({"count": 2, "models": ["backup"]});
        assert_eq!(fault(orders, own), "applications.shop.opinions.agree");
    }
}
