//! Notes: facts without "is" and "are", which a sentence may complete with these words (RULE-PREC-009, RULE-PREC-010).

use super::facts::{FactSupport, SearchableFacts};
use super::result::SupportDirection;
use std::collections::HashMap;

/// The words that a sentence may add to a note. "was" and "will be" add a time that the note does not have.
pub(super) const ADDED: [&str; 2] = ["are", "is"];

/// The words that show that no object follows an added word. "The bank is charged 5 €" does not have the meaning of the
/// note "the bank charged 5 €", while "is scheduled for May" only completes "scheduled for May".
pub(super) const PREPOSITIONS: [&str; 27] = [
    "above", "after", "as", "at", "before", "below", "between", "by", "during", "for", "from", "in", "of",
    "on", "over", "per", "since", "than", "through", "to", "under", "until", "up", "via", "with", "within",
    "without",
];

/// The notes among the facts of a check, each with the index of the first fact that equals it.
#[derive(Debug)]
pub(super) struct FactNotes(HashMap<String, u32>);

impl FactNotes {
    pub(super) fn of(facts: &SearchableFacts) -> Self {
        let mut notes = HashMap::new();
        for (index, fact) in (0..).zip(facts.normals()) {
            if !fact.is_empty() && !fact.split(' ').any(is_added) {
                notes.entry(fact.to_owned()).or_insert(index);
            }
        }
        Self(notes)
    }

    /// Their memory use, in bytes.
    pub(super) fn weight_bytes(&self) -> u64 {
        let texts: usize = self.0.keys().map(String::capacity).sum();
        (size_of::<Self>() + texts + self.0.capacity() * (size_of::<(String, u32)>() + 1)) as u64
    }

    /// The first note that equals `claim` without its added words. `None` if `claim` adds no word: then only facts can
    /// support it.
    pub(super) fn support(&self, claim: &str) -> Option<FactSupport> {
        let fact = *self.0.get(&without_added(claim)?)?;
        Some(FactSupport { fact, direction: SupportDirection::FactInClaim })
    }
}

fn is_added(word: &str) -> bool {
    ADDED.contains(&word)
}

/// `claim` without its added words; `None` if it has none.
fn without_added(claim: &str) -> Option<String> {
    let words: Vec<&str> = claim.split(' ').filter(|word| !word.is_empty()).collect();
    let is_kept = |(index, word): &(usize, &str)| {
        // at the beginning the word asks a question, and at the end it completes nothing
        !is_added(word) || *index == 0 || !is_completion(words.get(index + 1..).unwrap_or_default())
    };
    let remaining: Vec<&str> =
        words.iter().copied().enumerate().filter(is_kept).map(|(_, word)| word).collect();
    (remaining.len() < words.len()).then(|| format!(" {} ", remaining.join(" ")))
}

/// Whether `rest`, the text after an added word, has no object.
fn is_completion(rest: &[&str]) -> bool {
    let is_preposition = |word: &&str| PREPOSITIONS.contains(word);
    match rest {
        [] => false,
        [_] => true,
        [next, after, ..] => {
            next.starts_with(|character: char| character.is_ascii_digit())
                || is_preposition(next)
                || is_preposition(after)
        }
    }
}
