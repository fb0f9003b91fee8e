//! The configuration of the delivery of verdicts: unexpected members, and the policy beside the gate.

use super::applications::ApplicationSections;
use super::policy::PolicySection;
use crate::platform::config::{ConfigError, Configuration, Section};
use domain_base::application::ApplicationName;
use domain_rules::RuleIds;
use domain_verdict::crosscheck::UnexpectedFieldHandling;
use domain_verdict::label::ProductTier;
use domain_verdict::policy::{DeliveryPolicies, DeliveryPolicy, FlagSelector};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Delivery of verdicts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GateSection {
    /// Effect of members that a verdict's tier does not define and that are not judged. `strip` removes them
    /// before delivery, `refuse` rejects the verdict, and `deliver` delivers them.
    pub unexpected_fields: UnexpectedFieldHandling,
    /// Flags that hold an approved verdict until an operator decides: `verdict_conflict`, `empty_analysis`, `short_summary`,
    /// `contradictory_null`, `few_tests`, `unexpected_field`. After a colon, `empty_analysis` can have a dimension, for example
    /// `empty_analysis:Stability`.
    pub hold: Vec<String>,
    /// Flags that refuse an approved verdict, as in `gate.hold`. Refusing takes precedence.
    pub refuse: Vec<String>,
    /// Minimum coherence, above Ω (0.97404…) and at most 1. An approved verdict below it is refused.
    pub coherence_min: Option<f64>,
    /// [Rules](../rules.md) that every verdict must pass, beside the rules of a request with facts. A verdict without facts
    /// is checked without any.
    #[schema(value_type = Vec<String>)]
    pub rules: RuleIds,
    /// File with the key that encrypts held verdicts: 32 bytes in Base64. Under systemd, the credential
    /// `oracled_held-key` takes precedence. The default is `held.key` in `state_dir`, which the daemon creates at its first
    /// use.
    #[schema(value_type = Option<String>)]
    pub held_key_file: Option<PathBuf>,
    /// The policy for quick verdicts: `hold`, `refuse`, `coherence_min` and `rules`.
    #[serde(default, skip_serializing_if = "PolicySection::is_empty")]
    pub quick: PolicySection,
    /// The policy for full verdicts.
    #[serde(default, skip_serializing_if = "PolicySection::is_empty")]
    pub full: PolicySection,
    /// The policy for strategy verdicts.
    #[serde(default, skip_serializing_if = "PolicySection::is_empty")]
    pub strategy: PolicySection,
}

impl Section for GateSection {
    fn key(&self) -> &'static str {
        "gate"
    }

    fn check(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        self.check_tables(all.section())
    }
}

impl GateSection {
    fn common(&self) -> PolicySection {
        let Self { hold, refuse, coherence_min, rules, .. } = self.clone();
        PolicySection { hold: Some(hold), refuse: Some(refuse), coherence_min, rules: Some(rules) }
    }

    const fn of(&self, tier: ProductTier) -> &PolicySection {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }

    /// The first fault of each table.
    fn check_tables(&self, applications: &ApplicationSections) -> Vec<ConfigError> {
        let mut checks = vec![self.common().check("gate")];
        for tier in ProductTier::ALL {
            checks.push(self.of(tier).check(&format!("gate.{tier}")));
        }
        for (name, section) in applications {
            let table = format!("applications.{name}.gate");
            checks.push(section.gate.common().check(&table));
            for tier in ProductTier::ALL {
                checks.push(section.gate.of(tier).check(&format!("{table}.{tier}")));
            }
        }
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// The policies of all tiers and applications.
    #[must_use]
    pub fn to_policies(&self, applications: &ApplicationSections) -> DeliveryPolicies {
        let common = self.common();
        let of_tier = |tier| (tier, resolve(&[self.of(tier), &common]));
        let of_application = |(name, tier): (&ApplicationName, ProductTier)| {
            let own = applications.get(name).map(|section| &section.gate)?;
            let policy = resolve(&[own.of(tier), &own.common(), self.of(tier), &common]);
            Some(((name.clone(), tier), policy))
        };
        let pairs = applications.keys().flat_map(|name| ProductTier::ALL.map(|tier| (name, tier)));
        DeliveryPolicies {
            common: ProductTier::ALL.into_iter().map(of_tier).collect(),
            applications: pairs.filter_map(of_application).collect(),
        }
    }
}

/// The policy of `sections`, the most specific one first. Unknown flags are faults, which [`GateSection::check_tables`] reports.
fn resolve(sections: &[&PolicySection]) -> DeliveryPolicy {
    let flags = |words: fn(&PolicySection) -> Option<&Vec<String>>| -> Vec<FlagSelector> {
        let words = sections.iter().find_map(|section| words(section));
        words.into_iter().flatten().filter_map(|word| word.parse().ok()).collect()
    };
    DeliveryPolicy {
        hold: flags(|section| section.hold.as_ref()),
        refuse: flags(|section| section.refuse.as_ref()),
        coherence_min: sections.iter().find_map(|section| section.coherence_min),
        rules: sections
            .iter()
            .find_map(|section| section.rules.as_ref())
            .map(|RuleIds(ids)| ids.clone())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_verdict::tmm::OMEGA;
    use serde_json::{Value, json};

    fn section(json: Value) -> GateSection {
        let mut values = serde_json::to_value(GateSection::default()).expect("plain data");
        values.as_object_mut().expect("a table").extend(json.as_object().expect("a table").clone());
        serde_json::from_value(values).expect("a section")
    }

    fn applications(json: Value) -> ApplicationSections {
        serde_json::from_value(json).expect("valid applications")
    }

    #[test]
    fn most_specific_table_with_a_key_applies() {
        let gate = section(json!({
            "hold": ["verdict_conflict"], "refuse": ["few_tests"], "coherence_min": 0.98,
            "full": {"hold": ["empty_analysis"], "coherence_min": 0.99},
        }));
        let applications = applications(json!({
            "shop": {"gate": {"hold": ["short_summary"], "full": {"refuse": []}}}, "help": {},
        }));
        let policies = gate.to_policies(&applications);
        let flags = |words: &[&str]| -> Vec<FlagSelector> {
            words.iter().map(|word| word.parse().expect("a flag")).collect()
        };
        let policy = |hold: &[&str], refuse: &[&str], minimum| DeliveryPolicy {
            hold: flags(hold),
            refuse: flags(refuse),
            coherence_min: Some(minimum),
            rules: Vec::new(),
        };
        let own =
            |name: &str, tier| policies.applications[&(name.parse().expect("a valid name"), tier)].clone();
        let common = policy(&["verdict_conflict"], &["few_tests"], 0.98);
        assert_eq!(policies.common[&ProductTier::Quick], common);
        assert_eq!(own("help", ProductTier::Quick), common);
        let full = policy(&["empty_analysis"], &["few_tests"], 0.99);
        assert_eq!(policies.common[&ProductTier::Full], full);
        assert_eq!(own("help", ProductTier::Full), full);
        let quick = policy(&["short_summary"], &["few_tests"], 0.98);
        assert_eq!(own("shop", ProductTier::Quick), quick);
        assert_eq!(own("shop", ProductTier::Full), policy(&["short_summary"], &[], 0.99));
    }

    #[test]
    fn unknown_flag_and_minimum_out_of_range_are_faults_of_their_keys() {
        let gate = section(json!({
            "hold": ["malformed_json"], "quick": {"coherence_min": OMEGA}, "full": {"coherence_min": 1.01},
            "strategy": {"refuse": ["empty_analysis:Curvature"], "coherence_min": 1.0},
        }));
        let applications = applications(json!({"shop": {"gate": {"quick": {"refuse": ["x"]}}}}));
        let keys = gate.check_tables(&applications).into_iter().map(|fault| match fault {
            ConfigError::NotAllowed { key, .. } => key,
            other => other.to_string(),
        });
        let expected = [
            "gate.hold",
            "gate.quick.coherence_min",
            "gate.full.coherence_min",
            "applications.shop.gate.quick.refuse",
        ];
        assert_eq!(keys.collect::<Vec<_>>(), expected);
    }
}
