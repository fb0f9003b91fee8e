//! The tokens of a sentence: words, quantities, marks, and the words that a language knows.

use super::language::{LanguageTables, WordClass};
use super::quantity::{Quantity, leading_quantity};
use crate::result::ComparisonResult;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use unicode_segmentation::UnicodeSegmentation;

/// The most words, numbers and marks of a sentence that is read. The costs of a sentence grow with their square.
pub(super) const TOKENS_MAX: usize = 400;

/// A content word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// The common form of its inflections.
    pub(crate) stem: String,
    /// The common form of its numbers and cases.
    pub(super) noun: String,
    /// The word in lower case; an abbreviation of a word list as it is written.
    pub(crate) text: String,
    /// The common form of its inflections without the word list, if `stem` is that of a group.
    pub(super) own_stem: Option<String>,
    /// Whether it can be a name, which has no inflections: it begins with a capital letter.
    pub(super) is_name: bool,
    /// Whether it names a day, a month or a part of a day.
    pub(super) is_calendar: bool,
}

impl Word {
    /// A word that a language knows.
    pub(super) fn known(name: &str, language: &LanguageTables) -> Self {
        Self {
            stem: language.stem(name),
            own_stem: language.listed_stem(name),
            noun: language.noun(name, false),
            text: name.to_owned(),
            is_name: false,
            is_calendar: language.is_of_calendar(name),
        }
    }

    /// A word without inflections.
    fn plain(text: &str) -> Self {
        Self { stem: text.to_owned(), noun: text.to_owned(), text: text.to_owned(), ..Self::default() }
    }

    /// How `fact` has this word of a claim; `None` if it is another word.
    pub(super) fn comparison(&self, fact: &Self) -> Option<ComparisonResult> {
        match () {
            () if self.text == fact.text => Some(ComparisonResult::Same),
            () if self.is_synonym(fact) => Some(ComparisonResult::Synonym),
            () if self.noun == fact.noun && !(self.is_name && fact.is_name) => {
                Some(ComparisonResult::Inflected)
            }
            () => None,
        }
    }

    /// Whether it ends as a plural does.
    pub(super) fn has_plural_ending(&self) -> bool {
        self.text.ends_with('s') && !self.text.ends_with("ss")
    }

    /// Whether the word list has both in one group.
    pub(super) fn is_listed_with(&self, fact: &Self) -> bool {
        let is_listed = self.own_stem.is_some() || fact.own_stem.is_some();
        is_listed && self.stem == fact.stem && self.own_stem != fact.own_stem
    }

    /// Whether the word list has both in one group, and both or none are plurals.
    fn is_synonym(&self, fact: &Self) -> bool {
        self.is_listed_with(fact) && self.has_plural_ending() == fact.has_plural_ending()
    }
}

/// How a part places who acts and what is acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    #[default]
    Active,
    /// "is replaced by the owner".
    Passive,
    /// "is replaced".
    Agentless,
}

#[derive(Debug, Clone)]
pub(super) enum TokenKind {
    Word(Arc<Word>),
    Quantity(Quantity),
    Class(WordClass, &'static str),
    /// A comma or another mark between parts.
    Break,
    /// The colon between a label and its value.
    Colon,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) range: Range<usize>,
    /// Whether it begins with a capital letter, as German nouns do.
    pub(super) is_capital: bool,
    /// A quantity or a bound as it is written; empty for other tokens.
    pub(super) written: String,
}

impl Token {
    pub(super) fn is(&self, class: WordClass) -> bool {
        matches!(self.kind, TokenKind::Class(own, _) if own == class)
    }

    /// Whether it is the entry `name` of a class.
    pub(super) fn names(&self, class: WordClass, name: &str) -> bool {
        matches!(self.kind, TokenKind::Class(own, known) if own == class && known == name)
    }

    pub(super) const fn as_function_word(&self) -> Option<&'static str> {
        match self.kind {
            TokenKind::Class(WordClass::Function, name) => Some(name),
            _ => None,
        }
    }

    /// Whether it limits what stands beside it: "not", "only", "may".
    pub(super) fn is_limit(&self) -> bool {
        self.is(WordClass::Negation) || self.is(WordClass::Qualifier)
    }

    pub(super) const fn is_content(&self) -> bool {
        matches!(self.kind, TokenKind::Word(_))
    }

    pub(super) const fn is_quantity(&self) -> bool {
        matches!(self.kind, TokenKind::Quantity(_))
    }

    /// Whether it is a date with two readings.
    pub(super) const fn is_ambiguous(&self) -> bool {
        matches!(self.kind, TokenKind::Quantity(Quantity::Ambiguous(_)))
    }

    pub(super) const fn is_word_or_quantity(&self) -> bool {
        self.is_word() || self.is_quantity()
    }

    pub(super) const fn is_break(&self) -> bool {
        matches!(self.kind, TokenKind::Break)
    }

    /// Whether a part of the sentence can end here.
    pub(super) fn is_break_or_joint(&self) -> bool {
        self.is_break() || self.is(WordClass::Conjunction)
    }
}

/// The tokens of a text.
pub(super) fn tokens(text: &str, language: &LanguageTables) -> Vec<Token> {
    let mut reader =
        TokenReader { text, language, words: words(text).collect(), next: 0, tokens: Vec::new() };
    while reader.tokens.len() <= TOKENS_MAX
        && let Some((range, word)) = reader.words.get(reader.next).cloned()
    {
        if !(reader.read_quantity(&range, word) || reader.read_contraction(&range, word)) {
            reader.read_word(range, word);
        }
    }
    if reader.tokens.len() > TOKENS_MAX {
        return reader.tokens;
    }
    name_labels(join_ranges(reader.tokens, text, language), text, language)
}

struct TokenReader<'t> {
    text: &'t str,
    language: &'t LanguageTables,
    words: Vec<(Range<usize>, &'t str)>,
    /// The index of the next word.
    next: usize,
    tokens: Vec<Token>,
}

impl TokenReader<'_> {
    fn push(&mut self, kind: TokenKind, range: Range<usize>) {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let is_capital = text.starts_with(char::is_uppercase);
        let is_kept = matches!(kind, TokenKind::Quantity(_) | TokenKind::Class(WordClass::Bound, _));
        let written = if is_kept { text.to_owned() } else { String::new() };
        self.tokens.push(Token { kind, range, is_capital, written });
    }

    /// Reads a quantity, and returns whether there is one.
    fn read_quantity(&mut self, range: &Range<usize>, word: &str) -> bool {
        let (before, rest) = self.text.split_at_checked(range.start).unwrap_or_default();
        if before.ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            return false;
        }
        let found = leading_quantity(rest, self.language).or_else(|| self.leading_duration(rest, word));
        let Some((quantity, length)) = found else { return false };
        let end = range.start + length;
        self.push(TokenKind::Quantity(quantity), range.start..end);
        if rest.starts_with("twice") || rest.starts_with("zweimal") {
            let word = Word::known(self.language.times_word, self.language);
            self.push(TokenKind::Word(word.into()), range.start..end);
        }
        while self.words.get(self.next).is_some_and(|(range, _)| range.start < end) {
            self.next += 1;
        }
        true
    }

    /// The time that an article begins after a preposition, as in "for a year", and its length.
    fn leading_duration(&self, rest: &str, word: &str) -> Option<(Quantity, usize)> {
        let last = self.tokens.last()?;
        let follows_preposition = last.is(WordClass::Preposition) || last.is(WordClass::Qualifier);
        let unit = rest.strip_prefix(word).filter(|_| follows_preposition && matches!(word, "a" | "an"))?;
        let one = format!("1{}", unit.get(..unit.floor_char_boundary(80)).unwrap_or_default());
        let (quantity, length) = leading_quantity(&one, self.language)?;
        quantity.is_duration().then_some((quantity, word.len() + length - 1))
    }

    fn read_contraction(&mut self, range: &Range<usize>, word: &str) -> bool {
        let Some(pieces) = split_contraction(word, self.language) else { return false };
        for (class, name) in pieces {
            self.push(TokenKind::Class(class, name), range.clone());
        }
        self.next += 1;
        true
    }

    fn read_word(&mut self, range: Range<usize>, word: &str) {
        let class = |count: usize| {
            let words = self.words.get(self.next..self.next + count)?;
            let words: Vec<String> = words.iter().map(|(_, word)| lower(word)).collect();
            let (class, name) = self.language.class(&words.join(" "))?;
            (!is_name(self.text, range.start, word, class)).then_some((count, TokenKind::Class(class, name)))
        };
        let known = (1..=self.language.phrase_words(&lower(word))).rev().find_map(class);
        let (count, kind) = match known {
            Some((count, kind)) => (count, Some(kind)),
            None => (1, kind_of(word, self.language)),
        };
        let last = self.words.get(self.next + count - 1);
        let end = last.map_or(range.end, |(range, _)| range.end);
        // "No. 3"
        let is_blank = word.eq_ignore_ascii_case("no") && is_number_mark(self.text, range.end);
        if let Some(kind) = kind.filter(|_| !is_blank) {
            self.push(kind, range.start..end);
        }
        self.next += count;
    }
}

/// `word` in lower case, with plain apostrophes.
fn lower(word: &str) -> String {
    word.to_lowercase().replace('’', "'")
}

/// The two words of "isn't", "cannot", "it's" or "they'll".
fn split_contraction(word: &str, language: &LanguageTables) -> Option<[(WordClass, &'static str); 2]> {
    if !word.contains(['\'', '’']) && !word.eq_ignore_ascii_case("cannot") {
        return None;
    }
    let lower = lower(word);
    let (base, ending) = match lower.as_str() {
        "cannot" | "can't" => ("can", "not"),
        "won't" => ("will", "not"),
        "mustn't" => ("must", "not"),
        _ => {
            let endings = [("n't", "not"), ("'re", "are"), ("'ve", "have"), ("'ll", "will"), ("'s", "is")];
            let (base, word) =
                endings.iter().find_map(|(end, word)| Some((lower.strip_suffix(end)?, *word)))?;
            // "Anna's"
            let is_pronoun = || matches!(language.class(base), Some((WordClass::Pronoun, _)));
            (word != "is" || is_pronoun()).then_some((base, word))?
        }
    };
    Some([language.class(base)?, language.class(ending)?])
}

/// Whether a full stop and a number follow at `end`.
fn is_number_mark(text: &str, end: usize) -> bool {
    let rest = text.get(end..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    rest.trim_start().starts_with(|first: char| first.is_ascii_digit())
}

/// Whether `word` at `start` is a name, and not the word of `class` that is spelled like it: "the IT desk", "in May".
fn is_name(text: &str, start: usize, word: &str, class: WordClass) -> bool {
    let is_code = word.len() > 1 && word.chars().all(char::is_uppercase);
    let is_inside =
        text.get(..start).is_some_and(|before| before.trim_end().ends_with(char::is_alphanumeric));
    let is_capital = word.starts_with(char::is_uppercase);
    word == "A" && is_inside && class == WordClass::Function
        || is_code
            && matches!(
                class,
                WordClass::Pronoun | WordClass::Relative | WordClass::Verb | WordClass::Narrowing
            )
        || is_capital && !is_code && is_inside && class == WordClass::Qualifier
}

fn kind_of(word: &str, language: &LanguageTables) -> Option<TokenKind> {
    if word.contains(char::is_alphanumeric) {
        let lower = lower(word);
        let is_capital = word.starts_with(char::is_uppercase);
        let base = lower.strip_suffix("'s").unwrap_or(&lower);
        let base = if is_capital { base } else { language.verb_of(base) };
        // "LED" is no form of a word
        let is_code = base.len() > 1 && word.chars().all(char::is_uppercase);
        let stem = if is_code { word.to_owned() } else { language.stem(base) };
        let noun = if is_code { word.to_owned() } else { language.noun(base, is_capital) };
        let is_name = is_capital && !language.is_verb_second;
        let own_stem = language.listed_stem(base);
        let is_calendar = language.is_of_calendar(base) || language.months.contains_key(base);
        let text = if is_code { word.to_owned() } else { lower };
        let word = Word { stem, own_stem, noun, is_calendar, text, is_name };
        return Some(TokenKind::Word(word.into()));
    }
    match word {
        "," | ";" | "–" | "—" => Some(TokenKind::Break),
        ":" => Some(TokenKind::Colon),
        _ => word.chars().all(is_symbol).then(|| TokenKind::Word(Word::plain(word).into())),
    }
}

/// Whether the character has a meaning of its own, as "%" and "✓" have, and is no mark between words.
pub(super) fn is_symbol(character: char) -> bool {
    const MARKS: &str = ".!?()[]{}\"'„“”‚‘’«»‹›…/\\-‑_*#|`¿¡·•\u{fe0f}";
    !character.is_alphanumeric()
        && !character.is_whitespace()
        && !character.is_control()
        && !MARKS.contains(character)
}

/// Joins "between 3 and 5", "from 3 to 5" and "3–5" to one quantity.
fn join_ranges(tokens: Vec<Token>, text: &str, language: &LanguageTables) -> Vec<Token> {
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
                // "between 3 and 5 kg" is "3 to 5 kg"
                let is_between = matches!(before.as_deref(), Some("between" | "zwischen"));
                if is_between && matches!(quantity, Quantity::Number { .. }) {
                    joined.pop();
                }
                let range = token.range.start..end;
                let written = text.get(range.clone()).unwrap_or_default().to_owned();
                joined.push(Token { kind: TokenKind::Quantity(quantity), range, written, ..token });
                rest = ahead;
            }
            None => joined.push(token),
        }
    }
    joined
}

/// Makes words of numbers that are a part of a name: "version 3.1", "Team 2".
fn name_labels(mut tokens: Vec<Token>, text: &str, language: &LanguageTables) -> Vec<Token> {
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
            let kind = TokenKind::Word(Word::plain(&text).into());
            if let Some(token) = tokens.get_mut(index) {
                token.kind = kind;
            }
        }
    }
    tokens
}

/// The quantity from one to another.
fn span(from: &Token, to: &Token, text: &str, language: &LanguageTables) -> Option<Quantity> {
    match (&from.kind, &to.kind) {
        (
            TokenKind::Quantity(one @ (Quantity::Time { .. } | Quantity::Date { .. })),
            TokenKind::Quantity(other @ (Quantity::Time { .. } | Quantity::Date { .. })),
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
    language: &LanguageTables,
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

    pub(super) fn as_word(&self, language: &LanguageTables) -> Option<Arc<Word>> {
        match &self.kind {
            TokenKind::Word(word) => Some(Arc::clone(word)),
            TokenKind::Class(WordClass::Verb | WordClass::Narrowing, name) => {
                Some(Word::known(name, language).into())
            }
            _ => None,
        }
    }

    /// The text of a word, in lower case.
    pub(super) fn word_text(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word(word) => Some(&word.text),
            TokenKind::Class(WordClass::Verb | WordClass::Narrowing, name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn stem(&self, language: &LanguageTables) -> Option<Cow<'_, str>> {
        match &self.kind {
            TokenKind::Word(word) => Some(Cow::Borrowed(&word.stem)),
            _ => self.word_text().map(|name| Cow::Owned(language.stem(name))),
        }
    }
}

/// The tokens of a subject without the negations and modal verbs before its verb.
pub(super) fn without_limits(subject: &[Token]) -> &[Token] {
    let end = subject.iter().rposition(|token| !token.is_limit()).map_or(0, |last| last + 1);
    subject.get(..end).unwrap_or_default()
}

/// The words of `text`, with their ranges. A mark or a symbol is a word of its own.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_word_bound_indices()
        .filter(|(_, word)| !word.trim().is_empty())
        .map(|(at, word)| (at..at + word.len(), word))
}

/// The definite articles, and the words in their place.
pub(super) const DEFINITE: [&str; 8] = ["the", "this", "these", "der", "die", "das", "den", "dem"];

/// The qualifiers that are prepositions of time.
pub(super) const OF_TIME: [&str; 6] = ["before", "after", "during", "within", "until", "since"];

/// The number of tokens at `index` that name a day or a time without a quantity, such as "last year".
pub(super) fn calendar_length(tokens: &[Token], index: usize, language: &LanguageTables) -> Option<usize> {
    let is_before = |token: &Token| {
        token.names(WordClass::Qualifier, "all")
            || token.names(WordClass::Qualifier, "every")
            || token.names(WordClass::Narrowing, "last")
            || token.names(WordClass::Narrowing, "next")
            || matches!(token.kind, TokenKind::Word(ref word) if matches!(&*word.text, "letzten" | "nächsten" | "vergangenen"))
    };
    let mut at = index;
    while tokens.get(at).is_some_and(is_before) {
        at += 1;
    }
    let first = at;
    let is_calendar = |token: &Token| token.word_text().is_some_and(|word| language.is_of_calendar(word));
    while tokens.get(at).is_some_and(is_calendar) {
        at += 1;
    }
    let is_compound = tokens.get(at).is_some_and(Token::is_word);
    (at > first && !is_compound).then_some(at - index)
}

/// Whether the token is a day of the week.
pub(super) fn is_day(token: &Token, language: &LanguageTables) -> bool {
    token.word_text().is_some_and(|word| language.is_day(word))
}

/// Whether the token begins a prepositional phrase.
pub(super) fn is_like_preposition(token: &Token) -> bool {
    let TokenKind::Class(class, name) = &token.kind else { return false };
    match class {
        WordClass::Preposition | WordClass::Bound => true,
        WordClass::Qualifier => OF_TIME.contains(name),
        _ => false,
    }
}
