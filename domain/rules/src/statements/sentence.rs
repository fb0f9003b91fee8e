//! Reads a sentence: its parts, each with its subject, words, quantities and polarity; and its conditions and attributions.

use super::language::{Language, WordClass};
use super::listed_words::replace_listed;
use super::phrases::{DEFINITE, Phrases};
use super::quantity::Quantity;
use super::tokens::{TOKENS_MAX, Token, TokenKind, Voice, Word, tokens};
use super::verb::{Tense, is_finite, noun_end, put_subject_first, tense, verb_at, verb_word_at, voice};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// A quantity with the words beside it.
#[derive(Debug, Clone)]
pub(crate) struct PlacedQuantity {
    pub(super) quantity: Quantity,
    pub(crate) is_about: bool,
    /// The bound before it: "at least".
    pub(crate) bound: Option<&'static str>,
    /// The stem of the word directly before it, function words left out.
    pub(crate) before: Option<String>,
    /// The stem of the content word directly after it.
    pub(crate) after: Option<String>,
}

/// A part of a sentence that can be true or false by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// The range in the text.
    pub(crate) range: Range<usize>,
    /// The stems of its subject; empty if it cannot be determined.
    pub(crate) subject: BTreeSet<String>,
    /// The stem of the noun of its subject.
    pub(crate) head: Option<String>,
    /// How subject and object are placed.
    pub(crate) voice: Voice,
    pub(crate) tense: Option<Tense>,
    /// Its words in their order.
    pub(crate) phrases: Phrases,
    pub(crate) has_verb: bool,
    subject_tokens: Vec<Token>,
    /// Its content words, those that it takes over from the part before among them.
    pub(crate) words: Vec<Word>,
    pub(crate) quantities: Vec<PlacedQuantity>,
    pub(crate) is_negated: bool,
    /// How far or how surely it holds: "only", "expected", "before".
    pub(crate) qualifiers: BTreeSet<&'static str>,
    /// The conditions and attributions of its sentence.
    pub(crate) frames: BTreeSet<Frame>,
    /// Whether the frames may belong to a later part of the sentence only.
    pub(crate) is_freely_framed: bool,
    /// Whether it is a clause with "which" or "who". Its subject is the noun before it, as far as can be told.
    pub(crate) is_relative: bool,
    /// Why it cannot be decided.
    pub(crate) undecidable: Option<&'static str>,
}

/// The subject of a sentence, for the pronouns of the next one.
#[derive(Debug, Clone, Default)]
struct Subject {
    stems: BTreeSet<String>,
    phrases: Phrases,
    /// Its words, which a pronoun stands for.
    tokens: Vec<Token>,
}

/// A condition or an attribution, which holds for the whole sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) kind: &'static str,
    pub(crate) words: Vec<String>,
}

/// A sentence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sentence {
    pub(crate) parts: Vec<Part>,
    /// The same parts with full names in place of their last words; empty if there are none.
    pub(crate) named: Vec<Part>,
    /// All of its words in lower case and its quantities, in their order.
    pub(crate) verbatim: String,
}

impl Sentence {
    /// Moves the ranges to the text without its first `bytes`.
    pub(crate) fn remove_lead(&mut self, bytes: usize) {
        for part in self.parts.iter_mut().chain(&mut self.named) {
            part.range = part.range.start.saturating_sub(bytes)..part.range.end.saturating_sub(bytes);
        }
    }
}

/// Reads the sentences of a text in their order.
pub(crate) struct TextReader<'l> {
    language: &'l Language,
    /// The subject of the sentence before.
    subject: Subject,
    /// The names of several words in the sentences before, by the stem of their last word; `None` if several have it.
    names: HashMap<String, Option<Vec<Token>>>,
}

impl<'l> TextReader<'l> {
    pub(crate) fn new(language: &'l Language) -> Self {
        Self { language, subject: Subject::default(), names: HashMap::new() }
    }

    /// Reads `text`, the next sentence.
    pub(crate) fn read(&mut self, text: &str) -> Sentence {
        let tokens = replace_listed(tokens(text, self.language), text, self.language);
        if tokens.len() > TOKENS_MAX {
            let undecidable = Some("the sentence is too long");
            let part = Part { range: 0..text.len(), undecidable, ..Part::default() };
            return Sentence { parts: vec![part], ..Sentence::default() };
        }
        let verbatim = verbatim(&tokens);
        let named = self.with_full_names(&tokens).map(|tokens| self.read_parts(tokens, text));
        let runs = tokens.split(|token| !token.is_word() || token.is(WordClass::Verb));
        let names: Vec<Vec<Token>> = runs.filter(|run| run.len() > 1).map(<[Token]>::to_vec).collect();
        let parts = self.read_parts(tokens, text);
        if let Some(subject) = first_subject(&parts) {
            self.subject = subject;
        }
        names.into_iter().for_each(|name| self.add_name(name));
        let named = named.filter(|named| named.len() == parts.len()).unwrap_or_default();
        Sentence { parts, named, verbatim }
    }

    fn add_name(&mut self, name: Vec<Token>) {
        let stems =
            |name: &[Token]| -> Vec<_> { name.iter().map(|token| token.stem(self.language)).collect() };
        let Some(last) = name.last().and_then(|last| last.stem(self.language)) else { return };
        let is_same = |known: &Vec<Token>| stems(known) == stems(&name);
        let is_only = self.names.get(&last).is_none_or(|known| known.as_ref().is_some_and(is_same));
        self.names.insert(last, is_only.then_some(name));
    }

    fn read_parts(&self, tokens: Vec<Token>, text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut previous = self.subject.clone();
        for clauses in split_at_sources(tokens) {
            parts.append(&mut read_clauses(clauses, text, self.language, &previous));
            previous = first_subject(&parts).unwrap_or(previous);
        }
        if text.trim_end().ends_with('?') {
            set_undecidable(&mut parts, UNSPLIT);
        }
        parts
    }

    /// `tokens` with the full name in place of its last word: "the tariff" after "the Night Saver tariff". `None` if there is
    /// no such place, or if two names fit.
    fn with_full_names(&self, tokens: &[Token]) -> Option<Vec<Token>> {
        let mut named: Vec<Token> = Vec::new();
        let mut has_names = false;
        for (index, token) in tokens.iter().enumerate() {
            let is_definite = named.last().is_some_and(|before| {
                matches!(before.kind, TokenKind::Class(WordClass::Function, name) if DEFINITE.contains(&name))
            });
            let is_alone = token.is_word()
                && tokens.get(index + 1).is_none_or(|next| !next.is_word() || next.is(WordClass::Verb));
            let stem = token.stem(self.language).filter(|_| is_definite && is_alone);
            let name = stem.and_then(|stem| self.names.get(&stem)).and_then(Option::as_ref);
            match name {
                Some(name) => {
                    has_names = true;
                    named
                        .extend(name.iter().map(|part| Token { range: token.range.clone(), ..part.clone() }));
                }
                None => named.push(token.clone()),
            }
        }
        has_names.then_some(named)
    }
}

/// The subject for the pronouns of the next sentence: that of the first part that has one.
fn first_subject(parts: &[Part]) -> Option<Subject> {
    parts.iter().map(Part::as_subject).find(|subject| !subject.stems.is_empty())
}

const UNSPLIT: &str = "the sentence cannot be split into claims";

fn set_undecidable(parts: &mut [Part], reason: &'static str) {
    for part in parts {
        part.undecidable = Some(reason);
    }
}

/// Splits the tokens of a sentence so that each piece has at most one source: "the maker says …, but the shop says …".
fn split_at_sources(tokens: Vec<Token>) -> Vec<Vec<Token>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Token> = Vec::new();
    for token in tokens {
        let has_source = |piece: &[Token]| piece.iter().any(|token| token.is(WordClass::Attribution));
        let last_joint = piece.iter().rposition(|token| token.is(WordClass::Joint));
        if token.is(WordClass::Attribution)
            && let Some(joint) = last_joint
            && has_source(piece.get(..joint).unwrap_or_default())
        {
            let rest = piece.split_off(joint + 1);
            pieces.push(std::mem::replace(&mut piece, rest));
        }
        piece.push(token);
    }
    pieces.push(piece);
    pieces
}

/// Reads clauses with common conditions and at most one source.
fn read_clauses(mut tokens: Vec<Token>, text: &str, language: &Language, previous: &Subject) -> Vec<Part> {
    let last_break = tokens.iter().rposition(Token::is_break_or_joint);
    let is_frame = |token: &Token| token.is(WordClass::Condition) || token.is(WordClass::Attribution);
    let first_frame = tokens.iter().position(is_frame);
    let is_framed_last = first_frame.zip(last_break).is_some_and(|(frame, last)| frame > last);
    let frames = take_frames(&mut tokens, text, language);
    let mut parts: Vec<Part> = Vec::new();
    let mut segments = segments(&tokens, language);
    join_subject(&mut segments, language);
    if language.is_verb_second {
        for (index, segment) in segments.iter_mut().enumerate() {
            put_subject_first(segment, language, index == 0 && first_frame == Some(0));
        }
    }
    let mut segments = segments.into_iter().peekable();
    let mut context = SentenceContext::default();
    // "In 2023, …", "On this tariff, …" hold for all parts
    if segments.peek().is_some_and(|first| {
        first.first().is_some_and(is_like_preposition) && verb_at(first, language).is_none()
    }) && let Some(introduction) = segments.next_if(|_| tokens.len() > 1)
    {
        if segments.peek().is_some() {
            context.introduction = read_words(&introduction, language);
            context.introduction.phrases =
                Phrases::read(&introduction, (None, None), Voice::Active, language);
        } else {
            parts.push(read_part(&introduction, language, previous, &mut context));
        }
    }
    for segment in segments {
        parts.push(read_part(&segment, language, previous, &mut context));
    }
    let is_doubtful =
        |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Qualifier, "respectively"));
    // "The lamp and the desk are red."
    let has_many_subjects = parts.len() > 1 && parts.first().is_some_and(|part| !part.has_verb);
    if tokens.iter().any(is_doubtful) || has_many_subjects || has_tail(&tokens) {
        set_undecidable(&mut parts, UNSPLIT);
    }
    // each part of "red or blue" is uncertain; each of "not red or blue" is certain
    if tokens.iter().any(|token| matches!(token.kind, TokenKind::Class(WordClass::Joint, "or"))) {
        for part in parts.iter_mut().filter(|part| !part.is_negated) {
            part.qualifiers.insert("or");
        }
    }
    let frames = with_nouns(frames, &parts);
    let last = parts.len().saturating_sub(1);
    for (index, part) in parts.iter_mut().enumerate() {
        part.frames.clone_from(&frames);
        part.is_freely_framed = is_framed_last && index < last;
    }
    parts
}

/// `frames` with the subject of the first of `parts` in place of "it": "only if it is locked".
fn with_nouns(frames: BTreeSet<Frame>, parts: &[Part]) -> BTreeSet<Frame> {
    let Some(head) = parts.first().and_then(|part| part.head.as_ref()) else { return frames };
    let named = |mut frame: Frame| {
        for word in frame.words.iter_mut().filter(|word| matches!(word.as_str(), "it" | "they" | "es")) {
            word.clone_from(head);
        }
        frame
    };
    frames.into_iter().map(named).collect()
}

/// Whether a piece between commas or joints only changes how far another one holds: "…, never".
fn has_tail(tokens: &[Token]) -> bool {
    let is_limit = |token: &Token| token.is(WordClass::Negation) || token.is(WordClass::Qualifier);
    tokens
        .split(Token::is_break_or_joint)
        .any(|piece| piece.iter().any(is_limit) && !piece.iter().any(Token::is_word_or_quantity))
}

/// The tokens of each part. A part after a comma that begins with a preposition and has no verb belongs to the one before.
fn segments(tokens: &[Token], language: &Language) -> Vec<Vec<Token>> {
    let mut segments: Vec<Vec<Token>> = Vec::new();
    let (mut open, mut follows_comma) = (Vec::new(), false);
    let close = |segments: &mut Vec<Vec<Token>>, open: &mut Vec<Token>, follows_comma: bool| {
        let segment = std::mem::take(open);
        if !segment.iter().any(Token::is_word_or_quantity) {
            return;
        }
        let is_rest = follows_comma
            && segment.first().is_some_and(|first| first.is(WordClass::Preposition))
            && verb_at(&segment, language).is_none();
        match segments.last_mut() {
            Some(last) if is_rest && verb_at(last, language).is_some() => last.extend(segment),
            _ => segments.push(segment),
        }
    };
    for (index, token) in tokens.iter().enumerate() {
        let is_comma = token.is_break();
        let rest = tokens.get(index + 1..).unwrap_or_default();
        let is_content = tokens.get(index + 1).is_some_and(|next| next.is(WordClass::Content));
        if is_comma && is_content {
            // "expects, that" is one statement
            continue;
        }
        // "the lamp that is red"
        let is_relative = token.is(WordClass::Relative)
            || token.is(WordClass::Content)
                && tokens
                    .get(index + 1)
                    .is_some_and(|next| next.is(WordClass::Auxiliary) || next.is(WordClass::Verb));
        let is_between =
            |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Preposition, "between"));
        if token.is(WordClass::Joint)
            && open.last().is_some_and(Token::is_word)
            && open.iter().rev().skip(1).take(3).any(is_between)
        {
            continue;
        }
        if is_comma || token.is(WordClass::Joint) || is_relative {
            if token.is(WordClass::Joint) && joins_nouns(&segments, &open, rest, language) {
                let word = Word { stem: "and".to_owned(), text: "and".to_owned(), ..Word::default() };
                open.push(Token { kind: TokenKind::Word(word), ..token.clone() });
                continue;
            }
            close(&mut segments, &mut open, follows_comma);
            let antecedent = antecedent(token, follows_comma, segments.last());
            follows_comma = is_comma;
            if token.names(WordClass::Joint, "nor") {
                open.push(Token { kind: TokenKind::Class(WordClass::Negation, "not"), ..token.clone() });
            }
            if is_relative || matches!(token.kind, TokenKind::Class(WordClass::Joint, "so")) {
                open.push(token.clone());
                open.extend(antecedent);
            }
        } else {
            open.push(token.clone());
        }
    }
    close(&mut segments, &mut open, follows_comma);
    segments
}

/// Joins a subject and its verb around a clause: "The lamp, which costs 49 €, is red".
fn join_subject(segments: &mut Vec<Vec<Token>>, language: &Language) {
    let [subject, clause, rest, ..] = segments.as_mut_slice() else { return };
    let is_clause = clause.first().is_some_and(|first| first.is(WordClass::Relative));
    if is_clause && verb_at(subject, language).is_none() && verb_at(rest, language) == Some(0) {
        subject.append(rest);
        segments.remove(2);
    }
}

/// Whether an "and" after `open` joins nouns that hold together: those of a subject, or those who act in a passive sentence.
fn joins_nouns(segments: &[Vec<Token>], open: &[Token], rest: &[Token], language: &Language) -> bool {
    let rest: Vec<Token> = rest.iter().take_while(|token| !token.is_break_or_joint()).cloned().collect();
    let has_verb = |tokens: &[Token]| verb_at(tokens, language).is_some();
    let is_subject =
        || segments.is_empty() && open.iter().any(Token::is_word) && !has_verb(open) && has_verb(&rest);
    let is_agent = || {
        let last = open.iter().rfind(|token| token.is(WordClass::Preposition));
        let is_by =
            matches!(last, Some(Token { kind: TokenKind::Class(_, name), .. }) if *name == language.by);
        is_by && has_verb(open) && rest.first().is_some_and(Token::is_content) && !has_verb(&rest)
    };
    is_subject() || is_agent()
}

/// The words of `before` at its end that "which" or "who" refers to, after a comma.
fn antecedent(token: &Token, follows_comma: bool, before: Option<&Vec<Token>>) -> Vec<Token> {
    let is_pronoun = matches!(token.kind, TokenKind::Class(WordClass::Relative, "which" | "who"));
    let Some(before) = before.filter(|_| is_pronoun && follows_comma) else { return Vec::new() };
    let count = before.iter().rev().take_while(|token| token.is_word() && !token.is(WordClass::Verb)).count();
    before.get(before.len() - count..).unwrap_or_default().to_vec()
}

fn verbatim(tokens: &[Token]) -> String {
    let word = |token: &Token| match &token.kind {
        TokenKind::Word(word) => Some(word.text.clone()),
        TokenKind::Quantity(quantity) => Some(quantity.to_string()),
        TokenKind::Class(WordClass::Function, _) | TokenKind::Break => None,
        TokenKind::Class(_, name) => Some((*name).to_owned()),
    };
    tokens.iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// Removes the conditions and attributions from `tokens`.
fn take_frames(tokens: &mut Vec<Token>, text: &str, language: &Language) -> BTreeSet<Frame> {
    let mut frames = BTreeSet::new();
    while let Some(at) = tokens.iter().position(|token| token.is(WordClass::Condition)) {
        let end = tokens.iter().skip(at).position(Token::is_break).map_or(tokens.len(), |length| at + length);
        frames.insert(frame(tokens.drain(at..end)));
    }
    while let Some(at) = tokens.iter().position(|token| token.is(WordClass::Attribution)) {
        let comma = tokens.iter().skip(at).position(Token::is_break).map(|length| at + length);
        let words =
            tokens.get(at).and_then(|token| text.get(token.range.clone())).unwrap_or_default().to_lowercase();
        let names_source_after = matches!(&*words, "according to" | "laut" | "nach angaben");
        let start_of_clause = tokens.iter().take(at).rposition(Token::is_break).map_or(0, |comma| comma + 1);
        let range = if names_source_after {
            // "nach Angaben des Maklers zu teuer", "according to the agent the roof was repaired"
            let is_verb = |token: &Token| token.is(WordClass::Auxiliary) || token.is(WordClass::Verb);
            let verb = tokens.iter().position(is_verb).filter(|_| at == 0);
            let source = noun_end(tokens, at + 1).filter(|_| language.is_verb_second);
            at..source.or(comma).or(verb).unwrap_or(tokens.len())
        } else if start_of_clause > 0
            && tokens
                .iter()
                .skip(at)
                .take_while(|token| !token.is_break())
                .filter(|token| token.is_content())
                .count()
                <= 3
            && comma.is_none()
        {
            // "…, the maker says"
            start_of_clause..tokens.len()
        } else {
            let is_that = tokens.get(at + 1).is_some_and(|next| next.is(WordClass::Content));
            start_of_clause..at + 1 + usize::from(is_that)
        };
        frames.insert(frame(tokens.drain(range)));
    }
    frames
}

fn frame(tokens: impl Iterator<Item = Token>) -> Frame {
    let (mut kind, mut words) = ("", Vec::new());
    for token in tokens {
        match token.kind {
            TokenKind::Class(WordClass::Condition | WordClass::Attribution, name) => kind = name,
            TokenKind::Class(WordClass::Function | WordClass::Auxiliary | WordClass::Content, _)
            | TokenKind::Break => {}
            TokenKind::Class(_, name) => words.push(name.to_owned()),
            TokenKind::Word(word) => words.push(word.stem),
            TokenKind::Quantity(quantity) => words.push(quantity.to_string()),
        }
    }
    Frame { kind, words }
}

/// What the parts of a sentence take over from those before.
#[derive(Debug, Clone, Default)]
struct SentenceContext {
    introduction: Part,
    /// The last part with a subject of its own.
    before: Option<Before>,
}

/// A part whose subject those after it take over.
#[derive(Debug, Clone)]
struct Before {
    part: Part,
    verb: Option<Word>,
    /// Whether "neither" negates all of them.
    is_neither: bool,
    /// Whether it, its subject, or what follows its verb is negated or limited.
    is_limited: bool,
    has_limited_subject: bool,
    has_limited_end: bool,
}

/// Whether the token limits what stands beside it: "not", "only", "may".
fn is_limit(token: &Token) -> bool {
    const DESCRIPTIVE: [&str; 15] = [
        "free", "increase", "decrease", "up", "down", "loss", "maximum", "minimum", "more", "less", "than",
        "before", "after", "during", "within",
    ];
    match token.kind {
        TokenKind::Class(WordClass::Negation, _) => true,
        TokenKind::Class(WordClass::Qualifier, name) => !DESCRIPTIVE.contains(&name),
        _ => false,
    }
}

/// The tokens of a subject without the negations and modal verbs before its verb.
fn without_limits(subject: &[Token]) -> &[Token] {
    let end = subject.iter().rposition(|token| !is_limit(token)).map_or(0, |last| last + 1);
    subject.get(..end).unwrap_or_default()
}

/// Whether a number comes after the bound at `index`.
fn bounds_number(tokens: &[Token], index: usize) -> bool {
    let mut rest = tokens.get(index + 1..).unwrap_or_default().iter();
    let next = rest.find(|next| !next.is(WordClass::Function) && !next.is(WordClass::About));
    next.is_some_and(Token::is_quantity)
}

/// The words, quantities, polarity and qualifiers of `tokens`.
fn read_words(tokens: &[Token], language: &Language) -> Part {
    let mut part = Part::default();
    let (mut about, mut bound, mut last): (bool, Option<&'static str>, Option<String>) = (false, None, None);
    let mut negations = 0;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        match &token.kind {
            TokenKind::Word(word) => {
                part.words.push(word.clone());
                last = Some(word.stem.clone());
            }
            TokenKind::Quantity(quantity) => {
                let after = next.and_then(Token::stem_of_word);
                let quantity =
                    quantity.as_year().filter(|_| after.is_none()).unwrap_or_else(|| quantity.clone());
                if matches!(quantity, Quantity::Ambiguous(_)) {
                    part.undecidable = Some("the date has two readings");
                }
                let shown = quantity.to_string();
                part.quantities.push(PlacedQuantity {
                    quantity,
                    is_about: about,
                    bound,
                    before: last.take(),
                    after,
                });
                (about, bound) = (false, None);
                last = Some(shown);
            }
            TokenKind::Class(class, name) => match class {
                WordClass::Negation => {
                    negations += 1;
                    if !matches!(*name, "not" | "neither") {
                        part.qualifiers.insert(name);
                    }
                }
                WordClass::Qualifier => {
                    part.qualifiers.insert(name);
                    last = Some((*name).to_owned());
                }
                WordClass::Bound if bounds_number(tokens, index) => bound = Some(*name),
                WordClass::Bound => {
                    part.qualifiers.insert(name);
                }
                WordClass::Joint => {
                    part.qualifiers.insert(name);
                }
                WordClass::About => {
                    about = next.is_some_and(Token::is_quantity);
                }
                WordClass::Verb | WordClass::Narrowing => {
                    let word = Word::known(name, language);
                    last = Some(word.stem.clone());
                    part.words.push(word);
                }
                WordClass::Preposition => last = Some((*name).to_owned()),
                _ => {}
            },
            TokenKind::Break => {}
        }
    }
    part.is_relative = tokens.first().is_some_and(|first| first.is(WordClass::Relative));
    let is_named = tokens.get(1).is_some_and(Token::is_word);
    if part.is_relative && !is_named || tokens.first().is_some_and(|first| first.is(WordClass::Content)) {
        part.undecidable = Some("it cannot be told what the clause is about");
    }
    part.is_negated = negations % 2 == 1;
    let (starts, ends) =
        (tokens.iter().map(|token| token.range.start), tokens.iter().map(|token| token.range.end));
    part.range = starts.min().unwrap_or(0)..ends.max().unwrap_or(0);
    part
}

/// `tokens` with the subject of the sentence before in place of pronouns.
fn with_names(tokens: &[Token], previous: &Subject) -> Vec<Token> {
    const PRONOUNS: [&str; 13] =
        ["it", "they", "he", "she", "them", "him", "this", "these", "er", "sie", "es", "ihn", "ihm"];
    let mut named = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let stands_alone = tokens.get(index + 1).is_none_or(|next| !next.is_content());
        match &token.kind {
            TokenKind::Class(WordClass::Pronoun, name)
                if PRONOUNS.contains(name) && stands_alone && !previous.tokens.is_empty() =>
            {
                named.extend(
                    previous.tokens.iter().map(|name| Token { range: token.range.clone(), ..name.clone() }),
                );
            }
            _ => named.push(token.clone()),
        }
    }
    named
}

/// Reads the part of `tokens`. `previous` is the subject of the sentence before.
fn read_part(
    tokens: &[Token],
    language: &Language,
    previous: &Subject,
    context: &mut SentenceContext,
) -> Part {
    let own_subject = context.before.as_ref().map(|before| before.part.as_subject());
    let previous = own_subject.filter(|own| !own.stems.is_empty()).unwrap_or_else(|| previous.clone());
    let tokens = &with_names(tokens, &previous);
    let mut part = read_words(tokens, language);
    let verb = verb_at(tokens, language);
    let subject: &[Token] = verb.and_then(|verb| tokens.get(..verb)).unwrap_or_default();
    let subject = without_limits(without_introduction(subject));
    let stems: BTreeSet<String> = subject.iter().filter_map(|token| token.stem(language)).collect();
    let pronoun = tokens.iter().find(|token| token.is(WordClass::Pronoun));
    let is_pronoun_subject = tokens.iter().take(verb.unwrap_or(1)).any(|token| token.is(WordClass::Pronoun));
    let is_existential = tokens.iter().any(|token| {
        token.names(WordClass::Auxiliary, "there") || token.names(WordClass::Auxiliary, "there was")
    });
    let is_continued = (verb.is_none() || stems.is_empty()) && !is_pronoun_subject && !is_existential;
    part.voice = voice(tokens, verb, language);
    let word = verb.and_then(|verb| verb_word_at(tokens, verb, language));
    part.has_verb = verb.is_some();
    part.tense = tense(tokens, (verb, word), language);
    part.phrases = Phrases::read(tokens, (verb, word), part.voice, language);
    match context.before.as_ref().filter(|_| is_continued) {
        Some(before) => {
            let is_finite = verb.is_some_and(|verb| is_finite(tokens, verb, language));
            part.continue_from(before, is_finite);
        }
        None => {
            part.head = head_of(subject, language);
            part.subject_tokens = subject.to_vec();
            part.subject = stems;
            if let Some(pronoun) = pronoun.filter(|_| is_pronoun_subject) {
                part.replace_pronoun(pronoun, &previous);
            }
            if !part.is_relative {
                let end = word.and_then(|word| tokens.get(word + 1..)).unwrap_or(tokens);
                context.before = Some(Before {
                    verb: word.and_then(|word| tokens.get(word)).and_then(|token| token.as_word(language)),
                    is_neither: tokens.iter().any(|token| token.names(WordClass::Negation, "neither")),
                    is_limited: tokens.iter().any(is_limit),
                    has_limited_subject: subject.iter().any(is_limit),
                    has_limited_end: end.iter().any(is_limit),
                    part: part.clone(),
                });
            }
        }
    }
    part.add_introduction(&context.introduction);
    if part.words.is_empty() {
        part.undecidable = Some("it has no word of a claim");
    }
    part
}

impl Part {
    fn as_subject(&self) -> Subject {
        let (stems, phrases) = (self.subject.clone(), self.phrases.clone());
        let is_positive = |token: &&Token| !token.is(WordClass::Negation);
        let tokens = self.subject_tokens.iter().filter(is_positive).cloned().collect();
        Subject { stems, phrases, tokens }
    }

    /// Takes over the subject of `known`, and its verb if this part has none: "… and weighs 2 kg", "… and a cable".
    fn continue_from(&mut self, known: &Before, is_finite: bool) {
        let before = &known.part;
        self.subject = before.subject.clone();
        self.head = before.head.clone();
        // "Anna Smith, CEO"
        let is_taken = |word: &&Word| before.subject.contains(&word.stem) || !before.has_verb;
        self.add_words(before.words.iter().filter(is_taken).cloned());
        if !self.has_verb {
            self.add_words(known.verb.iter().cloned());
            self.is_negated |= before.is_negated;
            self.tense = before.tense;
            self.qualifiers.extend(before.qualifiers.iter().copied());
        }
        let is_uncertain = if self.has_verb {
            known.has_limited_subject || known.is_limited && !is_finite
        } else {
            !known.is_neither && (known.has_limited_end || before.is_negated)
        };
        if is_uncertain || !before.has_verb {
            self.undecidable = Some("it is uncertain how far the beginning of the sentence holds for it");
        }
        self.phrases.continue_from(&before.phrases, !self.has_verb);
    }

    /// Puts the subject of the sentence before in place of `pronoun`.
    fn replace_pronoun(&mut self, pronoun: &Token, previous: &Subject) {
        if previous.stems.is_empty() && self.subject.is_empty() {
            // both texts must leave it open
            self.qualifiers.insert("it");
        }
        self.subject.extend(previous.stems.iter().cloned());
        self.add_words(previous.stems.iter().map(|stem| Word {
            stem: stem.clone(),
            text: stem.clone(),
            ..Word::default()
        }));
        if let TokenKind::Class(_, name) = pronoun.kind {
            self.phrases.replace_pronoun(name, &previous.phrases);
        }
    }

    /// Adds the introduction of the sentence, which holds for all of its parts.
    fn add_introduction(&mut self, introduction: &Self) {
        self.add_words(introduction.words.iter().cloned());
        self.quantities.extend(introduction.quantities.iter().cloned());
        self.qualifiers.extend(introduction.qualifiers.iter().copied());
        self.is_negated ^= introduction.is_negated;
        self.phrases.add_introduction(&introduction.phrases);
    }

    fn add_words(&mut self, words: impl IntoIterator<Item = Word>) {
        for word in words {
            if !self.words.iter().any(|own| own.stem == word.stem) {
                self.words.push(word);
            }
        }
    }
}

/// The qualifiers that are prepositions of time.
pub(super) const OF_TIME: [&str; 6] = ["before", "after", "during", "within", "until", "since"];

/// Whether the token begins a prepositional phrase.
pub(super) fn is_like_preposition(token: &Token) -> bool {
    let TokenKind::Class(class, name) = &token.kind else { return false };
    *class == WordClass::Preposition
        || *class == WordClass::Qualifier && OF_TIME.contains(name)
        || *class == WordClass::Bound
}

/// `tokens` of a subject without an introduction, such as "in 2020": it ends where a noun begins.
fn without_introduction(tokens: &[Token]) -> &[Token] {
    let is_opened = |token: &Token| {
        is_like_preposition(token) || matches!(token.kind, TokenKind::Class(WordClass::Qualifier, "all"))
    };
    if !tokens.first().is_some_and(is_opened) {
        return tokens;
    }
    let is_start = |(index, token): &(usize, &Token)| *index > 1 && token.is(WordClass::Function);
    let start = tokens.iter().enumerate().find(is_start).map(|(index, _)| index);
    match start {
        Some(start) => tokens.get(start..).unwrap_or_default(),
        None if tokens.first().is_some_and(is_like_preposition) => &[],
        None => tokens,
    }
}

/// The noun of a subject: its last word before a preposition.
fn head_of(subject: &[Token], language: &Language) -> Option<String> {
    let end = subject.iter().position(|token| token.is(WordClass::Preposition)).unwrap_or(subject.len());
    subject.get(..end)?.iter().rev().find_map(|token| token.stem(language))
}
