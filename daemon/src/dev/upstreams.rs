//! The upstream systems of a daemon in development: the configured model and mail service, or their substitutes.

use super::mailbox::Mailbox;
use super::model::RecordedModel;
use crate::config::DaemonConfig;
use crate::platform::config::DaemonFlags;
use crate::upstreams::UpstreamClients;
use crate::verdict::config::mail::MailSection;
use crate::verdict::config::models::ModelSection as ModelConfig;
use actors_platform::clock::Clock;
use anyhow::Context;
use domain_upstream::health::OracleHealthConfig;
use std::num::NonZeroU32;
use std::path::Path;

/// Number of retries of a failed call to the recorded model: enough to show retries.
const MAX_RETRIES: u32 = 1;
/// Time that the recorded model's circuit stays open, in seconds: long enough to be seen, short enough for a
/// walk.
const RESET_SECONDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// The model of the walk.
#[derive(Debug)]
pub(super) enum DevModel {
    /// A recording, because no model is configured.
    Recorded {
        model: RecordedModel,
        /// Whether the walk has an outage. If `health` is configured, an outage could take too long.
        has_outage: bool,
    },
    Configured,
    /// No model: the configuration has none, or its key is missing.
    Missing,
}

/// The model and the mail service.
#[derive(Debug)]
pub(super) struct DevUpstreams {
    pub(super) model: DevModel,
    /// `None` if a mail service is configured.
    pub(super) mailbox: Option<Mailbox>,
}

impl DevUpstreams {
    /// Starts a substitute for each missing upstream system, and adds it to `config`. Creates files in `dir`.
    pub(super) async fn start(
        config: &mut DaemonConfig,
        flags: &DaemonFlags,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let upstreams = UpstreamClients::from_config(config, &Clock::system(), flags.allow_cleartext)?;
        let has_model = !upstreams.models.order.is_empty();
        let model = match (has_model, config.model == ModelConfig::default()) {
            (true, _) => DevModel::Configured,
            (false, false) => DevModel::Missing,
            (false, true) => start_recorded_model(config, dir).await?,
        };
        let mailbox = if config.mail == MailSection::default() {
            let mailbox = Mailbox::start(dir.join("mail")).await.context("no mailbox")?;
            mailbox.configure(&mut config.mail);
            Some(mailbox)
        } else {
            None
        };
        Ok(Self { model, mailbox })
    }

    /// The model and the mail service, each on one line.
    pub(super) fn describe(&self) -> [String; 2] {
        let model = match &self.model {
            DevModel::Recorded { has_outage: true, .. } => {
                "a recording of a real model; set GEMINI_API_KEY for Google's model"
            }
            DevModel::Recorded { has_outage: false, .. } => {
                "a recording of a real model; no outage is shown, because `health` is configured"
            }
            DevModel::Configured => {
                "as configured; answers are shown but not checked, and no outage is shown"
            }
            DevModel::Missing => "none, because no model or no key is configured; no verdict is generated",
        };
        let mail = self.mailbox.as_ref().map_or_else(
            || "as configured; the arrival of mail is not checked".into(),
            |mailbox| format!("files in {}", mailbox.dir().display()),
        );
        [model.to_owned(), mail]
    }
}

async fn start_recorded_model(config: &mut DaemonConfig, dir: &Path) -> anyhow::Result<DevModel> {
    let model = RecordedModel::start().await.context("no recorded model")?;
    model.configure(&mut config.model, dir).context("no key for the recorded model")?;
    config.model.max_retries = MAX_RETRIES;
    let has_outage = config.health == OracleHealthConfig::default();
    if has_outage {
        config.health.circuit_breaker_reset_seconds = RESET_SECONDS;
        config.health.recovery_threshold = NonZeroU32::MIN;
    }
    Ok(DevModel::Recorded { model, has_outage })
}
