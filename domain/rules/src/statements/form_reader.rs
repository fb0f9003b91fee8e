//! Reads the form of a part from its tokens.

use super::form::{Form, Item, OF, PlacedQuantity, TIME};
use super::language::{LanguageTables, WordClass};
use super::quantity::Quantity;
use super::tokens::{DEFINITE, OF_TIME, calendar_length, is_day};
use super::tokens::{Token, TokenKind, Voice, Word, without_limits};
use super::verb::split_auxiliaries;

impl Form {
    /// Reads `tokens`, whose subject begins at `start`, whose verb begins at `verb` and has its word at `word`.
    pub(super) fn read(
        tokens: &[Token],
        start: usize,
        (verb, word): (Option<usize>, Option<usize>),
        voice: Voice,
        language: &LanguageTables,
    ) -> Self {
        let form = Self { voice, ..Self::default() };
        let mut reader = FormReader {
            tokens,
            language,
            form,
            place: Place::Object,
            owner: Vec::new(),
            bound: None,
            is_about: false,
            is_amount: false,
            is_fixed: false,
            before_subject: 0,
        };
        let limits = verb.map_or(0, |verb| without_limits(tokens.get(..verb).unwrap_or_default()).len());
        let auxiliaries =
            verb.map_or(0, |verb| split_auxiliaries(tokens.get(verb..).unwrap_or_default()).0.len());
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            let place = match verb {
                Some(verb) if index < verb && index >= limits.max(start) => Place::Verb,
                Some(verb) if index < verb && index >= start => Place::Subject,
                Some(verb)
                    if index >= verb
                        && index <= word.unwrap_or(verb).max(verb + auxiliaries.saturating_sub(1)) =>
                {
                    Place::Verb
                }
                _ => Place::Object,
            };
            if place != Place::Object || reader.place == Place::Subject || reader.place == Place::Verb {
                reader.move_to(place);
            }
            index += reader.add(index, token, Some(index) == word);
        }
        reader.close();
        // phrases before the subject come last
        let before = reader.before_subject;
        reader.form.phrases.rotate_left(before);
        reader.form.introductions = before;
        reader.form.ends_in_phrase = matches!(reader.place, Place::Phrase);
        reader.form.normal(language)
    }
}

/// Where the next items go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Subject,
    Verb,
    Object,
    /// The last phrase.
    Phrase,
}

struct FormReader<'t> {
    tokens: &'t [Token],
    language: &'t LanguageTables,
    form: Form,
    place: Place,
    /// The one that the next noun belongs to: "Anna's".
    owner: Vec<Item>,
    bound: Option<&'static str>,
    is_about: bool,
    /// Whether "of" comes before the next quantity: "a warranty of 3 years".
    is_amount: bool,
    /// Whether the words from here on keep their order, as after "than".
    is_fixed: bool,
    /// The number of phrases before the subject.
    before_subject: usize,
}

impl FormReader<'_> {
    /// Ends a noun.
    fn close(&mut self) {
        if !self.owner.is_empty() {
            let owner = std::mem::take(&mut self.owner);
            self.items().push(Item::Mark(OF));
            self.items().extend(owner);
        }
    }

    fn move_to(&mut self, place: Place) {
        if matches!(place, Place::Subject | Place::Verb)
            && matches!(self.place, Place::Object | Place::Phrase)
        {
            self.before_subject = self.form.phrases.len();
        }
        if place != self.place {
            self.close();
            self.place = place;
        }
    }

    /// Whether the last phrase is a time.
    fn has_time(&self) -> bool {
        self.form
            .phrases
            .last()
            .is_some_and(|last| last.first().is_some_and(|first| matches!(first, Item::Mark(TIME))))
    }

    fn begin_phrase(&mut self, preposition: &'static str) {
        self.close();
        self.form.phrases.push(vec![Item::Mark(preposition)]);
        self.place = Place::Phrase;
    }

    fn items(&mut self) -> &mut Vec<Item> {
        match self.place {
            Place::Subject => &mut self.form.subject,
            Place::Verb => &mut self.form.verb,
            Place::Object => &mut self.form.object,
            Place::Phrase => {
                let form = &mut self.form;
                form.phrases.last_mut().unwrap_or(&mut form.object)
            }
        }
    }

    /// Adds the token at `index`, and returns the number of tokens that it has used.
    fn add(&mut self, index: usize, token: &Token, is_word_of_verb: bool) -> usize {
        let is_free = matches!(self.place, Place::Object | Place::Phrase) && !self.is_fixed;
        // "in the morning", "in the first week"
        let follows_word =
            index.checked_sub(1).and_then(|before| self.tokens.get(before)).is_some_and(Token::is_word);
        let is_begun =
            self.place == Place::Phrase && (self.items().len() == 1 || follows_word && !self.has_time());
        if is_free
            && !is_begun
            && let Some(length) = calendar_length(self.tokens, index, self.language)
        {
            self.begin_phrase(TIME);
            for token in self.tokens.iter().skip(index).take(length) {
                self.add_plain(token);
            }
            if self.form.object.is_empty() {
                self.move_to(Place::Object);
            }
            return length;
        }
        match &token.kind {
            TokenKind::Class(WordClass::Preposition, name)
                if is_of(name) && names_amount(self.tokens, index) =>
            {
                self.is_amount = true;
            }
            TokenKind::Class(WordClass::Preposition, name) => self.add_preposition(index, name, is_free),
            TokenKind::Class(WordClass::Qualifier, name) if OF_TIME.contains(name) && is_free => {
                self.begin_phrase(name);
            }
            TokenKind::Class(WordClass::Qualifier, name @ ("than" | "instead")) => {
                self.is_fixed = true;
                self.items().push(Item::Qualifier(name));
            }
            TokenKind::Class(WordClass::Bound, name) if bounds_number(self.tokens, index) => {
                self.bound = Some(name);
            }
            TokenKind::Class(WordClass::About, _)
                if self.tokens.get(index + 1).is_some_and(Token::is_quantity) =>
            {
                self.is_about = true;
            }
            TokenKind::Class(WordClass::Function, name) => self.add_function_word(name),
            TokenKind::Class(WordClass::Auxiliary, name) if self.place == Place::Verb => {
                self.form.verb.retain(|item| !matches!(item, Item::Mark(_)));
                self.form.verb.push(Item::Mark(self.language.lemma(name)));
            }
            TokenKind::Word(word) if word.text.ends_with("'s") && self.place != Place::Verb => {
                self.begin_owner(word);
            }
            TokenKind::Quantity(quantity) => self.add_quantity(index, quantity),
            _ if is_word_of_verb => self.add_verb(token),
            _ if self.place == Place::Verb && token.is_limit() => self.add_limit(token),
            _ if index == 0 && token.is(WordClass::Relative) => {}
            _ => self.add_plain(token),
        }
        1
    }

    fn add_verb(&mut self, token: &Token) {
        match token.as_word(self.language) {
            Some(word) => {
                self.form.verb.retain(|item| !matches!(item, Item::Mark(_)));
                self.form.verb.push(Item::Verb(word));
            }
            None => self.add_plain(token),
        }
    }

    /// Adds a negation or a qualifier of the verb, before its auxiliary: "is not", "has no".
    fn add_limit(&mut self, token: &Token) {
        let verb = &mut self.form.verb;
        let at = verb.iter().position(|item| matches!(item, Item::Mark(_))).unwrap_or(verb.len());
        match token.kind {
            TokenKind::Class(WordClass::Negation, "no") => verb.insert(at, Item::Negation("not")),
            TokenKind::Class(WordClass::Negation, name) => verb.insert(at, Item::Negation(name)),
            TokenKind::Class(_, name) => verb.insert(at, Item::Qualifier(name)),
            _ => {}
        }
    }

    /// Takes the words before the genitive `word` as the owner of the next noun.
    fn begin_owner(&mut self, word: &Word) {
        let items = self.items();
        let start = items.iter().rposition(|item| !item.is_word()).map_or(0, |last| last + 1);
        let mut owner = items.split_off(start);
        let text = word.text.trim_end_matches("'s").to_owned();
        owner.push(Item::Word(Word { text, ..word.clone() }.into()));
        self.owner = owner;
    }

    fn add_plain(&mut self, token: &Token) {
        let item = match &token.kind {
            TokenKind::Word(word) => Item::Word(word.clone()),
            TokenKind::Class(WordClass::Verb | WordClass::Narrowing, name) => {
                Item::Word(Word::known(name, self.language).into())
            }
            TokenKind::Class(WordClass::Negation, name) => Item::Negation(name),
            // "under Anna" bounds nothing
            TokenKind::Class(WordClass::Bound, name) if !token.written.eq_ignore_ascii_case(name) => {
                Item::Word(Word::known(&token.written.to_lowercase(), self.language).into())
            }
            TokenKind::Class(
                WordClass::Qualifier | WordClass::Conjunction | WordClass::Bound | WordClass::About,
                name,
            ) => Item::Qualifier(name),
            TokenKind::Class(WordClass::Auxiliary, name) => Item::Mark(self.language.lemma(name)),
            TokenKind::Class(_, name) => Item::Mark(name),
            TokenKind::Break => Item::Mark(","),
            TokenKind::Colon => Item::Mark(self.language.lemma_be),
            TokenKind::Quantity(quantity) => {
                let (quantity, written) = (quantity.clone(), token.written.clone());
                Item::Quantity(PlacedQuantity { quantity, written, is_about: false, bound: None })
            }
        };
        self.items().push(item);
    }

    fn add_preposition(&mut self, index: usize, name: &'static str, is_free: bool) {
        const BEFORE_TIME: [&str; 7] = ["in", "on", "at", "im", "am", "an", "um"];
        let is_joined = is_of(name) && !(name == "von" && self.form.voice == Voice::Passive);
        let next = self.tokens.get(index + 1..).unwrap_or_default();
        let next = next
            .iter()
            .position(|token| !token.is(WordClass::Function))
            .map_or(index + 1, |skipped| index + 1 + skipped);
        let is_time = || match self.tokens.get(next).map(|token| &token.kind) {
            Some(TokenKind::Quantity(quantity)) => {
                quantity.is_time() || self.year_at(next, quantity).is_some()
            }
            _ => false,
        };
        let is_day = self.tokens.get(next).is_some_and(|next| is_day(next, self.language));
        if is_free && matches!(name, "on" | "am" | "an") && is_day {
            // "on Monday" is "Monday"
            return;
        }
        let name = if BEFORE_TIME.contains(&name) && is_time() { TIME } else { preposition(name) };
        if !is_free || is_joined {
            let name = if is_joined { OF } else { name };
            self.items().push(Item::Mark(name));
        } else {
            self.begin_phrase(name);
        }
    }

    fn add_function_word(&mut self, name: &'static str) {
        let is_first = self.items().is_empty();
        let place = self.place;
        let is_article = DEFINITE.contains(&name) || self.language.articles.contains(&name);
        if is_first && is_article {
            let is_definite = Some(DEFINITE.contains(&name));
            match place {
                Place::Subject => self.form.is_definite[0] = is_definite,
                Place::Object => self.form.is_definite[1] = is_definite,
                _ => {}
            }
        }
        // "übernimmt bei Krankheit die Kosten"
        if is_article
            && place == Place::Phrase
            && !self.is_fixed
            && self.form.object.is_empty()
            && self.items().iter().any(Item::is_word)
            && self.language.is_verb_second
        {
            self.move_to(Place::Object);
        }
        // "die Leistung der Pumpe"
        let follows_noun = self.items().last().is_some_and(Item::is_word);
        if follows_noun && matches!(name, "der" | "des") {
            self.items().push(Item::Mark(OF));
            return;
        }
        // the case of a German noun shows who does what
        let mark = match (place, name) {
            (Place::Subject, "den" | "einen") => Some("den"),
            (Place::Subject | Place::Object, "dem" | "einem") => Some("dem"),
            // "die Mitarbeiter" are several, unlike "der Mitarbeiter" and "den Mitarbeiter"
            (Place::Subject | Place::Object, "die") if is_first => Some("die"),
            (Place::Object, "der") if self.form.voice == Voice::Active => Some("der"),
            _ => None,
        };
        self.items().extend(mark.map(Item::Mark));
    }

    /// The number at `index` as a year, if no word follows it.
    fn year_at(&self, index: usize, quantity: &Quantity) -> Option<Quantity> {
        // "2,012" is no year
        let is_plain = |token: &Token| token.written.bytes().all(|byte| byte.is_ascii_digit());
        let is_written_as_year = self.tokens.get(index).is_some_and(is_plain);
        quantity
            .as_year()
            .filter(|_| is_written_as_year && self.tokens.get(index + 1).is_none_or(|next| !next.is_word()))
    }

    fn add_quantity(&mut self, index: usize, quantity: &Quantity) {
        let quantity = self.year_at(index, quantity).unwrap_or_else(|| quantity.clone());
        let written = self.tokens.get(index).map(|token| token.written.clone()).unwrap_or_default();
        let (bound, is_about) = (self.bound.take(), std::mem::take(&mut self.is_about));
        let is_object = self.place == Place::Object && !self.is_fixed;
        if is_object
            && quantity.is_time()
            // "won 21:19"
            && !quantity.is_clock()
            && (!self.form.object.is_empty() || matches!(self.form.verb.last(), Some(Item::Verb(_))))
        {
            self.begin_phrase(TIME);
        }
        let is_amount = std::mem::take(&mut self.is_amount);
        let items = self.items();
        let at = if is_amount {
            items.iter().rposition(|item| !item.is_word()).map_or(0, |last| last + 1)
        } else {
            items.len()
        };
        items.insert(at, Item::Quantity(PlacedQuantity { quantity, written, is_about, bound }));
    }
}

fn is_of(name: &str) -> bool {
    matches!(name, "of" | "von" | "vom")
}

/// A preposition without its article.
fn preposition(name: &'static str) -> &'static str {
    match name {
        "im" | "ins" => "in",
        "am" => "an",
        "zum" | "zur" => "zu",
        "vom" => "von",
        "beim" => "bei",
        other => other,
    }
}

/// Whether a number comes after the bound at `index`.
fn bounds_number(tokens: &[Token], index: usize) -> bool {
    let mut rest = tokens.get(index + 1..).unwrap_or_default().iter();
    let next = rest.find(|next| !next.is(WordClass::Function) && !next.is(WordClass::About));
    next.is_some_and(Token::is_quantity)
}

/// Whether only a quantity follows the preposition at `index`.
fn names_amount(tokens: &[Token], index: usize) -> bool {
    let after = tokens.get(index + 1..).unwrap_or_default();
    let after = after.iter().skip_while(|token| token.is(WordClass::Bound) || token.is(WordClass::About));
    let mut after = after.skip_while(|token| token.is(WordClass::Function));
    after
        .next()
        .is_some_and(|token| matches!(&token.kind, TokenKind::Quantity(quantity) if !quantity.is_count()))
        && after.next().is_none_or(|next| !next.is_word())
}
