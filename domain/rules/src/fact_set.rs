//! The compiled facts of a check. The form for the published rules is created at once; each form for the later rules is
//! created at its first use and then kept. Notes are facts without "is" and "are", which a sentence may complete with
//! these words (RULE-PREC-009, RULE-PREC-010).

use super::comparison_form::ComparisonForm;
use super::facts::{FactSupport, SearchableFacts};
use super::joint_claims::JointFacts;
use super::normalization::NormalizedLines;
use super::plain_text::PlainText;
use super::result::SupportDirection;
use domain_base::digest::Sha256Hex;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A set of facts, ready to be searched. The results depend only on the facts, so the set can be reused.
#[derive(Debug)]
pub struct FactSet {
    given: SearchableFacts,
    words: DerivedFacts,
    quantities: DerivedFacts,
    with_counted: DerivedFacts,
    notes: OnceLock<FactNotes>,
}

/// The facts in one other form.
#[derive(Debug, Default)]
struct DerivedFacts {
    facts: OnceLock<SearchableFacts>,
    joined: OnceLock<JointFacts>,
}

impl DerivedFacts {
    fn weight_bytes(&self) -> u64 {
        self.facts.get().map_or(0, SearchableFacts::weight_bytes)
            + self.joined.get().map_or(0, JointFacts::weight_bytes)
    }
}

impl FactSet {
    /// The SHA-256 of the original facts, as a JSON array.
    #[must_use]
    pub fn sha256_of(facts: &[String]) -> Sha256Hex {
        Sha256Hex::of_json(&facts)
    }

    /// Compiles `facts`, in their order.
    #[must_use]
    pub fn compile(facts: &[String]) -> Self {
        let given = SearchableFacts::of(NormalizedLines::normalized(facts), Self::sha256_of(facts));
        let (words, quantities, with_counted) = Default::default();
        Self { given, words, quantities, with_counted, notes: OnceLock::new() }
    }

    /// The SHA-256 of the original facts, as a JSON array.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        self.given.sha256()
    }

    /// The number of facts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether there are no facts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The maximum memory use in bytes, including the index, created or not. The forms for the rules after the
    /// published ones count only once they are created.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let forms = [&self.words, &self.quantities, &self.with_counted].map(DerivedFacts::weight_bytes);
        let notes = self.notes.get().map_or(0, FactNotes::weight_bytes);
        self.given.weight_bytes() + forms.iter().sum::<u64>() + notes
    }

    /// The facts in the form for the published rules.
    pub(super) const fn published_form(&self) -> &SearchableFacts {
        &self.given
    }

    const fn derived(&self, form: ComparisonForm) -> &DerivedFacts {
        match form {
            ComparisonForm::Words => &self.words,
            ComparisonForm::Quantities => &self.quantities,
            ComparisonForm::Notes => &self.with_counted,
        }
    }

    /// The facts in another form. `facts` must be the original facts that were compiled.
    pub(super) fn in_form(&self, form: ComparisonForm, facts: &[String]) -> &SearchableFacts {
        self.derived(form).facts.get_or_init(|| {
            let statement = |fact: &String| form.statement(PlainText::of(fact).text());
            SearchableFacts::of(NormalizedLines::of(facts.iter().map(statement)), self.sha256().clone())
        })
    }

    pub(super) fn joined(&self, form: ComparisonForm, facts: &[String]) -> &JointFacts {
        self.derived(form).joined.get_or_init(|| JointFacts::of(self.in_form(form, facts)))
    }

    /// The notes among the facts; `None` in a form without notes.
    pub(super) fn notes(&self, form: ComparisonForm, facts: &[String]) -> Option<&FactNotes> {
        matches!(form, ComparisonForm::Notes)
            .then(|| self.notes.get_or_init(|| FactNotes::of(self.in_form(form, facts))))
    }
}

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
