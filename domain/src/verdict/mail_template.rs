//! Mail templates: registered documents, immutable under their version.

mod render;
mod sample;
mod syntax;

pub use render::{MailContent, MailRenderError};

use crate::base::blank::is_blank;
use crate::ground::id::TemplateId;
use crate::verdict::label::ProductTier;
use crate::verdict::mail::MailKind;
use crate::verdict::prompt::LanguageTag;
use crate::verdict::template_name::TemplateRef;
use serde::{Deserialize, Serialize};
use strum::VariantArray;
use utoipa::ToSchema;

/// The maximum length of a subject, in bytes.
const SUBJECT_MAX_BYTES: usize = 1024;
/// The maximum length of a plain text and of an HTML text, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// A mail template: one version of the texts of mails in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailTemplate {
    /// The id, the same for all versions.
    pub template_id: TemplateId,
    /// The version. The newest version is the one with the highest number.
    #[schema(minimum = 1)]
    pub version: u32,
    /// The language of the texts.
    pub language: LanguageTag,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The texts of the mails, for at least one kind. Other mails have the built-in text.
    pub mails: MailTexts,
}

/// The texts of a mail template, by the kind of the mail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailTexts {
    /// The mail with the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<MailParts>,
    /// The notice that the results page shows another verdict than the mailed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence_notice: Option<MailParts>,
}

/// The parts of a mail, in the language of Jinja templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailParts {
    /// The subject, at most 1 KiB.
    pub subject: String,
    /// The plain text, at most 64 KiB.
    pub text: String,
    /// The same as HTML, at most 64 KiB. Values are escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

impl MailTexts {
    /// The parts of mails of this kind.
    #[must_use]
    pub const fn get(&self, kind: MailKind) -> Option<&MailParts> {
        match kind {
            MailKind::Verdict => self.verdict.as_ref(),
            MailKind::DivergenceNotice => self.divergence_notice.as_ref(),
        }
    }
}

/// Why a mail template is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailTemplateError {
    /// The version is 0.
    #[error("`version` is 0 (1 to {} allowed)", u32::MAX)]
    Version,
    /// There is no mail.
    #[error("`mails` has no mail; add `verdict` or `divergence_notice`")]
    NoMail,
    /// A part is empty or too long.
    #[error(
        "`{part}` has {bytes} bytes, or only white space (1 to {max} bytes allowed, with a visible character)"
    )]
    Length { part: String, bytes: usize, max: usize },
    /// A part cannot be rendered for a sample verdict.
    #[error("{error} (rendered for a sample verdict of the tier {tier})")]
    Render { tier: ProductTier, error: MailRenderError },
}

impl MailTemplate {
    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { template_id: self.template_id.clone(), version: self.version }
    }

    /// Validates a document. Each mail is rendered for a sample verdict of each tier.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), MailTemplateError> {
        if self.version == 0 {
            return Err(MailTemplateError::Version);
        }
        let mut has_mail = false;
        for kind in MailKind::VARIANTS {
            let Some(parts) = self.mails.get(*kind) else { continue };
            has_mail = true;
            parts.check_lengths(*kind)?;
            for tier in ProductTier::ALL {
                let rendered = self.render(&sample::mail(*kind, tier), Some("support@example.org"));
                rendered.map_err(|error| MailTemplateError::Render { tier, error })?;
            }
        }
        if has_mail { Ok(()) } else { Err(MailTemplateError::NoMail) }
    }
}

impl MailParts {
    /// The path of each part with its text.
    fn named(&self, kind: MailKind) -> impl Iterator<Item = (String, &str)> {
        let parts =
            [("subject", Some(&self.subject)), ("text", Some(&self.text)), ("html", self.html.as_ref())];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
        parts.map(move |(name, part)| (format!("mails.{}.{name}", kind.into_str()), part.as_str()))
    }

    fn check_lengths(&self, kind: MailKind) -> Result<(), MailTemplateError> {
        for (part, text) in self.named(kind) {
            let max = if part.ends_with("subject") { SUBJECT_MAX_BYTES } else { TEXT_MAX_BYTES };
            if is_blank(text) || text.len() > max {
                return Err(MailTemplateError::Length { part, bytes: text.len(), max });
            }
        }
        Ok(())
    }
}

/// The template for a mail about a verdict in this language, by the lookup of RFC 4647, section 3.4: the language's own
/// template, or that of the language without its last subtags. The default is the first template.
#[must_use]
pub fn select_mail_template<'t>(
    templates: &'t [MailTemplate],
    language: Option<&LanguageTag>,
) -> Option<&'t MailTemplate> {
    let mut range = language.map(LanguageTag::as_str);
    while let Some(tag) = range {
        let mut templates = templates.iter();
        let found = templates.find(|template| template.language.as_str().eq_ignore_ascii_case(tag));
        if found.is_some() {
            return found;
        }
        range = tag.rsplit_once('-').map(|(shorter, _)| shorter);
    }
    templates.first()
}

#[cfg(test)]
mod tests;
