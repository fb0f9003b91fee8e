//! Word lists: registered documents with a caller's synonyms, abbreviations and units for RULE-PREC-013, immutable under
//! their version.

#[cfg(test)]
mod tests;

use crate::result::TextLanguage;
use crate::statements::{LanguageTables, ReservedUse, is_read_after_number, read_entry, read_unit};
use domain_base::decimal::{Decimal, DecimalText};
use domain_base::digest::Sha256Hex;
use domain_base::document::{Document, DocumentVersions};
use domain_base::wording::{excerpt, format_count};
use domain_ground::id::WordlistId;
use domain_ground::version_name::WordlistRef;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use utoipa::ToSchema;

/// The most groups of synonyms, and the most abbreviations.
const ENTRIES_MAX: usize = 1_000;
/// The number of words and phrases of a group.
const GROUP_SIZES: RangeInclusive<usize> = 2..=16;
/// The number of words of a phrase.
const PHRASE_WORDS: RangeInclusive<usize> = 1..=4;
/// The most units.
const UNITS_MAX: usize = 100;
/// The longest text, in bytes.
const TEXT_MAX_BYTES: usize = 64;
/// The longest factor, in characters.
const FACTOR_MAX_CHARS: usize = 24;

/// A word list: one version of the synonyms, abbreviations and units with which RULE-PREC-013 reads a text and its facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wordlist {
    /// The id, the same for all versions.
    pub wordlist_id: WordlistId,
    /// The version. The newest version is the one with the highest number.
    #[schema(minimum = 1)]
    pub version: u32,
    /// The language of the words.
    pub language: TextLanguage,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Groups of words and phrases that mean the same: at most 1,000 groups, each of 2 to 16 words or phrases. A phrase has up to
    /// 4 words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub synonyms: Vec<Vec<String>>,
    /// Abbreviations, each with its word or phrase; at most 1,000. Case-sensitive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub abbreviations: BTreeMap<String, String>,
    /// Spellings of units after a number; at most 100. Case-sensitive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, WordlistUnit>,
}

/// A unit of a word list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordlistUnit {
    /// The unit to which this one is converted, such as `g`.
    pub unit: String,
    /// The number of `unit` in one of this unit; 1 if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalText>)]
    pub factor: Option<Decimal>,
}

/// Why a word list is rejected. `field` is the path of the member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordlistError {
    /// The version is 0.
    #[error("`version` is 0 (1 to {} allowed)", u32::MAX)]
    Version,
    /// There is no entry.
    #[error("the list has no entry; add one to `synonyms`, `abbreviations` or `units`")]
    Empty,
    /// A list or a map has too few or too many entries.
    #[error("`{field}` has {} ({} to {} allowed)", format_count(*given as u64, "entry", "entries"), allowed.start(), allowed.end())]
    Count { field: String, given: usize, allowed: RangeInclusive<usize> },
    /// A text is empty or too long.
    #[error("`{field}` has {bytes} bytes (1 to {TEXT_MAX_BYTES} allowed)")]
    Length { field: String, bytes: usize },
    /// A text has a character that no word has.
    #[error(
        "`{field}` is `{text}`, with the character `{character}` (letters, spaces, `-`, `'` and `&` allowed)"
    )]
    Character { field: String, text: String, character: char },
    /// An abbreviation is not one word.
    #[error("`{field}` is not one word; write its letters without spaces and signs")]
    NotOneWord { field: String },
    /// A phrase has too many words, or none.
    #[error("`{field}` is `{text}`, with {words} words ({} to {} allowed)", PHRASE_WORDS.start(), PHRASE_WORDS.end())]
    Words { field: String, text: String, words: usize },
    /// A word has a use of its own in the rule.
    #[error("`{field}` is `{text}`: the rule reads `{word}` as {}; use another word", <&str>::from(used))]
    Reserved { field: String, text: String, word: String, used: ReservedUse },
    /// Two entries are one word.
    #[error("`{field}` is `{text}`, which is the same word as `{other}`; write it once")]
    Twice { field: String, text: String, other: String },
    /// The rule knows the spelling of a unit.
    #[error("`{field}` is already a unit or a number word; use another spelling")]
    UnitKnown { field: String },
    /// The rule does not know a unit.
    #[error("`{field}` is `{text}`, which is not a unit of the rule; use a unit such as `g`, `m` or `hours`")]
    UnitUnknown { field: String, text: String },
    /// A factor is out of range.
    #[error("`{field}` is {factor} (more than 0, with up to {FACTOR_MAX_CHARS} characters, allowed)")]
    Factor { field: String, factor: Decimal },
}

impl Document for Wordlist {
    const KIND: &'static str = "wordlist";
    const DISTINGUISHING_MEMBER: &'static str = "wordlist_id";
    const VERSIONS: DocumentVersions = DocumentVersions::Numbered;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }
}

impl Wordlist {
    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> WordlistRef {
        WordlistRef { id: self.wordlist_id.clone(), version: self.version }
    }

    /// Validates a document.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), WordlistError> {
        self.compile().map(drop)
    }

    /// The length of its words, in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        let abbreviations = self.abbreviations.iter().map(|(short, words)| short.len() + words.len());
        let units = self.units.iter().map(|(spelling, unit)| spelling.len() + unit.unit.len());
        self.synonyms.iter().flatten().map(String::len).chain(abbreviations).chain(units).sum()
    }

    /// The tables of its language with its words.
    fn compile(&self) -> Result<LanguageTables, WordlistError> {
        let Self { version, language, synonyms, abbreviations, units, .. } = self;
        if *version == 0 {
            return Err(WordlistError::Version);
        }
        if synonyms.is_empty() && abbreviations.is_empty() && units.is_empty() {
            return Err(WordlistError::Empty);
        }
        check_count("synonyms", synonyms.len(), 0..=ENTRIES_MAX)?;
        check_count("abbreviations", abbreviations.len(), 0..=ENTRIES_MAX)?;
        check_count("units", units.len(), 0..=UNITS_MAX)?;
        let mut reader = EntryReader { language: language.tables(), fields: HashMap::new() };
        let mut compiled = reader.language.clone();
        for (index, group) in synonyms.iter().enumerate() {
            let field = format!("synonyms[{index}]");
            check_count(&field, group.len(), GROUP_SIZES)?;
            let members = group.iter().enumerate();
            let members: Result<Vec<_>, _> =
                members.map(|(member, text)| reader.read_new(format!("{field}[{member}]"), text)).collect();
            compiled.vocabulary.add_group(members?);
        }
        for (abbreviation, words) in abbreviations {
            let field = format!("abbreviations.{}", excerpt(abbreviation));
            if reader.read_new(field.clone(), abbreviation)?.len() != 1
                || !abbreviation.chars().all(char::is_alphabetic)
            {
                return Err(WordlistError::NotOneWord { field });
            }
            reader.read(&field, words)?;
            compiled.vocabulary.add_abbreviation(abbreviation.clone(), words.clone());
        }
        for (spelling, unit) in units {
            let field = format!("units.{}", excerpt(spelling));
            reader.read(&field, spelling)?;
            let (factor, base) = reader.read_unit(&field, spelling, unit)?;
            compiled.vocabulary.add_unit(spelling.clone(), factor, base);
        }
        Ok(compiled)
    }
}

fn check_count(field: &str, given: usize, allowed: RangeInclusive<usize>) -> Result<(), WordlistError> {
    if allowed.contains(&given) {
        return Ok(());
    }
    Err(WordlistError::Count { field: field.to_owned(), given, allowed })
}

/// Reads the entries of a list.
struct EntryReader {
    language: &'static LanguageTables,
    /// The field of each word and phrase, by its stems.
    fields: HashMap<Vec<String>, String>,
}

impl EntryReader {
    /// The stems of a word or a phrase.
    fn read(&self, field: &str, text: &str) -> Result<Vec<String>, WordlistError> {
        let field = || field.to_owned();
        if !(1..=TEXT_MAX_BYTES).contains(&text.len()) {
            return Err(WordlistError::Length { field: field(), bytes: text.len() });
        }
        let is_allowed = |character: &char| character.is_alphabetic() || " -'’&".contains(*character);
        if let Some(character) = text.chars().find(|character| !is_allowed(character)) {
            return Err(WordlistError::Character { field: field(), text: text.to_owned(), character });
        }
        let stems = read_entry(text, self.language).map_err(|(word, used)| WordlistError::Reserved {
            field: field(),
            text: text.to_owned(),
            word,
            used,
        })?;
        if !PHRASE_WORDS.contains(&stems.len()) {
            return Err(WordlistError::Words { field: field(), text: text.to_owned(), words: stems.len() });
        }
        Ok(stems)
    }

    /// The stems of a word or a phrase that no other entry has.
    fn read_new(&mut self, field: String, text: &str) -> Result<Vec<String>, WordlistError> {
        let stems = self.read(&field, text)?;
        let key = stems.iter().map(|stem| stem.to_lowercase()).collect();
        match self.fields.insert(key, field.clone()) {
            Some(other) => Err(WordlistError::Twice { field, text: text.to_owned(), other }),
            None => Ok(stems),
        }
    }

    /// The base of a unit, and the number of bases.
    fn read_unit(
        &self,
        field: &str,
        spelling: &str,
        WordlistUnit { unit, factor }: &WordlistUnit,
    ) -> Result<(Decimal, String), WordlistError> {
        if is_read_after_number(spelling, self.language) {
            return Err(WordlistError::UnitKnown { field: field.to_owned() });
        }
        let (bases, base) = read_unit(unit, self.language).ok_or_else(|| WordlistError::UnitUnknown {
            field: format!("{field}.unit"),
            text: excerpt(unit),
        })?;
        let factor = factor.clone().unwrap_or_else(|| Decimal::from(1));
        let is_allowed = factor > Decimal::from(0) && factor.to_string().len() <= FACTOR_MAX_CHARS;
        let product = Some(&factor).filter(|_| is_allowed).and_then(|factor| bases.checked_mul(factor).ok());
        match product {
            Some(product) => Ok((product, base)),
            None => Err(WordlistError::Factor { field: format!("{field}.factor"), factor }),
        }
    }
}

/// A word list with the tables for reading, which are compiled at their first use.
#[derive(Debug, Deserialize)]
#[serde(from = "Wordlist")]
pub struct CompiledWordlist {
    document: Wordlist,
    /// The digest of the document.
    sha256: OnceLock<Sha256Hex>,
    tables: OnceLock<Result<LanguageTables, WordlistError>>,
}

impl CompiledWordlist {
    #[must_use]
    pub const fn document(&self) -> &Wordlist {
        &self.document
    }

    /// The digest of the document.
    #[must_use]
    pub fn sha256(&self) -> &Sha256Hex {
        self.sha256.get_or_init(|| self.document.digest())
    }

    /// The tables of its language with its words.
    ///
    /// # Errors
    /// The list was registered with an earlier release, and is no longer valid.
    pub(crate) fn tables(&self) -> Result<&LanguageTables, &WordlistError> {
        self.tables.get_or_init(|| self.document.compile()).as_ref()
    }
}

impl From<Wordlist> for CompiledWordlist {
    fn from(document: Wordlist) -> Self {
        Self { document, sha256: OnceLock::new(), tables: OnceLock::new() }
    }
}

impl Serialize for CompiledWordlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

impl PartialEq for CompiledWordlist {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

impl Eq for CompiledWordlist {}
