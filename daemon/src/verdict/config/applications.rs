//! The configuration of applications.

use super::mail::{MailSection, MailTransport, check_heading};
use super::opinions::{OpinionsSection, is_unset};
use crate::platform::config::{ConfigError, Configuration, Section, not_allowed_error, without_files};
use crate::platform::service::{ApplicationProcesses, Applications};
use actors_platform::per_application::PerApplication;
use actors_upstream::mail::MailHeading;
use domain_base::session_id::ApplicationName;
use domain_ground::source::RecallMode;
use domain_rules::{RuleId, RuleIds};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::FlagSelector;
use domain_verdict::prompt::TemplateName;
use domain_verdict::tmm::OMEGA;
use domain_verdict::webhook::WebhookType;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use utoipa::ToSchema;

/// An application: the processes that share its sessions, and the keys that differ for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationSection {
    /// User ids of the processes of the application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uids: Vec<u32>,
    /// Group ids of the processes of the application, for processes whose user id no application lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gids: Vec<u32>,
    /// Contact in place of `contact`.
    pub contact: Option<String>,
    /// Sender of mails in place of `mail.from`, with the transport `smtp`.
    pub mail_from: Option<String>,
    /// Subject of mails in place of `mail.subject`, with the transport `smtp`.
    pub mail_subject: Option<String>,
    /// Mail templates in place of `mail.templates`.
    #[schema(value_type = Option<Vec<String>>)]
    pub mail_templates: Option<Vec<TemplateName>>,
    /// Prompt template for first verdicts in place of `prompt_template`: `ID` for the newest registered version, or
    /// `ID@VERSION`.
    #[schema(value_type = Option<String>)]
    pub prompt_template: Option<TemplateName>,
    /// [Models](../models.md#several-models) that make first verdicts of the application, in the order in which they are
    /// tried, in place of `[model]` and `model.fallbacks`: names of tables in `models`, or the provider's name for `[model]`.
    pub models: Option<Vec<String>>,
    /// Whether unknown sessions of the application are looked up (`lookup.preset`, `lookup.session_url`). The payment service
    /// does not separate applications: set it only for those whose customers pay there.
    pub lookup: bool,
    /// URL of the endpoint of webhooks in place of `webhooks.url`. `webhook_secret_file` must then be set.
    pub webhook_url: Option<String>,
    /// File with the secret that signs webhooks to `webhook_url`: `whsec_` and the base64 form of 24 to 64 bytes, or with two,
    /// as `webhooks.secret_file`.
    #[schema(value_type = Option<String>)]
    pub webhook_secret_file: Option<PathBuf>,
    /// The [events](../webhooks.md#events) that are sent to the application; absent for all, or for those of `webhooks.events` if it has no
    /// `webhook_url`.
    pub webhook_events: Option<Vec<WebhookType>>,
    /// Maximum number of requests to the model for the application within any minute. Beyond the limit, its orders wait, and
    /// reads of its lost verdicts get 503 `model_busy`. The hosts of a cluster share it.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub calls_per_minute: Option<u32>,
    /// Budget of a UTC day for model calls of the application, in `costs.currency`, beside `costs.daily_budget`. Every model
    /// must have prices. While the budget is used up, orders of the application wait, and reads of its lost verdicts get 503
    /// `model_busy`.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    pub daily_budget: Option<f64>,
    /// Maximum number of open orders of the application. Beyond the limit, requests get 503 `model_busy`. Without it, the
    /// applications share equally what the limits of the others leave of `orders.queue_max`; a single one may use all of it.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub queue_max: Option<usize>,
    /// Maximum number of verdicts of the application in flight. Beyond the limit, requests get 503 `overloaded`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub in_flight: Option<usize>,
    /// Data of the application that the other applications can read, too; the only kind is `verifications`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SharedData>,
    /// What is done about delivered verdicts of the application that relied on statements that differ now, in place of `recall`.
    pub recall: Option<RecallMode>,
    /// The [opinions](../delivery.md#several-opinions) that decide on verdicts of the application, in place of `orders.opinions`. Keys
    /// that are not set have the values there.
    #[serde(skip_serializing_if = "is_unset")]
    pub opinions: OpinionsSection,
    /// The [policy](../delivery.md#policy-beside-the-gate) for verdicts of the application: `hold`, `refuse`,
    /// `coherence_min` and `rules`, and the tables `quick`, `full` and `strategy` with the same keys.
    #[serde(skip_serializing_if = "ApplicationGateSection::is_empty")]
    pub gate: ApplicationGateSection,
}

/// Data of an application that others can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SharedData {
    /// Its [verifications](../verification.md), by their execution ids.
    Verifications,
}

impl ApplicationSection {
    /// The sender and the subject of mails; those of `common` if the application has none.
    pub(crate) fn mail_heading(&self, common: &MailHeading) -> MailHeading {
        MailHeading {
            from: self.mail_from.clone().unwrap_or_else(|| common.from.clone()),
            subject: self.mail_subject.clone().unwrap_or_else(|| common.subject.clone()),
        }
    }
}

/// The applications by name.
pub type ApplicationSections = BTreeMap<ApplicationName, ApplicationSection>;

impl Section for ApplicationSections {
    fn key(&self) -> &'static str {
        "applications"
    }

    fn decisions(&self) -> Option<Value> {
        without_files(self)
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        check_applications(self)
    }

    fn warnings(&self, all: &dyn Configuration) -> Vec<String> {
        let unused = unused_mail_headings(self, all.section());
        let warn = |key| format!("`{key}` has no effect without `mail.transport = \"smtp\"`");
        unused.into_iter().map(warn).collect()
    }
}

/// The processes of each application.
pub(crate) fn processes(applications: &ApplicationSections) -> Applications {
    let processes = |section: &ApplicationSection| ApplicationProcesses {
        uids: section.uids.clone(),
        gids: section.gids.clone(),
        in_flight: section.in_flight,
        shares_verifications: section.shares.contains(&SharedData::Verifications),
    };
    Applications(applications.iter().map(|(name, section)| (name.clone(), processes(section))).collect())
}

/// The value `common`, and the `own` values of applications.
pub(crate) fn with_own<T>(
    applications: &ApplicationSections,
    common: T,
    own: impl Fn(&ApplicationSection) -> Option<T>,
) -> PerApplication<T> {
    let own = applications.iter().filter_map(|(name, section)| Some((name.clone(), own(section)?)));
    PerApplication { common, own: own.collect() }
}

/// The mail templates of all applications.
pub(crate) fn mail_templates(
    applications: &ApplicationSections,
    mail: &MailSection,
) -> PerApplication<Vec<TemplateName>> {
    with_own(applications, mail.templates.clone(), |section| section.mail_templates.clone())
}

/// The senders and subjects of mails that have no effect, because only the transport `smtp` uses them: their keys.
fn unused_mail_headings(applications: &ApplicationSections, mail: &MailSection) -> Vec<String> {
    if mail.transport == MailTransport::Smtp {
        return Vec::new();
    }
    let common = [
        ("mail.from", mail.from.is_some()),
        ("mail.subject", mail.subject != MailSection::default().subject),
    ];
    let common = common.into_iter().map(|(key, is_set)| (key.to_owned(), is_set));
    let own = applications.iter().flat_map(|(name, section)| {
        let set = [("mail_from", &section.mail_from), ("mail_subject", &section.mail_subject)];
        set.map(|(key, value)| (format!("applications.{name}.{key}"), value.is_some()))
    });
    common.chain(own).filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}

/// The faults of the applications: no process, the process of another one, or an unusable sender.
fn check_applications(applications: &ApplicationSections) -> Vec<ConfigError> {
    let (mut uids, mut gids) = (BTreeSet::new(), BTreeSet::new());
    let mut faults = Vec::new();
    for (name, section) in applications {
        let key = |key: &str| format!("applications.{name}.{key}");
        if section.uids.is_empty() && section.gids.is_empty() {
            let allowed = "at least one user id here, or group id in `gids`";
            faults.push(not_allowed_error(key("uids"), "empty", allowed));
        }
        for (list, ids, taken) in [("uids", &section.uids, &mut uids), ("gids", &section.gids, &mut gids)] {
            if let Some(id) = ids.iter().find(|id| !taken.insert(**id)) {
                let given = format!("{id}, which is listed twice");
                faults.push(not_allowed_error(key(list), given, "each id once, in one application"));
            }
        }
        // without a sender of its own, that of `mail.from` applies, which has its own check
        let any = MailHeading { from: "name@example.org".into(), subject: String::new() };
        let heading = section.mail_heading(&any);
        faults.extend(check_heading(&heading, key("mail_from"), key("mail_subject")).err());
    }
    faults
}

/// A part of the policy. A key that is not set has the value of the more general table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Flags that hold an approved verdict, in place of `gate.hold`.
    pub hold: Option<Vec<String>>,
    /// Flags that refuse an approved verdict, in place of `gate.refuse`.
    pub refuse: Option<Vec<String>>,
    /// Minimum coherence in place of `gate.coherence_min`.
    pub coherence_min: Option<f64>,
    /// Rules that every verdict must pass, in place of `gate.rules`.
    #[schema(value_type = Option<Vec<String>>)]
    pub rules: Option<RuleIds>,
}

/// The policy of an application. A key that is not set has the value in `[gate.TIER]`, or else in `[gate]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationGateSection {
    /// Flags that hold an approved verdict, in place of `gate.hold`.
    pub hold: Option<Vec<String>>,
    /// Flags that refuse an approved verdict, in place of `gate.refuse`.
    pub refuse: Option<Vec<String>>,
    /// Minimum coherence in place of `gate.coherence_min`.
    pub coherence_min: Option<f64>,
    /// Rules that every verdict must pass, in place of `gate.rules`.
    #[schema(value_type = Option<Vec<String>>)]
    pub rules: Option<RuleIds>,
    /// The policy for quick verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub quick: PolicySection,
    /// The policy for full verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub full: PolicySection,
    /// The policy for strategy verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub strategy: PolicySection,
}

impl PolicySection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first fault in the table `table`.
    pub(super) fn check(&self, table: &str) -> Result<(), ConfigError> {
        for (key, words) in [("hold", &self.hold), ("refuse", &self.refuse)] {
            let is_unknown = |word: &String| word.parse::<FlagSelector>().is_err();
            if words.iter().flatten().any(is_unknown) {
                // a word is not shown, because it can be a misplaced secret
                let allowed = format!("a list of {}", FlagSelector::NAMES.join(", "));
                return Err(not_allowed_error(
                    format!("{table}.{key}"),
                    "a list with an unknown flag",
                    allowed,
                ));
            }
        }
        if let Some(rule) = self.rules.as_ref().and_then(|rules| RuleId::first_repeated(&rules.0)) {
            let key = format!("{table}.rules");
            return Err(not_allowed_error(key, format_args!("`{rule}` twice"), "each rule once"));
        }
        match self.coherence_min.filter(|minimum| !(*minimum > OMEGA && *minimum <= 1.0)) {
            Some(minimum) => {
                let allowed = format!("a number above {OMEGA} and at most 1");
                Err(not_allowed_error(format!("{table}.coherence_min"), minimum, allowed))
            }
            None => Ok(()),
        }
    }
}

impl ApplicationGateSection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn common(&self) -> PolicySection {
        let Self { hold, refuse, coherence_min, rules, .. } = self.clone();
        PolicySection { hold, refuse, coherence_min, rules }
    }

    pub(super) const fn of(&self, tier: ProductTier) -> &PolicySection {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn applications(json: Value) -> ApplicationSections {
        serde_json::from_value(json).expect("valid applications")
    }

    #[test]
    fn application_check_rejects_no_process_shared_process_and_unusable_sender() {
        let faults = |json| {
            let keys = check_applications(&applications(json)).into_iter().map(|fault| match fault {
                ConfigError::NotAllowed { key, .. } => key,
                other => other.to_string(),
            });
            keys.collect::<Vec<_>>()
        };
        assert!(
            faults(json!({"a": {"uids": [1]}, "b": {"gids": [1], "mail_from": "B <b@c.de>"}})).is_empty()
        );
        assert_eq!(faults(json!({"a": {}})), ["applications.a.uids"]);
        assert_eq!(faults(json!({"a": {"uids": [1]}, "b": {"uids": [1]}})), ["applications.b.uids"]);
        assert_eq!(
            faults(json!({"a": {"gids": [1, 1], "mail_from": "b"}})),
            ["applications.a.gids", "applications.a.mail_from"]
        );
        assert_eq!(
            faults(json!({"a": {"uids": [1], "mail_subject": "a\nb"}})),
            ["applications.a.mail_subject"]
        );
    }
}
