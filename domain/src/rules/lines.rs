//! Many normalized texts as one, for searching all of them at once.

use super::normal::normalize;

/// Normalized texts in their order, a line feed before each. None of them has one, so that nothing is found across two.
#[derive(Debug)]
pub(super) struct Lines {
    text: String,
    /// Where each begins, behind its line feed.
    starts: Vec<usize>,
}

impl Lines {
    /// Normalizes `texts`.
    pub(super) fn normalized(texts: &[String]) -> Self {
        Self::of(texts.iter().map(|text| normalize(text)))
    }

    /// `texts`, which are normalized.
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

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.starts.len()
    }

    /// All of them, as they are searched.
    pub(super) const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// The memory that they take.
    pub(super) const fn weight_bytes(&self) -> u64 {
        (self.text.capacity() + self.starts.capacity() * size_of::<usize>()) as u64
    }

    /// The one at `place`, from 0.
    pub(super) fn get(&self, place: u32) -> &str {
        let place = place as usize;
        let end = self.starts.get(place + 1).map_or(self.text.len(), |next| next - 1);
        self.starts.get(place).and_then(|start| self.text.get(*start..end)).unwrap_or_default()
    }

    /// Where the one at `place` begins.
    pub(super) fn start(&self, place: u32) -> usize {
        self.starts.get(place as usize).copied().unwrap_or(self.text.len())
    }

    /// The place of the one that byte `at` of the text is in.
    pub(super) fn place_at(&self, at: usize) -> u32 {
        let begun = self.starts.partition_point(|start| *start <= at);
        u32::try_from(begun.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Each with its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).take(self.len()).map(|place| (place, self.get(place)))
    }
}
