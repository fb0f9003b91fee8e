//! Reads a sentence: its conditions and attributions, and its parts.

use super::language::{LanguageTables, WordClass};
use super::listed_words::replace_listed;
use super::part::{Frame, Part, PartReader, Subject};
use super::tokens::DEFINITE;
use super::tokens::{TOKENS_MAX, Token, TokenKind, tokens};
use super::verb::{is_introduction, noun_end, put_subject_first, verb_at};
use std::borrow::Cow;
use std::collections::HashMap;

/// A sentence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sentence {
    /// It as one part, if it has several.
    pub(crate) whole: Option<Part>,
    pub(crate) parts: Vec<Part>,
    /// The same parts with full names in place of their last words; empty if there are none.
    pub(crate) named: Vec<Part>,
    /// Its words and marks; empty if equal words can have another meaning.
    pub(crate) verbatim: String,
    /// Whether it has a negation, a condition, a source or another limit. As a heading, it limits what follows.
    pub(crate) is_limiting: bool,
    /// Whether it can refer to the sentence before.
    pub(crate) is_referring: bool,
    /// Whether it can state that another one is true or false.
    pub(crate) is_on_truth: bool,
    /// The whole sentence, if it was composed from several ranges of the text.
    pub(crate) composed: Option<String>,
}

impl Sentence {
    /// Marks every part as undecidable, for `reason`.
    pub(crate) fn set_undecidable(&mut self, reason: &'static str) {
        self.verbatim.clear();
        self.named.clear();
        for part in self.parts.iter_mut().chain(&mut self.whole) {
            part.undecidable = Some(reason);
        }
    }

    /// Records that the sentence was composed from a text of `bytes` bytes and others, such as a cell and its heads.
    pub(crate) fn compose(&mut self, composed: String, bytes: usize) {
        for part in self.parts.iter_mut().chain(&mut self.named).chain(&mut self.whole) {
            part.range = 0..bytes;
        }
        self.composed = Some(composed);
    }

    /// Moves the ranges to the text without its first `bytes`.
    pub(crate) fn remove_lead(&mut self, bytes: usize) {
        for part in self.parts.iter_mut().chain(&mut self.named).chain(&mut self.whole) {
            part.range = part.range.start.saturating_sub(bytes)..part.range.end.saturating_sub(bytes);
        }
    }
}

/// Reads the sentences of a text in their order.
pub(crate) struct TextReader<'l> {
    language: &'l LanguageTables,
    /// The subject of the sentence before.
    subject: Subject,
    /// The names of several words in the sentences before, by the stem of their last word; `None` if several have it.
    names: HashMap<String, Option<Vec<Token>>>,
}

impl<'l> TextReader<'l> {
    pub(crate) fn new(language: &'l LanguageTables) -> Self {
        Self { language, subject: Subject::default(), names: HashMap::new() }
    }

    /// Reads `text`, the next sentence.
    pub(crate) fn read(&mut self, text: &str) -> Sentence {
        let tokens = replace_listed(tokens(text, self.language), text, self.language);
        if tokens.len() > TOKENS_MAX {
            let part = Part::undecidable(0..text.len(), "the sentence is too long");
            return Sentence { parts: vec![part], ..Sentence::default() };
        }
        let named = self.with_full_names(&tokens).map(|tokens| self.read_parts(tokens, text).0);
        let names = names(&tokens);
        let is_referring = tokens.iter().any(|token| {
            token.is(WordClass::Pronoun)
                || token
                    .stem(self.language)
                    .is_some_and(|stem| self.language.reference_stems.contains(&&*stem))
        });
        let is_limiting = tokens.iter().any(|token| {
            token.is_limit()
                || token.is(WordClass::Condition)
                || token.is(WordClass::Attribution)
                || token.stem(self.language).is_some_and(|stem| self.language.doubt_stems.contains(&&*stem))
                || token.word_text().is_some_and(|word| self.language.doubt_stems.contains(&word))
        });
        let is_on_truth = tokens.iter().any(|token| {
            token.word_text().is_some_and(|word| self.language.truth_words.contains(&word))
                || token.names(WordClass::Negation, "false")
        });
        let is_ambiguous = tokens.iter().any(Token::is_ambiguous);
        let is_anaphoric = is_anaphoric(&tokens);
        let (parts, whole) = self.read_parts(tokens, text);
        if let Some(subject) = first_subject(&parts) {
            self.subject = subject;
        }
        names.into_iter().for_each(|(name, is_full)| self.add_name(name, is_full));
        let named = named.filter(|named| named.len() == parts.len()).unwrap_or_default();
        let (mut parts, mut whole) = (parts, whole);
        for part in parts.iter_mut().chain(&mut whole).filter(|_| is_anaphoric) {
            part.undecidable = Some("the sentence before says what it is about");
        }
        let is_open = is_question_or_task(text) || is_ambiguous || is_referring || is_anaphoric;
        let verbatim = if is_open { String::new() } else { verbatim(text) };
        Sentence { whole, parts, named, verbatim, is_limiting, is_referring, is_on_truth, composed: None }
    }

    /// Forgets the subject, so that no pronoun refers to an earlier sentence.
    pub(crate) fn forget_subject(&mut self) {
        self.subject = Subject::default();
    }

    fn add_name(&mut self, name: Vec<Token>, is_full: bool) {
        let last = name.last().and_then(|last| last.stem(self.language)).map(Cow::into_owned);
        let Some(last) = last else { return };
        let stem = |token: &'_ Token| token.stem(self.language).map(Cow::into_owned);
        let is_same = |known: &Vec<Token>| known.iter().map(stem).eq(name.iter().map(stem));
        let is_only =
            is_full && self.names.get(&last).is_none_or(|known| known.as_ref().is_some_and(is_same));
        self.names.insert(last, is_only.then_some(name));
    }

    /// The parts of `tokens`, and all of them as one part if there are several.
    fn read_parts(&self, tokens: Vec<Token>, text: &str) -> (Vec<Part>, Option<Part>) {
        let mut parts = Vec::new();
        let mut previous = self.subject.clone();
        let pieces = split_at_sources(tokens);
        let mut whole = None;
        let is_one = pieces.len() == 1;
        for clauses in pieces {
            let (mut read, all) = read_clauses(clauses, text, self.language, &previous);
            parts.append(&mut read);
            whole = all.filter(|_| is_one);
            previous = first_subject(&parts).unwrap_or(previous);
        }
        if is_question_or_task(text) || is_quotation(text) {
            for part in parts.iter_mut().chain(&mut whole) {
                part.undecidable = Some("the sentence is a question, an open task or a quotation");
            }
        }
        (parts, whole)
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
            let name = stem.and_then(|stem| self.names.get(&*stem)).and_then(Option::as_ref);
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

/// Whether the subject of a sentence is in the one before: "All have a balcony", "The rest is red", "In that case, …".
fn is_anaphoric(tokens: &[Token]) -> bool {
    let is_verb = |token: &Token| token.is(WordClass::Auxiliary) || token.is(WordClass::Verb);
    match tokens {
        [first, second, ..] if first.is_limit() && is_verb(second) => true,
        [first, second, third, ..] => {
            let is_rest =
                second.word_text().is_some_and(|word| matches!(word, "rest" | "others" | "remainder"));
            let is_case = third.word_text().is_some_and(|word| matches!(word, "case" | "fall"));
            first.is(WordClass::Function) && is_rest && is_verb(third)
                || first.is(WordClass::Preposition) && is_case && !second.is(WordClass::Function)
        }
        _ => false,
    }
}

/// Whether `text` is a question or an open task.
fn is_question_or_task(text: &str) -> bool {
    text.contains(['?', '？']) || text.contains("[ ]")
}

/// Whether `text` has a quotation of three words or more.
fn is_quotation(text: &str) -> bool {
    let mut pieces = text.split(['"', '“', '”', '„', '«', '»']).skip(1).step_by(2);
    pieces.any(|quoted| quoted.split_whitespace().count() > 2)
}

/// The names of several words in `tokens`, and the nouns that name something else: "a bridge", "the gate in the south".
fn names(tokens: &[Token]) -> Vec<(Vec<Token>, bool)> {
    let is_word = |token: &Token| token.is_word() && !token.is(WordClass::Verb);
    let mut names = Vec::new();
    let mut start = 0;
    for run in tokens.chunk_by(|one, other| is_word(one) == is_word(other)) {
        let end = start + run.len();
        let is_definite = start.checked_sub(1).and_then(|before| tokens.get(before)).is_some_and(|before| {
            matches!(before.kind, TokenKind::Class(WordClass::Function, name) if DEFINITE.contains(&name))
        });
        let is_narrowed = tokens.get(end).is_some_and(|next| next.is(WordClass::Preposition));
        if run.first().is_some_and(is_word) && (run.len() > 1 || !is_definite || is_narrowed) {
            names.push((run.to_vec(), run.len() > 1 && !is_narrowed));
        }
        start = end;
    }
    names
}

/// The subject for the pronouns of the next sentence: that of the first part that has one.
fn first_subject(parts: &[Part]) -> Option<Subject> {
    parts.iter().filter_map(Part::as_subject).next()
}

pub(super) const UNSPLIT: &str = "the sentence cannot be split into claims";

/// Splits the tokens of a sentence so that each piece has at most one source: "the maker says …, but the shop says …".
fn split_at_sources(tokens: Vec<Token>) -> Vec<Vec<Token>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Token> = Vec::new();
    for token in tokens {
        let has_source = |piece: &[Token]| piece.iter().any(|token| token.is(WordClass::Attribution));
        let last_joint = piece.iter().rposition(|token| token.is(WordClass::Conjunction));
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

/// Reads clauses with common conditions and at most one source: their parts, and all of them as one part if there are several.
fn read_clauses(
    mut tokens: Vec<Token>,
    text: &str,
    language: &LanguageTables,
    previous: &Subject,
) -> (Vec<Part>, Option<Part>) {
    let last_break = tokens.iter().rposition(Token::is_break_or_joint);
    let is_frame = |token: &Token| token.is(WordClass::Condition) || token.is(WordClass::Attribution);
    let first_frame = tokens.iter().position(is_frame);
    let is_framed_last = first_frame.zip(last_break).is_some_and(|(frame, last)| frame > last);
    let frames = take_frames(&mut tokens, text, language);
    tokens.truncate(tokens.iter().rposition(|token| !token.is_break()).map_or(0, |last| last + 1));
    let follows_frame = first_frame == Some(0);
    let mut segments = segments(&tokens, text, language);
    join_subject(&mut segments, language);
    let has_several = segments.len() > 1;
    let mut reader = PartReader::new(language, previous);
    let mut parts = Vec::new();
    let count = segments.len();
    for (index, Segment { mut tokens, is_certain, is_joined, is_shared, is_apposed }) in
        segments.into_iter().enumerate()
    {
        if language.is_verb_second {
            put_subject_first(&mut tokens, language, index == 0 && follows_frame);
        }
        // it holds for all parts
        if index == 0 && count > 1 && reader.introduce(&tokens) {
            continue;
        }
        let mut part = reader.read(&tokens);
        part.is_joined = is_joined;
        part.is_shared = is_shared;
        part.shares_words = is_apposed;
        if !is_certain {
            part.undecidable = Some(UNSPLIT);
        }
        parts.push(part);
    }
    let is_doubtful = |token: &Token| token.names(WordClass::Qualifier, "respectively");
    // "The lamp and the desk are red."
    let has_many_subjects = parts.len() > 1 && parts.first().is_some_and(|part: &Part| !part.has_verb);
    // "If A, then B, and if C, then D"
    let has_many_conditions = parts.len() > 1 && frames.len() > 1;
    if tokens.iter().any(is_doubtful) || has_many_subjects || has_many_conditions || has_tail(&tokens) {
        for part in &mut parts {
            part.undecidable = Some(UNSPLIT);
        }
    }
    find_shared_words(&mut parts);
    let mut whole = (has_several && !has_many_conditions).then(|| {
        let mut tokens = tokens;
        if language.is_verb_second {
            put_subject_first(&mut tokens, language, follows_frame);
        }
        PartReader::new(language, previous).read(&tokens)
    });
    let frames = with_nouns(frames, &parts);
    let last = parts.len().saturating_sub(1);
    for (index, part) in parts.iter_mut().enumerate() {
        part.frames.clone_from(&frames);
        part.is_freely_framed = is_framed_last && index < last;
    }
    if let Some(whole) = &mut whole {
        whole.frames = frames;
    }
    (parts, whole)
}

/// Marks the parts that may share words with a later one: "oil and gas heaters", "12 men and women", "bikes and scooters
/// under warranty".
fn find_shared_words(parts: &mut [Part]) {
    const SHARED: &str = "it is uncertain which amount the parts of the sentence share";
    let is_clause = |index: &usize| parts.get(*index).is_some_and(|part| part.is_clause || *index == 0);
    let starts: Vec<usize> = (0..parts.len()).filter(is_clause).collect();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(parts.len());
        let Some([first, others @ ..]) = parts.get_mut(*start..end) else { continue };
        let is_amount_shared = others.iter().any(|other| other.shares_amount_of(first));
        let is_shared = others.iter().any(|other| !other.is_apart_from(first));
        let has_shared_tail = first.form.phrases.is_empty()
            && others.last().is_some_and(|last| !last.has_verb && last.form.ends_in_phrase);
        for part in [first].into_iter().chain(others) {
            part.is_shared |= is_shared;
            part.shares_words |= has_shared_tail;
            if is_amount_shared {
                part.undecidable = Some(SHARED);
            }
        }
    }
}

/// `frames` with the subject of the first of `parts` in place of "it": "only if it is locked".
fn with_nouns(frames: Vec<Frame>, parts: &[Part]) -> Vec<Frame> {
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
    tokens
        .split(Token::is_break_or_joint)
        .any(|piece| piece.iter().any(Token::is_limit) && !piece.iter().any(Token::is_word_or_quantity))
}

/// The tokens of a part.
struct Segment {
    tokens: Vec<Token>,
    /// Whether it can be true or false by itself.
    is_certain: bool,
    /// Whether a claim with it needs a fact with the whole sentence.
    is_joined: bool,
    /// Whether something after a comma may limit it.
    is_shared: bool,
    /// Whether the last one names the one before once more: "Ben, a doctor".
    is_apposed: bool,
}

/// The segments of a sentence: it is split at commas, "and", "but" and clauses with "which". A segment after a comma that
/// begins with a preposition and has no verb belongs to the one before.
fn segments(tokens: &[Token], text: &str, language: &LanguageTables) -> Vec<Segment> {
    let mut reader = SegmentReader {
        language,
        segments: Vec::new(),
        open: Vec::new(),
        follows_comma: false,
        is_certain: true,
        is_joined: false,
        commas: Vec::new(),
        follows_joint: false,
    };
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        let is_joint = token.is(WordClass::Conjunction);
        let is_break = |token: Option<&Token>| token.is_some_and(Token::is_break);
        let is_content = |next: &Token| next.is(WordClass::Complementizer);
        if token.is_break() && next.is_some_and(is_content) {
            // "expects, that" is one statement
            continue;
        }
        // "the lamp that is red"
        let is_verb = |next: &Token| next.is(WordClass::Auxiliary) || next.is(WordClass::Verb);
        let is_relative =
            token.is(WordClass::Relative) || token.is(WordClass::Complementizer) && next.is_some_and(is_verb);
        let is_between = |token: &Token| token.names(WordClass::Preposition, "between");
        let is_range = is_joint && reader.open.iter().rev().skip(1).take(3).any(is_between);
        if is_range || !(token.is_break() || is_joint || is_relative) {
            reader.open.push(token.clone());
            continue;
        }
        reader.close();
        let antecedent = reader.antecedent(token);
        // ", and" is a joint
        reader.follows_joint = is_joint || reader.open.is_empty() && reader.follows_joint && token.is_break();
        if is_relative && !reader.follows_comma {
            // "pays the damage that is reported in time"
            reader.is_certain = false;
        }
        reader.follows_comma = token.is_break();
        match &token.kind {
            TokenKind::Class(WordClass::Conjunction, "nor") => {
                reader
                    .open
                    .push(Token { kind: TokenKind::Class(WordClass::Negation, "no"), ..token.clone() });
            }
            // "any country but Spain", "knows the rules as well as the boss"
            TokenKind::Class(WordClass::Conjunction, "and") if reader.is_no_joint(token, text) => {
                reader.is_certain = false;
            }
            // "red or blue" states neither
            TokenKind::Class(WordClass::Conjunction, "or") => reader.is_certain = false,
            // ", while" contrasts
            TokenKind::Class(WordClass::Conjunction, "while")
                if is_break(index.checked_sub(1).and_then(|before| tokens.get(before))) => {}
            // "closed because it rained" states more than both
            TokenKind::Class(WordClass::Conjunction, name) if *name != "and" => reader.is_joined = true,
            _ => {}
        }
        if is_relative {
            reader.open.push(token.clone());
            reader.open.extend(antecedent);
        }
    }
    reader.close();
    let is_content = |token: &Token| token.is(WordClass::Complementizer);
    // "dreams that the shop burned and the bank is bankrupt", "the lamp is red, a lie"
    let has_content = tokens.iter().any(is_content);
    let has_afterthought = reader.has_afterthought();
    let SegmentReader { mut segments, is_certain, is_joined, .. } = reader;
    let is_split = segments.len() > 1;
    let is_noun = segments.last().is_some_and(|last| is_noun_phrase(&last.tokens, language));
    for segment in &mut segments {
        segment.is_certain &= is_certain && !(is_split && has_content);
        segment.is_joined = is_joined;
        segment.is_shared = is_split && has_afterthought;
        segment.is_apposed = is_split && has_afterthought && is_noun;
    }
    segments
}

/// Whether `tokens` begin with an article and have no verb.
fn is_noun_phrase(tokens: &[Token], language: &LanguageTables) -> bool {
    tokens.first().is_some_and(|first| first.is(WordClass::Function)) && verb_at(tokens, language).is_none()
}

struct SegmentReader<'l> {
    language: &'l LanguageTables,
    segments: Vec<Segment>,
    open: Vec<Token>,
    follows_comma: bool,
    is_certain: bool,
    /// Whether the parts are joined by a reason.
    is_joined: bool,
    /// For each segment after the first, whether only a comma stands before it.
    commas: Vec<bool>,
    follows_joint: bool,
}

impl SegmentReader<'_> {
    fn close(&mut self) {
        let mut tokens = std::mem::take(&mut self.open);
        if !tokens.iter().any(Token::is_word_or_quantity) {
            return;
        }
        let has_verb = |tokens: &[Token]| verb_at(tokens, self.language).is_some();
        let is_rest = self.follows_comma
            && tokens.first().is_some_and(|first| first.is(WordClass::Preposition))
            && !has_verb(&tokens);
        // "…, der beißt" is a clause about a noun
        let is_clause = self.language.is_verb_second
            && self.follows_comma
            && tokens.first().is_some_and(|first| first.is(WordClass::Function))
            && tokens.get(1).is_some_and(|next| !next.is_capital || next.range.start == 0)
            && tokens.last().is_some_and(|last| !last.is_capital && !last.is_quantity());
        match self.segments.last_mut() {
            Some(last) if is_rest && has_verb(&last.tokens) => last.tokens.append(&mut tokens),
            _ => {
                if !self.segments.is_empty() {
                    let is_relative = tokens.first().is_some_and(|first| first.is(WordClass::Relative));
                    self.commas.push(!self.follows_joint && !is_relative);
                }
                self.segments.push(Segment {
                    tokens,
                    is_certain: !is_clause,
                    is_joined: false,
                    is_shared: false,
                    is_apposed: false,
                });
            }
        }
    }

    /// Whether `joint` compares, or is a "but" that excludes something from all.
    fn is_no_joint(&self, joint: &Token, text: &str) -> bool {
        let written = text.get(joint.range.clone()).unwrap_or_default();
        let is_but = written.eq_ignore_ascii_case("but");
        let is_whole = |token: &Token| {
            token.is(WordClass::Negation)
                || matches!(
                    token.kind,
                    TokenKind::Class(WordClass::Qualifier, "all" | "every" | "any" | "always")
                )
                || token.word_text().is_some_and(|word| word.starts_with("every") || word.starts_with("any"))
        };
        let last = self.segments.last().filter(|_| is_but && !self.follows_comma);
        last.is_some_and(|last| last.tokens.iter().any(is_whole))
            || written.eq_ignore_ascii_case("as well as") && !self.follows_comma
    }

    /// Whether a comma begins something that is no item of a list with "and": "the lamp is red, a lie". An introduction may
    /// end with one.
    fn has_afterthought(&self) -> bool {
        let is_introduced =
            self.segments.first().is_some_and(|first| is_introduction(&first.tokens, self.language));
        let commas = self.commas.get(usize::from(is_introduced)..).unwrap_or_default();
        commas.last().is_some_and(|is_comma| *is_comma)
    }

    /// The noun at the end of the last segment that `token`, "which" or "who" after a comma, refers to. It is empty if there
    /// may be another one.
    fn antecedent(&self, token: &Token) -> Vec<Token> {
        let is_pronoun = matches!(token.kind, TokenKind::Class(WordClass::Relative, "which" | "who"));
        let Some(last) = self.segments.last().filter(|_| is_pronoun && self.follows_comma) else {
            return Vec::new();
        };
        let before = &last.tokens;
        let count =
            before.iter().rev().take_while(|token| token.is_word() && !token.is(WordClass::Verb)).count();
        let (rest, noun) = before.split_at(before.len() - count);
        let is_article = |token: &&Token| token.is(WordClass::Function);
        let is_of_another = rest.iter().rev().find(|token| !is_article(token)).is_some_and(|before| {
            before.is(WordClass::Preposition) && !before.names(WordClass::Preposition, self.language.by)
        });
        if is_of_another { Vec::new() } else { noun.to_vec() }
    }
}

/// Joins a subject and its verb around a clause: "The lamp, which costs 49 €, is red".
fn join_subject(segments: &mut Vec<Segment>, language: &LanguageTables) {
    let [subject, clause, rest, ..] = segments.as_mut_slice() else { return };
    let is_clause = clause.tokens.first().is_some_and(|first| first.is(WordClass::Relative));
    if is_clause && verb_at(&subject.tokens, language).is_none() && verb_at(&rest.tokens, language) == Some(0)
    {
        subject.tokens.append(&mut rest.tokens);
        segments.remove(2);
    }
}

/// The words and marks of a sentence, without the one at its end, its first letter in lower case.
fn verbatim(text: &str) -> String {
    let end = |last: char| last.is_whitespace() || matches!(last, '.' | '!');
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = text.trim_end_matches(end).chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

/// Removes the conditions and attributions from `tokens`.
fn take_frames(tokens: &mut Vec<Token>, text: &str, language: &LanguageTables) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(at) = tokens.iter().position(|token| token.is(WordClass::Condition)) {
        let comma = tokens.iter().skip(at).position(Token::is_break).map(|length| at + length);
        // a rest without a verb belongs to a condition at the end: "if you cancel within a day, in writing"
        let is_clause =
            |comma: &usize| at == 0 || verb_at(tokens.get(*comma..).unwrap_or_default(), language).is_some();
        let end = comma.filter(is_clause).unwrap_or(tokens.len());
        frames.push(frame(tokens.drain(at..end), language));
    }
    frames.sort_unstable_by(|one, other| (one.kind, &one.words).cmp(&(other.kind, &other.words)));
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
            let is_that = tokens.get(at + 1).is_some_and(|next| next.is(WordClass::Complementizer));
            start_of_clause..at + 1 + usize::from(is_that)
        };
        frames.push(frame(tokens.drain(range), language));
    }
    frames
}

fn frame(tokens: impl Iterator<Item = Token>, language: &LanguageTables) -> Frame {
    let (mut kind, mut words, mut shown) = ("", Vec::new(), String::new());
    for token in tokens {
        let known = words.len();
        match token.kind {
            TokenKind::Class(WordClass::Condition | WordClass::Attribution, name) if kind.is_empty() => {
                kind = name;
            }
            TokenKind::Class(WordClass::Function, _) | TokenKind::Break | TokenKind::Colon => {}
            TokenKind::Class(WordClass::Complementizer, "that" | "dass") => {}
            TokenKind::Class(WordClass::Auxiliary, name) if language.past_auxiliaries.contains(&name) => {
                words.push(name.to_owned());
            }
            TokenKind::Class(WordClass::Auxiliary, name) => words.push(language.lemma(name).to_owned()),
            TokenKind::Class(_, name) => words.push(name.to_owned()),
            // the words of a group compare as one
            TokenKind::Word(word) if word.own_stem.is_some() => words.push(word.stem.clone()),
            TokenKind::Word(word) => words.push(word.noun.clone()),
            TokenKind::Quantity(quantity) => words.push(quantity.to_string()),
        }
        let word = words.get(known).map(|word| if token.written.is_empty() { word } else { &token.written });
        shown.extend(word.into_iter().flat_map(|word| [" ", word]));
    }
    Frame { kind, words, shown: format!("{kind}{shown}") }
}
