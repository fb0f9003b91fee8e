//! Texts of upstreams, which can quote a request.

use crate::work::stored_cause;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The value in place of a word that is not kept.
pub const OTHER_WORD: &str = "other";
/// The maximum length of a word of an upstream that is kept, in characters.
const WORD_MAX_CHARS: usize = 64;

/// A text that an upstream wrote, or a cause that contains one. It can quote the request, so it is stored only where an erasure of the
/// session removes it: as an erasable member of an event, or in a row of the session. It has no `Display`, and its `Debug` hides
/// it, so the service log, the health of upstreams, metrics and spans cannot get it. A test checks each event that has one.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct UpstreamText(String);

impl UpstreamText {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for an answer to the caller who sent the request, for an operator who reads the session, or for a decision.
    /// Never for the service log.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The text `class`, which the daemon wrote, followed by this text.
    #[must_use]
    pub fn after(&self, class: &impl fmt::Display) -> Self {
        Self(if self.0.is_empty() { class.to_string() } else { format!("{class}: {}", self.0) })
    }

    /// The text as a cause is stored: one visible line, cut.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self(stored_cause(&self.0))
    }

    /// The text, if it is one short word that occurs in none of the texts of the request and its answer, in any case; else
    /// [`OTHER_WORD`].
    #[must_use]
    pub fn word<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let is_word = (1..=WORD_MAX_CHARS).contains(&self.0.len())
            && self.0.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte));
        let word = self.0.to_lowercase();
        let is_quoted = || texts.into_iter().any(|text| text.to_lowercase().contains(&word));
        if is_word && !is_quoted() { self.clone() } else { Self::new(OTHER_WORD) }
    }
}

impl fmt::Debug for UpstreamText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamText({} bytes)", self.0.len())
    }
}

impl From<&str> for UpstreamText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_kept_only_if_it_is_short_and_not_quoted() {
        let kept =
            |word: &str| UpstreamText::new(word).word(["Sell my Honey-House?", "{}"]).reveal().to_owned();
        let longest = "x".repeat(WORD_MAX_CHARS);
        for word in ["STOP", "gpt-4o:2026/05@eu_1.5", &longest] {
            assert_eq!(kept(word), word);
        }
        for word in ["", "two words", "é", "a\"b", &format!("{longest}x"), "honey", "honey-house", "SELL"] {
            assert_eq!(kept(word), OTHER_WORD, "{word}");
        }
    }

    #[test]
    fn text_is_hidden_in_debug_output_and_follows_its_class() {
        let text = UpstreamText::new("secret");
        assert_eq!(format!("{text:?}"), "UpstreamText(6 bytes)");
        assert_eq!(text.after(&"HTTP status 400").reveal(), "HTTP status 400: secret");
        assert_eq!(UpstreamText::default().after(&"no connection").reveal(), "no connection");
    }
}
