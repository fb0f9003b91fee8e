//! The form of a part: who does what, word by word, and the phrases with prepositions.
//!
//! Two forms are equal if they have the same words, quantities and marks in the same order. A time or an amount may be at another
//! position after the verb, if it is the only one. An active form can equal a passive form.

use super::language::LanguageTables;
use super::quantity::{Quantity, QuantityMatch};
use super::tokens::{Voice, Word};
use crate::result::ComparisonResult;
use std::iter;
use std::sync::Arc;

/// A quantity with the words that change it.
#[derive(Debug, Clone)]
pub(crate) struct PlacedQuantity {
    pub(super) quantity: Quantity,
    /// The quantity as the text writes it.
    pub(super) written: String,
    pub(super) is_about: bool,
    /// The bound before it: "at least".
    pub(super) bound: Option<&'static str>,
}

impl PlacedQuantity {
    /// How `fact` supports this quantity of a claim; `None` if it does not.
    pub(super) fn support(&self, fact: &Self) -> Option<ComparisonResult> {
        // "the 2020 lamps" are no 2,020 lamps
        let is_grouped =
            |written: &str| written.contains([',', '.', '\u{a0}', '\u{2009}', '\u{202f}', '\'', '’']);
        let can_be_year = self.quantity.as_year().is_some() || self.quantity.as_years().is_some();
        let is_other = can_be_year && is_grouped(&self.written) != is_grouped(&fact.written);
        let fits = self.bound == fact.bound && (self.is_about || !fact.is_about) && !is_other;
        match self.quantity.compare(&fact.quantity, self.is_about) {
            QuantityMatch::Equal if fits => Some(ComparisonResult::Equal),
            QuantityMatch::Rounded if fits => Some(ComparisonResult::Rounded),
            _ => None,
        }
    }

    /// The quantity, if it is a number and nothing changes it.
    pub(super) fn exact(&self) -> Option<&Quantity> {
        let is_exact = self.bound.is_none() && !self.is_about && self.quantity.as_number().is_some();
        is_exact.then_some(&self.quantity)
    }

    /// The quantity with its bound, for messages.
    pub(super) fn shown(&self) -> String {
        let bound = self.bound.map(|bound| format!("{bound} ")).unwrap_or_default();
        let about = if self.is_about { "about " } else { "" };
        format!("{bound}{about}{}", self.written)
    }
}

/// A piece of a part.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Word(Arc<Word>),
    /// The word of the verb, which has more inflections.
    Verb(Arc<Word>),
    Quantity(PlacedQuantity),
    /// Any number, in a form that is searched for.
    Amount,
    /// A negation, such as "not".
    Negation(&'static str),
    /// A word that changes how far or how surely a part holds, such as "only".
    Qualifier(&'static str),
    /// A preposition or another word that a language knows.
    Mark(&'static str),
}

impl Item {
    fn is_same(&self, fact: &Self) -> bool {
        match (self, fact) {
            (Self::Word(claim), Self::Word(fact)) => claim.comparison(fact).is_some(),
            (Self::Verb(claim), Self::Verb(fact)) => claim.stem == fact.stem,
            (Self::Quantity(claim), Self::Quantity(fact)) => claim.support(fact).is_some(),
            (Self::Amount, Self::Quantity(fact)) => fact.exact().is_some(),
            (Self::Negation(claim), Self::Negation(fact))
            | (Self::Qualifier(claim), Self::Qualifier(fact))
            | (Self::Mark(claim), Self::Mark(fact)) => claim == fact,
            _ => false,
        }
    }

    fn is_mark(&self, name: &str) -> bool {
        matches!(self, Self::Mark(own) if *own == name)
    }

    pub(super) const fn is_word(&self) -> bool {
        matches!(self, Self::Word(_))
    }

    fn shown(&self) -> String {
        match self {
            Self::Word(word) | Self::Verb(word) => word.text.clone(),
            Self::Quantity(placed) => placed.shown(),
            Self::Amount => String::new(),
            Self::Negation(name) | Self::Qualifier(name) | Self::Mark(name) => (*name).to_owned(),
        }
    }
}

fn are_same(claim: &[Item], fact: &[Item]) -> bool {
    claim.len() == fact.len() && claim.iter().zip(fact).all(|(claim, fact)| claim.is_same(fact))
}

/// In place of a preposition: a day or a time, with "on", "in" or "at" or without.
pub(super) const TIME: &str = "at the time";
/// A definite article.
const DEFINITELY: Option<bool> = Some(true);

pub(super) const OF: &str = "of";

/// A part in its order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form {
    pub(super) subject: Vec<Item>,
    pub(super) verb: Vec<Item>,
    pub(super) object: Vec<Item>,
    /// The phrases after the verb, each with its preposition.
    pub(super) phrases: Vec<Vec<Item>>,
    /// The number of phrases that stand before the subject; they are the last ones.
    pub(super) introductions: usize,
    pub(super) voice: Voice,
    /// Whether the subject and the object begin with a definite article, or with an indefinite one.
    pub(super) is_definite: [Option<bool>; 2],
    /// Which of subject (0) and object (1) "no" negates.
    pub(super) negated_noun: Option<usize>,
    /// Whether the last word belongs to a phrase.
    pub(super) ends_in_phrase: bool,
}

impl Form {
    /// The form with the same meaning in which it is compared.
    pub(super) fn normal(mut self, language: &LanguageTables) -> Self {
        let is_be = self.verb.last().is_some_and(|verb| verb.is_mark(language.lemma_be));
        let (be, have) = (Item::Mark(language.lemma_be), Item::Mark(language.lemma_have));
        // "has no balcony", "no pets are allowed"
        let is_no = |items: &[Item]| matches!(items.first(), Some(Item::Negation("no" | "neither")));
        if !self.is_negated()
            && let Some(place) = [&self.subject, &self.object].iter().position(|items| is_no(items))
        {
            drop(if place == 0 { self.subject.remove(0) } else { self.object.remove(0) });
            self.verb.insert(0, Item::Negation("not"));
            self.negated_noun = Some(place);
        }
        if self.verb.last().is_some_and(|verb| verb.is_mark("there")) && self.subject.is_empty() {
            // "there was hail on Sunday"
            self.subject = std::mem::take(&mut self.object);
            self.is_definite = [self.is_definite[1], None];
            self.verb.pop();
            self.verb.push(be);
            return self;
        }
        // "weighs 2 kg" is "has a weight of 2 kg"
        let is_amount = |items: &[Item]| matches!(items.first(), Some(Item::Quantity(_)));
        if let Some(Item::Verb(verb)) = self.verb.last()
            && verb.stem == language.weighing_stem
            && is_amount(&self.object)
        {
            self.object.insert(1, Item::Word(Word { noun: verb.stem.clone(), ..Word::clone(verb) }.into()));
            self.verb.pop();
            self.verb.push(have);
            return self;
        }
        let is_measured = |item: &Item| matches!(item, Item::Quantity(placed) if !placed.quantity.is_count() && !placed.quantity.is_time());
        if is_be && self.object.first().is_some_and(is_measured) {
            let owner = self.subject.iter().position(|item| item.is_mark(OF));
            let owner = owner.filter(|owner| self.subject.iter().take(*owner).all(Item::is_word));
            match (owner, self.object.as_slice()) {
                // "the length of the trail is 5 km"
                (Some(owner), [_]) => {
                    let of_owner = self.subject.split_off(owner);
                    self.object.append(&mut self.subject);
                    self.subject = of_owner.into_iter().skip(1).collect();
                    self.replace_verb(&be, have);
                }
                // "the trail is 5 km long"
                (_, [_, Item::Word(dimension)]) if language.is_listed_noun(&dimension.noun) => {
                    self.replace_verb(&be, have);
                }
                _ => {}
            }
        }
        self
    }

    fn replace_verb(&mut self, verb: &Item, by: Item) {
        if self.verb.last().is_some_and(|last| last.is_same(verb)) {
            self.verb.pop();
            self.verb.push(by);
        }
    }

    /// Takes over the subject of `before`, and its verb if this part has none.
    pub(super) fn continue_from(&mut self, before: &Self, has_verb: bool) {
        self.subject.clone_from(&before.subject);
        self.is_definite[0] = before.is_definite[0];
        if has_verb {
            return;
        }
        let is_negated = self.is_negated() && !before.is_negated();
        self.verb.clone_from(&before.verb);
        if is_negated {
            self.verb.insert(0, Item::Negation("not"));
        }
        self.voice = before.voice;
        if self.object.is_empty() {
            self.object.clone_from(&before.object);
        } else if before.ends_in_phrase && self.phrases.is_empty() {
            // "made from sugar and raspberries"
            let mut phrases = before.phrases.clone();
            if let Some(last) = phrases.last_mut() {
                last.truncate(1);
                last.append(&mut self.object);
            }
            self.phrases = phrases;
            self.object.clone_from(&before.object);
        }
    }

    /// Adds the introduction of the sentence.
    pub(super) fn add_introduction(&mut self, introduction: &Self) {
        let mut phrases = introduction.phrases.clone();
        match phrases.first_mut() {
            Some(first) => drop(first.splice(0..0, introduction.object.iter().cloned())),
            None if !introduction.object.is_empty() => phrases.push(introduction.object.clone()),
            None => {}
        }
        self.introductions += phrases.len();
        self.phrases.append(&mut phrases);
    }

    /// Whether a phrase before the subject of one is after a noun in the other, to which it could belong there: "in Rome the
    /// film tells of a war". Times belong to the verb.
    fn moves_phrase(&self, fact: &Self) -> bool {
        let split = |form: &Self| form.phrases.len().saturating_sub(form.introductions);
        let is_moved = |one: &Self, other: &Self| {
            let introductions = one.phrases.get(split(one)..).unwrap_or_default();
            let others = other.phrases.get(..split(other)).unwrap_or_default();
            let is_bound = |phrase: &Vec<Item>| {
                let is_time = phrase.first().is_some_and(|first| first.is_mark(TIME))
                    || !phrase.iter().any(Item::is_word)
                    || phrase.iter().any(|item| matches!(item, Item::Word(word) if word.is_calendar));
                let place = others.iter().position(|own| are_same(phrase, own));
                let before = |place: usize| other.object.iter().chain(others.iter().take(place).flatten());
                let follows_noun = |place: usize| before(place).any(Item::is_word);
                !is_time && place.is_some_and(follows_noun)
            };
            introductions.iter().any(is_bound)
        };
        is_moved(self, fact) || is_moved(fact, self)
    }

    /// Whether it has a phrase with a preposition that no phrase of `other` has.
    pub(super) fn has_other_phrase(&self, other: &Self) -> bool {
        let has = |phrases: &[Vec<Item>], first: &Item| {
            phrases.iter().any(|phrase| phrase.first().is_some_and(|own| own.is_same(first)))
        };
        self.phrases.iter().filter_map(|phrase| phrase.first()).any(|first| !has(&other.phrases, first))
    }

    /// Whether it has a number.
    pub(super) fn has_amount(&self) -> bool {
        self.items().any(is_number)
    }

    /// Whether what follows its verb, and `other` after an "and", could share an amount: "paid 100 € for the lamp and the
    /// desk", "12 men and women".
    pub(super) fn shares_amount(&self, other_has_amount: bool, other_has_article: bool) -> bool {
        let is_before_phrase = self.ends_in_phrase && self.subject.iter().chain(&self.object).any(is_number);
        let is_last = if self.ends_in_phrase {
            self.phrases.last().is_some_and(|last| last.iter().any(is_number))
        } else {
            self.object.iter().any(is_number)
        };
        is_before_phrase && !other_has_amount || is_last && !other_has_amount && !other_has_article
    }

    /// Whether it refers to the sentence before.
    pub(super) fn is_referring(&self, language: &LanguageTables) -> bool {
        self.items().any(|item| match item {
            Item::Word(word) | Item::Verb(word) => language.reference_stems.contains(&&*word.stem),
            Item::Mark(name) => language.is_pronoun(name),
            _ => false,
        })
    }

    pub(super) const fn has_object(&self) -> bool {
        !self.object.is_empty()
    }

    pub(super) fn has_owner_in_object(&self) -> bool {
        self.object.iter().any(|item| item.is_mark(OF))
    }

    /// Whether the object is in the plural; `None` without an object, or if it is a name, which no pronoun replaces.
    pub(super) fn object_is_plural(&self) -> Option<bool> {
        let is_action = matches!(self.verb.last(), Some(Item::Verb(_))) && self.is_definite[1].is_some();
        let noun = self.object.iter().rev().find_map(|item| match item {
            Item::Word(word) => Some(word),
            _ => None,
        });
        let noun = noun.filter(|word| is_action && !word.is_name)?;
        Some(noun.has_plural_ending())
    }

    pub(super) const fn has_subject(&self) -> bool {
        !self.subject.is_empty()
    }

    /// Whether a fact has the form of this claim.
    pub(super) fn is_in(&self, fact: &Self) -> bool {
        // "the supplier" is not "a supplier"
        let is_unlike = |place: usize| {
            let articles = self
                .is_definite
                .get(place)
                .copied()
                .flatten()
                .zip(fact.is_definite.get(place).copied().flatten());
            articles.is_some_and(|(claim, fact)| claim != fact)
        };
        let are_articles_different = (self.is_be() || self.is_negated()) && (is_unlike(0) || is_unlike(1));
        // "no guest pays the fee" is not "the guest pays no fee", and not "a guest does not pay the fee"
        let is_other = |none: Option<usize>, other: &Self| match none {
            Some(0) => other.is_definite[0].is_some(),
            Some(_) => other.is_definite[1] == DEFINITELY,
            None => false,
        };
        let are_nones_different = self.negated_noun != fact.negated_noun
            && (is_other(self.negated_noun, fact) || is_other(fact.negated_noun, self));
        if !are_same(&self.verb, &fact.verb) || are_articles_different || are_nones_different {
            return false;
        }
        let is_passive = |voice| matches!(voice, Voice::Passive | Voice::Agentless);
        if is_passive(self.voice) == is_passive(fact.voice) {
            return !self.moves_phrase(fact)
                && are_same_phrases(&slices(&self.phrases), &slices(&fact.phrases))
                && (are_same(&self.subject, &fact.subject) && are_same(&self.object, &fact.object)
                    || self.is_exchangeable(fact)
                        && are_same(&self.subject, &fact.object)
                        && are_same(&self.object, &fact.subject));
        }
        let (Some(own), Some(theirs)) = (self.active(), fact.active()) else { return false };
        are_same_phrases(&slices(&own.phrases), &slices(&theirs.phrases))
            && are_same(&own.object, &theirs.object)
            && !own.subject.is_empty()
            && are_same(&own.subject, &theirs.subject)
    }

    fn is_negated(&self) -> bool {
        self.verb.iter().any(|item| matches!(item, Item::Negation(_)))
    }

    /// Whether subject and object of two sentences with "is" have the same meaning: "Seville was the warmest place".
    fn is_exchangeable(&self, fact: &Self) -> bool {
        let is_name = |items: &[Item]| matches!(items.first(), Some(Item::Word(word)) if word.is_name);
        // "is often the winner"
        self.verb.len() == 1
            && self.is_be()
            && (self.is_definite == [DEFINITELY; 2] && fact.is_definite == [DEFINITELY; 2]
                || self.is_definite[1] == DEFINITELY
                    && fact.is_definite[0] == DEFINITELY
                    && is_name(&fact.object)
                || self.is_definite[0] == DEFINITELY
                    && fact.is_definite[1] == DEFINITELY
                    && is_name(&self.object))
    }

    pub(super) fn is_be(&self) -> bool {
        matches!(self.verb.last(), Some(Item::Mark("be" | "sein")))
    }

    /// The index of the phrase of a passive sentence that names who acts.
    fn agent(&self) -> Option<usize> {
        let is_agent = |phrase: &Vec<Item>| {
            phrase.first().is_some_and(|first| first.is_mark("by") || first.is_mark("von"))
        };
        // "by nobody", "by one member"
        let is_plain = |phrase: &Vec<Item>| {
            phrase.iter().skip(1).all(|item| item.is_word() || matches!(item, Item::Mark(_)))
        };
        // "by Friday"
        let is_day = |item: &Item| matches!(item, Item::Word(word) if word.is_calendar);
        let is_plain = |phrase: &Vec<Item>| is_plain(phrase) && !phrase.iter().any(is_day);
        let agent = self.phrases.iter().position(is_agent).filter(|_| self.voice == Voice::Passive);
        agent.filter(|agent| self.phrases.get(*agent).is_some_and(is_plain))
    }

    /// The form as an active sentence. `None` if one of its phrases could belong to another noun there.
    fn active(&self) -> Option<ActiveForm> {
        let (mut subject, mut object) = (self.subject.clone(), self.object.clone());
        let agent = self.agent();
        let others = self.phrases.iter().enumerate().filter(|(index, _)| Some(*index) != agent);
        let mut phrases: Vec<Vec<Item>> = others.map(|(_, phrase)| phrase.clone()).collect();
        if self.voice != Voice::Active {
            let agent = agent.and_then(|agent| self.phrases.get(agent)).and_then(|agent| agent.get(1..));
            let mut patient = std::mem::replace(&mut subject, agent.unwrap_or_default().to_vec());
            let is_harmless = |phrase: &Vec<Item>| {
                let is = |name: &str| phrase.first().is_some_and(|first| first.is_mark(name));
                is(TIME) || is("as") || !phrase.iter().any(Item::is_word)
            };
            if !phrases.iter().all(is_harmless) {
                return None;
            }
            let mut own = Vec::new();
            split_off_phrases(&mut patient, &mut own);
            // "is paid for by the insurer"
            match phrases.iter_mut().find(|phrase| phrase.len() == 1) {
                Some(particle) => particle.extend(patient),
                None => drop(object.splice(0..0, patient)),
            }
            phrases.splice(0..0, own);
        }
        let mut of_subject = Vec::new();
        split_off_phrases(&mut subject, &mut of_subject);
        split_off_phrases(&mut object, &mut phrases);
        of_subject.is_empty().then_some(ActiveForm { subject, object, phrases })
    }

    /// All of its items.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.subject.iter().chain(&self.verb).chain(&self.object).chain(self.phrases.iter().flatten())
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &Word> {
        self.items().filter_map(|item| match item {
            Item::Word(word) | Item::Verb(word) => Some(&**word),
            _ => None,
        })
    }

    pub(super) fn has_verb(&self, word: &Word) -> bool {
        matches!(self.verb.last(), Some(Item::Verb(verb)) if **verb == *word)
    }

    pub(super) fn quantities(&self) -> impl Iterator<Item = &PlacedQuantity> {
        self.items().filter_map(|item| match item {
            Item::Quantity(placed) => Some(placed),
            _ => None,
        })
    }

    /// The subject, for people.
    pub(super) fn subject_text(&self) -> String {
        shown(&self.subject)
    }

    pub(super) fn has_same_subject(&self, fact: &Self) -> bool {
        are_same(&self.subject, &fact.subject)
    }

    /// Whether the verbs of both have the same form, or one has none.
    pub(super) fn has_same_verb_form(&self, fact: &Self) -> bool {
        match (self.verb.last(), fact.verb.last()) {
            (Some(Item::Verb(own)), Some(Item::Verb(theirs))) => own.text == theirs.text,
            (None, None) => true,
            _ => false,
        }
    }

    /// All of it, for people.
    pub(super) fn text(&self) -> String {
        shown(self.items())
    }
}

fn is_number(item: &Item) -> bool {
    matches!(item, Item::Quantity(placed) if !placed.quantity.is_time())
}

fn slices(phrases: &[Vec<Item>]) -> Vec<&[Item]> {
    phrases.iter().map(Vec::as_slice).collect()
}

fn shown<'a>(items: impl IntoIterator<Item = &'a Item>) -> String {
    items.into_iter().map(Item::shown).collect::<Vec<_>>().join(" ")
}

/// A form as an active sentence has it.
struct ActiveForm {
    pub(super) subject: Vec<Item>,
    pub(super) object: Vec<Item>,
    pub(super) phrases: Vec<Vec<Item>>,
}

/// Whether a phrase begins at the item; "of" belongs to the noun before it.
fn is_phrase_start(item: &Item) -> bool {
    matches!(item, Item::Mark(name) if !matches!(*name, OF | "," | "and" | "or" | "dem" | "der"))
}

/// Moves the phrases of `items` to `phrases`.
fn split_off_phrases(items: &mut Vec<Item>, phrases: &mut Vec<Vec<Item>>) {
    let start = items.iter().position(is_phrase_start).unwrap_or(items.len());
    let rest = items.split_off(start);
    phrases.extend(split_phrases(&rest).map(<[Item]>::to_vec));
}

/// The phrases of `items`, each from its preposition on.
fn split_phrases(items: &[Item]) -> impl Iterator<Item = &[Item]> {
    let mut rest = items;
    iter::from_fn(move || {
        let after = rest.get(1..)?;
        let end = 1 + after.iter().position(is_phrase_start).unwrap_or(after.len());
        let (phrase, others) = rest.split_at(end);
        rest = others;
        Some(phrase)
    })
}

/// Whether both have the same phrases, in any order.
fn are_same_set(claim: &[&[Item]], fact: &[&[Item]]) -> bool {
    let mut left = fact.to_vec();
    claim.len() == fact.len()
        && claim.iter().all(|phrase| {
            let found = left.iter().position(|other| are_same(phrase, other));
            found.map(|index| left.swap_remove(index)).is_some()
        })
}

fn are_in_order(claim: &[&[Item]], fact: &[&[Item]]) -> bool {
    claim.len() == fact.len() && claim.iter().zip(fact).all(|(claim, fact)| are_same(claim, fact))
}

/// Whether both have the same phrases. A time or an amount may stand anywhere, if it is the only one; the others keep their
/// order.
fn are_same_phrases(claim: &[&[Item]], fact: &[&[Item]]) -> bool {
    let is_light = |phrase: &&[Item]| {
        phrase.first().is_some_and(|first| first.is_mark(TIME)) || !phrase.iter().skip(1).any(Item::is_word)
    };
    let (light, heavy): (Vec<&[Item]>, Vec<&[Item]>) = claim.iter().copied().partition(is_light);
    let (fact_light, fact_heavy): (Vec<&[Item]>, Vec<&[Item]>) = fact.iter().copied().partition(is_light);
    // "at 9 p.m. on 5 May"
    let is_moment = || {
        let is = |clock: bool| {
            light.iter().copied().flatten().any(|item| matches!(item, Item::Quantity(placed) if placed.quantity.is_clock() == clock && placed.quantity.is_time()))
        };
        light.len() == 2 && is(true) && is(false)
    };
    if is_moment() && are_in_order(&heavy, &fact_heavy) {
        return are_same_set(&light, &fact_light);
    }
    if light.len() < 2 || heavy.is_empty() {
        are_in_order(&light, &fact_light) && are_in_order(&heavy, &fact_heavy)
    } else {
        are_in_order(claim, fact)
    }
}
