//! The verb of a part: its place, its voice and its tense.

use super::language::{LanguageTables, Tense, WordClass};
use super::tokens::{Token, TokenKind, Voice};
use super::tokens::{calendar_length, is_like_preposition};
use std::ops::Range;

/// The index of the verb: an auxiliary or a known verb, or a word with the ending of a past form after another word; without
/// these, the first word with the ending of a verb after another word.
pub(super) fn verb_at(tokens: &[Token], language: &LanguageTables) -> Option<usize> {
    if language.is_verb_second {
        return verb_second_at(tokens, language);
    }
    known_verb_at(tokens, language).or_else(|| {
        let is_word = |token: &Token| token.is_word() || token.is(WordClass::Pronoun);
        let is_verb = |index: &usize| {
            let Some(TokenKind::Word(word)) = tokens.get(*index).map(|token| &token.kind) else {
                return false;
            };
            let next = tokens.get(index + 1);
            let before = index.checked_sub(1).and_then(|before| tokens.get(before));
            let is_start =
                index.checked_sub(1).is_none() && tokens.get(*index).is_some_and(|token| token.is_capital);
            let has_ending = language.verb_endings.iter().any(|end| word.text.ends_with(end));
            // "they bake bread"
            let is_after_pronoun = before.is_some_and(|before| {
                matches!(before.kind, TokenKind::Class(WordClass::Pronoun, "they" | "it" | "he" | "she"))
            });
            // "… and supplies the town"
            let begins = || next.is_some_and(|next| next.is(WordClass::Function) || next.is_quantity());
            next.is_some()
                && !is_start
                && (is_after_pronoun
                    || word.text.len() > 3 && has_ending && before.map_or_else(begins, is_word))
        };
        (0..tokens.len()).find(is_verb)
    })
}

fn known_verb_at(tokens: &[Token], language: &LanguageTables) -> Option<usize> {
    let mut has_content = false;
    for (index, token) in tokens.iter().enumerate() {
        let is_verb = match &token.kind {
            TokenKind::Class(WordClass::Auxiliary, _) => true,
            TokenKind::Class(WordClass::Verb, _) => {
                let is_article = |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Function, name) if language.articles.contains(&name));
                let is_noun = tokens.get(index + 1).is_some_and(|next| next.is(WordClass::Auxiliary))
                    || index > 0 && tokens.get(index - 1).is_some_and(is_article);
                !is_noun
                    && (has_content
                        || !is_noun_before_verb(tokens, index)
                        || begins_with_finite(tokens, index))
            }
            // "can export"
            TokenKind::Word(_) if follows_modal(tokens, index) => true,
            TokenKind::Word(word) => {
                has_content
                    && word.text.len() > 3
                    && (language.has_past_ending(&word.text) || language.is_irregular_verb(&word.text))
                    && tokens.get(index + 1).is_none_or(|next| !next.is_content())
            }
            _ => false,
        };
        if is_verb {
            return Some(index);
        }
        has_content |= token.is_word_or_quantity() || token.is(WordClass::Pronoun);
    }
    None
}

/// Whether a verb in the third person begins the part: "drops support".
fn begins_with_finite(tokens: &[Token], index: usize) -> bool {
    let Some(Token { kind: TokenKind::Class(_, name), is_capital: false, .. }) = tokens.get(index) else {
        return false;
    };
    let next = tokens.get(index + 1..).unwrap_or_default();
    let is_finite = |token: &Token| match token.kind {
        TokenKind::Class(WordClass::Auxiliary, _) => true,
        TokenKind::Class(WordClass::Verb, name) => name.ends_with('s') || name.ends_with("ed"),
        _ => false,
    };
    index == 0 && name.ends_with('s') && !next.iter().any(is_finite)
}

/// Whether a modal verb stands before `index`, with a negation or without.
fn follows_modal(tokens: &[Token], index: usize) -> bool {
    const MODALS: [&str; 9] = ["can", "could", "will", "would", "may", "might", "must", "should", "ought"];
    let before = tokens.get(..index).unwrap_or_default().iter().rev();
    let mut before = before.skip_while(|token| token.is(WordClass::Negation));
    before.next().is_some_and(
        |token| matches!(token.kind, TokenKind::Class(WordClass::Qualifier, name) if MODALS.contains(&name)),
    )
}

/// Whether the word at `index`, which begins the part, is followed by another verb: "cover costs 49 €".
fn is_noun_before_verb(tokens: &[Token], index: usize) -> bool {
    let next = tokens.get(index + 1..).unwrap_or_default();
    next.iter().any(|token| token.is(WordClass::Verb) || token.is(WordClass::Auxiliary))
}

/// The auxiliaries that begin `tokens`, with the negations and qualifiers among them, and the tokens after these.
pub(super) fn split_auxiliaries(tokens: &[Token]) -> (&[Token], &[Token]) {
    let is_passed = |token: &&Token| token.is(WordClass::Auxiliary) || token.is_limit();
    tokens.split_at(tokens.iter().take_while(is_passed).count())
}

/// The index of the word of the verb at `verb`: with an auxiliary, the participle after it.
pub(super) fn verb_word_at(tokens: &[Token], verb: usize, language: &LanguageTables) -> Option<usize> {
    let (auxiliaries, rest) = split_auxiliaries(tokens.get(verb..).unwrap_or_default());
    let at = verb + auxiliaries.len();
    let token = rest.first()?;
    let is_do =
        |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Auxiliary, "do" | "does" | "did"));
    let is_auxiliary = auxiliaries.iter().any(|token| token.is(WordClass::Auxiliary));
    let is_verb = match &token.kind {
        // "does not collect"; "is open" and "has cover charges" have no other verb
        TokenKind::Class(WordClass::Verb, _) | TokenKind::Word(_) => {
            !is_auxiliary || is_participle(token, language) || auxiliaries.iter().any(is_do)
        }
        _ => false,
    };
    is_verb.then_some(at)
}

/// Whether the verb at `verb`, which begins a part without a subject, is finite by its form. Otherwise it may depend on the
/// part before: "may open and close".
pub(super) fn is_finite(tokens: &[Token], verb: usize, language: &LanguageTables) -> bool {
    const INFINITE: [&str; 12] = [
        "be", "been", "have", "having", "do", "done", "werden", "sein", "gewesen", "haben", "worden",
        "geworden",
    ];
    let before = tokens.get(..verb).unwrap_or_default();
    let has_ending = |word: &str| {
        if language.is_verb_second {
            word.ends_with('t') && !word.starts_with("ge")
        } else {
            word.ends_with('s') && !word.ends_with("ss")
        }
    };
    before.iter().any(Token::is_limit)
        || tokens.get(verb).is_some_and(|token| match &token.kind {
            TokenKind::Class(WordClass::Auxiliary, name) => !INFINITE.contains(name),
            TokenKind::Class(WordClass::Verb, name) => has_ending(name),
            TokenKind::Word(word) => has_ending(&word.text),
            _ => false,
        })
}

/// Whether the verb at `verb` is one for sure: no participle after a noun, as in "vans damaged by hail", and no plural.
pub(super) fn is_sure_verb(tokens: &[Token], verb: usize, language: &LanguageTables) -> bool {
    tokens.get(verb).is_some_and(|token| match &token.kind {
        TokenKind::Class(WordClass::Verb, _) => verb == 0 || !is_participle(token, language),
        TokenKind::Word(_) => verb == 0 || follows_modal(tokens, verb),
        _ => true,
    })
}

/// Whether the token is a verb that can follow "is" in a passive sentence.
fn is_participle(token: &Token, language: &LanguageTables) -> bool {
    match &token.kind {
        TokenKind::Class(WordClass::Verb, name) => language.is_participle(name),
        TokenKind::Word(word) => language.is_participle(&word.text),
        _ => false,
    }
}

pub(super) fn voice(tokens: &[Token], verb: Option<usize>, language: &LanguageTables) -> Voice {
    let Some(verb) =
        verb.filter(|verb| tokens.get(*verb).is_some_and(|token| token.is(WordClass::Auxiliary)))
    else {
        return Voice::Active;
    };
    let after = tokens.get(verb + 1..).unwrap_or_default();
    let is_by = |token: &Token| matches!(token.kind, TokenKind::Class(WordClass::Preposition, name) if name == language.by);
    let (auxiliaries, rest) = split_auxiliaries(tokens.get(verb..).unwrap_or_default());
    let is_be = auxiliaries.iter().any(|token| matches!(token.kind, TokenKind::Class(WordClass::Auxiliary, name) if language.passive_auxiliaries.contains(&name)));
    let is_noun = |token: &Token| language.is_verb_second && token.is_capital;
    let is_participle = rest.first().is_some_and(|token| is_participle(token, language) && !is_noun(token));
    if is_be && is_participle {
        return if after.iter().skip(1).any(is_by) { Voice::Passive } else { Voice::Agentless };
    }
    Voice::Active
}

/// The tense of `tokens`, whose verb begins at `verb` and has its word at `word`. `None` if its form is that of several
/// tenses, as with "cost".
pub(super) fn tense(
    tokens: &[Token],
    (verb, word): (Option<usize>, Option<usize>),
    language: &LanguageTables,
) -> Option<Tense> {
    let form_at = |at: usize| match &tokens.get(at)?.kind {
        TokenKind::Class(WordClass::Verb | WordClass::Auxiliary, name) => Some(*name),
        TokenKind::Word(word) => Some(word.text.as_str()),
        _ => None,
    };
    let verb = verb?;
    let form = form_at(verb)?;
    if !tokens.get(verb)?.is(WordClass::Auxiliary) {
        return language.tense(form);
    }
    let auxiliaries = split_auxiliaries(tokens.get(verb..)?).0;
    let is_been =
        auxiliaries.iter().any(|token| matches!(token.kind, TokenKind::Class(_, "been" | "gewesen")));
    let has_participle = word.and_then(form_at).is_some_and(|word| language.is_participle(word));
    Some(match () {
        () if matches!(form, "had" | "hatte" | "hatten") && has_participle => Tense::PastPerfect,
        () if language.past_auxiliaries.contains(&form) => Tense::Past,
        () if language.perfect_auxiliaries.contains(&form) && has_participle && language.is_verb_second => {
            Tense::Past
        }
        () if language.is_verb_second && matches!(form, "ist" | "sind") && has_participle => Tense::Perfect,
        () if is_been || language.perfect_auxiliaries.contains(&form) && has_participle => Tense::Perfect,
        () => Tense::Present,
    })
}

/// Whether a part is only a phrase before the others: "In 2023, …", "On this tariff, …".
pub(super) fn is_introduction(part: &[Token], language: &LanguageTables) -> bool {
    let is_phrase = part.first().is_some_and(is_like_preposition)
        || calendar_length(part, 0, language) == Some(part.len());
    is_phrase && verb_at(part, language).is_none()
}

/// Puts the tokens of a clause of a verb-second language into the order subject, verb, participle, others.
///
/// `follows_frame`: the clause follows a condition or an attribution, after which it begins with its verb.
pub(super) fn put_subject_first(clause: &mut Vec<Token>, language: &LanguageTables, follows_frame: bool) {
    let Some(verb) = verb_second_at(clause, language) else { return };
    let is_adverb = |token: &Token| !token.is_word_or_quantity() && !token.is(WordClass::Pronoun);
    let is_introduced = clause.iter().take(verb).all(is_adverb)
        || calendar_length(clause, 0, language) == Some(verb)
        || clause.first().is_some_and(is_like_preposition)
        || clause.get(verb + 1).is_some_and(is_subject_pronoun);
    let subject =
        noun_phrase(clause, verb + 1, language).filter(|_| is_introduced && (verb > 0 || follows_frame));
    let mut rest = std::mem::take(clause);
    let introduction: Vec<Token> = if let Some(subject) = subject {
        let subject: Vec<Token> = rest.splice(subject, []).collect();
        rest.splice(..verb, subject).collect()
    } else {
        Vec::new()
    };
    let verb = rest.iter().position(|token| token.is(WordClass::Auxiliary));
    let is_participle = |last: &Token| last.is_word() && !last.is_capital;
    if let Some(verb) = verb
        && rest.len() > verb + 2
        && let Some(last) = rest.pop_if(|last| is_participle(last))
    {
        rest.insert(verb + 1, last);
    }
    rest.extend(introduction);
    *clause = rest;
}

/// The finite verb of a clause: an auxiliary, a known verb, or a word in lower case that no noun follows.
fn verb_second_at(clause: &[Token], language: &LanguageTables) -> Option<usize> {
    let is_verb = |(index, token): (usize, &Token)| match &token.kind {
        TokenKind::Class(WordClass::Auxiliary | WordClass::Verb, _) => true,
        TokenKind::Class(WordClass::Qualifier, name) => matches!(*name, "may" | "darf" | "should" | "must"),
        TokenKind::Word(word) => {
            let is_before_noun = clause.get(index + 1).is_some_and(Token::is_word);
            let has_ending = language.verb_endings.iter().any(|end| word.text.ends_with(end));
            !token.is_capital && has_ending && (index > 0 || !is_before_noun)
                || index > 0 && !token.is_capital && !is_before_noun
        }
        _ => false,
    };
    clause.iter().enumerate().position(is_verb)
}

/// Whether the token is a pronoun that after a verb is its subject: "Bargeld können sie abheben".
fn is_subject_pronoun(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Class(WordClass::Pronoun, "er" | "sie" | "es"))
}

/// The range of the first noun phrase after `from` that is not of a preposition and can be a subject.
fn noun_phrase(clause: &[Token], from: usize, language: &LanguageTables) -> Option<Range<usize>> {
    const NOT_SUBJECTS: [&str; 5] = ["den", "dem", "einen", "einem", "des"];
    let mut start = from;
    while clause.get(start).is_some_and(is_like_preposition) {
        start = noun_end(clause, start + 1)?;
    }
    let first = clause.get(start)?;
    if is_subject_pronoun(first) && start == from {
        return Some(start..start + 1);
    }
    let is_article = matches!(first.kind, TokenKind::Class(WordClass::Function, name) if language.articles.contains(&name) || name.starts_with("ein"));
    let is_object = matches!(first.kind, TokenKind::Class(_, name) if NOT_SUBJECTS.contains(&name));
    if is_object || !is_article && !first.is_word_or_quantity() {
        return None;
    }
    Some(start..noun_end(clause, start)?)
}

/// The end of the phrase at `start`: after its first noun, or after its quantity if no noun follows.
pub(super) fn noun_end(clause: &[Token], start: usize) -> Option<usize> {
    let is_before = |token: &&Token| token.is(WordClass::Function) || token.is_word() && !token.is_capital;
    let rest = clause.get(start..)?;
    let at = start + rest.iter().take_while(is_before).count();
    let first = clause.get(at)?;
    let is_noun = |token: &Token| token.is_word() && token.is_capital;
    match () {
        () if is_noun(first) => Some(at + 1),
        () if first.is_quantity() => {
            let noun = at + 1 + clause.get(at + 1..)?.iter().take_while(is_before).count();
            Some(if clause.get(noun).is_some_and(is_noun) { noun + 1 } else { at + 1 })
        }
        () => None,
    }
}
