//! The content of mails, rendered from the registered templates.

use actors_platform::per_application::PerApplication;
use domain_base::session_id::SessionId;
use domain_verdict::mail::{MailKind, OutboxMail};
use domain_verdict::mail_template::{MailContent, MailRenderError, MailTemplate, select_mail_template};
use domain_verdict::prompt::{LanguageTag, PromptTemplate, TemplateName, TemplateRef, VerdictPrompt};
use oracled_store::{Store, StoreError};

/// Why a mail has no content.
#[derive(Debug, thiserror::Error)]
pub enum MailContentError {
    /// A template is not registered.
    #[error(
        "mail template {0} is not registered; register it with `oraclectl apply`, or configure another one in \
         `mail.templates` or `applications.NAME.mail_templates`"
    )]
    Unknown(TemplateName),
    /// The template has no text of a recall notice, and there is no built-in one.
    #[error(
        "the mail template in the language of session {0} has no `recall_notice`; register a version that has it, and select it"
    )]
    NoNotice(SessionId),
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
    store.find_document(name)?.ok_or_else(|| MailContentError::Unknown(name.clone()))
}

/// Renders mails by the configured templates of their applications.
#[derive(Debug, Clone)]
pub struct MailRenderer {
    store: Store,
    templates: PerApplication<Vec<TemplateName>>,
    contacts: PerApplication<Option<String>>,
}

impl MailRenderer {
    #[must_use]
    pub const fn new(
        store: Store,
        templates: PerApplication<Vec<TemplateName>>,
        contacts: PerApplication<Option<String>>,
    ) -> Self {
        Self { store, templates, contacts }
    }

    /// The content of `mail`; `None` for the built-in text, which a recall notice does not have. Takes up to a second.
    ///
    /// # Errors
    /// A failure of this mail, which lasts until its template is corrected.
    pub fn find_content(&self, mail: &OutboxMail) -> Result<Option<MailContent>, MailContentError> {
        let session_id = &mail.state.session_id;
        let content = match self.find_template(session_id)? {
            None => None,
            Some(template) => {
                let contact = self.contacts.of(&session_id.application()).as_deref();
                let content = template.render(mail, contact);
                content.map_err(|error| MailContentError::Render { template: template.reference(), error })?
            }
        };
        if content.is_none() && mail.state.kind == MailKind::RecallNotice {
            return Err(MailContentError::NoNotice(session_id.clone()));
        }
        Ok(content)
    }

    /// Whether the template of a session has a text for mails of this kind.
    ///
    /// # Errors
    /// A template is not registered, or the store cannot be read.
    pub(crate) fn has_text(&self, session_id: &SessionId, kind: MailKind) -> Result<bool, MailContentError> {
        Ok(self.find_template(session_id)?.is_some_and(|template| template.mails.get(kind).is_some()))
    }

    /// The template in the language of a session; `None` if its application has none.
    fn find_template(&self, session_id: &SessionId) -> Result<Option<MailTemplate>, MailContentError> {
        let names = self.templates.of(&session_id.application()).iter();
        let templates =
            names.map(|name| find_mail_template(&self.store, name)).collect::<Result<Vec<_>, _>>()?;
        let language = self.prompt_language(session_id)?;
        Ok(select_mail_template(&templates, language.as_ref()).cloned())
    }

    /// The language of the prompt of the session's original verdict, if its template is known.
    fn prompt_language(&self, session_id: &SessionId) -> Result<Option<LanguageTag>, StoreError> {
        let original = self.store.session(session_id)?.and_then(|(session, _)| session.original);
        let prompt = original.and_then(|original| original.prompt);
        prompt.map_or(Ok(None), |prompt| find_prompt_language(&self.store, &prompt))
    }
}

/// The language of `prompt`, if its template is known.
pub(crate) fn find_prompt_language(
    store: &Store,
    prompt: &VerdictPrompt,
) -> Result<Option<LanguageTag>, StoreError> {
    let Some(name) = prompt.template.clone().map(TemplateName::from) else { return Ok(None) };
    let template = match PromptTemplate::find_built_in(&name) {
        Some(built_in) => Some(built_in.clone()),
        None => store.find_document::<PromptTemplate, _>(&name)?,
    };
    Ok(template.map(|template| template.language))
}
