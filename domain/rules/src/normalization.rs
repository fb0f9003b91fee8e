//! Normalization for matching: white space, including line ends, becomes single spaces and is removed at both ends.
//! Letters become lower case by Unicode. There is no stemming, and similar characters are not folded.

use std::ops::Range;

/// Normalizes `text` for matching.
pub(super) fn normalize(text: &str) -> String {
    // most texts are ASCII, which can be normalized by bytes
    if text.is_ascii() {
        let mut normal = joined(text, text.split(|character: char| matches!(character, '\t'..='\r' | ' ')));
        normal.make_ascii_lowercase();
        return normal;
    }
    joined(text, text.split_whitespace()).to_lowercase()
}

/// Joins the non-empty words of `text` with single spaces.
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

/// The offset in the original text for each byte of a normalized text.
#[derive(Debug)]
pub(super) struct OriginOffsets(Vec<u32>);

impl OriginOffsets {
    /// The origins of `normalize(text)`.
    pub(super) fn of(text: &str) -> Self {
        let mut origins = Vec::with_capacity(text.len());
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        for word in text.split_whitespace() {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            if !origins.is_empty() {
                origins.push(offset(start.saturating_sub(1)));
            }
            for (at, character) in word.char_indices() {
                // only the lower case of Σ depends on its neighbors; both of its forms have the same length
                let bytes: usize = character.to_lowercase().map(char::len_utf8).sum();
                origins.extend(std::iter::repeat_n(offset(start + at), bytes));
            }
        }
        Self(origins)
    }

    /// The range of `text` from which the range `normal` of its normalized form comes.
    pub(super) fn range(&self, text: &str, normal: Range<usize>) -> Range<usize> {
        let origin = |at: usize| self.0.get(at).map_or(text.len(), |at| *at as usize);
        let last = origin(normal.end.saturating_sub(1));
        let character = text.get(last..).and_then(|rest| rest.chars().next());
        origin(normal.start)..last + character.map_or(0, char::len_utf8)
    }
}

/// Normalized texts in their order, each after a line feed. They contain no line feeds themselves, so no match spans
/// two texts.
#[derive(Debug)]
pub(super) struct NormalizedLines {
    text: String,
    /// The offset of each text, after its line feed.
    starts: Vec<usize>,
}

impl NormalizedLines {
    pub(super) fn normalized(texts: &[String]) -> Self {
        Self::of(texts.iter().map(|text| normalize(text)))
    }

    /// Creates the lines from normalized `texts`.
    pub(super) fn of(texts: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let (mut text, mut starts) = (String::new(), Vec::with_capacity(texts.size_hint().0));
        for line in texts {
            text.push('\n');
            starts.push(text.len());
            text.push_str(line.as_ref());
        }
        text.shrink_to_fit();
        Self { text, starts }
    }

    /// The number of texts.
    pub(super) const fn len(&self) -> usize {
        self.starts.len()
    }

    /// All texts in one string.
    pub(super) const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Their memory use, in bytes.
    pub(super) const fn weight_bytes(&self) -> u64 {
        (self.text.capacity() + self.starts.capacity() * size_of::<usize>()) as u64
    }

    /// The text with the index `place`, from 0.
    pub(super) fn get(&self, index: u32) -> &str {
        let index = index as usize;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        self.starts.get(index).and_then(|start| self.text.get(*start..end)).unwrap_or_default()
    }

    /// The offset of the text with the index `place`.
    pub(super) fn start(&self, index: u32) -> usize {
        self.starts.get(index as usize).copied().unwrap_or(self.text.len())
    }

    /// The index of the text that contains byte `at`.
    pub(super) fn place_at(&self, at: usize) -> u32 {
        let begun = self.starts.partition_point(|start| *start <= at);
        u32::try_from(begun.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Each text with its index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).take(self.len()).map(|index| (index, self.get(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn normalize_joins_white_space_and_lowers_case_by_unicode() {
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
    fn origins_map_normalized_match_to_original_text() {
        let text = " İ\r\n ΟΔΟΣ,\u{3000}ok";
        let normal = normalize(text);
        for word in ["i\u{307}", "οδος", "ok", "οδος, ok"] {
            let at = normal.find(word).expect("the text contains the word");
            let range = OriginOffsets::of(text).range(text, at..at + word.len());
            assert_eq!(normalize(&text[range]), word);
        }
    }

    proptest! {
        #[test]
        fn origins_cover_every_normalized_byte(text in "[ \\n\\tA-zİΣßéΑ-Ω\u{3000}\u{300}]{0,40}") {
            let (normal, origins) = (normalize(&text), OriginOffsets::of(&text));
            prop_assert_eq!(normal.len(), origins.0.len());
            for (at, character) in normal.char_indices().filter(|(_, c)| *c != ' ') {
                let range = origins.range(&text, at..at + character.len_utf8());
                prop_assert!(text[range].chars().flat_map(char::to_lowercase).any(|c| c == character || "σς".contains(character)));
            }
        }

        #[test]
        fn normalize_is_idempotent(text in "\\PC{0,40}") {
            prop_assert_eq!(normalize(&normalize(&text)), normalize(&text));
        }
    }
}
