//! Warnings of the start about parts that are configured and missing.

use crate::config::DaemonConfig;
use crate::platform::service::DaemonService;
use crate::verdict::config::applications::mail_templates;
use crate::verdict::config::models::ModelProvider;
use oracled_actors::verdict::generation::find_prompt_template;
use oracled_actors::verdict::notifier::find_mail_template;

/// Logs a warning if the model has no key, or if a configured template is not registered.
pub(super) fn warn_of_missing_parts(service: &DaemonService, config: &DaemonConfig) {
    if config.model.provider != ModelProvider::None && service.system.models.is_empty() {
        tracing::warn!("the model's key is missing, so no verdicts are generated; see `model.api_key_file`");
    }
    for (application, name) in config.prompt_template.templates(&config.applications).iter() {
        if let Err(error) = find_prompt_template(&service.system.store, name) {
            let application = application.map(ToString::to_string);
            tracing::warn!(application, %error, "no prompt can be built, so orders wait");
        }
    }
    for (application, names) in mail_templates(&config.applications, &config.mail).iter() {
        for name in names {
            if let Err(error) = find_mail_template(&service.system.store, name) {
                let application = application.map(ToString::to_string);
                tracing::warn!(application, %error, "mails wait for their template");
            }
        }
    }
}
