//! Reads a sentence: its parts, each with its subject, words, quantities and polarity; and its conditions and attributions.

use super::language::{Language, TextLanguage, WordClass};
use super::quantity::{Quantity, leading_quantity};
use crate::words::words;
use std::collections::BTreeSet;
use std::ops::Range;

/// The most words, numbers and marks of a sentence that is read. The costs of a sentence grow with their square.
const TOKENS_MAX: usize = 400;

/// A content word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The common form of its inflections.
    pub(crate) stem: String,
    /// The word in lower case.
    pub(crate) text: String,
}

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
    /// The stem of its verb, if it is passive.
    pub(crate) participle: Option<String>,
    /// The stems that narrow what they stand beside.
    pub(crate) narrowing: BTreeSet<String>,
    /// Its content words, those that it takes over from the part before among them.
    pub(crate) words: Vec<Word>,
    pub(crate) quantities: Vec<PlacedQuantity>,
    pub(crate) is_negated: bool,
    /// How far or how surely it holds: "only", "expected", "before".
    pub(crate) qualifiers: BTreeSet<&'static str>,
    /// Why it cannot be decided.
    pub(crate) undecidable: Option<&'static str>,
}

/// How a part places its subject and its object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    #[default]
    Active,
    /// "is replaced by the owner".
    Passive,
    /// "is replaced".
    Agentless,
    /// "is the owner": both can be exchanged.
    Identity,
}

/// A condition or an attribution, which holds for the whole sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) kind: &'static str,
    pub(crate) words: BTreeSet<String>,
}

/// A sentence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sentence {
    pub(crate) parts: Vec<Part>,
    pub(crate) frames: BTreeSet<Frame>,
    /// Whether the frames can belong to the last part only.
    pub(crate) is_framed_last: bool,
    /// All of its words in lower case and its quantities, in their order.
    pub(crate) verbatim: String,
}

#[derive(Debug, Clone)]
enum TokenKind {
    Word(Word),
    Quantity(Quantity),
    Class(WordClass, &'static str),
    /// A comma, a bracket or another mark between parts.
    Break,
}

#[derive(Debug, Clone)]
struct Token {
    kind: TokenKind,
    range: Range<usize>,
}

impl Token {
    fn is(&self, class: WordClass) -> bool {
        matches!(self.kind, TokenKind::Class(own, _) if own == class)
    }

    const fn is_content(&self) -> bool {
        matches!(self.kind, TokenKind::Word(_))
    }
}

/// The tokens of a text.
fn tokens(text: &str, language: &Language) -> Vec<Token> {
    let all: Vec<(Range<usize>, &str)> = words(text).collect();
    let mut tokens = Vec::new();
    let mut index = 0;
    while let Some((range, word)) = all.get(index) {
        let rest = text.get(range.start..).unwrap_or_default();
        let is_inside =
            text[..range.start].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        if !is_inside && let Some((quantity, length)) = leading_quantity(rest, language) {
            let end = range.start + length;
            tokens.push(Token { kind: TokenKind::Quantity(quantity), range: range.start..end });
            if rest.starts_with("twice") || rest.starts_with("zweimal") {
                let times = language.times;
                let word = Word { stem: language.stem(times), text: times.to_owned() };
                tokens.push(Token { kind: TokenKind::Word(word), range: range.start..end });
            }
            while all.get(index).is_some_and(|(range, _)| range.start < end) {
                index += 1;
            }
            continue;
        }
        let phrase = (1..=language.phrase_max_words).rev().find_map(|count| {
            let phrase = all.get(index..index + count)?;
            let phrase = phrase
                .iter()
                .map(|(_, word)| word.to_lowercase().replace('’', "'"))
                .collect::<Vec<_>>()
                .join(" ");
            language.class(&phrase).map(|class| (count, class))
        });
        let (count, kind) = match phrase {
            Some((count, (class, name))) => (count, Some(TokenKind::Class(class, name))),
            None => (1, kind_of(word, language)),
        };
        let end = all.get(index + count - 1).map_or(range.end, |(range, _)| range.end);
        if let Some(kind) = kind {
            tokens.push(Token { kind, range: range.start..end });
        }
        index += count;
    }
    if tokens.len() > TOKENS_MAX {
        return tokens;
    }
    join_ranges(tokens, text)
}

fn kind_of(word: &str, language: &Language) -> Option<TokenKind> {
    if word.contains(char::is_alphanumeric) {
        let lower = word.to_lowercase().replace('’', "'");
        let lower = lower.strip_suffix("'s").unwrap_or(&lower);
        return Some(TokenKind::Word(Word { stem: language.stem(lower), text: lower.to_owned() }));
    }
    match word {
        "," | ";" | "(" | ")" | "–" | "—" | "[" | "]" | "|" => Some(TokenKind::Break),
        "%" | "&" | "+" | "=" | "<" | ">" | "≥" | "≤" | "~" | "≈" | "±" => {
            Some(TokenKind::Word(Word { stem: word.to_owned(), text: word.to_owned() }))
        }
        _ => None,
    }
}

/// Joins "between 3 and 5", "from 3 to 5" and "3–5" to one quantity.
fn join_ranges(tokens: Vec<Token>, text: &str) -> Vec<Token> {
    let mut joined: Vec<Token> = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        if !matches!(token.kind, TokenKind::Quantity(_)) {
            joined.push(token);
            continue;
        }
        let before =
            joined.last().map(|last| text.get(last.range.clone()).unwrap_or_default().to_lowercase());
        let opens =
            before.as_deref().is_some_and(|word| matches!(word, "between" | "from" | "zwischen" | "von"));
        let mut ahead = rest.clone();
        let link = ahead.next_if(|next| {
            let word = text.get(next.range.clone()).unwrap_or_default().to_lowercase();
            matches!(&*word, "to" | "–" | "—" | "bis") || opens && matches!(&*word, "and" | "und")
        });
        let gap = ahead.peek().map(|next| text.get(token.range.end..next.range.start).unwrap_or_default());
        let is_hyphen = gap.is_some_and(|gap| matches!(gap.trim(), "-" | "–" | "—" | "‑"));
        let second = (link.is_some() || is_hyphen).then(|| ahead.next()).flatten();
        match second.as_ref().and_then(|second| Some((span(&token, second, text)?, second.range.end))) {
            Some((quantity, end)) => {
                joined.push(Token { kind: TokenKind::Quantity(quantity), range: token.range.start..end });
                rest = ahead;
            }
            None => joined.push(token),
        }
    }
    joined
}

/// The quantity from one to another.
fn span(from: &Token, to: &Token, text: &str) -> Option<Quantity> {
    match (&from.kind, &to.kind) {
        (
            TokenKind::Quantity(one @ (Quantity::Time(_) | Quantity::Date { .. })),
            TokenKind::Quantity(other @ (Quantity::Time(_) | Quantity::Date { .. })),
        ) => Some(Quantity::Span(Box::new(one.clone()), Box::new(other.clone()))),
        _ => {
            let (low, low_unit) = single(from)?;
            let (high, unit) = single(to)?;
            if !low_unit.is_empty() && low_unit != unit {
                return None;
            }
            let low = if low_unit.is_empty() && !unit.is_empty() { in_unit_of(low, text, to) } else { low };
            Some(Quantity::Number { low, high, unit })
        }
    }
}

/// The value and the unit of a number that is no range.
fn single(token: &Token) -> Option<(domain_base::decimal::Decimal, String)> {
    match &token.kind {
        TokenKind::Quantity(Quantity::Number { low, high, unit }) if low == high => {
            Some((low.clone(), unit.clone()))
        }
        _ => None,
    }
}

/// `low` in the base of the unit of `second`, whose text has the number and the unit.
fn in_unit_of(
    low: domain_base::decimal::Decimal,
    text: &str,
    second: &Token,
) -> domain_base::decimal::Decimal {
    let spelled = text.get(second.range.clone()).unwrap_or_default();
    let digits = spelled.trim_start_matches(|c: char| c.is_ascii_digit() || ".,'".contains(c));
    let same = format!("1{digits}");
    let factor = match leading_quantity(&same, &super::language::ENGLISH) {
        Some((Quantity::Number { low, .. }, _)) => low,
        _ => return low,
    };
    low.checked_mul(&factor).unwrap_or(low)
}

/// Reads `text`, a sentence. `previous` is the subject of the sentence before.
pub(crate) fn read_sentence(text: &str, language: TextLanguage, previous: &BTreeSet<String>) -> Sentence {
    let language = language.tables();
    let mut tokens = tokens(text, language);
    if tokens.len() > TOKENS_MAX {
        let undecidable = Some("the sentence is too long");
        let part = Part { range: 0..text.len(), undecidable, ..Part::default() };
        return Sentence { parts: vec![part], ..Sentence::default() };
    }
    let verbatim = verbatim(&tokens);
    let last_break =
        tokens.iter().rposition(|token| matches!(token.kind, TokenKind::Break) || token.is(WordClass::Joint));
    let is_frame = |token: &Token| token.is(WordClass::Condition) || token.is(WordClass::Attribution);
    let first_frame = tokens.iter().position(is_frame);
    let is_framed_last = first_frame.zip(last_break).is_some_and(|(frame, last)| frame > last);
    let frames = take_frames(&mut tokens, text);
    let mut sentence = Sentence { parts: Vec::new(), frames, is_framed_last, verbatim };
    let mut segments = segments(&tokens, language).into_iter().peekable();
    let mut context = SentenceContext::default();
    // "In 2023, …", "On this tariff, …" hold for all parts
    if segments.peek().is_some_and(|first| {
        first.first().is_some_and(is_like_preposition) && verb_at(first, language).is_none()
    }) && let Some(introduction) = segments.next_if(|_| tokens.len() > 1)
    {
        if segments.peek().is_some() {
            context.introduction = read_words(&introduction, language);
        } else {
            sentence.parts.push(read_part(&introduction, language, previous, &mut context));
        }
    }
    for segment in segments {
        let part = read_part(&segment, language, previous, &mut context);
        sentence.parts.push(part);
    }
    sentence
}

/// The tokens of each part. A part after a comma that begins with a preposition and has no verb belongs to the one before.
fn segments(tokens: &[Token], language: &Language) -> Vec<Vec<Token>> {
    let mut segments: Vec<Vec<Token>> = Vec::new();
    let (mut open, mut follows_comma) = (Vec::new(), false);
    let mut close = |open: &mut Vec<Token>, follows_comma: bool| {
        let segment = std::mem::take(open);
        if !segment
            .iter()
            .any(|token: &Token| token.is_word() || matches!(token.kind, TokenKind::Quantity(_)))
        {
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
        let is_comma = matches!(token.kind, TokenKind::Break);
        let is_content = tokens.get(index + 1).is_some_and(|next| next.is(WordClass::Content));
        if is_comma && is_content {
            // "expects, that" is one statement
            continue;
        }
        if is_comma || token.is(WordClass::Joint) || token.is(WordClass::Relative) {
            close(&mut open, follows_comma);
            follows_comma = is_comma;
            if token.is(WordClass::Relative) {
                open.push(token.clone());
            }
        } else {
            open.push(token.clone());
        }
    }
    close(&mut open, follows_comma);
    segments
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
fn take_frames(tokens: &mut Vec<Token>, text: &str) -> BTreeSet<Frame> {
    let mut frames = BTreeSet::new();
    while let Some(at) = tokens.iter().position(|token| token.is(WordClass::Condition)) {
        let is_comma = |token: &Token| matches!(token.kind, TokenKind::Break);
        let end = tokens.iter().skip(at).position(is_comma).map_or(tokens.len(), |length| at + length);
        frames.insert(frame(tokens.drain(at..end)));
    }
    while let Some(at) = tokens.iter().position(|token| token.is(WordClass::Attribution)) {
        let is_comma = |token: &Token| matches!(token.kind, TokenKind::Break);
        let comma = tokens.iter().skip(at).position(is_comma).map(|length| at + length);
        let words =
            tokens.get(at).and_then(|token| text.get(token.range.clone())).unwrap_or_default().to_lowercase();
        let names_source_after = matches!(&*words, "according to" | "laut" | "nach angaben");
        let start_of_clause = tokens.iter().take(at).rposition(is_comma).map_or(0, |comma| comma + 1);
        let range = if names_source_after {
            at..comma.unwrap_or(tokens.len())
        } else if start_of_clause > 0
            && tokens
                .iter()
                .skip(at)
                .take_while(|token| !is_comma(token))
                .filter(|token| token.is_content())
                .count()
                <= 3
            && comma.is_none()
        {
            // "…, the maker says"
            start_of_clause..tokens.len()
        } else {
            start_of_clause..at + 1
        };
        frames.insert(frame(tokens.drain(range)));
    }
    frames
}

fn frame(tokens: impl Iterator<Item = Token>) -> Frame {
    let (mut kind, mut words) = ("", BTreeSet::new());
    for token in tokens {
        match token.kind {
            TokenKind::Class(WordClass::Condition | WordClass::Attribution, name) => kind = name,
            TokenKind::Class(WordClass::Negation | WordClass::Qualifier | WordClass::Bound, name) => {
                words.insert(name.to_owned());
            }
            TokenKind::Class(..) | TokenKind::Break => {}
            TokenKind::Word(word) => {
                words.insert(word.stem);
            }
            TokenKind::Quantity(quantity) => {
                words.insert(quantity.to_string());
            }
        }
    }
    Frame { kind, words }
}

/// What the parts of a sentence take over from those before.
#[derive(Debug, Clone, Default)]
struct SentenceContext {
    introduction: Part,
    /// The first part, if it has a subject, and its verb.
    before: Option<(Part, Vec<Word>)>,
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
                WordClass::Negation => negations += 1,
                WordClass::Qualifier => {
                    part.qualifiers.insert(name);
                    last = Some((*name).to_owned());
                }
                WordClass::Bound => {
                    let counts = next.is_some_and(|next| {
                        matches!(next.kind, TokenKind::Quantity(_)) || next.is(WordClass::About)
                    });
                    bound = counts.then_some(*name);
                }
                WordClass::About => about = true,
                WordClass::Verb | WordClass::Narrowing => {
                    let stem = language.stem(name);
                    last = Some(stem.clone());
                    if *class == WordClass::Narrowing {
                        part.narrowing.insert(stem.clone());
                    }
                    part.words.push(Word { stem, text: (*name).to_owned() });
                }
                WordClass::Preposition => last = Some((*name).to_owned()),
                _ => {}
            },
            TokenKind::Break => {}
        }
    }
    if tokens.first().is_some_and(|first| first.is(WordClass::Relative)) {
        part.undecidable = Some("it cannot be told what the clause is about");
    }
    part.is_negated = negations % 2 == 1;
    part.range =
        tokens.first().map_or(0, |first| first.range.start)..tokens.last().map_or(0, |last| last.range.end);
    part
}

fn read_part(
    tokens: &[Token],
    language: &Language,
    previous: &BTreeSet<String>,
    context: &mut SentenceContext,
) -> Part {
    let mut part = read_words(tokens, language);
    let verb = verb_at(tokens, language);
    let subject: &[Token] = verb.and_then(|verb| tokens.get(..verb)).unwrap_or_default();
    let subject = without_introduction(subject);
    let stems: BTreeSet<String> = subject.iter().filter_map(|token| token.stem(language)).collect();
    let has_pronoun =
        verb.is_some_and(|verb| tokens.iter().take(verb).any(|token| token.is(WordClass::Pronoun)));
    let is_continued = verb.is_none() || stems.is_empty() && !has_pronoun;
    let previous = context
        .before
        .as_ref()
        .map(|(before, _)| &before.subject)
        .filter(|own| !own.is_empty())
        .unwrap_or(previous)
        .clone();
    if let Some((before, before_verb)) = context.before.as_ref().filter(|_| is_continued) {
        // "… and weighs 2 kg", "… and a cable"
        part.subject = before.subject.clone();
        part.head = before.head.clone();
        part.narrowing.extend(before.narrowing.intersection(&before.subject).cloned());
        let mut taken: Vec<Word> =
            before.words.iter().filter(|word| before.subject.contains(&word.stem)).cloned().collect();
        if verb.is_none() {
            taken.extend(before_verb.iter().cloned());
            part.is_negated |= before.is_negated;
            part.qualifiers.extend(before.qualifiers.iter().copied());
            part.voice = before.voice;
        }
        part.add_words(taken);
    } else {
        part.head = head_of(subject, language);
        part.subject = stems.clone();
        if has_pronoun {
            if previous.is_empty() && stems.is_empty() {
                // both texts must leave it open
                part.qualifiers.insert("it");
            }
            part.subject.extend(previous.iter().cloned());
            part.add_words(previous.iter().map(|stem| Word { stem: stem.clone(), text: stem.clone() }));
        }
        part.voice = voice(tokens, verb, language);
        let verbs = verb.map(|verb| verb_words(tokens, verb, language)).unwrap_or_default();
        part.participle = verbs.first().map(|verb| verb.stem.clone());
        context.before = Some((part.clone(), verbs));
    }
    let introduction = &context.introduction;
    part.add_words(introduction.words.iter().cloned());
    part.quantities.extend(introduction.quantities.iter().cloned());
    part.qualifiers.extend(introduction.qualifiers.iter().copied());
    part.is_negated ^= introduction.is_negated;
    part
}

impl Part {
    fn add_words(&mut self, words: impl IntoIterator<Item = Word>) {
        for word in words {
            if !self.words.iter().any(|own| own.stem == word.stem) {
                self.words.push(word);
            }
        }
    }
}

impl Token {
    const fn is_word(&self) -> bool {
        matches!(self.kind, TokenKind::Word(_) | TokenKind::Class(WordClass::Verb | WordClass::Narrowing, _))
    }

    fn stem(&self, language: &Language) -> Option<String> {
        match &self.kind {
            TokenKind::Word(word) => Some(word.stem.clone()),
            TokenKind::Class(WordClass::Verb | WordClass::Narrowing, name) => Some(language.stem(name)),
            _ => None,
        }
    }

    fn stem_of_word(&self) -> Option<String> {
        match &self.kind {
            TokenKind::Word(word) => Some(word.stem.clone()),
            _ => None,
        }
    }
}

/// Whether the token begins a prepositional phrase.
fn is_like_preposition(token: &Token) -> bool {
    let TokenKind::Class(class, name) = &token.kind else { return false };
    *class == WordClass::Preposition
        || *class == WordClass::Qualifier && matches!(*name, "before" | "after" | "during" | "within")
        || *class == WordClass::Bound
}

/// The index of the verb: an auxiliary or a known verb, or a word with the ending of a past form after another word; without
/// these, the first word with the ending of a verb after another word.
fn verb_at(tokens: &[Token], language: &Language) -> Option<usize> {
    known_verb_at(tokens, language).or_else(|| {
        let is_word = |token: &Token| token.is_word() || token.is(WordClass::Pronoun);
        let is_verb = |index: &usize| {
            let Some(TokenKind::Word(word)) = tokens.get(*index).map(|token| &token.kind) else {
                return false;
            };
            let is_followed = tokens.get(index + 1).is_some();
            let has_ending = language.verb_endings.iter().any(|end| word.text.ends_with(end));
            word.text.len() > 3 && has_ending && is_followed && tokens.get(index - 1).is_some_and(is_word)
        };
        (1..tokens.len()).find(is_verb)
    })
}

fn known_verb_at(tokens: &[Token], language: &Language) -> Option<usize> {
    let mut has_content = false;
    for (index, token) in tokens.iter().enumerate() {
        let is_verb = match &token.kind {
            TokenKind::Class(WordClass::Auxiliary, _) => true,
            TokenKind::Class(WordClass::Qualifier, "increase" | "decrease") => has_content,
            TokenKind::Class(WordClass::Verb, _) => {
                let is_article = |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Function, name) if language.articles.contains(&name));
                let is_noun = tokens.get(index + 1).is_some_and(|next| next.is(WordClass::Auxiliary))
                    || index > 0 && tokens.get(index - 1).is_some_and(is_article);
                !is_noun && (has_content || !is_noun_before_verb(tokens, index))
            }
            TokenKind::Word(word) => {
                has_content
                    && word.text.len() > 4
                    && language.past.iter().any(|end| word.text.ends_with(end))
                    && tokens.get(index + 1).is_none_or(|next| !next.is_content())
            }
            _ => false,
        };
        if is_verb {
            return Some(index);
        }
        has_content |=
            token.is_word() || token.is(WordClass::Pronoun) || matches!(token.kind, TokenKind::Quantity(_));
    }
    None
}

/// Whether the word at `index`, which begins the part, is followed by another verb: "cover costs 49 €".
fn is_noun_before_verb(tokens: &[Token], index: usize) -> bool {
    let next = tokens.get(index + 1..).unwrap_or_default();
    next.iter().any(|token| token.is(WordClass::Verb) || token.is(WordClass::Auxiliary))
}

/// The words of the verb at `verb`: with an auxiliary, the participle after it.
fn verb_words(tokens: &[Token], verb: usize, language: &Language) -> Vec<Word> {
    let is_passed = |token: &&Token| {
        token.is(WordClass::Auxiliary) || token.is(WordClass::Negation) || token.is(WordClass::Qualifier)
    };
    let rest = tokens.get(verb..).unwrap_or_default();
    let Some(token) = rest.get(rest.iter().take_while(is_passed).count()) else { return Vec::new() };
    let is_auxiliary = rest.first().is_some_and(|first| first.is(WordClass::Auxiliary));
    match &token.kind {
        TokenKind::Class(WordClass::Verb, name) => {
            vec![Word { stem: language.stem(name), text: (*name).to_owned() }]
        }
        TokenKind::Word(word) if !is_auxiliary || is_participle(token, language) => vec![word.clone()],
        _ => Vec::new(),
    }
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

/// Whether the token is a verb that can follow "is" in a passive sentence.
fn is_participle(token: &Token, language: &Language) -> bool {
    match &token.kind {
        TokenKind::Class(WordClass::Verb, _) => true,
        TokenKind::Word(word) => {
            language.past.iter().any(|end| word.text.ends_with(end)) || language.is_irregular(&word.text)
        }
        _ => false,
    }
}

fn voice(tokens: &[Token], verb: Option<usize>, language: &Language) -> Voice {
    let Some(verb) =
        verb.filter(|verb| tokens.get(*verb).is_some_and(|token| token.is(WordClass::Auxiliary)))
    else {
        return Voice::Active;
    };
    let after = tokens.get(verb + 1..).unwrap_or_default();
    let is_by = |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Preposition, name) if name == language.by);
    let is_be = matches!(tokens.get(verb).map(|token| &token.kind), Some(TokenKind::Class(_, name)) if language.be.contains(name));
    let is_passed = |token: &&Token| {
        token.is(WordClass::Auxiliary) || token.is(WordClass::Negation) || token.is(WordClass::Qualifier)
    };
    let participle = after.iter().take_while(is_passed).count();
    let is_participle = after.get(participle).is_some_and(|token| is_participle(token, language));
    let is_last_participle = language.has_decimal_comma && after.last().is_some_and(|last| matches!(&last.kind, TokenKind::Word(word) if word.text.ends_with('t') || word.text.ends_with("en")));
    if is_be && (is_participle || is_last_participle) {
        return if after.iter().skip(1).any(is_by) { Voice::Passive } else { Voice::Agentless };
    }
    let than = after
        .iter()
        .any(|token| matches!(token.kind, TokenKind::Class(WordClass::Qualifier, "than" | "more" | "less")));
    let names = after.iter().find(|token| !token.is(WordClass::Auxiliary));
    let is_identity = names.is_some_and(|token| token.is(WordClass::Function) || token.is_content()) && !than;
    if is_identity { Voice::Identity } else { Voice::Active }
}
