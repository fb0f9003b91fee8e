//! Mail templates: registered documents, immutable under their version.

mod render;

pub use render::{MailContent, MailRenderError};

use crate::crosscheck::judge;
use crate::delivery::{RegenNotes, VerdictDelivery};
use crate::divergence::{NoteLanguage, OriginalLabel};
use crate::label::{ProductTier, VerdictLabel};
use crate::mail::{MailKind, OutboxMail};
use crate::prompt::LanguageTag;
use crate::query::CustomerQuery;
use crate::template_name::TemplateRef;
use domain_base::document::{Document, DocumentVersions};
use domain_base::payload::VerdictPayload;
use domain_base::text_form::is_blank;
use domain_ground::id::TemplateId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
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

impl Document for MailTemplate {
    const KIND: &'static str = "mail_template";
    const DISTINGUISHING_MEMBER: &'static str = "mails";
    const VERSIONS: DocumentVersions = DocumentVersions::Numbered;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }
}

impl MailTemplate {
    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { id: self.template_id.clone(), version: self.version }
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
                let rendered = self.render(&sample_mail(*kind, tier), Some("support@example.org"));
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

/// A mail of this kind about a verdict of this tier.
fn sample_mail(kind: MailKind, tier: ProductTier) -> OutboxMail {
    let original = OriginalLabel(Some(VerdictLabel::Red));
    let delivery = VerdictDelivery {
        session_id: "sample".parse().expect("a valid id"),
        query: CustomerQuery::new("Sell honey & jam?".to_owned()),
        approved: judge(tier, VerdictPayload::raw(&sample_verdict(tier)))
            .outcome
            .expect("the sample passes the crosscheck"),
        cached_at: "2026-01-01T00:00:00Z".parse().expect("a valid time"),
        regen: (kind == MailKind::DivergenceNotice).then_some(RegenNotes {
            original,
            prompt_changed: false,
            settings_changed: false,
            reasked: false,
            language: NoteLanguage::default(),
        }),
        evaluation_sha256: None,
    };
    let to = "customer@example.org".to_owned().try_into().expect("a valid address");
    OutboxMail::queued(kind, Arc::new(delivery), to)
}

/// A verdict with exactly the members of the tier. A test is a text or an object.
fn sample_verdict(tier: ProductTier) -> String {
    let judged = json!({"verdict": "GREEN", "analysis": "It holds."});
    let (label, summary) = ("GREEN", "A sound and simple plan.");
    let breakdown = json!({
        "Stability": judged, "Turbulence": judged, "Change Rate": judged, "Completion": judged, "Curvature": judged,
    });
    let verdict = match tier {
        ProductTier::Quick => json!({"verdict": label, "summary": summary}),
        ProductTier::Full => json!({"verdict": label, "summary": summary, "breakdown": breakdown}),
        ProductTier::Strategy => json!({
            "verdict": label, "summary": summary, "breakdown": breakdown,
            "strategy": {
                "next_step": "Ask ten people.", "alternative": "Sell jam.",
                "tests": ["A stall at the market", {"name": "A price", "days": 3}],
            },
        }),
    };
    verdict.to_string()
}

#[cfg(test)]
mod tests;
