//! What is outside of a daemon in development: the model and the mail service that are configured, or what takes the
//! place of those that are not.

use super::mailbox::Mailbox;
use super::model::RecordedModel;
use crate::platform::config::{Config, Flags, Mail, Model as ModelConfig};
use crate::platform::upstreams::Upstreams;
use anyhow::Context;
use oracled_actors::Clock;
use oracled_domain::verdict::health::HealthConfig;
use std::num::NonZeroU32;
use std::path::Path;

/// The recorded model is called so many times more where it fails: enough to see that it is.
const MAX_RETRIES: u32 = 1;
/// For so long its circuit stays open: long enough to be looked at, and not so long that anybody waits.
const RESET_SECONDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// Who is asked for verdicts.
#[derive(Debug)]
pub(super) enum Model {
    /// Nobody was configured, and a recording answers.
    Recorded {
        model: RecordedModel,
        /// So many failures in a row open its circuit; nothing where its health is watched as somebody has configured,
        /// and nobody can know what comes.
        failures: Option<NonZeroU32>,
    },
    /// Whoever is configured.
    Configured,
    /// Nobody: that is what is configured, or there is no key.
    Missing,
}

/// The model and the mail service.
#[derive(Debug)]
pub(super) struct Outside {
    pub(super) model: Model,
    /// Nothing where a mail service is configured.
    pub(super) mailbox: Option<Mailbox>,
}

impl Outside {
    /// Starts what takes the place of that of which nothing is configured, and has `config` name it. Files go into
    /// `dir`.
    pub(super) async fn start(config: &mut Config, flags: &Flags, dir: &Path) -> anyhow::Result<Self> {
        let somebody = Upstreams::of(config, &Clock::system(), flags.allow_cleartext)?.model.is_some();
        let model = match (somebody, config.model == ModelConfig::default()) {
            (true, _) => Model::Configured,
            (false, false) => Model::Missing,
            (false, true) => recorded(config, dir).await?,
        };
        let mailbox = if config.mail == Mail::default() {
            let mailbox = Mailbox::start(dir.join("mail")).await.context("no mailbox")?;
            mailbox.put_into(&mut config.mail);
            Some(mailbox)
        } else {
            None
        };
        Ok(Self { model, mailbox })
    }

    /// What there is, line by line.
    pub(super) fn in_words(&self) -> [String; 2] {
        let model = match &self.model {
            Model::Recorded { model, failures } => {
                let but = if failures.is_some() {
                    ""
                } else {
                    "; `health` is configured: no outage is walked through"
                };
                format!(
                    "a recording at {}, of what a real one said; set GEMINI_API_KEY for Google's{but}",
                    model.url()
                )
            }
            Model::Configured => {
                "the one that is configured: what it says is shown and not checked, and no outage is walked through"
                    .into()
            }
            Model::Missing => {
                "none, or one without a key, as configured: no verdict is made, lost or made anew".into()
            }
        };
        let mail = self.mailbox.as_ref().map_or_else(
            || "the service that is configured; whether it arrives is not checked".into(),
            |mailbox| format!("files in {}", mailbox.dir().display()),
        );
        [model, mail]
    }
}

async fn recorded(config: &mut Config, dir: &Path) -> anyhow::Result<Model> {
    let model = RecordedModel::start().await.context("no recorded model")?;
    model.put_into(&mut config.model, dir).context("no key for the recorded model")?;
    config.model.max_retries = MAX_RETRIES;
    let ours = config.health == HealthConfig::default();
    if ours {
        config.health.circuit_breaker_reset_seconds = RESET_SECONDS;
        config.health.recovery_threshold = NonZeroU32::MIN;
    }
    Ok(Model::Recorded { model, failures: ours.then_some(config.health.failure_threshold) })
}
