//! The content of a mail, from the mail templates of its application.

use super::mails::MailSender;
use crate::templates::{find_prompt_language, find_registered_template};
use domain_base::session_id::SessionId;
use domain_verdict::mail::{MailFailureCause, MailSendFailure, OutboxMail};
use domain_verdict::mail_template::{MailContent, MailRenderError, MailTemplate, select_mail_template};
use domain_verdict::prompt::LanguageTag;
use domain_verdict::template_name::{TemplateName, TemplateRef};
use oracled_store::{Store, StoreError};
use tokio::task::spawn_blocking;

/// Why a mail has no content.
#[derive(Debug, thiserror::Error)]
pub enum MailContentError {
    /// A template is not registered.
    #[error(
        "mail template {0} is not registered; register it with `oraclectl apply`, or configure another one in \
         `mail.templates` or `applications.NAME.mail_templates`"
    )]
    Unknown(TemplateName),
    /// The template cannot be rendered for the mail.
    // stored causes are cut, so the remedy is before the details
    #[error("mail template {template} cannot be rendered, register a corrected version: {error}")]
    Render { template: TemplateRef, error: MailRenderError },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The registered mail template that `name` names.
///
/// # Errors
/// It is not registered, or the store cannot be read.
pub fn find_mail_template(store: &Store, name: &TemplateName) -> Result<MailTemplate, MailContentError> {
    find_registered_template(store, name)?.ok_or_else(|| MailContentError::Unknown(name.clone()))
}

impl MailSender {
    /// The content of `mail`; `None` for the built-in text.
    ///
    /// # Errors
    /// A failure of this mail, which lasts until its template is corrected.
    pub(super) async fn render(&self, mail: &OutboxMail) -> Result<Option<MailContent>, MailSendFailure> {
        let (sender, mail) = (self.clone(), mail.clone());
        // a rendering may take a second
        let rendered = spawn_blocking(move || sender.find_content(&mail).map_err(|error| error.to_string()));
        let rendered = rendered.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "the rendering of a mail panicked");
            Err("the rendering of the mail failed unexpectedly; see the service log".to_owned())
        });
        rendered.map_err(|cause| MailSendFailure { cause, fault: MailFailureCause::Mail, retry_after: None })
    }

    fn find_content(&self, mail: &OutboxMail) -> Result<Option<MailContent>, MailContentError> {
        let session_id = &mail.standing.session_id;
        let application = session_id.application();
        let names = self.templates.of(&application).iter();
        let templates =
            names.map(|name| find_mail_template(&self.store, name)).collect::<Result<Vec<_>, _>>()?;
        let language = self.prompt_language(session_id)?;
        let Some(template) = select_mail_template(&templates, language.as_ref()) else { return Ok(None) };
        let content = template.render(mail, self.contacts.of(&application).as_deref());
        content.map_err(|error| MailContentError::Render { template: template.reference(), error })
    }

    /// The language of the prompt of the session's original verdict, if its template is known.
    fn prompt_language(&self, session_id: &SessionId) -> Result<Option<LanguageTag>, StoreError> {
        let original = self.store.session(session_id)?.and_then(|(session, _)| session.original);
        let prompt = original.and_then(|original| original.prompt);
        prompt.map_or(Ok(None), |prompt| find_prompt_language(&self.store, &prompt))
    }
}
