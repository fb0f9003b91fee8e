//! Compares a part of a claim with the parts of the facts.

use super::language::Language;
use super::quantity::QuantityMatch;
use super::sentence::{Frame, Part, PlacedQuantity, Sentence, TextReader};
use super::tokens::{Voice, Word};
use super::verb::Tense;
use crate::claims::sentences;
use crate::plain_text::PlainText;
use crate::result::{ClaimAspect, ClaimComparison, ComparisonResult};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// The facts as parts, with an index of their words.
#[derive(Debug, Default)]
pub(crate) struct FactParts {
    parts: Vec<FactPart>,
    /// The first fact with a sentence, by its words and quantities.
    pub(crate) verbatim: HashMap<String, u32>,
    /// The stems of words, and the quantities, by their text.
    numbers: HashMap<String, u32>,
    /// For each stem and quantity, the parts that have it.
    with: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub(crate) struct FactPart {
    pub(crate) fact: u32,
    part: Part,
    /// The numbers of its stems and quantities, sorted.
    numbers: Vec<u32>,
}

/// The most parts of facts that are examined for a text. Without this limit, a text and facts of the same few words would take
/// quadratic time.
pub(crate) const EXAMINED_MAX: usize = 4_000_000;
/// The most parts that are compared to name the nearest fact of a claim without support.
const NEAREST_MAX: usize = 32;

impl FactParts {
    pub(crate) fn of(facts: &[String], language: &Language) -> Self {
        let mut all = Self::default();
        for (fact, text) in (0_u32..).zip(facts) {
            let plain = PlainText::of(text);
            let mut reader = TextReader::new(language);
            for range in sentences(plain.text()) {
                let text = plain.text().get(range).unwrap_or_default();
                all.add(fact, reader.read(text));
            }
        }
        all
    }

    fn add(&mut self, fact: u32, sentence: Sentence) {
        let Sentence { parts, verbatim, .. } = sentence;
        if !verbatim.is_empty() {
            self.verbatim.entry(verbatim).or_insert(fact);
        }
        for part in parts.into_iter().filter(|part| part.undecidable.is_none() && !part.is_relative) {
            let place = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            let mut numbers: Vec<u32> = keys(&part).map(|key| self.number(key)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            for number in &numbers {
                if let Some(parts) = self.with.get_mut(*number as usize) {
                    parts.push(place);
                }
            }
            self.parts.push(FactPart { fact, part, numbers });
        }
    }

    fn number(&mut self, key: String) -> u32 {
        let next = u32::try_from(self.with.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.with.push(Vec::new());
        }
        number
    }

    /// The memory that they use, in bytes, approximately.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let words: usize = self.parts.iter().map(|part| 400 + part.numbers.len() * 160).sum();
        words as u64
    }

    /// The part of a fact that supports `part`, or the nearest one, with the comparisons. It takes
    /// from `left` the number of parts that it examines.
    pub(crate) fn find(&self, part: &Part, left: &mut usize) -> Option<(&FactPart, Vec<ClaimComparison>)> {
        let words: BTreeSet<&str> = part.words.iter().map(|word| word.stem.as_str()).collect();
        let numbers: Vec<Option<u32>> = words.iter().map(|stem| self.numbers.get(*stem).copied()).collect();
        let known: Vec<u32> = numbers.iter().copied().flatten().collect();
        let quantities =
            part.quantities.iter().filter_map(|placed| self.numbers.get(&placed.quantity.to_string()));
        let parts_with = |number: &u32| self.with.get(*number as usize).map_or(&[][..], Vec::as_slice);
        let rarest = known.iter().chain(quantities).map(parts_with).min_by_key(|parts| parts.len())?;
        let shared = |fact: &FactPart| {
            known.iter().filter(|number| fact.numbers.binary_search(number).is_ok()).count()
        };
        let mut nearest: Vec<(usize, &FactPart)> = Vec::new();
        for place in rarest {
            let Some(rest) = left.checked_sub(1) else { break };
            *left = rest;
            let Some(fact) = self.parts.get(*place as usize) else { continue };
            let shared = shared(fact);
            if shared == words.len() && part.undecidable.is_none() {
                let comparisons = compare(part, &fact.part);
                if !comparisons.iter().any(|comparison| comparison.result.is_fault()) {
                    return Some((fact, comparisons));
                }
            }
            if nearest.len() < NEAREST_MAX {
                nearest.push((shared, fact));
            } else if let Some(least) = nearest.iter_mut().min_by_key(|(least, _)| *least)
                && least.0 < shared
            {
                *least = (shared, fact);
            }
        }
        let compared = nearest.into_iter().map(|(shared, fact)| (shared, fact, compare(part, &fact.part)));
        let rank = |(shared, fact, comparisons): &(usize, &FactPart, Vec<ClaimComparison>)| {
            let faults = comparisons.iter().filter(|comparison| comparison.result.is_fault()).count();
            (*shared, Reverse(faults), Reverse(fact.fact))
        };
        compared.max_by_key(rank).map(|(_, fact, comparisons)| (fact, comparisons))
    }
}

/// Compares a part of a claim with one of a fact.
fn compare(part: &Part, fact: &Part) -> Vec<ClaimComparison> {
    let mut found = Vec::new();
    let mut note = |aspect, claim: String, fact: String, result| {
        found.push(ClaimComparison { aspect, claim, fact, result });
    };
    let stems = |stems: &BTreeSet<String>| stems.iter().cloned().collect::<Vec<_>>().join(" ");
    if !part.subject.is_empty() || !fact.subject.is_empty() {
        let result = ComparisonResult::of(is_subject_of(part, fact));
        note(ClaimAspect::Subject, stems(&part.subject), stems(&fact.subject), result);
    }
    // other words of the fact may be a restriction; "the roof was repaired" need not name who did it
    let is_agentless = part.voice == Voice::Agentless;
    let has = |word: &&Word| part.words.iter().any(|own| own.stem == word.stem);
    let is_agent = |word: &&Word| is_agentless && fact.phrases.agent().contains(&word.stem);
    for word in fact.words.iter().filter(|word| !has(word) && !is_agent(word)) {
        note(ClaimAspect::Word, String::new(), word.text.clone(), ComparisonResult::Different);
    }
    for word in &part.words {
        let own = fact.words.iter().find(|own| own.stem == word.stem);
        let result = match own {
            Some(own) if own.text == word.text => ComparisonResult::Same,
            Some(own) if own.own_stem == word.own_stem => ComparisonResult::Inflected,
            Some(_) => ComparisonResult::Synonym,
            None => ComparisonResult::Missing,
        };
        note(
            ClaimAspect::Word,
            word.text.clone(),
            own.map(|own| own.text.clone()).unwrap_or_default(),
            result,
        );
    }
    for (claim, with, result) in quantities(&part.quantities, &fact.quantities) {
        note(ClaimAspect::Quantity, claim, with, result);
    }
    if !part.phrases.is_in(&fact.phrases) {
        let (own, theirs) = (part.phrases.text(), fact.phrases.text());
        note(ClaimAspect::Order, own, theirs, ComparisonResult::Different);
    }
    let polarity = |is_negated: bool| if is_negated { "not" } else { "" }.to_owned();
    let result = ComparisonResult::of(part.is_negated == fact.is_negated);
    if part.is_negated || fact.is_negated {
        note(ClaimAspect::Polarity, polarity(part.is_negated), polarity(fact.is_negated), result);
    }
    if let (Some(own), Some(theirs)) = (part.tense, fact.tense)
        && own != theirs
    {
        let name = |tense: Tense| <&str>::from(tense).to_owned();
        note(ClaimAspect::Tense, name(own), name(theirs), ComparisonResult::Different);
    }
    let join = |words: &BTreeSet<&str>| words.iter().copied().collect::<Vec<_>>().join(", ");
    let (own, theirs) = (&part.qualifiers, &fact.qualifiers);
    if !own.is_empty() || !theirs.is_empty() {
        note(ClaimAspect::Qualifier, join(own), join(theirs), ComparisonResult::of(own == theirs));
    }
    let text = |frames: &BTreeSet<Frame>| {
        let frame = |frame: &Frame| format!("{} {}", frame.kind, frame.words.join(" "));
        frames.iter().map(frame).collect::<Vec<_>>().join("; ")
    };
    let (own, theirs) = (&part.frames, &fact.frames);
    if !own.is_empty() || !theirs.is_empty() {
        let is_equal = own == theirs || part.is_freely_framed && theirs.is_empty();
        note(ClaimAspect::Condition, text(own), text(theirs), ComparisonResult::of(is_equal));
    }
    found
}

/// The texts under which a part is found.
fn keys(part: &Part) -> impl Iterator<Item = String> {
    let quantities = part.quantities.iter().map(|placed| placed.quantity.to_string());
    part.words.iter().map(|word| word.stem.clone()).chain(quantities)
}

/// Whether the noun of the fact's subject is in the claim. A passive claim need not name who acts.
fn is_subject_of(part: &Part, fact: &Part) -> bool {
    let has = |stem: &String| part.words.iter().any(|word| word.stem == *stem);
    let is_agentless = part.voice == Voice::Agentless && fact.voice == Voice::Active;
    fact.head.as_ref().is_none_or(has) || is_agentless
}

/// Compares each quantity of a claim with one of a fact, and each of these with at most one.
fn quantities(
    claims: &[PlacedQuantity],
    facts: &[PlacedQuantity],
) -> Vec<(String, String, ComparisonResult)> {
    let shown = |quantity: &PlacedQuantity| {
        let bound = quantity.bound.map(|bound| format!("{bound} ")).unwrap_or_default();
        format!("{bound}{}", quantity.quantity)
    };
    let mut left: Vec<&PlacedQuantity> = facts.iter().collect();
    let mut all = Vec::new();
    for claim in claims {
        let fit = left
            .iter()
            .enumerate()
            .find_map(|(index, fact)| Some((index, quantity_support(claim, fact, facts)?)));
        let alike = || {
            let index = left.iter().position(|fact| claim.quantity.is_like(&fact.quantity))?;
            Some((index, ComparisonResult::Different))
        };
        all.push(match fit.or_else(alike) {
            Some((index, result)) => (shown(claim), shown(left.remove(index)), result),
            None => (shown(claim), String::new(), ComparisonResult::Different),
        });
    }
    // other numbers and dates of the fact may be a restriction
    all.extend(
        left.iter().map(|fact| (String::new(), fact.quantity.to_string(), ComparisonResult::Different)),
    );
    all
}

/// How `fact`, one of `facts`, supports the quantity of a claim; absent if it does not.
fn quantity_support(
    claim: &PlacedQuantity,
    fact: &PlacedQuantity,
    facts: &[PlacedQuantity],
) -> Option<ComparisonResult> {
    let result = match claim.quantity.compare(&fact.quantity, claim.is_about) {
        QuantityMatch::Different => return None,
        QuantityMatch::Rounded => ComparisonResult::Rounded,
        QuantityMatch::Equal => ComparisonResult::Equal,
    };
    let fits = claim.bound == fact.bound
        && (claim.is_about == fact.is_about || claim.is_about)
        && is_placed_alike(claim, fact, facts);
    fits.then_some(result)
}

/// Whether the words beside both quantities are the same, where they matter: for a count, and among several quantities of
/// one kind.
fn is_placed_alike(claim: &PlacedQuantity, fact: &PlacedQuantity, facts: &[PlacedQuantity]) -> bool {
    // "rose to 5 %" is not "rose by 5 %"
    const DIRECTIONS: [&str; 8] = ["to", "from", "by", "off", "than", "um", "auf", "von"];
    let direction = |placed: &PlacedQuantity| {
        let before = placed.before.as_deref()?;
        DIRECTIONS.iter().find(|direction| **direction == before).copied()
    };
    if direction(claim) != direction(fact) {
        return false;
    }
    let is_one_of_several = facts.iter().filter(|other| other.quantity.is_like(&fact.quantity)).count() > 1;
    if !claim.quantity.is_count() && !is_one_of_several {
        return true;
    }
    let is_same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    is_same(&claim.after, &fact.after)
        || is_same(&claim.before, &fact.after) && claim.after.is_none()
        || is_same(&claim.after, &fact.before) && fact.after.is_none()
        || is_same(&claim.before, &fact.before) && claim.after.is_none() == fact.after.is_none()
        || claim.before.is_none() && claim.after.is_none() && !is_one_of_several
}
