//! Prompt templates: registered documents, immutable under their version.

use super::language::LanguageTag;
use crate::label::ProductTier;
use crate::template_name::{TemplateName, TemplateRef};
use domain_base::document::{Document, DocumentVersions};
use domain_base::wording::excerpt;
use domain_ground::id::TemplateId;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use utoipa::ToSchema;

/// The placeholder for the customer's query.
pub const QUERY_PLACEHOLDER: &str = "{{query}}";
/// The placeholder for the reason why the previous answer was rejected.
pub const REJECTION_PLACEHOLDER: &str = "{{rejection}}";
/// The maximum length of the text for a tier, in bytes.
pub const TEXT_MAX_BYTES: usize = 64 * 1024;
/// The id of the built-in template. No document can have it.
const BUILT_IN_ID: &str = "oracled-default";

/// A prompt template: one version of the texts from which the prompts for verdicts are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTemplate {
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
    /// The texts, at least one.
    pub tiers: PromptTexts,
}

/// The texts of a template, one for each tier: at most 64 KiB each, with `{{query}}` once. The query is inserted there as
/// one JSON string literal. `{{rejection}}`, at most once, becomes a paragraph if the previous answer was rejected, and nothing
/// otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTexts {
    /// The text for the tier quick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<String>,
    /// The text for the tier full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    /// The text for the tier strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
}

impl PromptTexts {
    /// The text for a tier.
    #[must_use]
    pub fn get(&self, tier: ProductTier) -> Option<&str> {
        match tier {
            ProductTier::Quick => self.quick.as_deref(),
            ProductTier::Full => self.full.as_deref(),
            ProductTier::Strategy => self.strategy.as_deref(),
        }
    }
}

/// Why a prompt template is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptTemplateError {
    /// The id is that of the built-in template.
    #[error("`template_id` is `{BUILT_IN_ID}`, the id of the built-in template; use another id")]
    BuiltIn,
    /// The version is 0.
    #[error("`version` is 0 (1 to {} allowed)", u32::MAX)]
    Version,
    /// There is no text.
    #[error("`tiers` has no text; add one for `quick`, `full` or `strategy`")]
    NoText,
    /// A text is too long.
    #[error("`tiers.{tier}` has {bytes} bytes (at most {TEXT_MAX_BYTES} allowed)")]
    Length { tier: ProductTier, bytes: usize },
    /// A text does not have the placeholder exactly once.
    #[error("`tiers.{tier}` has `{QUERY_PLACEHOLDER}` {count} times; write it once, where the query belongs")]
    Placeholder { tier: ProductTier, count: usize },
    /// A text has the placeholder of the rejection more than once.
    #[error("`tiers.{tier}` has `{REJECTION_PLACEHOLDER}` {count} times; write it at most once")]
    RejectionPlaceholder { tier: ProductTier, count: usize },
    /// A text has another placeholder, which would stay in the prompt.
    #[error(
        "`tiers.{tier}` has `{{{{{name}}}}}`; the placeholders are `{QUERY_PLACEHOLDER}` and `{REJECTION_PLACEHOLDER}`"
    )]
    UnknownPlaceholder { tier: ProductTier, name: String },
}

/// A template has no text for a tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("prompt template {template} has no text for the tier {tier}; register a version that has one")]
pub struct PromptTierError {
    pub template: TemplateRef,
    pub tier: ProductTier,
}

impl Document for PromptTemplate {
    const KIND: &'static str = "prompt_template";
    const DISTINGUISHING_MEMBER: &'static str = "tiers";
    const VERSIONS: DocumentVersions = DocumentVersions::Numbered;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }

    /// The versions of the template that is part of the program, the newest first. A changed text is a new version. Earlier
    /// versions stay in the program, because sessions name them.
    fn built_in_versions() -> &'static [Self] {
        static VERSIONS: LazyLock<[PromptTemplate; 2]> = LazyLock::new(|| {
            let version = |version, [quick, full, strategy]: [&str; 3]| PromptTemplate {
                template_id: BUILT_IN_ID.parse().expect("a valid id"),
                version,
                language: LanguageTag::try_from("en".to_owned()).expect("a valid tag"),
                description: Some("The built-in template".to_owned()),
                tiers: PromptTexts {
                    quick: Some(quick.to_owned()),
                    full: Some(full.to_owned()),
                    strategy: Some(strategy.to_owned()),
                },
            };
            let second = [
                include_str!("oracled-default-2/quick.txt"),
                include_str!("oracled-default-2/full.txt"),
                include_str!("oracled-default-2/strategy.txt"),
            ];
            let first = [
                include_str!("oracled-default-1/quick.txt"),
                include_str!("oracled-default-1/full.txt"),
                include_str!("oracled-default-1/strategy.txt"),
            ];
            [version(2, second), version(1, first)]
        });
        &*VERSIONS
    }
}

impl PromptTemplate {
    /// The newest version of the template that is part of the program.
    #[must_use]
    pub fn built_in() -> &'static Self {
        Self::built_in_versions().first().expect("there are versions")
    }

    /// The built-in template that `name` names, if it names one: the newest version if it names no version.
    #[must_use]
    pub fn find_built_in(name: &TemplateName) -> Option<&'static Self> {
        Self::built_in_versions().iter().find(|template| name.matches(&template.reference()))
    }

    /// Whether the text for `tier` has a place for the rejection of an earlier answer.
    #[must_use]
    pub fn has_rejection(&self, tier: ProductTier) -> bool {
        self.tiers.get(tier).is_some_and(|text| text.contains(REJECTION_PLACEHOLDER))
    }

    /// The name of the newest built-in template.
    #[must_use]
    pub fn built_in_name() -> TemplateName {
        TemplateName { template_id: Self::built_in().template_id.clone(), version: None }
    }

    /// Validates a document.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), PromptTemplateError> {
        if self.template_id.as_str() == BUILT_IN_ID {
            return Err(PromptTemplateError::BuiltIn);
        }
        if self.version == 0 {
            return Err(PromptTemplateError::Version);
        }
        let texts = ProductTier::ALL.into_iter().filter_map(|tier| Some((tier, self.tiers.get(tier)?)));
        let mut has_text = false;
        for (tier, text) in texts {
            has_text = true;
            if text.len() > TEXT_MAX_BYTES {
                return Err(PromptTemplateError::Length { tier, bytes: text.len() });
            }
            let count = text.matches(QUERY_PLACEHOLDER).count();
            if count != 1 {
                return Err(PromptTemplateError::Placeholder { tier, count });
            }
            let count = text.matches(REJECTION_PLACEHOLDER).count();
            if count > 1 {
                return Err(PromptTemplateError::RejectionPlaceholder { tier, count });
            }
            if let Some(name) = unknown_placeholder(text) {
                let name = excerpt(name);
                return Err(PromptTemplateError::UnknownPlaceholder { tier, name });
            }
        }
        if has_text { Ok(()) } else { Err(PromptTemplateError::NoText) }
    }

    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { template_id: self.template_id.clone(), version: self.version }
    }
}

/// The content of the first placeholder that is not that of the query or the rejection: one word in double braces, with or without spaces.
fn unknown_placeholder(text: &str) -> Option<&str> {
    let is_word = |word: &str| {
        let word = word.trim();
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let contents = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
    contents.into_iter().find(|content| is_word(content) && !matches!(*content, "query" | "rejection"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(tiers: serde_json::Value) -> PromptTemplate {
        serde_json::from_value(
            json!({"template_id": "house", "version": 1, "language": "en", "tiers": tiers}),
        )
        .expect("a template")
    }

    #[test]
    fn template_requires_the_placeholder_once_in_each_text() {
        for text in [
            "Judge {{query}}.",
            "{{rejection}} Judge {{query}}.",
            "Answer {\"a\":{\"b\":{}}} on {{query}}; {{two words}} and {{ stay.",
        ] {
            assert_eq!(template(json!({"quick": text})).validate(), Ok(()), "{text}");
        }
        for (tiers, fault) in [
            (json!({}), PromptTemplateError::NoText),
            (
                json!({"full": "Judge."}),
                PromptTemplateError::Placeholder { tier: ProductTier::Full, count: 0 },
            ),
            (
                json!({"quick": "{{query}}", "strategy": "{{query}} {{query}}"}),
                PromptTemplateError::Placeholder { tier: ProductTier::Strategy, count: 2 },
            ),
            (
                json!({"quick": "{{rejection}} {{query}} {{rejection}}"}),
                PromptTemplateError::RejectionPlaceholder { tier: ProductTier::Quick, count: 2 },
            ),
            (
                json!({"quick": "{{query}} by {{ customer_name }}, not {\"a\":{\"b\":{{c: 1}}}}"}),
                PromptTemplateError::UnknownPlaceholder {
                    tier: ProductTier::Quick,
                    name: " customer_name ".to_owned(),
                },
            ),
            (
                json!({"quick": "{{query}}".to_owned() + &"x".repeat(TEXT_MAX_BYTES)}),
                PromptTemplateError::Length { tier: ProductTier::Quick, bytes: TEXT_MAX_BYTES + 9 },
            ),
        ] {
            assert_eq!(template(tiers).validate(), Err(fault));
        }
        let first = template(json!({"quick": "{{query}}"}));
        assert_eq!(PromptTemplate { version: 0, ..first }.validate(), Err(PromptTemplateError::Version));
        assert_eq!(PromptTemplate::built_in().validate(), Err(PromptTemplateError::BuiltIn));
    }
}
