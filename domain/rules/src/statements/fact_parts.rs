//! Compares a part of a claim with the parts of the facts.

use super::form::{Form, Item, PlacedQuantity};
use super::language::{LanguageTables, Tense};
use super::layout::read_text;
use super::part::{Frame, Part};
use super::sentence::Sentence;
use super::tokens::Word;
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
    /// The key of each stem and quantity, by its text.
    keys: HashMap<String, u32>,
    /// The parts that have a stem or quantity, by its key.
    parts_by_key: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub(crate) struct FactPart {
    pub(crate) fact: u32,
    part: Part,
    /// The keys of its stems and quantities, sorted.
    keys: Vec<u32>,
}

/// The most parts of facts that are examined for a text. Without this limit, a text and facts of the same few words would take
/// quadratic time.
pub(crate) const EXAMINED_MAX: usize = 400_000;
/// The most parts that are compared to name the nearest fact of a claim without support.
const NEAREST_MAX: usize = 32;

impl FactParts {
    pub(crate) fn of(facts: &[String], language: &LanguageTables) -> Self {
        let mut all = Self::default();
        for (fact, text) in (0_u32..).zip(facts) {
            let mut sentences = Vec::new();
            read_text(&PlainText::of(text), language, |_, sentence| sentences.push(sentence));
            // "The lamp is red. That is a lie."
            if sentences.len() > 1 && sentences.iter().any(|sentence| sentence.is_on_truth) {
                continue;
            }
            for (index, mut sentence) in sentences.into_iter().enumerate() {
                if index > 0 && sentence.is_referring {
                    // its words alone do not show what it is about
                    let is_clear = |part: &Part| {
                        let is_open = |frame: &Frame| {
                            frame.words.iter().any(|word| language.is_pronoun(word) || word == "that")
                        };
                        !part.form.is_referring(language) && !part.frames.iter().any(is_open)
                    };
                    sentence.parts.retain(is_clear);
                    sentence.whole = sentence.whole.filter(is_clear);
                }
                all.add(fact, sentence);
            }
        }
        all
    }

    fn add(&mut self, fact: u32, sentence: Sentence) {
        let Sentence { whole, parts, verbatim, .. } = sentence;
        if !verbatim.is_empty() {
            self.verbatim.entry(verbatim).or_insert(fact);
        }
        for part in whole
            .into_iter()
            .chain(parts)
            .filter(|part| part.undecidable.is_none() && !part.is_relative && !part.is_shared)
        {
            let place = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            let mut keys: Vec<u32> = texts(&part).map(|text| self.key(text)).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in &keys {
                if let Some(parts) = self.parts_by_key.get_mut(*key as usize) {
                    parts.push(place);
                }
            }
            self.parts.push(FactPart { fact, part, keys });
        }
    }

    fn key(&mut self, text: String) -> u32 {
        let next = u32::try_from(self.parts_by_key.len()).unwrap_or(u32::MAX);
        let key = *self.keys.entry(text).or_insert(next);
        if key == next {
            self.parts_by_key.push(Vec::new());
        }
        key
    }

    /// The memory that they use, in bytes, approximately.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let words: usize = self.parts.iter().map(|part| 400 + part.keys.len() * 160).sum();
        let texts: usize = self.verbatim.keys().chain(self.keys.keys()).map(|text| 64 + text.len()).sum();
        (words + texts) as u64
    }

    /// The part of a fact that supports `part`, or the nearest one, with the comparisons. It takes
    /// from `left` the number of parts that it examines.
    pub(crate) fn find(&self, part: &Part, left: &mut usize) -> Option<(&FactPart, Vec<ClaimComparison>)> {
        let words: BTreeSet<&str> = part.form.words().map(|word| word.stem.as_str()).collect();
        let keys: Vec<Option<u32>> = words.iter().map(|stem| self.keys.get(*stem).copied()).collect();
        let known: Vec<u32> = keys.iter().copied().flatten().collect();
        let quantities =
            part.form.quantities().filter_map(|placed| self.keys.get(&placed.quantity.to_string()));
        let parts_with = |key: &u32| self.parts_by_key.get(*key as usize).map_or(&[][..], Vec::as_slice);
        let rarest = known.iter().chain(quantities).map(parts_with).min_by_key(|parts| parts.len())?;
        let shared =
            |fact: &FactPart| known.iter().filter(|key| fact.keys.binary_search(key).is_ok()).count();
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

impl FactParts {
    /// The parts that may have the form `term`, each with its fact. It takes from `left` the number of parts that it examines.
    pub(super) fn with_words_of<'f>(
        &'f self,
        term: &Form,
        left: &'f mut usize,
    ) -> impl Iterator<Item = (u32, &'f Part)> {
        let keys = term.words().filter_map(|word| self.keys.get(&word.stem));
        let parts_with = |key: &u32| self.parts_by_key.get(*key as usize).map_or(&[][..], Vec::as_slice);
        let rarest = keys.map(parts_with).min_by_key(|parts| parts.len()).unwrap_or_default();
        rarest.iter().map_while(move |place| {
            *left = left.checked_sub(1)?;
            self.parts.get(*place as usize).map(|fact| (fact.fact, &fact.part))
        })
    }
}

/// Compares a part of a claim with one of a fact.
fn compare(part: &Part, fact: &Part) -> Vec<ClaimComparison> {
    let mut found = Vec::new();
    let mut note = |aspect, claim: String, fact: String, result| {
        found.push(ClaimComparison { aspect, claim, fact, result });
    };
    let (own, theirs) = (&part.form, &fact.form);
    let is_same = own.is_in(theirs);
    let of = |is_alike: bool| ComparisonResult::of(is_alike || is_same);
    if own.has_subject() || theirs.has_subject() {
        note(
            ClaimAspect::Subject,
            own.subject_text(),
            theirs.subject_text(),
            of(own.has_same_subject(theirs)),
        );
    }
    for (claim, with, result) in words(own, theirs, is_same) {
        note(ClaimAspect::Word, claim, with, result);
    }
    for (claim, with, result) in quantities(own, theirs, is_same) {
        note(ClaimAspect::Quantity, claim, with, result);
    }
    for (aspect, select) in [
        (ClaimAspect::Polarity, negation as fn(&Item) -> Option<&'static str>),
        (ClaimAspect::Qualifier, qualifier),
    ] {
        let names = |form: &Form| form.items().filter_map(select).collect::<Vec<_>>().join(", ");
        let (own, theirs) = (names(own), names(theirs));
        if !own.is_empty() || !theirs.is_empty() {
            let result = of(own == theirs);
            note(aspect, own, theirs, result);
        }
    }
    // a form of several tenses, or a label, has the tense of the same word
    let is_open = part.tense.is_none() || fact.tense.is_none();
    let is_tense_same = part.tense == fact.tense || is_open && own.has_same_verb_form(theirs);
    if !is_tense_same {
        let name = |tense: Option<Tense>| tense.map_or("", |tense| tense.into()).to_owned();
        note(ClaimAspect::Tense, name(part.tense), name(fact.tense), ComparisonResult::Different);
    }
    let text = |frames: &[Frame]| frames.iter().map(|frame| &*frame.shown).collect::<Vec<_>>().join("; ");
    if !part.frames.is_empty() || !fact.frames.is_empty() {
        // a condition at the end need not hold for the parts before it
        let is_equal = !fact.is_freely_framed && part.frames == fact.frames
            || part.is_freely_framed && fact.frames.is_empty();
        note(ClaimAspect::Condition, text(&part.frames), text(&fact.frames), ComparisonResult::of(is_equal));
    }
    if !part.ignored.is_empty() || !fact.ignored.is_empty() {
        let (claim, fact) = (part.ignored.join(", "), fact.ignored.join(", "));
        found.push(ClaimComparison {
            aspect: ClaimAspect::Word,
            claim,
            fact,
            result: ComparisonResult::Ignored,
        });
    }
    if !is_same && !found.iter().any(|comparison| comparison.result.is_fault()) {
        let (mut claim, mut fact, result) = (own.text(), theirs.text(), ComparisonResult::Different);
        if claim == fact {
            // the articles or the nouns of the phrases differ
            (claim, fact) = (format!("{claim} (other articles or phrases)"), fact);
        }
        found.push(ClaimComparison { aspect: ClaimAspect::Order, claim, fact, result });
    }
    found
}

const fn negation(item: &Item) -> Option<&'static str> {
    match item {
        Item::Negation(name) => Some(name),
        _ => None,
    }
}

const fn qualifier(item: &Item) -> Option<&'static str> {
    match item {
        Item::Qualifier(name) => Some(name),
        _ => None,
    }
}

/// The texts under which a part is found.
fn texts(part: &Part) -> impl Iterator<Item = String> {
    let quantities = part.form.quantities().map(|placed| placed.quantity.to_string());
    part.form.words().map(|word| word.stem.clone()).chain(quantities)
}

/// Compares each word of a claim with one of a fact, and each of these with at most one.
fn words(own: &Form, theirs: &Form, is_same: bool) -> Vec<(String, String, ComparisonResult)> {
    let mut left: Vec<&Word> = theirs.words().collect();
    let mut all = Vec::new();
    for word in own.words() {
        let same = left.iter().enumerate().find_map(|(index, other)| Some((index, word.comparison(other)?)));
        let alike = || {
            let (index, other) = left.iter().enumerate().find(|(_, other)| other.stem == word.stem)?;
            let is_form = is_same || own.has_verb(word) && theirs.has_verb(other);
            let result = match () {
                () if is_form && word.is_listed_with(other) => ComparisonResult::Synonym,
                () if is_form => ComparisonResult::Inflected,
                () => ComparisonResult::Different,
            };
            Some((index, result))
        };
        all.push(match same.or_else(alike) {
            Some((index, result)) => (word.text.clone(), left.remove(index).text.clone(), result),
            None => (word.text.clone(), String::new(), ComparisonResult::Missing),
        });
    }
    // other words of the fact may be a restriction; "the roof was repaired" need not name who did it
    let rest = left.iter().filter(|_| !is_same);
    all.extend(rest.map(|word| (String::new(), word.text.clone(), ComparisonResult::Different)));
    all
}

/// Compares each quantity of a claim with one of a fact, and each of these with at most one.
fn quantities(claim: &Form, fact: &Form, is_same: bool) -> Vec<(String, String, ComparisonResult)> {
    let mut left: Vec<&PlacedQuantity> = fact.quantities().collect();
    let mut all = Vec::new();
    for claim in claim.quantities() {
        let fit = left.iter().enumerate().find_map(|(index, fact)| Some((index, claim.support(fact)?)));
        let alike = || {
            let index = left.iter().position(|fact| claim.quantity.is_like(&fact.quantity))?;
            Some((index, ComparisonResult::Different))
        };
        all.push(match fit.or_else(alike) {
            Some((index, result)) => (claim.shown(), left.remove(index).shown(), result),
            None => (claim.shown(), String::new(), ComparisonResult::Different),
        });
    }
    // other numbers and dates of the fact may be a restriction
    let rest = left.iter().filter(|_| !is_same);
    all.extend(rest.map(|fact| (String::new(), fact.shown(), ComparisonResult::Different)));
    all
}
