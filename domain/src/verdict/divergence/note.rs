//! The texts for the customer that accompany a regenerated verdict.

use crate::verdict::prompt::LanguageTag;
use serde::{Deserialize, Serialize};

/// The disclaimer for the customer if the two verdicts differ, in the seed's words.
pub const DISCLAIMER: &str = "NOTE: Due to a technical condition, the verdict on your results page may differ \
    slightly from the one you received by email. Both represent a valid coherence reading of your submission. If \
    you have questions, reply to this email and we will provide clarification.";
/// The notice with a regenerated verdict whose original is not known, or may not exist.
pub const UNKNOWN_NOTICE: &str = "NOTE: This verdict was generated when it was read. No earlier verdict is on record here. \
    If you received a verdict earlier, that earlier verdict applies, and this one may differ from it.";
/// The notice with a regenerated verdict that was made in another way than the original.
pub const CHANGED_NOTICE: &str = "NOTE: This verdict was generated again, and not in exactly the same way as the first one. \
    The first verdict applies, and this one may differ from it.";

const DISCLAIMER_DE: &str = "HINWEIS: Aus technischen Gründen kann das Urteil auf Ihrer Ergebnisseite leicht von dem \
    abweichen, das Sie per E-Mail erhalten haben. Beide geben eine gültige Einschätzung der Kohärenz Ihrer Einreichung \
    wieder. Wenn Sie Fragen haben, antworten Sie auf diese E-Mail; wir geben Ihnen gern Auskunft.";
const UNKNOWN_NOTICE_DE: &str = "HINWEIS: Dieses Urteil wurde erst beim Abruf erstellt. Ein früheres Urteil ist hier nicht \
    verzeichnet. Wenn Sie schon früher ein Urteil erhalten haben, gilt jenes, und dieses kann davon abweichen.";
const CHANGED_NOTICE_DE: &str = "HINWEIS: Dieses Urteil wurde erneut erstellt, und zwar nicht auf genau dieselbe Weise wie \
    das erste. Es gilt das erste Urteil, und dieses kann davon abweichen.";

/// A language that has these texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoteLanguage {
    /// English.
    #[default]
    En,
    /// German.
    De,
}

/// A text for the customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomerNote {
    /// The two verdicts differ.
    Disclaimer,
    /// The first verdict is not known.
    UnknownOriginal,
    /// The verdict was made in another way than the first.
    Changed,
}

impl NoteLanguage {
    /// The language of `tag`, of which regions and other subtags do not matter; English for any other language.
    #[must_use]
    pub fn of(tag: &LanguageTag) -> Self {
        let primary = tag.as_str().split('-').next().unwrap_or_default();
        if primary.eq_ignore_ascii_case("de") { Self::De } else { Self::En }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl CustomerNote {
    /// The text.
    #[must_use]
    pub const fn text(self, language: NoteLanguage) -> &'static str {
        match (self, language) {
            (Self::Disclaimer, NoteLanguage::En) => DISCLAIMER,
            (Self::Disclaimer, NoteLanguage::De) => DISCLAIMER_DE,
            (Self::UnknownOriginal, NoteLanguage::En) => UNKNOWN_NOTICE,
            (Self::UnknownOriginal, NoteLanguage::De) => UNKNOWN_NOTICE_DE,
            (Self::Changed, NoteLanguage::En) => CHANGED_NOTICE,
            (Self::Changed, NoteLanguage::De) => CHANGED_NOTICE_DE,
        }
    }
}
