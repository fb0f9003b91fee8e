//! The compiled facts of a check. The form for the published rules is created at once. The form for RULE-PREC-013 is created at the
//! first check with a language and a word list; the last 4 are kept.

use super::check::CandidateCheck;
use super::facts::SearchableFacts;
use super::normalization::NormalizedLines;
use super::statements::{FactParts, TextLanguage};
use domain_base::digest::Sha256Hex;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most forms for supported claims that a set keeps.
const FORMS_MAX: usize = 4;

/// A set of facts, ready to be searched. The results depend only on the facts, so the set can be reused.
#[derive(Debug)]
pub struct FactSet {
    given: SearchableFacts,
    /// The forms for supported claims, the oldest first.
    forms: Mutex<Vec<FactForm>>,
}

/// The facts as parts, as a language and a word list read them.
#[derive(Debug)]
struct FactForm {
    language: TextLanguage,
    /// The SHA-256 of the word list.
    wordlist: Option<Sha256Hex>,
    parts: Arc<OnceLock<FactParts>>,
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
        Self { given, forms: Mutex::default() }
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

    /// The maximum memory use in bytes, including the index, created or not. The forms for
    /// RULE-PREC-013 count only after they are created.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let forms = self.forms();
        let parts = forms.iter().filter_map(|form| form.parts.get()).map(FactParts::weight_bytes);
        parts.sum::<u64>() + self.given.weight_bytes()
    }

    /// The facts in the form for the published rules.
    pub(super) const fn published_form(&self) -> &SearchableFacts {
        &self.given
    }

    /// The cell for the facts, read with the language and the word list of `check`. The caller fills it.
    pub(super) fn parts(&self, check: &CandidateCheck) -> Arc<OnceLock<FactParts>> {
        let wordlist = check.wordlist.as_ref().map(|list| list.sha256());
        let mut forms = self.forms();
        let is_of_check =
            |form: &&FactForm| form.language == check.language && form.wordlist.as_ref() == wordlist;
        if let Some(form) = forms.iter().find(is_of_check) {
            return Arc::clone(&form.parts);
        }
        if forms.len() == FORMS_MAX {
            forms.remove(0);
        }
        let parts = Arc::default();
        let form = FactForm { language: check.language, wordlist: wordlist.cloned(), parts };
        let parts = Arc::clone(&form.parts);
        forms.push(form);
        parts
    }

    fn forms(&self) -> MutexGuard<'_, Vec<FactForm>> {
        // a panic under the lock leaves no harmful state
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
