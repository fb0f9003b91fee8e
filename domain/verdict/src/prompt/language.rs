//! Language tags.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The maximum length of a subtag, in characters.
const SUBTAG_MAX_CHARS: usize = 8;
/// The maximum number of extended language subtags.
const EXTENDED_MAX: usize = 3;

/// Why a text is not a language tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a language tag of BCP 47, such as `en` or `de-AT`")]
pub struct ParseLanguageTagError(String);

/// A well-formed language tag (BCP 47, RFC 5646), such as `en` or `de-AT`. Whether its subtags are registered is not
/// checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(example = "en")]
pub struct LanguageTag(String);

impl TryFrom<String> for LanguageTag {
    type Error = ParseLanguageTagError;

    fn try_from(text: String) -> Result<Self, ParseLanguageTagError> {
        if is_well_formed(&text) {
            Ok(Self(text))
        } else {
            Err(ParseLanguageTagError(domain_base::wording::excerpt(&text)))
        }
    }
}

impl LanguageTag {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<LanguageTag> for String {
    fn from(tag: LanguageTag) -> Self {
        tag.0
    }
}

impl fmt::Display for LanguageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `text` follows the grammar of RFC 5646, section 2.1, without the tags that were registered before it.
fn is_well_formed(text: &str) -> bool {
    let is_subtag = |subtag: &str| {
        (1..=SUBTAG_MAX_CHARS).contains(&subtag.len())
            && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let has_letters =
        |subtag: &str, chars: usize| subtag.len() == chars && subtag.bytes().all(|b| b.is_ascii_alphabetic());
    let is_region = |subtag: &str| {
        has_letters(subtag, 2) || (subtag.len() == 3 && subtag.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_variant = |subtag: &str| {
        subtag.len() >= 5 || (subtag.len() == 4 && subtag.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_private = |subtag: &str| subtag.eq_ignore_ascii_case("x");
    if !text.split('-').all(is_subtag) {
        return false;
    }
    let mut subtags = text.split('-').peekable();
    if subtags.next_if(|first| is_private(first)).is_none() {
        let language = subtags.next().unwrap_or_default();
        if language.len() < 2 || !has_letters(language, language.len()) {
            return false;
        }
        for _ in 0..if language.len() <= 3 { EXTENDED_MAX } else { 0 } {
            subtags.next_if(|subtag| has_letters(subtag, 3));
        }
        subtags.next_if(|subtag| has_letters(subtag, 4));
        subtags.next_if(|subtag| is_region(subtag));
        while subtags.next_if(|subtag| is_variant(subtag)).is_some() {}
        while subtags.next_if(|subtag| subtag.len() == 1 && !is_private(subtag)).is_some() {
            if subtags.next_if(|subtag| subtag.len() > 1).is_none() {
                return false;
            }
            while subtags.next_if(|subtag| subtag.len() > 1).is_some() {}
        }
        match subtags.next() {
            None => return true,
            Some(subtag) if is_private(subtag) => {}
            Some(_) => return false,
        }
    }
    subtags.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_tag_accepts_only_well_formed_tags() {
        for tag in [
            "en",
            "de-AT",
            "zh-Hant-TW",
            "sl-rozaj-biske-1994",
            "es-419",
            "zh-cmn-Hans-CN",
            "de-a-value",
            "x-house",
            "en-u-co-phonebk-x-own",
            "de-CH-1901",
            "EN",
        ] {
            assert_eq!(LanguageTag::try_from(tag.to_owned()).map(String::from).as_deref(), Ok(tag));
        }
        for text in [
            "",
            "e",
            "en_US",
            "en-",
            "-en",
            "english language",
            "de-A",
            "en-x",
            "x",
            "de-AT-AT",
            "123",
            "abcdefghi",
            "d1",
        ] {
            assert!(LanguageTag::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
