//! The order of a part: who does what, and the phrases with prepositions, which may move.

use super::language::{Language, WordClass};
use super::sentence::OF_TIME;
use super::tokens::{Token, TokenKind, Voice};

/// A phrase with a preposition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Phrase {
    preposition: &'static str,
    stems: Vec<String>,
    has_quantity: bool,
    is_in_subject: bool,
}

impl Phrase {
    const fn new(preposition: &'static str, is_in_subject: bool) -> Self {
        Self { preposition, stems: Vec::new(), has_quantity: false, is_in_subject }
    }

    /// Whether it is only a particle, as in "sold out".
    fn is_particle(&self) -> bool {
        self.stems.is_empty() && !self.has_quantity
    }

    fn is_in(&self, fact: &Self) -> bool {
        const OF_TIME: [&str; 3] = ["in", "on", "at"];
        let is_time = self.has_quantity && self.stems.is_empty() && OF_TIME.contains(&self.preposition);
        (self.preposition == fact.preposition
            || self.preposition == ANY
            || is_time && OF_TIME.contains(&fact.preposition))
            && is_subsequence(&self.stems, &fact.stems)
            && self.has_quantity <= fact.has_quantity
    }
}

/// The words of a part in their order, without its quantities.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phrases {
    subject: Vec<String>,
    verb: Vec<String>,
    rest: Vec<String>,
    attached: Vec<Phrase>,
    /// The preposition of the phrase at the end.
    last_preposition: Option<&'static str>,
    voice: Voice,
    /// Whether the subject, and what follows the verb, begin with a definite article.
    is_definite: [bool; 2],
}

/// In a claim, it stands for any preposition: "its roof" is "the roof of the house" or "on the house".
const ANY: &str = "";

/// Stems that a text puts where it likes: times without a preposition.
pub(super) fn is_free(stem: &str) -> bool {
    const FREE: &[&str] = &[
        "day",
        "night",
        "week",
        "weekend",
        "month",
        "year",
        "morn",
        "afternoon",
        "even",
        "today",
        "tomorrow",
        "yesterday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "spr",
        "summ",
        "autumn",
        "wint",
        "last",
        "next",
        "jahr",
        "tag",
        "woch",
        "monat",
        "nacht",
        "heut",
        "gest",
        "morg",
        "abend",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
    ];
    FREE.contains(&stem)
}

/// Pronouns for what has something.
const POSSESSIVES: [&str; 10] =
    ["its", "their", "his", "her", "ihr", "ihre", "ihren", "sein", "seine", "seinen"];
/// The definite articles.
pub(super) const DEFINITE: [&str; 6] = ["the", "der", "die", "das", "den", "dem"];

/// Prepositions that name a place or a time, which texts exchange.
fn preposition(name: &'static str) -> Option<&'static str> {
    match name {
        "im" | "ins" => Some("in"),
        "an" | "am" => Some("an"),
        "zu" | "zum" | "zur" => Some("zu"),
        "von" | "vom" => Some("von"),
        "bei" | "beim" => Some("bei"),
        // "9 cents per kWh" and "9 cents a kWh"
        "per" | "pro" | "je" => None,
        other => Some(other),
    }
}

impl Phrases {
    /// Reads `tokens`, whose verb begins at `verb` and has its word at `word`.
    pub(super) fn read(
        tokens: &[Token],
        (verb, word): (Option<usize>, Option<usize>),
        voice: Voice,
        language: &Language,
    ) -> Self {
        let mut phrases = Self { voice, ..Self::default() };
        let mut open: Option<Phrase> = None;
        for (index, token) in tokens.iter().enumerate() {
            let is_before_verb = verb.is_some_and(|verb| index < verb);
            let begins = match &token.kind {
                // "a warranty of 3 years" is "a 3-year warranty"
                TokenKind::Class(WordClass::Preposition, "of" | "von") if names_amount(tokens, index) => None,
                TokenKind::Class(WordClass::Preposition, name) => preposition(name),
                TokenKind::Class(WordClass::Qualifier, name) => {
                    (OF_TIME.contains(name) || matches!(*name, "than" | "instead")).then_some(*name)
                }
                TokenKind::Class(WordClass::Bound, name) => {
                    (!tokens.get(index + 1).is_some_and(Token::is_quantity)).then_some(*name)
                }
                _ => None,
            };
            if let Some(preposition) = begins {
                // an introduction is no part of the subject
                let is_in_subject = is_before_verb && !phrases.subject.is_empty();
                phrases.attached.extend(open.replace(Phrase::new(preposition, is_in_subject)));
                continue;
            }
            let is_article = matches!(&token.kind, TokenKind::Class(WordClass::Function, name) if language.articles.contains(name));
            let ends = is_article && open.as_ref().is_some_and(|open| !open.is_particle());
            if ends || token.is(WordClass::Auxiliary) || Some(index) == word {
                phrases.attached.extend(open.take());
            }
            if let TokenKind::Class(WordClass::Function, name) = &token.kind
                && open.is_none()
                && DEFINITE.contains(name)
            {
                match (is_before_verb, phrases.subject.is_empty(), phrases.rest.is_empty()) {
                    (true, true, _) => phrases.is_definite[0] = true,
                    (false, _, true) => phrases.is_definite[1] = true,
                    _ => {}
                }
            }
            phrases.add(token, &mut open, (is_before_verb, Some(index) == word), language);
        }
        phrases.last_preposition = open.as_ref().map(|open| open.preposition);
        phrases.attached.extend(open);
        if matches!(voice, Voice::Passive | Voice::Agentless) {
            // "the tow is paid for by the insurer"
            let particle =
                phrases.attached.iter_mut().find(|phrase| phrase.is_particle() && !phrase.is_in_subject);
            if let Some(phrase) = particle.filter(|phrase| phrase.preposition == "for") {
                phrase.stems = std::mem::take(&mut phrases.subject);
            }
        }
        phrases
    }

    fn add(
        &mut self,
        token: &Token,
        open: &mut Option<Phrase>,
        (is_in_subject, is_verb): (bool, bool),
        language: &Language,
    ) {
        if let (TokenKind::Quantity(_), Some(open)) = (&token.kind, open.as_mut()) {
            open.has_quantity = true;
        }
        let Some(stem) = token.stem(language) else { return };
        if is_free(&stem) {
            if let Some(open) = open {
                open.has_quantity = true;
            }
            return;
        }
        let is_genitive = matches!(&token.kind, TokenKind::Word(word) if word.text.ends_with("'s"));
        if is_genitive {
            self.attached.push(Phrase { stems: vec![stem], ..Phrase::new("of", is_in_subject) });
        } else if let Some(open) = open {
            open.stems.push(stem);
        } else if is_verb {
            self.verb.push(stem);
        } else if is_in_subject {
            self.subject.push(stem);
        } else {
            self.rest.push(stem);
        }
    }

    /// Takes over the subject of `before`, and its verb if this part has none.
    pub(super) fn continue_from(&mut self, before: &Self, with_verb: bool) {
        self.subject.splice(0..0, before.subject.iter().cloned());
        self.attached.extend(before.attached.iter().filter(|phrase| phrase.is_in_subject).cloned());
        self.is_definite[0] = before.is_definite[0];
        if with_verb {
            self.verb.clone_from(&before.verb);
            self.voice = before.voice;
            // "made from sugar and raspberries"
            if let Some(preposition) = before.last_preposition.filter(|_| self.attached.is_empty()) {
                let stems = std::mem::take(&mut self.rest);
                self.attached.push(Phrase { stems, ..Phrase::new(preposition, false) });
            }
        }
    }

    /// Puts the subject of the sentence before in place of a pronoun; `name` is the pronoun.
    pub(super) fn replace_pronoun(&mut self, name: &str, previous: &Self) {
        let attached = previous.attached.iter().filter(|phrase| phrase.is_in_subject).cloned();
        self.attached.extend(attached);
        if POSSESSIVES.contains(&name) {
            self.attached.push(Phrase { stems: previous.subject.clone(), ..Phrase::new(ANY, true) });
        } else {
            self.subject.splice(0..0, previous.subject.iter().cloned());
        }
    }

    /// Adds the introduction of the sentence.
    pub(super) fn add_introduction(&mut self, introduction: &Self) {
        self.attached.extend(introduction.attached.iter().cloned());
        self.rest.extend(introduction.rest.iter().cloned());
    }

    /// The words that name who acts.
    pub(super) fn agent(&self) -> &[String] {
        match self.voice {
            Voice::Active => &self.subject,
            _ => self.agent_phrase().map_or(&[], |phrase| &phrase.stems),
        }
    }

    /// The phrase of a passive part that names who acts.
    fn agent_phrase(&self) -> Option<&Phrase> {
        const BY: [&str; 2] = ["by", "von"];
        let is_agent = |phrase: &&Phrase| {
            BY.contains(&phrase.preposition) && !phrase.is_in_subject && !phrase.stems.is_empty()
        };
        self.attached.iter().find(is_agent).filter(|_| self.voice == Voice::Passive)
    }

    /// The words without phrases, as an active sentence has them, and the phrases without the one that names who acts.
    fn active(&self) -> (Vec<&String>, Vec<&Phrase>) {
        let agent = self.agent_phrase();
        let is_other = |phrase: &&Phrase| !agent.is_some_and(|agent| std::ptr::eq(agent, *phrase));
        let attached = self.attached.iter().filter(is_other).collect();
        let core = match self.voice {
            Voice::Passive | Voice::Agentless => {
                self.agent().iter().chain(&self.verb).chain(&self.subject).chain(&self.rest).collect()
            }
            Voice::Active | Voice::Identity => {
                self.subject.iter().chain(&self.verb).chain(&self.rest).collect()
            }
        };
        (core, attached)
    }

    /// Whether `fact` has the words of this part in their roles.
    pub(super) fn is_in(&self, fact: &Self) -> bool {
        let ((core, attached), (theirs, phrases)) = (self.active(), fact.active());
        let exchanged: Vec<&String> = self.rest.iter().chain(&self.verb).chain(&self.subject).collect();
        // "Seville was the warmest place"
        let is_exchangeable = self.voice == Voice::Identity
            && fact.voice == Voice::Identity
            && (self.is_definite[0] && fact.is_definite[1] || self.is_definite[1] && fact.is_definite[0]);
        // "the trail is 5 km long" and "the length of the trail is 5 km"
        let is_owned = || {
            let owned: Vec<&String> = self.verb.iter().chain(&self.rest).collect();
            let owner = Phrase { stems: self.subject.clone(), ..Phrase::new(ANY, true) };
            self.voice == Voice::Active
                && fact.verb.is_empty()
                && !owned.is_empty()
                && is_subsequence(&owned, &theirs)
                && phrases.iter().any(|phrase| owner.is_in(phrase))
        };
        let is_in_order = is_subsequence(&core, &theirs);
        if !(is_in_order || is_exchangeable && is_subsequence(&exchanged, &theirs) || is_owned()) {
            return false;
        }
        // several phrases with one preposition keep their order and their side of the verb
        let is_passive = |voice| matches!(voice, Voice::Passive | Voice::Agentless);
        let has_sides = is_in_order && is_passive(self.voice) == is_passive(fact.voice);
        let mut used = vec![false; phrases.len()];
        for phrase in attached {
            let several = phrases.iter().filter(|fact| fact.preposition == phrase.preposition).count() > 1;
            let fits = |index: &usize| {
                let (Some(fact), Some(used_already)) = (phrases.get(*index), used.get(*index)) else {
                    return false;
                };
                let is_after = used
                    .iter()
                    .zip(&phrases)
                    .skip(index + 1)
                    .all(|(used, later)| !used || later.preposition != phrase.preposition);
                !used_already
                    && phrase.is_in(fact)
                    && (!several || !has_sides || is_after && phrase.is_in_subject == fact.is_in_subject)
            };
            let Some(index) = (0..phrases.len()).find(fits) else { return false };
            if let Some(used) = used.get_mut(index) {
                *used = true;
            }
        }
        !phrases.iter().zip(&used).any(|(phrase, used)| phrase.is_particle() && !used)
    }

    /// The words in their order, for people.
    pub(super) fn text(&self) -> String {
        let (core, attached) = self.active();
        let core = core.into_iter().cloned();
        let attached =
            attached.into_iter().map(|phrase| format!("{} {}", phrase.preposition, phrase.stems.join(" ")));
        core.chain(attached).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

/// Whether only a quantity follows the preposition at `index`.
fn names_amount(tokens: &[Token], index: usize) -> bool {
    let after = tokens.get(index + 1..).unwrap_or_default();
    let after = after.iter().skip_while(|token| token.is(WordClass::Bound) || token.is(WordClass::About));
    let mut after = after.skip_while(|token| token.is(WordClass::Function));
    after.next().is_some_and(Token::is_quantity) && after.next().is_none_or(|next| !next.is_word())
}

/// Whether `of` has the entries of `part` in their order.
fn is_subsequence<T: PartialEq>(part: &[T], of: &[T]) -> bool {
    let mut rest = of.iter();
    part.iter().all(|entry| rest.any(|other| other == entry))
}
