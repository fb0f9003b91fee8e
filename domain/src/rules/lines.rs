//! Many normalized texts in one string, for searching all of them at once.

use super::normal::normalize;

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
