//! The tokens of a sentence: words, quantities, marks, and the words that a language knows.

use super::language::{Language, WordClass};
use super::quantity::{Quantity, leading_quantity};
use crate::words::words;
use std::ops::Range;

/// The most words, numbers and marks of a sentence that is read. The costs of a sentence grow with their square.
pub(super) const TOKENS_MAX: usize = 400;

/// A content word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// The common form of its inflections.
    pub(crate) stem: String,
    /// The word in lower case; an abbreviation of a word list as it is written.
    pub(crate) text: String,
    /// The common form of its inflections without the word list, if `stem` is that of a group.
    pub(crate) own_stem: Option<String>,
}

impl Word {
    /// A word that the tables of the language have.
    pub(super) fn known(name: &str, language: &Language) -> Self {
        Self { stem: language.stem(name), text: name.to_owned(), own_stem: language.listed_stem(name) }
    }
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

#[derive(Debug, Clone)]
pub(super) enum TokenKind {
    Word(Word),
    Quantity(Quantity),
    Class(WordClass, &'static str),
    /// A comma, a bracket or another mark between parts.
    Break,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) range: Range<usize>,
    /// Whether it begins with a capital letter, as German nouns do.
    pub(super) is_capital: bool,
}

impl Token {
    pub(super) fn is(&self, class: WordClass) -> bool {
        matches!(self.kind, TokenKind::Class(own, _) if own == class)
    }

    /// Whether it is the entry `name` of a class.
    pub(super) fn names(&self, class: WordClass, name: &str) -> bool {
        matches!(self.kind, TokenKind::Class(own, known) if own == class && known == name)
    }

    pub(super) const fn is_content(&self) -> bool {
        matches!(self.kind, TokenKind::Word(_))
    }

    pub(super) const fn is_quantity(&self) -> bool {
        matches!(self.kind, TokenKind::Quantity(_))
    }

    pub(super) const fn is_word_or_quantity(&self) -> bool {
        self.is_word() || self.is_quantity()
    }

    pub(super) const fn is_break(&self) -> bool {
        matches!(self.kind, TokenKind::Break)
    }

    /// Whether a part of the sentence can end here.
    pub(super) fn is_break_or_joint(&self) -> bool {
        self.is_break() || self.is(WordClass::Joint)
    }
}

/// The tokens of a text.
pub(super) fn tokens(text: &str, language: &Language) -> Vec<Token> {
    let new = |kind, range: Range<usize>| {
        let is_capital = text.get(range.clone()).is_some_and(|text| text.starts_with(char::is_uppercase));
        Token { kind, range, is_capital }
    };
    let all: Vec<(Range<usize>, &str)> = words(text).collect();
    let mut tokens = Vec::new();
    let mut index = 0;
    while let Some((range, word)) = all.get(index) {
        let rest = text.get(range.start..).unwrap_or_default();
        let is_inside =
            text[..range.start].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        if !is_inside && let Some((quantity, length)) = leading_quantity(rest, language) {
            let end = range.start + length;
            tokens.push(new(TokenKind::Quantity(quantity), range.start..end));
            if rest.starts_with("twice") || rest.starts_with("zweimal") {
                let times = language.times;
                let word = Word { stem: language.stem(times), text: times.to_owned(), ..Word::default() };
                tokens.push(new(TokenKind::Word(word), range.start..end));
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
            // "the IT desk"
            let is_name = word.len() > 1 && word.chars().all(char::is_uppercase);
            let class = language.class(&phrase);
            let class = class
                .filter(|(class, _)| !is_name || !matches!(class, WordClass::Pronoun | WordClass::Relative));
            class.map(|class| (count, class))
        });
        let (count, kind) = match phrase {
            Some((count, (class, name))) => (count, Some(TokenKind::Class(class, name))),
            None => (1, kind_of(word, language)),
        };
        let end = all.get(index + count - 1).map_or(range.end, |(range, _)| range.end);
        // "does not collect any data"
        let is_any = word.eq_ignore_ascii_case("any")
            && tokens.iter().any(|token: &Token| token.is(WordClass::Negation));
        if let Some(kind) = kind.filter(|_| !is_any) {
            tokens.push(new(kind, range.start..end));
        }
        index += count;
    }
    if tokens.len() > TOKENS_MAX {
        return tokens;
    }
    name_labels(join_ranges(tokens, text, language), text, language)
}

fn kind_of(word: &str, language: &Language) -> Option<TokenKind> {
    if word.contains(char::is_alphanumeric) {
        let lower = word.to_lowercase().replace('’', "'");
        let base = lower.strip_suffix("'s").unwrap_or(&lower);
        let base = if word.starts_with(char::is_lowercase) { language.verb_of(base) } else { base };
        let (stem, own_stem) = (language.stem(base), language.listed_stem(base));
        return Some(TokenKind::Word(Word { stem, text: lower, own_stem }));
    }
    match word {
        "," | ";" => Some(TokenKind::Break),
        "%" | "&" | "+" | "=" | "<" | ">" | "≥" | "≤" | "~" | "≈" | "±" => {
            Some(TokenKind::Word(Word { stem: word.to_owned(), text: word.to_owned(), ..Word::default() }))
        }
        _ => None,
    }
}

/// Joins "between 3 and 5", "from 3 to 5" and "3–5" to one quantity.
fn join_ranges(tokens: Vec<Token>, text: &str, language: &Language) -> Vec<Token> {
    let mut joined: Vec<Token> = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        if !token.is_quantity() {
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
        match second
            .as_ref()
            .and_then(|second| Some((span(&token, second, text, language)?, second.range.end)))
        {
            Some((quantity, end)) => {
                joined.push(Token {
                    kind: TokenKind::Quantity(quantity),
                    range: token.range.start..end,
                    ..token
                });
                rest = ahead;
            }
            None => joined.push(token),
        }
    }
    joined
}

/// Makes words of numbers that are a part of a name: "version 3.1", "Team 2".
fn name_labels(mut tokens: Vec<Token>, text: &str, language: &Language) -> Vec<Token> {
    for index in 1..tokens.len() {
        let [before, token] = [tokens.get(index - 1), tokens.get(index)];
        let (Some(before), Some(token)) = (before, token) else { continue };
        let is_number = matches!(&token.kind, TokenKind::Quantity(quantity) if quantity.is_count() && !(language.is_verb_second && quantity.as_year().is_some()));
        let gap = |next: &Token| {
            text.get(token.range.end..next.range.start).is_none_or(|gap| gap.trim().is_empty())
        };
        let is_followed = tokens.get(index + 1).is_some_and(|next| next.is_content() && gap(next));
        if is_number && before.is_content() && !is_followed && before.range.end + 1 == token.range.start {
            let text = text.get(token.range.clone()).unwrap_or_default().to_lowercase();
            let kind = TokenKind::Word(Word { stem: text.clone(), text, ..Word::default() });
            if let Some(token) = tokens.get_mut(index) {
                token.kind = kind;
            }
        }
    }
    tokens
}

/// The quantity from one to another.
fn span(from: &Token, to: &Token, text: &str, language: &Language) -> Option<Quantity> {
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
            let low = if low_unit.is_empty() && !unit.is_empty() {
                in_unit_of(low, text, to, language)
            } else {
                low
            };
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
    language: &Language,
) -> domain_base::decimal::Decimal {
    let spelled = text.get(second.range.clone()).unwrap_or_default();
    let digits = spelled.trim_start_matches(|c: char| c.is_ascii_digit() || ".,'".contains(c));
    let same = format!("1{digits}");
    let factor = match leading_quantity(&same, language) {
        Some((Quantity::Number { low, .. }, _)) => low,
        _ => return low,
    };
    low.checked_mul(&factor).unwrap_or(low)
}

impl Token {
    pub(super) const fn is_word(&self) -> bool {
        matches!(self.kind, TokenKind::Word(_) | TokenKind::Class(WordClass::Verb | WordClass::Narrowing, _))
    }

    pub(super) fn stem(&self, language: &Language) -> Option<String> {
        match &self.kind {
            TokenKind::Word(word) => Some(word.stem.clone()),
            TokenKind::Class(WordClass::Verb | WordClass::Narrowing, name) => Some(language.stem(name)),
            _ => None,
        }
    }

    pub(super) fn as_word(&self, language: &Language) -> Option<Word> {
        match &self.kind {
            TokenKind::Word(word) => Some(word.clone()),
            TokenKind::Class(WordClass::Verb, name) => Some(Word::known(name, language)),
            _ => None,
        }
    }

    pub(super) fn stem_of_word(&self) -> Option<String> {
        match &self.kind {
            TokenKind::Word(word) => Some(word.stem.clone()),
            _ => None,
        }
    }
}
