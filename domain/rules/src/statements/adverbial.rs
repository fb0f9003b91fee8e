//! Phrases of time, and the words that begin a phrase.

use super::language::{LanguageTables, WordClass};
use super::tokens::{Token, TokenKind};

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
