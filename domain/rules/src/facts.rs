//! The compiled facts of a check: normalized once, and searched in both directions.

use super::check::CandidateCheck;
use super::needles::NeedleAutomaton;
use super::normalization::NormalizedLines;
use super::result::SupportDirection;
use super::result::TextLanguage;
use super::statements::FactParts;
use domain_base::digest::Sha256Hex;
use libsais::SuffixArrayConstruction;
use memchr::memmem;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The first fact that supports a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FactSupport {
    /// The index of the fact, from 0.
    pub(super) fact: u32,
    pub(super) direction: SupportDirection,
}

/// Facts in one form, ready to be searched. The results depend only on the facts.
#[derive(Debug)]
pub(super) struct SearchableFacts {
    lines: NormalizedLines,
    /// The digest of the original facts.
    sha256: Sha256Hex,
    /// The remaining budget for searches without the index.
    remaining_budget: AtomicU64,
    /// The index, once it is created; `None` inside if the facts are too long for one.
    index: OnceLock<Option<FactIndex>>,
}

impl SearchableFacts {
    /// Creates the facts from `lines`. `sha256` is the digest of the original facts.
    pub(super) fn of(lines: NormalizedLines, sha256: Sha256Hex) -> Self {
        let remaining_budget = AtomicU64::new(index_cost(&lines));
        Self { lines, sha256, remaining_budget, index: OnceLock::new() }
    }

    /// The SHA-256 of the original facts, as a JSON array.
    pub(super) const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// The number of facts.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// The maximum memory use in bytes, including the index, created or not.
    pub(super) const fn weight_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.lines.weight_bytes() + index_weight_bytes(&self.lines)
    }

    /// The indexes of the blank facts, which support nothing.
    pub(super) fn blank(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter(|(_, fact)| fact.is_empty()).map(|(index, _)| index)
    }

    /// The normalized fact at `place`.
    pub(super) fn normal(&self, index: u32) -> &str {
        self.lines.get(index)
    }

    /// The support for each of `claims`, which must be normalized and not blank.
    pub(super) fn supports(&self, claims: &[&str]) -> Vec<Option<FactSupport>> {
        claims.iter().map(|claim| self.support(claim)).collect()
    }

    /// The first fact that supports `claim`.
    ///
    /// It searches without the index until this has cost as much as creating the index. The total cost is therefore at
    /// most twice the optimum, for any number of claims.
    fn support(&self, claim: &str) -> Option<FactSupport> {
        if self.index.get().is_none() {
            let mut left = self.remaining_budget.load(Ordering::Relaxed);
            let support = scan(&self.lines, claim, &mut left);
            self.remaining_budget.store(left, Ordering::Relaxed);
            if let Ok(support) = support {
                return support;
            }
        }
        match self.index.get_or_init(|| FactIndex::of(&self.lines)) {
            Some(index) => index.support(&self.lines, claim),
            None => scan(&self.lines, claim, &mut { u64::MAX }).ok().flatten(),
        }
    }
}

/// The number of bytes that a substring search passes in the time of one compared byte.
const PASSED_BYTES: usize = 4;
/// The costs of visiting a fact and of comparing one, in units of one compared byte.
const VISIT: usize = 4;
const COMPARE: usize = 64;

/// The search would exceed its remaining budget.
struct SearchBudgetError;

/// The first of `facts` that supports `claim`, by a linear search, which needs no index. Its cost is subtracted from
/// `left`, in units of one compared byte.
fn scan(
    facts: &NormalizedLines,
    claim: &str,
    left: &mut u64,
) -> Result<Option<FactSupport>, SearchBudgetError> {
    let mut pay = |cost: usize| {
        let paid = left.checked_sub(cost as u64);
        *left = paid.unwrap_or(0);
        paid.ok_or(SearchBudgetError)
    };
    pay(facts.text().len() / PASSED_BYTES)?;
    let around = memmem::find(facts.text().as_bytes(), claim.as_bytes()).map(|at| facts.place_at(at));
    let pairs = BytePairSet::of(claim);
    for (index, fact) in facts.iter().take(around.map_or(facts.len(), |fact| fact as usize)) {
        pay(VISIT)?;
        if fact.is_empty() || fact.len() >= claim.len() || !pairs.has_all_pairs(fact) {
            continue;
        }
        pay(COMPARE + claim.len())?;
        if claim.contains(fact) {
            return Ok(Some(FactSupport { fact: index, direction: SupportDirection::FactInClaim }));
        }
    }
    Ok(around.map(|fact| FactSupport { fact, direction: SupportDirection::ClaimInFact }))
}

/// The pairs of adjacent bytes in a text, by a few of their bits. A text with any other pair is not a substring.
struct BytePairSet([u64; 64]);

impl BytePairSet {
    fn of(text: &str) -> Self {
        let mut pairs = Self([0; 64]);
        for pair in text.as_bytes().windows(2) {
            let (word, bit) = Self::place(pair);
            if let Some(word) = pairs.0.get_mut(word) {
                *word |= bit;
            }
        }
        pairs
    }

    fn has_all_pairs(&self, text: &str) -> bool {
        text.as_bytes().windows(2).all(|pair| {
            let (word, bit) = Self::place(pair);
            self.0.get(word).is_some_and(|word| word & bit != 0)
        })
    }

    /// The word and the bit of a pair: letters differ in their lower six bits.
    const fn place(pair: &[u8]) -> (usize, u64) {
        match pair {
            [one, other] => ((*one & 63) as usize, 1 << (*other & 63)),
            _ => (0, 0),
        }
    }
}

/// The index of facts, in both directions: facts that contain a claim, and facts within a claim.
#[derive(Debug)]
struct FactIndex {
    needles: NeedleAutomaton,
    suffixes: SuffixArray,
}

impl FactIndex {
    /// Creates the index of `facts`; `None` if they are too long for it.
    fn of(facts: &NormalizedLines) -> Option<Self> {
        Some(Self { needles: NeedleAutomaton::of(facts)?, suffixes: SuffixArray::of(facts.text())? })
    }

    /// The first of `facts` that supports `claim`.
    fn support(&self, facts: &NormalizedLines, claim: &str) -> Option<FactSupport> {
        let around = self.suffixes.find(facts.text(), claim).map(|at| facts.place_at(at));
        let within = self.needles.ends(facts, claim).map(|(_, fact)| self.needles.lowest(fact)).min();
        let around = around.map(|fact| FactSupport { fact, direction: SupportDirection::ClaimInFact });
        let within = within.map(|fact| FactSupport { fact, direction: SupportDirection::FactInClaim });
        // if both are the same fact, it equals the claim, and `min_by_key` returns the first
        around.into_iter().chain(within).min_by_key(|support| support.fact)
    }
}

/// The cost of creating the index of `facts`, in units of one compared byte.
const fn index_cost(facts: &NormalizedLines) -> u64 {
    NeedleAutomaton::cost(facts).saturating_add(SuffixArray::cost(facts.text()))
}

/// The maximum memory of the index of `facts`, in bytes.
const fn index_weight_bytes(facts: &NormalizedLines) -> u64 {
    NeedleAutomaton::weight_bytes(facts) + SuffixArray::weight_bytes(facts.text())
}

/// The cost of sorting each byte, in units of one compared byte.
const SORTED_BYTE: u64 = 16;
/// The number of places of a level that share one place of the level above.
const SUFFIX_BLOCK: usize = 64;

/// The sorted suffixes of a text, to find the first occurrence of another one in it without reading it. The text is not
/// stored; callers pass it to every call.
#[derive(Debug)]
struct SuffixArray {
    /// The offsets of the suffixes, in alphabetical order.
    order: Vec<i32>,
    /// The lowest offset of each block of `order`, then the lowest of each block of these, and so on.
    lows: Vec<Vec<i32>>,
}

impl SuffixArray {
    /// Sorts the suffixes of `text` in linear time; `None` if the text is too long or memory is short.
    fn of(text: &str) -> Option<Self> {
        let sorted = SuffixArrayConstruction::for_text(text.as_bytes()).in_owned_buffer32().single_threaded();
        let order = sorted.run().ok()?.into_vec();
        let mut lows: Vec<Vec<i32>> = Vec::new();
        loop {
            let below = lows.last().unwrap_or(&order);
            if below.len() <= SUFFIX_BLOCK {
                return Some(Self { order, lows });
            }
            lows.push(below.chunks(SUFFIX_BLOCK).filter_map(|block| block.iter().copied().min()).collect());
        }
    }

    /// The cost of sorting the suffixes of `text`, in units of one compared byte.
    const fn cost(text: &str) -> u64 {
        (text.len() as u64).saturating_mul(SORTED_BYTE)
    }

    /// The maximum memory for the suffixes of `text`, in bytes.
    const fn weight_bytes(text: &str) -> u64 {
        // each level has one place for each block of the level below
        let places = text.len() + text.len() / (SUFFIX_BLOCK - 1) + SUFFIX_BLOCK;
        (places * size_of::<i32>()) as u64
    }

    /// The offset of the first occurrence of `part` in `text`.
    fn find(&self, text: &str, part: &str) -> Option<usize> {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        let suffix = |at: &i32| usize::try_from(*at).ok().and_then(|at| text.get(at..)).unwrap_or_default();
        let start = self.order.partition_point(|at| suffix(at) < part);
        let from = self.order.get(start..).unwrap_or_default();
        let with_part = from.partition_point(|at| suffix(at).starts_with(part));
        self.lowest(start..start + with_part).and_then(|at| usize::try_from(at).ok())
    }

    /// The lowest offset in a range of `order`.
    fn lowest(&self, mut range: Range<usize>) -> Option<i32> {
        let low =
            |level: &[i32], range: Range<usize>| level.get(range).and_then(|some| some.iter().copied().min());
        let mut lowest = None;
        let mut level = &self.order;
        for above in &self.lows {
            let blocks = range.start.div_ceil(SUFFIX_BLOCK)..range.end / SUFFIX_BLOCK;
            if blocks.is_empty() {
                break;
            }
            let ends = [range.start..blocks.start * SUFFIX_BLOCK, blocks.end * SUFFIX_BLOCK..range.end];
            lowest = ends.into_iter().filter_map(|end| low(level, end)).chain(lowest).min();
            (level, range) = (above, blocks);
        }
        low(level, range).into_iter().chain(lowest).min()
    }
}

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

#[cfg(test)]
mod tests;
