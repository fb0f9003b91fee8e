//! Normalization for matching: every run of white space (a line's end included) becomes one space, none at the ends, and
//! all is lower case by Unicode. Nothing else: no stemming, no folding of what merely looks alike.

use std::ops::Range;

/// `text` as it is matched.
pub(super) fn normalize(text: &str) -> String {
    // most text is ASCII, and then its bytes are all that is looked at
    if text.is_ascii() {
        let mut normal = joined(text, text.split(|character: char| matches!(character, '\t'..='\r' | ' ')));
        normal.make_ascii_lowercase();
        return normal;
    }
    joined(text, text.split_whitespace()).to_lowercase()
}

/// The words of `text` that are not empty, a space between them.
fn joined<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in words.filter(|word| !word.is_empty()) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

/// Where each byte of a normalized text comes from.
#[derive(Debug)]
pub(super) struct Origins(Vec<u32>);

impl Origins {
    /// Those of `normalize(text)`.
    pub(super) fn of(text: &str) -> Self {
        let mut origins = Vec::with_capacity(text.len());
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        for word in text.split_whitespace() {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            if !origins.is_empty() {
                origins.push(offset(start.saturating_sub(1)));
            }
            for (at, character) in word.char_indices() {
                // Σ alone is lowered by what stands beside it, into two letters of the same length
                let bytes: usize = character.to_lowercase().map(char::len_utf8).sum();
                origins.extend(std::iter::repeat_n(offset(start + at), bytes));
            }
        }
        Self(origins)
    }

    /// The stretch of `text` that a stretch of its normalized form comes from.
    pub(super) fn range(&self, text: &str, normal: Range<usize>) -> Range<usize> {
        let origin = |at: usize| self.0.get(at).map_or(text.len(), |at| *at as usize);
        let last = origin(normal.end.saturating_sub(1));
        let character = text.get(last..).and_then(|rest| rest.chars().next());
        origin(normal.start)..last + character.map_or(0, char::len_utf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn white_space_of_all_kinds_is_one_space_and_case_is_unicodes() {
        for (text, normal) in [
            ("  A\r\nB\rC\n\n\tD ", "a b c d"),
            ("\u{b}a\u{b}b\u{c} c\u{1c}d\u{b}", "a b c\u{1c}d"),
            ("No\u{a0}Break\u{3000}Wide\u{2028}Line", "no break wide line"),
            ("zero\u{200b}width", "zero\u{200b}width"),
            ("İSTANBUL Iı", "i\u{307}stanbul iı"),
            ("ΟΔΟΣ ΣΟΦΙΑ", "οδος σοφια"),
            ("STRASSE Straße", "strasse straße"),
            ("Ｆｕｌｌ", "ｆｕｌｌ"),
            (" \u{3000}\n", ""),
        ] {
            assert_eq!(normalize(text), normal, "{text:?}");
        }
    }

    #[test]
    fn a_match_is_led_back_to_the_text_that_it_came_from() {
        let text = " İ\r\n ΟΔΟΣ,\u{3000}ok";
        let normal = normalize(text);
        for word in ["i\u{307}", "οδος", "ok", "οδος, ok"] {
            let at = normal.find(word).expect("it is there");
            let range = Origins::of(text).range(text, at..at + word.len());
            assert_eq!(normalize(&text[range]), word);
        }
    }

    proptest! {
        #[test]
        fn every_byte_has_an_origin(text in "[ \\n\\tA-zİΣßéΑ-Ω\u{3000}\u{300}]{0,40}") {
            let (normal, origins) = (normalize(&text), Origins::of(&text));
            prop_assert_eq!(normal.len(), origins.0.len());
            for (at, character) in normal.char_indices().filter(|(_, c)| *c != ' ') {
                let range = origins.range(&text, at..at + character.len_utf8());
                prop_assert!(text[range].chars().flat_map(char::to_lowercase).any(|c| c == character || "σς".contains(character)));
            }
        }

        #[test]
        fn normalizing_twice_is_normalizing_once(text in "\\PC{0,40}") {
            prop_assert_eq!(normalize(&normalize(&text)), normalize(&text));
        }
    }
}
