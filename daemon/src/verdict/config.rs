//! The configuration of verdicts: orders, costs, webhooks, and the sections with files of their own.

pub mod applications;
pub mod lookup;
pub mod mail;
pub mod models;
pub mod opinions;

use crate::platform::config::{ConfigError, Configuration, Section, not_allowed_error, without_files};
use actors_platform::per_application::PerApplication;
use actors_verdict::orders::OrdersConfig;
use applications::{ApplicationSection, ApplicationSections, PolicySection};
use domain_base::decimal::Decimal;
use domain_base::document::Document;
use domain_base::session_id::ApplicationName;
use domain_ground::id::EndpointId;
use domain_ground::source::RecallMode;
use domain_rules::RuleIds;
use domain_upstream::health::OracleHealthConfig;
use domain_verdict::cost::CostBudgets;
use domain_verdict::crosscheck::UnexpectedFieldHandling;
use domain_verdict::label::ProductTier;
use domain_verdict::opinion::{OPINIONS_MAX, OpinionPlan};
use domain_verdict::order::OrderPolicy;
use domain_verdict::policy::{DeliveryPolicies, DeliveryPolicy, FlagSelector, PerTier};
use domain_verdict::prompt::{PromptTemplate, TemplateName};
use domain_verdict::webhook::WebhookType;
use jiff::SignedDuration;
use models::{check_names, model_entries};
use opinions::{OpinionsSection, is_unset, resolve_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::iter;
use std::path::PathBuf;
use utoipa::ToSchema;

/// The contact for customers of applications without a contact of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommonContact(pub Option<String>);

impl Section for CommonContact {
    fn key(&self) -> &'static str {
        "contact"
    }
}

impl CommonContact {
    /// The contacts of all applications.
    #[must_use]
    pub fn contacts(&self, applications: &ApplicationSections) -> PerApplication<Option<String>> {
        applications::with_own(applications, self.0.clone(), |section| section.contact.clone().map(Some))
    }
}

/// The prompt template of applications without a template of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommonPromptTemplate(pub TemplateName);

impl Default for CommonPromptTemplate {
    fn default() -> Self {
        Self(PromptTemplate::built_in_name())
    }
}

impl Section for CommonPromptTemplate {
    fn key(&self) -> &'static str {
        "prompt_template"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }

    /// The names that no document can have: versions of the built-in template that do not exist.
    fn check(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        let own = all.section::<ApplicationSections>().iter().filter_map(|(name, section)| {
            Some((format!("applications.{name}.prompt_template"), section.prompt_template.as_ref()?))
        });
        let names = iter::once((self.key().to_owned(), &self.0)).chain(own);
        let built_in = PromptTemplate::built_in().reference();
        let is_missing =
            |name: &TemplateName| name.id == built_in.id && PromptTemplate::find_built_in(name).is_none();
        let fault = |(key, name): (String, &TemplateName)| {
            let versions = PromptTemplate::built_in_versions()
                .iter()
                .map(|version| format!("`{}`", version.reference()));
            let versions = versions.collect::<Vec<_>>().join(" or ");
            let allowed = format!("`{}`, {versions} for the built-in template", built_in.id);
            not_allowed_error(key, name, allowed)
        };
        names.filter(|(_, name)| is_missing(name)).map(fault).collect()
    }
}

impl CommonPromptTemplate {
    /// The prompt templates of all applications.
    #[must_use]
    pub fn templates(&self, applications: &ApplicationSections) -> PerApplication<TemplateName> {
        applications::with_own(applications, self.0.clone(), |section| section.prompt_template.clone())
    }
}

/// What is done about delivered verdicts that relied on statements that differ now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommonRecallMode(pub RecallMode);

impl Section for CommonRecallMode {
    fn key(&self) -> &'static str {
        "recall"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }
}

impl CommonRecallMode {
    /// The modes of all applications.
    #[must_use]
    pub fn modes(self, applications: &ApplicationSections) -> PerApplication<RecallMode> {
        applications::with_own(applications, self.0, |section| section.recall)
    }
}

impl Section for OracleHealthConfig {
    fn key(&self) -> &'static str {
        "health"
    }
}

/// The effect of a limit on an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderLimitAction {
    /// The order fails.
    #[default]
    Fail,
    /// The order is held until an operator retries or fails it.
    Hold,
}

/// Orders: first verdicts that the model generates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrdersSection {
    /// Age of an order at which each model gets one last attempt. Before, it is attempted again after failures of a model.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub max_age_s: u32,
    /// Total number of [rejected answers](../delivery.md#generate-a-verdict) of the models to an order, at which it stops:
    /// answers that the crosscheck, the rules or the policy reject, that are incomplete or empty, that cannot be read
    /// but report tokens, or in which a model declines.
    #[schema(minimum = 1, maximum = 100)]
    pub generations_max: u32,
    /// Temperatures of the calls after the first, second and further rejected answers. The last one is also that of all
    /// further calls, and `top_k` is not sent with them. With an empty list, all calls have the settings of the first one.
    pub further_temperatures: Vec<f64>,
    /// Maximum number of open orders. Further ones get 503 `model_busy`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub queue_max: usize,
    /// Effect of `orders.max_age_s`, `orders.generations_max` and different opinions on an order: `fail`, or `hold` until an operator
    /// retries or fails it.
    pub at_limit: OrderLimitAction,
    /// The [opinions](../delivery.md#several-opinions) that decide on a verdict: `count`, `agree` and `models`, and the tables `quick`,
    /// `full` and `strategy` with the same keys.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub opinions: OpinionsSection,
}

impl Default for OrdersSection {
    fn default() -> Self {
        Self {
            max_age_s: 24 * 60 * 60,
            generations_max: 3,
            further_temperatures: vec![0.4, 0.8],
            queue_max: 10_000,
            at_limit: OrderLimitAction::default(),
            opinions: OpinionsSection::default(),
        }
    }
}

impl Section for OrdersSection {
    fn key(&self) -> &'static str {
        "orders"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }

    fn check(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        let other = self.further_temperatures.iter().find(|temperature| !(0.0..=2.0).contains(*temperature));
        let fault = |other| not_allowed_error("orders.further_temperatures", other, "numbers from 0 to 2");
        other.map(fault).into_iter().chain(self.check_opinions(all)).collect()
    }
}

impl OrdersSection {
    /// The limits of applications. With several applications, those without a limit of their own share equally what the others
    /// leave of `queue_max`, so that none can fill it.
    fn limits_of_applications(&self, applications: &ApplicationSections) -> BTreeMap<ApplicationName, usize> {
        let own = applications.values().filter_map(|section| section.queue_max);
        let (sum, count) =
            own.fold((0, 0), |(sum, count): (usize, usize), own| (sum.saturating_add(own), count + 1));
        let sharing = applications.len() - count;
        let share = self.queue_max.saturating_sub(sum).checked_div(sharing).unwrap_or_default().max(1);
        let share = (applications.len() > 1).then_some(share);
        let limit = |(name, section): (&ApplicationName, &ApplicationSection)| {
            Some((name.clone(), section.queue_max.or(share)?))
        };
        applications.iter().filter_map(limit).collect()
    }

    /// The limits of orders.
    #[must_use]
    pub fn to_orders_config(&self, applications: &ApplicationSections) -> OrdersConfig {
        OrdersConfig {
            policy: OrderPolicy {
                max_age: SignedDuration::from_secs(self.max_age_s.into()),
                generations_max: self.generations_max,
                holds_stopped: self.at_limit == OrderLimitAction::Hold,
            },
            queue_max: self.queue_max,
            applications: self.limits_of_applications(applications),
            further_temperatures: self.further_temperatures.clone(),
        }
    }
}

impl OrdersSection {
    /// The opinions for all tiers and applications.
    #[must_use]
    pub fn to_opinion_plans(&self, applications: &ApplicationSections) -> PerTier<Option<OpinionPlan>> {
        let holds_disagreed = self.at_limit == OrderLimitAction::Hold;
        let plan = |own: Option<&OpinionsSection>, tier| {
            let (count, agree, models) = resolve_for(&self.opinions, own, tier);
            let models = models.iter().filter_map(|name| name.parse().ok()).collect();
            (count > 1).then_some(OpinionPlan { count, agree, models, holds_disagreed })
        };
        let of_application = |(name, section): (&ApplicationName, &ApplicationSection)| {
            ProductTier::ALL.map(|tier| ((name.clone(), tier), plan(Some(&section.opinions), tier)))
        };
        PerTier {
            common: ProductTier::ALL.into_iter().map(|tier| (tier, plan(None, tier))).collect(),
            applications: applications.iter().flat_map(of_application).collect(),
        }
    }

    /// The first fault of the opinions, which depend on the models.
    fn check_opinions(&self, all: &dyn Configuration) -> Option<ConfigError> {
        let entries = model_entries(all);
        let known: Vec<_> = entries.iter().map(|entry| entry.oracle_id.as_str()).collect();
        let applications: &ApplicationSections = all.section();
        let own = applications
            .iter()
            .map(|(name, own)| (format!("applications.{name}.opinions"), Some(&own.opinions)));
        let tables = [("orders.opinions".to_owned(), None)].into_iter().chain(own);
        let mut cases =
            tables.flat_map(|(table, own)| ProductTier::ALL.map(|tier| (table.clone(), own, tier)));
        cases.find_map(|(table, own, tier)| {
            let (count, agree, models) = resolve_for(&self.opinions, own, tier);
            check_opinion_values(&table, (count, agree), &models, &known).err()
        })
    }
}

fn check_opinion_values(
    table: &str,
    (count, agree): (u32, u32),
    models: &[String],
    known: &[&str],
) -> Result<(), ConfigError> {
    if !(1..=OPINIONS_MAX).contains(&count) {
        return Err(not_allowed_error(format!("{table}.count"), count, format!("1 to {OPINIONS_MAX}")));
    }
    let least = count / 2 + 1;
    if !(least..=count).contains(&agree) {
        let allowed = format!("{least} to {count}: more than half of `count`, which is {count}");
        return Err(not_allowed_error(format!("{table}.agree"), agree, allowed));
    }
    if count > 1 && models.is_empty() {
        let allowed = "at least one model, because `count` is more than 1";
        return Err(not_allowed_error(format!("{table}.models"), "an empty list", allowed));
    }
    check_names(&format!("{table}.models"), models, known)
}

/// The costs of the models, as computed from their prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsSection {
    /// The currency of all prices and budgets: three letters, such as `EUR`. It is only a name; nothing is converted.
    pub currency: String,
    /// The budget of a UTC day, for all models together. When the costs of the day reach it, no further verdict is generated
    /// on this day: orders wait, and reads of lost verdicts get 503 `model_busy`. Calls in flight are completed. Every model
    /// must have prices. Without a value, costs are not limited.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    pub daily_budget: Option<f64>,
}

impl Default for CostsSection {
    fn default() -> Self {
        Self { currency: "USD".into(), daily_budget: None }
    }
}

impl Section for CostsSection {
    fn key(&self) -> &'static str {
        "costs"
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        if self.currency.len() == 3 && self.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Vec::new();
        }
        let allowed = "three letters of `A-Z`, such as EUR";
        vec![not_allowed_error("costs.currency", "not the code of a currency", allowed)]
    }
}

impl CostsSection {
    /// The daily budgets.
    #[must_use]
    pub fn to_budgets(&self, applications: &ApplicationSections) -> CostBudgets {
        let own = applications.iter().filter_map(|(name, section)| {
            section.daily_budget.and_then(exact_amount).map(|daily| (name.clone(), daily))
        });
        CostBudgets {
            currency: self.currency.clone(),
            all: self.daily_budget.and_then(exact_amount),
            applications: own.collect(),
        }
    }
}

/// The number as it is written in the configuration; `None` if it is not finite.
fn exact_amount(number: f64) -> Option<Decimal> {
    // the shortest text that reads back as the number
    number.to_string().parse().ok()
}

/// Webhooks to applications and operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhooksSection {
    /// URL of the endpoint of applications without an endpoint of their own. Without an endpoint, no webhook is queued. The
    /// URL is https, or http to a numeric address in `ingestion.allow_local`.
    pub url: Option<String>,
    /// File with the secret that signs webhooks to `url`: `whsec_` and the base64 form of 24 to 64 bytes. A second line can have
    /// another secret while one is replaced; both sign then.
    #[schema(value_type = Option<String>)]
    pub secret_file: Option<PathBuf>,
    /// The [events](../webhooks.md#events) that are sent to `url`; absent for all. An application with that endpoint can name others in
    /// `webhook_events`.
    pub events: Option<Vec<WebhookType>>,
    /// URL of the endpoint of operators.
    pub operator_url: Option<String>,
    /// File with the secret that signs webhooks to `operator_url`, or with two, as `secret_file`.
    #[schema(value_type = Option<String>)]
    pub operator_secret_file: Option<PathBuf>,
    /// The events that are sent to `operator_url`; absent for all.
    pub operator_events: Option<Vec<WebhookType>>,
    /// Further endpoints, by their ids. Each gets webhooks of its own, in addition to the endpoints above and those of applications.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, EndpointSection>)]
    pub endpoints: BTreeMap<EndpointId, EndpointSection>,
    /// Time during which a webhook is retried.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub max_age_s: u32,
    /// Time without an accepted webhook after which an endpoint is paused when a webhook to it becomes a dead letter.
    #[schema(minimum = 1, maximum = 2_592_000)]
    pub pause_after_s: u32,
    /// Time limit of an attempt.
    #[schema(minimum = 100, maximum = 60_000)]
    pub hard_timeout_ms: u64,
}

/// A further endpoint of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSection {
    /// The application whose webhooks it gets; absent for those of operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub application: Option<ApplicationName>,
    /// Its URL, as `webhooks.url`.
    pub url: String,
    /// File with the secret that signs its webhooks, or with two, as `webhooks.secret_file`.
    #[schema(value_type = String)]
    pub secret_file: PathBuf,
    /// The events that are sent to it; absent for all events of the application, or of operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<WebhookType>>,
}

impl Default for WebhooksSection {
    fn default() -> Self {
        Self {
            url: None,
            secret_file: None,
            events: None,
            operator_url: None,
            operator_secret_file: None,
            operator_events: None,
            endpoints: BTreeMap::new(),
            max_age_s: 3 * 24 * 60 * 60,
            pause_after_s: 5 * 24 * 60 * 60,
            hard_timeout_ms: 10_000,
        }
    }
}

impl Section for WebhooksSection {
    fn key(&self) -> &'static str {
        "webhooks"
    }

    /// The host that commits an event queues its webhook for all.
    fn decisions(&self) -> Option<Value> {
        let Self { events, operator_events, endpoints, .. } = self;
        let is_set = events.is_some() || operator_events.is_some() || !endpoints.is_empty();
        let further = |(id, EndpointSection { application, events, .. }): (&EndpointId, &EndpointSection)| {
            (id.to_string(), json!({ "application": application, "events": events }))
        };
        let further = || endpoints.iter().map(further).collect::<BTreeMap<_, _>>();
        is_set
            .then(|| json!({ "events": events, "operator_events": operator_events, "endpoints": further() }))
    }
}

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

    fn decisions(&self) -> Option<Value> {
        without_files(self)
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

    #[test]
    fn applications_without_a_limit_share_what_the_others_leave() {
        let limits = |queue_max: usize, own: &[(&str, Option<usize>)]| {
            let section = |queue_max| ApplicationSection { queue_max, ..ApplicationSection::default() };
            let own = own.iter().map(|(name, own)| (name.parse().expect("a name"), section(*own))).collect();
            let limits = OrdersSection { queue_max, ..OrdersSection::default() }.limits_of_applications(&own);
            limits.into_values().collect::<Vec<_>>()
        };
        assert_eq!(limits(10_000, &[]), Vec::<usize>::new());
        assert_eq!(limits(10_000, &[("a", None)]), Vec::<usize>::new());
        assert_eq!(limits(10_000, &[("a", Some(7))]), [7]);
        assert_eq!(limits(10_000, &[("a", None), ("b", None)]), [5000, 5000]);
        assert_eq!(limits(10_000, &[("a", None), ("b", Some(4000)), ("c", None)]), [3000, 4000, 3000]);
        assert_eq!(limits(10, &[("a", None), ("b", Some(10))]), [1, 10]);
    }

    #[test]
    fn amount_has_the_written_digits() {
        for text in ["0.1", "0.3", "2.5", "0.0000001", "19.99", "1000000000"] {
            let number: f64 = text.parse().expect("a number");
            assert_eq!(exact_amount(number).map(|amount| amount.to_string()).as_deref(), Some(text));
        }
        assert_eq!(exact_amount(f64::NAN), None);
    }

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
