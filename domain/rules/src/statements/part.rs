//! Reads a part of a sentence that can be true or false by itself.

use super::form::Form;
use super::language::{LanguageTables, Tense, WordClass};
use super::tokens::{Token, TokenKind, Voice, without_limits};
use super::tokens::{calendar_length, is_like_preposition};
use super::verb::{is_finite, is_introduction, is_sure_verb, tense, verb_at, verb_word_at, voice};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A condition or an attribution, which holds for the whole sentence.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: &'static str,
    pub(crate) words: Vec<String>,
    /// It as people read it, with its quantities as they are written.
    pub(crate) shown: String,
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.words == other.words
    }
}

/// A part of a sentence that can be true or false by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// The range in the text.
    pub(crate) range: Range<usize>,
    /// Its words in their order.
    pub(crate) form: Form,
    /// The stem of the noun of its subject.
    pub(crate) head: Option<String>,
    pub(crate) tense: Option<Tense>,
    pub(crate) has_verb: bool,
    /// Its words, if it has no verb.
    piece: VerblessShape,
    subject: Vec<Token>,
    /// Whether its subject is a name, and it has no other one.
    has_only_name: bool,
    /// Whether its object is in the plural: "built the bridges"; `None` without an object that "it" could mean.
    object_is_plural: Option<bool>,
    /// The conditions and attributions of its sentence, in their order.
    pub(crate) frames: Vec<Frame>,
    /// The function words, which are not compared.
    pub(super) ignored: Vec<&'static str>,
    /// Whether the frames may belong to a later part of the sentence only.
    pub(crate) is_freely_framed: bool,
    /// Whether it is a clause with "which" or "who". Its subject is the noun before it.
    pub(crate) is_relative: bool,
    /// Whether it is joined to others by a reason. A claim then needs a fact with the whole sentence.
    pub(crate) is_joined: bool,
    /// Whether another part of its sentence may limit it. As a fact, it then holds only with the whole sentence.
    pub(crate) is_shared: bool,
    /// Whether a claim with it needs a fact with the whole sentence, since it may share words with the part beside it: "Acme and
    /// Beta for fraud", "Ben, a doctor".
    pub(crate) shares_words: bool,
    /// Whether it has a verb of its own for sure, and not only a word such as "damaged".
    pub(super) is_clause: bool,
    /// Why it cannot be decided.
    pub(crate) undecidable: Option<&'static str>,
}

impl Part {
    /// A part that is not read.
    pub(super) fn undecidable(range: Range<usize>, reason: &'static str) -> Self {
        Self { range, undecidable: Some(reason), ..Self::default() }
    }

    /// Whether this part, which has no verb, may share an amount with `first`.
    pub(super) fn shares_amount_of(&self, first: &Self) -> bool {
        first.form.shares_amount(self.piece.has_amount, self.piece.has_determiner)
    }

    /// Whether this part, which has no verb, shares only subject and verb with `first`.
    pub(super) fn is_apart_from(&self, first: &Self) -> bool {
        // "gold in the sprint and silver in the relay"
        let has_phrase = self.form.has_other_phrase(&Form::default());
        let is_paired = !self.piece.has_phrase
            || has_phrase && first.form.has_object() && !self.form.has_other_phrase(&first.form);
        // "the flag is red and white", "the owners are Acme and Beta"
        let is_mixed = first.form.is_be() && !self.piece.has_determiner && self.piece.is_name_or_color;
        self.piece.is_plain && is_paired && !is_mixed && !first.form.has_owner_in_object()
    }

    /// Its subject, for the pronouns after it.
    pub(super) fn as_subject(&self) -> Option<Subject> {
        let tokens: Vec<Token> =
            self.subject.iter().filter(|token| !token.is(WordClass::Negation)).cloned().collect();
        let subject =
            Subject { tokens, is_only_name: self.has_only_name, object_is_plural: self.object_is_plural };
        subject.tokens.iter().any(Token::is_word).then_some(subject)
    }
}

/// The shape of a part without a verb.
#[derive(Debug, Clone, Default)]
struct VerblessShape {
    /// Whether it is one noun: a word, or a few after an article or a number, and no clause about it.
    is_plain: bool,
    has_determiner: bool,
    has_amount: bool,
    has_phrase: bool,
    is_name_or_color: bool,
}

impl VerblessShape {
    fn of(tokens: &[Token], form: &Form) -> Self {
        const COLORS: [&str; 22] = [
            "black", "white", "red", "blue", "green", "yellow", "brown", "grey", "gray", "orange", "pink",
            "purple", "gold", "silver", "schwarz", "weiß", "rot", "blau", "grün", "gelb", "braun", "grau",
        ];
        let end = tokens.iter().position(is_like_preposition).unwrap_or(tokens.len());
        let noun = tokens.get(..end).unwrap_or_default();
        let words: Vec<&Token> = noun.iter().filter(|token| token.is_word()).collect();
        let is_determiner = |token: &&Token| token.is(WordClass::Function) || token.is_quantity();
        let has_determiner = noun.iter().any(|token| is_determiner(&token));
        // "rings made of gold", "vans needing repair"
        let is_participle = |token: &&Token| match &token.kind {
            TokenKind::Word(word) => ["ed", "ing"].iter().any(|end| word.text.ends_with(end)),
            _ => token.is(WordClass::Verb),
        };
        let has_clause = words.iter().skip(1).any(is_participle);
        let is_known = |token: &&&Token| token.is_word() || is_determiner(token);
        let is_certain = noun.iter().all(|token| is_known(&&token) || token.names(WordClass::Negation, "no"));
        let is_name_or_color = words.first().is_some_and(|first| {
            matches!(&first.kind, TokenKind::Word(word) if word.is_name || COLORS.contains(&&*word.text))
        });
        Self {
            is_plain: !words.is_empty()
                && is_certain
                && !has_clause
                && words.len() <= if has_determiner { 3 } else { 1 },
            has_determiner,
            has_amount: form.has_amount(),
            has_phrase: end < tokens.len(),
            is_name_or_color,
        }
    }
}

/// The subject of a part, for the pronouns after it.
#[derive(Debug, Clone, Default)]
pub(super) struct Subject {
    tokens: Vec<Token>,
    /// Whether it is a name, and no other one can be meant.
    is_only_name: bool,
    /// Whether the object of its sentence is in the plural: "the firm built the bridges".
    object_is_plural: Option<bool>,
}

impl Subject {
    /// Whether `pronoun` can mean it.
    fn fits(&self, pronoun: &str) -> bool {
        let words = before_preposition(&self.tokens).iter().rev();
        let Some(TokenKind::Word(last)) =
            words.map(|token| &token.kind).find(|kind| matches!(kind, TokenKind::Word(_)))
        else {
            return false;
        };
        let has_plural_ending =
            last.text.ends_with('s') && !["ss", "us", "is"].iter().any(|end| last.text.ends_with(end));
        let is_plural = has_plural_ending
            || matches!(&*last.text, "people" | "children" | "men" | "women")
            || self.tokens.iter().any(|token| token.is(WordClass::Conjunction));
        let has_article = |articles: &[&str]| {
            self.tokens
                .iter()
                .take(1)
                .any(|token| articles.iter().any(|article| token.names(WordClass::Function, article)))
        };
        match pronoun {
            "it" | "its" => !is_plural && self.object_is_plural != Some(false),
            "they" | "their" => is_plural && self.object_is_plural != Some(true),
            "he" | "she" | "his" | "her" => self.is_only_name && !is_plural,
            "er" | "sein" | "seine" | "seinen" => has_article(&["der", "ein"]),
            "es" => has_article(&["das", "ein"]),
            "sie" | "ihr" | "ihre" | "ihren" => has_article(&["die", "eine"]),
            _ => false,
        }
    }

    /// Its tokens at the place of `pronoun`.
    fn in_place_of(&self, pronoun: &Token, is_owner: bool) -> Vec<Token> {
        let mut tokens: Vec<Token> =
            self.tokens.iter().map(|token| Token { range: pronoun.range.clone(), ..token.clone() }).collect();
        if is_owner
            && let Some(Token { kind: TokenKind::Word(word), .. }) = tokens.last_mut()
            && !word.text.ends_with("'s")
        {
            Arc::make_mut(word).text.push_str("'s");
        }
        tokens
    }
}

/// The last part with its own subject, which later parts use.
#[derive(Debug, Clone)]
struct SubjectPart {
    part: Part,
    /// Whether "neither" negates all of them.
    is_neither: bool,
    is_negated: bool,
    /// Whether it, its subject, or what follows its verb is negated or limited.
    is_limited: bool,
    has_limited_subject: bool,
    has_limited_end: bool,
}

const UNCERTAIN: &str = "the beginning of the sentence may not apply to this part";

/// Reads the parts of a sentence in their order.
pub(super) struct PartReader<'l> {
    language: &'l LanguageTables,
    /// The subject of the sentence before.
    previous: Subject,
    introduction: Form,
    /// The last part with a subject of its own.
    before: Option<SubjectPart>,
}

impl<'l> PartReader<'l> {
    pub(super) fn new(language: &'l LanguageTables, previous: &Subject) -> Self {
        Self { language, previous: previous.clone(), introduction: Form::default(), before: None }
    }

    /// Takes `tokens` as the introduction of the sentence, if it is a phrase.
    pub(super) fn introduce(&mut self, tokens: &[Token]) -> bool {
        if !is_introduction(tokens, self.language) {
            return false;
        }
        self.introduction = Form::read(tokens, 0, (None, None), Voice::Active, self.language);
        true
    }

    /// Reads the part of `tokens`.
    pub(super) fn read(&mut self, tokens: &[Token]) -> Part {
        let language = self.language;
        let own = self.before.as_ref().and_then(|before| before.part.as_subject());
        let tokens = &with_names(tokens, &own.unwrap_or_else(|| self.previous.clone()), language);
        let verb = verb_at(tokens, language)
            .or_else(|| tokens.iter().position(|token| matches!(token.kind, TokenKind::Colon)));
        let is_label =
            verb.and_then(|verb| tokens.get(verb)).is_some_and(|verb| matches!(verb.kind, TokenKind::Colon));
        let word = verb.and_then(|verb| verb_word_at(tokens, verb, language));
        let before_verb = verb.and_then(|verb| tokens.get(..verb)).unwrap_or_default();
        let start = introduction_length(before_verb, language);
        let subject = without_limits(before_verb.get(start..).unwrap_or_default());
        let is_existential = tokens.iter().any(|token| {
            token.names(WordClass::Auxiliary, "there is") || token.names(WordClass::Auxiliary, "there was")
        });
        let is_subject = |token: &Token| token.is_word_or_quantity() || token.is(WordClass::Pronoun);
        let is_continued = !subject.iter().any(is_subject) && !is_existential;
        let voice = voice(tokens, verb, language);
        let mut part = Part {
            range: range_of(tokens),
            form: Form::read(tokens, start, (verb, word), voice, language),
            has_verb: verb.is_some(),
            // "CEO of Acme: Ann Lee" holds now
            tense: if is_label { Some(Tense::Present) } else { tense(tokens, (verb, word), language) },
            is_relative: tokens.first().is_some_and(|first| first.is(WordClass::Relative)),
            ignored: tokens.iter().filter_map(Token::as_function_word).collect(),
            ..Part::default()
        };
        part.piece = VerblessShape::of(tokens, &part.form);
        part.is_clause = verb.is_some_and(|verb| is_sure_verb(tokens, verb, language));
        match self.before.as_ref().filter(|_| is_continued) {
            Some(before) => {
                let is_finite = verb.is_some_and(|verb| is_finite(tokens, verb, language));
                part.continue_from(before, is_finite);
                if verb.is_none() && has_two_nouns(tokens) {
                    part.undecidable = Some(UNCERTAIN);
                }
            }
            None => {
                part.head = head_of(subject, language);
                part.subject = subject.to_vec();
                part.has_only_name = is_only_name(subject, tokens);
                part.object_is_plural = part.form.object_is_plural();
                if !part.is_relative {
                    let end = word.and_then(|word| tokens.get(word + 1..)).unwrap_or(tokens);
                    self.before = Some(SubjectPart {
                        is_neither: tokens.iter().any(|token| token.names(WordClass::Negation, "neither")),
                        is_negated: tokens.iter().any(|token| token.is(WordClass::Negation)),
                        is_limited: tokens.iter().any(Token::is_limit),
                        has_limited_subject: subject.iter().any(Token::is_limit),
                        has_limited_end: end.iter().any(Token::is_limit),
                        part: part.clone(),
                    });
                }
            }
        }
        part.form.add_introduction(&self.introduction);
        part.find_doubts(tokens);
        part
    }
}

impl Part {
    /// Takes over the subject of `known`, and its verb if this part has none: "… and weighs 2 kg", "… and a cable".
    fn continue_from(&mut self, known: &SubjectPart, is_finite: bool) {
        let before = &known.part;
        self.head.clone_from(&before.head);
        if !self.has_verb {
            self.tense = before.tense;
        }
        let is_uncertain = if self.has_verb {
            known.has_limited_subject || known.is_limited && !is_finite
        } else {
            !known.is_neither && (known.has_limited_end || known.is_negated)
        };
        if is_uncertain || !before.has_verb {
            self.undecidable = Some(UNCERTAIN);
        }
        self.form.continue_from(&before.form, self.has_verb);
    }

    fn find_doubts(&mut self, tokens: &[Token]) {
        if tokens.iter().any(Token::is_ambiguous) {
            self.undecidable = Some("the date has two readings");
        }
        let is_named = tokens.get(1).is_some_and(Token::is_word);
        if self.is_relative && !is_named
            || tokens.first().is_some_and(|first| first.is(WordClass::Complementizer))
        {
            self.undecidable = Some("the subject of the clause is unclear");
        }
        if self.form.words().next().is_none() {
            self.undecidable = Some("this part has no content word");
        }
    }
}

fn range_of(tokens: &[Token]) -> Range<usize> {
    let start = tokens.iter().map(|token| token.range.start).min();
    let end = tokens.iter().map(|token| token.range.end).max();
    start.unwrap_or(0)..end.unwrap_or(0)
}

/// `tokens` with `previous` in place of the pronouns that are a subject or own one.
fn with_names(tokens: &[Token], previous: &Subject, language: &LanguageTables) -> Vec<Token> {
    const OWNERS: [&str; 9] = ["its", "their", "his", "her", "ihre", "ihren", "sein", "seine", "seinen"];
    let verb = verb_at(tokens, language).unwrap_or(tokens.len());
    let mut named = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_followed = index + 1 < verb && tokens.get(index + 1).is_some_and(Token::is_word);
        match &token.kind {
            TokenKind::Class(WordClass::Pronoun, name)
                if previous.fits(name)
                    && !(*name == "sie" && is_plural_verb(tokens.get(verb)))
                    && index < verb
                    && is_followed == OWNERS.contains(name) =>
            {
                named.extend(previous.in_place_of(token, is_followed));
            }
            // "is needed for it"
            TokenKind::Class(WordClass::Pronoun, "it")
                if index > verb
                    && previous.fits("it")
                    && previous.object_is_plural.is_none()
                    && named.last().is_some_and(|before: &Token| before.is(WordClass::Preposition)) =>
            {
                named.extend(previous.in_place_of(token, false));
            }
            // "this tariff" is "the tariff"
            TokenKind::Class(WordClass::Pronoun, name @ ("this" | "these")) if is_followed => {
                named.push(Token { kind: TokenKind::Class(WordClass::Function, name), ..token.clone() });
            }
            _ => named.push(token.clone()),
        }
    }
    named
}

/// Whether a German verb is in the plural.
fn is_plural_verb(verb: Option<&Token>) -> bool {
    verb.is_some_and(|verb| match &verb.kind {
        TokenKind::Class(_, name) => matches!(*name, "sind" | "waren") || name.ends_with("en"),
        TokenKind::Word(word) => word.text.ends_with("en"),
        _ => false,
    })
}

fn is_name(token: &Token) -> bool {
    matches!(&token.kind, TokenKind::Word(word) if word.is_name)
}

/// Whether `subject` is a name, and `tokens` have no other one.
fn is_only_name(subject: &[Token], tokens: &[Token]) -> bool {
    let names = |tokens: &[Token]| tokens.iter().filter(|token| is_name(token)).count();
    let has_owner = tokens.iter().any(|token| token.is(WordClass::Pronoun));
    subject.iter().any(is_name)
        && subject.iter().filter(|token| token.is_word()).all(is_name)
        && names(subject) == names(tokens)
        && !has_owner
}

/// Whether `tokens`, which have no verb, are two nouns without a preposition: "Ben a bike".
fn has_two_nouns(tokens: &[Token]) -> bool {
    tokens
        .windows(2)
        .any(|pair| matches!(pair, [noun, article] if noun.is_word() && article.is(WordClass::Function)))
}

/// The number of tokens of an introduction, such as "in 2020", before the subject in `tokens`: it ends where a noun begins.
fn introduction_length(tokens: &[Token], language: &LanguageTables) -> usize {
    let mut length = 0;
    loop {
        let rest = tokens.get(length..).unwrap_or_default();
        if let Some(calendar) = calendar_length(rest, 0, language) {
            length += calendar;
            continue;
        }
        let is_amount =
            |token: &Token| matches!(&token.kind, TokenKind::Quantity(quantity) if !quantity.is_count());
        match rest {
            [first, amount, ..] if is_like_preposition(first) && is_amount(amount) => length += 2,
            [first, ..] if is_like_preposition(first) => {
                let is_start = |(index, token): &(usize, &Token)| {
                    *index > 1
                        && (token.is(WordClass::Function)
                            || token.is(WordClass::Pronoun)
                            || is_like_preposition(token))
                };
                length += rest.iter().enumerate().find(is_start).map_or(rest.len(), |(index, _)| index);
            }
            _ => break,
        }
    }
    // a subject of the calendar: "Saturday stayed dry"
    if length == tokens.len() && !tokens.iter().any(is_like_preposition) { 0 } else { length }
}

/// The noun of a subject: its last word before a preposition.
fn head_of(subject: &[Token], language: &LanguageTables) -> Option<String> {
    before_preposition(subject).iter().rev().find_map(|token| token.stem(language).map(Cow::into_owned))
}

fn before_preposition(tokens: &[Token]) -> &[Token] {
    tokens.split(|token| token.is(WordClass::Preposition)).next().unwrap_or_default()
}
