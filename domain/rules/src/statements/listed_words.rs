//! Replaces the abbreviations and the phrases of a word list, and reads its entries.

use super::language::{LanguageTables, WordClass};
use super::quantity::{Quantity, leading_quantity};
use super::tokens::{Token, TokenKind, Word, tokens};
use domain_base::decimal::Decimal;
use std::sync::Arc;

/// Why a word cannot be in a word list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum ReservedUse {
    #[strum(serialize = "a negation")]
    Negation,
    #[strum(serialize = "a condition")]
    Condition,
    #[strum(serialize = "an attribution")]
    Attribution,
    #[strum(serialize = "a quantifier or a hedge")]
    Qualifier,
    #[strum(serialize = "a bound")]
    Bound,
    #[strum(serialize = "a word for approximate numbers")]
    About,
    #[strum(serialize = "a conjunction")]
    Conjunction,
    #[strum(serialize = "a number, a time or a date")]
    Quantity,
    #[strum(serialize = "a function word")]
    Function,
    #[strum(serialize = "a verb, which cannot be part of a phrase")]
    Verb,
}

/// A reserved word: its text and its use.
pub(crate) type ReservedWord = (String, ReservedUse);

/// Words that negate or quantify what follows, and that no table has.
const RESERVED: [(&str, ReservedUse); 2] = [("any", ReservedUse::Qualifier), ("non", ReservedUse::Negation)];

impl WordClass {
    const fn reserved_use(self, is_alone: bool) -> Option<ReservedUse> {
        Some(match self {
            Self::Negation => ReservedUse::Negation,
            Self::Condition => ReservedUse::Condition,
            Self::Attribution => ReservedUse::Attribution,
            Self::Qualifier => ReservedUse::Qualifier,
            Self::Bound => ReservedUse::Bound,
            Self::About => ReservedUse::About,
            Self::Conjunction => ReservedUse::Conjunction,
            Self::Verb if !is_alone => ReservedUse::Verb,
            Self::Verb | Self::Narrowing => return None,
            _ => ReservedUse::Function,
        })
    }
}

/// The stems of the words of `text`, an entry of a word list.
///
/// # Errors
/// The first word that is reserved.
pub(crate) fn read_entry(text: &str, language: &LanguageTables) -> Result<Vec<String>, ReservedWord> {
    let stems = read_words(text, language)?;
    // "IT" is a name, but "it" is none
    read_words(&text.to_lowercase(), language)?;
    Ok(stems)
}

fn read_words(text: &str, language: &LanguageTables) -> Result<Vec<String>, ReservedWord> {
    let tokens = tokens(text, language);
    let is_alone = tokens.len() == 1;
    let read = |token: &Token| {
        let used = match &token.kind {
            TokenKind::Class(class, _) => class.reserved_use(is_alone),
            TokenKind::Quantity(_) => Some(ReservedUse::Quantity),
            TokenKind::Word(word) => {
                RESERVED.iter().find(|(reserved, _)| *reserved == word.text).map(|(_, used)| *used)
            }
            TokenKind::Break | TokenKind::Colon => Some(ReservedUse::Conjunction),
        };
        let reserved = || text.get(token.range.clone()).unwrap_or_default().to_owned();
        used.map_or_else(|| Ok(own_stem(token, language)), |used| Err((reserved(), used)))
    };
    tokens.iter().map(read).map(|stem| stem.map(Option::unwrap_or_default)).collect()
}

/// The unit with this spelling, by the tables: its base, and the number of bases.
pub(crate) fn read_unit(spelling: &str, language: &LanguageTables) -> Option<(Decimal, String)> {
    let text = format!("1 {spelling}");
    match leading_quantity(&text, language)? {
        (Quantity::Number { low, unit, .. }, length) if !unit.is_empty() && length == text.len() => {
            Some((low, unit))
        }
        _ => None,
    }
}

/// Whether the tables read the beginning of `spelling` after a number as part of a quantity.
pub(crate) fn is_read_after_number(spelling: &str, language: &LanguageTables) -> bool {
    let is_read = |number: &str| {
        let read = leading_quantity(&format!("{number}{spelling}"), language);
        read.is_some_and(|(_, length)| length > number.trim_end().len())
    };
    is_read("1 ") || is_read("1")
}

/// The stem of a word of its own, even if a word list has it in a group.
fn own_stem(token: &Token, language: &LanguageTables) -> Option<String> {
    match &token.kind {
        TokenKind::Word(word) => Some(word.own_stem.as_ref().unwrap_or(&word.stem).clone()),
        TokenKind::Class(WordClass::Narrowing | WordClass::Verb, name) => Some(language.own_stem(name)),
        _ => None,
    }
}

/// A token with the stem by which phrases are found.
struct StemmedToken {
    token: Token,
    stem: Option<String>,
}

/// The tokens with the words of abbreviations in place of these, and with each phrase of a group as one word.
pub(super) fn replace_listed(found: Vec<Token>, text: &str, language: &LanguageTables) -> Vec<Token> {
    if language.vocabulary.replaces_nothing() {
        return found;
    }
    let all: Vec<StemmedToken> = found.into_iter().flat_map(|token| expand(token, text, language)).collect();
    let (mut replaced, mut at) = (Vec::new(), 0);
    while let Some(StemmedToken { token, stem }) = all.get(at) {
        let phrases = stem.as_deref().map_or(&[][..], |stem| language.vocabulary.phrases_from(stem));
        let found = phrases.iter().find_map(|phrase| {
            let end = at + phrase.stems.len();
            let words = all.get(at..end)?;
            let is_same =
                words.iter().zip(&phrase.stems).all(|(word, stem)| word.stem.as_ref() == Some(stem));
            // an abbreviation is replaced whole
            let is_cut = |at: usize| {
                at.checked_sub(1)
                    .and_then(|before| all.get(before))
                    .zip(all.get(at))
                    .is_some_and(|(before, after)| before.token.range == after.token.range)
            };
            (is_same && are_adjacent(words, text) && !is_cut(at) && !is_cut(end)).then_some((phrase, words))
        });
        match found {
            Some((phrase, words)) => {
                replaced.push(merge(token, words, &phrase.group));
                at += words.len();
            }
            None => {
                replaced.push(token.clone());
                at += 1;
            }
        }
    }
    replaced
}

/// The token, or the words for it if it is an abbreviation.
fn expand(token: Token, text: &str, language: &LanguageTables) -> Vec<StemmedToken> {
    let written = text.get(token.range.clone()).unwrap_or_default();
    let name = written.strip_suffix("'s").or_else(|| written.strip_suffix("’s")).unwrap_or(written);
    let is_word = matches!(token.kind, TokenKind::Word(_));
    let Some(words) = language.vocabulary.expand(name).filter(|_| is_word) else {
        return vec![StemmedToken { stem: own_stem(&token, language), token }];
    };
    let words = tokens(words, language);
    let count = words.len();
    let in_place = |(index, word): (usize, Token)| {
        let stem = own_stem(&word, language);
        let kind = match word.kind {
            TokenKind::Word(word) => TokenKind::Word(Arc::new(Word {
                // in "BP's", only the last word has the ending
                text: if index + 1 == count { written.replace('’', "'") } else { name.to_owned() },
                own_stem: Some(name.to_owned()),
                ..Arc::unwrap_or_clone(word)
            })),
            other => other,
        };
        StemmedToken { token: Token { kind, ..token.clone() }, stem }
    };
    words.into_iter().enumerate().map(in_place).collect()
}

/// Whether nothing but white space and hyphens is between the words.
fn are_adjacent(words: &[StemmedToken], text: &str) -> bool {
    let is_space = |between: &str| between.chars().all(|c| c.is_whitespace() || "-‐‑".contains(c));
    words.windows(2).all(|pair| {
        let [one, other] = pair else { return false };
        one.token.range == other.token.range
            || text.get(one.token.range.end..other.token.range.start).is_some_and(is_space)
    })
}

/// The words of a phrase as one word with the stem of their group.
fn merge(first: &Token, words: &[StemmedToken], group: &str) -> Token {
    let (mut texts, mut stems) = (Vec::new(), Vec::new());
    for (index, StemmedToken { token, stem }) in words.iter().enumerate() {
        // the words for an abbreviation have its text and its range
        if words.get(index + 1).is_some_and(|next| next.token.range == token.range) {
            continue;
        }
        let (text, own) = match &token.kind {
            TokenKind::Word(word) => (word.text.as_str(), word.own_stem.as_ref().or(stem.as_ref())),
            TokenKind::Class(_, name) => (*name, stem.as_ref()),
            TokenKind::Quantity(_) | TokenKind::Break | TokenKind::Colon => continue,
        };
        texts.push(text);
        stems.push(own.map(String::as_str).unwrap_or_default());
    }
    let mut merged = first.clone();
    merged.range.end = words.last().map_or(first.range.end, |last| last.token.range.end);
    merged.kind = TokenKind::Word(Arc::new(Word {
        stem: group.to_owned(),
        text: texts.join(" "),
        own_stem: Some(stems.join(" ")),
        ..Word::default()
    }));
    merged
}
